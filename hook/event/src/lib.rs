//! The log format of `libcuda_hook.so`, written down once for the hook and for every reader.
//!
//! A run leaves two records of each intercepted call:
//!
//! * a **course line** on stderr ([`course`]), in the form that the lab prescribes:
//!
//!   ```text
//!   [HOOK] 显存配额: 128 MB (134217728 bytes)
//!   [HOOK] 算力限速: 5 tokens/s, burst 3
//!   [HOOK] 共享限额: train                            (only with CUDA_HOOK_SHARED=train)
//!   [HOOK] cudaMalloc(67108864) -> 0x7f2cc6000000 | total: 64.0 MB
//!   [HOOK] cudaMalloc(2147483648) DENIED | total: 64.0 / 128.0 MB
//!   [HOOK] cudaFree(0x7f2cc6000000) -> 0 | freed: 67108864 bytes | total: 0.0 MB
//!   [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) -> 0 | tokens=2.0
//!   [HOOK] cudaLaunchKernel(grid=1,1,1 block=32,1,1) DENIED | tokens=0.0
//!   ```
//!
//! * a **JSONL record** ([`json`]): the same call with time, process, thread and exact values, one object a line:
//!
//!   ```text
//!   {"ev":"call","seq":1,"ts":"2026-11-30T07:42:11.123456789Z","mono_ns":512345678901,"pid":412,"tid":412,
//!    "api":"cudaMalloc","sym":"cudaMalloc","dev":0,"size":67108864,"ptr":"0x7f2cc6000000","outcome":"ok","ret":0,
//!    "total":67108864,"pending":0,"real_ns":81234,"hook_ns":410}
//!   ```
//!
//! Each writer sits beside its reader. The readers (feature `read`) are the obvious ones, a regular expression a
//! line form and serde for JSON; the hook builds without them and has no dependency through this crate.
#![forbid(unsafe_code)]

pub mod buf;
pub mod course;
pub mod event;
pub mod field;
pub mod json;
pub mod units;

pub use event::{Call, Dim3, End, Kind, Op, Operation, Outcome, Policy, Refusal, Scope, Stamp, Start};

/// Version of the JSONL records (`"v"` of the `start` record). It changes only when a reader of the version before
/// would misread a record; new keys alone don't change it.
pub const SCHEMA_VERSION: u32 = 1;

/// The longest JSONL line, its line feed included, bytes.
pub const MAX_LINE: usize = 4096;
