/* The kernels the stand-in knows, and the limits of a launch.
 *
 * A kernel is known by the address of its host function (or host stub, in nvcc's terms) and by
 * the handle that __cudaGetKernel gives for it. Look-ups take no lock; entries are never freed,
 * only marked dead when the program part that brought them is unloaded. Included by cudart.c alone.
 */
#ifndef CUDA_SIM_KERNELS_H
#define CUDA_SIM_KERNELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "include/cuda_runtime.h"

/* Limits of compute capability 9.0. */
#define MAX_BLOCK_THREADS 1024u
#define MAX_BLOCK_Z 64u
#define MAX_GRID_X 2147483647u
#define MAX_GRID_YZ 65535u
#define SHMEM_DEFAULT 49152 /* dynamic shared memory without cudaFuncSetAttribute */
#define SHMEM_OPTIN 232448  /* and with it */

struct CUkern_st {
    const void *func;
    _Atomic(cudaSimTrampoline) trampoline; /* NULL: device code, or not known how to call */
    void **binary;                         /* the fat binary that registered it, or NULL */
    atomic_int max_shmem;
    atomic_bool dead;
    struct CUkern_st *next_by_func, *next_by_handle;
};

#define KERNEL_BUCKETS 1024u
static _Atomic(struct CUkern_st *) kernels_by_func[KERNEL_BUCKETS];
static _Atomic(struct CUkern_st *) kernels_by_handle[KERNEL_BUCKETS];

static unsigned kernel_bucket(const void *key) {
    return (unsigned)(((uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u) >> 54);
}

/* `key` is a host function or a handle: cudaLaunchKernel takes both, as CUDA's does. */
static struct CUkern_st *kernel_find(const void *key) {
    unsigned n = kernel_bucket(key);
    for (struct CUkern_st *k = atomic_load_explicit(&kernels_by_func[n], memory_order_acquire); k;
         k = k->next_by_func)
        if (k->func == key && !atomic_load(&k->dead)) return k;
    for (struct CUkern_st *k = atomic_load_explicit(&kernels_by_handle[n], memory_order_acquire); k;
         k = k->next_by_handle)
        if (k == key && !atomic_load(&k->dead)) return k;
    return NULL;
}

/* Adds or completes an entry; the caller holds the lock. NULL: no memory. */
static struct CUkern_st *kernel_add(const void *func, cudaSimTrampoline trampoline, void **binary) {
    struct CUkern_st *k = kernel_find(func);
    if (k) {
        if (trampoline) atomic_store(&k->trampoline, trampoline);
        return k;
    }
    k = calloc(1, sizeof *k);
    if (!k) return NULL;
    k->func = func;
    k->binary = binary;
    atomic_init(&k->trampoline, trampoline);
    atomic_init(&k->max_shmem, SHMEM_DEFAULT);
    atomic_init(&k->dead, false);
    unsigned by_func = kernel_bucket(func), by_handle = kernel_bucket(k);
    k->next_by_func = atomic_load(&kernels_by_func[by_func]);
    k->next_by_handle = atomic_load(&kernels_by_handle[by_handle]);
    atomic_store_explicit(&kernels_by_handle[by_handle], k, memory_order_release);
    atomic_store_explicit(&kernels_by_func[by_func], k, memory_order_release);
    return k;
}

/* Forgets the kernels of a fat binary; the caller holds the lock. */
static void kernel_drop_binary(void **binary) {
    for (unsigned n = 0; n < KERNEL_BUCKETS; n++)
        for (struct CUkern_st *k = atomic_load(&kernels_by_func[n]); k; k = k->next_by_func)
            if (k->binary == binary) atomic_store(&k->dead, true);
}

/* The code a launch of that shape gets from CUDA: what no device can do is `invalid`, more dynamic
 * shared memory than the kernel may have is 1. */
static cudaError_t launch_check(dim3 grid, dim3 block, size_t shmem, int max_shmem, cudaError_t invalid) {
    uint64_t threads = (uint64_t)block.x * block.y; /* below 2^64; times z only once it is small */
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || block.z == 0 ||
        grid.x > MAX_GRID_X || grid.y > MAX_GRID_YZ || grid.z > MAX_GRID_YZ ||
        block.z > MAX_BLOCK_Z || threads > MAX_BLOCK_THREADS ||
        threads * block.z > MAX_BLOCK_THREADS)
        return invalid;
    if (shmem > (size_t)max_shmem) return cudaErrorInvalidValue;
    return cudaSuccess;
}

#endif
