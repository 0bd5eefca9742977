//! Submissions: `fuzzed/submissions.rs` of the analyser's tests.
#![no_main]

#[path = "../../analyze/tests/it/every_way.rs"]
#[allow(dead_code)] // what the tests need beside it
mod every_way;
#[path = "../../analyze/tests/it/fuzzed/mod.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::submissions::target(bytes));
