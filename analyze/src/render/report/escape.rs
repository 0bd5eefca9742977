//! Text from a log as Markdown shows it literally: in a paragraph, a table's cell, a code span, a code block.

/// A text in running text or in a table's cell. Whatever CommonMark and GitHub's tables, links and bare addresses make
/// something of is shown as it stands.
pub(super) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    // What begins a line may begin a list, a heading's underline or indented code.
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = text;
    match text.as_bytes().get(digits) {
        Some(b'-' | b'+' | b'=') if digits == 0 => out.push('\\'),
        Some(b'.' | b')') if digits > 0 && text[digits + 1..].starts_with([' ', '\t']) => {
            out.push_str(&text[..digits]);
            out.push('\\');
            rest = &text[digits..];
        }
        Some(b' ') if digits == 0 => {
            out.push_str("&#32;");
            rest = &text[1..];
        }
        _ => {}
    }
    for (at, c) in rest.char_indices() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' | '!' => {
                out.push('\\');
                out.push(c);
            }
            // Addresses that GitHub makes links of by themselves.
            ':' if rest[at..].starts_with("://") => out.push_str("\\:"),
            '.' if rest[..at].to_ascii_lowercase().ends_with("www") => out.push_str("\\."),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            c => out.push(shown(c)),
        }
    }
    out
}

/// A text as a code span, which may stand in a table's cell too.
pub(super) fn code(text: &str) -> String {
    let text: String = text.chars().map(shown).collect();
    // One backtick more than the longest run in it.
    let fence = "`".repeat(text.split(|c| c != '`').map(str::len).max().unwrap_or(0) + 1);
    let space = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) || text.is_empty() { " " } else { "" };
    format!("{fence}{space}{}{space}{fence}", text.replace('|', "\\|"))
}

/// A text as a line within a fenced code block, which it can't end.
pub(super) fn line(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// Characters that move what stands beside them, or show nothing, made visible.
pub(in crate::render) fn shown(c: char) -> char {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') { '\u{fffd}' } else { c }
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, Options, Parser};

    use super::*;

    const HOSTILE: [&str; 22] = [
        "a|b",
        "`code` ``more``",
        "<script>alert(1)</script>",
        "<!-- x",
        "&lt;b&gt; &#35; &copy;",
        "[a](http://b.c) ![i](j.png) [r]: x",
        "http://a.b/c?d=e www.a.b WWW.x.y a@b.cd",
        "<http://a.b>",
        "*a* _b_ __c__ ~~d~~ $e$",
        "# h",
        "- item",
        "+ item",
        "1. one",
        "23) x",
        "===",
        "---",
        "    indented",
        "> quote",
        "\\ \\| \\\\",
        "!",
        "_Z12dummy_kernelPfi",
        "C:\\x\\hook.log",
    ];

    fn options() -> Options {
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_GFM | Options::ENABLE_FOOTNOTES
    }

    #[test]
    fn whatever_a_log_holds_is_text_alone() {
        for text in HOSTILE {
            let markdown = markdown(text);
            let mut read = String::new();
            for event in Parser::new_ext(&markdown, options()) {
                match event {
                    Event::Text(part) => read.push_str(&part),
                    Event::Start(pulldown_cmark::Tag::Paragraph) | Event::End(_) => {}
                    other => panic!("{text} became {other:?} by {markdown}"),
                }
            }
            assert_eq!(read, text, "{markdown}");
        }
        assert_eq!(markdown("a\u{1b}[2J\nb\u{202e}c"), "a\u{fffd}\\[2J\u{fffd}b\u{fffd}c");
    }

    #[test]
    fn a_code_span_holds_what_it_was_given_in_a_table_too() {
        for text in HOSTILE.into_iter().filter(|text| !text.contains('\\')) {
            let markdown = format!("|a|\n|-|\n|{}|\n", code(text));
            let spans: Vec<String> = Parser::new_ext(&markdown, options())
                .filter_map(|event| if let Event::Code(code) = event { Some(code.to_string()) } else { None })
                .collect();
            assert_eq!(spans, [text], "{markdown}");
        }
        assert_eq!(code(""), "`  `");
    }
}
