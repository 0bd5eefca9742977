//! The rubric's evidence on a terminal.

use super::Lang;
use super::text::printable;
use crate::analysis::lab::{Counts, Evidence, Lab, Part, Standing, Test3, ranges};

/// Writing into a `String` can't fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => { { use std::fmt::Write; let _ = writeln!($out, $($arg)*); } };
}

/// A row for each thing that is marked, under what it is marked with.
pub fn table(lab: &Lab, lang: Lang) -> String {
    let mut out = String::new();
    for rows in lab.rows.chunk_by(|a, b| a.part == b.part) {
        if let Some(first) = rows.first() {
            line!(out, "{}", part(first.part, lang));
        }
        for row in rows {
            evidence(&mut out, row, lang);
        }
        line!(out, "");
    }
    for program in &lab.program {
        let (told, logged) = (counts(&program.told, lang), counts(&program.logged, lang));
        line!(
            out,
            "{}",
            match lang {
                Lang::Zh => format!("测试程序的计数 (第 {} 行): {told}; 日志: {logged}", program.line),
                Lang::En => format!("the program's counts (line {}): {told}; the log's: {logged}", program.line),
            }
        );
    }
    if let Some(test3) = &lab.test3 {
        line!(out, "{}", third(test3, lang));
    }
    line!(
        out,
        "{}",
        lang.pick(
            "以上只列出日志中的证据, 不打分; 代码、README 和分析文字须由批改者查看",
            "this is what the log shows, and no mark; code, README and the analysis's text are the grader's to read",
        )
    );
    out
}

fn part(part: Part, lang: Lang) -> &'static str {
    match part {
        Part::Malloc => lang.pick("cudaMalloc: 显存配额", "cudaMalloc: the quota"),
        Part::Launch => lang.pick("cudaLaunchKernel: 令牌桶", "cudaLaunchKernel: the token bucket"),
        Part::Free => lang.pick("cudaFree: 指针到大小的映射表", "cudaFree: the map from pointers to sizes"),
        Part::Log => lang.pick("日志与分析", "log and analysis"),
    }
}

/// What a row is about.
fn title(id: &str, lang: Lang) -> &str {
    let (zh, en) = match id {
        "quota-kept" => ("配额判断正确", "quota right"),
        "refusal-returns-2" => ("拒绝时返回 2", "refusal returns 2"),
        "requests-logged" => ("成功与拒绝均有日志", "granted and refused logged"),
        "entered-in-map" => ("登记到映射表", "entered in the map"),
        "burst" => ("突发 (burst)", "burst"),
        "refusal-after-burst" => ("突发后拒绝", "refusal after the burst"),
        "recovery-after-refill" => ("补充后恢复", "recovery after refill"),
        "dims-logged" => ("被拒绝的启动也记录维度", "dimensions of refused launches"),
        "free-finds-entry" => ("按指针查表", "lookup"),
        "free-subtracts-exactly" => ("扣减准确", "exact subtraction"),
        "free-removes-entry" => ("移除条目", "entry removed"),
        "log-complete" => ("日志完整", "log complete"),
        "analysis-possible" => ("可供分析", "analysis possible"),
        "program-agrees" => ("与测试程序的计数一致", "agrees with the program"),
        other => (other, other),
    };
    lang.pick(zh, en)
}

/// What a row says.
pub fn standing(standing: Standing, lang: Lang) -> &'static str {
    match standing {
        Standing::Shown => lang.pick("有证据", "shown"),
        Standing::NotEvidenced => lang.pick("无证据", "not evidenced"),
        Standing::Contradicted => lang.pick("有反证", "contradicted"),
    }
}

fn evidence(out: &mut String, row: &Evidence, lang: Lang) {
    let mark = match row.status {
        Standing::Shown => "✓",
        Standing::NotEvidenced => "–",
        Standing::Contradicted => "✗",
    };
    let file = row.path.as_ref().map(|path| format!("{} ", printable(path))).unwrap_or_default();
    let by = match (lang, row.lines.is_empty()) {
        (_, true) => String::new(),
        (Lang::Zh, false) => format!(" ({file}第 {} 行)", ranges(&row.lines)),
        (Lang::En, false) if row.lines.len() == 1 => format!(" by {file}line {}", ranges(&row.lines)),
        (Lang::En, false) => format!(" by {file}lines {}", ranges(&row.lines)),
    };
    let (title, standing) = (title(row.id, lang), standing(row.status, lang));
    line!(out, "  {mark} {title}: {standing}{by}");
    line!(out, "      {}", printable(lang.pick(&row.detail_zh, &row.detail)));
}

fn counts(counts: &Counts, lang: Lang) -> String {
    let later =
        counts.passed_later.map(|passed| format!(", {}={passed}", lang.pick("等待后通过", "passed after the pause")));
    let (passed, refused) = (lang.pick("通过", "passed"), lang.pick("拒绝", "refused"));
    format!("{passed}={}, {refused}={}{}", counts.passed, counts.refused, later.unwrap_or_default())
}

/// Why test 3 came out as it did.
fn third(test: &Test3, lang: Lang) -> String {
    let (n, denied, lines) = (test.lines.len() as u64, test.denied, ranges(&test.lines));
    let before = test.tokens_before.zip(test.line_before).map(|(tokens, line)| match lang {
        Lang::Zh => format!("第 {line} 行之后桶中只剩 {tokens:.1} 个令牌"),
        Lang::En => format!("line {line} left {tokens:.1} tokens in the bucket"),
    });
    let before = before.unwrap_or_else(|| lang.pick("测试 2 已用完令牌", "test 2 had used the tokens up").to_owned());
    let token =
        test.token_s.map(|s| format!("{s:.3}")).map(|s| s.trim_end_matches('0').trim_end_matches('.').to_owned());
    let token = token.map(|s| match lang {
        Lang::Zh => format!(", 而补充一个需要 {s} s"),
        Lang::En => format!(", and a new one takes {s} s"),
    });
    let token = token.unwrap_or_default();
    match (lang, denied) {
        (Lang::Zh, d) if d == n => {
            format!("Test 3 (第 {lines} 行): {n} 次全部被拒绝, 属正常现象: {before}{token}。这一测试看的是维度是否记录")
        }
        (Lang::En, d) if d == n => format!(
            "Test 3 (lines {lines}): all {n} launches are refused, which is as it should be: {before}{token}. What this test is for is the dimensions in the log"
        ),
        (Lang::Zh, 0) => format!("Test 3 (第 {lines} 行): {n} 次全部放行。这一测试看的是维度是否记录"),
        (Lang::En, 0) => {
            format!(
                "Test 3 (lines {lines}): all {n} launches passed. What this test is for is the dimensions in the log"
            )
        }
        (Lang::Zh, _) => format!(
            "Test 3 (第 {lines} 行): {n} 次中拒绝 {denied} 次, 放行的遇到了刚补充的令牌。这一测试看的是维度是否记录"
        ),
        (Lang::En, _) => format!(
            "Test 3 (lines {lines}): {denied} of {n} launches are refused, the others met tokens that had come. What this test is for is the dimensions in the log"
        ),
    }
}
