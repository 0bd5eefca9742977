//! A process's part in limits that it shares with others: entering, asking, and leaving the dead behind.
//!
//! The order of locks is the process's own, then the page's; nothing is taken under the page's. A page's lock that can't
//! be had in time refuses the call: a quota that can't be asked must hold.

use std::ffi::{CStr, CString};

use hook_event::{Policy, Refusal, Scope};

use super::board::{Board, SLOTS, Settings, Slot, totals};
use super::bucket::{Bucket, Verdict};
use crate::ffi::shm::{Entrance, Shared, Trouble};

/// How long a call waits for the page's lock, which is held for microseconds by who is not stopped.
const PATIENCE_NS: u64 = 100_000_000;
/// The same after a wait in vain, until the lock is had again: threads must not queue up for a stopped owner.
const IMPATIENCE_NS: u64 = 1_000_000;
/// How long entering may take, once a process.
const ENTRANCE_NS: u64 = 1_000_000_000;

/// The wish to share, and what came of it.
#[derive(Debug)]
pub(super) struct Sharing {
    name: String,
    path: CString,
    id: fn() -> u64,
    own: Settings,
    member: Option<Member>,
    busy: Busy,
    notices: Vec<String>,
}

/// How the page's lock was found last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    Never,
    /// Had since the last wait in vain.
    Once,
    /// The last wait was in vain.
    Now,
}

#[derive(Debug)]
struct Member {
    shared: Shared,
    slot: usize,
    claim: u64,
    settings: Settings,
    bucket: Option<Bucket>,
}

/// The page can't be used: the process keeps its own limits.
#[derive(Debug)]
pub(super) struct Alone {
    pub(super) own: Settings,
    pub(super) notices: Vec<String>,
}

/// A launch decided on: when, and the level after it where that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Drawn {
    pub(super) verdict: Verdict,
    pub(super) at_ns: u64,
    pub(super) tokens: Option<f64>,
}

impl Sharing {
    /// Under `name`, by the file at `path`; `id` makes ids of jobs.
    pub(super) fn new(name: &str, path: CString, id: fn() -> u64, own: Settings) -> Self {
        Sharing { name: name.to_owned(), path, id, own, member: None, busy: Busy::Never, notices: Vec::new() }
    }

    /// Enters, if that has not been done, with the live and held bytes of this process. A process that others took for
    /// dead (its descriptor was closed by the program) enters anew.
    pub(super) fn enter(&mut self, (live, held): (u64, u64), now_ns: u64) -> Result<(), Alone> {
        if self.member.as_ref().is_some_and(|member| member.slot().is_none() && !member.shared.is_parents()) {
            self.member = None;
        }
        if self.member.is_some() {
            return Ok(());
        }
        let patience = if self.busy == Busy::Now { IMPATIENCE_NS } else { ENTRANCE_NS };
        match Member::enter(&self.path, patience, self.id, self.own, (live, held), now_ns) {
            Ok(member) => {
                if member.settings != self.own {
                    self.notices.push(format!(
                        "CUDA_HOOK_SHARED={}: 本进程的限额 ({}) 与任务已有的 ({}) 不同, 以任务已有的为准",
                        self.name,
                        words(self.own),
                        words(member.settings)
                    ));
                }
                self.member = Some(member);
                self.had_lock(true);
                Ok(())
            }
            Err(Trouble::Busy) => {
                self.had_lock(false);
                Ok(())
            }
            Err(Trouble::Unusable(why)) => {
                self.notices.push(format!(
                    "CUDA_HOOK_SHARED={} 无法使用: {}: {why}; 本进程各用各的配额和令牌桶",
                    self.name,
                    self.path.to_string_lossy()
                ));
                Err(Alone { own: self.own, notices: self.notices() })
            }
        }
    }

    /// What a person should hear of, once.
    pub(super) fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// The limits in force and the job's id, once inside.
    pub(super) fn in_force(&self) -> Option<(Settings, u64)> {
        self.member.as_ref().map(|member| (member.settings, member.shared.board().job()))
    }

    /// Sets bytes aside in the job's account. `live` and `pending` are the process's own, for a refusal to name where the
    /// job's can't be asked.
    pub(super) fn reserve(&mut self, size: u64, (live, pending): (u64, u64)) -> Result<(), Refusal> {
        let settings = self.member.as_ref().map_or(self.own, |member| member.settings);
        let Some(quota) = settings.quota else { return Ok(()) };
        let answer = self.locked(|member, board| member.reserve(board, size, quota));
        answer.unwrap_or(Err(Refusal { scope: Scope::Unreachable, quota, total: live, pending }))
    }

    /// Tells the job's account that reserved bytes are live.
    pub(super) fn commit(&self, size: u64) {
        self.with_slot(|slot| slot.commit(size));
    }

    /// Gives reserved bytes back.
    pub(super) fn release(&self, size: u64) {
        self.with_slot(|slot| slot.release(size));
    }

    /// Gives live bytes back.
    pub(super) fn free(&self, size: u64) {
        self.with_slot(|slot| slot.free(size));
    }

    fn with_slot(&self, change: impl Fn(&Slot)) {
        let Some(member) = self.member.as_ref().filter(|member| member.settings.quota.is_some()) else { return };
        if let Some(slot) = member.slot() {
            change(slot);
        }
    }

    /// Decides on a launch; `None` for the policy only looks at the level.
    pub(super) fn draw(&mut self, policy: Option<Policy>, now_ns: u64) -> Drawn {
        let settings = self.member.as_ref().map_or(self.own, |member| member.settings);
        let pass = Drawn { verdict: Verdict::Pass, at_ns: now_ns, tokens: None };
        if settings.bucket.is_none() {
            return pass;
        }
        let refused = if policy.is_some() { Drawn { verdict: Verdict::Deny, ..pass } } else { pass };
        self.locked(|member, board| member.draw(board, policy, now_ns)).unwrap_or(refused)
    }

    /// The job's quota, and the bytes of it that no process holds.
    pub(super) fn room(&mut self) -> Option<(u64, u64)> {
        let quota = self.member.as_ref()?.settings.quota?;
        let room = |held: u64| Some((quota, quota.saturating_sub(held)));
        let held = self.locked(|member, board| {
            member.bury(board);
            member.held()
        });
        room(held.unwrap_or_else(|| self.member.as_ref().map_or(0, Member::held)))
    }

    /// Runs `action` with the page's lock held; `None` when it can't be had.
    fn locked<T>(&mut self, action: impl FnOnce(&Member, &Board) -> T) -> Option<T> {
        let patience = if self.busy == Busy::Now { IMPATIENCE_NS } else { PATIENCE_NS };
        let answer = self.member.as_ref().and_then(|member| {
            let page = member.shared.lock(patience)?;
            Some(action(member, page.board()))
        });
        self.had_lock(answer.is_some());
        answer
    }

    /// What others do to the slot of a process that they take for dead.
    #[cfg(all(test, not(loom)))]
    pub(super) fn clear_slot(&self) {
        self.with_slot(Slot::clear);
    }

    fn had_lock(&mut self, had: bool) {
        self.busy = match (self.busy, had) {
            (Busy::Never, true) => Busy::Never,
            (Busy::Once | Busy::Now, true) => Busy::Once,
            (before, false) => {
                if before == Busy::Never {
                    self.notices.push(format!(
                        "CUDA_HOOK_SHARED={}: 共享账目被占用超过 0.1 秒 (占用者可能已被挂起); 限额仍须守住, 其间的申请和启动会被拒绝",
                        self.name
                    ));
                }
                Busy::Now
            }
        };
    }
}

impl Member {
    fn enter(
        path: &CStr,
        patience_ns: u64,
        id: fn() -> u64,
        own: Settings,
        (live, held): (u64, u64),
        now_ns: u64,
    ) -> Result<Member, Trouble> {
        let entrance = Entrance::open(path, patience_ns)?;
        let (slot, claim, settings) = {
            let shared = entrance.shared();
            let page = shared.lock(patience_ns.min(PATIENCE_NS)).ok_or(Trouble::Busy)?;
            let board = page.board();
            if entrance.fresh {
                board.begin(own, id(), now_ns);
            }
            bury(shared, board, None);
            let free = |&slot: &usize| board.slot(slot).is_some_and(|slot| slot.owner() == 0) && shared.claim(slot);
            let slot = (0..SLOTS).find(free);
            let claim = slot.and_then(|slot| board.claim(slot, live, held));
            let full = || Trouble::Unusable(format!("已有 {SLOTS} 个进程在用"));
            let (slot, claim) = slot.zip(claim).ok_or_else(full)?;
            (slot, claim, board.settings())
        };
        let bucket = settings.bucket.map(|(rate, capacity)| Bucket::new(rate, capacity, now_ns));
        Ok(Member { shared: entrance.leave(), slot, claim, settings, bucket })
    }

    /// This process's slot, while it is that: not in a forked child, nor after others have taken the process for dead.
    fn slot(&self) -> Option<&Slot> {
        let slot = self.shared.board().slot(self.slot)?;
        (slot.owner() == self.claim && !self.shared.is_parents()).then_some(slot)
    }

    fn held(&self) -> u64 {
        let (live, reserved) = totals(self.shared.board().slots());
        live.saturating_add(reserved)
    }

    fn reserve(&self, board: &Board, size: u64, quota: u64) -> Result<(), Refusal> {
        let fits = || self.slot().is_some_and(|slot| slot.reserve(board.slots(), size, quota));
        // Only who would be refused looks for dead processes: it takes a system call for each.
        if fits() || (self.bury(board) && fits()) {
            return Ok(());
        }
        let (total, pending) = totals(board.slots());
        Err(Refusal { scope: Scope::Job, quota, total, pending })
    }

    fn draw(&self, board: &Board, policy: Option<Policy>, now_ns: u64) -> Drawn {
        let at_ns = board.stamp(now_ns);
        let Some(mut bucket) = self.bucket.clone() else {
            return Drawn { verdict: Verdict::Pass, at_ns, tokens: None };
        };
        bucket.set_empty_at(board.empty_at());
        let verdict = policy.map_or(Verdict::Pass, |policy| bucket.draw(policy, at_ns));
        board.set_empty_at(bucket.empty_at());
        Drawn { verdict, at_ns, tokens: Some(bucket.level(at_ns)) }
    }

    /// Gives back what dead processes held; whether there was any.
    fn bury(&self, board: &Board) -> bool {
        // Without its own descriptor a process can't tell who lives.
        self.shared.is_ours() && bury(&self.shared, board, Some(self.slot))
    }
}

fn bury(shared: &Shared, board: &Board, mine: Option<usize>) -> bool {
    let dead = |&(index, slot): &(usize, &Slot)| slot.owner() != 0 && Some(index) != mine && !shared.is_alive(index);
    board.slots().iter().enumerate().filter(dead).inspect(|(_, slot)| slot.clear()).count() > 0
}

/// Limits for a person.
fn words(Settings { quota, bucket }: Settings) -> String {
    let quota = quota.map_or("显存不限".to_owned(), |bytes| format!("显存 {bytes} 字节"));
    let bucket =
        bucket.map_or("算力不限".to_owned(), |(rate, capacity)| format!("{rate} tokens/s, burst {capacity}"));
    format!("{quota}, {bucket}")
}
