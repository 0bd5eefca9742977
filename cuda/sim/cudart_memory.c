/* The stand-in runtime's memory: allocations, arrays, copies. What they mean is the driver's; this file knows how the
 * runtime differs: 0 bytes are no error, and pitched memory has a third dimension.
 */
#include <string.h>

#include "cudart.h"

/* ---- allocations ---- */

/* One of the driver's ways to take memory; 0 bytes are no request. A failure leaves NULL behind. */
#define TAKE(ptr, size, call) \
    do { \
        if (!(ptr)) return rt_answer(cudaErrorInvalidValue); \
        cudaError_t code_ = rt_context_ready(); \
        if (code_ != cudaSuccess) return rt_answer(code_); \
        CUdeviceptr got_ = 0; \
        code_ = (size) == 0 ? cudaSuccess : rt_code(call); \
        *(ptr) = code_ == cudaSuccess ? (void *)(uintptr_t)got_ : NULL; \
        return rt_answer(code_); \
    } while (0)

cudaError_t cudaMalloc(void **ptr, size_t size) { TAKE(ptr, size, rt_driver.MemAlloc(&got_, size)); }

/* In stream order the driver takes 0 bytes too, and judges the stream. */
cudaError_t cudaMallocAsync(void **ptr, size_t size, cudaStream_t stream) {
    TAKE(ptr, 1, rt_driver.MemAllocAsync(&got_, size, stream));
}

cudaError_t cudaMallocAsync_ptsz(void **ptr, size_t size, cudaStream_t stream) {
    TAKE(ptr, 1, rt_driver.MemAllocAsync_ptsz(&got_, size, stream));
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
    TAKE(ptr, 1, rt_driver.MemAllocFromPoolAsync(&got_, size, pool, stream));
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
    TAKE(ptr, 1, rt_driver.MemAllocFromPoolAsync_ptsz(&got_, size, pool, stream));
}

cudaError_t cudaMallocManaged(void **ptr, size_t size, unsigned int flags) {
    TAKE(ptr, 1, rt_driver.MemAllocManaged(&got_, size, flags));
}

/* The driver's pitch wants the size of an element, which is to say nothing here. */
static cudaError_t pitched(void **ptr, size_t *pitch, size_t width, size_t height) {
    CUdeviceptr got = 0;
    *ptr = NULL;
    *pitch = 0;
    cudaError_t code = rt_context_ready();
    if (code != cudaSuccess || width == 0 || height == 0) return code;
    code = rt_code(rt_driver.MemAllocPitch(&got, pitch, width, height, 4));
    if (code == cudaSuccess) *ptr = (void *)(uintptr_t)got;
    return code;
}

cudaError_t cudaMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height) {
    if (!ptr || !pitch) return rt_answer(cudaErrorInvalidValue);
    return rt_answer(pitched(ptr, pitch, width, height));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *area, struct cudaExtent extent) {
    size_t rows;
    if (!area) return rt_answer(cudaErrorInvalidValue);
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return rt_answer(cudaErrorMemoryAllocation);
    cudaError_t code = pitched(&area->ptr, &area->pitch, extent.width, rows);
    area->xsize = extent.width;
    area->ysize = extent.height;
    return rt_answer(code);
}

cudaError_t cudaFree(void *ptr) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.MemFree((uintptr_t)ptr)) : code);
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.MemFreeAsync((uintptr_t)ptr, stream)) : code);
}

cudaError_t cudaFreeAsync_ptsz(void *ptr, cudaStream_t stream) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.MemFreeAsync_ptsz((uintptr_t)ptr, stream)) : code);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.MemGetInfo(free, total)) : code);
}

cudaError_t cudaHostAlloc(void **ptr, size_t size, unsigned int flags) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.MemHostAlloc(ptr, size, flags)) : code);
}

cudaError_t cudaMallocHost(void **ptr, size_t size) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.MemHostAlloc(ptr, size, 0)) : code);
}

cudaError_t cudaFreeHost(void *ptr) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.MemFreeHost(ptr)) : code);
}

/* ---- arrays ---- */

/* The driver's format for channels of so many bits; 0 for none. */
static CUarray_format format_of(int bits, enum cudaChannelFormatKind kind) {
    switch (kind) {
    case cudaChannelFormatKindSigned:
        return bits == 8 ? CU_AD_FORMAT_SIGNED_INT8 : bits == 16 ? CU_AD_FORMAT_SIGNED_INT16 : bits == 32 ? CU_AD_FORMAT_SIGNED_INT32 : 0;
    case cudaChannelFormatKindUnsigned:
        return bits == 8 ? CU_AD_FORMAT_UNSIGNED_INT8 : bits == 16 ? CU_AD_FORMAT_UNSIGNED_INT16 : bits == 32 ? CU_AD_FORMAT_UNSIGNED_INT32 : 0;
    case cudaChannelFormatKindFloat: return bits == 16 ? CU_AD_FORMAT_HALF : bits == 32 ? CU_AD_FORMAT_FLOAT : 0;
    }
    return 0;
}

/* 1, 2 or 4 channels of one width, the first ones. */
static cudaError_t describe(CUDA_ARRAY3D_DESCRIPTOR *out, const struct cudaChannelFormatDesc *desc,
                            struct cudaExtent extent, unsigned flags) {
    if (!desc) return cudaErrorInvalidValue;
    const int bits[4] = {desc->x, desc->y, desc->z, desc->w};
    unsigned channels = 0;
    while (channels < 4 && bits[channels] != 0) channels++;
    for (unsigned i = 0; i < 4; i++)
        if (bits[i] != (i < channels ? bits[0] : 0)) return cudaErrorInvalidChannelDescriptor;
    CUarray_format format = format_of(bits[0], desc->f);
    if (format == 0 || channels == 3) return cudaErrorInvalidChannelDescriptor;
    *out = (CUDA_ARRAY3D_DESCRIPTOR){extent.width, extent.height, extent.depth, format, channels, flags};
    return rt_context_ready();
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                              unsigned int flags) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    cudaError_t code = describe(&d, desc, extent, flags);
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.Array3DCreate((CUarray *)array, &d)) : code);
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width, size_t height,
                            unsigned int flags) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    cudaError_t code = describe(&d, desc, (struct cudaExtent){width, height, 0}, flags);
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.Array3DCreate((CUarray *)array, &d)) : code);
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const struct cudaChannelFormatDesc *desc,
                                     struct cudaExtent extent, unsigned int levels, unsigned int flags) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    cudaError_t code = describe(&d, desc, extent, flags);
    if (code != cudaSuccess) return rt_answer(code);
    return rt_answer(rt_code(rt_driver.MipmappedArrayCreate((CUmipmappedArray *)array, &d, levels)));
}

/* A handle that isn't one is an invalid value to the runtime, as documented. */
static cudaError_t freed(CUresult code) { return code == CUDA_ERROR_INVALID_HANDLE ? cudaErrorInvalidValue : rt_code(code); }

cudaError_t cudaFreeArray(cudaArray_t array) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess && array ? freed(rt_driver.ArrayDestroy((CUarray)array)) : code);
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess && array ? freed(rt_driver.MipmappedArrayDestroy((CUmipmappedArray)array)) : code);
}

/* ---- copies ---- */

/* The driver has no copy from host to host alone; the one for any two addresses does it. */
cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind) {
    cudaError_t code = rt_context_ready();
    if (code != cudaSuccess) return rt_answer(code);
    switch (kind) {
    case cudaMemcpyHostToDevice: return rt_answer(rt_code(rt_driver.MemcpyHtoD((uintptr_t)dst, src, count)));
    case cudaMemcpyDeviceToHost: return rt_answer(rt_code(rt_driver.MemcpyDtoH(dst, (uintptr_t)src, count)));
    case cudaMemcpyDeviceToDevice: return rt_answer(rt_code(rt_driver.MemcpyDtoD((uintptr_t)dst, (uintptr_t)src, count)));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return rt_answer(rt_code(rt_driver.Memcpy((uintptr_t)dst, (uintptr_t)src, count)));
    }
    return rt_answer(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream) {
    cudaError_t code = rt_context_ready();
    if (code != cudaSuccess) return rt_answer(code);
    CUdeviceptr to = (uintptr_t)dst, from = (uintptr_t)src;
    switch (kind) {
    case cudaMemcpyHostToDevice: return rt_answer(rt_code(rt_driver.MemcpyHtoDAsync(to, src, count, stream)));
    case cudaMemcpyDeviceToHost: return rt_answer(rt_code(rt_driver.MemcpyDtoHAsync(dst, from, count, stream)));
    case cudaMemcpyDeviceToDevice: return rt_answer(rt_code(rt_driver.MemcpyDtoDAsync(to, from, count, stream)));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return rt_answer(rt_code(rt_driver.MemcpyAsync(to, from, count, stream)));
    }
    return rt_answer(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemset(void *ptr, int value, size_t count) {
    cudaError_t code = rt_context_ready();
    return rt_answer(code == cudaSuccess ? rt_code(rt_driver.MemsetD8((uintptr_t)ptr, (unsigned char)value, count)) : code);
}

cudaError_t cudaMemsetAsync(void *ptr, int value, size_t count, cudaStream_t stream) {
    cudaError_t code = rt_context_ready();
    if (code != cudaSuccess) return rt_answer(code);
    return rt_answer(rt_code(rt_driver.MemsetD8Async((uintptr_t)ptr, (unsigned char)value, count, stream)));
}
