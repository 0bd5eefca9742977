/* The kernels the stand-in runtime knows.
 *
 * A kernel is known by the address of its host function (or host stub, in nvcc's terms). Its driver handle is made when
 * it is first needed. Look-ups take no lock; entries are never freed, only marked dead when the program part that
 * brought them is unloaded. Included by cudart_launch.c alone.
 */
#ifndef CUDA_SIM_KERNELS_H
#define CUDA_SIM_KERNELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cudart.h"

/* The fat binary of a program part; what __cudaRegisterFatBinary answers with points to one. */
struct binary {
    const void *image;
    _Atomic(CUlibrary) library; /* NULL: not loaded yet */
};

struct kernel {
    const void *func;
    bool registered;                       /* else it was launched without anybody telling of it */
    char *name;                            /* NULL: not known */
    struct binary *binary;                 /* that registered it, or NULL */
    _Atomic(cudaSimTrampoline) trampoline; /* NULL: device code, or not known how to call */
    _Atomic(CUkernel) handle;              /* NULL: not made yet */
    atomic_bool dead;
    struct kernel *next;
};

#define KERNEL_BUCKETS 1024u
static _Atomic(struct kernel *) kernels[KERNEL_BUCKETS];

static unsigned kernel_bucket(const void *func) {
    return (unsigned)(((uint64_t)(uintptr_t)func * 0x9E3779B97F4A7C15u) >> 54);
}

static struct kernel *kernel_find(const void *func) {
    struct kernel *k = atomic_load_explicit(&kernels[kernel_bucket(func)], memory_order_acquire);
    while (k && (k->func != func || atomic_load_explicit(&k->dead, memory_order_relaxed))) k = k->next;
    return k;
}

/* Adds or completes an entry; the caller holds the lock. NULL: no memory. */
static struct kernel *kernel_add(const void *func, const char *name, struct binary *binary, cudaSimTrampoline trampoline,
                                 bool registered) {
    struct kernel *k = kernel_find(func);
    if (k && (k->registered || !registered)) {
        if (trampoline) atomic_store(&k->trampoline, trampoline);
        return k;
    }
    struct kernel *fresh = calloc(1, sizeof *fresh);
    char *own = name && fresh ? strdup(name) : NULL;
    if (!fresh || (name && !own)) {
        free(fresh);
        return NULL;
    }
    if (k) atomic_store(&k->dead, true); /* what was only guessed is known now */
    fresh->func = func;
    fresh->registered = registered;
    fresh->name = own;
    fresh->binary = binary;
    atomic_init(&fresh->trampoline, trampoline);
    unsigned n = kernel_bucket(func);
    fresh->next = atomic_load(&kernels[n]);
    atomic_store_explicit(&kernels[n], fresh, memory_order_release);
    return fresh;
}

/* Forgets the kernels of a fat binary; the caller holds the lock. */
static void kernel_drop_binary(const struct binary *binary) {
    for (unsigned n = 0; n < KERNEL_BUCKETS; n++)
        for (struct kernel *k = atomic_load(&kernels[n]); k; k = k->next)
            if (k->binary == binary) atomic_store(&k->dead, true);
}

#endif
