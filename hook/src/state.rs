//! The one process-wide state: settings, accounts, sinks.
//!
//! It is made on first use (the load-time constructor is the first use in a normal program) and lives for ever. A
//! forked child gets a fresh one on its first use: the parent's device memory and contexts are not the child's, and a
//! lock that some thread of the parent held at the fork is left behind with the old state.

use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::clock::{self, Anchor};
use crate::config::{Config, RUN_VARIABLE, Target};
use crate::ffi::{os, output, shm};
use crate::policy::{Limiter, Limits};
use crate::sink::Sinks;
use crate::vmm::Vmm;

/// Everything the process's calls share.
pub(crate) struct State {
    /// What was asked for.
    pub(crate) config: &'static Config,
    /// Who may.
    pub(crate) limiter: Limiter,
    /// Who holds physical memory that was made by itself.
    pub(crate) vmm: Vmm,
    /// Where records go.
    pub(crate) sinks: Sinks,
    /// Which clock times mean what.
    pub(crate) anchor: Anchor,
    /// Whether calls are recorded anywhere.
    pub(crate) records: bool,
    /// Whether anybody wants to know the time of a call.
    pub(crate) times: bool,
    /// The process; a child after a fork has its own state and so its own number.
    pub(crate) pid: u32,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());
static CONFIG: OnceLock<Config> = OnceLock::new();

/// The state, made now if it is not there.
#[inline(always)]
pub(crate) fn get() -> &'static State {
    existing().unwrap_or_else(make)
}

#[cold]
fn make() -> &'static State {
    let fresh: &'static mut State = Box::leak(Box::new(State::new()));
    match STATE.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        // Another thread was faster; ours has done nothing that shows, and is left lying.
        Err(other) => os::leaked_ref(other).unwrap_or(fresh),
    }
}

/// The state if some call has made it.
#[inline(always)]
pub(crate) fn existing() -> Option<&'static State> {
    os::leaked_ref(STATE.load(Ordering::Acquire))
}

/// In a forked child, before anything else runs there. Nothing but such stores is safe at that moment.
pub(crate) fn forget() {
    clock::forget();
    if let Some(parents) = existing() {
        parents.sinks.disown();
    }
    STATE.store(std::ptr::null_mut(), Ordering::Release);
}

/// Settings, read once: a program may clear its environment later. Banner and warnings are printed with the reading.
fn config() -> &'static Config {
    CONFIG.get_or_init(|| {
        // Whoever comes first, this library's constructor or another's that calls CUDA already.
        output::look_at_outputs();
        let (mut config, warnings) = Config::read(os::environment, os::environment_names());
        // Paths are meant from where the program was started, wherever it goes later.
        for target in [&mut config.log, &mut config.events] {
            if let Target::File(path) = target
                && path.first() != Some(&b'/')
                && let Some(mut absolute) = os::working_directory()
            {
                absolute.push(b'/');
                absolute.append(path);
                *path = absolute;
            }
        }
        if config.run.is_none() {
            let id = format!("{:x}-{:x}", os::clock_ns(os::Clock::Wall), os::process_id());
            os::set_environment(RUN_VARIABLE, &id);
            config.run = Some(id);
        }
        crate::sink::banner(&config, &warnings);
        config
    })
}

impl State {
    fn new() -> State {
        let config = config();
        let limits = Limits {
            quota: config.quota_bytes,
            device_quotas: &config.device_quotas,
            bucket: config.bucket,
            policy: config.policy,
        };
        let mut limiter = Limiter::new(limits, clock::now_ns());
        if let Some(name) = &config.shared
            && let Ok(path) = CString::new(shm::path_of(name))
        {
            limiter = limiter.sharing(name, path, shm::new_id, config.settings());
        }
        let sinks = Sinks::new(config);
        State {
            config,
            records: sinks.are_on(),
            times: sinks.are_on() || config.bucket.is_some() || config.shared.is_some(),
            limiter,
            vmm: Vmm::default(),
            sinks,
            anchor: Anchor::now(),
            pid: os::process_id(),
        }
    }
}
