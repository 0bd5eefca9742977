//! `libcuda_hook.so` as a black box: preloaded into small C programs over the stand-in runtime of `cuda/sim`. In: what
//! the programs print, the course lines, the event file. Nothing of the hook's own code is called here.
//!
//! Each test runs in a folder of its own, with an environment made from nothing.

mod batch;
mod common;
mod course;
mod dlsym;
mod driver_api;
mod ends;
mod exports;
mod faults;
mod limits;
mod process;
mod runtime_api;
mod shared;
mod threads;
