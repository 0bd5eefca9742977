/* The memory of one simulated device: what cuMemAlloc and cuMemFree of the stand-in stand on.
 *
 * In: sizes and addresses. Out: addresses inside one reserved range of host memory that costs
 * nothing until it is touched. Kept true: blocks never overlap; two free blocks are never
 * neighbours; a freed range is the first one tried for the next request, so that programs (and
 * hooks) that confuse an old pointer with a new one are found out.
 *
 * Not locked: the caller holds one lock around every call. Included by the stand-in driver alone.
 */
#ifndef CUDA_SIM_ARENA_H
#define CUDA_SIM_ARENA_H

#include <search.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* What cudaMalloc's addresses are multiples of on the GPUs of today. */
#define ARENA_GRANULE ((size_t)512)
/* From this size on, a freed block's pages go back to the system. */
#define ARENA_DISCARD ((size_t)1 << 20)

struct block {
    uintptr_t addr;
    size_t size;                     /* a multiple of ARENA_GRANULE */
    size_t asked;                    /* what the program asked for; 0: the block is free */
    const void *owner;               /* the context that it goes away with */
    struct block *left, *right;      /* neighbours by address */
    struct block *newer, *older;     /* other free blocks, by the time of freeing */
};

struct arena {
    uintptr_t base;    /* 0: not reserved yet */
    size_t size;
    size_t used;       /* bytes in taken blocks, rounded */
    size_t asked;      /* the same as the program counts them */
    size_t live;       /* number of taken blocks */
    size_t outside;    /* bytes of the device that were taken by other means than a block */
    struct block *first; /* by address: the leftmost, which is never merged away */
    struct block *newest_free;
    void *taken;       /* tree of the taken blocks, for tsearch(3) */
};

/* Orders blocks by address and calls overlapping ones equal, so that a key of one byte finds the
 * block around it. */
static int arena_compare(const void *a, const void *b) {
    const struct block *x = a, *y = b;
    if (x->addr + x->size <= y->addr) return -1;
    if (y->addr + y->size <= x->addr) return 1;
    return 0;
}

static void arena_unlist(struct arena *arena, struct block *b) {
    if (b->newer)
        b->newer->older = b->older;
    else
        arena->newest_free = b->older;
    if (b->older) b->older->newer = b->newer;
    b->newer = b->older = NULL;
}

static void arena_list(struct arena *arena, struct block *b) {
    b->newer = NULL;
    b->older = arena->newest_free;
    if (b->older) b->older->newer = b;
    arena->newest_free = b;
}

/* Reserves the range on first use; false when the system has none. */
static bool arena_open(struct arena *arena) {
    if (arena->base) return true;
    if (arena->size == 0) return false;
    struct block *all = calloc(1, sizeof *all);
    if (!all) return false;
    void *range = mmap(NULL, arena->size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        free(all);
        return false;
    }
    madvise(range, arena->size, MADV_DONTDUMP);
    arena->base = all->addr = (uintptr_t)range;
    all->size = arena->size;
    arena->first = all;
    arena_list(arena, all);
    return true;
}

/* The taken block around [addr, addr+size), or NULL. */
static struct block *arena_find(const struct arena *arena, const void *addr, size_t size) {
    uintptr_t at = (uintptr_t)addr;
    if (!arena->base || at < arena->base || at - arena->base >= arena->size) return NULL;
    struct block key = {.addr = at, .size = 1};
    struct block **found = tfind(&key, (void *const *)&arena->taken, arena_compare);
    if (!found) return NULL;
    struct block *b = *found;
    return size <= b->asked && at - b->addr <= b->asked - size ? b : NULL;
}

/* Whether so many bytes more fit on the device. */
static bool arena_fits(const struct arena *arena, size_t need) {
    return need <= arena->size - arena->used - arena->outside;
}

/* NULL when no free block is large enough. `size` is not 0. */
static void *arena_take(struct arena *arena, size_t size, const void *owner) {
    if (!arena_open(arena) || size > arena->size) return NULL;
    size_t need = (size + ARENA_GRANULE - 1) & ~(ARENA_GRANULE - 1);
    if (!arena_fits(arena, need)) return NULL;
    struct block *b = arena->newest_free;
    while (b && b->size < need) b = b->older;
    if (!b) return NULL;

    if (b->size > need) {
        struct block *rest = calloc(1, sizeof *rest);
        if (!rest) return NULL;
        rest->addr = b->addr + need;
        rest->size = b->size - need;
        rest->left = b;
        rest->right = b->right;
        if (rest->right) rest->right->left = rest;
        b->right = rest;
        b->size = need;
        /* The rest keeps its place in the order of freeing. */
        rest->newer = b->newer;
        rest->older = b->older;
        if (rest->newer) rest->newer->older = rest;
        if (rest->older) rest->older->newer = rest;
        if (arena->newest_free == b) arena->newest_free = rest;
        b->newer = b->older = NULL;
    } else {
        arena_unlist(arena, b);
    }
    b->asked = size;
    b->owner = owner;
    if (!tsearch(b, &arena->taken, arena_compare)) {
        b->asked = 0;
        arena_list(arena, b);
        return NULL;
    }
    arena->used += b->size;
    arena->asked += b->asked;
    arena->live++;
    return (void *)b->addr;
}

/* Merges `b` with its right neighbour when both are free. */
static void arena_merge_right(struct arena *arena, struct block *b) {
    struct block *r = b->right;
    if (!r || r->asked || b->asked) return;
    arena_unlist(arena, r);
    b->size += r->size;
    b->right = r->right;
    if (b->right) b->right->left = b;
    free(r);
}

/* False when no taken block begins at `addr`. */
static bool arena_give(struct arena *arena, void *addr) {
    struct block *b = arena_find(arena, addr, 0);
    if (!b || b->addr != (uintptr_t)addr) return false;
    tdelete(b, &arena->taken, arena_compare);
    arena->used -= b->size;
    arena->asked -= b->asked;
    arena->live--;
    b->asked = 0;
    if (b->size >= ARENA_DISCARD) {
        uintptr_t page = 4096, from = (b->addr + page - 1) & ~(page - 1);
        madvise((void *)from, (b->addr + b->size - from) & ~(page - 1), MADV_DONTNEED);
    }
    arena_list(arena, b);
    arena_merge_right(arena, b);
    struct block *left = b->left;
    if (left && !left->asked) {
        arena_merge_right(arena, left);
        arena_unlist(arena, left); /* it is the newest free block now */
        arena_list(arena, left);
    }
    return true;
}

/* Frees what a context owns, as its end does. */
static void arena_give_all_of(struct arena *arena, const void *owner) {
    if (!arena->base) return;
    /* From the left: giving a block back can merge it into its left neighbour, or free its right one. */
    struct block *b = arena->first;
    while (b) {
        if (b->asked && b->owner == owner) {
            struct block *left = b->left;
            bool merges = left && !left->asked;
            arena_give(arena, (void *)b->addr);
            if (merges) b = left;
        }
        b = b->right;
    }
}

#endif
