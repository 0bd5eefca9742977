//! Lines → what a fast reader takes the obvious one reads the same, whatever the lines before have left behind.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|lines: &[u8]| hook_analyze::parse::compare_readers(lines));
