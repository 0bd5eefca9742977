//! Calls that wait for one with a smaller number, packed: threads hand in batches, so that of a busy program hundreds of
//! thousands may wait for a single one.
//!
//! Numbers are divided into blocks. A call is appended to its block as it comes; a block is put in order when it leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use hook_event::{Kind, Outcome};

use crate::step::Step;

/// Numbers of a block.
const BLOCK: u64 = 1 << 10;

/// What a block takes beside its calls, words.
const OVERHEAD: usize = 32;

/// A process's calls that wait.
#[derive(Clone, Default)]
pub(super) struct Waiting {
    blocks: BTreeMap<u64, Block>,
    words: usize,
}

/// Calls with numbers that follow each other.
#[derive(Clone)]
struct Block {
    /// As they came. Shared with a copy that is looked at while more are read.
    calls: Arc<Vec<u64>>,
    /// Whether a number is there, a bit each.
    seen: [u64; (BLOCK / 64) as usize],
    /// Numbers that are still to come.
    missing: u32,
}

/// Emptied blocks' memory, to be used again: what a thread gives back serves no other thread else.
pub(super) type Spare = Vec<Vec<u64>>;

impl Waiting {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The memory that they take, in words of 8 bytes.
    #[inline]
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// Takes a call in, where those before `next` will not come any more. Whether its block is complete now.
    pub(super) fn push(&mut self, seq: u64, step: &Step, next: u64, spare: &mut Spare) -> bool {
        let number = seq / BLOCK;
        let block = self.blocks.entry(number).or_insert_with(|| {
            let calls = spare.pop().unwrap_or_default();
            self.words += OVERHEAD + calls.capacity();
            let gone = next.saturating_sub(number * BLOCK);
            Block { calls: Arc::new(calls), seen: [0; (BLOCK / 64) as usize], missing: (BLOCK - gone) as u32 }
        });
        let offset = seq % BLOCK;
        let (word, bit) = (&mut block.seen[offset as usize / 64], 1 << (offset % 64));
        block.missing -= u32::from(*word & bit == 0);
        *word |= bit;
        let calls = Arc::make_mut(&mut block.calls);
        let before = calls.capacity();
        pack(step, offset, calls);
        self.words += calls.capacity() - before;
        block.missing == 0
    }

    /// Takes the first block out if it is complete and begins with `next`: its calls in order, and the largest number.
    pub(super) fn ready(&mut self, next: u64) -> Option<Leaving> {
        let (number, block) = self.blocks.first_key_value()?;
        if *number == next / BLOCK && block.missing == 0 { self.first() } else { None }
    }

    /// Takes the first block out.
    pub(super) fn first(&mut self) -> Option<Leaving> {
        let (number, Block { calls, .. }) = self.blocks.pop_first()?;
        self.words -= OVERHEAD + calls.capacity();
        let (mut order, mut at) = (Vec::with_capacity(BLOCK as usize), 0);
        while let Some(&head) = calls.get(at) {
            // Those with the same number stay in the order of the file.
            order.push((head % BLOCK, at));
            at += length(head);
        }
        order.sort_unstable();
        Some(Leaving { from: number * BLOCK, calls, order })
    }
}

/// A block that leaves.
pub(super) struct Leaving {
    from: u64,
    calls: Arc<Vec<u64>>,
    /// Number within the block, and place.
    order: Vec<(u64, usize)>,
}

impl Leaving {
    /// Hands its calls out in order, and its memory back.
    pub(super) fn hand_out(self, spare: &mut Spare, mut take: impl FnMut(u64, &Step)) {
        for &(offset, at) in &self.order {
            let seq = self.from + offset;
            take(seq, &unpack(seq, &self.calls[at..]));
        }
        if let Ok(mut calls) = Arc::try_unwrap(self.calls) {
            calls.clear();
            spare.push(calls);
        }
    }
}

// A call's words: a head, its line, and each value that it has, in this order; device and shape share one. The head is
// its number within the block (10 bits), flags, and from bit 32 on the API.
const MONO: u64 = 1 << 10;
const SIZE: u64 = 1 << 11;
const PTR: u64 = 1 << 12;
const QUOTA: u64 = 1 << 13;
const TOTAL: u64 = 1 << 14;
const TOTAL_MB: u64 = 1 << 15;
const TOKENS: u64 = 1 << 16;
const DEV: u64 = 1 << 17;
const SHAPE: u64 = 1 << 18;
const BYPASS: u64 = 1 << 19;
const CONTEXTLESS: u64 = 1 << 20;
const OUTCOME: u32 = 21;
const WALL: u64 = 1 << 23;
const KIND: u32 = 24;
const HELD: u64 = 1 << 27;
const API: u32 = 32;

/// What a word each is kept of.
const VALUES: u64 = MONO | WALL | SIZE | PTR | QUOTA | HELD | TOTAL | TOTAL_MB | TOKENS;

/// Words of a call at most.
const MOST: usize = 12;

/// By their numbers.
const KINDS: [Kind; 5] = [Kind::Alloc, Kind::Free, Kind::Launch, Kind::Reset, Kind::Host];

/// Words of the call with this head.
#[inline]
fn length(head: u64) -> usize {
    2 + (head & VALUES).count_ones() as usize + usize::from(head & (DEV | SHAPE) != 0)
}

#[inline]
fn pack(step: &Step, offset: u64, words: &mut Vec<u64>) {
    // Destructured whole: what is new can't be forgotten.
    let &Step {
        line,
        seq: _,
        mono_ns,
        wall_ns,
        api,
        kind,
        contextless,
        outcome,
        dev,
        size,
        ptr,
        quota,
        held,
        total,
        total_mb,
        tokens,
        bypass,
        shape,
        // Counted when it came, for its order does not matter.
        took: _,
        kernel: _,
    } = step;
    let mut head = offset | u64::from(api) << API | (outcome as u64) << OUTCOME | (kind as u64) << KIND;
    head |= if bypass { BYPASS } else { 0 } | if contextless { CONTEXTLESS } else { 0 };
    let (mut all, mut len) = ([0; MOST], 2);
    all[1] = line;
    let mut keep = |flag: u64, value: Option<u64>| {
        if let Some(value) = value {
            head |= flag;
            all[len] = value;
            len += 1;
        }
    };
    keep(MONO, mono_ns);
    keep(WALL, wall_ns.map(|ns| ns as u64));
    keep(SIZE, size);
    keep(PTR, ptr);
    keep(QUOTA, quota);
    keep(HELD, held);
    keep(TOTAL, total);
    keep(TOTAL_MB, total_mb.map(f64::to_bits));
    keep(TOKENS, tokens.map(f64::to_bits));
    let (low, high) = (dev.map(|dev| u64::from(dev as u32)), shape.map(|shape| u64::from(shape) << 32));
    let which = low.map_or(0, |_| DEV) | high.map_or(0, |_| SHAPE);
    keep(which, (which != 0).then_some(low.unwrap_or(0) | high.unwrap_or(0)));
    all[0] = head;
    if words.capacity() - words.len() < len {
        // By less than twice: what is unused counts as well.
        words.reserve_exact(MOST.max(words.capacity() / 2));
    }
    words.extend_from_slice(&all[..len]);
}

#[inline]
fn unpack(seq: u64, words: &[u64]) -> Step {
    let (head, line) = (words[0], words[1]);
    let mut rest = words[2..].iter().copied();
    let mut value = |flag: u64| if head & flag == 0 { None } else { rest.next() };
    let (mono_ns, wall_ns) = (value(MONO), value(WALL).map(|ns| ns as i64));
    let (size, ptr, quota, held, total) = (value(SIZE), value(PTR), value(QUOTA), value(HELD), value(TOTAL));
    let (total_mb, tokens) = (value(TOTAL_MB).map(f64::from_bits), value(TOKENS).map(f64::from_bits));
    let both = value(DEV | SHAPE).unwrap_or(0);
    Step {
        line,
        seq: Some(seq),
        mono_ns,
        wall_ns,
        api: (head >> API) as u32,
        kind: KINDS[(head >> KIND & 7) as usize % KINDS.len()],
        contextless: head & CONTEXTLESS != 0,
        outcome: Outcome::ALL[(head >> OUTCOME & 3) as usize % Outcome::ALL.len()],
        dev: (head & DEV != 0).then_some(both as u32 as i32),
        size,
        ptr,
        quota,
        held,
        total,
        total_mb,
        tokens,
        bypass: head & BYPASS != 0,
        shape: (head & SHAPE != 0).then_some((both >> 32) as u32),
        took: None,
        kernel: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn steps()(
            seq: u64, line: u64, api: u32, kind in 0..KINDS.len(), outcome in 0usize..3, contextless: bool, bypass: bool,
            values: [Option<u64>; 6], total_mb in prop::option::of(-1e9f64..1e9), tokens in prop::option::of(-1e9f64..1e9),
            dev: Option<i32>, shape: Option<u32>, wall_ns: Option<i64>,
        ) -> Step {
            let [mono_ns, size, ptr, quota, held, total] = values;
            let (kind, outcome) = (KINDS[kind], Outcome::ALL[outcome]);
            Step {
                line, seq: Some(seq), mono_ns, wall_ns, api, kind, contextless, outcome, dev, size, ptr, quota, held, total,
                total_mb, tokens, bypass, shape, took: None, kernel: None,
            }
        }
    }

    fn drain(waiting: &mut Waiting, spare: &mut Spare) -> Vec<Step> {
        let mut all = Vec::new();
        while let Some(block) = waiting.first() {
            block.hand_out(spare, |seq, step| {
                assert_eq!(step.seq, Some(seq));
                all.push(*step);
            });
        }
        all
    }

    proptest! {
        #[test]
        fn what_waits_comes_out_whole_and_in_order(steps in prop::collection::vec(steps(), 0..50), near: bool) {
            let (mut waiting, mut spare) = (Waiting::default(), Spare::new());
            // Far apart, or in few blocks and some of them twice.
            let number = |seq: u64| if near { seq % 40 * 100 } else { seq };
            let mut steps: Vec<Step> = steps.into_iter().map(|s| Step { seq: s.seq.map(number), ..s }).collect();
            for step in &steps {
                waiting.push(step.seq.unwrap(), step, 0, &mut spare);
            }
            steps.sort_by_key(|step| step.seq);
            prop_assert_eq!(drain(&mut waiting, &mut spare), steps);
            prop_assert_eq!(waiting.words(), 0);
        }
    }

    #[test]
    fn a_block_is_ready_when_every_number_from_the_next_on_is_there() {
        let row = crate::events::Row::bare(0, 1, 0, Kind::Launch, Outcome::Ok);
        let step = Step::with_shape(&row, None);
        let (mut waiting, mut spare) = (Waiting::default(), Spare::new());
        for seq in (1000..2048).rev() {
            // Twice is once.
            assert!(!waiting.push(seq, &step, 999, &mut spare) || seq == 1024, "{seq}");
            waiting.push(seq, &step, 999, &mut spare);
        }
        assert!(waiting.ready(999).is_none());
        assert!(waiting.push(999, &step, 999, &mut spare));
        let mut last = 0;
        waiting.ready(999).unwrap().hand_out(&mut spare, |seq, _| last = seq);
        assert_eq!((last, spare.len()), (1023, 1));
        waiting.ready(1024).unwrap().hand_out(&mut spare, |seq, _| last = seq);
        assert_eq!((last, waiting.is_empty(), waiting.words()), (2047, true, 0));
    }

    #[test]
    fn a_call_takes_64_bytes_at_most_unless_it_is_odd() {
        let row = crate::events::Row::bare(0, 1, 0, Kind::Alloc, Outcome::Ok);
        let bare = Step { mono_ns: Some(1), dev: Some(0), ..Step::with_shape(&row, None) };
        let launch = Step { tokens: Some(1.0), shape: Some(0), ..bare };
        let refused = Step { size: Some(1), quota: Some(1), held: Some(1), total: Some(1), ..bare };
        for (step, bytes) in [(launch, 40), (Step { ptr: Some(1), ..bare }, 40), (refused, 64)] {
            let mut words = Vec::new();
            pack(&step, 0, &mut words);
            assert_eq!((words.len() * 8, words.len()), (bytes, length(words[0])));
        }
    }
}
