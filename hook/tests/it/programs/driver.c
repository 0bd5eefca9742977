/* Makes the calls of the driver API that its arguments name, one an argument, and prints one line for each:
 *
 *     driver WAY [bare] alloc:64M launch:1,1,1:32,1,1 info free
 *
 *     alloc:64M = 0
 *     ...
 *
 * WAY is how the functions are found, all of them at the start, as CUDA's header and its users do:
 *
 *     link    called by name; the program is linked with -lcuda
 *     dlsym   dlopen("libcuda.so.1"), dlsym of each exported name (cuMemAlloc_v2, cuLaunchKernel_ptsz)
 *     proc    dlopen, dlsym of cuGetProcAddress_v2, which gives the rest by name, version and flag
 *     proc1   the same by the older cuGetProcAddress, which has no status
 *
 * Compiled with -DUNLINKED and without -lcuda it lacks the first way, and no libcuda is loaded before dlopen.
 *
 * Before the first command it calls cuInit, retains device 0's primary context and makes it current, unless that
 * command is `bare`. Out: `command = code`, then what else there is to tell, then ` errno=N` where the call changed
 * errno. `20x` before a command repeats it. Sizes take K, M, G; `max-32M` is 32 MB less than the largest size. Things
 * are named by a letter, `a` where none is given: each letter has an address, an array, a mipmapped array, a stretch of
 * virtual memory. A function missing from the driver gives -1; a function of the stand-in alone, on another driver, -2.
 *
 *     alloc:SIZE[:NAME]   alloc-null:SIZE   managed:SIZE[:NAME]   pitch:WIDTH,HEIGHT[:NAME]
 *     async[-ptsz]:SIZE[:NAME]   pool[-ptsz]:SIZE[:NAME]
 *     free[:NAME]   free-async[-ptsz][:NAME]   free-raw:ADDRESS   is-null[:NAME]
 *     hold:COUNT:SIZE   drop                     many blocks, and all of them back: the first bad code
 *     host:SIZE[:NAME]   free-host[:NAME]        pinned host memory;  register  pins some of the program's own
 *     array:W,H[:NAME]   array3:W,H,D[:NAME]   mip:W,H,LEVELS[:NAME]   free-array[:NAME]   free-mip[:NAME]
 *                                                four channels of 32 bits
 *     vmm:SIZE[:NAME]    reserve, create, map and access in one;  unvmm[:NAME]  unmap, release and address-free
 *     reserve:SIZE[:NAME]   create:SIZE[:NAME]   map[:NAME]   access[:NAME]   unmap[:NAME]   release[:NAME]
 *     retain[:NAME]   address-free[:NAME]        the same one by one; retain finds the handle by the address
 *     launch[-ptsz][:GRID[:BLOCK[:SHMEM]]]   launch-ex[-ptsz]…   launch-coop[-ptsz]…   launch-ex-null
 *     graph[-ptsz]
 *     function:NAME   kernel:NAME   kernel-function:NAME
 *                        what is launched from here on: of a module, of a library, of a library by cuKernelGetFunction;
 *                        without any of these a module's `dummy_kernel`
 *     name               tells its name, too
 *     copy[:NAME]        16 bytes there and back: 0 when they came back
 *     info   total       MB free and in all, by cuMemGetInfo; less than 0: its code
 *     reset              cuDevicePrimaryCtxReset and cuDevicePrimaryCtxRetain
 *     release-ctx        cuDevicePrimaryCtxRelease
 *     init   device:N    cuInit alone; device N's primary context retained and made current
 *     ctx-create   ctx-destroy   pop   sync
 *     address:NAME[:VERSION[:FLAGS]]   tells status and whether there is an address, by cuGetProcAddress_v2
 *     live   launches    the stand-in's bytes of live allocations, and launches it accepted
 *     thread ... done    the commands between, on a thread of their own (which has no current context: `device:0`)
 *     fork ... done      the commands between, in a child, which then exits
 *     sleep:MS   pid   _exit:N   kill
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#define MARK 4242 /* no errno of anything */

/* field, function, exported name, name for cuGetProcAddress, version, flag */
#define FUNCTIONS(X) \
    X(init, cuInit, "cuInit", "cuInit", 2000, 0) \
    X(retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000, 0) \
    X(ctx_release, cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease", 11000, 0) \
    X(ctx_reset, cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset", 11000, 0) \
    X(ctx_set, cuCtxSetCurrent, "cuCtxSetCurrent", "cuCtxSetCurrent", 4000, 0) \
    X(ctx_pop, cuCtxPopCurrent_v2, "cuCtxPopCurrent_v2", "cuCtxPopCurrent", 4000, 0) \
    X(ctx_create, cuCtxCreate_v4, "cuCtxCreate_v4", "cuCtxCreate", 12050, 0) \
    X(ctx_destroy, cuCtxDestroy_v2, "cuCtxDestroy_v2", "cuCtxDestroy", 4000, 0) \
    X(ctx_sync, cuCtxSynchronize, "cuCtxSynchronize", "cuCtxSynchronize", 2000, 0) \
    X(info, cuMemGetInfo_v2, "cuMemGetInfo_v2", "cuMemGetInfo", 3020, 0) \
    X(alloc, cuMemAlloc_v2, "cuMemAlloc_v2", "cuMemAlloc", 3020, 0) \
    X(pitch, cuMemAllocPitch_v2, "cuMemAllocPitch_v2", "cuMemAllocPitch", 3020, 0) \
    X(managed, cuMemAllocManaged, "cuMemAllocManaged", "cuMemAllocManaged", 6000, 0) \
    X(async, cuMemAllocAsync, "cuMemAllocAsync", "cuMemAllocAsync", 11020, 0) \
    X(async_ptsz, cuMemAllocAsync_ptsz, "cuMemAllocAsync_ptsz", "cuMemAllocAsync", 11020, 2) \
    X(pool, cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync", 11020, 0) \
    X(pool_ptsz, cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync_ptsz", "cuMemAllocFromPoolAsync", 11020, 2) \
    X(free, cuMemFree_v2, "cuMemFree_v2", "cuMemFree", 3020, 0) \
    X(free_async, cuMemFreeAsync, "cuMemFreeAsync", "cuMemFreeAsync", 11020, 0) \
    X(free_async_ptsz, cuMemFreeAsync_ptsz, "cuMemFreeAsync_ptsz", "cuMemFreeAsync", 11020, 2) \
    X(host_alloc, cuMemHostAlloc, "cuMemHostAlloc", "cuMemHostAlloc", 2020, 0) \
    X(host_register, cuMemHostRegister_v2, "cuMemHostRegister_v2", "cuMemHostRegister", 6050, 0) \
    X(host_free, cuMemFreeHost, "cuMemFreeHost", "cuMemFreeHost", 2000, 0) \
    X(array, cuArrayCreate_v2, "cuArrayCreate_v2", "cuArrayCreate", 3020, 0) \
    X(array3, cuArray3DCreate_v2, "cuArray3DCreate_v2", "cuArray3DCreate", 3020, 0) \
    X(array_free, cuArrayDestroy, "cuArrayDestroy", "cuArrayDestroy", 2000, 0) \
    X(mip, cuMipmappedArrayCreate, "cuMipmappedArrayCreate", "cuMipmappedArrayCreate", 5000, 0) \
    X(mip_free, cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", "cuMipmappedArrayDestroy", 5000, 0) \
    X(reserve, cuMemAddressReserve, "cuMemAddressReserve", "cuMemAddressReserve", 10020, 0) \
    X(address_free, cuMemAddressFree, "cuMemAddressFree", "cuMemAddressFree", 10020, 0) \
    X(create, cuMemCreate, "cuMemCreate", "cuMemCreate", 10020, 0) \
    X(release, cuMemRelease, "cuMemRelease", "cuMemRelease", 10020, 0) \
    X(retain_handle, cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", "cuMemRetainAllocationHandle", 11000, 0) \
    X(map, cuMemMap, "cuMemMap", "cuMemMap", 10020, 0) \
    X(unmap, cuMemUnmap, "cuMemUnmap", "cuMemUnmap", 10020, 0) \
    X(access, cuMemSetAccess, "cuMemSetAccess", "cuMemSetAccess", 10020, 0) \
    X(to_device, cuMemcpyHtoD_v2, "cuMemcpyHtoD_v2", "cuMemcpyHtoD", 3020, 0) \
    X(to_host, cuMemcpyDtoH_v2, "cuMemcpyDtoH_v2", "cuMemcpyDtoH", 3020, 0) \
    X(module, cuModuleLoadData, "cuModuleLoadData", "cuModuleLoadData", 2000, 0) \
    X(module_function, cuModuleGetFunction, "cuModuleGetFunction", "cuModuleGetFunction", 2000, 0) \
    X(library, cuLibraryLoadData, "cuLibraryLoadData", "cuLibraryLoadData", 12000, 0) \
    X(library_kernel, cuLibraryGetKernel, "cuLibraryGetKernel", "cuLibraryGetKernel", 12000, 0) \
    X(kernel_function, cuKernelGetFunction, "cuKernelGetFunction", "cuKernelGetFunction", 12000, 0) \
    X(function_name, cuFuncGetName, "cuFuncGetName", "cuFuncGetName", 12030, 0) \
    X(kernel_name, cuKernelGetName, "cuKernelGetName", "cuKernelGetName", 12030, 0) \
    X(launch, cuLaunchKernel, "cuLaunchKernel", "cuLaunchKernel", 4000, 0) \
    X(launch_ptsz, cuLaunchKernel_ptsz, "cuLaunchKernel_ptsz", "cuLaunchKernel", 7000, 2) \
    X(launch_ex, cuLaunchKernelEx, "cuLaunchKernelEx", "cuLaunchKernelEx", 11060, 0) \
    X(launch_ex_ptsz, cuLaunchKernelEx_ptsz, "cuLaunchKernelEx_ptsz", "cuLaunchKernelEx", 11060, 2) \
    X(launch_coop, cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel", 9000, 0) \
    X(launch_coop_ptsz, cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel_ptsz", "cuLaunchCooperativeKernel", 9000, 2) \
    X(graph, cuGraphLaunch, "cuGraphLaunch", "cuGraphLaunch", 10000, 0) \
    X(graph_ptsz, cuGraphLaunch_ptsz, "cuGraphLaunch_ptsz", "cuGraphLaunch", 10000, 2) \
    X(proc, cuGetProcAddress_v2, "cuGetProcAddress_v2", "cuGetProcAddress", 12000, 0)

#define FIELD(field, function, exported, name, version, flag) __typeof__(&function) field;
static struct { FUNCTIONS(FIELD) } cu;

struct place {
    CUdeviceptr address;
    void *host;
    CUarray array;
    CUmipmappedArray mip;
    CUdeviceptr range;
    size_t range_size;
    CUmemGenericAllocationHandle handle;
};

/* An image for the real driver's loader; the stand-in reads none. */
static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry dummy_kernel(){ret;}\n";

static char **commands;
static struct place places[26];
static CUdeviceptr *held;
static size_t held_count;
static void *what, *library;
static CUcontext created;
static bool what_is_kernel;

/* ---- finding the functions ---- */

static void find_linked(void) {
#ifdef UNLINKED
    fprintf(stderr, "driver: not linked with libcuda\n");
    exit(99);
#else
#define LINK(field, function, exported, name, version, flag) cu.field = function;
    FUNCTIONS(LINK)
#endif
}

static void *opened(const char *symbol) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, symbol) : NULL;
    if (!found) {
        fprintf(stderr, "driver: %s\n", dlerror());
        exit(99);
    }
    return found;
}

static void find_exported(void) {
    opened("cuInit");
#define DLSYM(field, function, exported, name, version, flag) \
    cu.field = (__typeof__(&function))(uintptr_t)dlsym(library, exported);
    FUNCTIONS(DLSYM)
}

static void find_by_name(void) {
    typedef CUresult (*get_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    get_fn get = (get_fn)(uintptr_t)opened("cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult status;
#define PROC(field, function, exported, name, version, flag) get(name, (void **)&cu.field, version, flag, &status);
    FUNCTIONS(PROC)
}

static void find_by_name_alone(void) {
    typedef CUresult (*get_fn)(const char *, void **, int, cuuint64_t);
    get_fn get = (get_fn)(uintptr_t)opened("cuGetProcAddress");
#define PROC1(field, function, exported, name, version, flag) get(name, (void **)&cu.field, version, flag);
    FUNCTIONS(PROC1)
}

/* ---- commands ---- */

#define CALL(field, ...) (errno = MARK, cu.field ? (long long)cu.field(__VA_ARGS__) : -1)

static size_t size_of(const char *text) {
    if (!text) return 0;
    size_t from_top = strncmp(text, "max-", 4) == 0;
    char *unit;
    size_t value = strtoull(from_top ? text + 4 : text, &unit, 0);
    value <<= *unit == 'K' ? 10 : *unit == 'M' ? 20 : *unit == 'G' ? 30 : 0;
    return from_top ? SIZE_MAX - value : value;
}

static struct place *place_of(const char *name) {
    if (!name) return &places[0];
    if (*name < 'a' || *name > 'z') {
        fprintf(stderr, "driver: `%s` is no letter\n", name);
        exit(99);
    }
    return &places[*name - 'a'];
}

static long long enter(int device) {
    CUcontext context = NULL;
    long long code = CALL(retain, &context, device);
    return code ? code : CALL(ctx_set, context);
}

/* Chooses what is launched. */
static long long choose(const char *how, const char *name) {
    CUmodule module;
    CUlibrary lib;
    long long code;
    if (strcmp(how, "function") == 0) {
        code = CALL(module, &module, ptx);
        if (code == 0) code = CALL(module_function, (CUfunction *)&what, module, name);
        what_is_kernel = false;
        return code;
    }
    code = CALL(library, &lib, ptx, NULL, NULL, 0, NULL, NULL, 0);
    if (code == 0) code = CALL(library_kernel, (CUkernel *)&what, lib, name);
    what_is_kernel = strcmp(how, "kernel") == 0;
    if (code == 0 && !what_is_kernel) code = CALL(kernel_function, (CUfunction *)&what, (CUkernel)what);
    return code;
}

static long long launch(const char *way, const char *grid, const char *block, const char *shmem) {
    unsigned g[3] = {1, 1, 1}, b[3] = {32, 1, 1}, bytes = (unsigned)size_of(shmem);
    if (grid) sscanf(grid, "%u,%u,%u", &g[0], &g[1], &g[2]);
    if (block) sscanf(block, "%u,%u,%u", &b[0], &b[1], &b[2]);
    if (!what) {
        long long code = choose("function", "dummy_kernel");
        if (code != 0) return code;
    }
    CUfunction f = what;
    CUlaunchConfig config = {g[0], g[1], g[2], b[0], b[1], b[2], bytes, NULL, NULL, 0};
#define SHAPE f, g[0], g[1], g[2], b[0], b[1], b[2], bytes, NULL
    if (!strcmp(way, "launch")) return CALL(launch, SHAPE, NULL, NULL);
    if (!strcmp(way, "launch-ptsz")) return CALL(launch_ptsz, SHAPE, NULL, NULL);
    if (!strcmp(way, "launch-ex")) return CALL(launch_ex, &config, f, NULL, NULL);
    if (!strcmp(way, "launch-ex-ptsz")) return CALL(launch_ex_ptsz, &config, f, NULL, NULL);
    if (!strcmp(way, "launch-ex-null")) return CALL(launch_ex, NULL, f, NULL, NULL);
    if (!strcmp(way, "launch-coop")) return CALL(launch_coop, SHAPE, NULL);
    if (!strcmp(way, "launch-coop-ptsz")) return CALL(launch_coop_ptsz, SHAPE, NULL);
    fprintf(stderr, "driver: what is `%s`?\n", way);
    exit(99);
}

static long long make_array(const char *kind, const char *shape, struct place *p) {
    size_t w = 0, h = 0, third = 0;
    sscanf(shape, "%zu,%zu,%zu", &w, &h, &third);
    CUDA_ARRAY_DESCRIPTOR flat = {w, h, CU_AD_FORMAT_FLOAT, 4};
    CUDA_ARRAY3D_DESCRIPTOR deep = {w, h, third, CU_AD_FORMAT_FLOAT, 4, 0};
    if (!strcmp(kind, "array")) return CALL(array, &p->array, &flat);
    if (!strcmp(kind, "array3")) return CALL(array3, &p->array, &deep);
    deep.Depth = 0;
    return CALL(mip, &p->mip, &deep, (unsigned)third);
}

static long long vmm(const char *step, const char *size, struct place *p) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (!strcmp(step, "reserve")) return p->range_size = size_of(size), CALL(reserve, &p->range, p->range_size, 0, 0, 0);
    if (!strcmp(step, "create")) return CALL(create, &p->handle, size_of(size), &prop, 0);
    if (!strcmp(step, "map")) return CALL(map, p->range, p->range_size, 0, p->handle, 0);
    if (!strcmp(step, "access")) return CALL(access, p->range, p->range_size, &desc, 1);
    if (!strcmp(step, "unmap")) return CALL(unmap, p->range, p->range_size);
    if (!strcmp(step, "release")) return CALL(release, p->handle);
    if (!strcmp(step, "retain")) return CALL(retain_handle, &p->handle, (void *)(uintptr_t)p->range);
    if (!strcmp(step, "address-free")) return CALL(address_free, p->range, p->range_size);
    /* Several in one: stops at the first that fails, and undoes what it did. */
    if (!strcmp(step, "unvmm")) {
        long long code = vmm("unmap", NULL, p);
        if (code == 0) code = vmm("release", NULL, p);
        return code ? code : vmm("address-free", NULL, p);
    }
    long long code = vmm("reserve", size, p);
    if (code != 0) return code;
    code = vmm("create", size, p);
    if (code == 0 && (code = vmm("map", NULL, p)) == 0 && (code = vmm("access", NULL, p)) == 0) return 0;
    int after = errno;
    if (cu.address_free) cu.address_free(p->range, p->range_size);
    errno = after;
    return code;
}

static long long hold(size_t count, size_t size) {
    held = realloc(held, (held_count + count) * sizeof *held);
    for (; count > 0; count--) {
        long long code = CALL(alloc, &held[held_count], size);
        if (code != 0) return code;
        held_count++;
    }
    return 0;
}

static long long drop(void) {
    long long worst = 0;
    while (held_count > 0) {
        long long code = CALL(free, held[--held_count]);
        if (worst == 0) worst = code;
    }
    return worst;
}

static long long copy(CUdeviceptr address) {
    unsigned char there[16] = "there and back", back[16] = {0};
    long long code = CALL(to_device, address, there, sizeof there);
    if (code == 0) code = CALL(to_host, back, address, sizeof back);
    return code ? code : memcmp(there, back, sizeof back) != 0;
}

static long long megabytes(bool total) {
    size_t free_bytes = 0, total_bytes = 0;
    long long code = CALL(info, &free_bytes, &total_bytes);
    return code ? -code : (long long)((total ? total_bytes : free_bytes) >> 20);
}

static char own_memory[4096];

static long long counter(const char *symbol) {
    typedef unsigned long long (*counter_fn)(void);
    counter_fn read = (counter_fn)(uintptr_t)dlsym(library ? library : RTLD_DEFAULT, symbol);
    errno = MARK;
    return read ? (long long)read() : -2;
}

static long long run_one(const char *word, char *a, char *b, char *c, char *more, size_t room) {
    errno = MARK;
    if (!strcmp(word, "alloc")) return CALL(alloc, &place_of(b)->address, size_of(a));
    if (!strcmp(word, "alloc-null")) return CALL(alloc, NULL, size_of(a));
    if (!strcmp(word, "managed")) return CALL(managed, &place_of(b)->address, size_of(a), CU_MEM_ATTACH_GLOBAL);
    if (!strcmp(word, "async")) return CALL(async, &place_of(b)->address, size_of(a), NULL);
    if (!strcmp(word, "async-ptsz")) return CALL(async_ptsz, &place_of(b)->address, size_of(a), NULL);
    if (!strcmp(word, "pool")) return CALL(pool, &place_of(b)->address, size_of(a), NULL, NULL);
    if (!strcmp(word, "pool-ptsz")) return CALL(pool_ptsz, &place_of(b)->address, size_of(a), NULL, NULL);
    if (!strcmp(word, "pitch")) {
        size_t width = 0, height = 0, row = 0;
        sscanf(a, "%zu,%zu", &width, &height);
        long long code = CALL(pitch, &place_of(b)->address, &row, width, height, 4);
        snprintf(more, room, " pitch=%zu", row);
        return code;
    }
    if (!strcmp(word, "free")) return CALL(free, place_of(a)->address);
    if (!strcmp(word, "free-async")) return CALL(free_async, place_of(a)->address, NULL);
    if (!strcmp(word, "free-async-ptsz")) return CALL(free_async_ptsz, place_of(a)->address, NULL);
    if (!strcmp(word, "free-raw")) return CALL(free, size_of(a));
    if (!strcmp(word, "is-null")) return place_of(a)->address == 0;
    if (!strcmp(word, "hold")) return hold(size_of(a), size_of(b));
    if (!strcmp(word, "drop")) return drop();
    if (!strcmp(word, "host")) return CALL(host_alloc, &place_of(b)->host, size_of(a), 0);
    if (!strcmp(word, "register")) return CALL(host_register, own_memory, sizeof own_memory, 0);
    if (!strcmp(word, "free-host")) return CALL(host_free, place_of(a)->host);
    if (!strcmp(word, "free-array")) return CALL(array_free, place_of(a)->array);
    if (!strcmp(word, "free-mip")) return CALL(mip_free, place_of(a)->mip);
    if (!strcmp(word, "array") || !strcmp(word, "array3") || !strcmp(word, "mip")) return make_array(word, a, place_of(b));
    if (!strcmp(word, "vmm") || !strcmp(word, "reserve") || !strcmp(word, "create")) return vmm(word, a, place_of(b));
    for (const char *const *step = (const char *const[]){"unvmm", "map", "access", "unmap", "release", "retain", "address-free", NULL}; *step; step++)
        if (!strcmp(word, *step)) return vmm(word, NULL, place_of(a));
    if (!strncmp(word, "launch", 6) && strcmp(word, "launches")) return launch(word, a, b, c);
    if (!strcmp(word, "graph")) return CALL(graph, (CUgraphExec)(uintptr_t)0x55d0, NULL);
    if (!strcmp(word, "graph-ptsz")) return CALL(graph_ptsz, (CUgraphExec)(uintptr_t)0x55d0, NULL);
    if (!strcmp(word, "function") || !strcmp(word, "kernel") || !strcmp(word, "kernel-function")) return choose(word, a);
    if (!strcmp(word, "name")) {
        const char *name = "";
        long long code = what_is_kernel ? CALL(kernel_name, &name, (CUkernel)what) : CALL(function_name, &name, (CUfunction)what);
        snprintf(more, room, " %s", name);
        return code;
    }
    if (!strcmp(word, "copy")) return copy(place_of(a)->address ? place_of(a)->address : place_of(a)->range);
    if (!strcmp(word, "info")) return megabytes(false);
    if (!strcmp(word, "total")) return megabytes(true);
    if (!strcmp(word, "reset")) {
        CUcontext context;
        long long code = CALL(ctx_reset, 0);
        return code ? code : CALL(retain, &context, 0);
    }
    if (!strcmp(word, "release-ctx")) return CALL(ctx_release, 0);
    if (!strcmp(word, "init")) return CALL(init, 0);
    if (!strcmp(word, "device")) return enter(atoi(a));
    if (!strcmp(word, "ctx-create")) return CALL(ctx_create, &created, NULL, 0, 0);
    if (!strcmp(word, "ctx-destroy")) return CALL(ctx_destroy, created);
    if (!strcmp(word, "pop")) return CALL(ctx_pop, &created);
    if (!strcmp(word, "sync")) return CALL(ctx_sync);
    if (!strcmp(word, "address")) {
        void *found = NULL;
        CUdriverProcAddressQueryResult status = 9;
        long long code = CALL(proc, a, &found, b ? atoi(b) : 12000, c ? strtoull(c, NULL, 0) : 0, &status);
        snprintf(more, room, " status=%d %s", (int)status, found ? "found" : "none");
        return code;
    }
    if (!strcmp(word, "live")) return counter("cuSimLiveBytes");
    if (!strcmp(word, "launches")) return counter("cuSimLaunches");
    if (!strcmp(word, "sleep")) {
        long ms = atol(a);
        struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
        while (nanosleep(&pause, &pause) != 0) {
        }
        return 0;
    }
    if (!strcmp(word, "pid")) return getpid();
    if (!strcmp(word, "_exit")) _exit(atoi(a));
    if (!strcmp(word, "kill")) return raise(SIGKILL);
    fprintf(stderr, "driver: what is `%s`?\n", word);
    exit(99);
}

static void run_words(const char *command) {
    char text[256], *words[4] = {NULL}, *rest = NULL;
    snprintf(text, sizeof text, "%s", command);
    for (int i = 0; i < 4; i++) words[i] = strtok_r(i ? NULL : text, ":", &rest);
    char *word = words[0], *end;
    long times = word ? strtol(word, &end, 10) : 0;
    if (times > 0 && *end == 'x')
        word = end + 1;
    else
        times = 1;
    while (word && times-- > 0) {
        char more[300] = "";
        long long code = run_one(word, words[1], words[2], words[3], more, sizeof more);
        int after = errno;
        printf("%s = %lld%s", command, code, more);
        if (after != MARK) printf(" errno=%d", after);
        printf("\n");
    }
}

static void run_range(int from, int to);

struct range {
    int from, to;
};

static void *run_thread(void *range) {
    struct range *r = range;
    run_range(r->from, r->to);
    return NULL;
}

static void run_range(int from, int to) {
    for (int i = from; i < to; i++) {
        bool child = !strcmp(commands[i], "fork"), thread = !strcmp(commands[i], "thread");
        if (!child && !thread) {
            run_words(commands[i]);
            continue;
        }
        struct range r = {i + 1, i + 1};
        while (r.to < to && strcmp(commands[r.to], "done")) r.to++;
        i = r.to;
        if (thread) {
            pthread_t id;
            if (pthread_create(&id, NULL, run_thread, &r) || pthread_join(id, NULL)) exit(98);
            continue;
        }
        int status = 0;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            run_range(r.from, r.to);
            exit(0);
        }
        if (waitpid(pid, &status, 0) != pid || status != 0) exit(97);
    }
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *way = argc > 1 ? argv[1] : "";
    if (!strcmp(way, "link")) find_linked();
    else if (!strcmp(way, "dlsym")) find_exported();
    else if (!strcmp(way, "proc")) find_by_name();
    else if (!strcmp(way, "proc1")) find_by_name_alone();
    else {
        fprintf(stderr, "usage: %s link|dlsym|proc|proc1 [bare] COMMAND...\n", argv[0]);
        return 99;
    }
    commands = argv + 2;
    int count = argc - 2;
    if (count > 0 && !strcmp(commands[0], "bare")) {
        commands++;
        count--;
    } else if (CALL(init, 0) != 0 || enter(0) != 0) {
        fprintf(stderr, "driver: no context\n");
        return 98;
    }
    run_range(0, count);
    return 0;
}
