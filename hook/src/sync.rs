//! The lock and the counters of the accounts: the standard library's, or loom's, which tries every order of threads
//! (`make check-model`).

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic::AtomicU64};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicU64};
