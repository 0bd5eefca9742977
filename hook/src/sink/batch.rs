//! Records in batches: the calling thread leaves a record in its ring and returns; a thread of the hook's own takes out
//! what all rings hold, puts it in order, formats and writes it.
//!
//! A record is at most [`PERIOD_NS`] and the time of writing behind. A caller whose ring is full writes all rings out
//! itself, or waits for whoever is doing so: it is slowed down, and no record is lost.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::{Formatter, Record};
use crate::clock::Calibration;
use crate::ffi::boundary::contain;
use crate::ffi::os;
use crate::ffi::ring::{Lanes, Reader, Slot, Written};
use crate::ffi::thread::{self, Bell, Thread, Uncancelled};
use crate::state::State;

/// Records of a ring, 256 KiB of them: what launches at a GPU's pace (one in 3 µs) make in 6 ms.
pub(crate) const RING: usize = 2048;
/// Records that are sorted and written in one go.
const BATCH: usize = 8 * RING;
/// Rings before any is looked at for use by another thread.
const FEW_RINGS: usize = 16;

/// Events that may be written before their calls return, more quickly than [`EVENT_NS`] lets them.
const CREDIT_NS: u64 = 1000 * EVENT_NS;
/// The pace at which credit comes back: 2000 events a second.
const EVENT_NS: u64 = 500_000;

/// How often records are written while there are any.
const PERIOD_NS: u64 = 4_000_000;
/// Periods without a record after which the writing thread goes to sleep.
const QUIET_PERIODS: u32 = 25;
/// How often it then looks whether it is the last thread of the process.
const LOOK_NS: u64 = 250_000_000;

/// Each record is written before its call returns.
const DIRECT: u8 = 0;
/// Records go into rings, and the writing thread comes by itself.
const BATCHED: u8 = 1;
/// The same, but it sleeps: who leaves a record must wake it.
const ASLEEP: u8 = 2;
/// All this is a copy of the parent's, in a forked child.
const PARENTS: u8 = 3;

/// How long to wait for a lock that another thread has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A tenth of a second: the thread that has it may be the one that waits, interrupted by a signal.
    Short,
    /// As long as it takes.
    Endless,
}

impl Patience {
    /// What `wait` gets, or what `attempt` does before a short patience ends.
    pub(super) fn get<T>(self, mut attempt: impl FnMut() -> Option<T>, wait: impl FnOnce() -> T) -> Option<T> {
        if self == Patience::Endless {
            return Some(wait());
        }
        for _ in 1..100 {
            if let Some(got) = attempt() {
                return Some(got);
            }
            os::sleep_ns(1_000_000);
        }
        attempt()
    }
}

/// What batches need.
// Every call reads the mode, so nothing lies beside it that changes as often.
#[repr(align(128))]
pub(crate) struct Batch {
    mode: AtomicU8,
    begun: AtomicBool,
    /// Monotonic time by which the events so far would have come at the pace of [`EVENT_NS`].
    credit: AtomicU64,
    pub(crate) lanes: Lanes<Record, RING>,
    drain: Mutex<Drain>,
    bell: Bell,
}

/// The one who writes.
#[repr(align(128))]
struct Drain {
    reader: Reader,
    desk: Option<Box<Desk>>,
}

/// What it works with; made when batches begin, so that writing allocates nothing.
struct Desk {
    records: Vec<Record>,
    order: Vec<(u64, u32)>,
    formatter: Formatter,
}

impl Batch {
    pub(super) fn new() -> Batch {
        let (lanes, reader) = Lanes::new(FEW_RINGS);
        Batch {
            mode: AtomicU8::new(DIRECT),
            begun: AtomicBool::new(false),
            credit: AtomicU64::new(0),
            lanes,
            drain: Mutex::new(Drain { reader, desk: None }),
            bell: Bell::default(),
        }
    }

    /// Whether records are the callers' to write.
    #[inline(always)]
    pub(crate) fn is_direct(&self) -> bool {
        self.mode.load(Ordering::Acquire) == DIRECT
    }

    /// A place in the thread's ring for a record, made free if there is none. `None` when records are the callers' to
    /// write.
    #[inline(always)]
    pub(crate) fn place(&self, state: &'static State, thread: &Thread) -> Option<Place<'_>> {
        if self.is_direct() {
            return None;
        }
        let slot = match thread.slot() {
            Some(slot) => slot,
            None => self.make_room(state, thread)?,
        };
        Some(Place { batch: self, slot })
    }

    /// The same where there is one.
    #[inline(always)]
    pub(crate) fn free_place(&self, thread: &Thread) -> Option<Place<'_>> {
        Some(Place { batch: self, slot: thread.slot()? })
    }

    /// The ring is full, or there is none yet.
    #[cold]
    fn make_room(&self, state: &'static State, thread: &Thread) -> Option<Slot<'static, Record, RING>> {
        let _held = Uncancelled::hold();
        let mut waits = 0u32;
        loop {
            if self.is_parents() || !thread.claim(&self.lanes) {
                return None;
            }
            if let Some(slot) = thread.slot() {
                return Some(slot);
            }
            match self.try_lock() {
                Some(mut drain) => {
                    drain.run(state);
                }
                None => os::sleep_ns(if waits < 8 { 50_000 } else { 500_000 }),
            }
            waits = waits.saturating_add(1);
            // A child that was made behind the C library's back has all this but no writing thread.
            if waits.is_multiple_of(1000) && os::process_id() != state.pid {
                self.mode.store(DIRECT, Ordering::Release);
                return None;
            }
        }
    }

    /// An event was written before its call returned. When that happens too often, batches begin.
    pub(super) fn spend(&self, state: &'static State, now_ns: u64) {
        let spent = |due: u64| due.max(now_ns).saturating_add(EVENT_NS);
        let due = self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |due| Some(spent(due)));
        let due = spent(due.unwrap_or(0));
        if due.saturating_sub(now_ns) > CREDIT_NS && !state.config.sync && !self.begun.swap(true, Ordering::Relaxed) {
            self.begin(state);
        }
    }

    /// Without memory, a thread or `/proc` all stays as it was.
    fn begin(&self, state: &'static State) {
        if !os::has_proc() {
            return;
        }
        let Some(desk) = Desk::new() else { return };
        self.lock().desk = Some(Box::new(desk));
        if thread::start("cuda-hook", move || work(state)) {
            self.turn(DIRECT, BATCHED);
        }
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.mode.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Whether this process may have records in its rings. A child that shares its parent's memory has none.
    pub(crate) fn may_hold_records(&self, state: &State) -> bool {
        !self.is_direct() && os::process_id() == state.pid
    }

    /// In a forked child. A call that goes on there, in which a signal handler has forked, leaves no record.
    pub(super) fn disown(&self) {
        self.mode.store(PARENTS, Ordering::Relaxed);
    }

    /// Whether records are not this process's to write.
    pub(super) fn is_parents(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == PARENTS
    }

    /// Writes what all rings hold.
    pub(crate) fn flush(&self, state: &'static State, patience: Patience) {
        if self.may_hold_records(state)
            && let Some(mut drain) = self.lock_within(patience)
        {
            drain.run(state);
        }
    }

    /// Back to writing each record before its call returns. As long as the caller keeps the answer, those who end the
    /// process beside it wait.
    pub(super) fn end(&self, state: &'static State, patience: Patience) -> Option<impl Sized> {
        self.begun.store(true, Ordering::Relaxed);
        let mut drain = self.lock_within(patience);
        let mut run = || drain.as_mut().map(|drain| drain.run(state));
        run();
        if self.mode.swap(DIRECT, Ordering::AcqRel) != DIRECT {
            // What other threads have left in the meantime.
            run();
        }
        drain
    }

    fn lock(&self) -> MutexGuard<'_, Drain> {
        self.drain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Drain>> {
        match self.drain.try_lock() {
            Ok(drain) => Some(drain),
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock_within(&self, patience: Patience) -> Option<MutexGuard<'_, Drain>> {
        patience.get(|| self.try_lock(), || self.lock())
    }
}

/// Where a record goes.
pub(crate) struct Place<'a> {
    batch: &'a Batch,
    slot: Slot<'static, Record, RING>,
}

/// A record in its place, which the writing thread does not see yet.
pub(crate) struct Placed<'a> {
    batch: &'a Batch,
    written: Written<'static, Record, RING>,
}

impl<'a> Place<'a> {
    /// Puts the record there that `make` makes.
    #[inline(always)]
    pub(crate) fn put(self, make: impl FnOnce() -> Record) -> Placed<'a> {
        Placed { batch: self.batch, written: self.slot.write(make) }
    }
}

impl Placed<'_> {
    /// Leaves the record to be written, after a last change.
    #[inline(always)]
    pub(crate) fn leave(self, change: impl FnOnce(&mut Record)) {
        let half_full = self.written.publish(change);
        // Looked at after the record is there. The writing thread looks for records a while after it has said that it
        // sleeps, so one of the two sees the other.
        if half_full || self.batch.mode.load(Ordering::Relaxed) == ASLEEP {
            self.batch.bell.ring();
        }
    }
}

impl Desk {
    fn new() -> Option<Desk> {
        let (mut records, mut order) = (Vec::new(), Vec::new());
        records.try_reserve_exact(BATCH).ok()?;
        order.try_reserve_exact(BATCH).ok()?;
        Some(Desk { records, order, formatter: Formatter::new()? })
    }

    /// Writes the batch, in the order of the numbers.
    fn write(&mut self, state: &State) {
        let Desk { records, order, formatter } = self;
        if records.is_empty() {
            return;
        }
        formatter.begin(&state.sinks);
        if records.is_sorted_by_key(|record| record.seq) {
            records.iter().for_each(|record| formatter.put(state, record));
        } else {
            order.clear();
            order.extend(records.iter().zip(0u32..).map(|(record, place)| (record.seq, place)));
            order.sort_unstable();
            for &(_, place) in order.iter() {
                if let Some(record) = usize::try_from(place).ok().and_then(|place| records.get(place)) {
                    formatter.put(state, record);
                }
            }
        }
        formatter.finish(state);
        records.clear();
    }
}

impl Drain {
    /// Writes what all rings hold at this moment. True when there was anything.
    fn run(&mut self, state: &State) -> bool {
        let Drain { reader, desk } = self;
        let Some(desk) = desk else { return false };
        let mut any = false;
        // After a panic half a batch may be left; it would be written twice.
        desk.records.clear();
        for lane in state.sinks.batch.lanes.iter() {
            if desk.records.len().saturating_add(RING) > BATCH {
                desk.write(state);
            }
            reader.take(lane, |record| desk.records.push(record));
            any |= !desk.records.is_empty();
        }
        desk.write(state);
        any
    }
}

/// The writing thread.
fn work(state: &'static State) {
    let batch = &state.sinks.batch;
    let mut calibration = Calibration::new();
    let mut quiet = 0u32;
    loop {
        let mut any = false;
        contain(|| any = batch.lock().run(state));
        if any {
            quiet = 0;
            batch.turn(ASLEEP, BATCHED);
        } else {
            quiet = quiet.saturating_add(1);
        }
        if quiet < QUIET_PERIODS {
            calibration.refresh();
            batch.bell.wait(PERIOD_NS);
        } else if batch.turn(BATCHED, ASLEEP) {
            // Long enough for every processor to see that, or for its record to be seen here.
            batch.bell.wait(2 * PERIOD_NS);
        } else {
            // A process whose first thread has left ends with its last one, which must not be this.
            if os::is_one_thread_without_the_first() {
                return;
            }
            batch.bell.wait(LOOK_NS);
        }
    }
}
