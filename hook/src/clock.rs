//! Time, as the rest of the hook sees it.

use hook_event::Stamp;

use crate::ffi::os;

/// Monotonic time, ns.
pub(crate) fn now_ns() -> u64 {
    os::clock_ns(os::Clock::Monotonic)
}

/// Ties the monotonic clock to the wall clock, once: a clock that is set later never turns a log around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    wall_ns: i64,
    mono_ns: u64,
}

impl Anchor {
    /// Both clocks now.
    pub(crate) fn now() -> Self {
        let mono_ns = now_ns();
        Anchor { wall_ns: i64::try_from(os::clock_ns(os::Clock::Wall)).unwrap_or(i64::MAX), mono_ns }
    }

    /// The moment of the anchor itself, when the process's accounts were opened.
    pub(crate) fn origin(&self) -> Stamp {
        self.stamp(self.mono_ns)
    }

    /// The stamp of a monotonic moment.
    pub(crate) fn stamp(&self, mono_ns: u64) -> Stamp {
        let since = i128::from(mono_ns).saturating_sub(self.mono_ns.into());
        let wall = i128::from(self.wall_ns).saturating_add(since);
        Stamp { wall_ns: i64::try_from(wall).unwrap_or(i64::MAX), mono_ns }
    }
}
