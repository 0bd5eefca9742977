//! What to try when a log holds no call (the course's trouble-shooting chain, from what was found), or is not there.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::args::DEFAULT_LOG;
use crate::error::{Error, Shown};
use crate::events::Events;
use crate::input;
use crate::render::Lang;
use crate::render::text::printable;

/// One sentence that says what was found, what to check, in order, and what the log says instead.
pub(super) fn no_calls(events: &Events, logs: &[PathBuf], lang: Lang) -> String {
    let sum = |pick: fn(&crate::events::Source) -> u64| events.sources.iter().map(pick).sum::<u64>();
    let (lines, records, bad) = (sum(|s| s.lines), sum(|s| s.events), sum(|s| s.bad_lines));
    let named = match &events.sources[..] {
        [one] => Shown(&one.path).to_string(),
        all => match lang {
            Lang::Zh => format!("{} 个日志", all.len()),
            Lang::En => format!("{} logs", all.len()),
        },
    };
    let mut text = match lang {
        Lang::Zh => {
            format!("{named} 中没有任何被拦截的调用 (共 {lines} 行, {records} 条 hook 记录, {bad} 行无法解析)")
        }
        Lang::En => {
            format!("no intercepted call in {named} ({lines} lines, {records} hook records, {bad} not understood)")
        }
    };
    // That an archive is damaged, say.
    for note in &events.notes {
        text.push_str(&format!("\n  {}", printable(lang.pick(&note.zh, &note.en))));
    }
    let banners = !events.processes.is_empty();
    for (number, step) in (1..).zip(steps(lines, bad, banners, lang)) {
        text.push_str(&format!("\n  {number}. {step}"));
    }
    if let Some(events) = logs.iter().find_map(|log| event_file(log)) {
        let events = events.display();
        text.push_str(&match lang {
            Lang::Zh => format!("\n  旁边有事件文件, 可以直接分析: hook-analyze {events}"),
            Lang::En => format!("\n  an event file lies beside it and can be analysed: hook-analyze {events}"),
        });
    }
    let bad = events.sources.iter().flat_map(|source| &source.bad_examples).take(3);
    let other = events.sources.iter().flat_map(|source| &source.other_examples).take(3);
    for (line, example) in bad.chain(other) {
        let shown = printable(example);
        text.push_str(&match lang {
            Lang::Zh => format!("\n  第 {line} 行: {shown}"),
            Lang::En => format!("\n  line {line}: {shown}"),
        });
    }
    text
}

/// What a log that is not there may have meant, and which logs are near.
pub(super) fn missing(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let path = match error.downcast_ref()? {
        Error::Read { path, source } if source.kind() == ErrorKind::NotFound => path.as_path(),
        Error::NoDefaultLog => Path::new(DEFAULT_LOG),
        _ => return None,
    };
    match path.to_str() {
        Some("help") => return Some("`hook-analyze --help` tells what it can do".to_owned()),
        Some("run") => {
            return Some("`run` comes before everything else: hook-analyze run [its flags] -- PROGRAM".to_owned());
        }
        _ => {}
    }
    let mut folders =
        vec![path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new(".")).to_owned()];
    folders
        .extend([".", "out"].map(PathBuf::from).into_iter().filter(|folder| *folder != folders[0]).collect::<Vec<_>>());
    let near = folders.iter().flat_map(|folder| input::in_folder(folder).unwrap_or_default());
    let near: Vec<PathBuf> = near.map(|log| log.strip_prefix(".").map_or(log.clone(), Path::to_owned)).collect();
    let names: Vec<String> = near.iter().take(NEAR).map(|log| Shown(log).to_string()).collect();
    let more = if near.len() > NEAR { ", …" } else { "" };
    (!names.is_empty()).then(|| format!("logs near: {}{more}", names.join(", ")))
}

/// Logs that are named of those near.
const NEAR: usize = 5;

fn event_file(log: &Path) -> Option<PathBuf> {
    let beside = [log.with_extension("jsonl"), log.with_file_name("hook.jsonl")];
    beside.into_iter().find(|path| path != log && path.is_file())
}

fn steps(lines: u64, bad: u64, banners: bool, lang: Lang) -> &'static [&'static str] {
    match (lang, lines, bad, banners) {
        (Lang::Zh, 0, _, _) => &[
            "文件是空的。日志在 stderr 上: `make test-gpu 2> hook.log` (没有 GPU 时 `make test-sim 2> hook.log`)",
            "若设置了 CUDA_HOOK_LOG, 日志在它指定的文件里, 或已被 off 关闭",
        ],
        (Lang::En, 0, _, _) => &[
            "the file is empty. The log goes to stderr: `make test-gpu 2> hook.log` (without a GPU `make test-sim 2> hook.log`)",
            "with CUDA_HOOK_LOG set, the log is in the file that it names, or switched off",
        ],
        (Lang::Zh, _, _, true) => &[
            "hook 已加载 (有配置行), 但没有看到 CUDA 调用。若程序是 `ls` 之类 (make test), 这是正常的",
            "`ldd 程序 | grep cudart` 没有输出: cudart 是静态链接的, 用 `nvcc --cudart=shared` 重新编译",
            "用 CUDA 13 编译的 `<<<>>>` 调用 __cudaLaunchKernel 而不是 cudaLaunchKernel: 只拦截后者的 hook 看不到它",
            "PyTorch 的 cuBLAS、Triton、CuPy、JAX 直接调用驱动 API (cuLaunchKernel 等)",
        ],
        (Lang::En, _, _, true) => &[
            "the hook was loaded (its config lines are there) but saw no CUDA call. For a program like `ls` (make test) that is as it should be",
            "`ldd PROGRAM | grep cudart` prints nothing: cudart is linked statically, compile with `nvcc --cudart=shared`",
            "`<<<>>>` compiled by CUDA 13 calls __cudaLaunchKernel, not cudaLaunchKernel: a hook on the latter alone does not see it",
            "PyTorch's cuBLAS, Triton, CuPy and JAX call the driver API (cuLaunchKernel and others) directly",
        ],
        (Lang::Zh, _, 1.., false) => &["有 hook 的行, 但格式不认识 (见下)。能识别的格式见 docs/analysis.zh-CN.md"],
        (Lang::En, _, 1.., false) => {
            &["there are lines of a hook, but in no form that is known (see below). docs/analysis.md lists the forms"]
        }
        (Lang::Zh, _, _, false) => &[
            "没有 [HOOK] 行。日志在 stderr 上: 用 `2> hook.log` 收集, 而不是 `> hook.log`",
            "若已用 2> 收集, hook 可能没有被加载: 检查 LD_PRELOAD 的路径 (要带 ./ 或绝对路径), 库与程序须同为 64 位",
            "setuid 程序和静态链接的程序不会加载 LD_PRELOAD 指定的库",
        ],
        (Lang::En, _, _, false) => &[
            "no [HOOK] line. The log goes to stderr: collect it with `2> hook.log`, not `> hook.log`",
            "if it was collected so, the hook may not have been loaded: check the path in LD_PRELOAD (with ./ or absolute); library and program must both be 64-bit",
            "setuid programs and statically linked ones do not load what LD_PRELOAD names",
        ],
    }
}
