/* The stand-in driver's memory: device allocations, arrays, pinned host memory, copies. */
#define _GNU_SOURCE
#include <limits.h>
#include <string.h>

#include "arena.h"
#include "libcuda.h"

#define PITCH ((size_t)512)

static struct arena arenas[MAX_DEVICES];

void sim_memory_open(void) {
    for (int i = 0; i < sim_settings.devices; i++) arenas[i].size = sim_settings.memory;
}

/* Arrays of the context go too: their handles by its generation. */
void sim_memory_drop_locked(CUcontext owner) { arena_give_all_of(&arenas[owner->device], owner); }

bool sim_physical_take_locked(int device, size_t size) {
    if (!arena_fits(&arenas[device], size)) return false;
    arenas[device].outside += size;
    arenas[device].asked += size;
    arenas[device].live++;
    return true;
}

void sim_physical_give_locked(int device, size_t size) {
    arenas[device].outside -= size;
    arenas[device].asked -= size;
    arenas[device].live--;
}

/* ---- device memory ---- */

/* `size` is not 0. */
static CUresult take(CUcontext context, CUcontext owner, size_t size, void **got) {
    if (sim_malloc_fails()) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_sleep_us(sim_settings.malloc_delay_us);
    pthread_mutex_lock(&sim_lock);
    *got = arena_take(&arenas[context->device], size, owner);
    pthread_mutex_unlock(&sim_lock);
    return *got ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* From any device, as unified addressing allows. */
static CUresult give(void *address) {
    if (sim_free_fails()) return CUDA_ERROR_ILLEGAL_ADDRESS;
    bool known = false;
    pthread_mutex_lock(&sim_lock);
    for (int i = 0; i < sim_settings.devices && !known; i++) known = arena_give(&arenas[i], address);
    pthread_mutex_unlock(&sim_lock);
    if (!known) return CUDA_ERROR_INVALID_VALUE;
    sim_sleep_us(sim_settings.free_delay_us);
    return CUDA_SUCCESS;
}

/* A failed allocation leaves 0 behind, as the real driver's was seen to do. */
static CUresult allocate_for(bool pooled, CUdeviceptr *address, size_t size) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!address) return CUDA_ERROR_INVALID_VALUE;
    *address = 0;
    if (size == 0) return CUDA_ERROR_INVALID_VALUE;
    void *got = NULL;
    code = take(context, pooled ? NULL : context, size, &got);
    *address = (uintptr_t)got;
    return code;
}

static CUresult allocate(CUdeviceptr *address, size_t size) { return allocate_for(false, address, size); }

/* In stream order there may be 0 bytes. What comes from a pool belongs to no context, and outlives a reset (seen). */
static CUresult allocate_on(CUdeviceptr *address, size_t size, CUstream stream) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!sim_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (!address || size != 0) return allocate_for(true, address, size);
    *address = 0;
    return CUDA_SUCCESS;
}

/* Address 0 is good without a context too. */
static CUresult deallocate(CUdeviceptr address) {
    CUcontext context;
    CUresult code = address == 0 ? sim_initialised_or_code() : sim_context(&context);
    if (code != CUDA_SUCCESS || address == 0) return code;
    return give((void *)(uintptr_t)address);
}

static CUresult deallocate_on(CUdeviceptr address, CUstream stream) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    return sim_is_stream(stream) ? deallocate(address) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) { return allocate(address, size); }
CUresult cuMemFree_v2(CUdeviceptr address) { return deallocate(address); }

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream) {
    return allocate_on(address, size, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t size, CUstream stream) {
    return allocate_on(address, size, stream);
}

/* There are no pools to be had, so any handle stands for the device's memory. */
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream) {
    (void)pool;
    return allocate_on(address, size, stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream) {
    (void)pool;
    return allocate_on(address, size, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) { return deallocate_on(address, stream); }
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) { return deallocate_on(address, stream); }

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned int flags) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
    return known ? allocate(address, size) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned int element) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!address || !pitch) return CUDA_ERROR_INVALID_VALUE;
    *pitch = 0;
    if (width == 0 || width > SIZE_MAX - PITCH || height == 0 || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = (width + PITCH - 1) / PITCH * PITCH, size;
    if (__builtin_mul_overflow(row, height, &size)) return CUDA_ERROR_OUT_OF_MEMORY;
    code = allocate(address, size);
    if (code == CUDA_SUCCESS) *pitch = row;
    return code;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    pthread_mutex_lock(&sim_lock);
    const struct arena *arena = &arenas[context->device];
    if (total) *total = arena->size;
    if (free) *free = arena->size - arena->used - arena->outside;
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

/* ---- arrays: memory alone; there are no textures to read them by ---- */

struct array {
    struct sim_handle handle;
    void *memory;
};

static size_t texel_bytes(CUarray_format format, unsigned channels) {
    if (channels != 1 && channels != 2 && channels != 4) return 0;
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2 * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4 * channels;
    default: return 0;
    }
}

/* False when the size of a level is no number. */
static bool add_level(size_t *sum, size_t texel, size_t width, size_t height, size_t depth) {
    size_t size = texel;
    return !__builtin_mul_overflow(size, width ? width : 1, &size) &&
           !__builtin_mul_overflow(size, height ? height : 1, &size) &&
           !__builtin_mul_overflow(size, depth ? depth : 1, &size) && !__builtin_add_overflow(*sum, size, sum);
}

static CUresult array_create(void *out, enum sim_kind kind, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    size_t texel = d ? texel_bytes(d->Format, d->NumChannels) : 0, size = 0;
    if (!out || texel == 0 || d->Width == 0 || levels == 0) return CUDA_ERROR_INVALID_VALUE;
    bool layers = (d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0; /* they don't shrink with the level */
    for (unsigned level = 0; level < levels && level < 32; level++)
        if (!add_level(&size, texel, d->Width >> level, d->Height >> level, layers ? d->Depth : d->Depth >> level))
            return CUDA_ERROR_INVALID_VALUE;
    struct array *array = calloc(1, sizeof *array);
    if (!array) return CUDA_ERROR_OUT_OF_MEMORY;
    code = take(context, context, size, &array->memory);
    if (code != CUDA_SUCCESS) {
        free(array);
        return code;
    }
    sim_handle_add(&array->handle, kind, context);
    memcpy(out, &array, sizeof array);
    return CUDA_SUCCESS;
}

static CUresult array_destroy(const void *handle, enum sim_kind kind) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    pthread_mutex_lock(&sim_lock);
    bool known = sim_handle_find_locked(handle, kind) != NULL;
    pthread_mutex_unlock(&sim_lock);
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    if (sim_free_fails()) return CUDA_ERROR_ILLEGAL_ADDRESS;
    pthread_mutex_lock(&sim_lock);
    struct array *array = (struct array *)sim_handle_take_locked(handle, kind);
    for (int i = 0; array && i < sim_settings.devices; i++)
        if (arena_give(&arenas[i], array->memory)) break;
    pthread_mutex_unlock(&sim_lock);
    if (!array) return CUDA_ERROR_INVALID_HANDLE; /* another thread was first */
    free(array);
    sim_sleep_us(sim_settings.free_delay_us);
    return CUDA_SUCCESS;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d) {
    if (!d) return array_create(array, SIM_ARRAY, NULL, 1);
    CUDA_ARRAY3D_DESCRIPTOR flat = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
    return array_create(array, SIM_ARRAY, &flat, 1);
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
    return array_create(array, SIM_ARRAY, descriptor, 1);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels) {
    return array_create(array, SIM_MIPMAPPED, descriptor, levels);
}

CUresult cuArrayDestroy(CUarray array) { return array_destroy(array, SIM_ARRAY); }
CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) { return array_destroy(array, SIM_MIPMAPPED); }

/* ---- host memory ---- */

static void *host_memory; /* tree of struct block */

static CUresult host_allocate(void **address, size_t size, unsigned flags) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!address || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    *address = NULL;
    if (size == 0) return CUDA_SUCCESS;
    if (size > SIZE_MAX - 4096) return CUDA_ERROR_OUT_OF_MEMORY;
    struct block *b = calloc(1, sizeof *b);
    void *got = b ? aligned_alloc(4096, (size + 4095) & ~(size_t)4095) : NULL;
    if (got) {
        b->addr = (uintptr_t)got;
        b->size = b->asked = size;
        pthread_mutex_lock(&sim_lock);
        bool kept = tsearch(b, &host_memory, arena_compare) != NULL;
        pthread_mutex_unlock(&sim_lock);
        if (kept) {
            *address = got;
            return CUDA_SUCCESS;
        }
    }
    free(got);
    free(b);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAllocHost_v2(void **address, size_t size) { return host_allocate(address, size, 0); }
CUresult cuMemHostAlloc(void **address, size_t size, unsigned int flags) { return host_allocate(address, size, flags); }

/* Memory of the program's own; nothing is to be done for it here. */
CUresult cuMemHostRegister_v2(void *address, size_t size, unsigned int flags) {
    CUcontext context;
    (void)flags;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    return address && size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Of all there is to ask, the context of device memory (1). */
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    if (!data || attribute != 1) return CUDA_ERROR_INVALID_VALUE;
    const struct block *found = NULL;
    pthread_mutex_lock(&sim_lock);
    for (int i = 0; i < sim_settings.devices && !found; i++)
        found = arena_find(&arenas[i], (const void *)(uintptr_t)address, 1);
    if (found) *(CUcontext *)data = (CUcontext)(uintptr_t)found->owner;
    pthread_mutex_unlock(&sim_lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeHost(void *address) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS || !address) return code;
    struct block key = {.addr = (uintptr_t)address, .size = 1}, *b = NULL;
    pthread_mutex_lock(&sim_lock);
    struct block **found = tfind(&key, &host_memory, arena_compare);
    if (found && (*found)->addr == key.addr) {
        b = *found;
        tdelete(b, &host_memory, arena_compare);
    }
    pthread_mutex_unlock(&sim_lock);
    if (!b) return CUDA_ERROR_INVALID_VALUE;
    free(b);
    free(address);
    return CUDA_SUCCESS;
}

/* ---- copies ---- */

/* Whether all of the range lies in one live allocation, or in mapped memory, of some device. */
static bool on_device(CUdeviceptr address, size_t size) {
    bool found = false;
    pthread_mutex_lock(&sim_lock);
    for (int i = 0; i < sim_settings.devices && !found; i++)
        found = arena_find(&arenas[i], (const void *)(uintptr_t)address, size) != NULL;
    found = found || sim_is_mapped_locked(address, size);
    pthread_mutex_unlock(&sim_lock);
    return found;
}

enum side { HOST, DEVICE, EITHER };

static CUresult copy(CUdeviceptr to, enum side to_side, CUdeviceptr from, enum side from_side, size_t size, CUstream stream) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!sim_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (size == 0) return CUDA_SUCCESS;
    if (to == 0 || from == 0 || (to_side == DEVICE && !on_device(to, size)) ||
        (from_side == DEVICE && !on_device(from, size)))
        return CUDA_ERROR_INVALID_VALUE;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
    return CUDA_SUCCESS;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) { return copy(to, EITHER, from, EITHER, size, NULL); }

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    return copy(to, EITHER, from, EITHER, size, stream);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) {
    return copy(to, DEVICE, (uintptr_t)from, HOST, size, NULL);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
    return copy(to, DEVICE, (uintptr_t)from, HOST, size, stream);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
    return copy((uintptr_t)to, HOST, from, DEVICE, size, NULL);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream) {
    return copy((uintptr_t)to, HOST, from, DEVICE, size, stream);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) {
    return copy(to, DEVICE, from, DEVICE, size, NULL);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    return copy(to, DEVICE, from, DEVICE, size, stream);
}

static CUresult fill(CUdeviceptr address, unsigned char value, size_t size, CUstream stream) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!sim_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (size == 0) return CUDA_SUCCESS;
    if (address == 0 || !on_device(address, size)) return CUDA_ERROR_INVALID_VALUE;
    memset((void *)(uintptr_t)address, value, size);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t size) { return fill(address, value, size, NULL); }

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t size, CUstream stream) {
    return fill(address, value, size, stream);
}

/* ---- the stand-in's own ---- */

unsigned long long cuSimLiveAllocations(void) {
    unsigned long long sum = 0;
    pthread_mutex_lock(&sim_lock);
    for (int i = 0; i < MAX_DEVICES; i++) sum += arenas[i].live;
    pthread_mutex_unlock(&sim_lock);
    return sum;
}

unsigned long long cuSimLiveBytes(void) {
    unsigned long long sum = 0;
    pthread_mutex_lock(&sim_lock);
    for (int i = 0; i < MAX_DEVICES; i++) sum += arenas[i].asked;
    pthread_mutex_unlock(&sim_lock);
    return sum;
}
