/* What the parts of the stand-in driver share.
 *
 * One lock over everything but the code that launches look up. Functions called sim_…_locked want it held; no other
 * may be called with it held. No entry point calls another: those can be replaced from outside, and a preloaded
 * library must see the program's calls alone.
 */
#ifndef CUDA_SIM_LIBCUDA_H
#define CUDA_SIM_LIBCUDA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "include/cuda.h"

#define MAX_DEVICES 16

/* Read once, by cuInit. */
struct sim_settings {
    int devices;
    size_t memory; /* bytes of each device */
    long malloc_delay_us, free_delay_us;
    CUresult launch_ret;
};
extern struct sim_settings sim_settings;
extern atomic_bool sim_initialised;
extern pthread_mutex_t sim_lock;

/* True for the first CUDA_SIM_MALLOC_FAIL or CUDA_SIM_FREE_FAIL calls. */
bool sim_malloc_fails(void);
bool sim_free_fails(void);
void sim_sleep_us(long us);

/* A context is never freed, so that one that was destroyed is known as such. */
struct CUctx_st {
    int device;
    atomic_bool alive;
    unsigned retained;         /* of a primary context: by how many */
    unsigned long generation;  /* handles of an older one have gone with the context's resources */
    struct CUctx_st *next;
};

struct sim_current {
    unsigned depth;
    CUcontext stack[32];
};
extern _Thread_local struct sim_current sim_current;

/* The code that a call needing a context gets for the thread's current one. */
static inline CUresult sim_context(CUcontext *context) {
    if (sim_current.depth == 0)
        return atomic_load_explicit(&sim_initialised, memory_order_acquire) ? CUDA_ERROR_INVALID_CONTEXT
                                                                            : CUDA_ERROR_NOT_INITIALIZED;
    *context = sim_current.stack[sim_current.depth - 1];
    return atomic_load_explicit(&(*context)->alive, memory_order_acquire) ? CUDA_SUCCESS
                                                                          : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static inline CUresult sim_initialised_or_code(void) {
    return atomic_load_explicit(&sim_initialised, memory_order_acquire) ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

/* Device memory (libcuda_memory.c, libcuda_vmm.c). */
void sim_memory_open(void);
void sim_memory_drop_locked(CUcontext owner);
bool sim_physical_take_locked(int device, size_t size);
void sim_physical_give_locked(int device, size_t size);
void sim_physical_forked_locked(void); /* in the child */
bool sim_is_mapped_locked(CUdeviceptr address, size_t size);

/* Handles of streams, events, arrays, modules and libraries (libcuda_stream.c). They are looked up at each use, so that
 * a bad one gets its code. */
enum sim_kind { SIM_STREAM, SIM_EVENT, SIM_ARRAY, SIM_MIPMAPPED, SIM_MODULE, SIM_LIBRARY };
struct sim_handle {
    enum sim_kind kind;
    CUcontext owner; /* NULL: none, it lives until it is destroyed */
    unsigned long generation;
    struct sim_handle *next;
};
void sim_handle_add(struct sim_handle *handle, enum sim_kind kind, CUcontext owner);
struct sim_handle *sim_handle_find_locked(const void *handle, enum sim_kind kind);
struct sim_handle *sim_handle_take_locked(const void *handle, enum sim_kind kind); /* and forgets it */
bool sim_is_stream(CUstream stream);

#endif
