//! Memory: allocations, frees, and what takes several blocks at once.

use std::collections::HashSet;

use hook_event::{Operation, Outcome};

use super::{Timed, Way, current_device, note_denial, tell};
use crate::api::Entry;
use crate::clock;
use crate::ffi::boundary::Real;
use crate::ffi::driver;
use crate::ffi::types::{CudaError, MEMORY_ALLOCATION, SUCCESS};
use crate::policy::{AllocDecision, Settled};
use crate::state::{self, State};

/// An allocation: what was asked for, and what to do with the real call's answer.
pub(crate) struct Allocation<W, R, U> {
    /// Bytes asked for.
    pub(crate) size: u64,
    /// The device, where the call names one; else the calling thread's.
    pub(crate) dev: Option<i32>,
    /// Reads the address that the real call gave, and the bytes that it takes (rows may be padded).
    pub(crate) written: W,
    /// Leaves the program what a real call without memory would.
    pub(crate) refused: R,
    /// Gives the block back to the runtime: its padding does not fit the quota.
    pub(crate) undo: U,
}

/// An allocation call.
pub(crate) fn alloc(
    entry: Entry,
    allocation: Allocation<impl FnOnce() -> (u64, u64), impl FnOnce(), impl FnOnce()>,
    real: &mut Real<'_>,
) -> CudaError {
    let Allocation { mut size, dev, written, refused, undo } = allocation;
    let reserved = size;
    let mut way = Way::enter(entry, real);
    let state = way.state;
    // Known before the decision: its quota is asked, too.
    let dev = dev.or_else(|| current_device(entry));
    let (settled, ptr, refusal, timed) = match state.limiter.alloc(size, dev, way.entered_ns) {
        AllocDecision::Denied(settled, refusal) => (settled, None, Some(refusal), Timed::denied(MEMORY_ALLOCATION)),
        AllocDecision::Forward(mut reservation) => {
            let timed = way.forward_whole();
            if timed.ret == SUCCESS {
                let (ptr, takes) = written();
                size = takes;
                match if takes == reserved { Ok(()) } else { reservation.resize(takes) } {
                    Ok(()) => {
                        if entry == Entry::CuMemCreate {
                            state.vmm.created(ptr);
                        }
                        (reservation.commit(ptr, timed.ended_ns), Some(ptr), None, timed)
                    }
                    Err(refusal) => {
                        undo();
                        let settled = reservation.fail(timed.ended_ns);
                        (settled, None, Some(refusal), Timed::denied(MEMORY_ALLOCATION))
                    }
                }
            } else {
                (reservation.fail(timed.ended_ns), None, None, timed)
            }
        }
    };
    tell(state);
    if timed.outcome == Outcome::Denied {
        refused();
        note_denial(&way, MEMORY_ALLOCATION);
    }
    let Settled { seq, at_ns, total, pending } = settled;
    way.record(|| dev, seq, at_ns, Operation::Alloc { size, ptr, total, pending, refusal }, timed);
    timed.ret
}

/// An allocation of host memory: recorded, not counted. `written` reads the address that the real call gave.
pub(crate) fn host_alloc(entry: Entry, size: u64, written: impl FnOnce() -> u64, real: &mut Real<'_>) -> CudaError {
    let mut way = Way::enter(entry, real);
    let timed = way.forward_whole();
    let ptr = (timed.ret == SUCCESS).then(written);
    let Settled { seq, at_ns, total, .. } = way.state.limiter.note(timed.ended_ns);
    way.record(|| current_device(entry), seq, at_ns, Operation::HostAlloc { size, ptr, total }, timed);
    timed.ret
}

/// A free of host memory.
pub(crate) fn host_free(entry: Entry, ptr: u64, real: &mut Real<'_>) -> CudaError {
    let mut way = Way::enter(entry, real);
    let timed = way.forward_whole();
    let Settled { seq, at_ns, total, .. } = way.state.limiter.note(timed.ended_ns);
    way.record(|| current_device(entry), seq, at_ns, Operation::HostFree { ptr, total }, timed);
    timed.ret
}

/// A free of `ptr`.
pub(crate) fn free(entry: Entry, ptr: u64, real: &mut Real<'_>) -> CudaError {
    let mut way = Way::enter(entry, real);
    let ticket = way.state.limiter.free(ptr);
    let timed = way.forward_whole();
    let (settled, size) =
        if timed.ret == SUCCESS { ticket.commit(timed.ended_ns) } else { (ticket.fail(timed.ended_ns), None) };
    let Settled { seq, at_ns, total, .. } = settled;
    way.record(|| current_device(entry), seq, at_ns, Operation::Free { ptr, size, total }, timed);
    timed.ret
}

/// The release of a handle of physical memory: a free if nothing else holds the memory, else nothing to record.
pub(crate) fn release(entry: Entry, handle: u64, real: &mut Real<'_>) -> CudaError {
    let state = state::get();
    let last = state.vmm.release(handle);
    let answer = if last { free(entry, handle, real) } else { real.call() };
    if answer != SUCCESS {
        state.vmm.keep(handle, last);
    }
    answer
}

/// The unmapping of `size` bytes at `ptr`: frees those blocks behind them that nothing else holds.
pub(crate) fn unmap(entry: Entry, ptr: u64, size: u64, real: &mut Real<'_>) -> CudaError {
    let way = Way::enter(entry, real);
    let state = way.state;
    let mappings = state.vmm.unmap(ptr, size);
    let handles: Vec<u64> = mappings.iter().filter(|mapping| mapping.last).map(|mapping| mapping.handle).collect();
    let ret = free_all(way, &handles);
    if ret != SUCCESS {
        state.vmm.keep_mapped(&mappings);
    }
    ret
}

/// The end of a context, and of what was allocated in it.
pub(crate) fn destroy_context(entry: Entry, context: u64, real: &mut Real<'_>) -> CudaError {
    let way = Way::enter(entry, real);
    // Asked before: afterwards nobody knows.
    let mut blocks = way.state.limiter.live_blocks();
    blocks.retain(|&ptr| driver::context_of(ptr) == Some(context));
    free_all(way, &blocks)
}

/// One real call that frees several blocks: a record for each.
fn free_all(mut way: Way<'_, '_>, blocks: &[u64]) -> CudaError {
    let state = way.state;
    let tickets: Vec<_> = blocks.iter().map(|&ptr| state.limiter.free(ptr)).collect();
    let timed = way.forward_whole();
    let mut share = timed;
    for (ticket, &ptr) in tickets.into_iter().zip(blocks) {
        let (settled, size) =
            if timed.ret == SUCCESS { ticket.commit(timed.ended_ns) } else { (ticket.fail(timed.ended_ns), None) };
        let Settled { seq, at_ns, total, .. } = settled;
        let entry = way.entry;
        way.record_one(|| current_device(entry), seq, at_ns, Operation::Free { ptr, size, total }, share);
        // The first record has the call's time, which is spent once.
        way.entered_ns = way.clock.now_ns();
        share = Timed { started_ns: way.entered_ns, ended_ns: way.entered_ns, ..timed };
    }
    timed.ret
}

/// The release of a device's primary context: a reset if it was the last one, else nothing to record.
pub(crate) fn release_device(
    entry: Entry,
    dev: i32,
    is_active: impl FnOnce() -> bool,
    real: &mut Real<'_>,
) -> CudaError {
    let mut way = Way::enter(entry, real);
    let outliving = outliving(way.state);
    let timed = way.forward_whole();
    if timed.ret == SUCCESS && !is_active() {
        let (Settled { seq, at_ns, total, .. }, size) = forget_device(way.state, Some(dev), &outliving, &timed);
        way.record(|| Some(dev), seq, at_ns, Operation::Reset { size, total }, timed);
    }
    timed.ret
}

/// The reset of a device, `dev` or the calling thread's.
pub(crate) fn reset(entry: Entry, dev: Option<i32>, real: &mut Real<'_>) -> CudaError {
    let mut way = Way::enter(entry, real);
    // Asked before: afterwards there is no context to tell.
    let dev = dev.or_else(|| current_device(entry));
    let outliving = outliving(way.state);
    let timed = way.forward_whole();
    let (settled, size) = if timed.ret == SUCCESS {
        forget_device(way.state, dev, &outliving, &timed)
    } else {
        (way.state.limiter.note(timed.ended_ns), 0)
    };
    let Settled { seq, at_ns, total, .. } = settled;
    way.record(|| dev, seq, at_ns, Operation::Reset { size, total }, timed);
    timed.ret
}

/// The blocks that belong to no context and so outlive a device's reset: physical memory that was made by itself, and
/// what stream-ordered allocation took from a pool. (Seen with CUDA 13.0 on an H200: after `cuDevicePrimaryCtxReset`
/// both are still in use, and can be freed.)
fn outliving(state: &State) -> HashSet<u64> {
    let mut outliving = state.vmm.handles();
    outliving.extend(state.limiter.live_blocks().into_iter().filter(|&ptr| driver::context_of(ptr) == Some(0)));
    outliving
}

/// What a device held is gone, but for what outlives it.
fn forget_device(state: &State, dev: Option<i32>, outliving: &HashSet<u64>, timed: &Timed) -> (Settled, u64) {
    state.limiter.reset(dev, |ptr| outliving.contains(&ptr), timed.ended_ns)
}

/// Free and total memory of a device as CUDA tells them, brought within the quotas that hold there.
pub(crate) fn within_quota(dev: Option<i32>, free: u64, total: u64) -> (u64, u64) {
    match state::get().limiter.room(dev, clock::now_ns()) {
        Some((quota, room)) => (free.min(room), total.min(quota)),
        None => (free, total),
    }
}
