//! A log → every way of reading it gives the same calls and figures, and the classes of its lines add up. Two files with a
//! form feed between them → so does every way of reading both.

use super::{parts, scratch};
use crate::every_way;

pub(crate) fn target(bytes: &[u8]) {
    let [log, other] = parts(bytes);
    let log = scratch::file(0, log.unwrap_or(b""));
    let Some(other) = other.map(|bytes| scratch::file(1, bytes)) else {
        every_way::read_every_way(&log, "one");
        return;
    };
    every_way::events_every_way(std::slice::from_ref(&log), Some(&other), "its events");
    every_way::events_every_way(&[log.clone(), other.clone()], None, "both");
    every_way::events_every_way(&[other, log], None, "turned round");
}
