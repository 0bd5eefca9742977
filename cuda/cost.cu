// Times calls on a GPU (nvcc only): what reports/gpu-cost.py runs with and without a hook.
//
//     cost launch BATCHES PER_BATCH     cudaLaunchKernel of an empty kernel
//     cost chevron BATCHES PER_BATCH    the same written kernel<<<1, 32>>>()
//     cost pairs BATCHES PER_BATCH      cudaMalloc + cudaFree of 1 MiB
//
// A batch is followed by cudaDeviceSynchronize, which is not timed: it is to fit the GPU's queue, or enqueueing waits for
// the GPU. Out: ns a call (or a pair), the median of the batches; then the calls that succeeded. Exit: 0, or 2 without a GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

__global__ void empty() {}

static bool launch() { return cudaLaunchKernel(reinterpret_cast<const void *>(empty), 1, 32, nullptr, 0, nullptr) == cudaSuccess; }

static bool chevron() {
    empty<<<1, 32>>>();
    return cudaGetLastError() == cudaSuccess;
}

static bool pair() {
    void *block = nullptr;
    return cudaMalloc(&block, 1 << 20) == cudaSuccess && cudaFree(block) == cudaSuccess;
}

int main(int argc, char **argv) {
    if (argc != 4) return 99;
    bool (*call)() = !std::strcmp(argv[1], "launch") ? launch : !std::strcmp(argv[1], "chevron") ? chevron : pair;
    const int batches = std::atoi(argv[2]), per_batch = std::atoi(argv[3]);
    if (batches < 1 || per_batch < 1) return 99;
    if (cudaFree(nullptr) != cudaSuccess) return 2;
    for (int i = 0; i < per_batch; ++i) call();
    cudaDeviceSynchronize();

    std::vector<double> each;
    long well = 0;
    for (int b = 0; b < batches; ++b) {
        const auto from = std::chrono::steady_clock::now();
        for (int i = 0; i < per_batch; ++i) well += call();
        each.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - from).count() / per_batch);
        cudaDeviceSynchronize();
    }
    std::nth_element(each.begin(), each.begin() + batches / 2, each.end());
    std::printf("%.1f %ld\n", each[batches / 2], well);
    return 0;
}
