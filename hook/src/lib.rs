//! `libcuda_hook.so`: preloaded into a CUDA program it holds device memory to a quota and kernel launches to a token
//! bucket, and records every such call on stderr and in an event file.
//!
//! The way of one call: `ffi::runtime` or `ffi::driver` (the exported symbol) → `call` (guard, panic boundary) → `policy`
//! (decide) → `ffi::symbol` (the real function) → `policy` (settle) → `sink` (course line, JSONL record: now, or by way of
//! `ffi::ring` on the writing thread).
//!
//! The host program comes first: nothing here panics into it, calls a null pointer, changes `errno`, or holds a lock
//! that a call needs while it calls or writes. When in doubt the call is forwarded as it came.
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]
#![warn(missing_docs)]

mod api;
mod call;
mod clock;
mod config;
mod ffi;
mod names;
mod policy;
mod sink;
mod state;
mod sync;
mod vmm;
