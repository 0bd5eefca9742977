//! Logs to measure with: what a hook writes of a training program under a quota and a rate, the same every time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use hook_event::course::{self, LineBuf};
use hook_event::json::{self, RecordBuf};
use hook_event::{Call, Dim3, End, Op, Outcome, Policy, Refusal, Scope, Stamp, Start};

const QUOTA: u64 = 8 << 30;
const RATE: f64 = 3800.0;
const CAPACITY: f64 = 50.0;

/// Calls of one process; then the next begins.
const CALLS: u64 = 1_000_000;

/// The launches of one training step of `tests/data/torch_launches_denied_h200.log`, in order: grid, block, kernel.
const STEP: [([u32; 3], [u32; 3], usize); 15] = [
    ([16, 1, 1], [128, 1, 1], 0),
    ([16, 1, 1], [128, 1, 1], 0),
    ([2, 1, 1], [32, 4, 1], 2),
    ([64, 1, 1], [128, 1, 1], 0),
    ([16, 1, 1], [32, 8, 1], 2),
    ([32, 1, 1], [128, 1, 1], 0),
    ([4, 1, 1], [32, 4, 1], 2),
    ([8, 1, 1], [512, 1, 1], 3),
    ([32, 1, 1], [128, 1, 1], 1),
    ([64, 1, 1], [32, 4, 1], 2),
    ([16, 1, 1], [128, 1, 1], 1),
    ([16, 1, 1], [128, 1, 1], 0),
    ([1, 1, 1], [512, 1, 1], 3),
    ([1, 1, 1], [128, 1, 1], 1),
    ([64, 1, 1], [128, 1, 1], 0),
];

const KERNELS: [&str; 4] = [
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
    "_Z12dummy_kernelPfi",
    "_ZN7cutlass7Kernel2I66cutlass_80_simt_sgemm_128x64_8x5_nn_align1EEvNT_6ParamsE",
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_10NormTwoOpsIffEEjfLi4ELi4EEEEEvT1_",
];

/// What a log holds, by which every reader's answer is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    pub(crate) lines: u64,
    pub(crate) calls: u64,
    pub(crate) launches: u64,
    pub(crate) denied: u64,
    pub(crate) bytes: u64,
}

/// Numbers without a pattern (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) * below) >> 32
    }
}

/// Which form is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Lines,
    Records,
}

/// Writes about `lines` lines of a hook's log to `path`.
pub(crate) fn write(path: &Path, form: Form, lines: u64) -> io::Result<Truth> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut truth = Truth::default();
    let mut now = 512_345_678_901u64;
    while truth.lines < lines {
        let pid = 1000 + (truth.lines / CALLS) as u32;
        process(&mut out, form, pid, lines - truth.lines, &mut now, &mut random, &mut truth)?;
    }
    out.flush()?;
    Ok(truth)
}

fn process(
    out: &mut impl Write,
    form: Form,
    pid: u32,
    most: u64,
    now: &mut u64,
    random: &mut Random,
    truth: &mut Truth,
) -> io::Result<()> {
    let (mut line, mut record) = (LineBuf::new(), RecordBuf::new());
    let at = |now: u64| Stamp { wall_ns: 1_798_700_000_000_000_000 + now as i64, mono_ns: now };
    let begin = truth.lines;
    match form {
        Form::Lines => {
            course::write_quota(&mut line, Some(QUOTA));
            course::write_rate(&mut line, Some((RATE, CAPACITY)));
            put(out, line.as_bytes(), 2, truth)?;
        }
        Form::Records => {
            json::write_start(
                &mut record,
                &Start {
                    run: "bench",
                    at: at(*now),
                    pid,
                    ppid: 1,
                    exe: b"/opt/python/bin/python3",
                    cmd: b"python3\0train.py\0",
                    host: b"gpu01",
                    hook: "0.1.0",
                    quota_bytes: Some(QUOTA),
                    device_quotas: &[],
                    shared: None,
                    bucket: Some((RATE, CAPACITY)),
                    policy: Policy::Deny,
                },
            );
            put(out, record.as_bytes(), 1, truth)?;
        }
    }
    let (mut tokens, mut total) = (CAPACITY, 0u64);
    let mut blocks: VecDeque<(u64, u64)> = VecDeque::new();
    let mut next_ptr = 0x7f2c_c600_0000u64;
    let mut counts = [[0u64; 3]; 3];
    let mut launches = 0;
    for seq in 1..=CALLS {
        // Other programs' lines stand between, as in a job's stderr.
        if form == Form::Lines && random.next(500) == 0 {
            put(out, format!("step {seq}: loss 0.697392, 31.2 it/s\n").as_bytes(), 1, truth)?;
        }
        let room = most.saturating_sub(truth.lines - begin);
        if room <= u64::from(form == Form::Records) {
            break;
        }
        let passed = 20_000 + random.next(180_000);
        *now += passed;
        tokens = (tokens + passed as f64 * RATE / 1e9).min(CAPACITY);
        let (api, sym, op, outcome, ret) = match random.next(100) {
            0..=9 if total < QUOTA => {
                let size = 512 << random.next(18);
                let refusal = Some(Refusal { scope: Scope::Process, quota: QUOTA, total, pending: 0 });
                let wanted = if random.next(20) == 0 { QUOTA } else { size };
                if total + wanted > QUOTA {
                    let op = Op::Alloc { size: wanted, ptr: None, total, pending: 0, refusal };
                    ("cudaMalloc", "cudaMalloc", op, Outcome::Denied, 2)
                } else {
                    next_ptr += wanted.next_multiple_of(512);
                    total += wanted;
                    blocks.push_back((next_ptr, wanted));
                    let op = Op::Alloc { size: wanted, ptr: Some(next_ptr), total, pending: 0, refusal };
                    ("cudaMalloc", "cudaMalloc", op, Outcome::Ok, 0)
                }
            }
            10..=18 if !blocks.is_empty() => {
                let index = random.next(blocks.len() as u64) as usize;
                let (ptr, size) = blocks.swap_remove_back(index).unwrap_or_default();
                total -= size;
                ("cudaFree", "cudaFree", Op::Free { ptr, size: Some(size), total }, Outcome::Ok, 0)
            }
            _ => {
                let (grid, block, kernel) = STEP[launches % STEP.len()];
                launches += 1;
                let dim = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
                let granted = tokens >= 1.0;
                tokens -= f64::from(u8::from(granted));
                let op = Op::Launch {
                    grid: dim(grid),
                    block: dim(block),
                    shmem: 0,
                    stream: 0,
                    kernel: Some(KERNELS[kernel]),
                    tokens: Some(tokens),
                    wait_ns: 0,
                    bypass: false,
                };
                let (outcome, ret) = if granted { (Outcome::Ok, 0) } else { (Outcome::Denied, 4) };
                ("cudaLaunchKernel", "__cudaLaunchKernel", op, outcome, ret)
            }
        };
        let api_index =
            ["cudaMalloc", "cudaFree", "cudaLaunchKernel"].iter().position(|name| *name == api).unwrap_or(0);
        counts[api_index][outcome as usize] += 1;
        truth.calls += 1;
        truth.launches += u64::from(api_index == 2);
        truth.denied += u64::from(outcome == Outcome::Denied);
        let real_ns = if outcome == Outcome::Denied { 0 } else { 3000 + random.next(4000) };
        // Batched launches have it of one in sixteen.
        let hook_ns = (!matches!(op, Op::Launch { .. }) || seq % 16 == 0).then(|| 200 + random.next(300));
        let call =
            Call { seq, at: at(*now), pid, tid: pid, api, sym, dev: Some(0), op, outcome, ret, real_ns, hook_ns };
        match form {
            Form::Lines => {
                line.truncate(0);
                course::write_call(&mut line, &call);
                put(out, line.as_bytes(), 1, truth)?;
            }
            Form::Records => {
                record.truncate(0);
                json::write_call(&mut record, &call);
                put(out, record.as_bytes(), 1, truth)?;
            }
        }
    }
    if form == Form::Records {
        record.truncate(0);
        let calls = [("cudaMalloc", counts[0]), ("cudaFree", counts[1]), ("cudaLaunchKernel", counts[2])];
        let end =
            End { at: at(*now), pid, calls: &calls, peak_bytes: 0, live_bytes: total, lost: 0, uncounted: Some(&[]) };
        json::write_end(&mut record, &end);
        put(out, record.as_bytes(), 1, truth)?;
    }
    Ok(())
}

fn put(out: &mut impl Write, bytes: &[u8], lines: u64, truth: &mut Truth) -> io::Result<()> {
    truth.lines += lines;
    truth.bytes += bytes.len() as u64;
    out.write_all(bytes)
}
