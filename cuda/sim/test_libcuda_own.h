/* Tests of what the stand-in driver has and CUDA hasn't: settings, counters, host functions, forked children. Included by
 * test_libcuda.cpp alone.
 */
static void every_address_is_the_exported_function_of_that_name() {
    enter();
    const char *names[] = {
        "cuInit", "cuDriverGetVersion", "cuDeviceGet", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetAttribute",
        "cuDeviceTotalMem", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset",
        "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuCtxGetDevice", "cuCtxCreate",
        "cuCtxDestroy", "cuCtxSynchronize", "cuMemAlloc", "cuMemAllocPitch", "cuMemAllocManaged", "cuMemAllocAsync",
        "cuMemAllocFromPoolAsync", "cuMemFree", "cuMemFreeAsync", "cuMemAllocHost", "cuMemHostAlloc", "cuMemFreeHost",
        "cuMemGetInfo", "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap",
        "cuMemSetAccess", "cuMemGetAllocationGranularity", "cuMemRetainAllocationHandle", "cuArrayCreate",
        "cuArray3DCreate", "cuArrayDestroy", "cuMipmappedArrayCreate", "cuMipmappedArrayDestroy", "cuMemcpy",
        "cuMemcpyAsync", "cuMemcpyHtoD", "cuMemcpyHtoDAsync", "cuMemcpyDtoH", "cuMemcpyDtoHAsync", "cuMemcpyDtoD",
        "cuMemcpyDtoDAsync", "cuMemsetD8", "cuMemsetD8Async", "cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload",
        "cuLibraryLoadData", "cuLibraryGetKernel", "cuLibraryUnload", "cuFuncGetName", "cuFuncGetAttribute",
        "cuFuncSetAttribute", "cuKernelGetName", "cuKernelGetFunction", "cuKernelGetAttribute", "cuKernelSetAttribute",
        "cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch", "cuStreamCreate",
        "cuStreamSynchronize", "cuStreamQuery", "cuStreamDestroy", "cuEventCreate", "cuEventRecord", "cuEventQuery",
        "cuEventSynchronize", "cuEventElapsedTime", "cuEventDestroy", "cuGetErrorName", "cuGetErrorString",
        "cuGetProcAddress",
    };
    unsigned per_thread = 0;
    for (const char *name : names)
        for (unsigned flags : {0u, 2u}) {
            Asked got = ask(name, 13000, flags);
            Dl_info info{};
            CHECK(got.code == 0 && got.status == 0 && dladdr(got.address, &info) != 0 && info.dli_sname != nullptr);
            std::string symbol = info.dli_sname;
            CHECK(symbol.rfind(name, 0) == 0 && info.dli_saddr == got.address);
            std::string suffix = symbol.substr(std::strlen(name));
            CHECK(suffix == "" || suffix == "_v2" || suffix == "_v4" || (flags == 2 && suffix == "_ptsz"));
            per_thread += suffix == "_ptsz";
        }
    CHECK(per_thread == 7);
}

static void errors_have_names_and_texts() {
    const char *text = nullptr;
    CODE(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text), 0);
    CHECK(std::string(text) == "CUDA_ERROR_OUT_OF_MEMORY");
    CODE(cuGetErrorString(CUDA_ERROR_LAUNCH_FAILED, &text), 0);
    CHECK(std::string(text) == "unspecified launch failure");
    CODE(cuGetErrorName(static_cast<CUresult>(12345), &text), 1);
    CHECK(text == nullptr);
}

static void physical_memory_and_blocks_share_a_device() {
    setenv("CUDA_SIM_MEM_MB", "64", 1);
    setenv("CUDA_SIM_DEVICES", "2", 1);
    enter();
    const CUmemAllocationProp here = pinned(), there = pinned(1), nowhere = pinned(2);
    CUmemGenericAllocationHandle handle = 0, other = 0;
    CUdeviceptr p = 0;
    CODE(cuMemCreate(&handle, 62 * kMB, &here, 0), 0);
    CODE(cuMemAlloc(&p, 2 * kMB + 1), 2);
    CODE(cuMemAlloc(&p, 2 * kMB), 0);
    CODE(cuMemCreate(&other, 2 * kMB, &here, 0), 2);
    CODE(cuMemCreate(&other, 2 * kMB, &nowhere, 0), 101);
    CODE(cuMemCreate(&other, 64 * kMB, &there, 0), 0);
    CHECK(cuSimLiveAllocations() == 3 && cuSimLiveBytes() == 128 * kMB);
    CODE(cuMemFree(p), 0);
    CODE(cuMemRelease(handle), 0);
    CODE(cuMemRelease(other), 0);
    CHECK(cuSimLiveAllocations() == 0 && cuSimLiveBytes() == 0);
    CODE(cuMemAlloc(&p, 64 * kMB), 0);
}

static void a_context_takes_along_what_is_its_own() {
    CUcontext primary = enter(), own = nullptr;
    CUdeviceptr p[3] = {0, 0, 0}, q[3] = {0, 0, 0};
    CUarray array = nullptr;
    CUDA_ARRAY_DESCRIPTOR flat{16, 16, CU_AD_FORMAT_FLOAT, 4};
    CODE(cuCtxCreate(&own, nullptr, 0, 0), 0);
    for (int i = 0; i < 3; ++i) {
        CODE(cuCtxSetCurrent(primary), 0);
        CODE(cuMemAlloc(&p[i], 1000), 0);
        CODE(cuCtxSetCurrent(own), 0);
        CODE(cuMemAlloc(&q[i], 100), 0);
    }
    CODE(cuArrayCreate(&array, &flat), 0);
    CHECK(cuSimLiveBytes() == 3300 + 16 * 16 * 16);
    CODE(cuCtxDestroy(own), 0);
    CHECK(cuSimLiveBytes() == 3000);
    CODE(cuCtxSetCurrent(primary), 0);
    CODE(cuMemFree(q[1]), 1);
    CODE(cuArrayDestroy(array), 400);
    for (CUdeviceptr each : p) CODE(cuMemFree(each), 0);
    CODE(cuMemAlloc(&p[0], 8192 * kMB), 0); /* nothing was lost between them */
}

static void planted_failures_come_first() {
    setenv("CUDA_SIM_MALLOC_FAIL", "3", 1);
    setenv("CUDA_SIM_FREE_FAIL", "3", 1);
    enter();
    const CUmemAllocationProp prop = pinned();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr p = 0;
    CUarray array = nullptr;
    CUDA_ARRAY_DESCRIPTOR flat{16, 16, CU_AD_FORMAT_FLOAT, 4};
    CODE(cuMemAlloc(&p, 0), 1);
    CODE(cuMemAlloc(&p, 512), 2);
    CODE(cuMemCreate(&handle, 2 * kMB, &prop, 0), 2);
    CODE(cuArrayCreate(&array, &flat), 2);
    CODE(cuMemAlloc(&p, 512), 0);
    CODE(cuMemCreate(&handle, 2 * kMB, &prop, 0), 0);
    CODE(cuArrayCreate(&array, &flat), 0);
    CODE(cuMemFree(0), 0);
    CODE(cuMemFree(p), 700);
    CODE(cuMemRelease(handle), 700);
    CODE(cuArrayDestroy(array), 700);
    CHECK(cuSimLiveAllocations() == 3);
    CODE(cuMemFree(p), 0);
    CODE(cuMemRelease(handle), 0);
    CODE(cuArrayDestroy(array), 0);
    CHECK(cuSimLiveAllocations() == 0);
}

static CUfunction function_of(const char *name) {
    CUmodule module = nullptr;
    CUfunction f = nullptr;
    CODE(cuModuleLoadData(&module, ptx), 0);
    CODE(cuModuleGetFunction(&f, module, name), 0);
    return f;
}

static void planted_launch_code_stops_launches() {
    setenv("CUDA_SIM_LAUNCH_RET", "719", 1);
    enter();
    CODE(launch(function_of("k"), 1, 1), 719);
    CODE(cuGraphLaunch(reinterpret_cast<CUgraphExec>(0x10), nullptr), 719);
    CHECK(cuSimLaunches() == 0);
}

static void add(void *user, CUsimDim3 grid, CUsimDim3 block, void **params) {
    *static_cast<unsigned *>(user) += grid.x * block.x * *static_cast<unsigned *>(params[0]);
}

static void a_launch_runs_its_host_function() {
    enter();
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUfunction f = nullptr;
    unsigned sum = 0, factor = 5;
    void *params[] = {&factor}, *extra[] = {nullptr};
    CODE(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0), 0);
    CODE(cuLibraryGetKernel(&kernel, library, "add"), 0);
    CODE(cuKernelGetFunction(&f, kernel), 0);
    CUfunction cast = reinterpret_cast<CUfunction>(kernel);
    CODE(cuSimSetHostFunction(cast, add, &sum), 0);
    CODE(cuLaunchKernel(cast, 2, 1, 1, 3, 1, 1, 0, nullptr, params, nullptr), 0);
    CODE(cuLaunchKernel_ptsz(f, 2, 1, 1, 3, 1, 1, 0, nullptr, params, nullptr), 0);
    CHECK(sum == 60);
    CODE(cuLaunchKernel(f, 2, 1, 1, 3, 1, 1, 0, nullptr, params, extra), 0); /* counted, not run */
    CODE(cuLaunchKernel(f, 2, 1, 1, 2048, 1, 1, 0, nullptr, params, nullptr), 1);
    CHECK(sum == 60 && cuSimLaunches() == 3);
    CODE(cuSimSetHostFunction(f, nullptr, nullptr), 0);
    CODE(cuLaunchKernel(f, 2, 1, 1, 3, 1, 1, 0, nullptr, params, nullptr), 0);
    CHECK(sum == 60 && cuSimLaunches() == 4);
}

/* Eight threads: what one takes no other has, through blocks, mappings, launches and code at once. */
static void threads_do_not_disturb_each_other() {
    enter();
    const size_t left = free_bytes();
    std::vector<std::thread> threads;
    for (unsigned id = 0; id < 8; ++id)
        threads.emplace_back([id] {
            enter();
            const CUmemAllocationProp prop = pinned();
            CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
            const size_t size = 2 * kMB;
            unsigned sum = 0, factor = 1;
            void *params[] = {&factor};
            CUfunction f = function_of(("k" + std::to_string(id)).c_str());
            CODE(cuSimSetHostFunction(f, add, &sum), 0);
            for (int i = 0; i < 50; ++i) {
                CUmemGenericAllocationHandle handle = 0;
                CUdeviceptr p = 0, q = 0;
                unsigned char seen = 0;
                CODE(cuMemAddressReserve(&p, size, 0, 0, 0), 0);
                CODE(cuMemCreate(&handle, size, &prop, 0), 0);
                CODE(cuMemMap(p, size, 0, handle, 0), 0);
                CODE(cuMemRelease(handle), 0);
                CODE(cuMemSetAccess(p, size, &access, 1), 0);
                CODE(cuMemAlloc(&q, 1000), 0);
                CODE(cuMemcpyDtoH(&seen, p + size - 1, 1), 0);
                CHECK(seen == 0);
                CODE(cuMemsetD8(p + size - 1, static_cast<unsigned char>(id + 1), 1), 0);
                CODE(cuMemcpyDtoD(q, p + size - 1, 1), 0);
                CODE(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr), 0);
                CODE(cuMemcpyDtoH(&seen, q, 1), 0);
                CHECK(seen == id + 1);
                CODE(cuMemFree(q), 0);
                CODE(cuMemUnmap(p, size), 0);
                CODE(cuMemAddressFree(p, size), 0);
            }
            CHECK(sum == 50);
        });
    for (std::thread &t : threads) t.join();
    CHECK(free_bytes() == left && cuSimLiveAllocations() == 0 && cuSimLaunches() == 400);
}

static void a_forked_child_goes_on() {
    enter();
    CUdeviceptr p = 0;
    CODE(cuMemAlloc(&p, 512), 0);
    const CUmemAllocationProp prop = pinned();
    CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle first = 0, mapped = 0;
    CUdeviceptr range = 0;
    int ends[2];
    CHECK(pipe(ends) == 0);
    CODE(cuMemCreate(&first, 2 * kMB, &prop, 0), 0);
    CODE(cuMemAddressReserve(&range, 4 * kMB, 0, 0, 0), 0);
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        enter();
        while (!stop) {
            CUdeviceptr q = 0;
            CODE(cuMemAlloc(&q, 512), 0);
            CODE(cuMemFree(q), 0);
            std::this_thread::sleep_for(std::chrono::microseconds(10)); /* or fork waits for ever */
        }
    });
    for (int i = 0; i < 20; ++i) {
        pid_t child = fork();
        if (child == 0) {
            CUmemGenericAllocationHandle handle = 0;
            char byte = 0;
            CHECK(read(ends[0], &byte, 1) == 1); /* the parent has created more */
            CODE(cuMemCreate(&handle, 2 * kMB, &prop, 0), 0);
            CODE(cuMemRelease(handle), 0);
            CODE(cuMemFree(p), 0);
            _exit(0);
        }
        if (i == 0) {
            CODE(cuMemCreate(&mapped, 4 * kMB, &prop, 0), 0);
            CODE(cuMemMap(range, 4 * kMB, 0, mapped, 0), 0);
            CODE(cuMemSetAccess(range, 4 * kMB, &access, 1), 0);
        }
        int status = 0;
        CHECK(write(ends[1], "", 1) == 1);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CODE(cuMemsetD8(range, 1, 4 * kMB), 0); /* no child took it away */
    }
    stop = true;
    busy.join();
    CODE(cuMemFree(p), 0);
}

#define OWN_TESTS \
    TEST(every_address_is_the_exported_function_of_that_name), TEST(errors_have_names_and_texts), \
    TEST(physical_memory_and_blocks_share_a_device), TEST(a_context_takes_along_what_is_its_own), \
    TEST(planted_failures_come_first), TEST(planted_launch_code_stops_launches), TEST(a_launch_runs_its_host_function), \
    TEST(threads_do_not_disturb_each_other), TEST(a_forked_child_goes_on),
