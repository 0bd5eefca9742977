/* The limits of a launch, those of compute capability 9.0: for the driver, which keeps them, and for the runtime, which
 * tells of them and has a code of its own for a launch beyond them.
 */
#ifndef CUDA_SIM_LIMITS_H
#define CUDA_SIM_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_BLOCK_THREADS 1024u
#define MAX_BLOCK_Z 64u
#define MAX_GRID_X 2147483647u
#define MAX_GRID_YZ 65535u
#define SHMEM_DEFAULT 49152 /* dynamic shared memory of a kernel, unless its attribute is set */
#define SHMEM_OPTIN 232448  /* and what the attribute can be set to */

/* Whether a device can run a grid and a block of that shape. */
static inline bool launch_shape_fits(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz) {
    uint64_t threads = (uint64_t)bx * by; /* below 2^64; times z only once it is small */
    return gx != 0 && gy != 0 && gz != 0 && threads != 0 && bz != 0 && gx <= MAX_GRID_X && gy <= MAX_GRID_YZ &&
           gz <= MAX_GRID_YZ && bz <= MAX_BLOCK_Z && threads <= MAX_BLOCK_THREADS && threads * bz <= MAX_BLOCK_THREADS;
}

#endif
