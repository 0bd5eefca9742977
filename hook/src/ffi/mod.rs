//! The only unsafe code of the hook: the exported CUDA symbols, the real ones behind them, the C library.
//!
//! Null pointers are the real runtime's to judge: they are forwarded. A panic never leaves an export ([`boundary`]).
#![allow(unsafe_code)]

pub(crate) mod boundary;
mod dlsym;
pub(crate) mod driver;
pub(crate) mod guard;
mod jump;
mod leave;
mod load;
pub(crate) mod lock;
mod locks;
pub(crate) mod os;
pub(crate) mod output;
pub(crate) mod ring;
pub(crate) mod runtime;
pub(crate) mod shm;
mod symbol;
pub(crate) mod thread;
pub(crate) mod types;
