//! What one record says, as plain types. Sizes are bytes, times ns, tokens unrounded.

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Let through, and the real API accepted it.
    Ok,
    /// Refused by the hook; the real API was not called.
    Denied,
    /// Let through, and the real API refused it.
    Failed,
}

impl Outcome {
    /// All outcomes, in the order in which counts are printed.
    pub const ALL: [Outcome; 3] = [Outcome::Ok, Outcome::Denied, Outcome::Failed];

    /// The word in a JSONL record.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Denied => "denied",
            Outcome::Failed => "failed",
        }
    }
}

/// A `dim3` of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dim3 {
    /// First dimension.
    pub x: u32,
    /// Second dimension.
    pub y: u32,
    /// Third dimension.
    pub z: u32,
}

/// What family an API belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Takes device memory.
    Alloc,
    /// Gives device memory back.
    Free,
    /// Starts work on the device.
    Launch,
    /// Gives back all of a device's memory at once.
    Reset,
    /// Takes pinned host memory or gives it back: recorded, counted nowhere.
    Host,
}

impl Kind {
    /// Whether what an API allocates belongs to no context, so that it outlives a reset of its device: physical memory
    /// that is made by itself, and what stream-ordered allocation takes from a pool. (Seen with CUDA 13.0 on an H200: both
    /// are still in use after `cuDevicePrimaryCtxReset`.)
    pub fn is_contextless(api: &str) -> bool {
        api == "cuMemCreate" || api.ends_with("Async") && Kind::of(api) == Kind::Alloc
    }

    /// The family of an API by its name; what is none of the others allocates.
    pub fn of(api: &str) -> Kind {
        let has = |part: &str| api.contains(part);
        if has("Launch") {
            Kind::Launch
        } else if has("Host") {
            Kind::Host
        } else if has("Reset") || has("PrimaryCtx") {
            Kind::Reset
        } else if has("Free") || has("Release") || has("Unmap") || has("Destroy") {
            Kind::Free
        } else {
            Kind::Alloc
        }
    }
}

/// When something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Wall clock, ns since 1970 UTC. The hook reads the wall clock once, at its start, and goes on from there by the
    /// monotonic clock, so a stepped clock never turns a log around.
    pub wall_ns: i64,
    /// `CLOCK_MONOTONIC`, ns.
    pub mono_ns: u64,
}

/// One intercepted call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call<'a> {
    /// Number among the calls of the process, from 1, without gaps. The order in which the accounts changed.
    pub seq: u64,
    /// The moment that `seq` was given: for a launch or a denial when it was decided, for an allocation or a free
    /// when it was settled. Never decreases with `seq`.
    pub at: Stamp,
    /// Process id.
    pub pid: u32,
    /// Kernel thread id.
    pub tid: u32,
    /// API as the course names it.
    pub api: &'a str,
    /// Symbol that the program called.
    pub sym: &'a str,
    /// Device ordinal, where the runtime could tell it.
    pub dev: Option<i32>,
    /// What was asked for and what the accounts were afterwards.
    pub op: Op<'a>,
    /// How it ended.
    pub outcome: Outcome,
    /// What the program got, a `cudaError_t`.
    pub ret: i32,
    /// Time inside the real call, ns; 0 for a denial. Of a launch whose `hook_ns` was not measured it counts from the
    /// program's call, some 20 ns before the real one; more before a kernel's first launch, whose name is looked up, and
    /// where there are several devices to ask for.
    pub real_ns: u64,
    /// Time that the hook added, ns, where it was measured. Where records are written before the call returns: of all
    /// calls, all but the write of this record itself. Where they are handed to a thread that writes them: the time from
    /// the program's call to the real one, or to the refusal; settling the accounts and handing the record over come on
    /// top. There it is measured of every call but launches, and of each thread's every 16th launch, for a reading of
    /// the clock is the largest part of what a launch costs.
    pub hook_ns: Option<u64>,
}

/// The part of a [`Call`] that differs by [`Kind`], as it is written.
pub type Op<'a> = Operation<&'a str>;

/// The same with a kernel's name of type `K`: a text, or whatever stands for one until it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation<K> {
    /// Device memory asked for.
    Alloc {
        /// Bytes charged.
        size: u64,
        /// Address; present when the call succeeded (null for a request of 0 bytes).
        ptr: Option<u64>,
        /// Live bytes of the process after the call.
        total: u64,
        /// Bytes that other calls had reserved at that moment.
        pending: u64,
        /// Why it was denied, where it was.
        refusal: Option<Refusal>,
    },
    /// Device memory given back.
    Free {
        /// Address.
        ptr: u64,
        /// Bytes subtracted; absent when the hook had not seen this address allocated.
        size: Option<u64>,
        /// Live bytes of the process after the call.
        total: u64,
    },
    /// A device reset: everything that the process held there is gone.
    Reset {
        /// Bytes subtracted.
        size: u64,
        /// Live bytes of the process after the call.
        total: u64,
    },
    /// Host memory asked for.
    HostAlloc {
        /// Bytes.
        size: u64,
        /// Address; present when the call succeeded.
        ptr: Option<u64>,
        /// Live bytes of the process on devices, which the call does not change.
        total: u64,
    },
    /// Host memory given back.
    HostFree {
        /// Address.
        ptr: u64,
        /// Live bytes of the process on devices, which the call does not change.
        total: u64,
    },
    /// Work started.
    Launch {
        /// Blocks.
        grid: Dim3,
        /// Threads of a block.
        block: Dim3,
        /// Dynamic shared memory, bytes.
        shmem: u64,
        /// Stream handle.
        stream: u64,
        /// Mangled kernel name, where known.
        kernel: Option<K>,
        /// Level after the decision; absent without a rate limit.
        tokens: Option<f64>,
        /// Time spent waiting for the token, ns.
        wait_ns: u64,
        /// Small enough to pass without a token.
        bypass: bool,
    },
    /// A whole graph started; one token, whatever is in it.
    Graph {
        /// Handle of the executable graph.
        graph: u64,
        /// Stream handle.
        stream: u64,
        /// Level after the decision; absent without a rate limit.
        tokens: Option<f64>,
        /// Time spent waiting for the token, ns.
        wait_ns: u64,
    },
}

impl<K> Operation<K> {
    /// The family of the call.
    pub const fn kind(&self) -> Kind {
        match self {
            Operation::Alloc { .. } => Kind::Alloc,
            Operation::Free { .. } => Kind::Free,
            Operation::Launch { .. } | Operation::Graph { .. } => Kind::Launch,
            Operation::Reset { .. } => Kind::Reset,
            Operation::HostAlloc { .. } | Operation::HostFree { .. } => Kind::Host,
        }
    }

    /// The same with the kernel's name, if there is one, made another.
    pub fn map_kernel<N>(self, name: impl FnOnce(K) -> N) -> Operation<N> {
        match self {
            Operation::Alloc { size, ptr, total, pending, refusal } => {
                Operation::Alloc { size, ptr, total, pending, refusal }
            }
            Operation::Free { ptr, size, total } => Operation::Free { ptr, size, total },
            Operation::Reset { size, total } => Operation::Reset { size, total },
            Operation::HostAlloc { size, ptr, total } => Operation::HostAlloc { size, ptr, total },
            Operation::HostFree { ptr, total } => Operation::HostFree { ptr, total },
            Operation::Launch { grid, block, shmem, stream, kernel, tokens, wait_ns, bypass } => {
                Operation::Launch { grid, block, shmem, stream, kernel: kernel.map(name), tokens, wait_ns, bypass }
            }
            Operation::Graph { graph, stream, tokens, wait_ns } => Operation::Graph { graph, stream, tokens, wait_ns },
        }
    }

    /// Time spent waiting for a token, ns.
    pub const fn wait_ns(&self) -> u64 {
        match self {
            Operation::Launch { wait_ns, .. } | Operation::Graph { wait_ns, .. } => *wait_ns,
            Operation::Alloc { .. }
            | Operation::Free { .. }
            | Operation::Reset { .. }
            | Operation::HostAlloc { .. }
            | Operation::HostFree { .. } => 0,
        }
    }
}

/// The account whose quota had no room for an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The process's.
    Process,
    /// That of one device of the process.
    Device,
    /// The one that all processes of a job share.
    Job,
    /// Nobody's: the job's account could not be reached, and a quota that can't be asked must hold.
    Unreachable,
}

/// Why an allocation was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose quota refused.
    pub scope: Scope,
    /// That quota, bytes.
    pub quota: u64,
    /// Live bytes of that account; the process's own where the job's could not be reached.
    pub total: u64,
    /// Bytes reserved there.
    pub pending: u64,
}

/// What happens to a launch without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It is refused at once.
    Deny,
    /// It waits, first come first served.
    Wait,
}

impl Policy {
    /// The word in a setting and in the `start` record.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Deny => "deny",
            Policy::Wait => "wait",
        }
    }
}

/// Beginning of a process's part of the event file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start<'a> {
    /// Id that all processes of a job share.
    pub run: &'a str,
    /// When the record was made.
    pub at: Stamp,
    /// Process id.
    pub pid: u32,
    /// Its parent's.
    pub ppid: u32,
    /// Path of the program, as bytes of the file system.
    pub exe: &'a [u8],
    /// Its arguments, NUL-separated as in `/proc/self/cmdline`.
    pub cmd: &'a [u8],
    /// Host name.
    pub host: &'a [u8],
    /// Version of the hook.
    pub hook: &'a str,
    /// Quota, bytes: the process's, or the one it shares.
    pub quota_bytes: Option<u64>,
    /// Quotas of single devices: number and bytes.
    pub device_quotas: &'a [(u32, u64)],
    /// The name under which quota and bucket are shared, and the id of the job that does.
    pub shared: Option<(&'a str, u64)>,
    /// Rate, tokens/s, and capacity, tokens.
    pub bucket: Option<(f64, f64)>,
    /// What happens without a token.
    pub policy: Policy,
}

/// End of a process's part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End<'a> {
    /// When the record was made.
    pub at: Stamp,
    /// Process id.
    pub pid: u32,
    /// Calls by API: ok, denied, failed (the order of [`Outcome::ALL`]).
    pub calls: &'a [(&'a str, [u64; 3])],
    /// Highest live bytes.
    pub peak_bytes: u64,
    /// Live bytes now.
    pub live_bytes: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// Calls that took memory or started work past the hook, by symbol of the driver. `None`: the driver was not
    /// watched.
    pub uncounted: Option<&'a [(&'a str, u64)]>,
}
