/* The stand-in driver's virtual memory: addresses reserved, physical memory created, one mapped to the other.
 *
 * Physical memory is a stretch of one sparse memory file, so that it can be seen at several addresses. It counts from
 * cuMemCreate on, and is given back when its last handle is released and its last mapping gone, whichever comes later:
 * the real driver was seen to do so (H200, driver 580). So were the codes below: a mapping of less than the whole, or
 * from an offset, is not supported; access is set for whole mappings; unmapping what isn't mapped succeeds.
 *
 * Lists searched from the front: programs have few of these. No context is needed, and none takes them along when it
 * ends. A child made by fork shares the contents of what is there with its parent.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libcuda.h"

#define GRANULE ((size_t)2 << 20)

struct physical {
    int device;
    size_t size;
    int file;
    off_t at; /* in the file */
    unsigned handles, mappings;
    struct physical *next;
};

struct range {
    uintptr_t address;
    size_t size;
    struct physical *physical; /* NULL: a reservation */
    bool access;
    struct range *next;
};

static struct physical *physicals;
static struct range *reservations, *mappings;
static int file = -1; /* for what is created from here on */
static off_t file_end;

/* Two processes that let one file grow would get in each other's way. */
void sim_physical_forked_locked(void) { file = -1; }

static bool is_granular(unsigned long long n) { return n % GRANULE == 0; }

/* The link to the first range of a list that has a byte in common with that one. */
static struct range **overlapping(struct range **list, uintptr_t address, size_t size) {
    struct range **p = list;
    while (*p && !(address < (*p)->address + (*p)->size && (*p)->address < address + size)) p = &(*p)->next;
    return p;
}

static bool is_within(const struct range *range, uintptr_t address, size_t size) {
    return address >= range->address && size <= range->size && address - range->address <= range->size - size;
}

/* Whether a range ends where another begins or outside of it: it cuts no mapping in two. */
static bool cuts_a_mapping(uintptr_t address, size_t size) {
    for (struct range *m = mappings; m; m = m->next)
        if (address < m->address + m->size && m->address < address + size &&
            !(m->address >= address && m->address - address + m->size <= size))
            return true;
    return false;
}

bool sim_is_mapped_locked(CUdeviceptr address, size_t size) {
    struct range *m = *overlapping(&mappings, (uintptr_t)address, 1);
    return m && m->access && is_within(m, (uintptr_t)address, size);
}

static struct physical *physical_find(CUmemGenericAllocationHandle handle) {
    struct physical *p = physicals;
    while (p && ((uintptr_t)p != handle || p->handles == 0)) p = p->next;
    return p;
}

static void give_back_if_unused(struct physical *physical) {
    if (physical->handles != 0 || physical->mappings != 0) return;
    struct physical **p = &physicals;
    while (*p != physical) p = &(*p)->next;
    *p = physical->next;
    fallocate(physical->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, physical->at, (off_t)physical->size);
    sim_physical_give_locked(physical->device, physical->size);
    free(physical);
}

/* ---- addresses ---- */

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    if (!address || size == 0 || !is_granular(size) || (alignment & (alignment - 1)) != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < GRANULE) alignment = GRANULE;
    if (size > SIZE_MAX - alignment) return CUDA_ERROR_OUT_OF_MEMORY;
    struct range *r = calloc(1, sizeof *r);
    if (!r) return CUDA_ERROR_OUT_OF_MEMORY;
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *got = mmap((void *)(uintptr_t)wish, size + alignment, PROT_NONE, kind, -1, 0);
    if (got == MAP_FAILED) {
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t before = -(uintptr_t)got & (alignment - 1);
    if (before != 0) munmap(got, before);
    munmap(got + before + size, alignment - before);
    r->address = (uintptr_t)got + before;
    r->size = size;
    pthread_mutex_lock(&sim_lock);
    r->next = reservations;
    reservations = r;
    pthread_mutex_unlock(&sim_lock);
    *address = r->address;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    pthread_mutex_lock(&sim_lock);
    struct range **p = overlapping(&reservations, (uintptr_t)address, 1), *r = *p;
    if (!r || r->address != address || r->size != size || *overlapping(&mappings, r->address, size)) {
        code = CUDA_ERROR_INVALID_VALUE;
    } else {
        *p = r->next;
        munmap((void *)r->address, size);
        free(r);
    }
    pthread_mutex_unlock(&sim_lock);
    return code;
}

/* ---- physical memory ---- */

static CUresult prop_code(const CUmemAllocationProp *prop) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED; /* no host memory here */
    return prop->location.id >= 0 && prop->location.id < sim_settings.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
    CUresult code = prop_code(prop);
    if (code != CUDA_SUCCESS) return code;
    if (!granularity || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) return CUDA_ERROR_INVALID_VALUE;
    *granularity = GRANULE;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags) {
    CUresult code = prop_code(prop);
    if (code != CUDA_SUCCESS) return code;
    if (!handle || size == 0 || !is_granular(size) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (sim_malloc_fails()) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_sleep_us(sim_settings.malloc_delay_us);
    struct physical *p = calloc(1, sizeof *p);
    if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&sim_lock);
    if (file < 0) {
        file = memfd_create("cuda-sim", MFD_CLOEXEC);
        file_end = 0;
    }
    off_t end = 0;
    if (file >= 0 && sim_physical_take_locked(prop->location.id, size)) {
        if (!__builtin_add_overflow(file_end, size, &end) && ftruncate(file, end) == 0) {
            *p = (struct physical){prop->location.id, size, file, file_end, 1, 0, physicals};
            file_end = end;
            physicals = p;
            *handle = (uintptr_t)p;
        } else {
            sim_physical_give_locked(prop->location.id, size);
            code = CUDA_ERROR_OUT_OF_MEMORY;
        }
    } else {
        code = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&sim_lock);
    if (code != CUDA_SUCCESS) free(p);
    return code;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    if (handle != 0 && sim_free_fails()) return CUDA_ERROR_ILLEGAL_ADDRESS;
    pthread_mutex_lock(&sim_lock);
    struct physical *p = physical_find(handle);
    if (p) {
        p->handles--;
        give_back_if_unused(p);
    }
    pthread_mutex_unlock(&sim_lock);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    sim_sleep_us(sim_settings.free_delay_us);
    return CUDA_SUCCESS;
}

/* Any address in the mapping will do. Each retained handle wants a release of its own. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    struct range *m = *overlapping(&mappings, (uintptr_t)address, 1);
    if (m) {
        m->physical->handles++;
        *handle = (uintptr_t)m->physical;
    }
    pthread_mutex_unlock(&sim_lock);
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- mappings ---- */

static CUresult map_locked(struct range *m, CUdeviceptr address, size_t size, size_t offset,
                           CUmemGenericAllocationHandle handle) {
    struct physical *p = physical_find(handle);
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || size != p->size) return CUDA_ERROR_NOT_SUPPORTED;
    struct range *r = *overlapping(&reservations, (uintptr_t)address, 1);
    if (!r || !is_within(r, (uintptr_t)address, size) || !is_granular(address) ||
        *overlapping(&mappings, (uintptr_t)address, size))
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap((void *)(uintptr_t)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, p->file, p->at) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->mappings++;
    *m = (struct range){(uintptr_t)address, size, p, false, mappings};
    mappings = m;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    struct range *m = calloc(1, sizeof *m);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&sim_lock);
    code = map_locked(m, address, size, offset, handle);
    pthread_mutex_unlock(&sim_lock);
    if (code != CUDA_SUCCESS) free(m);
    return code;
}

/* A good range lies in one reservation and cuts no mapping in two. */
static bool is_good_range_locked(CUdeviceptr address, size_t size) {
    struct range *r = size == 0 ? NULL : *overlapping(&reservations, (uintptr_t)address, 1);
    return r && is_within(r, (uintptr_t)address, size) && !cuts_a_mapping((uintptr_t)address, size);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    pthread_mutex_lock(&sim_lock);
    if (!is_good_range_locked(address, size)) code = CUDA_ERROR_INVALID_VALUE;
    struct range **p;
    while (code == CUDA_SUCCESS && *(p = overlapping(&mappings, (uintptr_t)address, size))) {
        struct range *m = *p;
        /* Reserved again, or the system could put something else there. */
        if (mmap((void *)m->address, m->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
            MAP_FAILED) {
            code = CUDA_ERROR_OUT_OF_MEMORY;
            break;
        }
        *p = m->next;
        m->physical->mappings--;
        give_back_if_unused(m->physical);
        free(m);
    }
    pthread_mutex_unlock(&sim_lock);
    return code;
}

/* One device's access is every device's, and reading is as good as writing. */
CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *descriptors, size_t count) {
    CUresult code = sim_initialised_or_code();
    if (code != CUDA_SUCCESS) return code;
    if (!descriptors || count == 0) return CUDA_ERROR_INVALID_VALUE;
    bool access = false;
    for (size_t i = 0; i < count; i++) {
        const CUmemLocation *at = &descriptors[i].location;
        if (at->type != CU_MEM_LOCATION_TYPE_DEVICE || at->id < 0 || at->id >= sim_settings.devices)
            return CUDA_ERROR_INVALID_VALUE;
        access = access || descriptors[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    pthread_mutex_lock(&sim_lock);
    size_t mapped = 0;
    for (struct range *m = mappings; m; m = m->next)
        if (m->address >= address && m->address - address < size) mapped += m->size;
    if (!is_good_range_locked(address, size) || mapped != size) code = CUDA_ERROR_INVALID_VALUE;
    for (struct range *m = mappings; m && code == CUDA_SUCCESS; m = m->next)
        if (m->address >= address && m->address - address < size) {
            if (mprotect((void *)m->address, m->size, access ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
                code = CUDA_ERROR_OUT_OF_MEMORY;
            else
                m->access = access;
        }
    pthread_mutex_unlock(&sim_lock);
    return code;
}
