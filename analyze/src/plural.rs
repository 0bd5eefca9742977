//! Numbers of things, in English.

/// `1 block`, `2 blocks`, `2 processes`.
pub(crate) fn plural(n: u64, noun: &str) -> String {
    let ending = match (n, noun.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{n} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let said =
            [(0, "line"), (1, "line"), (2, "line"), (1, "process"), (21, "process")].map(|(n, noun)| plural(n, noun));
        assert_eq!(said, ["0 lines", "1 line", "2 lines", "1 process", "21 processes"]);
    }
}
