/* Tests of the stand-in driver. Neither a hook nor a runtime is involved.
 *
 *     g++ -std=c++17 -pthread -Icuda/sim/include cuda/sim/test_libcuda.cpp -Lbuild/sim -lcuda -o build/sim/test_libcuda
 *     LD_LIBRARY_PATH=build/sim build/sim/test_libcuda
 *
 * Out: a line `ok NAME` for each test, or what went wrong; exit code 0 or 1. Each test runs in a child process of its
 * own, because settings are read once a process. What the stand-in shares with CUDA can be checked against CUDA itself,
 * on a machine with a GPU, by compiling with the real cuda.h; that leaves out the tests of the stand-in's own settings.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
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

#define CODE(call, expected)                                                                                  \
    do {                                                                                                      \
        int got_ = static_cast<int>(call), want_ = static_cast<int>(expected);                                \
        if (got_ != want_) {                                                                                  \
            std::printf("%s:%d: %s: expected %d, got %d\n", __FILE__, __LINE__, #call, want_, got_);          \
            std::fflush(stdout);                                                                              \
            _exit(1);                                                                                         \
        }                                                                                                     \
    } while (0)

constexpr size_t kMB = 1024 * 1024;
constexpr char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry k(){ret;}\n";

static CUcontext enter() {
    CUcontext context = nullptr;
    CODE(cuInit(0), 0);
    CODE(cuDevicePrimaryCtxRetain(&context, 0), 0);
    CODE(cuCtxSetCurrent(context), 0);
    return context;
}

static size_t free_bytes() {
    size_t left = 0, total = 0;
    CODE(cuMemGetInfo(&left, &total), 0);
    return left;
}

static CUmemAllocationProp pinned(int device = 0) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}

static CUresult launch(CUfunction f, unsigned grid, unsigned block, unsigned shmem = 0) {
    return cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shmem, nullptr, nullptr, nullptr);
}

/* ---- what CUDA does too ---- */

static void nothing_works_before_cuInit() {
    CUdeviceptr p = 0;
    CUcontext context = nullptr;
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp prop = pinned();
    int n = 0;
    CODE(cuMemAlloc(&p, 100), 3);
    CODE(cuMemFree(0), 3);
    CODE(cuCtxGetCurrent(&context), 3);
    CODE(cuDeviceGetCount(&n), 3);
    CODE(cuMemCreate(&handle, 2 * kMB, &prop, 0), 3);
    CODE(cuDriverGetVersion(&n), 0);
    CHECK(n >= 13000);
    CODE(cuInit(1), 1);
    CODE(cuInit(0), 0);
    CODE(cuDeviceGetCount(&n), 0);
}

static void most_needs_a_context() {
    CODE(cuInit(0), 0);
    CUdeviceptr p = 0;
    CUcontext context = nullptr;
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUfunction f = nullptr;
    size_t a = 0, b = 0;
    CODE(cuMemAlloc(&p, 100), 201);
    CODE(cuMemFree(0), 0);
    CODE(cuMemGetInfo(&a, &b), 201);
    CODE(cuMemAllocAsync(&p, 100, nullptr), 201);
    CODE(cuGraphLaunch(nullptr, nullptr), 201);
    CODE(cuCtxPopCurrent(&context), 201);
    CODE(cuCtxPushCurrent(nullptr), 1);
    CODE(cuCtxSetCurrent(nullptr), 0);
    CODE(cuDevicePrimaryCtxRelease(0), 201);
    CODE(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0), 0);
    CODE(cuLibraryGetKernel(&kernel, library, "k"), 0);
    CODE(cuKernelGetFunction(&f, kernel), 201);
    CODE(launch(reinterpret_cast<CUfunction>(kernel), 1, 1), 201);
    CODE(cuMemAddressReserve(&p, 2 * kMB, 0, 0, 0), 0);
}

static void contexts_come_and_go() {
    CUcontext primary = enter(), again = nullptr, own = nullptr, current = nullptr;
    CUdeviceptr p = 0;
    CODE(cuMemAlloc(&p, 1024 * kMB), 0);
    const size_t left = free_bytes();
    CODE(cuDevicePrimaryCtxReset(0), 0);
    CODE(cuMemAlloc(&p, 100), 709);
    CODE(cuDevicePrimaryCtxRetain(&again, 0), 0);
    CHECK(again == primary);
    CHECK(free_bytes() >= left + 1000 * kMB); /* less what the context itself takes on a GPU */
    CODE(cuDevicePrimaryCtxRelease(0), 0);
    CODE(cuMemAlloc(&p, 100), 0); /* a reset leaves the count alone */
    CODE(cuDevicePrimaryCtxRelease(0), 0);
    CODE(cuMemAlloc(&p, 100), 709);
    CODE(cuDevicePrimaryCtxRelease(0), 201);
    CODE(cuCtxSetCurrent(primary), 0);
    CODE(cuDevicePrimaryCtxRetain(&again, 0), 0);
    CODE(cuMemAlloc(&p, 100), 0);
    CODE(cuCtxDestroy(primary), 201);

    CODE(cuCtxCreate(&own, nullptr, 0, 0), 0);
    CODE(cuCtxGetCurrent(&current), 0);
    CHECK(current == own);
    CODE(cuCtxPopCurrent(&current), 0);
    CHECK(current == own);
    CODE(cuCtxPushCurrent(own), 0);
    std::thread([] {
        CUcontext none = nullptr;
        CODE(cuCtxGetCurrent(&none), 0);
        CHECK(none == nullptr);
    }).join();
    CODE(cuCtxDestroy(own), 0);
    CODE(cuCtxGetCurrent(&current), 0);
    CHECK(current == primary);
}

static void odd_requests_for_memory_are_judged() {
    enter();
    CUdeviceptr p = 7;
    size_t pitch = 7;
    void *host = &pitch;
    CODE(cuMemAlloc(&p, 0), 1);
    CODE(cuMemAlloc(nullptr, 1), 1);
    CODE(cuMemFree(0), 0);
    CODE(cuMemFree(0xdead0000), 1);
    p = 7;
    CODE(cuMemAlloc(&p, size_t{1} << 60), 2);
    CHECK(p == 0);
    CODE(cuMemAlloc(&p, 4096), 0);
    CODE(cuMemFree(p + 256), 1);
    CODE(cuMemFreeAsync(p, nullptr), 0);
    CODE(cuMemAllocAsync(&p, 0, nullptr), 0);
    CHECK(p == 0);
    CODE(cuMemFreeAsync(0, nullptr), 0);
    CODE(cuMemAllocAsync(&p, 512, nullptr), 0);
    CODE(cuMemFree(p), 0);
    CODE(cuMemFree(p), 1);
    CODE(cuMemAllocPitch(&p, &pitch, 100, 10, 3), 1);
    CODE(cuMemAllocPitch(&p, &pitch, 0, 10, 4), 1);
    CODE(cuMemAllocPitch(&p, &pitch, 10, 0, 4), 1);
    CODE(cuMemAllocPitch(&p, &pitch, SIZE_MAX, 4, 4), 1);
    CODE(cuMemAllocPitch(&p, &pitch, 100, 10, 4), 0);
    CHECK(pitch == 512);
    CODE(cuMemFree(p), 0);
    CODE(cuMemAllocManaged(&p, 100, 0), 1);
    CODE(cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL), 1);
    CODE(cuMemAllocManaged(&p, 100, 3), 1);
    CODE(cuMemHostAlloc(&host, 0, 0), 0);
    CODE(cuMemHostAlloc(&host, 9, 8), 1);
    CODE(cuMemHostAlloc(&host, 9, 0), 0);
    std::memset(host, 1, 9);
    CODE(cuMemFreeHost(host), 0);
    CODE(cuMemFreeHost(nullptr), 0);
    CODE(cuMemGetInfo(nullptr, nullptr), 0);
}

static void copies_go_there_and_back() {
    enter();
    CUdeviceptr p = 0, q = 0;
    char text[16] = "there and back", back[16] = "";
    CODE(cuMemAlloc(&p, sizeof text), 0);
    CODE(cuMemAlloc(&q, sizeof text), 0);
    CODE(cuMemcpyHtoD(p, text, sizeof text), 0);
    CODE(cuMemcpyDtoD(q, p, sizeof text), 0);
    CODE(cuMemcpyDtoH(back, q, sizeof text), 0);
    CHECK(std::memcmp(text, back, sizeof text) == 0);
    CODE(cuMemsetD8(q, 'x', 5), 0);
    CODE(cuMemcpyDtoH(back, q, sizeof text), 0);
    CHECK(std::strcmp(back, "xxxxx and back") == 0);
    CODE(cuMemFree(p), 0);
    CODE(cuMemFree(q), 0);
}

static void arrays_are_judged() {
    enter();
    CUarray array = nullptr;
    CUmipmappedArray mip = nullptr;
    CUDA_ARRAY_DESCRIPTOR flat{};
    flat.Width = 100;
    flat.Height = 10;
    flat.Format = CU_AD_FORMAT_FLOAT;
    flat.NumChannels = 4;
    CODE(cuArrayCreate(&array, &flat), 0);
    CODE(cuArrayDestroy(array), 0);
    CODE(cuArrayDestroy(nullptr), 400);
    flat.NumChannels = 3;
    CODE(cuArrayCreate(&array, &flat), 1);
    CUDA_ARRAY3D_DESCRIPTOR deep{};
    deep.Width = deep.Height = 64;
    deep.Format = CU_AD_FORMAT_FLOAT;
    deep.NumChannels = 4;
    CODE(cuMipmappedArrayCreate(&mip, &deep, 3), 0);
    CODE(cuMipmappedArrayDestroy(mip), 0);
    deep.Depth = 4;
    CODE(cuArray3DCreate(&array, &deep), 0);
    CODE(cuArrayDestroy(array), 0);
}

static void physical_memory_counts_from_creation_to_the_last_unmap() {
    enter();
    const CUmemAllocationProp prop = pinned();
    const size_t S = 512 * kMB;
    CUmemGenericAllocationHandle handle = 0, retained = 0;
    CUdeviceptr p = 0;
    CUmemAccessDesc access{};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    size_t granule = 0;
    CODE(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM), 0);
    CHECK(granule == 2 * kMB);
    CODE(cuMemCreate(&handle, 1, &prop, 0), 1);
    CODE(cuMemCreate(&handle, 0, &prop, 0), 1);
    CODE(cuMemCreate(&handle, 2 * kMB, &prop, 1), 1);
    CODE(cuMemCreate(&handle, size_t{1} << 50, &prop, 0), 2);
    const size_t left = free_bytes();
    CODE(cuMemCreate(&handle, S, &prop, 0), 0);
    CHECK(free_bytes() == left - S);

    CODE(cuMemAddressReserve(&p, 1, 0, 0, 0), 1);
    CODE(cuMemAddressReserve(&p, 0, 0, 0, 0), 1);
    CODE(cuMemAddressReserve(&p, 2 * kMB, 3, 0, 0), 1);
    CODE(cuMemAddressReserve(&p, 4 * S, 0, 0, 0), 0);
    CHECK(p % granule == 0);
    CODE(cuMemMap(p + 3 * S, S / 2, 0, handle, 0), 801);
    CODE(cuMemMap(p, S, 2 * kMB, handle, 0), 801);
    CODE(cuMemMap(p + 1, S, 0, handle, 0), 1);
    CODE(cuMemMap(p, S, 0, handle, 0), 0);
    CODE(cuMemMap(p, S, 0, handle, 0), 1);
    CODE(cuMemMap(p + S, S, 0, handle, 0), 0);
    CODE(cuMemMap(p + 4 * S, S, 0, handle, 0), 1);

    CODE(cuMemsetD8(p, 1, 9), 1);
    CODE(cuMemSetAccess(p, 2 * kMB, &access, 1), 1);
    CODE(cuMemSetAccess(p, 2 * S, &access, 1), 0);
    CODE(cuMemsetD8(p, 7, 9), 0);
    char seen = 0;
    CODE(cuMemcpyDtoH(&seen, p + S, 1), 0);
    CHECK(seen == 7); /* the same memory at another address */

    CODE(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void *>(p + 5)), 0);
    CHECK(retained == handle);
    CODE(cuMemRelease(handle), 0);
    CODE(cuMemRelease(handle), 0);
    CODE(cuMemRelease(handle), 1);
    CHECK(free_bytes() == left - S);
    CODE(cuMemAddressFree(p, 4 * S), 1);
    CODE(cuMemFree(p), 1);
    CODE(cuMemUnmap(p, 2 * kMB), 1);
    CODE(cuMemUnmap(p + 2 * kMB, 2 * kMB), 1);
    CODE(cuMemUnmap(p, S), 0);
    CODE(cuMemUnmap(p, S), 0); /* nothing there any more: no error */
    CHECK(free_bytes() == left - S);
    CODE(cuMemUnmap(p, 2 * S), 0);
    CHECK(free_bytes() == left);
    CODE(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void *>(p)), 1);
    CODE(cuMemAddressFree(p, 2 * kMB), 1);
    CODE(cuMemAddressFree(p, 4 * S), 0);
    CODE(cuMemAddressFree(p, 4 * S), 1);
    CODE(cuMemRelease(0), 1);
}

static void physical_memory_outlives_a_reset() {
    enter();
    const CUmemAllocationProp prop = pinned();
    CUmemGenericAllocationHandle handle = 0;
    CUcontext context = nullptr;
    CODE(cuMemCreate(&handle, 512 * kMB, &prop, 0), 0);
    CODE(cuDevicePrimaryCtxReset(0), 0);
    CODE(cuDevicePrimaryCtxRetain(&context, 0), 0);
    const size_t left = free_bytes();
    CODE(cuMemRelease(handle), 0);
    CHECK(free_bytes() == left + 512 * kMB);
}

static void code_has_names_and_kinds() {
    enter();
    CUmodule module = nullptr;
    CUlibrary library = nullptr;
    CUfunction f = nullptr, same = nullptr, of_kernel = nullptr;
    CUkernel kernel = nullptr;
    const char *name = nullptr;
    CODE(cuModuleLoadData(&module, ptx), 0);
    CODE(cuModuleGetFunction(&f, module, "k"), 0);
    CODE(cuModuleGetFunction(&same, module, "k"), 0);
    CHECK(f == same);
    CODE(cuLibraryLoadData(&library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0), 1);
    CODE(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0), 0);
    CODE(cuLibraryGetKernel(&kernel, library, "k"), 0);
    CODE(cuKernelGetFunction(&of_kernel, kernel), 0);
    CHECK(static_cast<void *>(of_kernel) != static_cast<void *>(kernel));
    for (CUfunction each : {f, of_kernel}) {
        CODE(cuFuncGetName(&name, each), 0);
        CHECK(std::string(name) == "k");
    }
    CODE(cuKernelGetName(&name, kernel), 0);
    CHECK(std::string(name) == "k");
    CUfunction cast = reinterpret_cast<CUfunction>(kernel);
    CODE(cuFuncGetName(&name, cast), 400);
    CODE(cuFuncSetAttribute(cast, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536), 400);

    CODE(launch(cast, 1, 1), 0); /* but it can be launched */
    CODE(launch(of_kernel, 1, 1), 0);
    CODE(launch(f, 1, 1024), 0);
    CODE(launch(f, 1, 1025), 1);
    CODE(launch(f, 0, 1), 1);
    CODE(launch(f, 1, 1, 49152), 0);
    CODE(launch(f, 1, 1, 49153), 1);
    CODE(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20), 1);
    CODE(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536), 0);
    CODE(launch(f, 1, 1, 65536), 0);
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    CODE(cuLaunchKernelEx(&config, f, nullptr, nullptr), 0);
    CODE(cuLaunchKernelEx(nullptr, f, nullptr, nullptr), 1);
    CODE(cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr), 0);
    static char junk[4096];
    CODE(launch(nullptr, 1, 1), 400);
    CODE(launch(reinterpret_cast<CUfunction>(junk), 1, 1), 400);
    CODE(cuModuleUnload(module), 0);
    CODE(launch(f, 1, 1), 400);
    CODE(cuLibraryUnload(library), 0);
}

static void streams_and_events_work() {
    enter();
    CUstream stream = nullptr;
    CUevent a = nullptr, b = nullptr;
    float ms = -1;
    CODE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    CODE(cuEventCreate(&a, 0), 0);
    CODE(cuEventCreate(&b, 0), 0);
    CODE(cuEventRecord(a, stream), 0);
    CODE(cuEventRecord(b, stream), 0);
    CODE(cuEventSynchronize(b), 0);
    CODE(cuEventElapsedTime(&ms, a, b), 0);
    CHECK(ms >= 0 && ms < 10000);
    CODE(cuStreamSynchronize(stream), 0);
    CODE(cuStreamSynchronize(CU_STREAM_PER_THREAD), 0);
    CODE(cuEventDestroy(a), 0);
    CODE(cuEventDestroy(b), 0);
    CODE(cuStreamDestroy(stream), 0);
}

struct Asked {
    int code, status;
    void *address;
};

static Asked ask(const char *name, int version, unsigned flags) {
    Asked asked{-1, 3, reinterpret_cast<void *>(7)};
    CUdriverProcAddressQueryResult status = static_cast<CUdriverProcAddressQueryResult>(3); /* no status of its */
    asked.code = cuGetProcAddress(name, &asked.address, version, flags, &status);
    asked.status = status;
    return asked;
}

static void functions_are_found_by_name_and_version() {
    enter();
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library != nullptr);
    const struct {
        const char *name;
        int version;
        unsigned flags;
        const char *exported; /* nullptr: none */
        int code, status;
    } cases[] = {
        {"cuMemAlloc", 1000, 0, nullptr, 0, 2},          {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2", 0, 0},
        {"cuMemAlloc", 13000, 2, "cuMemAlloc_v2", 0, 0}, {"cuMemAlloc_v2", 12000, 0, nullptr, 0, 1},
        {"cuNoSuch", 12000, 0, nullptr, 0, 1},           {"", 12000, 0, nullptr, 0, 1},
        {"cuCtxGetDevice", 12000, 0, "cuCtxGetDevice", 0, 0}, {"cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2", 0, 0},
        {"cuCtxCreate", 3020, 0, "cuCtxCreate_v2", 0, 0}, {"cuCtxCreate", 11040, 0, "cuCtxCreate_v3", 0, 0},
        {"cuCtxCreate", 12050, 0, "cuCtxCreate_v4", 0, 0}, {"cuMemCreate", 10010, 0, nullptr, 0, 2},
        {"cuGetProcAddress", 11030, 0, "cuGetProcAddress", 0, 0}, {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", 0, 0},
        {"cuLaunchKernel", 4000, 0, "cuLaunchKernel", 0, 0}, {"cuLaunchKernel", 4000, 2, nullptr, 0, 2},
        {"cuLaunchKernel", 7000, 1, "cuLaunchKernel", 0, 0}, {"cuLaunchKernel", 7000, 2, "cuLaunchKernel_ptsz", 0, 0},
        {"cuLaunchKernel", 7000, 3, "cuLaunchKernel_ptsz", 0, 0}, {"cuLaunchKernel_ptsz", 12000, 0, nullptr, 0, 1},
    };
    for (const auto &each : cases) {
        Asked got = ask(each.name, each.version, each.flags);
        void *want = each.exported ? dlsym(library, each.exported) : nullptr;
        if (got.code != each.code || got.status != each.status || got.address != want) {
            std::printf("%s %d %u: code %d, status %d, address %p and not %p\n", each.name, each.version, each.flags, got.code,
                        got.status, got.address, want);
            std::fflush(stdout);
            _exit(1);
        }
    }
    CODE(ask("cuMemAlloc", 99999, 0).code, 1);
    CODE(ask("cuMemAlloc", 12000, 4).code, 1);
    void *found = nullptr;
    CODE(cuGetProcAddress("cuInit", &found, 12000, 0, nullptr), 0);
    auto older = reinterpret_cast<CUresult (*)(const char *, void **, int, cuuint64_t)>(dlsym(library, "cuGetProcAddress"));
    CODE(older("cuNoSuch", &found, 12000, 0), 500);
    CODE(older("cuMemAlloc", &found, 1000, 0), 500);
    CODE(older("cuMemAlloc", &found, 12000, 0), 0);
}

#ifdef CUDA_SIM
#include "test_libcuda_own.h"
#endif

int main() {
    const struct {
        const char *name;
        void (*run)();
    } tests[] = {
#define TEST(name) {#name, name}
        TEST(nothing_works_before_cuInit),
        TEST(most_needs_a_context),
        TEST(contexts_come_and_go),
        TEST(odd_requests_for_memory_are_judged),
        TEST(copies_go_there_and_back),
        TEST(arrays_are_judged),
        TEST(physical_memory_counts_from_creation_to_the_last_unmap),
        TEST(physical_memory_outlives_a_reset),
        TEST(code_has_names_and_kinds),
        TEST(streams_and_events_work),
        TEST(functions_are_found_by_name_and_version),
#ifdef CUDA_SIM
        OWN_TESTS
#endif
    };
    for (const char *name : {"MEM_MB", "DEVICES", "MALLOC_DELAY_US", "FREE_DELAY_US", "MALLOC_FAIL", "FREE_FAIL", "LAUNCH_RET"})
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
