//! Calls → polars DataFrame, the one schema for library users and exports. The only file that names dtypes.
//!
//! | column | dtype | unit, meaning |
//! |---|---|---|
//! | `process` | UInt32 | index of the process run, from 0 |
//! | `host` | String | host of the process; null where the log does not tell |
//! | `pid` | UInt32 | process; null where the log does not tell |
//! | `tid` | UInt64 | thread; null where the log does not tell |
//! | `line` | UInt64 | line of the input, from 1 |
//! | `call` | UInt64 | number of the call in its process, from 1 |
//! | `seq` | UInt64 | the hook's own number; null without records |
//! | `wall_ns` | Int64 | ns since 1970 UTC, from the record or from a time before the line; null without either |
//! | `mono_ns` | UInt64 | monotonic clock, ns, or a demonstration's own time; null where the log has neither |
//! | `t_s` | Float64 | s since the process's first call: measured or inferred, null where neither is possible |
//! | `api`, `sym` | String | API name, symbol called |
//! | `kind` | String | `alloc`, `free`, `launch`, `reset`, `host` |
//! | `outcome` | String | `ok`, `denied`, `failed` |
//! | `ret`, `dev` | Int32 | `cudaError_t`, device ordinal |
//! | `size` | UInt64 | bytes |
//! | `ptr` | String | device address, hex |
//! | `total` | UInt64 | live bytes after the call, as the hook counted them; null without records |
//! | `live_bytes` | UInt64 | live bytes after the call, replayed from the log; null where it does not tell grants |
//! | `pending`, `quota` | UInt64 | bytes |
//! | `dev_total`, `dev_pending` | UInt64 | bytes on the device whose quota refused the call |
//! | `job_total`, `job_pending` | UInt64 | bytes of all processes that share the quota which refused the call |
//! | `grid_x` … `block_z` | UInt32 | blocks, threads |
//! | `graph` | String | handle of a launched graph, hex |
//! | `shmem` | UInt64 | bytes |
//! | `stream`, `kernel` | String | handle, mangled name |
//! | `tokens` | Float64 | level after the decision; null where launches are only recorded |
//! | `bypass` | Boolean | the launch needed no token; false without records |
//! | `wait_ns`, `real_ns`, `hook_ns` | UInt64 | ns; `hook_ns` null where the hook did not measure it |

use hook_event::{Dim3, Kind, Refusal, Scope};
use polars::prelude::{BooleanChunked, Column, DataFrame, NewChunkedArray};

use crate::analysis::timeline::TimeBase;
use crate::analysis::{Analysis, memory, timeline};
use crate::error::Error;
use crate::events::{Events, Limit, NameId};

/// A row a call, in the order of the processes and of their calls.
///
/// # Errors
/// Polars can't build the frame (which means that this code is wrong).
pub fn dataframe(events: &Events) -> Result<DataFrame, Error> {
    let calls = &events.calls;
    let height = calls.len();
    let mut host = Vec::with_capacity(height);
    let mut pid = Vec::with_capacity(height);
    let mut tokens = Vec::with_capacity(height);
    let mut number = Vec::with_capacity(height);
    let mut t_s = Vec::with_capacity(height);
    let mut live = Vec::with_capacity(height);
    for process in &events.processes {
        let timeline = timeline::of(calls, process);
        let timed = timeline.base != TimeBase::Sequence;
        host.extend(process.rows.clone().map(|_| process.host.as_deref()));
        // A process that only records prints a level of 0.0, which is none.
        let limited = process.bucket != Limit::Off;
        tokens.extend(process.rows.clone().map(|i| calls.tokens[i].filter(|_| limited)));
        pid.extend(process.rows.clone().map(|_| process.pid));
        number.extend(1..=process.rows.len() as u64);
        t_s.extend(timeline.at.iter().map(|&at| timed.then_some(at)));
        let told = !process.memory_untold;
        live.extend(memory::replay(calls, process).live_after.into_iter().map(|live| told.then_some(live)));
    }
    let name = |id: Option<NameId>| id.map(|id| events.names.text(id));
    let hex = |value: &Option<u64>| value.map(|value| format!("{value:#x}"));
    let dim = |dims: &[Option<Dim3>], axis: fn(Dim3) -> u32| dims.iter().map(|d| d.map(axis)).collect::<Vec<_>>();
    let of_refusal = |scope: Scope, value: fn(Refusal) -> u64| {
        let of = |refusal: &Option<Refusal>| refusal.filter(|refusal| refusal.scope == scope).map(value);
        calls.refusal.iter().map(of).collect::<Vec<_>>()
    };
    let kind = |kind: &Kind| match kind {
        Kind::Alloc => "alloc",
        Kind::Free => "free",
        Kind::Launch => "launch",
        Kind::Reset => "reset",
        Kind::Host => "host",
    };
    let text = |values: Vec<Option<&str>>, column: &'static str| Column::new(column.into(), values);
    let columns = vec![
        Column::new("process".into(), &calls.process),
        text(host, "host"),
        Column::new("pid".into(), pid),
        Column::new("tid".into(), &calls.tid),
        Column::new("line".into(), &calls.line),
        Column::new("call".into(), number),
        Column::new("seq".into(), &calls.seq),
        Column::new("wall_ns".into(), &calls.wall_ns),
        Column::new("mono_ns".into(), &calls.mono_ns),
        Column::new("t_s".into(), t_s),
        text(calls.api.iter().map(|&id| name(Some(id))).collect(), "api"),
        text(calls.sym.iter().map(|&id| name(id)).collect(), "sym"),
        Column::new("kind".into(), calls.kind.iter().map(kind).collect::<Vec<_>>()),
        Column::new("outcome".into(), calls.outcome.iter().map(|outcome| outcome.name()).collect::<Vec<_>>()),
        Column::new("ret".into(), &calls.ret),
        Column::new("dev".into(), &calls.dev),
        Column::new("size".into(), &calls.size),
        Column::new("ptr".into(), calls.ptr.iter().map(hex).collect::<Vec<_>>()),
        Column::new("total".into(), &calls.total),
        Column::new("live_bytes".into(), live),
        Column::new("pending".into(), &calls.pending),
        Column::new("quota".into(), &calls.quota),
        Column::new("dev_total".into(), of_refusal(Scope::Device, |refusal| refusal.total)),
        Column::new("dev_pending".into(), of_refusal(Scope::Device, |refusal| refusal.pending)),
        Column::new("job_total".into(), of_refusal(Scope::Job, |refusal| refusal.total)),
        Column::new("job_pending".into(), of_refusal(Scope::Job, |refusal| refusal.pending)),
        Column::new("grid_x".into(), dim(&calls.grid, |d| d.x)),
        Column::new("grid_y".into(), dim(&calls.grid, |d| d.y)),
        Column::new("grid_z".into(), dim(&calls.grid, |d| d.z)),
        Column::new("block_x".into(), dim(&calls.block, |d| d.x)),
        Column::new("block_y".into(), dim(&calls.block, |d| d.y)),
        Column::new("block_z".into(), dim(&calls.block, |d| d.z)),
        Column::new("graph".into(), calls.graph.iter().map(hex).collect::<Vec<_>>()),
        Column::new("shmem".into(), &calls.shmem),
        Column::new("stream".into(), calls.stream.iter().map(hex).collect::<Vec<_>>()),
        text(calls.kernel.iter().map(|&id| name(id)).collect(), "kernel"),
        Column::new("tokens".into(), tokens),
        Column::new("bypass".into(), &calls.bypass),
        Column::new("wait_ns".into(), &calls.wait_ns),
        Column::new("real_ns".into(), &calls.real_ns),
        Column::new("hook_ns".into(), &calls.hook_ns),
    ];
    Ok(DataFrame::new(height, columns)?)
}

/// The rows of the calls that `analysis` is about. A call's number, time and live bytes are those among all.
///
/// # Errors
/// As [`dataframe`].
pub fn chosen(events: &Events, analysis: &Analysis) -> Result<DataFrame, Error> {
    let frame = dataframe(events)?;
    match &analysis.chosen {
        Some(chosen) => Ok(frame.filter(&BooleanChunked::from_slice("chosen".into(), chosen))?),
        None => Ok(frame),
    }
}
