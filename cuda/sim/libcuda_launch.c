/* The stand-in driver's code and launches.
 *
 * No image is read: any but NULL stands for one that holds whatever function is asked for by name. Functions of modules
 * and kernels of libraries are looked up at each launch, without a lock, so that a bad handle gets its code (400). They
 * are never freed, only marked dead when what brought them is unloaded: a stale handle is no other's. Functions outlive
 * the context of their module.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "libcuda.h"
#include "limits.h"

struct host_function {
    CUsimHostFunction run; /* NULL: nothing */
    void *user;
    const struct host_function *replaced; /* kept: a launch may be looking at it */
};

struct code {
    struct image *image;      /* gone once it is dead */
    bool is_kernel;           /* a CUkernel, else a CUfunction */
    struct code *kernel;      /* of a function: the kernel that it stands for, if any */
    char *name;
    _Atomic(const struct host_function *) host;
    atomic_int max_shmem;
    atomic_bool dead;
    struct code *next_by_handle, *next_of_image;
};

/* A module or a library. */
struct image {
    struct sim_handle handle;
    struct code *codes;
};

#define BUCKETS 1024u
static _Atomic(struct code *) codes[BUCKETS];
static atomic_ullong launches;

/* ---- code ---- */

static unsigned bucket(const void *handle) {
    return (unsigned)(((uint64_t)(uintptr_t)handle * 0x9E3779B97F4A7C15u) >> 54);
}

static struct code *code_find(const void *handle) {
    struct code *c = atomic_load_explicit(&codes[bucket(handle)], memory_order_acquire);
    while (c && c != handle) c = c->next_by_handle;
    return c && !atomic_load_explicit(&c->dead, memory_order_relaxed) ? c : NULL;
}

/* A function for a kernel shares its host function and its attributes. */
static struct code *base(struct code *c) { return c->kernel ? c->kernel : c; }

/* The image's code of that name and kind, made on first request. NULL: no memory. */
static struct code *code_of_locked(struct image *image, const char *name, bool is_kernel, struct code *kernel) {
    for (struct code *c = image->codes; c; c = c->next_of_image)
        if (c->is_kernel == is_kernel && c->kernel == kernel && strcmp(c->name, name) == 0) return c;
    struct code *c = calloc(1, sizeof *c);
    char *own = strdup(name);
    if (!c || !own) {
        free(c);
        free(own);
        return NULL;
    }
    c->image = image;
    c->name = own;
    c->is_kernel = is_kernel;
    c->kernel = kernel;
    atomic_init(&c->max_shmem, SHMEM_DEFAULT);
    unsigned n = bucket(c);
    c->next_by_handle = atomic_load(&codes[n]);
    c->next_of_image = image->codes;
    image->codes = c;
    atomic_store_explicit(&codes[n], c, memory_order_release);
    return c;
}

static CUresult load(void *out, enum sim_kind kind, const void *data, CUcontext owner) {
    if (!out || !data) return CUDA_ERROR_INVALID_VALUE;
    struct image *image = calloc(1, sizeof *image);
    if (!image) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_handle_add(&image->handle, kind, owner);
    memcpy(out, &image, sizeof image);
    return CUDA_SUCCESS;
}

static CUresult unload(const void *handle, enum sim_kind kind) {
    pthread_mutex_lock(&sim_lock);
    struct image *image = (struct image *)sim_handle_take_locked(handle, kind);
    for (struct code *c = image ? image->codes : NULL; c; c = c->next_of_image) atomic_store(&c->dead, true);
    pthread_mutex_unlock(&sim_lock);
    free(image);
    return image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult get(void *out, const void *handle, enum sim_kind kind, const char *name) {
    if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
    if (!*name) return CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&sim_lock);
    struct image *image = (struct image *)sim_handle_find_locked(handle, kind);
    struct code *c = image ? code_of_locked(image, name, kind == SIM_LIBRARY, NULL) : NULL;
    pthread_mutex_unlock(&sim_lock);
    if (!image) return CUDA_ERROR_INVALID_HANDLE;
    if (!c) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(out, &c, sizeof c);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    CUcontext context;
    CUresult code = sim_context(&context);
    return code == CUDA_SUCCESS ? load(module, SIM_MODULE, image, context) : code;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CUcontext context;
    CUresult code = sim_context(&context);
    return code == CUDA_SUCCESS ? get(function, module, SIM_MODULE, name) : code;
}

CUresult cuModuleUnload(CUmodule module) {
    CUcontext context;
    CUresult code = sim_context(&context);
    return code == CUDA_SUCCESS ? unload(module, SIM_MODULE) : code;
}

/* A library belongs to no context. */
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options, void **jit_values,
                           unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count) {
    (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    CUresult result = sim_initialised_or_code();
    return result == CUDA_SUCCESS ? load(library, SIM_LIBRARY, code, NULL) : result;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    CUresult code = sim_initialised_or_code();
    return code == CUDA_SUCCESS ? get(kernel, library, SIM_LIBRARY, name) : code;
}

CUresult cuLibraryUnload(CUlibrary library) {
    CUresult code = sim_initialised_or_code();
    return code == CUDA_SUCCESS ? unload(library, SIM_LIBRARY) : code;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    struct code *k = code_find(kernel);
    if (!k || !k->is_kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    struct code *f = NULL;
    pthread_mutex_lock(&sim_lock);
    if (!atomic_load(&k->dead)) f = code_of_locked(k->image, k->name, false, k);
    pthread_mutex_unlock(&sim_lock);
    if (!f) return CUDA_ERROR_OUT_OF_MEMORY;
    *function = (CUfunction)f;
    return CUDA_SUCCESS;
}

/* ---- what is known of it ---- */

/* The code that a handle of that kind stands for; a kernel is no function, to all but launches. */
static CUresult named(const void *handle, bool is_kernel, struct code **found) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    *found = code_find(handle);
    return *found && (*found)->is_kernel == is_kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult get_name(const char **name, const void *handle, bool is_kernel) {
    struct code *c;
    CUresult code = named(handle, is_kernel, &c);
    if (code != CUDA_SUCCESS) return code;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = c->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function) { return get_name(name, function, false); }
CUresult cuKernelGetName(const char **name, CUkernel kernel) { return get_name(name, kernel, true); }

static CUresult get_attribute(int *value, CUfunction_attribute attribute, const void *handle, bool is_kernel) {
    struct code *c;
    CUresult code = named(handle, is_kernel, &c);
    if (code != CUDA_SUCCESS) return code;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = MAX_BLOCK_THREADS; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 8; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = atomic_load(&base(c)->max_shmem); break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction_attribute attribute, int value, const void *handle, bool is_kernel) {
    struct code *c;
    CUresult code = named(handle, is_kernel, &c);
    if (code != CUDA_SUCCESS) return code;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > SHMEM_OPTIN)
        return CUDA_ERROR_INVALID_VALUE;
    atomic_store(&base(c)->max_shmem, value);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    return get_attribute(value, attribute, function, false);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return set_attribute(attribute, value, function, false);
}

/* All devices share a kernel's attributes. */
CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
    (void)device;
    return get_attribute(value, attribute, kernel, true);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
    (void)device;
    return set_attribute(attribute, value, kernel, true);
}

/* ---- launches ---- */

/* Parameters packed in `extra` can't be taken apart here, so such a launch is counted and runs nothing. */
static CUresult launch(const void *handle, CUsimDim3 grid, CUsimDim3 block, unsigned shmem, CUstream stream, void **params,
                       void **extra) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (sim_settings.launch_ret != CUDA_SUCCESS) return sim_settings.launch_ret;
    struct code *c = code_find(handle);
    if (!c) return CUDA_ERROR_INVALID_HANDLE;
    c = base(c);
    if (!launch_shape_fits(grid.x, grid.y, grid.z, block.x, block.y, block.z) ||
        shmem > (unsigned)atomic_load_explicit(&c->max_shmem, memory_order_relaxed))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed);
    const struct host_function *host = atomic_load_explicit(&c->host, memory_order_acquire);
    if (host && host->run && !extra) host->run(host->user, grid, block, params);
    return CUDA_SUCCESS;
}

static CUresult launch_config(const CUlaunchConfig *config, const void *handle, void **params, void **extra) {
    if (!config) {
        CUcontext context;
        CUresult code = sim_context(&context);
        return code == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : code;
    }
    return launch(handle, (CUsimDim3){config->gridDimX, config->gridDimY, config->gridDimZ},
                  (CUsimDim3){config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes,
                  config->hStream, params, extra);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shmem, CUstream stream, void **params,
                        void **extra) {
    return launch(function, (CUsimDim3){gx, gy, gz}, (CUsimDim3){bx, by, bz}, shmem, stream, params, extra);
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                             unsigned int by, unsigned int bz, unsigned int shmem, CUstream stream, void **params,
                             void **extra) {
    return launch(function, (CUsimDim3){gx, gy, gz}, (CUsimDim3){bx, by, bz}, shmem, stream, params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
    return launch_config(config, function, params, extra);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
    return launch_config(config, function, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                   unsigned int by, unsigned int bz, unsigned int shmem, CUstream stream, void **params) {
    return launch(function, (CUsimDim3){gx, gy, gz}, (CUsimDim3){bx, by, bz}, shmem, stream, params, NULL);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                                        unsigned int bx, unsigned int by, unsigned int bz, unsigned int shmem,
                                        CUstream stream, void **params) {
    return launch(function, (CUsimDim3){gx, gy, gz}, (CUsimDim3){bx, by, bz}, shmem, stream, params, NULL);
}

/* There are no graphs to be made here: any handle but NULL stands for one, and its launch is counted. */
static CUresult launch_graph(CUgraphExec graph, CUstream stream) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    if (sim_settings.launch_ret != CUDA_SUCCESS) return sim_settings.launch_ret;
    if (!sim_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) { return launch_graph(graph, stream); }
CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) { return launch_graph(graph, stream); }

/* ---- the stand-in's own ---- */

CUresult cuSimSetHostFunction(CUfunction function, CUsimHostFunction run, void *user) {
    struct code *c = code_find(function);
    if (!c) return CUDA_ERROR_INVALID_HANDLE;
    struct host_function *host = malloc(sizeof *host);
    if (!host) return CUDA_ERROR_OUT_OF_MEMORY;
    *host = (struct host_function){run, user, NULL};
    pthread_mutex_lock(&sim_lock);
    host->replaced = atomic_load(&base(c)->host);
    atomic_store_explicit(&base(c)->host, host, memory_order_release);
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

unsigned long long cuSimLaunches(void) { return atomic_load(&launches); }
