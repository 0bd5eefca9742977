//! Every field name once: the key in a JSONL record is the dataframe's column and the header of an export.

/// Kind of the record: `start`, `call` or `end`.
pub const EV: &str = "ev";
/// Number of the call among its process's calls, from 1, without gaps.
pub const SEQ: &str = "seq";
/// Wall-clock time, RFC 3339 UTC with nanoseconds in JSON, nanoseconds since 1970 in a dataframe.
pub const TS: &str = "ts";
/// `CLOCK_MONOTONIC`, ns.
pub const MONO_NS: &str = "mono_ns";
/// Process id.
pub const PID: &str = "pid";
/// Kernel thread id.
pub const TID: &str = "tid";
/// API as the course names it (`cudaLaunchKernel`).
pub const API: &str = "api";
/// Symbol that the program really called (`__cudaLaunchKernel`).
pub const SYM: &str = "sym";
/// Device ordinal as the program counts devices.
pub const DEV: &str = "dev";
/// Bytes asked for, or given back by a free.
pub const SIZE: &str = "size";
/// Device address.
pub const PTR: &str = "ptr";
/// Grid dimensions, blocks.
pub const GRID: &str = "grid";
/// Block dimensions, threads.
pub const BLOCK: &str = "block";
/// Handle of a graph that was launched.
pub const GRAPH: &str = "graph";
/// Dynamic shared memory of a launch, bytes.
pub const SHMEM: &str = "shmem";
/// Stream handle.
pub const STREAM: &str = "stream";
/// Mangled kernel name.
pub const KERNEL: &str = "kernel";
/// `ok`, `denied` or `failed`.
pub const OUTCOME: &str = "outcome";
/// What the call returned to the program, a `cudaError_t`.
pub const RET: &str = "ret";
/// Live device memory of the process after the call, bytes.
pub const TOTAL: &str = "total";
/// Bytes reserved by other calls still under way when this one was decided.
pub const PENDING: &str = "pending";
/// Quota that refused the call, bytes.
pub const QUOTA: &str = "quota";
/// Live bytes on the device whose quota refused the call.
pub const DEV_TOTAL: &str = "dev_total";
/// Bytes reserved there.
pub const DEV_PENDING: &str = "dev_pending";
/// Live bytes of all processes that share the quota which refused the call.
pub const JOB_TOTAL: &str = "job_total";
/// Bytes reserved by them.
pub const JOB_PENDING: &str = "job_pending";
/// `true`: refused because the shared account could not be reached.
pub const UNREACHABLE: &str = "unreachable";
/// `true`: the launch was small enough to pass without a token.
pub const BYPASS: &str = "bypass";
/// Token-bucket level after the decision, tokens.
pub const TOKENS: &str = "tokens";
/// Time that a launch waited for its token, ns.
pub const WAIT_NS: &str = "wait_ns";
/// Time inside the real call, ns.
pub const REAL_NS: &str = "real_ns";
/// Time that the hook added, ns; [`Call::hook_ns`](crate::Call::hook_ns) says what is in it.
pub const HOOK_NS: &str = "hook_ns";
