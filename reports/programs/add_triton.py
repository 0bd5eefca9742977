"""A Triton kernel, vector addition, launched sixty times and checked; then a request for 4 GiB.

    add_triton.py            add
    add_triton.py profiled   twenty launches under CUPTI as well, to compare its counts with the hook's
"""

import sys

import torch
import triton
import triton.language as tl

import marks

N = 1 << 16
BLOCK = 1024


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def main():
    # Whole numbers, so that sums are exact.
    x = torch.arange(N, device="cuda", dtype=torch.float32)
    y = torch.ones(N, device="cuda", dtype=torch.float32)

    def add(times):
        for _ in range(times):
            add_kernel[(triton.cdiv(N, BLOCK),)](x, y, x, N, BLOCK=BLOCK)

    add(10)  # the first launch compiles
    torch.cuda.synchronize()
    with marks.Window() as window:
        add(50)
        torch.cuda.synchronize()
    window.tell("launches", 50)

    wanted = torch.arange(N, dtype=torch.float32) + 60
    if not torch.equal(x.cpu(), wanted):
        raise marks.Wrong("the sum")
    marks.say("result.sum", int(wanted.double().sum().item()))
    marks.say("memory.total_mb", torch.cuda.mem_get_info()[1] >> 20)

    if "profiled" in sys.argv[1:]:
        import cupti

        cupti.compare(lambda: add(20))

    marks.big(lambda: torch.empty(1 << 32, dtype=torch.uint8, device="cuda"), torch.OutOfMemoryError)


marks.main(main)
