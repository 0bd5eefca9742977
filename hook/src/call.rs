//! What every call does: decide, forward, settle, record. Safe code; the exports in [`crate::ffi::runtime`] and
//! [`crate::ffi::driver`] hand it the real call and take its answer.

use hook_event::{Call, Dim3, Op, Outcome};

use crate::api::{Entry, Layer};
use crate::clock;
use crate::config::COURSE_DENY_ERROR;
use crate::ffi::boundary::Real;
use crate::ffi::types::{CudaError, LAUNCH_FAILED, MEMORY_ALLOCATION, SUCCESS};
use crate::ffi::{driver, os, runtime};
use crate::names;
use crate::policy::{AllocDecision, LaunchDecision, Launched, Settled};
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
    let state = state::get();
    let entered = clock::now_ns();
    // Known before the decision: its quota is asked, too.
    let dev = dev.or_else(|| current_device(entry));
    let (settled, ptr, refusal, timed) = match state.limiter.alloc(size, dev, entered) {
        AllocDecision::Denied(settled, refusal) => (settled, None, Some(refusal), Timed::denied(MEMORY_ALLOCATION)),
        AllocDecision::Forward(mut reservation) => {
            let timed = Timed::forward(real);
            if timed.ret == SUCCESS {
                let (ptr, takes) = written();
                size = takes;
                match reservation.resize(takes) {
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
        note_denial(entry, MEMORY_ALLOCATION);
    }
    let Settled { seq, at_ns, total, pending } = settled;
    let op = Op::Alloc { size, ptr, total, pending, refusal };
    emit_on(dev, state, entry, seq, at_ns, op, &timed, entered);
    timed.ret
}

/// An allocation of host memory: recorded, not counted. `written` reads the address that the real call gave.
pub(crate) fn host_alloc(entry: Entry, size: u64, written: impl FnOnce() -> u64, real: &mut Real<'_>) -> CudaError {
    let state = state::get();
    let entered = clock::now_ns();
    let timed = Timed::forward(real);
    let ptr = (timed.ret == SUCCESS).then(written);
    let Settled { seq, at_ns, total, .. } = state.limiter.note(timed.ended_ns);
    emit(state, entry, seq, at_ns, Op::HostAlloc { size, ptr, total }, &timed, entered);
    timed.ret
}

/// A free of host memory.
pub(crate) fn host_free(entry: Entry, ptr: u64, real: &mut Real<'_>) -> CudaError {
    let state = state::get();
    let entered = clock::now_ns();
    let timed = Timed::forward(real);
    let Settled { seq, at_ns, total, .. } = state.limiter.note(timed.ended_ns);
    emit(state, entry, seq, at_ns, Op::HostFree { ptr, total }, &timed, entered);
    timed.ret
}

/// A free of `ptr`.
pub(crate) fn free(entry: Entry, ptr: u64, real: &mut Real<'_>) -> CudaError {
    let state = state::get();
    let entered = clock::now_ns();
    let ticket = state.limiter.free(ptr);
    let timed = Timed::forward(real);
    let (settled, size) =
        if timed.ret == SUCCESS { ticket.commit(timed.ended_ns) } else { (ticket.fail(timed.ended_ns), None) };
    let Settled { seq, at_ns, total, .. } = settled;
    emit(state, entry, seq, at_ns, Op::Free { ptr, size, total }, &timed, entered);
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
    let state = state::get();
    let entered = clock::now_ns();
    let mappings = state.vmm.unmap(ptr, size);
    let handles: Vec<u64> = mappings.iter().filter(|mapping| mapping.last).map(|mapping| mapping.handle).collect();
    let timed = free_all(state, entry, &handles, entered, real);
    if timed.ret != SUCCESS {
        state.vmm.keep_mapped(&mappings);
    }
    timed.ret
}

/// The end of a context, and of what was allocated in it.
pub(crate) fn destroy_context(entry: Entry, context: u64, real: &mut Real<'_>) -> CudaError {
    let state = state::get();
    let entered = clock::now_ns();
    // Asked before: afterwards nobody knows.
    let mut blocks = state.limiter.live_blocks();
    blocks.retain(|&ptr| driver::context_of(ptr) == Some(context));
    free_all(state, entry, &blocks, entered, real).ret
}

/// The release of a device's primary context: a reset if it was the last one, else nothing to record.
pub(crate) fn release_device(
    entry: Entry,
    dev: i32,
    is_active: impl FnOnce() -> bool,
    real: &mut Real<'_>,
) -> CudaError {
    let state = state::get();
    let entered = clock::now_ns();
    let timed = Timed::forward(real);
    if timed.ret == SUCCESS && !is_active() {
        let (Settled { seq, at_ns, total, .. }, size) = forget_device(state, Some(dev), &timed);
        emit_on(Some(dev), state, entry, seq, at_ns, Op::Reset { size, total }, &timed, entered);
    }
    timed.ret
}

/// What a device held is gone, but for physical memory that was made by itself: that belongs to no context (seen with
/// CUDA 13.0 on an H200: it outlives `cuDevicePrimaryCtxReset`).
fn forget_device(state: &State, dev: Option<i32>, timed: &Timed) -> (Settled, u64) {
    let physical = state.vmm.handles();
    state.limiter.reset(dev, |ptr| physical.contains(&ptr), timed.ended_ns)
}

/// One real call that frees several blocks: a record for each.
fn free_all(state: &State, entry: Entry, blocks: &[u64], entered: u64, real: &mut Real<'_>) -> Timed {
    let tickets: Vec<_> = blocks.iter().map(|&ptr| state.limiter.free(ptr)).collect();
    let timed = Timed::forward(real);
    let mut share = timed;
    for (ticket, &ptr) in tickets.into_iter().zip(blocks) {
        let (settled, size) =
            if timed.ret == SUCCESS { ticket.commit(timed.ended_ns) } else { (ticket.fail(timed.ended_ns), None) };
        let Settled { seq, at_ns, total, .. } = settled;
        emit(state, entry, seq, at_ns, Op::Free { ptr, size, total }, &share, entered);
        // The first record has the call's time, which is spent once.
        share.real_ns = 0;
    }
    timed
}

/// The reset of a device, `dev` or the calling thread's.
pub(crate) fn reset(entry: Entry, dev: Option<i32>, real: &mut Real<'_>) -> CudaError {
    let state = state::get();
    let entered = clock::now_ns();
    // Asked before: afterwards there is no context to tell.
    let dev = dev.or_else(|| current_device(entry));
    let timed = Timed::forward(real);
    let (settled, size) =
        if timed.ret == SUCCESS { forget_device(state, dev, &timed) } else { (state.limiter.note(timed.ended_ns), 0) };
    let Settled { seq, at_ns, total, .. } = settled;
    emit_on(dev, state, entry, seq, at_ns, Op::Reset { size, total }, &timed, entered);
    timed.ret
}

/// Free and total memory of a device as CUDA tells them, brought within the quotas that hold there.
pub(crate) fn within_quota(dev: Option<i32>, free: u64, total: u64) -> (u64, u64) {
    match state::get().limiter.room(dev, clock::now_ns()) {
        Some((quota, room)) => (free.min(room), total.min(quota)),
        None => (free, total),
    }
}

/// What is launched, as far as it is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A kernel.
    Kernel {
        grid: Dim3,
        block: Dim3,
        /// Dynamic shared memory, bytes.
        shmem: u64,
        /// Host stub or kernel handle.
        func: u64,
    },
    /// A graph, by its handle.
    Graph(u64),
}

impl Work {
    /// Whether `CUDA_CORE_BYPASS=prefill` lets it pass without a token: at most 2 blocks of at least 256 threads.
    fn is_prefill(&self) -> bool {
        let count = |Dim3 { x, y, z }: Dim3| u128::from(x).saturating_mul(y.into()).saturating_mul(z.into());
        matches!(*self, Work::Kernel { grid, block, .. } if count(grid) <= 2 && count(block) >= 256)
    }
}

/// A launch.
pub(crate) fn launch(entry: Entry, work: Work, stream: u64, real: &mut Real<'_>) -> CudaError {
    let state = state::get();
    let entered = clock::now_ns();
    let mut wait_ns = 0;
    let bypass = state.config.bypass && work.is_prefill();
    let decision =
        if bypass { LaunchDecision::Pass(state.limiter.launch_free(entered)) } else { state.limiter.launch(entered) };
    let (launched, timed) = match decision {
        LaunchDecision::Denied(launched) => {
            let code = deny_error(state, entry);
            note_denial(entry, code);
            (launched, Timed::denied(code))
        }
        LaunchDecision::Pass(launched) => (launched, Timed::forward(real)),
        LaunchDecision::Wait(due_ns) => {
            os::sleep_until(due_ns);
            let woken = clock::now_ns();
            wait_ns = woken.saturating_sub(entered);
            (state.limiter.launch_after_wait(woken), Timed::forward(real))
        }
    };
    tell(state);
    let Launched { seq, at_ns, tokens } = launched;
    let op = match work {
        Work::Kernel { grid, block, shmem, func } => {
            Op::Launch { grid, block, shmem, stream, kernel: names::of(func), tokens, wait_ns, bypass }
        }
        Work::Graph(graph) => Op::Graph { graph, stream, tokens, wait_ns },
    };
    emit(state, entry, seq, at_ns, op, &timed, entered);
    timed.ret
}

/// Tells a person what came up with shared limits.
fn tell(state: &State) {
    if state.config.shared.is_some() {
        for text in state.limiter.notices() {
            state.sinks.warn(&text);
        }
    }
}

/// The device that the calling thread works on.
fn current_device(entry: Entry) -> Option<i32> {
    match entry.layer() {
        Layer::Runtime => runtime::current_device(),
        Layer::Driver => driver::current_device(),
    }
}

/// What a launch without a token returns.
fn deny_error(state: &State, entry: Entry) -> CudaError {
    state.config.deny_error.unwrap_or(match entry.layer() {
        Layer::Runtime => COURSE_DENY_ERROR,
        Layer::Driver => LAUNCH_FAILED,
    })
}

/// The runtime remembers a thread's last error, the driver doesn't.
fn note_denial(entry: Entry, code: CudaError) {
    if entry.layer() == Layer::Runtime {
        runtime::note_denial(code);
    }
}

/// How a call ended, and how long the real one took.
#[derive(Clone, Copy)]
struct Timed {
    outcome: Outcome,
    ret: CudaError,
    real_ns: u64,
    ended_ns: u64,
}

impl Timed {
    fn forward(real: &mut Real<'_>) -> Timed {
        let started = clock::now_ns();
        let ret = real.call();
        let ended_ns = clock::now_ns();
        let outcome = if ret == SUCCESS { Outcome::Ok } else { Outcome::Failed };
        Timed { outcome, ret, real_ns: ended_ns.saturating_sub(started), ended_ns }
    }

    const fn denied(code: CudaError) -> Timed {
        Timed { outcome: Outcome::Denied, ret: code, real_ns: 0, ended_ns: 0 }
    }
}

fn emit(state: &State, entry: Entry, seq: u64, at_ns: u64, op: Op<'_>, timed: &Timed, entered: u64) {
    emit_on(current_device(entry), state, entry, seq, at_ns, op, timed, entered);
}

#[allow(clippy::too_many_arguments)] // a record has as many
fn emit_on(
    dev: Option<i32>,
    state: &State,
    entry: Entry,
    seq: u64,
    at_ns: u64,
    op: Op<'_>,
    timed: &Timed,
    entered: u64,
) {
    let call = Call {
        seq,
        at: state.anchor.stamp(at_ns),
        pid: state.pid,
        tid: os::thread_id(),
        api: entry.api(),
        sym: entry.symbol(),
        dev,
        op,
        outcome: timed.outcome,
        ret: timed.ret,
        real_ns: timed.real_ns,
        hook_ns: 0,
    };
    state.sinks.emit(state, entry, call, entered);
}
