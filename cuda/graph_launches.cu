// A program that launches by a CUDA graph: two kernels captured, instantiated, launched forty times (nvcc only).
//
// Out and exit as launches.cu. calls.launches counts the two captured <<<...>>> and the forty cudaGraphLaunch: a kernel that
// is captured takes its token then, and a graph one a launch, whatever is in it.
#include <cstdio>
#include <cstdlib>

static const int LAUNCHES = 40;
static int launches, launch_errors, launch_code;

__global__ void add(unsigned long long *sum, unsigned value) { atomicAdd(sum, value); }

static void launched(cudaError_t code) {
    ++launches;
    if (code) ++launch_errors, launch_code = code;
}

// Ends the program when what must work doesn't.
static void must(cudaError_t code, const char *what) {
    if (code == cudaSuccess) return;
    std::printf("error=%s: %d %s\n", what, code, cudaGetErrorString(code));
    std::exit(2);
}

int main() {
    unsigned long long *sum = nullptr, got = 0;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    must(cudaMalloc(&sum, sizeof *sum), "cudaMalloc");
    must(cudaMemset(sum, 0, sizeof *sum), "cudaMemset");
    must(cudaStreamCreate(&stream), "cudaStreamCreate");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    add<<<1, 32, 0, stream>>>(sum, 1);
    launched(cudaGetLastError());
    add<<<2, 32, 0, stream>>>(sum, 10);
    launched(cudaGetLastError());
    must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    must(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
    for (int i = 0; i < LAUNCHES; ++i) launched(cudaGraphLaunch(exec, stream));
    cudaError_t synchronised = cudaStreamSynchronize(stream);
    cudaError_t copied = cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost);

    void *big = nullptr;
    cudaError_t refused = cudaMalloc(&big, size_t{1} << 30);
    cudaGetLastError();
    int frees = 0;
    if (!refused && cudaFree(big) == cudaSuccess) ++frees;
    if (cudaFree(sum) == cudaSuccess) ++frees;

    const unsigned long long wanted = LAUNCHES * (32ull * 1 + 64ull * 10);
    std::printf("result=%llu\nwanted=%llu\n", got, wanted);
    std::printf("calls.launches=%d\ncalls.allocs=2\ncalls.frees=%d\n", launches, frees);
    std::printf("errors.launches=%d\nerrors.allocs=%d\n", launch_errors, refused != cudaSuccess);
    if (refused) std::printf("big=refused %d: %s\n", refused, cudaGetErrorString(refused));
    else std::printf("big=granted\n");
    if (launch_errors) {
        std::printf("error=launch refused with %d: %s\n", launch_code, cudaGetErrorString(static_cast<cudaError_t>(launch_code)));
        return 3;
    }
    if (synchronised || copied) std::printf("error=synchronise %d, copy %d\n", synchronised, copied);
    return got != wanted || synchronised || copied;
}
