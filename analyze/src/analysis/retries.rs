//! Refusals that are one request: a caching allocator (PyTorch's, say) that is refused gives back what it had in reserve and
//! asks for the same again.

use hook_event::{Kind, Outcome};

use super::packed::packed;
use crate::events::Note;
use crate::plural::plural;
use crate::step::Step;

/// The refused requests of one process that were asked for again.
#[derive(Clone, Debug, Default)]
pub(super) struct Retries {
    /// The last refusal, while only frees have followed.
    last: Option<Box<Refusal>>,
    refused: u64,
    granted: u64,
    first: Option<Box<Retry>>,
}

packed!(Retries { last, refused, granted, first });

#[derive(Clone, Copy, Debug)]
struct Refusal {
    line: u64,
    size: u64,
    frees: u64,
    freed_from: u64,
}

packed!(Refusal { line, size, frees, freed_from });

/// A request that was asked for again behind frees.
#[derive(Clone, Copy, Debug)]
struct Retry {
    lines: (u64, u64),
    size: u64,
    frees: u64,
    freed: u64,
    granted: bool,
}

packed!(Retry { lines, size, frees, freed, granted });

impl Retries {
    /// Takes a call in, behind which `freed` bytes have been given back in all.
    #[inline]
    pub(super) fn step(&mut self, step: &Step, freed: u64) {
        match step.kind {
            Kind::Alloc => self.alloc(step, freed),
            Kind::Free if step.outcome == Outcome::Ok => {
                if let Some(last) = &mut self.last {
                    last.frees += 1;
                }
            }
            _ => {}
        }
    }

    fn alloc(&mut self, step: &Step, freed: u64) {
        let again = self.last.take().filter(|last| last.frees > 0 && Some(last.size) == step.size);
        let granted = step.outcome != Outcome::Denied;
        if let Some(last) = again {
            *if granted { &mut self.granted } else { &mut self.refused } += 1;
            self.first.get_or_insert_with(|| {
                Box::new(Retry {
                    lines: (last.line, step.line),
                    size: last.size,
                    frees: last.frees,
                    freed: freed.saturating_sub(last.freed_from),
                    granted,
                })
            });
        }
        if let (false, Some(size)) = (granted, step.size) {
            self.last = Some(Box::new(Refusal { line: step.line, size, frees: 0, freed_from: freed }));
        }
    }

    /// What they are, in words.
    pub(super) fn note(&self) -> Option<Note> {
        let Retry { lines: (first, second), size, frees, freed, granted } = **self.first.as_ref()?;
        let (then, then_zh) =
            if granted { ("was granted", "获得批准") } else { ("was refused again", "再次被拒绝") };
        let mut en = format!(
            "lines {first} and {second} are one request of {size} bytes: it was refused, the program freed {} ({freed} bytes), and \
             the same was asked for again and {then}; a caching allocator (PyTorch's, say) empties its cache like that",
            plural(frees, "block")
        );
        let mut zh = format!(
            "第 {first} 行与第 {second} 行是同一次 {size} 字节的申请: 被拒绝后释放了 {frees} 块 ({freed} 字节), 再次申请后{then_zh}; \
             带缓存的分配器 (如 PyTorch) 会这样先清空缓存再重试"
        );
        let all = self.refused + self.granted;
        if all > 1 {
            en += &format!(" ({all} such retries, {} refused again, {} granted)", self.refused, self.granted);
            zh += &format!(" (这样的重试共 {all} 次, 再次被拒绝 {} 次, 获批准 {} 次)", self.refused, self.granted);
        }
        Some(Note::new(en, zh))
    }
}
