// A program of the driver API alone, as Triton, CuPy and JAX are: driver_api add.ptx
//
// Linked with -lcuda, or, compiled with -DBY_DLSYM, finding every function by dlopen and dlsym. Launches by cuLaunchKernel
// and cuLaunchKernelEx, takes memory by cuMemAlloc and by cuMemCreate and cuMemMap, and asks for 1 GiB by both at the end.
// Out and exit as launches.cu.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

// cuda.h's macros turn these into the versioned symbols (cuMemAlloc_v2), which are the names to look up.
#define FUNCTIONS(X) \
    X(cuInit) X(cuGetErrorString) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent) \
    X(cuCtxSynchronize) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuModuleUnload) X(cuLaunchKernel) X(cuLaunchKernelEx) \
    X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) X(cuMemsetD8) X(cuMemcpyDtoH) X(cuMemGetAllocationGranularity) \
    X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess)

struct Driver {
#define MEMBER(name) decltype(&::name) name;
    FUNCTIONS(MEMBER)
};
static Driver cu;

static bool load() {
#ifdef BY_DLSYM
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        std::printf("error=%s\n", dlerror());
        return false;
    }
#define TEXT(name) #name
#define FIND(name) \
    cu.name = reinterpret_cast<decltype(cu.name)>(dlsym(library, TEXT(name))); \
    if (!cu.name) { std::printf("error=%s\n", dlerror()); return false; }
#else
#define FIND(name) cu.name = &::name;
#endif
    FUNCTIONS(FIND)
    return true;
}

static const int LAUNCHES = 40;
static int launches, launch_errors, launch_code, allocs, alloc_errors, frees;

static const char *text(int code) {
    const char *words = "unknown";
    cu.cuGetErrorString(static_cast<CUresult>(code), &words);
    return words;
}

static void must(CUresult code, const char *what) {
    if (code == CUDA_SUCCESS) return;
    std::printf("error=%s: %d %s\n", what, code, text(code));
    std::exit(2);
}
#define MUST(name, ...) must(cu.name(__VA_ARGS__), #name)

static CUresult took(CUresult code) {
    ++allocs;
    if (code != CUDA_SUCCESS) ++alloc_errors;
    return code;
}
static void gave(CUresult code) { frees += code == CUDA_SUCCESS; }

static void launched(CUresult code) {
    ++launches;
    if (code != CUDA_SUCCESS) ++launch_errors, launch_code = code;
}

// The whole of a file, for cuModuleLoadData with the NUL that PTX must end in.
static std::string read(const char *path) {
    std::string content;
    if (FILE *file = std::fopen(path, "rb")) {
        char part[4096];
        while (size_t n = std::fread(part, 1, sizeof part, file)) content.append(part, n);
        std::fclose(file);
    }
    return content;
}

// A block by cuMemCreate, mapped, filled and read back: the byte that came back, or -1.
static int virtual_memory(CUdevice device) {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    size_t bytes = 0;
    MUST(cuMemGetAllocationGranularity, &bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    CUmemGenericAllocationHandle handle;
    if (took(cu.cuMemCreate(&handle, bytes, &prop, 0)) != CUDA_SUCCESS) return -1;
    CUdeviceptr at = 0;
    MUST(cuMemAddressReserve, &at, bytes, 0, 0, 0);
    MUST(cuMemMap, at, bytes, 0, handle, 0);
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MUST(cuMemSetAccess, at, bytes, &access, 1);
    MUST(cuMemsetD8, at, 42, bytes);
    unsigned char last = 0;
    MUST(cuMemcpyDtoH, &last, at + bytes - 1, 1);
    MUST(cuMemUnmap, at, bytes);
    gave(cu.cuMemRelease(handle));
    MUST(cuMemAddressFree, at, bytes);

    // 1 GiB as well: without a quota it is granted.
    if (took(cu.cuMemCreate(&handle, size_t{1} << 30, &prop, 0)) == CUDA_SUCCESS) gave(cu.cuMemRelease(handle));
    return last;
}

int main(int argc, char **argv) {
    std::string ptx = argc > 1 ? read(argv[1]) : "";
    if (ptx.empty()) {
        std::fprintf(stderr, "usage: %s add.ptx\n", argv[0]);
        return 2;
    }
    if (!load()) return 2;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction add;
    MUST(cuInit, 0);
    MUST(cuDeviceGet, &device, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, device);
    MUST(cuCtxSetCurrent, context);
    MUST(cuModuleLoadData, &module, ptx.c_str());
    MUST(cuModuleGetFunction, &add, module, "add");

    CUdeviceptr sum = 0, block = 0, big = 0;
    must(took(cu.cuMemAlloc(&sum, sizeof(unsigned long long))), "cuMemAlloc");
    MUST(cuMemsetD8, sum, 0, sizeof(unsigned long long));
    must(took(cu.cuMemAlloc(&block, 64 << 20)), "cuMemAlloc");

    CUlaunchConfig config = {};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 32, config.blockDimY = config.blockDimZ = 1;
    unsigned long long wanted = 0, got = 0;
    for (unsigned i = 1; i <= LAUNCHES; ++i) {
        void *args[] = {&sum, &i};
        launched(i % 2 ? cu.cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, nullptr, args, nullptr)
                       : cu.cuLaunchKernelEx(&config, add, args, nullptr));
        wanted += 32ull * i;
    }
    CUresult synchronised = cu.cuCtxSynchronize();
    CUresult copied = cu.cuMemcpyDtoH(&got, sum, sizeof got);

    int byte = virtual_memory(device);
    size_t free_bytes = 0, total_bytes = 0;
    MUST(cuMemGetInfo, &free_bytes, &total_bytes);
    CUresult refused = took(cu.cuMemAlloc(&big, size_t{1} << 30));
    if (refused == CUDA_SUCCESS) gave(cu.cuMemFree(big));
    gave(cu.cuMemFree(block));
    gave(cu.cuMemFree(sum));

    std::printf("result=%llu\nwanted=%llu\nresult.mapped=%d\n", got, wanted, byte);
    std::printf("calls.launches=%d\ncalls.allocs=%d\ncalls.frees=%d\n", launches, allocs, frees);
    std::printf("errors.launches=%d\nerrors.allocs=%d\n", launch_errors, alloc_errors);
    std::printf("memory.total_mb=%zu\nmemory.free_mb=%zu\n", total_bytes >> 20, free_bytes >> 20);
    if (refused != CUDA_SUCCESS) std::printf("big=refused %d: %s\n", refused, text(refused));
    else std::printf("big=granted\n");
    cu.cuModuleUnload(module);
    cu.cuDevicePrimaryCtxRelease(device);
    if (launch_errors) {
        std::printf("error=launch refused with %d: %s\n", launch_code, text(launch_code));
        return 3;
    }
    if (synchronised || copied) std::printf("error=synchronise %d, copy %d\n", synchronised, copied);
    return got != wanted || byte != 42 || synchronised || copied;
}
