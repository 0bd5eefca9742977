// Times calls on a GPU (nvcc only): what reports/gpu-cost.py runs with and without a hook.
//
//     cost BATCHES PER_BATCH
//
// Calls: cudaLaunchKernel of an empty kernel; the same written kernel<<<1, 32>>>(); cudaMalloc + cudaFree of 512 bytes, while
// another such block is held, for without it each pair would map and unmap memory, which takes 80 us. A batch is followed
// by cudaDeviceSynchronize, which is not timed: it is to fit the GPU's queue, or enqueueing waits for the GPU.
// Out: a line for each, its name, ns a call (or a pair), the median of the batches, and the calls that succeeded. Exit: 0, or
// 2 without a GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void empty() {}

static bool launch() { return cudaLaunchKernel(reinterpret_cast<const void *>(empty), 1, 32, nullptr, 0, nullptr) == cudaSuccess; }

static bool chevron() {
    empty<<<1, 32>>>();
    return cudaGetLastError() == cudaSuccess;
}

static bool pair() {
    void *block = nullptr;
    return cudaMalloc(&block, 512) == cudaSuccess && cudaFree(block) == cudaSuccess;
}

static void time(const char *name, bool (*call)(), int batches, int per_batch) {
    std::vector<double> each;
    long well = 0;
    // The first batch, in which things are set up, is not counted.
    for (int b = 0; b <= batches; ++b) {
        const auto from = std::chrono::steady_clock::now();
        for (int i = 0; i < per_batch; ++i) well += call();
        each.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - from).count() / per_batch);
        cudaDeviceSynchronize();
    }
    each.erase(each.begin());
    std::nth_element(each.begin(), each.begin() + batches / 2, each.end());
    std::printf("%s %.1f %ld\n", name, each[batches / 2], well);
}

int main(int argc, char **argv) {
    const int batches = argc == 3 ? std::atoi(argv[1]) : 0, per_batch = argc == 3 ? std::atoi(argv[2]) : 0;
    if (batches < 1 || per_batch < 1) return 99;
    if (cudaFree(nullptr) != cudaSuccess) return 2;
    void *held = nullptr;
    if (cudaMalloc(&held, 512) != cudaSuccess) return 2;
    time("launch", launch, batches, per_batch);
    time("chevron", chevron, batches, per_batch);
    time("pair", pair, batches, per_batch);
    cudaFree(held);
    return 0;
}
