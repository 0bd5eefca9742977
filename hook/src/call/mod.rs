//! What every call does: decide, forward, settle, record. Safe code; the exports in [`crate::ffi::runtime`] and
//! [`crate::ffi::driver`] hand it the real call and take its answer.

mod launch;
mod memory;

use hook_event::{Operation, Outcome};

pub(crate) use self::launch::{Shape, Work, launch};
pub(crate) use self::memory::{
    Allocation, alloc, destroy_context, free, host_alloc, host_free, release, release_device, reset, unmap,
    within_quota,
};
use crate::api::{Entry, Layer};
use crate::clock::Clock;
use crate::ffi::boundary::Real;
use crate::ffi::thread::Uncancelled;
use crate::ffi::types::{CudaError, SUCCESS};
use crate::ffi::{driver, runtime};
use crate::names::Name;
use crate::policy::Launched;
use crate::sink::{Record, UNMEASURED};
use crate::state::{self, State};

/// Tells a person what came up with shared limits.
#[inline(always)]
fn tell(state: &State) {
    if state.config.shared.is_some() {
        tell_notices(state);
    }
}

#[cold]
fn tell_notices(state: &State) {
    for text in state.limiter.notices() {
        state.sinks.warn(&text);
    }
}

/// The device that the calling thread works on.
#[inline(always)]
fn current_device(entry: Entry) -> Option<i32> {
    match entry.layer() {
        Layer::Runtime => runtime::current_device(),
        Layer::Driver => driver::current_device(),
    }
}

/// The runtime remembers a thread's last error, the driver doesn't.
fn note_denial(way: &Way<'_, '_>, code: CudaError) {
    if way.entry.layer() == Layer::Runtime {
        runtime::note_denial(way.real.thread(), code);
    }
}

/// A call under way.
struct Way<'a, 'b> {
    entry: Entry,
    real: &'a mut Real<'b>,
    state: &'static State,
    clock: Clock,
    entered_ns: u64,
    /// Whether the time up to the real call is taken.
    measured: bool,
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
        Way { entry, real, state, clock, entered_ns: clock.now_ns(), measured: state.records }
    }

    /// The same for a launch. While records are batched, a reading of the clock is the largest part of what it costs.
    #[inline(always)]
    fn enter_launch(entry: Entry, real: &'a mut Real<'b>) -> Way<'a, 'b> {
        let mut way = Way::enter(entry, real);
        way.measured &= way.state.sinks.batch.is_direct() || way.real.thread().is_sixteenth();
        way
    }

    /// Makes the real call of a launch that was decided on, `promptly` or after some waiting.
    #[inline(always)]
    fn forward_launch(&mut self, promptly: bool) -> Timed {
        if promptly && !self.measured { self.forward_at(self.entered_ns) } else { self.forward() }
    }

    /// Makes the real call of a launch that was decided on promptly and is not measured, with its record in place already:
    /// what is known of it is written while the processor is on its way into CUDA. `None` where there is no place, or
    /// what the launch took is to be measured.
    #[inline(always)]
    fn forward_in_place(&mut self, launched: &Launched, op: impl FnOnce() -> Operation<Name>) -> Option<CudaError> {
        let Way { entry, ref mut real, state, clock, entered_ns, measured } = *self;
        // What is recorded and not measured is batched.
        if measured || !launched.promptly || !state.records {
            return None;
        }
        let place = state.sinks.batch.free_place(real.thread())?;
        let (tid, dev) = (real.thread().id(), current_device(entry).unwrap_or(-1));
        let &Launched { seq, at_ns, .. } = launched;
        let (op, outcome) = (op(), Outcome::Ok);
        let (real_ns, hook_ns, ret) = (0, UNMEASURED, SUCCESS);
        let placed = place.put(move || Record { seq, at_ns, real_ns, hook_ns, op, tid, ret, dev, entry, outcome });
        let ret = real.call();
        let ended_ns = clock.now_ns();
        placed.leave(|record| {
            record.real_ns = ended_ns.saturating_sub(entered_ns);
            if ret != SUCCESS {
                (record.ret, record.outcome) = (ret, Outcome::Failed);
            }
        });
        Some(ret)
    }

    /// Makes the real call.
    #[inline(always)]
    fn forward(&mut self) -> Timed {
        self.forward_at(self.clock.now_ns())
    }

    #[inline(always)]
    fn forward_at(&mut self, started_ns: u64) -> Timed {
        let ret = self.real.call();
        let ended_ns = if self.state.records { self.clock.now_ns() } else { started_ns };
        let outcome = if ret == SUCCESS { Outcome::Ok } else { Outcome::Failed };
        Timed { outcome, ret, started_ns, ended_ns }
    }

    /// Makes a real call that may take long and leaves the accounts half-way meanwhile. The thread is not cancelled in it,
    /// however long that takes.
    fn forward_whole(&mut self) -> Timed {
        let _held = Uncancelled::hold();
        self.forward()
    }

    #[inline(always)]
    fn record(mut self, device: impl FnOnce() -> Option<i32>, seq: u64, at_ns: u64, op: Operation<Name>, timed: Timed) {
        self.record_one(device, seq, at_ns, op, timed);
    }

    #[inline(always)]
    fn record_one(
        &mut self,
        device: impl FnOnce() -> Option<i32>,
        seq: u64,
        at_ns: u64,
        op: Operation<Name>,
        timed: Timed,
    ) {
        let Way { entry, ref real, state, clock, entered_ns, measured } = *self;
        if !state.records {
            return;
        }
        let Timed { outcome, ret, started_ns, ended_ns } = timed;
        let real_ns = ended_ns.saturating_sub(started_ns);
        let hook_ns = if measured {
            // What comes after the real call is not timed.
            let decided_ns = if started_ns == 0 { clock.now_ns() } else { started_ns };
            decided_ns.saturating_sub(entered_ns).saturating_sub(op.wait_ns())
        } else {
            UNMEASURED
        };
        let thread = real.thread();
        let (tid, dev) = (thread.id(), device().unwrap_or(-1));
        // By value, so that it is put together where it will lie.
        let make = move || Record { seq, at_ns, real_ns, hook_ns, op, tid, ret, dev, entry, outcome };
        match state.sinks.batch.place(state, thread) {
            Some(place) => place.put(make).leave(|_| ()),
            None => state.sinks.write_now(state, make(), entered_ns),
        }
    }
}
