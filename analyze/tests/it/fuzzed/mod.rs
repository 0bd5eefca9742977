//! What each target of `make fuzz-guided` does with an input. What one of them has ever found lies in `tests/data/crashes`, in a
//! folder of the target's name, and is tried again here.
#![allow(dead_code)] // a target needs its own part

pub(crate) mod inputs;
pub(crate) mod readers;
pub(crate) mod reports;
mod scratch;
pub(crate) mod submissions;

/// The parts of an input of several files: between them a line holds a form feed and nothing else.
fn parts<const N: usize>(bytes: &[u8]) -> [Option<&[u8]>; N] {
    let mut rest = Some(bytes);
    std::array::from_fn(|number| {
        let bytes = rest?;
        let at = bytes.windows(2).position(|two| two == b"\x0c\n").filter(|_| number + 1 < N);
        rest = at.map(|at| &bytes[at + 2..]);
        Some(&bytes[..at.unwrap_or(bytes.len())])
    })
}

#[test]
fn what_once_failed_does_no_more() {
    type Target = fn(&[u8]);
    let targets: [(&str, Target); 4] = [
        ("inputs", inputs::target),
        ("readers", readers::target),
        ("reports", reports::target),
        ("submissions", submissions::target),
    ];
    for (name, target) in targets {
        let Ok(kept) = std::fs::read_dir(crate::common::data("crashes").join(name)) else { continue };
        for path in kept.map(|entry| entry.unwrap().path()) {
            println!("{}", path.display());
            target(&std::fs::read(path).unwrap());
        }
    }
}
