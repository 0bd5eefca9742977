// A <<<...>>> program that knows exactly what it calls: forty launches that add to a sum, a few allocations, and a request
// for 1 GiB at the end, which a quota refuses (nvcc only; with --cudart=static and --default-stream per-thread as well).
//
// Out: `key=value` lines. calls.* is what was called, errors.* what CUDA refused, result the sum, which is right only when
// every launch ran. Exit: 0 all ran, 3 a launch was refused and the program was told, 1 the sum is wrong without any error,
// 2 no usable GPU.
#include <cstdio>

static const int LAUNCHES = 40;
static int launches, launch_errors, launch_code, allocs, alloc_errors, frees;

__global__ void add(unsigned long long *sum, unsigned value) { atomicAdd(sum, value); }

// Counts an allocation; a refusal's last error is not to be taken for a launch's.
static cudaError_t took(cudaError_t code) {
    ++allocs;
    if (code == cudaSuccess) return code;
    ++alloc_errors;
    cudaGetLastError();
    return code;
}

static void gave(cudaError_t code) { frees += code == cudaSuccess; }

int main() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("error=no usable GPU: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 2;
    }
    unsigned long long *sum = nullptr;
    if (took(cudaMalloc(&sum, sizeof *sum)) || cudaMemset(sum, 0, sizeof *sum)) {
        std::printf("error=no memory for the sum\n");
        return 2;
    }
    void *block = nullptr, *ordered = nullptr, *host = nullptr, *big = nullptr;
    const bool have_block = took(cudaMalloc(&block, 64 << 20)) == cudaSuccess;
    if (took(cudaMallocAsync(&ordered, 1 << 20, 0)) == cudaSuccess) gave(cudaFreeAsync(ordered, 0));
    // Host memory is nobody's quota.
    if (cudaMallocHost(&host, 4096) == cudaSuccess) cudaFreeHost(host);

    unsigned long long wanted = 0;
    for (int i = 1; i <= LAUNCHES; ++i) {
        add<<<1, 32>>>(sum, i);
        ++launches;
        if (cudaError_t code = cudaGetLastError()) ++launch_errors, launch_code = code;
        wanted += 32ull * i;
    }
    cudaError_t synchronised = cudaDeviceSynchronize();
    unsigned long long got = 0;
    cudaError_t copied = cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost);

    size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    cudaError_t refused = took(cudaMalloc(&big, size_t{1} << 30));
    if (!refused) gave(cudaFree(big));
    if (have_block) gave(cudaFree(block));
    gave(cudaFree(sum));

    std::printf("result=%llu\nwanted=%llu\n", got, wanted);
    std::printf("calls.launches=%d\ncalls.allocs=%d\ncalls.frees=%d\n", launches, allocs, frees);
    std::printf("errors.launches=%d\nerrors.allocs=%d\n", launch_errors, alloc_errors);
    std::printf("memory.total_mb=%zu\nmemory.free_mb=%zu\n", total_bytes >> 20, free_bytes >> 20);
    if (refused) std::printf("big=refused %d: %s\n", refused, cudaGetErrorString(refused));
    else std::printf("big=granted\n");
    if (launch_errors) {
        std::printf("error=launch refused with %d: %s\n", launch_code, cudaGetErrorString(static_cast<cudaError_t>(launch_code)));
        return 3;
    }
    if (synchronised || copied) std::printf("error=synchronise %d, copy %d\n", synchronised, copied);
    return got != wanted || synchronised || copied;
}
