//! The fast readers: the hook's own lines and records, exactly as it writes them, straight from bytes.
//!
//! Each gives what the obvious reader of the form gives, or nothing: whatever is not exactly of a form known here is the
//! obvious reader's. So speed decides nothing; the tests hold both equal.

pub(super) mod course;
pub(super) mod json;

#[cfg(test)]
mod tests;
