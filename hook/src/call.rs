//! What every call does: decide, forward, settle, record. Safe code; the exports in [`crate::ffi::runtime`] hand it
//! the real call and take its answer.

use hook_event::{Dim3, Operation, Outcome};

use crate::api::Entry;
use crate::clock::Clock;
use crate::ffi::boundary::Real;
use crate::ffi::types::{CudaError, MEMORY_ALLOCATION, SUCCESS};
use crate::ffi::{os, runtime};
use crate::names::{self, Name};
use crate::policy::{AllocDecision, LaunchDecision, Launched, Settled};
use crate::sink::Record;
use crate::state::{self, State};

/// An allocation: what was asked for, and what to do with the real call's answer.
pub(crate) struct Allocation<W, R, U> {
    /// Bytes asked for.
    pub(crate) size: u64,
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
    let Allocation { mut size, written, refused, undo } = allocation;
    let reserved = size;
    let mut way = Way::enter(entry, real);
    let state = way.state;
    let (settled, ptr, timed) = match state.limiter.alloc(size, way.entered_ns) {
        AllocDecision::Denied(settled) => (settled, None, Timed::denied(MEMORY_ALLOCATION)),
        AllocDecision::Forward(mut reservation) => {
            let timed = way.forward();
            if timed.ret == SUCCESS {
                let (ptr, takes) = written();
                size = takes;
                if takes == reserved || reservation.resize(takes) {
                    let dev = runtime::current_device();
                    (reservation.commit(ptr, dev, timed.ended_ns), Some(ptr), timed)
                } else {
                    undo();
                    (reservation.fail(timed.ended_ns), None, Timed::denied(MEMORY_ALLOCATION))
                }
            } else {
                (reservation.fail(timed.ended_ns), None, timed)
            }
        }
    };
    if timed.outcome == Outcome::Denied {
        refused();
        runtime::note_denial(MEMORY_ALLOCATION);
    }
    let Settled { seq, at_ns, total, pending } = settled;
    let op = Operation::Alloc { size, ptr, total, pending, quota: state.config.quota_bytes };
    way.record(runtime::current_device, seq, at_ns, op, timed);
    timed.ret
}

/// A free of `ptr`.
pub(crate) fn free(entry: Entry, ptr: u64, real: &mut Real<'_>) -> CudaError {
    let mut way = Way::enter(entry, real);
    let ticket = way.state.limiter.free(ptr);
    let timed = way.forward();
    let (settled, size) =
        if timed.ret == SUCCESS { ticket.commit(timed.ended_ns) } else { (ticket.fail(timed.ended_ns), None) };
    let Settled { seq, at_ns, total, .. } = settled;
    way.record(runtime::current_device, seq, at_ns, Operation::Free { ptr, size, total }, timed);
    timed.ret
}

/// A device reset.
pub(crate) fn reset(entry: Entry, real: &mut Real<'_>) -> CudaError {
    let mut way = Way::enter(entry, real);
    // Asked before: afterwards there is no context to tell.
    let dev = runtime::current_device();
    let timed = way.forward();
    let (settled, size) = if timed.ret == SUCCESS {
        way.state.limiter.reset(dev, timed.ended_ns)
    } else {
        (way.state.limiter.note(timed.ended_ns), 0)
    };
    let Settled { seq, at_ns, total, .. } = settled;
    way.record(|| dev, seq, at_ns, Operation::Reset { size, total }, timed);
    timed.ret
}

/// Free and total memory as the runtime tells them, brought within the quota.
pub(crate) fn within_quota(free: u64, total: u64) -> (u64, u64) {
    match state::get().limiter.room() {
        Some((quota, room)) => (free.min(room), total.min(quota)),
        None => (free, total),
    }
}

/// What is launched, as far as it is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A kernel.
    Kernel {
        shape: Shape,
        /// Dynamic shared memory, bytes.
        shmem: u64,
        /// Host stub or kernel handle.
        func: u64,
    },
    /// A graph, by its handle.
    Graph(u64),
}

/// Grid and block, in words as wide as a processor reads them. Read in other pieces than they were written in, as two
/// times three numbers are, they would have to go through memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape([u64; 3]);

impl Shape {
    #[inline(always)]
    pub(crate) fn new(grid: Dim3, block: Dim3) -> Shape {
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Shape([word(grid.x, grid.y), word(grid.z, block.x), word(block.y, block.z)])
    }

    #[inline(always)]
    fn grid_and_block(self) -> (Dim3, Dim3) {
        let Shape([a, b, c]) = self;
        // The lower half, then the upper.
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let ((x, y), (z, block_x), (block_y, block_z)) = (halves(a), halves(b), halves(c));
        (Dim3 { x, y, z }, Dim3 { x: block_x, y: block_y, z: block_z })
    }
}

/// A launch.
#[inline(always)]
pub(crate) fn launch(entry: Entry, work: Work, stream: u64, real: &mut Real<'_>) -> CudaError {
    // Apart from the start, so that each has code of its own without the other's fields.
    match work {
        Work::Kernel { shape, shmem, func } => launch_as(entry, real, |tokens, wait_ns| {
            let (grid, block) = shape.grid_and_block();
            Operation::Launch { grid, block, shmem, stream, kernel: names::of(func), tokens, wait_ns }
        }),
        Work::Graph(graph) => {
            launch_as(entry, real, |tokens, wait_ns| Operation::Graph { graph, stream, tokens, wait_ns })
        }
    }
}

#[inline(always)]
fn launch_as(
    entry: Entry,
    real: &mut Real<'_>,
    describe: impl FnOnce(Option<f64>, u64) -> Operation<Name>,
) -> CudaError {
    let mut way = Way::enter(entry, real);
    let state = way.state;
    let mut wait_ns = 0;
    let (launched, timed) = match state.limiter.launch(way.entered_ns) {
        LaunchDecision::Denied(launched) => {
            let code = state.config.deny_error;
            runtime::note_denial(code);
            (launched, Timed { started_ns: way.decided(launched.seq), ..Timed::denied(code) })
        }
        LaunchDecision::Pass(launched) => (launched, way.forward_from(|way| way.decided(launched.seq))),
        LaunchDecision::Wait(due_ns) => {
            os::sleep_until(due_ns);
            let woken = way.clock.now_ns();
            wait_ns = woken.saturating_sub(way.entered_ns);
            (state.limiter.launch_after_wait(woken), way.forward())
        }
    };
    let Launched { seq, at_ns, tokens } = launched;
    way.record(runtime::current_device, seq, at_ns, describe(tokens, wait_ns), timed);
    timed.ret
}

/// A call under way.
struct Way<'a, 'b> {
    entry: Entry,
    real: &'a mut Real<'b>,
    state: &'static State,
    clock: Clock,
    entered_ns: u64,
}

/// How a call ended, and when the real one ran.
#[derive(Clone, Copy)]
struct Timed {
    outcome: Outcome,
    ret: CudaError,
    /// When the real call began, or would have; 0 where that is still to be found out.
    started_ns: u64,
    /// 0 for a denial.
    ended_ns: u64,
}

impl Timed {
    const fn denied(code: CudaError) -> Timed {
        Timed { outcome: Outcome::Denied, ret: code, started_ns: 0, ended_ns: 0 }
    }
}

impl<'a, 'b> Way<'a, 'b> {
    #[inline(always)]
    fn enter(entry: Entry, real: &'a mut Real<'b>) -> Way<'a, 'b> {
        let state = state::get();
        let clock = if state.times { Clock::here() } else { Clock::Still };
        Way { entry, real, state, clock, entered_ns: clock.now_ns() }
    }

    /// Makes the real call.
    #[inline(always)]
    fn forward(&mut self) -> Timed {
        self.forward_from(|way| way.clock.now_ns())
    }

    #[inline(always)]
    fn forward_from(&mut self, started_ns: impl FnOnce(&Self) -> u64) -> Timed {
        let started_ns = started_ns(self);
        let ret = self.real.call();
        let ended_ns = self.clock.now_ns();
        let outcome = if ret == SUCCESS { Outcome::Ok } else { Outcome::Failed };
        Timed { outcome, ret, started_ns, ended_ns }
    }

    /// When launch `seq` was decided. Reading the clock takes a fifth of a batched launch, so mostly it is not read
    /// for this but taken to be as long after the entry as it was when it last was.
    #[inline(always)]
    fn decided(&self, seq: u64) -> u64 {
        let thread = self.real.thread();
        if !self.state.sinks.batch.is_direct()
            && let Some(time_ns) = thread.decided_ns(seq)
        {
            return self.entered_ns.saturating_add(time_ns);
        }
        let now_ns = self.clock.now_ns();
        thread.note_decided_ns(now_ns.saturating_sub(self.entered_ns));
        now_ns
    }

    #[inline(always)]
    fn record(self, device: impl FnOnce() -> Option<i32>, seq: u64, at_ns: u64, op: Operation<Name>, timed: Timed) {
        let Way { entry, real, state, clock, entered_ns } = self;
        if !state.records {
            return;
        }
        let Timed { outcome, ret, started_ns, ended_ns } = timed;
        // What comes after the real call is not timed.
        let decided_ns = match (started_ns, ended_ns) {
            (0, _) => clock.now_ns(),
            (_, 0) => started_ns,
            // A guess may be too long; the two times together never are.
            _ => started_ns.min(ended_ns),
        };
        let real_ns = ended_ns.saturating_sub(started_ns);
        let hook_ns = decided_ns.saturating_sub(entered_ns).saturating_sub(op.wait_ns());
        let thread = real.thread();
        let (tid, dev) = (thread.id(), device().unwrap_or(-1));
        // By value, so that it is put together where it will lie.
        let make = move || Record { seq, at_ns, real_ns, hook_ns, op, tid, ret, dev, entry, outcome };
        match state.sinks.batch.place(state, thread) {
            Some(place) => place.fill(make),
            None => state.sinks.write_now(state, make(), entered_ns),
        }
    }
}
