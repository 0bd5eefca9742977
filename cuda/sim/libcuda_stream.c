/* The stand-in driver's handles, and two things that are nothing else here: streams and events. All work is done when
 * the call that asked for it returns.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcuda.h"

static struct sim_handle *handles;

void sim_handle_add(struct sim_handle *handle, enum sim_kind kind, CUcontext owner) {
    handle->kind = kind;
    handle->owner = owner;
    pthread_mutex_lock(&sim_lock);
    handle->generation = owner ? owner->generation : 0;
    handle->next = handles;
    handles = handle;
    pthread_mutex_unlock(&sim_lock);
}

static struct sim_handle **find(const void *handle, enum sim_kind kind) {
    struct sim_handle **p = &handles;
    while (*p && (*p != handle || (*p)->kind != kind || ((*p)->owner && (*p)->generation != (*p)->owner->generation)))
        p = &(*p)->next;
    return p;
}

struct sim_handle *sim_handle_find_locked(const void *handle, enum sim_kind kind) { return *find(handle, kind); }

struct sim_handle *sim_handle_take_locked(const void *handle, enum sim_kind kind) {
    struct sim_handle **p = find(handle, kind), *h = *p;
    if (h) *p = h->next;
    return h;
}

static bool is_handle(const void *handle, enum sim_kind kind) {
    pthread_mutex_lock(&sim_lock);
    bool found = *find(handle, kind) != NULL;
    pthread_mutex_unlock(&sim_lock);
    return found;
}

bool sim_is_stream(CUstream stream) {
    return (uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD || is_handle(stream, SIM_STREAM);
}

/* The code of a call on a handle that is good or isn't. */
static CUresult done(bool is_good) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    return is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult destroy(const void *handle, enum sim_kind kind) {
    pthread_mutex_lock(&sim_lock);
    struct sim_handle *h = sim_handle_take_locked(handle, kind);
    pthread_mutex_unlock(&sim_lock);
    free(h);
    return h ? CUDA_SUCCESS : done(false);
}

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!stream || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    struct sim_handle *h = calloc(1, sizeof *h);
    if (!h) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_handle_add(h, SIM_STREAM, context);
    *stream = (CUstream)h;
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) { return done(sim_is_stream(stream)); }
CUresult cuStreamQuery(CUstream stream) { return done(sim_is_stream(stream)); }
CUresult cuStreamDestroy_v2(CUstream stream) { return destroy(stream, SIM_STREAM); }

/* ---- events ---- */

struct event {
    struct sim_handle handle;
    bool timed, recorded;
    struct timespec at;
};

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    CUcontext context;
    CUresult code = sim_context(&context);
    if (code != CUDA_SUCCESS) return code;
    if (!event || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    struct event *e = calloc(1, sizeof *e);
    if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
    e->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    sim_handle_add(&e->handle, SIM_EVENT, context);
    *event = (CUevent)e;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    if (!sim_is_stream(stream)) return done(false);
    pthread_mutex_lock(&sim_lock);
    struct event *e = (struct event *)sim_handle_find_locked(event, SIM_EVENT);
    if (e) {
        e->recorded = true;
        clock_gettime(CLOCK_MONOTONIC, &e->at);
    }
    pthread_mutex_unlock(&sim_lock);
    return done(e != NULL);
}

CUresult cuEventQuery(CUevent event) { return done(is_handle(event, SIM_EVENT)); }
CUresult cuEventSynchronize(CUevent event) { return done(is_handle(event, SIM_EVENT)); }
CUresult cuEventDestroy_v2(CUevent event) { return destroy(event, SIM_EVENT); }

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end) {
    if (!ms) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    const struct event *a = (struct event *)sim_handle_find_locked(start, SIM_EVENT);
    const struct event *b = (struct event *)sim_handle_find_locked(end, SIM_EVENT);
    bool good = a && b && a->timed && b->timed && a->recorded && b->recorded;
    if (good)
        *ms = (float)((double)(b->at.tv_sec - a->at.tv_sec) * 1e3 + (double)(b->at.tv_nsec - a->at.tv_nsec) / 1e6);
    pthread_mutex_unlock(&sim_lock);
    return done(good);
}
