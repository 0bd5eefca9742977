//! One call as the thread that made it leaves it: plain data of a fixed size, with addresses and numbers where a line
//! will have text.

use hook_event::{Call, Operation, Outcome};

use crate::api::Entry;
use crate::names::Name;
use crate::state::State;

/// In the place of a time that nobody took.
pub(crate) const UNMEASURED: u64 = u64::MAX;

/// A call, settled.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Record {
    /// Number among the process's calls.
    pub(crate) seq: u64,
    /// Monotonic time of that number, ns.
    pub(crate) at_ns: u64,
    /// Time inside the real call, ns; see [`Call::real_ns`](hook_event::Call::real_ns).
    pub(crate) real_ns: u64,
    /// Time that the hook added, ns, or [`UNMEASURED`].
    pub(crate) hook_ns: u64,
    /// What was asked for and what came of it.
    pub(crate) op: Operation<Name>,
    /// Kernel thread id.
    pub(crate) tid: u32,
    /// What the program got.
    pub(crate) ret: i32,
    /// Device ordinal; negative for one that the runtime could not tell.
    pub(crate) dev: i32,
    /// What the program called.
    pub(crate) entry: Entry,
    /// How it ended.
    pub(crate) outcome: Outcome,
}

// Two cache lines and no third: each launch has to move them to another processor.
const _: () = assert!(size_of::<Record>() == 128);

impl Record {
    /// The same as it is written.
    pub(super) fn call(&self, state: &State) -> Call<'static> {
        let Record { seq, at_ns, real_ns, hook_ns, op, tid, ret, dev, entry, outcome } = *self;
        Call {
            seq,
            at: state.anchor.stamp(at_ns),
            pid: state.pid,
            tid,
            api: entry.api(),
            sym: entry.symbol(),
            dev: Some(dev).filter(|&dev| dev >= 0),
            op: op.map_kernel(Name::text),
            outcome,
            ret,
            real_ns,
            hook_ns: Some(hook_ns).filter(|&hook_ns| hook_ns != UNMEASURED),
        }
    }
}
