// Every way of the runtime API to take device memory and to launch, once each (nvcc and a GPU only). Under the hook with
// CUDA_MEM_QUOTA_MB=128 the log shows each under its own name, the total is 0 at the end, and cudaMemGetInfo stays within
// the quota. Prints each call with its code; ends with 0 when all are 0 but the one that asks for 200 MB, which is 2.
#include <cstdio>

static int wrong = 0;
static void check(const char *call, int code, int wanted) {
    std::printf("%s = %d\n", call, code);
    wrong += code != wanted;
}
#define CHECK(call) check(#call, static_cast<int>(call), 0)

__global__ void kernel(float *p) {
    if (p) p[threadIdx.x] += 1;
}

int main() {
    float *p = nullptr, *q = nullptr;
    cudaStream_t stream;
    CHECK(cudaMalloc(&p, 1 << 20));
    CHECK(cudaStreamCreate(&stream));

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    kernel<<<1, 32, 0, stream>>>(p);
    kernel<<<1, 32, 0, stream>>>(p);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));

    cudaChannelFormatDesc texel = cudaCreateChannelDesc<float4>();
    cudaArray_t array, array3;
    cudaMipmappedArray_t mip;
    CHECK(cudaMallocArray(&array, &texel, 1024, 1024));
    CHECK(cudaMalloc3DArray(&array3, &texel, make_cudaExtent(64, 64, 64)));
    CHECK(cudaMallocMipmappedArray(&mip, &texel, make_cudaExtent(256, 256, 0), 5));

    size_t pitch;
    cudaPitchedPtr cube;
    CHECK(cudaMallocPitch(&q, &pitch, 100, 1000));
    std::printf("rows of 100 bytes take %zu\n", pitch);
    CHECK(cudaMalloc3D(&cube, make_cudaExtent(100, 10, 10)));
    CHECK(cudaMallocManaged(&q, 1 << 20));
    CHECK(cudaFree(q));
    CHECK(cudaMallocAsync(&q, 1 << 20, stream));
    CHECK(cudaFreeAsync(q, stream));

    size_t free_bytes, total_bytes;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    std::printf("%zu MB free of %zu MB\n", free_bytes >> 20, total_bytes >> 20);

    cudaLaunchConfig_t config = {};
    config.gridDim = 2;
    config.blockDim = 64;
    config.stream = stream;
    CHECK(cudaLaunchKernelEx(&config, kernel, p));
    void *args[] = {&p};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(kernel), 1, 32, args, 0, stream));
    CHECK(cudaStreamSynchronize(stream));

    CHECK(cudaFreeArray(array));
    CHECK(cudaFreeArray(array3));
    CHECK(cudaFreeMipmappedArray(mip));
    check("cudaMalloc(&q, 200 << 20)", cudaMalloc(&q, 200 << 20), 2);
    check("cudaGetLastError()", cudaGetLastError(), 2);
    CHECK(cudaDeviceReset());
    CHECK(cudaMalloc(&q, 100 << 20));
    CHECK(cudaFree(q));
    return wrong != 0;
}
