//! Launches.

use hook_event::{Dim3, Operation};

use super::{Timed, Way, current_device, note_denial, tell};
use crate::api::{Entry, Layer};
use crate::config::COURSE_DENY_ERROR;
use crate::ffi::boundary::Real;
use crate::ffi::os;
use crate::ffi::types::{CudaError, LAUNCH_FAILED};
use crate::names::{self, Name};
use crate::policy::{LaunchDecision, Launched};
use crate::state::State;

/// What is launched, as far as it is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A kernel.
    Kernel {
        shape: Shape,
        /// Dynamic shared memory, bytes.
        shmem: u64,
        /// Host stub or kernel handle.
        func: u64,
    },
    /// A graph, by its handle.
    Graph(u64),
}

/// Grid and block, in words as wide as a processor reads them. Read in other pieces than they were written in, as two
/// times three numbers are, they would have to go through memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape([u64; 3]);

impl Shape {
    #[inline(always)]
    pub(crate) fn new(grid: Dim3, block: Dim3) -> Shape {
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Shape([word(grid.x, grid.y), word(grid.z, block.x), word(block.y, block.z)])
    }

    #[inline(always)]
    fn grid_and_block(self) -> (Dim3, Dim3) {
        let Shape([a, b, c]) = self;
        // The lower half, then the upper.
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let ((x, y), (z, block_x), (block_y, block_z)) = (halves(a), halves(b), halves(c));
        (Dim3 { x, y, z }, Dim3 { x: block_x, y: block_y, z: block_z })
    }
}

impl Work {
    /// Whether `CUDA_CORE_BYPASS=prefill` lets it pass without a token: at most 2 blocks of at least 256 threads.
    fn is_prefill(&self) -> bool {
        let count = |Dim3 { x, y, z }: Dim3| u128::from(x).saturating_mul(y.into()).saturating_mul(z.into());
        let Work::Kernel { shape, .. } = *self else { return false };
        let (grid, block) = shape.grid_and_block();
        count(grid) <= 2 && count(block) >= 256
    }
}

/// A launch.
#[inline(always)]
pub(crate) fn launch(entry: Entry, work: Work, stream: u64, real: &mut Real<'_>) -> CudaError {
    // Apart from the start, so that each has code of its own without the other's fields.
    match work {
        Work::Kernel { shape, shmem, func } => launch_as(entry, work, real, |tokens, wait_ns, bypass| {
            let (grid, block) = shape.grid_and_block();
            Operation::Launch { grid, block, shmem, stream, kernel: names::of(func), tokens, wait_ns, bypass }
        }),
        Work::Graph(graph) => {
            launch_as(entry, work, real, |tokens, wait_ns, _| Operation::Graph { graph, stream, tokens, wait_ns })
        }
    }
}

#[inline(always)]
fn launch_as(
    entry: Entry,
    work: Work,
    real: &mut Real<'_>,
    describe: impl Fn(Option<f64>, u64, bool) -> Operation<Name>,
) -> CudaError {
    let mut way = Way::enter_launch(entry, real);
    let state = way.state;
    let mut wait_ns = 0;
    let bypass = state.config.bypass && work.is_prefill();
    let decision = if bypass {
        LaunchDecision::Pass(state.limiter.launch_free(way.entered_ns))
    } else {
        state.limiter.launch(way.entered_ns)
    };
    let (launched, timed) = match decision {
        LaunchDecision::Denied(launched) => {
            let code = deny_error(state, entry);
            note_denial(&way, code);
            (launched, Timed::denied(code))
        }
        LaunchDecision::Pass(launched) => {
            if let Some(ret) = way.forward_in_place(&launched, || describe(launched.tokens, 0, bypass)) {
                return ret;
            }
            (launched, way.forward_launch(launched.promptly))
        }
        LaunchDecision::Wait(due_ns) => {
            os::sleep_until(due_ns);
            let woken = way.clock.now_ns();
            wait_ns = woken.saturating_sub(way.entered_ns);
            (state.limiter.launch_after_wait(woken), way.forward())
        }
    };
    tell(state);
    let Launched { seq, at_ns, tokens, .. } = launched;
    way.record(|| current_device(entry), seq, at_ns, describe(tokens, wait_ns, bypass), timed);
    timed.ret
}

/// What a launch without a token returns.
fn deny_error(state: &State, entry: Entry) -> CudaError {
    state.config.deny_error.unwrap_or(match entry.layer() {
        Layer::Runtime => COURSE_DENY_ERROR,
        Layer::Driver => LAUNCH_FAILED,
    })
}
