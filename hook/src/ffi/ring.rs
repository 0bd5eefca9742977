//! The way of records from the threads that make them to the one that writes them: each thread has a ring of its own,
//! which only it fills and only the holder of the one [`Reader`] empties. Neither ever waits for the other here.
//!
//! Rings are never freed. That of a thread which has ended goes to the next thread that needs one, records and all.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, UnsafeCell};

/// On cache lines of its own (two, since x86 fetches them in pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// Single producer, single consumer, room for `N` records, a power of two. Positions only grow and wrap around; a slot is
/// a position's remainder.
pub(crate) struct Ring<T, const N: usize> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>; N]>,
    /// Up to where the reader has read.
    head: Apart<AtomicUsize>,
    tail: Apart<Tail>,
}

/// The producer's side.
struct Tail {
    /// Up to where records are complete.
    at: AtomicUsize,
    /// The head as the producer saw it last.
    seen: AtomicUsize,
}

// SAFETY: slots between head and tail are the reader's, the others the producer's, and both positions are handed over
// by release and acquire. That there is one of each is the contract of `push` and `take`.
unsafe impl<T: Send, const N: usize> Send for Ring<T, N> {}
// SAFETY: as above.
unsafe impl<T: Send, const N: usize> Sync for Ring<T, N> {}

/// So many slots ahead of the next record are fetched. The reader's processor has them, and getting one from there
/// takes as long as all the rest of a call.
const AHEAD: usize = 8;

/// Asks for a place's cache lines, without waiting for them.
#[inline(always)]
fn fetch_for_writing<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in (0..size_of::<T>()).step_by(64) {
        let at = place.wrapping_byte_add(line);
        // SAFETY: only a hint, at any address; a processor that does not know it does nothing.
        unsafe { std::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    for line in (0..size_of::<T>()).step_by(64) {
        let at = place.wrapping_byte_add(line);
        // SAFETY: only a hint, at any address.
        unsafe { std::arch::asm!("prfm pstl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
    }
}

/// A free place in a ring, the next record's.
pub(crate) struct Slot<'a, T, const N: usize> {
    ring: &'a Ring<T, N>,
    place: &'a UnsafeCell<MaybeUninit<T>>,
    tail: usize,
    half_full: bool,
    /// It stays in the producer's thread.
    here: PhantomData<*const T>,
}

impl<T: Copy, const N: usize> Ring<T, N> {
    /// `None` when there is no memory.
    pub(crate) fn new() -> Option<Ring<T, N>> {
        const { assert!(N.is_power_of_two()) };
        let mut slots = Vec::new();
        slots.try_reserve_exact(N).ok()?;
        // A slot is written by the first record that it gets, so memory is only taken up as it is used.
        slots.extend((0..N).map(|_| UnsafeCell::new(MaybeUninit::uninit())));
        Some(Ring {
            slots: slots.into_boxed_slice().try_into().ok()?,
            head: Apart(AtomicUsize::new(0)),
            tail: Apart(Tail { at: AtomicUsize::new(0), seen: AtomicUsize::new(0) }),
        })
    }

    fn at(&self, position: usize) -> Option<&UnsafeCell<MaybeUninit<T>>> {
        self.slots.get(position & N.wrapping_sub(1))
    }

    /// The place for the next record, if there is room.
    ///
    /// # Safety
    /// One thread at a time, one slot at a time, and after a change of threads the new one must know of all that the old
    /// one did.
    #[inline(always)]
    unsafe fn slot(&self) -> Option<Slot<'_, T, N>> {
        let Tail { at, seen } = &self.tail.0;
        let tail = at.load(Ordering::Relaxed);
        let mut used = tail.wrapping_sub(seen.load(Ordering::Relaxed));
        let half = N >> 1;
        if used == half || used >= N {
            let head = self.head.0.load(Ordering::Acquire);
            seen.store(head, Ordering::Relaxed);
            used = tail.wrapping_sub(head);
            if used >= N {
                return None;
            }
        }
        Some(Slot { ring: self, place: self.at(tail)?, tail, half_full: used == half, here: PhantomData })
    }

    /// Takes out all records that are there at this moment.
    ///
    /// # Safety
    /// One thread at a time, as above.
    unsafe fn take(&self, mut each: impl FnMut(T)) {
        let tail = self.tail.0.at.load(Ordering::Acquire);
        let mut head = self.head.0.load(Ordering::Relaxed);
        while head != tail {
            let Some(slot) = self.at(head) else { return };
            // SAFETY: this slot is between head and tail, so it was written and is the reader's.
            each(slot.with(|slot| unsafe { (*slot).assume_init_read() }));
            head = head.wrapping_add(1);
            self.head.0.store(head, Ordering::Release);
        }
    }
}

/// A slot with a record in it, which the reader does not see yet.
pub(crate) struct Written<'a, T, const N: usize>(Slot<'a, T, N>);

impl<'a, T: Copy, const N: usize> Slot<'a, T, N> {
    /// Puts the record there that `make` makes.
    #[inline(always)]
    pub(crate) fn write(self, make: impl FnOnce() -> T) -> Written<'a, T, N> {
        let Slot { ring, place, tail, .. } = self;
        // SAFETY: this slot is not between head and tail, so it is the producer's, and there is one producer with one
        // `Slot` (the contract of `Ring::slot`).
        place.with_mut(|slot| unsafe { (*slot).write(make()) });
        if let Some(slot) = ring.at(tail.wrapping_add(AHEAD)) {
            slot.with(fetch_for_writing);
        }
        Written(self)
    }
}

impl<T: Copy, const N: usize> Written<'_, T, N> {
    /// Leaves the record to the reader after a last change. True when the ring has become half full with it.
    #[inline(always)]
    pub(crate) fn publish(self, change: impl FnOnce(&mut T)) -> bool {
        let Written(Slot { ring, place, tail, half_full, .. }) = self;
        // SAFETY: as in `write`, which has put a record there.
        place.with_mut(|slot| change(unsafe { (*slot).assume_init_mut() }));
        ring.tail.0.at.store(tail.wrapping_add(1), Ordering::Release);
        half_full
    }
}

/// A thread's ring, and what others want to know of that thread.
pub(crate) struct Lane<T: 'static, const N: usize> {
    ring: Ring<T, N>,
    /// The kernel's id of the thread.
    owner: AtomicU32,
    /// The thread is in a call of the hook and may be cancelled there.
    pub(crate) exposed: AtomicBool,
    next: AtomicPtr<Lane<T, N>>,
}

impl<T: Copy, const N: usize> Lane<T, N> {
    /// The place for the owner's next record, if there is room.
    ///
    /// # Safety
    /// Only the thread that has claimed this lane, one slot at a time.
    #[inline(always)]
    pub(crate) unsafe fn slot(&self) -> Option<Slot<'_, T, N>> {
        // SAFETY: the owner is one thread, and whoever claims the lane after it has seen by acquire what it released.
        unsafe { self.ring.slot() }
    }
}

/// All lanes of a process.
pub(crate) struct Lanes<T: 'static, const N: usize> {
    first: AtomicPtr<Lane<T, N>>,
    count: AtomicUsize,
    /// With so many lanes the next newcomer looks for one whose thread has ended. Twice as many as were in use at the
    /// last look without success: so looking costs little, and there are never many more lanes than threads.
    look_at: AtomicUsize,
}

/// The right to take records out; there is one.
pub(crate) struct Reader(());

impl<T: Copy, const N: usize> Lanes<T, N> {
    /// No lanes yet.
    pub(crate) fn new(look_at: usize) -> (Lanes<T, N>, Reader) {
        let first = AtomicPtr::new(std::ptr::null_mut());
        let (count, look_at) = (AtomicUsize::new(0), AtomicUsize::new(look_at));
        (Lanes { first, count, look_at }, Reader(()))
    }

    /// A lane for the calling thread, whose id is `me`. `alive` tells whether a thread still runs. `None` when there is
    /// no memory.
    pub(crate) fn claim(&self, me: u32, alive: impl Fn(u32) -> bool) -> Option<&'static Lane<T, N>> {
        let count = self.count.load(Ordering::Relaxed);
        if count >= self.look_at.load(Ordering::Relaxed) {
            for lane in self.iter() {
                let owner = lane.owner.load(Ordering::Relaxed);
                // The kernel gives a dead thread's id to a new one, and that may be this very thread. Then the lane
                // stays as it is: another may have found its owner dead already, and be about to take it.
                if owner != me
                    && !alive(owner)
                    && lane.owner.compare_exchange(owner, me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
                {
                    return Some(lane);
                }
            }
            self.look_at.store(count.saturating_mul(2).max(1), Ordering::Relaxed);
        }
        let mut place = Vec::new();
        place.try_reserve_exact(1).ok()?;
        place.push(Lane {
            ring: Ring::new()?,
            owner: AtomicU32::new(me),
            exposed: AtomicBool::new(false),
            next: AtomicPtr::new(std::ptr::null_mut()),
        });
        let lane: *mut Lane<T, N> = place.leak().as_mut_ptr();
        // SAFETY: leaked, never freed, and from here on only shared.
        let lane_ref: &'static Lane<T, N> = unsafe { &*lane };
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            lane_ref.next.store(first, Ordering::Relaxed);
            match self.first.compare_exchange_weak(first, lane, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(newer) => first = newer,
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(lane_ref)
    }

    /// Every lane that there is.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Lane<T, N>> {
        let mut next = self.first.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: null or a leaked lane, published whole.
            let lane: &'static Lane<T, N> = unsafe { next.as_ref() }?;
            next = lane.next.load(Ordering::Relaxed);
            Some(lane)
        })
    }
}

impl Reader {
    /// Takes what is in `lane` of the lanes that this reader was made with.
    pub(crate) fn take<T: Copy, const N: usize>(&mut self, lane: &Lane<T, N>, each: impl FnMut(T)) {
        // SAFETY: there is one reader for these lanes, borrowed exclusively here.
        unsafe { lane.ring.take(each) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Whether there was room, and whether the ring is half full now.
    fn push<const N: usize>(lane: &Lane<u32, N>, value: u32) -> Option<bool> {
        // SAFETY: the tests use a lane from one thread at a time.
        Some(unsafe { lane.slot() }?.write(|| value).publish(|_| ()))
    }

    fn taken<const N: usize>(reader: &mut Reader, lane: &Lane<u32, N>) -> Vec<u32> {
        let mut all = Vec::new();
        reader.take(lane, |record| all.push(record));
        all
    }

    #[test]
    fn a_ring_takes_its_capacity_and_gives_back_in_order() {
        let (lanes, mut reader) = Lanes::<u32, 4>::new(8);
        let lane = lanes.claim(7, |_| true).unwrap();
        for round in 0..10 {
            let pushed = [0, 1, 2, 3].map(|value| push(lane, value));
            assert_eq!(pushed, [Some(false), Some(false), Some(true), Some(false)], "{round}");
            assert_eq!(push(lane, 4), None);
            assert_eq!(taken(&mut reader, lane), [0, 1, 2, 3]);
        }
    }

    #[test]
    fn lanes_of_dead_threads_are_used_again_with_what_is_in_them() {
        let (lanes, mut reader) = Lanes::<u32, 4>::new(2);
        let alive = |id: u32| id >= 100;
        let first = lanes.claim(1, alive).unwrap();
        push(first, 11).unwrap();
        let second = lanes.claim(100, alive).unwrap();
        let third = lanes.claim(101, alive).unwrap();
        assert!(std::ptr::eq(third, first) && !std::ptr::eq(second, first));
        push(third, 12).unwrap();
        assert_eq!(taken(&mut reader, first), [11, 12]);
        // Nobody is dead now: a lane is added.
        assert!(!std::ptr::eq(lanes.claim(102, alive).unwrap(), first));
        assert_eq!(lanes.iter().count(), 3);
    }

    #[test]
    fn ten_thousand_threads_one_after_another_need_few_lanes() {
        let (lanes, _reader) = Lanes::<u32, 2>::new(16);
        for id in 1..10_000 {
            lanes.claim(id, |other| other == id).unwrap();
        }
        assert!(lanes.iter().count() <= 17);
    }
}

/// Every order of a producer, a reader and helpers, explored by loom: `make check-model`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    fn push<const N: usize>(lane: &Lane<u32, N>, value: u32) -> bool {
        // SAFETY: the models push into a lane from the thread that claimed it.
        unsafe { lane.slot() }.map(|slot| slot.write(|| value).publish(|_| ())).is_some()
    }

    /// A thread that empties its ring itself when that is full, beside one that empties it at any moment.
    #[test]
    fn nothing_is_lost_doubled_or_disordered() {
        loom::model(|| {
            let (lanes, reader) = Lanes::<u32, 2>::new(8);
            let lanes = Arc::new(lanes);
            let drain = Arc::new(Mutex::new((reader, Vec::new())));
            let empty = |lanes: &Lanes<u32, 2>, drain: &Mutex<(Reader, Vec<u32>)>| {
                let mut drain = drain.lock().unwrap();
                let (reader, all) = &mut *drain;
                for lane in lanes.iter() {
                    reader.take(lane, |record| all.push(record));
                }
            };
            let writer = {
                let (lanes, drain) = (lanes.clone(), drain.clone());
                thread::spawn(move || {
                    let lane = lanes.claim(1, |_| true).unwrap();
                    for value in 1..=3 {
                        while !push(lane, value) {
                            empty(&lanes, &drain);
                        }
                    }
                })
            };
            empty(&lanes, &drain);
            writer.join().unwrap();
            empty(&lanes, &drain);
            assert_eq!(drain.lock().unwrap().1, [1, 2, 3]);
        });
    }

    /// Newcomers race for the lane of a thread that has ended: one gets it, with the record that is still in it.
    #[test]
    fn one_newcomer_gets_a_dead_threads_lane() {
        loom::model(|| {
            let (lanes, mut reader) = Lanes::<u32, 2>::new(1);
            let old = lanes.claim(1, |_| true).unwrap();
            assert!(push(old, 10));
            let lanes = Arc::new(lanes);
            let claim = |me: u32| {
                let lanes = lanes.clone();
                thread::spawn(move || {
                    let lane = lanes.claim(me, |other| other != 1).unwrap();
                    assert!(push(lane, me * 10));
                    std::ptr::from_ref(lane) as usize
                })
            };
            let (two, three) = (claim(2), claim(3));
            let mut all = Vec::new();
            for lane in lanes.iter() {
                reader.take(lane, |record| all.push(record));
            }
            assert_ne!(two.join().unwrap(), three.join().unwrap());
            assert_eq!(lanes.iter().count(), 2);
            for lane in lanes.iter() {
                reader.take(lane, |record| all.push(record));
            }
            all.sort_unstable();
            assert_eq!(all, [10, 20, 30]);
        });
    }
}
