//! The machine that this program runs on, as far as it tells: for a report's table of the environment.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

/// How long `nvidia-smi` and `nvcc` may take; a broken driver lets the first hang for ever.
const LIMIT: Duration = Duration::from_secs(4);

/// A machine. What it does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Host name.
    pub host: Option<String>,
    /// GPUs: model and memory.
    pub gpu: Option<String>,
    /// Version of the GPU driver.
    pub driver: Option<String>,
    /// Version of nvcc.
    pub cuda: Option<String>,
    /// Model and number of the logical processors.
    pub cpu: Option<String>,
    /// Distribution.
    pub os: Option<String>,
    /// Kernel.
    pub kernel: Option<String>,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let read = |path: &str| fs::read_to_string(path).ok();
        let word = |path: &str| read(path).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        // Both at once, so that one limit is enough.
        let smi = start("nvidia-smi", &["--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]);
        let nvcc = start("nvcc", &["--version"]);
        let deadline = Instant::now() + LIMIT;
        let smi = smi.and_then(|child| output(child, deadline)).unwrap_or_default();
        let (gpu, driver) = gpus(&smi);
        Machine {
            host: word("/proc/sys/kernel/hostname"),
            gpu,
            driver,
            cuda: nvcc.and_then(|child| output(child, deadline)).as_deref().and_then(release),
            cpu: read("/proc/cpuinfo").as_deref().and_then(cpu),
            os: read("/etc/os-release").as_deref().and_then(distribution),
            kernel: word("/proc/sys/kernel/osrelease").map(|version| format!("Linux {version}")),
        }
    }
}

fn start(program: &str, arguments: &[&str]) -> Option<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Under the hook these programs would write into the log that is being analysed.
    command.env_remove("LD_PRELOAD").spawn().ok()
}

/// What a program printed, if it ends in time and well. The output of these fits in a pipe.
fn output(mut child: Child, deadline: Instant) -> Option<String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(None) if Instant::now() < deadline => sleep(Duration::from_millis(5)),
            Ok(Some(_)) => return None,
            // One that hangs in the driver can't be waited for even when killed.
            Ok(None) | Err(_) => {
                let _ = child.kill();
                return None;
            }
        }
    }
    let mut text = String::new();
    child.stdout.take()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// `NVIDIA H200, 143771 MiB, 580.159.04`, a line a GPU → GPUs with their numbers, driver.
fn gpus(text: &str) -> (Option<String>, Option<String>) {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let mut driver = None;
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [name, memory, version] = fields[..] else { continue };
        driver = Some(version.to_owned());
        let gpu = format!("{name}, {memory}");
        match counts.iter_mut().find(|(known, _)| *known == gpu) {
            Some((_, count)) => *count += 1,
            None => counts.push((gpu, 1)),
        }
    }
    let texts: Vec<String> =
        counts.into_iter().map(|(gpu, count)| if count == 1 { gpu } else { format!("{count} × {gpu}") }).collect();
    ((!texts.is_empty()).then(|| texts.join("; ")), driver)
}

/// `Cuda compilation tools, release 13.0, V13.0.88` → `13.0 (V13.0.88)`.
fn release(text: &str) -> Option<String> {
    let (_, rest) = text.lines().find_map(|line| line.split_once("release "))?;
    let (release, version) = rest.split_once(", ")?;
    Some(format!("{release} ({})", version.trim()))
}

fn cpu(text: &str) -> Option<String> {
    let number = text.lines().filter(|line| line.starts_with("processor")).count();
    let (_, model) = text.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
    Some(format!("{number} × {}", model.trim()))
}

fn distribution(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tools_print_is_understood() {
        let one = "NVIDIA H200, 143771 MiB, 580.159.04\n";
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(gpus(one), (text("NVIDIA H200, 143771 MiB"), text("580.159.04")));
        assert_eq!(gpus(&one.repeat(8)).0, text("8 × NVIDIA H200, 143771 MiB"));
        assert_eq!(gpus("NVIDIA-SMI has failed\n"), (None, None));
        let nvcc = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\nBuild x\n";
        assert_eq!(release(nvcc), text("13.0 (V13.0.88)"));
        assert_eq!(cpu("processor : 0\nmodel name : A B\n\nprocessor : 1\nmodel name : A B\n"), text("2 × A B"));
        assert_eq!(distribution("ID=debian\nPRETTY_NAME=\"Debian 12\"\n"), text("Debian 12"));
    }

    #[test]
    fn a_tool_that_hangs_is_left_alone() {
        let begin = Instant::now();
        let child = start("sleep", &["60"]).unwrap();
        assert_eq!(output(child, begin + Duration::from_millis(50)), None);
        assert!(begin.elapsed() < Duration::from_secs(10));
        assert!(start("no-such-program-here", &[]).is_none());
    }
}
