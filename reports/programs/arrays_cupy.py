"""CuPy: a kernel of one's own, elementwise operations, a matrix product, checked; then a request for 4 GiB."""

import cupy

import marks

N = 1 << 16
STEPS = 25

add_one = cupy.RawKernel(
    r"""
    extern "C" __global__ void add_one(float *x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] += 1;
    }
    """,
    "add_one",
)


def synchronize():
    cupy.cuda.get_current_stream().synchronize()


def main():
    x = cupy.zeros(N, dtype=cupy.float32)
    add_one((N // 256,), (256,), (x, cupy.int32(N)))  # the first launch compiles
    synchronize()
    with marks.Window() as window:
        for _ in range(STEPS):
            add_one((N // 256,), (256,), (x, cupy.int32(N)))
        synchronize()
    window.tell("launches.raw", STEPS)

    # Whole numbers, so that the results are exact; a += b is one kernel.
    y = cupy.ones(N, dtype=cupy.float32)
    x += y
    synchronize()
    with marks.Window() as window:
        for _ in range(STEPS):
            x += y
        synchronize()
    window.tell("launches.elementwise", STEPS)

    a = (cupy.arange(256 * 256, dtype=cupy.float32) % 7).reshape(256, 256)
    product = a @ a
    synchronize()
    with marks.Window() as window:
        for _ in range(5):
            product = a @ a
        synchronize()
    if window.calls is not None:
        marks.say("hook.matmul", window.apis("launch"))

    # Checked on the host, which no hook touches.
    on_host = cupy.asnumpy(a)
    if not (cupy.asnumpy(x) == 2 + 2 * STEPS).all():
        raise marks.Wrong("the sum")
    if not (cupy.asnumpy(product) == on_host @ on_host).all():
        raise marks.Wrong("the product")
    marks.say("result.sum", int(cupy.asnumpy(x).sum(dtype="float64")))
    marks.say("result.product", int(cupy.asnumpy(product).sum(dtype="float64")))
    marks.say("memory.total_mb", cupy.cuda.runtime.memGetInfo()[1] >> 20)

    marks.big(lambda: cupy.empty(1 << 32, dtype=cupy.uint8), cupy.cuda.memory.OutOfMemoryError)


marks.main(main)
