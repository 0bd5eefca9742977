//! Building the test programs, running one under the hook, and reading what the hook wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use hook_event::course::{LineBuf, write_call};
use hook_event::json::{Record, RecordCall, RecordEnd, RecordStart};
use hook_event::{Call, Dim3, Kind, MAX_LINE, Op, Outcome, Scope, Stamp};
use tempfile::TempDir;

/// Bytes of the course's MB.
pub(crate) const MB: u64 = 1 << 20;

/// Longer than any program here takes, on a busy machine too. What takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The library under test: `CUDA_HOOK_SO`, else the one beside this test binary. Never the copy in `target/<profile>`,
/// which `cargo test` doesn't renew.
pub(crate) fn hook() -> &'static Path {
    static HOOK: OnceLock<PathBuf> = OnceLock::new();
    HOOK.get_or_init(|| {
        let path = match std::env::var_os("CUDA_HOOK_SO") {
            Some(path) => std::path::absolute(path).expect("an absolute path"),
            None => {
                let this = std::env::current_exe().expect("the path of this test binary");
                this.parent().expect("its folder").join("libcuda_hook.so")
            }
        };
        assert!(
            path.is_file(),
            "there is no {}: build it (`cargo build -p cuda-hook`) or set CUDA_HOOK_SO to the libcuda_hook.so to test",
            path.display()
        );
        path
    })
}

/// The repository's root.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder above the crate").to_owned()
}

/// The folder that holds the stand-in runtime and the test programs, compiled once a test run.
pub(crate) fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hook-it");
        fs::create_dir_all(into.join("poor")).expect("a folder to build in");
        let root = repository();
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/programs");
        let program = |name: &str| programs.join(name).into_os_string().into_string().expect("a path in UTF-8");
        let include = format!("-I{}", root.join("cuda/sim/include").display());
        let to = format!("-L{}", into.display());
        let shared = ["-fPIC", "-shared", "-pthread", &include];
        let c = |file: &str, options: &[&str], out: &str| {
            let base = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"];
            compile("gcc", &[&base, options, &[file]].concat(), &into.join(out));
        };
        let sim = |file: &str| root.join("cuda/sim").join(file).display().to_string();
        let sources = |names: &[&str]| names.iter().map(|name| sim(name)).collect::<Vec<_>>();
        let link = |name: &str, to: &str| {
            let fresh = into.join(format!("{name}.{}.new", std::process::id()));
            std::os::unix::fs::symlink(to, &fresh).expect("a link");
            fs::rename(fresh, into.join(name)).expect("a rename");
        };
        // The last file of each list is `c`'s own.
        let driver =
            sources(&["libcuda_memory.c", "libcuda_vmm.c", "libcuda_stream.c", "libcuda_launch.c", "libcuda_proc.c"]);
        let script = format!("-Wl,--version-script={}", sim("libcuda.map"));
        let mut options = [&shared[..], &["-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic", &script]].concat();
        options.extend(driver.iter().map(String::as_str));
        c(&sim("libcuda.c"), &options, "libcuda.so.1");
        link("libcuda.so", "libcuda.so.1");
        // One object for the shared and for the static runtime.
        let runtime = sources(&["cudart_memory.c", "cudart_launch.c"]);
        let mut options = vec!["-fPIC", "-r", "-nostdlib", "-pthread"];
        options.extend(runtime.iter().map(String::as_str));
        c(&sim("cudart.c"), &options, "cudart.o");
        let object = into.join("cudart.o").display().to_string();
        let script = format!("-Wl,--version-script={}", sim("cudart.map"));
        let options = ["-Wl,-soname,libcudart.so.13", "-Wl,-Bsymbolic", "-Wl,-rpath,$ORIGIN", &script];
        c(&object, &[&shared[..], &options].concat(), "libcudart.so.13");
        link("libcudart.so", "libcudart.so.13");
        // The library comes last, after the file that wants it; `-l` options are kept by --no-as-needed.
        let linked = ["-Wl,--no-as-needed", &to, "-lcudart"];
        thread::scope(|scope| {
            scope.spawn(|| {
                for name in ["calls", "churn", "rush", "launchers", "forks", "cancel", "stack", "batch", "ends"] {
                    c(&program(&format!("{name}.c")), &[&["-pthread", &include], &linked[..]].concat(), name);
                }
                for name in ["plugin_host", "orphan", "lookups"] {
                    c(&program(&format!("{name}.c")), &["-pthread"], name);
                }
            });
            let test_hook = root.join("cuda/test_hook.cu").display().to_string();
            let cpp = ["-x", "c++", "-std=c++17", "-O2", &include, &test_hook, "-x", "none"];
            compile("g++", &[&cpp[..], &linked[..]].concat(), &into.join("test_hook"));
            for name in ["plugin", "goodbye", "naive_hook", "neighbour"] {
                let options = [&shared[..], &linked[..]].concat();
                c(&program(&format!("{name}.c")), &options, &format!("lib{name}.so"));
            }
            let driver = program("driver.c");
            c(&driver, &["-pthread", &include, "-Wl,--no-as-needed", &to, "-lcuda"], "driver");
            c(&driver, &["-pthread", &include, "-DUNLINKED"], "driver_unlinked");
            c(&program("fork_unload.c"), &["-pthread", &include, "-Wl,--no-as-needed", &to, "-lcuda"], "fork_unload");
            // The static runtime is its one object.
            c(&object, &["-pthread", &include, &program("calls.c")], "calls_static");
            let goodbye = [&["-Wl,--no-as-needed", &to, "-lgoodbye"][..], &linked[..]].concat();
            c(&program("goodbye_host.c"), &goodbye, "goodbye_host");
            let poor = [&shared[..], &["-Wl,-soname,libcudart.so.13"]].concat();
            c(&program("poor_cudart.c"), &poor, "poor/libcudart.so.13");
        });
        into
    })
}

/// Compiles what is older than any source. To a name of its own first, so that a test run beside this one (nextest
/// gives each test a process) never sees half a file.
fn compile(compiler: &str, arguments: &[&str], out: &Path) {
    if modified(out).is_some_and(|built| built > newest_source()) {
        return;
    }
    let fresh = out.with_extension(format!("{}.new", std::process::id()));
    let done = Command::new(compiler).args(arguments).arg("-o").arg(&fresh).output();
    let done = done.unwrap_or_else(|error| panic!("{compiler} can't be run: {error}"));
    assert!(done.status.success(), "{compiler} {arguments:?}\n{}", String::from_utf8_lossy(&done.stderr));
    fs::rename(&fresh, out).expect("a rename within a folder");
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

/// When something that the programs are made of was last changed, this file with their compiler options included.
fn newest_source() -> SystemTime {
    static NEWEST: OnceLock<SystemTime> = OnceLock::new();
    *NEWEST.get_or_init(|| {
        let folders = ["cuda", "cuda/sim", "cuda/sim/include", "hook/tests/it", "hook/tests/it/programs"];
        let files = folders.iter().flat_map(|folder| fs::read_dir(repository().join(folder)).expect("a folder"));
        files.filter_map(|entry| modified(&entry.expect("an entry").path())).max().expect("sources")
    })
}

/// A program to run under the hook, in a folder of its own.
pub(crate) struct Job {
    program: PathBuf,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    stderr: Option<Stdio>,
    folder: TempDir,
    working: PathBuf,
}

/// One of the programs built from `programs/`.
pub(crate) fn job(program: &str, arguments: &[&str]) -> Job {
    Job::new(built().join(program), arguments)
}

/// The program that makes the calls which its arguments name.
pub(crate) fn calls(commands: &[&str]) -> Job {
    job("calls", commands)
}

impl Job {
    /// Any program, with the hook preloaded and nothing else in its environment.
    pub(crate) fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Job {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = Job {
            program: program.into(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: BTreeMap::new(),
            stderr: None,
            working: folder.path().to_owned(),
            folder,
        };
        let libraries = built().display().to_string();
        job.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LD_LIBRARY_PATH", &libraries).preload(hook())
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Job {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The settings of the lab's test.
    pub(crate) fn lab(self) -> Job {
        self.quota("128").bucket("5", "3")
    }

    pub(crate) fn quota(self, mb: &str) -> Job {
        self.env("CUDA_MEM_QUOTA_MB", mb)
    }

    pub(crate) fn bucket(self, rate: &str, capacity: &str) -> Job {
        self.env("CUDA_CORE_RATE", rate).env("CUDA_CORE_CAPACITY", capacity)
    }

    /// Another library in the hook's place.
    pub(crate) fn preload(self, library: &Path) -> Job {
        self.env("LD_PRELOAD", &library.display().to_string())
    }

    /// No hook at all.
    pub(crate) fn unhooked(mut self) -> Job {
        self.environment.remove("LD_PRELOAD");
        self
    }

    pub(crate) fn stderr(mut self, to: impl Into<Stdio>) -> Job {
        self.stderr = Some(to.into());
        self
    }

    /// Starts it in another folder than its own.
    pub(crate) fn working_in(mut self, folder: &str) -> Job {
        self.working = PathBuf::from(folder);
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts it. Its output, and how it ends, are the caller's to see to.
    pub(crate) fn start(&mut self) -> Child {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(&self.environment).current_dir(&self.working);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        command.stderr(self.stderr.take().unwrap_or_else(Stdio::piped));
        // With the command goes the parent's copy of what stderr was set to: a pipe would never end for its reader
        // while that is open.
        command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.program.display()))
    }

    /// Runs it to its end. Fails when it hangs.
    pub(crate) fn run(mut self) -> Done {
        let mut child = self.start();
        let stdout = child.stdout.take().map(reader);
        let stderr = child.stderr.take().map(reader);
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child of ours") {
                break status;
            }
            if Instant::now() > deadline {
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                panic!("{} {:?} hangs", self.program.display(), self.arguments);
            }
            thread::sleep(Duration::from_millis(1));
        };
        let text =
            |from: Option<thread::JoinHandle<String>>| from.map(|t| t.join().expect("UTF-8")).unwrap_or_default();
        Done {
            code: status.code(),
            signal: status.signal(),
            stdout: text(stdout),
            stderr: text(stderr),
            folder: self.folder,
        }
    }
}

fn reader(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("UTF-8 output");
        text
    })
}

/// What a program left behind.
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    folder: TempDir,
}

impl Done {
    /// Fails unless the program ended with 0.
    pub(crate) fn ok(self) -> Done {
        assert_eq!(
            (self.code, self.signal),
            (Some(0), None),
            "exit code and signal\n--- stdout\n{}--- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Names of the files in its folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The codes that `calls` printed.
    pub(crate) fn codes(&self) -> Vec<i64> {
        let code = |line: &str| line.split_once(" = ")?.1.split(' ').next()?.parse().ok();
        self.stdout.lines().map(|line| code(line).unwrap_or_else(|| panic!("no code: {line}"))).collect()
    }

    /// The calls of `calls` that changed errno.
    pub(crate) fn errno_changes(&self) -> Vec<&str> {
        self.stdout.lines().filter(|line| line.contains(" errno=")).collect()
    }

    /// The hook's lines on stderr.
    pub(crate) fn hook_lines(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| line.contains("[HOOK]")).collect()
    }

    /// Those of them that are of calls.
    pub(crate) fn call_lines(&self) -> Vec<&str> {
        call_lines(&self.stderr)
    }

    /// Those of them that warn.
    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.hook_lines().into_iter().filter(|line| line.starts_with("[HOOK] 警告: ")).collect()
    }

    /// The event file at its usual place, checked.
    pub(crate) fn log(&self) -> Vec<Process> {
        read_log(&self.file("hook.jsonl"))
    }

    /// The only process of the event file.
    pub(crate) fn process(&self) -> Process {
        let mut processes = self.log();
        assert_eq!(processes.len(), 1, "processes in hook.jsonl");
        processes.remove(0)
    }
}

/// Lines of calls in a log.
pub(crate) fn call_lines(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.starts_with("[HOOK] cu")).collect()
}

/// One process's part of an event file.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) start: RecordStart,
    pub(crate) calls: Vec<RecordCall>,
    pub(crate) end: Option<RecordEnd>,
}

/// Reads an event file and checks what holds for every one: whole lines of at most 4096 bytes, each a record; a
/// process's part begins with its start and ends with its end; numbers without gaps, times that never run backwards.
pub(crate) fn read_log(text: &str) -> Vec<Process> {
    let mut processes: Vec<Process> = Vec::new();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is cut: {:?}", text.lines().last());
    for line in text.lines() {
        assert!(line.len() < MAX_LINE, "{} bytes: {line}", line.len());
        let record = hook_event::json::read(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let pid = match &record {
            Record::Start(start) => start.pid,
            Record::Call(call) => call.pid,
            Record::End(end) => end.pid,
        };
        // A program that was begun anew in the same process has the same number: the newest part counts.
        let current = processes.iter_mut().rev().find(|process| process.start.pid == pid);
        match (record, current) {
            (Record::Start(start), _) => processes.push(Process { start, calls: Vec::new(), end: None }),
            (Record::Call(call), Some(process)) => {
                assert!(process.end.is_none(), "a call after the end of its process: {line}");
                process.calls.push(call);
            }
            (Record::End(end), Some(process)) => {
                assert!(process.end.replace(end).is_none(), "two ends: {line}");
            }
            (_, None) => panic!("a record before the start of its process: {line}"),
        }
    }
    for process in &mut processes {
        process.calls.sort_by_key(|call| call.seq);
        process.check();
    }
    processes
}

impl Process {
    fn check(&self) {
        let mut time = self.start.mono_ns.expect("a time in the start record");
        let lost = self.end.as_ref().and_then(|end| end.lost).unwrap_or(0);
        for (call, number) in self.calls.iter().zip(1..) {
            if lost == 0 {
                assert_eq!(call.seq, number, "numbers without gaps");
            }
            let at = call.mono_ns.expect("a time in each record");
            assert!(at >= time, "time runs backwards at {call:?}");
            time = at;
        }
        let Some(end) = &self.end else { return };
        assert!(end.mono_ns.expect("a time in the end record") >= time);
        if lost == 0 {
            for (api, counts) in &end.calls {
                let count = |outcome| self.calls.iter().filter(|c| c.api == *api && c.outcome == outcome).count();
                let seen = (count(Outcome::Ok), count(Outcome::Denied), count(Outcome::Failed));
                assert_eq!(seen, (counts.ok as usize, counts.denied as usize, counts.failed as usize), "{api}");
            }
            let all: u64 = end.calls.values().map(|counts| counts.ok + counts.denied + counts.failed).sum();
            assert_eq!(all, self.calls.len() as u64, "the end counts every call");
        }
    }

    /// Goes through the calls in the order of their numbers and does the sums again: every total must come out
    /// exactly, every grant within the quota, every denial for a reason. Answers the live blocks at the end.
    pub(crate) fn replay(&self) -> BTreeMap<u64, u64> {
        let mut live: BTreeMap<u64, u64> = BTreeMap::new();
        let mut contextless = BTreeSet::new();
        let (mut total, mut peak) = (0u64, 0u64);
        for call in &self.calls {
            let (ptr, size) = (call.ptr.unwrap_or(0), call.size.unwrap_or(0));
            if call.grid.is_some() || call.graph.is_some() {
                continue;
            }
            match (Kind::of(&call.api), call.outcome) {
                (Kind::Alloc, Outcome::Ok) if ptr != 0 => {
                    assert_eq!(live.insert(ptr, size), None, "an address in use was given out: {call:?}");
                    if call.api == "cuMemCreate" || call.api.contains("Async") {
                        contextless.insert(ptr);
                    }
                    total += size;
                    peak = peak.max(total);
                    assert!(self.start.quota_bytes.is_none_or(|quota| total <= quota), "over the quota: {call:?}");
                }
                (Kind::Alloc, Outcome::Denied) => {
                    let refusal = call.refusal().expect("a quota, since a call was denied");
                    let dev = || call.dev.expect("the device whose quota refused").to_string();
                    let quota = match refusal.scope {
                        Scope::Device => self.start.dev_quota_bytes.get(&dev()).copied(),
                        Scope::Process | Scope::Job | Scope::Unreachable => self.start.quota_bytes,
                    };
                    assert_eq!(Some(refusal.quota), quota, "{call:?}");
                    let asked = u128::from(refusal.total) + u128::from(refusal.pending) + u128::from(size);
                    assert!(asked > u128::from(refusal.quota), "denied without a reason: {call:?}");
                }
                (Kind::Reset, Outcome::Ok) => {
                    // The tests reset the one device that they have. Pools and physical memory are no context's.
                    live.retain(|ptr, _| contextless.contains(ptr));
                    let gone = total - live.values().sum::<u64>();
                    assert_eq!(call.size, Some(gone), "{call:?}");
                    total -= gone;
                }
                (Kind::Free, Outcome::Ok) => {
                    assert_eq!(live.remove(&ptr), call.size, "{call:?}");
                    total -= size;
                }
                _ => {}
            }
            assert_eq!(call.total, Some(total), "{call:?}");
        }
        if let Some(end) = &self.end {
            assert_eq!((end.live_bytes, end.peak_bytes), (Some(total), Some(peak)));
        }
        live
    }

    pub(crate) fn outcomes(&self, api: &str) -> (usize, usize, usize) {
        let count = |outcome| self.calls.iter().filter(|c| c.api == api && c.outcome == outcome).count();
        (count(Outcome::Ok), count(Outcome::Denied), count(Outcome::Failed))
    }
}

/// The course line that belongs to a record.
pub(crate) fn course_line(call: &RecordCall) -> String {
    let dim = |d: Option<[u32; 3]>| d.map(|[x, y, z]| Dim3 { x, y, z });
    let op = match (dim(call.grid), dim(call.block)) {
        (Some(grid), Some(block)) => Op::Launch {
            grid,
            block,
            shmem: call.shmem.expect("shared memory of a launch"),
            stream: call.stream.expect("a stream of a launch"),
            kernel: call.kernel.as_deref(),
            tokens: call.tokens,
            wait_ns: call.wait_ns.expect("the wait of a launch"),
            bypass: call.bypass,
        },
        _ if call.graph.is_some() => Op::Graph {
            graph: call.graph.expect("just seen"),
            stream: call.stream.expect("a stream of a launch"),
            tokens: call.tokens,
            wait_ns: call.wait_ns.expect("the wait of a launch"),
        },
        _ if Kind::of(&call.api) == Kind::Host => {
            let total = call.total.expect("a total");
            match call.size {
                Some(size) => Op::HostAlloc { size, ptr: call.ptr, total },
                None => Op::HostFree { ptr: call.ptr.expect("an address"), total },
            }
        }
        _ if Kind::of(&call.api) == Kind::Reset => {
            Op::Reset { size: call.size.expect("a size"), total: call.total.expect("a total") }
        }
        _ if Kind::of(&call.api) == Kind::Free => {
            Op::Free { ptr: call.ptr.expect("an address"), size: call.size, total: call.total.expect("a total") }
        }
        _ => Op::Alloc {
            size: call.size.expect("a size"),
            ptr: call.ptr,
            total: call.total.expect("a total"),
            pending: call.pending.expect("what is pending"),
            refusal: call.refusal(),
        },
    };
    let mut line = LineBuf::new();
    let call = Call {
        seq: call.seq,
        at: Stamp { wall_ns: 0, mono_ns: call.mono_ns.unwrap_or(0) },
        pid: call.pid,
        tid: call.tid.expect("a thread"),
        api: &call.api,
        sym: call.sym.as_deref().expect("a symbol"),
        dev: call.dev,
        op,
        outcome: call.outcome,
        ret: call.ret.expect("a code"),
        real_ns: call.real_ns.expect("the real call's time"),
        hook_ns: call.hook_ns,
    };
    write_call(&mut line, &call);
    String::from_utf8(line.as_bytes().to_vec()).expect("UTF-8").trim_end().to_owned()
}

/// Course lines and records must tell the same calls in the same order (programs with one thread).
pub(crate) fn lines_match_records(done: &Done) {
    assert_eq!(done.call_lines(), course_lines(&done.process().calls));
}

/// The course lines of all records.
pub(crate) fn course_lines(calls: &[RecordCall]) -> Vec<String> {
    calls.iter().map(course_line).collect()
}

/// Every address replaced, so that logs of different runs can be compared.
pub(crate) fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split("0x");
    out.push_str(parts.next().unwrap_or(""));
    for part in parts {
        out.push_str("0xPOINTER");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    out
}

/// A pipe whose reader has gone.
pub(crate) fn pipe_without_reader() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// A file opened for writing.
pub(crate) fn write_to(path: impl AsRef<Path>) -> Stdio {
    File::options().append(true).create(true).open(path).expect("a file to write to").into()
}
