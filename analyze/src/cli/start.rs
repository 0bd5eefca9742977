//! `hook-analyze run`: starts a program under the hook, its log in a file, and shows the summary when it has ended.
//!
//! Standard input, output and error are the program's own; what is said here goes to standard error.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};

use super::program::{self, Machine, Program, Unfit};
use super::run::complain;
use super::{advice, progress};
use crate::error::{Error, Shown};
use crate::figures;
use crate::parse::Pace;
use crate::render::text::printable;
use crate::render::{Lang, terminal};

/// The hook's file.
const HOOK: &str = "libcuda_hook.so";
/// Where it may be named.
const HOOK_VARIABLE: &str = "CUDA_HOOK_SO";
/// What the loader takes libraries from.
const PRELOAD: &str = "LD_PRELOAD";
/// Limits of the hook's settings, as `hook/README.md` has them.
const RATES: std::ops::RangeInclusive<f64> = 1e-9..=1e12;
const MB: f64 = 1_048_576.0;

/// What to start, and with which settings.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct StartArgs {
    /// Device memory of each process, MB (0: no quota).
    #[arg(long, value_name = "MB", value_parser = quota)]
    pub quota: Option<String>,

    /// Tokens a second: how many launches a second in the long run (0: no limit). Needs `--capacity`.
    #[arg(long, value_name = "TOKENS", value_parser = rate)]
    pub rate: Option<String>,

    /// Size of the bucket, tokens: how many launches at once. Needs `--rate`.
    #[arg(long, value_name = "TOKENS", value_parser = capacity)]
    pub capacity: Option<String>,

    /// What a launch without a token does: `deny` returns an error, `wait` waits for its token.
    #[arg(long, value_name = "POLICY", value_parser = ["deny", "wait"])]
    pub policy: Option<String>,

    /// One quota and one bucket for all processes that are given this name.
    #[arg(long, value_name = "NAME", value_parser = shared)]
    pub shared: Option<String>,

    /// The `cudaError_t` of a denied launch, 1 to 999.
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(i32).range(1..=999))]
    pub deny_error: Option<i32>,

    /// File for the `[HOOK]` lines, or `off`.
    #[arg(long, value_name = "FILE", default_value = "hook.log")]
    pub log: OsString,

    /// File for the JSONL events, or `off`.
    #[arg(long, value_name = "FILE", default_value = "hook.jsonl")]
    pub events: OsString,

    /// The hook's library (default: CUDA_HOOK_SO, beside this program, in ../lib of it, in this folder).
    #[arg(long, value_name = "FILE.so")]
    pub hook: Option<PathBuf>,

    /// Language of the summary.
    #[arg(long, value_enum, default_value_t)]
    pub lang: Lang,

    /// The program and its arguments.
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  hook-analyze run --quota 128 --rate 5 --capacity 3 -- ./test_hook
  hook-analyze run --quota 2048 --deny-error 719 -- python3 train.py
  hook-analyze run --rate 100 --capacity 20 --policy wait --shared job -- torchrun train.py

Exit status: the program's; 128 and the signal's number if a signal ended it; 2 if it could not be started, or if it ended
with 0 and the hook saw no call.";

/// Why nothing was started, or nothing could be told of it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error("no {HOOK} in {0}; build it (`make`) and name it with `--hook FILE` or in {HOOK_VARIABLE}")]
    NoHook(String),
    #[error(
        "{} can't be preloaded, for blanks and colons part the names in {PRELOAD}; move it, or name it through a link",
        Shown(.0)
    )]
    Unnameable(PathBuf),
    #[error("a bucket has a rate and a capacity, and {0} is missing; give it, or neither of the two")]
    Half(&'static str),
    #[error("a bucket of capacity 0 lets no launch pass; give `--capacity 1` or more, or `--rate 0` for no limit")]
    Empty,
    #[error("log and event file are both off, and nothing would be left of the run; leave one of the flags away")]
    NoRecord,
    #[error("log and event file are both {}; name another file for one of them", Shown(.0))]
    OneFile(PathBuf),
    #[error("{} holds something else than a hook's log, and would be lost; name another file, or move it away", Shown(.0))]
    InTheWay(PathBuf),
    #[error("cannot write {}: {}", Shown(.0), .1)]
    Write(PathBuf, io::Error),
    #[error("cannot start {}: {}", Shown(.0), .1)]
    Start(PathBuf, io::Error),
    #[error(transparent)]
    Analysis(#[from] Error),
}

/// Starts the program, waits for its end, shows the summary; the exit status.
///
/// # Errors
/// Nothing was started; or the program has ended with 0 and its log can't be analysed.
pub(super) fn run(args: &StartArgs) -> Result<u8, Failure> {
    let hook = find_hook(args.hook.as_deref())?;
    let machine = Machine::of_library(&hook)?;
    let (name, arguments) = args.program.split_first().ok_or(Failure::NoRecord)?;
    let program = program::find(name, &machine)?;
    check_bucket(args)?;
    let (log, events) = (target(&args.log)?, target(&args.events)?);
    if log.is_none() && events.is_none() {
        return Err(Failure::NoRecord);
    }
    if let Some(path) = log.as_ref().filter(|_| log == events) {
        return Err(Failure::OneFile(path.clone()));
    }
    for path in log.iter().chain(&events) {
        begin_anew(path)?;
    }
    // The hook makes its event file when there is something to write.
    if let Some(path) = events.as_deref().filter(|path| path.is_file()) {
        fs::remove_file(path).map_err(|error| Failure::Write(shorter(path), error))?;
    }
    if program.static_runtime {
        complain(args.lang.pick(
            "hook-analyze: 程序静态链接了 CUDA runtime: 日志中将是驱动 API 的名字 (cuMemAlloc_v2, cuLaunchKernel 等); \
             用 `nvcc --cudart=shared` 编译, 名字就与实验手册一致",
            "hook-analyze: the CUDA runtime is linked statically into the program: the log will have the driver's names \
             (cuMemAlloc_v2, cuLaunchKernel, ...); compiled with `nvcc --cudart=shared` it has the lab's",
        ));
    }
    let mut command = Command::new(&program.path);
    command.args(arguments).env(PRELOAD, preload(&hook));
    let settings = [
        ("CUDA_MEM_QUOTA_MB", args.quota.clone()),
        ("CUDA_CORE_RATE", args.rate.clone()),
        ("CUDA_CORE_CAPACITY", args.capacity.clone()),
        ("CUDA_CORE_POLICY", args.policy.clone()),
        ("CUDA_HOOK_SHARED", args.shared.clone()),
        ("CUDA_CORE_DENY_ERROR", args.deny_error.map(|code| code.to_string())),
    ];
    command.envs(settings.into_iter().filter_map(|(name, value)| Some((name, value?))));
    for (name, target) in [("CUDA_HOOK_LOG", &log), ("CUDA_HOOK_EVENTS", &events)] {
        command.env(name, target.as_deref().map_or(OsStr::new("off"), Path::as_os_str));
    }
    let status = wait(command, &program)?;
    if let Some(number) = status.signal() {
        let name = signal_hook::low_level::signal_name(number).unwrap_or("unknown");
        complain(&format!("hook-analyze: the program was ended by signal {number} ({name})"));
    }
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number)).unwrap_or(1);
    let code = u8::try_from(code).unwrap_or(u8::MAX);
    match (summarise(log.as_deref(), events.as_deref(), args.lang), code) {
        (Ok(true), code) => Ok(code),
        (Ok(false), code) => Ok(if code == 0 { super::run::FAILED } else { code }),
        (Err(error), 0) => Err(error.into()),
        // What the program's status tells matters more.
        (Err(error), code) => {
            complain(&format!("hook-analyze: {error}"));
            Ok(code)
        }
    }
}

/// Runs it to its end. Ctrl-C and Ctrl-\ reach it from the terminal, as every program in the foreground; a SIGTERM to
/// this process is handed on.
fn wait(mut command: Command, program: &Program) -> Result<ExitStatus, Failure> {
    let failed = |error| Failure::Start(program.path.clone(), error);
    let (asked, handed_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for (signal, flag) in [(SIGINT, &handed_on), (SIGQUIT, &handed_on), (SIGTERM, &asked)] {
        signal_hook::flag::register(signal, Arc::clone(flag)).map_err(failed)?;
    }
    let mut child = command.spawn().map_err(failed)?;
    let id = child.id().to_string();
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send(child.wait()));
    loop {
        match end.recv_timeout(Duration::from_millis(50)) {
            Ok(status) => return status.map_err(failed),
            Err(RecvTimeoutError::Disconnected) => return Err(failed(io::Error::other("its end was missed"))),
            Err(RecvTimeoutError::Timeout) => {
                if asked.swap(false, Ordering::Relaxed) {
                    let _ = Command::new("kill").args(["-TERM", &id]).status();
                }
            }
        }
    }
}

/// Shows the summary; whether there was anything to show.
fn summarise(log: Option<&Path>, events: Option<&Path>, lang: Lang) -> Result<bool, Error> {
    let size = |path: &Path| fs::metadata(path).ok().filter(|meta| meta.is_file()).map(|meta| meta.len());
    let events = events.filter(|path| size(path).is_some_and(|bytes| bytes > 0));
    if log.and_then(size) == Some(0) && events.is_none() {
        complain(lang.pick(
            "hook-analyze: hook 没有被加载到程序中 (日志是空的): 带文件 capabilities 的程序不会加载 LD_PRELOAD 指定的库",
            "hook-analyze: the hook was not loaded into the program (the log is empty): one with file capabilities does \
             not load what LD_PRELOAD names",
        ));
        return Ok(false);
    }
    let log = log.filter(|path| size(path).is_some_and(|bytes| bytes > 0));
    let Some(source) = log.or(events) else {
        complain(lang.pick(
            "hook-analyze: 程序没有留下记录: 没有 CUDA 调用经过 hook",
            "hook-analyze: the program left no record: no CUDA call went through the hook",
        ));
        return Ok(false);
    };
    let pace = Pace { watch: Some(progress::watch), ..Pace::default() };
    let mut logs = [shorter(source)];
    let mut figures = figures::read_at(&logs, None, pace)?;
    // A log takes in the event file beside it where that has the same calls. One that lies elsewhere, or is of several
    // processes whose lines can't be told apart, has by itself all that the log has.
    let taken = |path: &Path| figures.events.sources.iter().any(|source| source.path == shorter(path));
    if let Some(events) = events.filter(|path| !taken(path)) {
        logs = [shorter(events)];
        figures = figures::read_at(&logs, None, pace)?;
    }
    progress::end();
    if figures.events.processes.iter().all(|process| process.rows.is_empty() && process.untold.is_empty()) {
        complain(&format!("hook-analyze: {}", advice::no_calls(&figures.events, &logs, lang)));
        return Ok(false);
    }
    let again = printable(&logs[0].to_string_lossy());
    let again = match lang {
        Lang::Zh => format!("再看一遍, 或画图、写报告: hook-analyze {again} [--plot 图.svg] [--report 报告.md]"),
        Lang::En => {
            format!("Again, with a chart or a report: hook-analyze {again} [--plot FILE.svg] [--report FILE.md]")
        }
    };
    complain(&format!("{}\n{again}", terminal::summary(&figures.summary, lang).trim_end()));
    Ok(true)
}

/// As it is named from this folder.
fn shorter(path: &Path) -> PathBuf {
    let here = env::current_dir().ok();
    let short = here.and_then(|here| path.strip_prefix(here).ok()).filter(|short| !short.as_os_str().is_empty());
    short.unwrap_or(path).to_owned()
}

/// A file to write, or none. Absolute: what the program's children write goes there too, wherever they are.
fn target(name: &OsStr) -> Result<Option<PathBuf>, Failure> {
    if name == "off" {
        return Ok(None);
    }
    let path = PathBuf::from(name);
    let absolute = std::path::absolute(&path).map_err(|error| Failure::Write(path, error))?;
    Ok(Some(absolute))
}

/// Empties what an earlier run left, and nothing else; a file that can't be written is found out before the start.
fn begin_anew(path: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::Write(shorter(path), error);
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        return Ok(());
    }
    if let Ok(mut file) = File::open(path).and_then(|file| file.metadata().map(|_| file.take(1 << 16))) {
        let mut start = Vec::new();
        let _ = file.read_to_end(&mut start);
        if !start.is_empty() && memchr::memmem::find(&start, b"[HOOK]").is_none() && !start.starts_with(b"{\"") {
            return Err(Failure::InTheWay(shorter(path)));
        }
    }
    File::create(path).map(drop).map_err(failed)
}

/// The hook's library, absolute.
fn find_hook(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let variable = env::var_os(HOOK_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let places: Vec<PathBuf> = match named.map(Path::to_owned).or(variable) {
        Some(named) => vec![named],
        None => {
            let this = env::current_exe().and_then(fs::canonicalize).unwrap_or_default();
            let folder = this.parent().unwrap_or(Path::new("."));
            vec![folder.join(HOOK), folder.with_file_name("lib").join(HOOK), PathBuf::from(".").join(HOOK)]
        }
    };
    let Some(found) = places.iter().find(|place| place.is_file()) else {
        let places: Vec<String> = places.iter().map(|place| Shown(place).to_string()).collect();
        return Err(Failure::NoHook(places.join(", ")));
    };
    let hook = std::path::absolute(found).map_err(|error| Failure::Start(found.clone(), error))?;
    if hook.as_os_str().as_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':') {
        return Err(Failure::Unnameable(hook));
    }
    Ok(hook)
}

/// The hook before whatever else is to be preloaded.
fn preload(hook: &Path) -> OsString {
    let mut all = hook.as_os_str().to_owned();
    if let Some(others) = env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// A rate without a capacity would limit nothing. Either may come from the environment.
fn check_bucket(args: &StartArgs) -> Result<(), Failure> {
    let or_set = |flag: &Option<String>, name| {
        flag.clone().or_else(|| env::var(name).ok()).filter(|value| !value.trim().is_empty())
    };
    let (rate, capacity) = (or_set(&args.rate, "CUDA_CORE_RATE"), or_set(&args.capacity, "CUDA_CORE_CAPACITY"));
    match (rate, capacity) {
        (Some(_), None) => Err(Failure::Half("`--capacity`")),
        (None, Some(_)) => Err(Failure::Half("`--rate`")),
        (Some(rate), Some(capacity)) if decimal(&capacity) == Some(0.0) && decimal(&rate) != Some(0.0) => {
            Err(Failure::Empty)
        }
        _ => Ok(()),
    }
}

fn quota(text: &str) -> Result<String, String> {
    let fits = |mb: f64| mb == 0.0 || (1.0..u64::MAX as f64).contains(&(mb * MB).floor());
    accepted(text, fits, "is no quota: a number of MB, such as `128` or `0.5`; 0 is none")
}

fn rate(text: &str) -> Result<String, String> {
    let fits = |rate: f64| rate == 0.0 || RATES.contains(&rate);
    accepted(text, fits, "is no rate: a number of tokens a second from 1e-9 to 1e12; 0 is no limit")
}

fn capacity(text: &str) -> Result<String, String> {
    accepted(text, |capacity| capacity <= *RATES.end(), "is no capacity: a number of tokens, up to 1e12")
}

fn accepted(text: &str, fits: impl Fn(f64) -> bool, wrong: &str) -> Result<String, String> {
    match decimal(text).filter(|number| fits(*number)) {
        Some(_) => Ok(text.trim().to_owned()),
        None => Err(format!("`{text}` {wrong}")),
    }
}

/// A number as the hook reads it: digits with at most one point, or with an exponent; no sign, no `inf`.
fn decimal(text: &str) -> Option<f64> {
    let text = text.trim_ascii();
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'));
    let unsigned = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|number: &f64| plain && unsigned && number.is_finite())
}

fn shared(text: &str) -> Result<String, String> {
    let sound = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if sound && (1..=64).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no name: 1 to 64 letters, digits, `.`, `_` or `-`"))
    }
}
