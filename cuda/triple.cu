/* Shows what a `<<<...>>>` program learns of a refused launch: nothing but cudaGetLastError().
 *
 *     nvcc --cudart=shared triple.cu -o triple
 *     LD_PRELOAD=./libcuda_hook.so CUDA_CORE_RATE=5 CUDA_CORE_CAPACITY=3 ./triple
 *
 * In: the environment above. Out: one line a launch with its code, 0 while the bucket has tokens
 * (three times here), then 4, or what CUDA_CORE_DENY_ERROR says. Exit code 0 when the codes are
 * those the environment implies and asking consumed them, 1 otherwise. nvcc 13 compiles the
 * launches into calls of __cudaLaunchKernel, which a hook on cudaLaunchKernel alone does not see:
 * then every code is 0 and this program fails. Only nvcc compiles it.
 */
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

__global__ void k() {}

static double now_s() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/* A number above 0, or `otherwise` where the variable has none. */
static double positive(const char *name, double otherwise) {
    const char *text = std::getenv(name);
    double value = text ? std::strtod(text, nullptr) : 0;
    return std::isfinite(value) && value > 0 ? value : otherwise;
}

int main() {
    const double capacity = positive("CUDA_CORE_CAPACITY", 0), rate = positive("CUDA_CORE_RATE", 0);
    const bool limited = capacity > 0 && rate > 0; /* a hook needs both */
    const int refused = static_cast<int>(positive("CUDA_CORE_DENY_ERROR", 4));
    bool ok = true;

    /* Loads the kernel, so that the first launch takes no longer than the others. */
    cudaFuncAttributes attributes;
    int code = cudaFuncGetAttributes(&attributes, k);
    if (code != cudaSuccess) {
        std::printf("cudaFuncGetAttributes=%d (%s): no usable GPU or kernel\n", code,
                    cudaGetErrorString(static_cast<cudaError_t>(code)));
        return 1;
    }

    int passed = 0;
    const double start = now_s();
    for (int i = 1; i <= 5; ++i) {
        k<<<1, 32>>>();
        code = cudaGetLastError();
        int again = cudaPeekAtLastError();
        std::printf("launch %d: cudaGetLastError=%d\n", i, code);
        std::fflush(stdout);

        /* Tokens that came back meanwhile may let a launch through; with a hook that waits for
         * its token they let every one through. */
        bool must_pass = !limited || passed + 1 <= std::floor(capacity);
        bool may_pass = must_pass || passed + 1 <= std::floor(capacity + rate * (now_s() - start));
        if (!(code == 0 && may_pass) && !(code == refused && limited && !must_pass)) {
            std::printf("  expected %d\n", may_pass ? 0 : refused);
            ok = false;
        }
        if (again != 0) {
            std::printf("  asked again: %d, expected 0\n", again);
            ok = false;
        }
        if (code == 0) ++passed;
    }
    code = cudaDeviceSynchronize();
    if (code != cudaSuccess) {
        std::printf("cudaDeviceSynchronize=%d, expected 0\n", code);
        ok = false;
    }
    return ok ? 0 : 1;
}
