//! What the hook costs, on the stand-in runtime: `make bench-hook`, or `cargo bench -p cuda-hook` with `CUDA_HOOK_SO`.
//!
//! In: `ROUNDS` (21), how often each variant runs. Out: a table on standard output; the figures are medians over the
//! rounds, in which all variants take turns, with the quarters of rounds that lie below and above. Differences and ratios
//! are taken within a round. Every run's logs are counted: a hook that is fast because it loses records fails here.
//! `BENCH_ROWS` names a file to which every figure is appended, for the one table of `make bench` (reports/bench.py).
//!
//! On a virtual machine whose processors share their cores with others' the same code takes half as long again for seconds
//! at a time. So the quiet quarter (a quarter of the rounds were as good or better) is told of each aim too.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// One way to run a program.
struct Variant {
    name: &'static str,
    preload: Preload,
    environment: &'static [(&'static str, &'static str)],
    /// Lines in `log` and `events` that each call must have left.
    lines: u64,
    events: u64,
    denied: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Preload {
    Nothing,
    Forwarder,
    Plain,
    Hook,
}

const LOG: (&str, &str) = ("CUDA_HOOK_LOG", "log");
const NO_LOG: (&str, &str) = ("CUDA_HOOK_LOG", "off");
const EVENTS: (&str, &str) = ("CUDA_HOOK_EVENTS", "events");
const NO_EVENTS: (&str, &str) = ("CUDA_HOOK_EVENTS", "off");
const SYNC: (&str, &str) = ("CUDA_HOOK_SYNC", "1");
const RATE: (&str, &str) = ("CUDA_CORE_RATE", "5");
const CAPACITY: (&str, &str) = ("CUDA_CORE_CAPACITY", "3");

const fn variant(
    name: &'static str,
    preload: Preload,
    environment: &'static [(&'static str, &'static str)],
    lines: u64,
    events: u64,
) -> Variant {
    Variant { name, preload, environment, lines, events, denied: false }
}

const LAUNCHES: [Variant; 9] = [
    variant("(a) no hook", Preload::Nothing, &[], 0, 0),
    variant("(b) a forwarder that does nothing", Preload::Forwarder, &[], 0, 0),
    variant("(c) a plain hook, fprintf", Preload::Plain, &[("COST_LOG", "log")], 1, 0),
    variant("lines and JSONL", Preload::Hook, &[LOG, EVENTS], 1, 1),
    variant("lines", Preload::Hook, &[LOG, NO_EVENTS], 1, 0),
    Variant { denied: true, ..variant("denied, lines and JSONL", Preload::Hook, &[LOG, EVENTS, RATE, CAPACITY], 1, 1) },
    variant("nothing recorded", Preload::Hook, &[NO_LOG, NO_EVENTS], 0, 0),
    variant("SYNC, lines", Preload::Hook, &[LOG, NO_EVENTS, SYNC], 1, 0),
    variant("SYNC, lines and JSONL", Preload::Hook, &[LOG, EVENTS, SYNC], 1, 1),
];

const PAIRS: [Variant; 3] = [
    variant("(a) no hook", Preload::Nothing, &[], 0, 0),
    variant("(b) a forwarder that does nothing", Preload::Forwarder, &[], 0, 0),
    variant("lines and JSONL", Preload::Hook, &[LOG, EVENTS], 1, 1),
];

struct Bench {
    built: PathBuf,
    hook: PathBuf,
    folder: tempfile::TempDir,
    rounds: usize,
}

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no repository")?;
    let hook = std::env::var_os("CUDA_HOOK_SO").ok_or("CUDA_HOOK_SO must name the libcuda_hook.so to measure")?;
    let rounds = match std::env::var("ROUNDS") {
        Err(_) => 21,
        Ok(text) => match text.parse() {
            Ok(rounds @ 1..) => rounds,
            _ => return Err(format!("ROUNDS: `{text}` is no number of rounds").into()),
        },
    };
    let bench = Bench { built: build(root)?, hook: fs::canonicalize(hook)?, folder: tempfile::tempdir()?, rounds };

    println!("medians of {rounds} rounds (the middle half of them), ns a call\n");
    println!("bursts of 1000 launches, 8 ms apart: what fits a ring, the median of the bursts");
    let burst = bench.table(&LAUNCHES, &["launch", "30", "1000", "8000"], 30_000, Figure::Median)?;
    burst.append("a launch, in bursts of 1000, on the stand-in", &LAUNCHES, 2)?;
    println!("\n30 000 launches without a pause: the mean, waiting for the writer included");
    let rush = bench.table(&LAUNCHES, &["launch", "30", "1000", "0"], 30_000, Figure::Mean)?;
    rush.append("a launch, 30 000 without a pause, on the stand-in", &LAUNCHES, 2)?;
    println!("\ncudaMalloc and cudaFree while 100 000 blocks are held, a pair");
    let pairs = bench.table(&PAIRS, &["pairs", "100000", "20000"], 140_000, Figure::Median)?;
    pairs.append("cudaMalloc and cudaFree, 100 000 blocks held, on the stand-in", &PAIRS, 0)?;
    println!("\n/bin/true, start to end, µs");
    let start = bench.start()?;

    println!("\naims");
    let [forwarder, plain, both, denied, sync_lines] = [1, 2, 3, 5, 7];
    let mut aims = vec![
        ("lines and JSONL over (b), ns", burst.paired(both, forwarder, |a, b| a - b), 60.0),
        ("lines and JSONL to (c)", burst.paired(both, plain, |a, b| a / b), 0.1),
        ("denied, ns", burst.of(denied), 60.0),
        ("SYNC, lines, to (c)", burst.paired(sync_lines, plain, |a, b| a / b), 1.0),
        ("a pair, ns", pairs.of(2), 1000.0),
    ];
    aims.push(("/bin/true under the hook, µs more", start, 500.0));
    for (what, Spread { low, median, .. }, at_most) in aims {
        let met = if median <= at_most {
            "met"
        } else if low <= at_most {
            "met in the quiet quarter"
        } else {
            "missed"
        };
        println!("  {what:<34} {median:>9.2}  (quiet {low:.2})   at most {at_most:>7.1}   {met}");
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Figure {
    Median,
    Mean,
}

/// Where a quarter, half and three quarters of some figures lie below.
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Spread {
        figures.sort_by(f64::total_cmp);
        // Between two figures where none stands there.
        let at = |quarter: f64| {
            let place = (figures.len() - 1) as f64 * quarter;
            let (below, above) = (figures[place.floor() as usize], figures[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Spread { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
}

/// What each variant took, round by round.
struct Rounds(Vec<Vec<f64>>);

impl Rounds {
    /// What `of` makes of two variants of the same round.
    fn paired(&self, a: usize, b: usize, of: fn(f64, f64) -> f64) -> Spread {
        Spread::of(self.0[a].iter().zip(&self.0[b]).map(|(&a, &b)| of(a, b)).collect())
    }

    fn of(&self, variant: usize) -> Spread {
        Spread::of(self.0[variant].clone())
    }

    /// Appends a row for each variant; ratios are to the variant `baseline`.
    fn append(&self, what: &str, variants: &[Variant], baseline: usize) -> Result<()> {
        let beside = &self.0[baseline];
        for (variant, figures) in variants.iter().zip(&self.0) {
            append(what, variant.row_name(), "ns", figures, (variants[baseline].row_name(), beside))?;
        }
        Ok(())
    }
}

impl Variant {
    /// Its name in a table that holds other benchmarks' rows too, and doesn't speak of (a), (b) and (c).
    fn row_name(&self) -> String {
        if self.preload == Preload::Hook {
            return format!("ours, {}", self.name.replace("SYNC", "CUDA_HOOK_SYNC=1"));
        }
        let name = self.name.split_once(") ").map_or(self.name, |(_, name)| name);
        name.trim_start_matches("a ").to_owned()
    }
}

/// Appends a row to the file that `BENCH_ROWS` names, if it names one; a ratio is within a round.
fn append(what: &str, how: String, unit: &str, values: &[f64], (baseline, beside): (String, &[f64])) -> Result<()> {
    let Some(path) = std::env::var_os("BENCH_ROWS") else { return Ok(()) };
    let ratios: Vec<f64> = values.iter().zip(beside).map(|(value, beside)| value / beside).collect();
    // Names without a character that JSON escapes otherwise than Rust.
    let row = format!(
        "{{\"what\":{what:?},\"how\":{how:?},\"unit\":{unit:?},\"values\":{values:?},\
         \"baseline\":{baseline:?},\"ratios\":{ratios:?}}}\n"
    );
    fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(row.as_bytes())?;
    Ok(())
}

impl Bench {
    /// Runs all variants in turn, round by round.
    fn table(&self, variants: &[Variant], arguments: &[&str], calls: u64, figure: Figure) -> Result<Rounds> {
        let mut all = vec![Vec::new(); variants.len()];
        for _ in 0..self.rounds {
            for (variant, figures) in variants.iter().zip(&mut all) {
                figures.push(self.run(variant, arguments, calls, figure)?);
            }
        }
        let all = Rounds(all);
        for (i, variant) in variants.iter().enumerate() {
            let Spread { low, median, high } = all.of(i);
            let over = all.paired(i, 1, |a, b| a - b);
            let (quiet, over) = (over.low, over.median);
            println!(
                "  {:<34} {median:>9.1}  ({low:.1} to {high:.1})  {over:+.1} over (b), quiet {quiet:+.1}",
                variant.name
            );
        }
        Ok(all)
    }

    fn run(&self, variant: &Variant, arguments: &[&str], calls: u64, figure: Figure) -> Result<f64> {
        let working = self.folder.path();
        for name in ["log", "events"] {
            // The first round has none yet.
            let _ = fs::remove_file(working.join(name));
        }
        let mut command = Command::new(self.built.join("cost"));
        command.args(arguments).current_dir(working).env_clear().env("LD_LIBRARY_PATH", &self.built);
        command.envs(variant.environment.iter().copied()).stderr(Stdio::inherit());
        let preload = match variant.preload {
            Preload::Nothing => None,
            Preload::Forwarder => Some(self.built.join("libforwarder.so")),
            Preload::Plain => Some(self.built.join("libplain_hook.so")),
            Preload::Hook => Some(self.hook.clone()),
        };
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        let output = command.output()?;
        let text = String::from_utf8(output.stdout)?;
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [median, mean, well] = fields[..] else { return Err(format!("{}: `{text}`", variant.name).into()) };
        let well: u64 = well.parse()?;
        // At a rate of 5 some are passed meanwhile.
        if variant.denied && !(3..=3 + 5 * 20).contains(&well) {
            return Err(format!("{}: {well} launches passed", variant.name).into());
        }
        let banner = if variant.preload == Preload::Hook { 2 } else { 0 };
        let lines = self.lines("log", "[HOOK]")?;
        check(variant, "lines", lines, variant.lines * (calls + banner))?;
        check(variant, "events", self.lines("events", "{\"ev\":\"call\"")?, variant.events * calls)?;
        Ok(match figure {
            Figure::Median => median.parse()?,
            Figure::Mean => mean.parse()?,
        })
    }

    fn lines(&self, name: &str, beginning: &str) -> Result<u64> {
        let path = self.folder.path().join(name);
        if !path.exists() {
            return Ok(0);
        }
        let text = fs::read_to_string(path)?;
        Ok(text.lines().filter(|line| line.starts_with(beginning)).count().try_into()?)
    }

    /// How much longer `true` takes under the hook, µs.
    fn start(&self) -> Result<Spread> {
        let mut all: [Vec<f64>; 2] = Default::default();
        for _ in 0..self.rounds * 20 {
            for hooked in [false, true] {
                let mut command = Command::new("/bin/true");
                command.env_clear().stderr(Stdio::null()).current_dir(self.folder.path());
                if hooked {
                    command.env("LD_PRELOAD", &self.hook);
                }
                let from = Instant::now();
                if !command.status()?.success() {
                    return Err("true is false".into());
                }
                all[usize::from(hooked)].push(from.elapsed().as_secs_f64() * 1e6);
            }
        }
        let all = Rounds(all.into());
        let what = "start to end of /bin/true";
        for (hooked, (name, how)) in
            [("without", "no hook"), ("under the hook", "ours, by default")].into_iter().enumerate()
        {
            let Spread { low, median, high } = all.of(hooked);
            println!("  {name:<34} {median:>9.1}  ({low:.1} to {high:.1})");
            append(what, how.to_owned(), "µs", &all.0[hooked], ("no hook".to_owned(), &all.0[0]))?;
        }
        // Of the differences, since the machine is now busy and now not.
        Ok(all.paired(1, 0, |a, b| a - b))
    }
}

fn check(variant: &Variant, what: &str, is: u64, should: u64) -> Result<()> {
    if is == should { Ok(()) } else { Err(format!("{}: {is} {what} instead of {should}", variant.name).into()) }
}

/// Compiles the program and the libraries that it is compared with, on the stand-in that `make` builds.
fn build(root: &Path) -> Result<PathBuf> {
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hook-cost");
    fs::create_dir_all(&into)?;
    let programs = root.join("hook/benches/programs");
    let include = format!("-I{}", root.join("cuda/sim/include").display());
    let stand_in = root.join("build/sim");
    for library in ["libcuda.so.1", "libcudart.so.13"] {
        fs::copy(stand_in.join(library), into.join(library))
            .map_err(|error| format!("{}/{library}: {error}; `make bench-hook` builds it", stand_in.display()))?;
    }
    let gcc = |options: &[&str], source: PathBuf, out: &str| -> Result<()> {
        let mut command = Command::new("gcc");
        command.args(["-std=c11", "-O2", "-Wall", "-Wextra", &include]).args(options).arg(source);
        command.arg("-o").arg(into.join(out));
        // After the source that wants it.
        if out == "cost" {
            command.arg(into.join("libcudart.so.13"));
        }
        if command.status()?.success() { Ok(()) } else { Err(format!("{out} can't be compiled").into()) }
    };
    let shared = ["-fPIC", "-shared", "-pthread"];
    gcc(&shared, programs.join("forwarder.c"), "libforwarder.so")?;
    gcc(&shared, programs.join("plain_hook.c"), "libplain_hook.so")?;
    gcc(&[], programs.join("cost.c"), "cost")?;
    Ok(into)
}
