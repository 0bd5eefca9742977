//! Pieces read on all cores, and taken in in their order.
//!
//! Whoever has read a piece hands it in; whoever finds the next one there, and nobody at it, takes it in. So the part
//! that needs the order has no thread of its own, and a core waits only when another is far behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::kept::Kept;
use super::piece::{Parsed, Reader};
use crate::input::pieces::{Piece, Pieces};

/// Pieces that are read before a second thread is worth its start.
const ALONE: u64 = 4;

/// Pieces that may wait for one before them.
const AHEAD: usize = 4;

/// Threads at most: what takes pieces in is one, and keeps no more of them busy.
const MOST: usize = 8;

/// Why reading stopped before the end.
pub(crate) enum Stop<E> {
    /// The input can't be read.
    Read(std::io::Error),
    /// What takes the pieces in has had enough.
    Enough(E),
}

/// How an input is read.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Threads; 0 is as many as there are cores.
    pub threads: usize,
    /// Whether the fast readers are asked first; without them every line is read the obvious way.
    pub fast: bool,
    /// Whether the text of every line is kept that was not understood.
    pub rejects: bool,
    /// Whether figures tell kernels and times of calls too.
    pub workload: bool,
    /// Whether is kept what the lab's test program tells.
    pub told: bool,
    /// Bytes of text that an input may have.
    pub most_bytes: u64,
    /// Told of every piece: the input, the bytes read of it, and how many there are where that is known.
    pub watch: Option<fn(&Path, u64, Option<u64>)>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { threads: 0, fast: true, rejects: false, workload: false, told: false, most_bytes: u64::MAX, watch: None }
    }
}

/// Reads `pieces` and hands what is in them to `take`, in order.
///
/// # Errors
/// The input can't be read, or `take` has had enough.
pub(super) fn in_order<K: Kept, E: Send>(
    pieces: &mut Pieces,
    pace: Pace,
    take: impl FnMut(&mut Parsed<K>) -> Result<(), E> + Send,
) -> Result<(), Stop<E>> {
    let desk = Desk {
        input: Mutex::new((pieces, 0)),
        queue: Mutex::new(Queue { next: 0, ready: BTreeMap::new(), spare: Vec::new() }),
        room: Condvar::new(),
        taker: Mutex::new(take),
        stopped: AtomicBool::new(false),
        stop: Mutex::new(None),
    };
    let mut reader = Reader::new(0, pace);
    if desk.work(&mut reader, ALONE) {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let threads = if pace.threads == 0 { cores() } else { pace.threads }.min(MOST);
        thread::scope(|scope| {
            for number in 1..threads {
                let desk = &desk;
                scope.spawn(move || desk.work(&mut Reader::new(number, pace), u64::MAX));
            }
            desk.work(&mut reader, u64::MAX);
        });
    }
    match desk.stop.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(stop) => Err(stop),
        None => Ok(()),
    }
}

/// Where threads meet.
struct Desk<'a, K: Kept, F, E> {
    /// The input, and the number of its next piece.
    input: Mutex<(&'a mut Pieces, u64)>,
    queue: Mutex<Queue<K>>,
    /// Told when the queue became shorter.
    room: Condvar,
    taker: Mutex<F>,
    stopped: AtomicBool,
    stop: Mutex<Option<Stop<E>>>,
}

struct Queue<K: Kept> {
    /// The piece to be taken in next.
    next: u64,
    ready: BTreeMap<u64, Parsed<K>>,
    /// Emptied ones, to be used again.
    spare: Vec<Parsed<K>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Kept, E: Send, F: FnMut(&mut Parsed<K>) -> Result<(), E> + Send> Desk<'_, K, F, E> {
    /// Reads pieces, at most so many. Whether there may be more.
    fn work(&self, reader: &mut Reader, most: u64) -> bool {
        let _bell = Bell(self);
        let mut piece = Piece::default();
        for _ in 0..most {
            if self.stopped.load(Ordering::Relaxed) {
                return false;
            }
            let number = {
                let mut input = lock(&self.input);
                match input.0.next(&mut piece) {
                    Ok(true) => input.1 += 1,
                    Ok(false) => return false,
                    Err(error) => {
                        self.end(Stop::Read(error));
                        return false;
                    }
                }
                input.1 - 1
            };
            let spare = lock(&self.queue).spare.pop();
            let mut parsed = spare.unwrap_or_else(Parsed::new);
            reader.read(&piece, &mut parsed);
            lock(&self.queue).ready.insert(number, parsed);
            self.take_in();
            let mut queue = lock(&self.queue);
            while queue.ready.len() > AHEAD && !self.stopped.load(Ordering::Relaxed) {
                queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
        true
    }

    /// Takes in what is ready, unless someone else is at it, who then takes this in as well.
    fn take_in(&self) {
        loop {
            let Ok(mut take) = self.taker.try_lock() else { return };
            loop {
                let mut queue = lock(&self.queue);
                let next = queue.next;
                let Some(mut parsed) = queue.ready.remove(&next) else { break };
                queue.next += 1;
                drop(queue);
                if !self.stopped.load(Ordering::Relaxed)
                    && let Err(enough) = take(&mut parsed)
                {
                    self.end(Stop::Enough(enough));
                }
                lock(&self.queue).spare.push(parsed);
                self.room.notify_all();
            }
            drop(take);
            // The next one may have come in between the last look and the release.
            let queue = lock(&self.queue);
            if !queue.ready.contains_key(&queue.next) {
                return;
            }
        }
    }

    fn end(&self, why: Stop<E>) {
        lock(&self.stop).get_or_insert(why);
        self.stopped.store(true, Ordering::Relaxed);
        self.room.notify_all();
    }
}

/// Nobody waits for a thread that panicked.
struct Bell<'a, 'b, K: Kept, F, E>(&'a Desk<'b, K, F, E>);

impl<K: Kept, F, E> Drop for Bell<'_, '_, K, F, E> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stopped.store(true, Ordering::Relaxed);
            self.0.room.notify_all();
        }
    }
}
