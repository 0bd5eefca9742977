//! A record as the course line that stands beside it.

use hook_event::course::{self, LineBuf};
use hook_event::{Call, Kind, Op, Outcome, Refusal, Scope, Stamp};

use crate::events::{Names, Process, Row};

/// The course line that the hook prints for a record.
pub(super) fn line_of(names: &Names, row: &Row, process: &Process) -> String {
    let total = row.total.unwrap_or(0);
    let own = |quota| Refusal { scope: Scope::Process, quota, total, pending: 0 };
    let refusal = row.refusal.or(process.quota.value().map(own));
    let zero = hook_event::Dim3 { x: 0, y: 0, z: 0 };
    let op = match row.kind {
        Kind::Alloc => Op::Alloc { size: row.size.unwrap_or(0), ptr: row.ptr, total, pending: 0, refusal },
        Kind::Free => Op::Free { ptr: row.ptr.unwrap_or(0), size: row.size, total },
        Kind::Reset => Op::Reset { size: row.size.unwrap_or(0), total },
        Kind::Host => match row.size {
            Some(size) => Op::HostAlloc { size, ptr: row.ptr, total },
            None => Op::HostFree { ptr: row.ptr.unwrap_or(0), total },
        },
        Kind::Launch if row.grid.is_none() => Op::Graph {
            graph: row.graph.unwrap_or(0),
            stream: 0,
            tokens: row.tokens,
            wait_ns: row.wait_ns.unwrap_or(0),
        },
        Kind::Launch => Op::Launch {
            grid: row.grid.unwrap_or(zero),
            block: row.block.unwrap_or(zero),
            shmem: 0,
            stream: 0,
            kernel: None,
            tokens: row.tokens,
            wait_ns: row.wait_ns.unwrap_or(0),
            bypass: row.bypass,
        },
    };
    let call = Call {
        seq: 0,
        at: Stamp { wall_ns: 0, mono_ns: 0 },
        pid: 0,
        tid: 0,
        api: names.text(row.api),
        sym: "",
        dev: None,
        op,
        outcome: row.outcome,
        ret: row.ret.unwrap_or(match row.outcome {
            Outcome::Ok => 0,
            Outcome::Denied | Outcome::Failed => -1,
        }),
        real_ns: 0,
        hook_ns: None,
    };
    let mut line = LineBuf::new();
    course::write_call(&mut line, &call);
    String::from_utf8_lossy(line.as_bytes()).trim_end().to_owned()
}
