//! A log → every way of reading it gives the same calls and figures, and the classes of its lines add up. Two files with a
//! form feed between them → so does every way of reading both.
#![no_main]

#[path = "../../analyze/tests/it/every_way.rs"]
#[allow(dead_code)] // what the plain fuzzer needs beside it
mod every_way;
mod scratch;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match bytes.windows(2).position(|two| two == b"\x0c\n") {
    None => {
        every_way::read_every_way(&scratch::file(bytes), "one");
    }
    Some(at) => {
        let (log, other) = (scratch::file(&bytes[..at]), scratch::other(&bytes[at + 2..]));
        every_way::events_every_way(std::slice::from_ref(&log), Some(&other), "its events");
        every_way::events_every_way(&[log.clone(), other.clone()], None, "both");
        every_way::events_every_way(&[other, log], None, "turned round");
    }
});
