//! Text that fits a terminal: tables aligned by the width that a terminal gives a character (two for Chinese), no line
//! wider than [`WIDTH`], and colours.

use unicode_width::UnicodeWidthStr;

use super::text::printable;

/// Columns of a line at most.
pub const WIDTH: usize = 80;

/// Columns of a name that leave room for the figures beside it.
const NAME: usize = 32;

/// A name that leaves room for the figures beside it.
pub fn name(text: &str) -> String {
    short(&printable(text), NAME)
}

/// A text within so many columns: what is too long loses its middle, for names of kernels and files differ at the ends.
pub fn short(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let head = part(text.chars(), room - room / 2);
    let tail: Vec<char> = part(text.chars().rev(), room - head.as_str().width()).chars().rev().collect();
    format!("{head}…{}", tail.into_iter().collect::<String>())
}

/// As many of the first characters as fit.
fn part(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut part = String::new();
    for c in chars {
        part.push(c);
        if part.width() > width {
            part.pop();
            break;
        }
    }
    part
}

/// Rows as aligned lines, columns two blanks apart: names to the left, numbers to the right. Where a row would be too
/// wide, its names are shortened. The first row is the head.
pub fn table(rows: &[Vec<String>]) -> String {
    aligned(rows, WIDTH)
}

/// The same with every name in full, however wide that is.
pub fn wide_table(rows: &[Vec<String>]) -> String {
    aligned(rows, usize::MAX)
}

fn aligned(rows: &[Vec<String>], most: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let numbers: Vec<bool> = (0..columns).map(|column| cells(column).skip(1).any(|cell| is_number(cell))).collect();
    let mut widths: Vec<usize> =
        (0..columns).map(|column| cells(column).map(|cell| cell.width()).max().unwrap_or(0)).collect();
    loop {
        let excess = (widths.iter().sum::<usize>() + 2 * columns).saturating_sub(most);
        let widest = (0..columns).filter(|&column| !numbers[column] && widths[column] > 8).max_by_key(|&c| widths[c]);
        match widest {
            Some(column) if excess > 0 => widths[column] -= excess.min(widths[column] - 8).min(4),
            _ => break,
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let cell = if numbers[column] { cell.clone() } else { short(cell, widths[column]) };
            let blanks = " ".repeat(widths[column].saturating_sub(cell.width()));
            let (before, after) = if numbers[column] { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
            line.push_str(&format!("  {before}{cell}{after}"));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A number, with a unit behind a blank at most: `2021001_张三.zip` is a name.
fn is_number(cell: &str) -> bool {
    let first = cell.trim_start_matches(['+', '-', '×']).split(' ').next().unwrap_or("");
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.trim_end_matches('%').replace(',', "").parse::<f64>().is_ok()
}

/// Breaks every line that is too wide, between words where there are any, and begins what follows two columns further in.
pub fn fit(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let indent = line.len() - line.trim_start_matches(' ').len();
        let next = " ".repeat(indent.min(WIDTH / 4) + 2);
        let mut rest = line;
        let mut begin = "";
        while begin.len() + rest.width() > WIDTH {
            let at = break_at(rest, WIDTH - begin.len());
            out.push_str(begin);
            out.push_str(rest[..at].trim_end_matches(' '));
            out.push('\n');
            rest = rest[at..].trim_start_matches(' ');
            begin = &next;
        }
        if !rest.is_empty() || begin.is_empty() {
            out.push_str(begin);
            out.push_str(rest);
        } else if out.ends_with('\n') {
            // Nothing but blanks was left.
            out.pop();
        }
        out.push_str(end);
    }
    out
}

/// Where a text that is too wide is broken: after a blank or between Chinese characters, within a word only where a word is
/// wider than half a line.
fn break_at(text: &str, width: usize) -> usize {
    let most = part(text.chars(), width).len().max(text.chars().next().map_or(0, char::len_utf8));
    let least = part(text.chars(), width / 2).len();
    let breaks = text[..most].char_indices().rev().map(|(at, c)| at + c.len_utf8());
    let good = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[*at..].chars().next();
        let wide = |c: Option<char>| c.is_some_and(|c| c as u32 >= 0x2e80);
        let blank = |c: Option<char>| c == Some(' ');
        let closing = after.is_some_and(|c| "，。；：、！？）》」”".contains(c));
        blank(after) && !blank(before) || !blank(after) && (blank(before) || wide(before) && wide(after) && !closing)
    };
    breaks.take_while(|&at| at > least).find(good).unwrap_or(most)
}

/// Verdicts, remarks and curves in colour.
pub fn paint(text: &str) -> String {
    let [red, green, yellow, cyan, dim] = ["31", "32", "33", "36", "2"];
    let mut out = String::with_capacity(text.len() + 256);
    for line in text.split_inclusive('\n') {
        let starts = |begin: &str| line.starts_with(begin).then_some(begin.len());
        let curve = |c: char| ('▁'..='█').contains(&c);
        let whole = line.trim_end().len();
        let painted = if let Some(mark) = starts("✓") {
            Some((green, mark))
        } else if let Some(mark) = starts("✗") {
            Some((red, mark))
        } else if let Some(mark) = starts("–") {
            Some((dim, mark))
        } else if let Some(mark) = starts("注意:").or(starts("note:")) {
            Some((yellow, mark))
        } else {
            line.trim().starts_with(curve).then_some((cyan, whole))
        };
        match painted {
            Some((colour, to)) => out.push_str(&format!("\x1b[{colour}m{}\x1b[0m{}", &line[..to], &line[to..])),
            None => out.push_str(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_middle_and_columns_stay_straight() {
        assert_eq!(short("abcdefghij", 10), "abcdefghij");
        assert_eq!(short("abcdefghijk", 10), "abcde…hijk");
        for width in 1..40 {
            assert!(short("内核🚀名kernel\u{301}称很长很长很长很长", width).width() <= width, "{width}");
        }
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let long = "k".repeat(200);
        let text = table(&[row(["名称", "调用", "变化"]), row(["甲", "7", "+12"]), row([&long, "—", "-3"])]);
        let ends: Vec<usize> = text.lines().map(|line| line.width()).collect();
        assert_eq!(ends, [WIDTH; 3], "{text}");
    }

    #[test]
    fn what_begins_with_a_digit_is_still_a_name() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [row(["name", "rate"]), row(["2021001_张三.zip", "66.7 %"]), row(["李四", "1.5"])];
        assert_eq!(
            table(&rows),
            "  name                rate\n  2021001_张三.zip  66.7 %\n  李四                 1.5\n"
        );
        let rows = [row(["name", "n"]), row([&"n".repeat(100), "1"])];
        assert!(wide_table(&rows).contains(&"n".repeat(100)) && !table(&rows).contains(&"n".repeat(100)));
    }

    #[test]
    fn long_lines_are_broken_between_words_and_keep_every_character() {
        let words = format!("note: {}", "several words of some length, ".repeat(12));
        let chinese = format!("  注意: {}", "日志没有记录分到的显存，无法判断；".repeat(9));
        let path = format!("/very/{}.log: 5 lines", "long".repeat(80));
        for text in [words, chinese, path, " ".repeat(300), format!("{}\n\nb", "👩\u{200d}🔬".repeat(90))] {
            let fitted = fit(&text);
            assert!(fitted.lines().all(|line| line.width() <= WIDTH), "{fitted}");
            let bare = |text: &str| text.replace([' ', '\n'], "");
            assert_eq!(bare(&fitted), bare(&text));
        }
        assert_eq!(fit("short\n  lines\n\nstay"), "short\n  lines\n\nstay");
        let broken = fit(&"word ".repeat(30));
        assert!(broken.lines().all(|line| line.trim().split(' ').all(|word| word == "word")), "{broken}");
    }

    #[test]
    fn colours_only_add_to_a_text() {
        let text = "✓ a: b\n✗ c: d\n– e: f\nnote: g\n  ▁▂█\n  x ✓\n";
        let painted = paint(text);
        let plain = regex::Regex::new("\x1b\\[[0-9]+m").unwrap().replace_all(&painted, "").into_owned();
        assert_eq!((plain.as_str(), painted.matches("\x1b[0m").count()), (text, 5));
    }
}
