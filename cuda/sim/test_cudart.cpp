/* Tests of the stand-in runtime, over the stand-in driver. No hook is involved.
 *
 *     g++ -std=c++17 -pthread -Icuda/sim/include cuda/sim/test_cudart.cpp -Lbuild/sim -lcudart \
 *         -o build/sim/test_cudart
 *     LD_LIBRARY_PATH=build/sim build/sim/test_cudart
 *
 * Out: a line `ok NAME` for each test, or what went wrong; exit code 0 or 1. Each test runs in a
 * child process of its own, because settings are read once a process.
 *
 * What the stand-in shares with CUDA can be checked against CUDA itself, on a machine with a GPU:
 *
 *     nvcc -x cu --cudart=shared cuda/sim/test_cudart.cpp -o test_cudart && ./test_cudart
 *
 * That leaves out the tests of the stand-in's settings and says so.
 */
#include <cuda_runtime.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            std::fflush(stdout);                                                  \
            _exit(1);                                                             \
        }                                                                         \
    } while (0)

#define CODE(call, expected)                                                            \
    do {                                                                                \
        int got_ = static_cast<int>(call), want_ = static_cast<int>(expected);          \
        if (got_ != want_) {                                                            \
            std::printf("%s:%d: %s: expected %d (%s), got %d (%s)\n", __FILE__, __LINE__, \
                        #call, want_, cudaGetErrorName(static_cast<cudaError_t>(want_)), got_, \
                        cudaGetErrorName(static_cast<cudaError_t>(got_)));              \
            std::fflush(stdout);                                                        \
            _exit(1);                                                                   \
        }                                                                               \
    } while (0)

__global__ void nothing() {}

__global__ void saxpy(float *y, const float *x, float a, unsigned n) {
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    if (i < n) y[i] = a * x[i] + y[i];
}

static int launch(dim3 grid, dim3 block, size_t shmem = 0) {
    return cudaLaunchKernel(nothing, grid, block, nullptr, shmem, nullptr);
}

/* ---- what CUDA does too ---- */

/* What a launch beyond the limits gets. The documentation says 9 (cudaErrorInvalidConfiguration), and so does the
 * stand-in; CUDA 13.0 on driver 580 (H200) was seen to give 1 for every one of them, by hand and by <<<...>>>. */
static int invalid() {
#ifndef CUDA_SIM
    int code = launch(dim3(1), dim3(1025));
    cudaGetLastError();
    if (code == cudaErrorInvalidValue) return code;
#endif
    return cudaErrorInvalidConfiguration;
}

static void launch_limits_give_cudas_codes() {
    const int wrong = invalid();
    CODE(launch(dim3(1), dim3(1024)), 0);
    CODE(launch(dim3(1), dim3(16, 1, 64)), 0);
    CODE(launch(dim3(1, 65535, 1), dim3(1)), 0);
    CODE(launch(dim3(1), dim3(1025)), wrong);
    CODE(launch(dim3(1), dim3(32, 33)), wrong);
    CODE(launch(dim3(1), dim3(1, 1, 65)), wrong);
    CODE(launch(dim3(1), dim3(65536, 65536, 1)), wrong);
    CODE(launch(dim3(1), dim3(0x80000000u, 2, 1)), wrong);
    CODE(launch(dim3(1, 65536, 1), dim3(1)), wrong);
    CODE(launch(dim3(1, 1, 65536), dim3(1)), wrong);
    CODE(launch(dim3(0x80000000u), dim3(1)), wrong);
    CODE(launch(dim3(0), dim3(1)), wrong);
    CODE(launch(dim3(1, 0), dim3(1)), wrong);
    CODE(launch(dim3(1), dim3(1, 1, 0)), wrong);
    CODE(cudaGetLastError(), wrong);
    CODE(launch(dim3(1), dim3(1), 48 * 1024), 0);
    CODE(launch(dim3(1), dim3(1), 48 * 1024 + 1), 1);
    CODE(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536), 0);
    CODE(launch(dim3(1), dim3(1), 65536), 0);
    CODE(launch(dim3(1), dim3(1), 65537), 1);
    CODE(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20), 1);
    const void *no_kernel = nullptr;
    CODE(cudaLaunchKernel(no_kernel, dim3(1), dim3(1), nullptr, 0, nullptr), 98);
    CODE(cudaDeviceSynchronize(), 0);
}

static void last_error_is_kept_until_asked_for() {
    const int wrong = invalid();
    CODE(launch(dim3(1), dim3(1)), 0);
    CODE(cudaGetLastError(), 0);
    CODE(launch(dim3(1), dim3(2048)), wrong);
    CODE(launch(dim3(1), dim3(1)), 0);
    CODE(cudaPeekAtLastError(), wrong);
    std::thread([] { CODE(cudaGetLastError(), 0); }).join();
    CODE(cudaPeekAtLastError(), wrong);
    CODE(cudaGetLastError(), wrong);
    CODE(cudaGetLastError(), 0);
    void *p = &p;
    CODE(cudaMalloc(&p, SIZE_MAX / 2), 2);
    CHECK(p == nullptr);
    CODE(cudaFree(nullptr), 0);
    CODE(cudaGetLastError(), 2);
}

static void a_kernel_computes_over_a_grid_of_three_dimensions() {
    const dim3 grid(3, 2, 4), block(8, 4, 2);
    const unsigned n = 3 * 2 * 4 * 64 - 5;
    std::vector<float> x(n), y(n), got(n);
    for (unsigned i = 0; i < n; ++i) {
        x[i] = static_cast<float>(i);
        y[i] = static_cast<float>(1000 - static_cast<int>(i));
    }
    float *dx = nullptr, *dy = nullptr, a = 2.5f;
    const size_t bytes = n * sizeof(float);
    CODE(cudaMalloc(&dx, bytes), 0);
    CODE(cudaMalloc(&dy, bytes), 0);
    CODE(cudaMemcpy(dx, x.data(), bytes, cudaMemcpyHostToDevice), 0);
    CODE(cudaMemcpy(dy, y.data(), bytes, cudaMemcpyHostToDevice), 0);
    unsigned count = n;
    void *args[] = {&dy, &dx, &a, &count};
    CODE(cudaLaunchKernel(saxpy, grid, block, args, 0, nullptr), 0);
    CODE(cudaDeviceSynchronize(), 0);
    CODE(cudaMemcpy(got.data(), dy, bytes, cudaMemcpyDeviceToHost), 0);
    for (unsigned i = 0; i < n; ++i) CHECK(got[i] == a * x[i] + y[i]);
    CODE(cudaFree(dx), 0);
    CODE(cudaFree(dy), 0);
}

static void odd_pointers_are_judged() {
    void *p = reinterpret_cast<void *>(7);
    CODE(cudaMalloc(&p, 0), 0);
    CHECK(p == nullptr);
    CODE(cudaFree(nullptr), 0);
    CODE(cudaMalloc(static_cast<void **>(nullptr), 1), 1);
    CODE(cudaGetLastError(), 1);
    CODE(cudaMalloc(&p, 4096), 0);
    CHECK(reinterpret_cast<uintptr_t>(p) % 256 == 0);
    CODE(cudaFree(static_cast<char *>(p) + 256), 1);
    CODE(cudaFree(p), 0);
    CODE(cudaFree(p), 1);
    int local = 0;
    CODE(cudaFree(&local), 1);
    CODE(cudaMemset(&local, 0, sizeof local), 1);
    CODE(cudaMemcpy(&local, &local, 4, static_cast<cudaMemcpyKind>(9)), 21);
    CODE(cudaMallocHost(&p, 100), 0);
    std::memset(p, 1, 100);
    CODE(cudaFreeHost(p), 0);
    CODE(cudaFreeHost(&local), 1);
    CODE(cudaSetDevice(1000), 101);
}

static void streams_and_events_work() {
    cudaStream_t s = nullptr;
    cudaEvent_t a = nullptr, b = nullptr;
    CODE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), 0);
    CODE(cudaEventCreate(&a), 0);
    CODE(cudaEventCreateWithFlags(&b, cudaEventDefault), 0);
    CODE(cudaEventRecord(a, s), 0);
    CODE(cudaLaunchKernel(nothing, dim3(1), dim3(1), nullptr, 0, s), 0);
    CODE(cudaEventRecord(b, s), 0);
    CODE(cudaEventSynchronize(b), 0);
    float ms = -1;
    CODE(cudaEventElapsedTime(&ms, a, b), 0);
    CHECK(ms >= 0 && ms < 10000);
    void *p = nullptr;
    CODE(cudaMallocAsync(&p, 4096, s), 0);
    CODE(cudaMemsetAsync(p, 1, 4096, s), 0);
    CODE(cudaFreeAsync(p, s), 0);
    CODE(cudaStreamSynchronize(s), 0);
    CODE(cudaStreamSynchronize(cudaStreamPerThread), 0);
    CODE(cudaEventDestroy(a), 0);
    CODE(cudaEventDestroy(b), 0);
    CODE(cudaStreamDestroy(s), 0);
}

static void questions_are_answered() {
    int n = 0, major = 0;
    cudaDeviceProp prop;
    cudaFuncAttributes attributes;
    CODE(cudaGetDeviceCount(&n), 0);
    CHECK(n >= 1);
    CODE(cudaGetDeviceProperties(&prop, 0), 0);
    CODE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), 0);
    CHECK(prop.major == major && prop.warpSize == 32 && prop.maxThreadsPerBlock == 1024);
    CODE(cudaFuncGetAttributes(&attributes, saxpy), 0);
    CHECK(attributes.maxThreadsPerBlock == 1024);
    CODE(cudaRuntimeGetVersion(&n), 0);
    CHECK(n == CUDART_VERSION);
    CODE(cudaDriverGetVersion(&n), 0);
    auto name = [](int code) { return std::string(cudaGetErrorName(static_cast<cudaError_t>(code))); };
    CHECK(name(4) == "cudaErrorCudartUnloading");
    CHECK(name(719) == "cudaErrorLaunchFailure");
    CHECK(name(12345) == "unrecognized error code");
    CHECK(std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
}

static void eight_threads_never_share_memory() {
    std::vector<std::thread> threads;
    for (unsigned id = 0; id < 8; ++id)
        threads.emplace_back([id] {
            unsigned random = id * 7919 + 1;
            struct Held {
                void *at;
                size_t size;
            };
            std::vector<Held> held;
            std::vector<unsigned char> read;
            for (int i = 0; i < 500; ++i) {
                random = random * 1664525 + 1013904223;
                size_t size = 1 + (random >> 8) % 20000;
                void *p = nullptr;
                CODE(cudaMalloc(&p, size), 0);
                CODE(cudaMemset(p, static_cast<int>(id + 1), size), 0);
                held.push_back({p, size});
                if (held.size() < 8) continue;
                Held h = held[random % 8];
                held[random % 8] = held.back();
                held.pop_back();
                read.assign(h.size, 0);
                CODE(cudaMemcpy(read.data(), h.at, h.size, cudaMemcpyDeviceToHost), 0);
                for (unsigned char byte : read) CHECK(byte == id + 1);
                CODE(cudaFree(h.at), 0);
            }
            for (const Held &h : held) CODE(cudaFree(h.at), 0);
        });
    for (std::thread &t : threads) t.join();
#ifdef CUDA_SIM
    CHECK(cudaSimLiveAllocations() == 0 && cudaSimLiveBytes() == 0);
#endif
}

/* ---- the stand-in's own ---- */
#ifdef CUDA_SIM

constexpr size_t kMB = 1024 * 1024;

static void memory_ends_where_the_setting_says() {
    setenv("CUDA_SIM_MEM_MB", "64", 1);
    void *p = nullptr, *q = nullptr, *r = nullptr;
    size_t left = 0, total = 0;
    CODE(cudaMalloc(&p, 64 * kMB + 1), 2);
    CODE(cudaMalloc(&p, SIZE_MAX), 2);
    CODE(cudaMalloc(&p, 64 * kMB), 0);
    CODE(cudaMemGetInfo(&left, &total), 0);
    CHECK(left == 0 && total == 64 * kMB);
    CODE(cudaMalloc(&q, 1), 2);
    CODE(cudaFree(p), 0);
    CODE(cudaMalloc(&q, 32 * kMB - 100), 0);
    CHECK(q == p); /* reused at once */
    CODE(cudaMalloc(&r, 32 * kMB), 0);
    CHECK(cudaSimLiveAllocations() == 2 && cudaSimLiveBytes() == 64 * kMB - 100);
    CODE(cudaMemset(r, 1, 32 * kMB), 0);
    CODE(cudaMemset(r, 1, 32 * kMB + 1), 1);
    CODE(cudaMemset(q, 1, 32 * kMB - 99), 1); /* past what was asked for */
    CODE(cudaFree(q), 0);
    CODE(cudaFree(r), 0);
    size_t pitch = 0;
    CODE(cudaMallocPitch(&p, &pitch, 100, 10), 0);
    CHECK(pitch == 512 && cudaSimLiveBytes() == 5120);
    CODE(cudaMallocPitch(&q, &pitch, SIZE_MAX / 2, 4), 2);
    CODE(cudaMallocManaged(&q, 100), 0);
    CODE(cudaDeviceReset(), 0);
    CHECK(cudaSimLiveAllocations() == 0);
    CODE(cudaFree(p), 1);
    CODE(cudaMalloc(&p, 64 * kMB), 0);
}

static void a_large_request_costs_nothing() {
    void *p = nullptr;
    CODE(cudaMalloc(&p, 2048 * kMB), 0);
    static_cast<char *>(p)[2048 * kMB - 1] = 1;
    CODE(cudaFree(p), 0);
}

static void devices_have_memory_each() {
    setenv("CUDA_SIM_DEVICES", "2", 1);
    setenv("CUDA_SIM_MEM_MB", "16", 1);
    void *p = nullptr, *q = nullptr;
    int n = 0;
    CODE(cudaGetDeviceCount(&n), 0);
    CHECK(n == 2);
    CODE(cudaMalloc(&p, 16 * kMB), 0);
    CODE(cudaSetDevice(1), 0);
    CODE(cudaMalloc(&q, 16 * kMB), 0);
    std::thread([] {
        int device = -1;
        CODE(cudaGetDevice(&device), 0);
        CHECK(device == 0);
    }).join();
    CODE(cudaFree(p), 0); /* from the other device, as unified addressing allows */
    CODE(cudaFree(q), 0);
    CODE(cudaSetDevice(2), 101);
}

static void planted_failures_come_first() {
    setenv("CUDA_SIM_MALLOC_FAIL", "2", 1);
    setenv("CUDA_SIM_FREE_FAIL", "1", 1);
    void *p = nullptr, *q = nullptr;
    CODE(cudaMalloc(&p, 0), 0);
    CODE(cudaMalloc(&p, 512), 2);
    CODE(cudaMalloc(&p, 512), 2);
    CODE(cudaMalloc(&p, 512), 0);
    CODE(cudaFree(nullptr), 0);
    CODE(cudaFree(p), 700);
    CODE(cudaGetLastError(), 700);
    CHECK(cudaSimLiveBytes() == 512);
    CODE(cudaMalloc(&q, 512), 0);
    CHECK(q != p);
    CODE(cudaFree(p), 0);
    CODE(cudaFree(q), 0);
}

static void planted_launch_code_stops_launches() {
    setenv("CUDA_SIM_LAUNCH_RET", "719", 1);
    CODE(launch(dim3(1), dim3(1)), 719);
    CODE(cudaGetLastError(), 719);
    CHECK(cudaSimLaunches() == 0);
}

static void the_code_of_an_invalid_launch_can_be_chosen() {
    setenv("CUDA_SIM_INVALID_LAUNCH", "1", 1);
    CODE(launch(dim3(1), dim3(1025)), 1);
    CODE(launch(dim3(1), dim3(1024)), 0);
    CODE(cudaGetLastError(), 1);
}

static void an_address_is_free_before_its_free_returns() {
    setenv("CUDA_SIM_FREE_DELAY_US", "500000", 1);
    void *p = nullptr, *q = nullptr;
    CODE(cudaMalloc(&p, 4096), 0);
    std::atomic<bool> returned{false};
    std::thread freeing([&] {
        CODE(cudaFree(p), 0);
        returned = true;
    });
    while (cudaSimLiveAllocations() != 0) std::this_thread::yield();
    CODE(cudaMalloc(&q, 4096), 0);
    CHECK(q == p && !returned);
    freeing.join();
}

static void unusable_settings_are_ignored() {
    std::printf("(four warnings follow)\n");
    std::fflush(stdout);
    setenv("CUDA_SIM_MEM_MB", "-1", 1);
    setenv("CUDA_SIM_DEVICES", "2x", 1);
    setenv("CUDA_SIM_MALLOC_FAIL", "99999999999999999999", 1);
    setenv("CUDA_SIM_LAUNCH_RET", "nan", 1);
    size_t left = 0, total = 0;
    CODE(cudaMemGetInfo(&left, &total), 0);
    CHECK(total == 8192 * kMB);
    CODE(launch(dim3(1), dim3(1)), 0);
}

/* What nvcc 13 generates for `<<<>>>`, and launches of kernels that can't be run here. */
static void nvccs_host_code_is_served() {
    static char binary, stub, name[] = "_Z4stubv";
    void **handle = __cudaRegisterFatBinary(&binary);
    CHECK(handle != nullptr && __cudaInitModule(handle));
    __cudaRegisterFunction(handle, &stub, name, name, -1, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
    __cudaRegisterFatBinaryEnd(handle);
    cudaKernel_t kernel = nullptr;
    CODE(__cudaGetKernel(&kernel, &stub), 0);
    CHECK(kernel != nullptr && static_cast<void *>(kernel) != &stub);
    CODE(__cudaGetKernel(&kernel, &binary), 98);

    CHECK(__cudaPushCallConfiguration(dim3(2), dim3(32), 16, cudaStreamPerThread) == 0);
    CHECK(__cudaPushCallConfiguration(dim3(3), dim3(64), 0, nullptr) == 0);
    dim3 grid, block;
    size_t shmem = 1;
    cudaStream_t stream = cudaStreamLegacy;
    CODE(__cudaPopCallConfiguration(&grid, &block, &shmem, &stream), 0);
    CHECK(grid.x == 3 && block.x == 64 && shmem == 0 && stream == nullptr);
    CODE(__cudaPopCallConfiguration(&grid, &block, &shmem, &stream), 0);
    CHECK(grid.x == 2 && block.x == 32 && shmem == 16 && stream == cudaStreamPerThread);
    CODE(__cudaPopCallConfiguration(&grid, &block, &shmem, &stream), 52);

    CODE(__cudaLaunchKernel(kernel, grid, block, nullptr, shmem, stream), 0);
    CODE(__cudaLaunchKernel_ptsz(kernel, grid, block, nullptr, shmem, stream), 0);
    CODE(__cudaLaunchKernel(nullptr, grid, block, nullptr, shmem, stream), 98);
    CODE(cudaLaunchKernel(static_cast<const void *>(kernel), grid, block, nullptr, 0, nullptr), 0);
    CODE(cudaLaunchKernel_ptsz(&stub, grid, block, nullptr, 0, nullptr), 0);
    cudaLaunchConfig_t config{grid, block, 0, nullptr, nullptr, 0};
    CODE(cudaLaunchKernelExC(&config, &stub, nullptr), 0);
    CODE(cudaLaunchKernelExC(nullptr, &stub, nullptr), 9);
    CHECK(cudaSimLaunches() == 5);
    CODE(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(&binary)), 400);

    __cudaUnregisterFatBinary(handle);
    CODE(__cudaGetKernel(&kernel, &stub), 98);
}

static void a_forked_child_goes_on() {
    void *p = nullptr;
    CODE(cudaMalloc(&p, 512), 0);
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop) {
            void *q = nullptr;
            CODE(cudaMalloc(&q, 512), 0);
            CODE(cudaFree(q), 0);
            std::this_thread::sleep_for(std::chrono::microseconds(10)); /* or fork waits for ever */
        }
    });
    for (int i = 0; i < 20; ++i) {
        pid_t child = fork();
        if (child == 0) {
            void *q = nullptr;
            CODE(cudaMalloc(&q, 512), 0);
            CODE(cudaFree(p), 0);
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = true;
    busy.join();
    CODE(cudaFree(p), 0);
}
#endif /* CUDA_SIM */

#ifdef CUDA_SIM
/* Run by `test_cudart_static --without-driver`, where no driver can be found. */
static void without_a_driver_every_call_says_so() {
    void *p = nullptr;
    int n = 7;
    CODE(cudaMalloc(&p, 100), 35);
    CODE(cudaPeekAtLastError(), 35);
    CODE(cudaFree(nullptr), 35);
    CODE(cudaGetDeviceCount(&n), 35);
    CODE(cudaSetDevice(0), 35);
    CODE(cudaDeviceReset(), 35);
    CODE(launch(dim3(1), dim3(1)), 35);
    CODE(cudaLaunchKernel(saxpy, dim3(1), dim3(1), nullptr, 0, nullptr), 35);
    CODE(cudaStreamSynchronize(nullptr), 35);
    CODE(cudaGetLastError(), 35);
    CODE(cudaGetLastError(), 0);
    CODE(cudaDriverGetVersion(&n), 0);
    CHECK(n == 0);
    CODE(cudaRuntimeGetVersion(&n), 0);
    CHECK(n == CUDART_VERSION);
    CHECK(cudaSimLaunches() == 0 && cudaSimLiveBytes() == 0);
}
#endif

int main([[maybe_unused]] int argc, [[maybe_unused]] char **argv) {
#ifdef CUDA_SIM
    if (argc == 2 && std::strcmp(argv[1], "--without-driver") == 0) {
        without_a_driver_every_call_says_so();
        return 0;
    }
#endif
    const struct {
        const char *name;
        void (*run)();
    } tests[] = {
#define TEST(name) {#name, name}
        TEST(launch_limits_give_cudas_codes),
        TEST(last_error_is_kept_until_asked_for),
        TEST(a_kernel_computes_over_a_grid_of_three_dimensions),
        TEST(odd_pointers_are_judged),
        TEST(streams_and_events_work),
        TEST(questions_are_answered),
        TEST(eight_threads_never_share_memory),
#ifdef CUDA_SIM
        TEST(memory_ends_where_the_setting_says),
        TEST(a_large_request_costs_nothing),
        TEST(devices_have_memory_each),
        TEST(planted_failures_come_first),
        TEST(planted_launch_code_stops_launches),
        TEST(the_code_of_an_invalid_launch_can_be_chosen),
        TEST(an_address_is_free_before_its_free_returns),
        TEST(unusable_settings_are_ignored),
        TEST(nvccs_host_code_is_served),
        TEST(a_forked_child_goes_on),
#endif
    };
    for (const char *name : {"MEM_MB", "DEVICES", "MALLOC_DELAY_US", "FREE_DELAY_US", "MALLOC_FAIL",
                             "FREE_FAIL", "LAUNCH_RET"})
        unsetenv((std::string("CUDA_SIM_") + name).c_str());

    int failed = 0;
    for (const auto &test : tests) {
        std::fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            test.run();
            std::exit(0);
        }
        int status = -1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            std::printf("FAILED %s (status %d)\n", test.name, status);
            ++failed;
        } else {
            std::printf("ok %s\n", test.name);
        }
    }
#ifndef CUDA_SIM
    std::printf("left out: the tests of the stand-in's own settings (built without its header)\n");
#endif
    return failed == 0 ? 0 : 1;
}
