//! What a line is: every line of an input has exactly one class, so their counts add up to the lines read.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A line's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Tells of at least one call, and is whole.
    Event,
    /// A limiter's, without a call: settings, warnings, notices, `start` and `end` records.
    Banner,
    /// Begins with `[HOOK]` and has no form that is known.
    UnknownHook,
    /// Another program's, or blank.
    Other,
    /// Begins like a record and lacks a part of it, or has another's within.
    Torn,
    /// Neither UTF-8 nor GBK, and no whole record.
    Undecodable,
    /// The input's last, which ends in the middle of a record: its writer was killed, or is still at it.
    Truncated,
    /// Too long to be looked into.
    Oversized,
}

impl Class {
    /// All, in the order in which they are shown.
    pub const ALL: [Class; 8] = [
        Class::Event,
        Class::Banner,
        Class::UnknownHook,
        Class::Other,
        Class::Torn,
        Class::Undecodable,
        Class::Truncated,
        Class::Oversized,
    ];

    /// Its key in `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Event => "event",
            Class::Banner => "banner",
            Class::UnknownHook => "unknown_hook",
            Class::Other => "other",
            Class::Torn => "torn",
            Class::Undecodable => "undecodable",
            Class::Truncated => "truncated",
            Class::Oversized => "oversized",
        }
    }

    /// As people read it: Chinese, English.
    pub const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Class::Event => ("调用", "calls"),
            Class::Banner => ("配置与通告", "banners"),
            Class::UnknownHook => ("未知的 [HOOK] 行", "unknown [HOOK]"),
            Class::Other => ("其他程序", "other programs"),
            Class::Torn => ("残缺", "torn"),
            Class::Undecodable => ("无法解码", "undecodable"),
            Class::Truncated => ("结尾截断", "truncated tail"),
            Class::Oversized => ("过长", "oversized"),
        }
    }

    /// Whether what it says, if anything, was not understood.
    pub const fn is_rejected(self) -> bool {
        !matches!(self, Class::Event | Class::Banner | Class::Other)
    }

    /// Whether that is a fault. Where a log ends in the middle of a line, it is none: that is what a kill leaves.
    pub const fn is_fault(self) -> bool {
        self.is_rejected() && !matches!(self, Class::Truncated)
    }
}

/// Lines of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub lines: u64,
    /// The first of them, from 1; 0 where there is none.
    first: u64,
}

impl Count {
    /// Number of the first of them, from 1.
    pub fn first_line(self) -> Option<u64> {
        (self.lines > 0).then_some(self.first)
    }
}

/// The lines of an input by class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes([Count; Class::ALL.len()]);

impl Classes {
    /// Takes line number `line` in.
    #[inline]
    pub(crate) fn add(&mut self, class: Class, line: u64) {
        let count = &mut self.0[class as usize];
        if count.lines == 0 {
            count.first = line;
        }
        count.lines += 1;
    }

    /// Takes so many lines in, which stand anywhere among those before; `first` is the first of them.
    pub(crate) fn add_many(&mut self, class: Class, first: u64, lines: u64) {
        let count = &mut self.0[class as usize];
        if lines > 0 && (count.lines == 0 || first < count.first) {
            count.first = first;
        }
        count.lines += lines;
    }

    /// Takes the lines in that follow after the first `before`, and are numbered from 1.
    pub(crate) fn append(&mut self, before: u64, more: &Classes) {
        for (all, more) in self.0.iter_mut().zip(more.0) {
            if all.lines == 0 && more.lines > 0 {
                all.first = before + more.first;
            }
            all.lines += more.lines;
        }
    }

    /// The lines of a class.
    pub fn of(&self, class: Class) -> Count {
        self.0[class as usize]
    }

    /// All lines.
    pub fn lines(&self) -> u64 {
        self.0.iter().map(|count| count.lines).sum()
    }

    /// Classes that have lines.
    pub fn present(&self) -> impl Iterator<Item = (Class, Count)> {
        Class::ALL.into_iter().map(|class| (class, self.of(class))).filter(|(_, count)| count.lines > 0)
    }
}

impl Serialize for Classes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Shown {
            lines: u64,
            first_line: Option<u64>,
        }
        let mut map = serializer.serialize_map(Some(Class::ALL.len()))?;
        for class in Class::ALL {
            let count = self.of(class);
            map.serialize_entry(class.name(), &Shown { lines: count.lines, first_line: count.first_line() })?;
        }
        map.end()
    }
}

/// A line that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Its number, from 1.
    pub line: u64,
    /// What it is.
    pub class: Class,
    /// Its text; of an oversized one the beginning.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_with_the_first_line_of_each_class() {
        let mut piece = Classes::default();
        piece.add(Class::Event, 1);
        piece.add(Class::Torn, 2);
        piece.add(Class::Torn, 3);
        let mut all = Classes::default();
        all.append(0, &piece);
        all.append(3, &piece);
        let mut other = Classes::default();
        other.add(Class::Oversized, 2);
        all.append(6, &other);
        assert_eq!((all.of(Class::Torn).lines, all.of(Class::Torn).first_line()), (4, Some(2)));
        assert_eq!(all.of(Class::Oversized).first_line(), Some(8));
        assert_eq!(all.of(Class::Other).first_line(), None);
        assert_eq!(all.lines(), 7);
        assert_eq!(serde_json::to_value(&all).unwrap()["torn"], serde_json::json!({"lines": 4, "first_line": 2}));
    }

    #[test]
    fn classes_stand_at_their_own_places() {
        for (place, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, place);
        }
    }
}
