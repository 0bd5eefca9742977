//! Which calls the outputs are about. The analysis itself is always of whole processes, so that what stays of it is
//! right: a call's live bytes and its time are those that it had among all calls.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat};
use glob::Pattern;
use hook_event::Outcome;

use crate::analysis::timeline::{TimeBase, Timeline};
use crate::error::Error;
use crate::events::{Columns, Events, Process, Row};

/// A choice of calls: all that is given must hold, of several values of one kind any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Names of APIs.
    pub apis: Vec<Name>,
    /// Outcomes.
    pub outcomes: Vec<Outcome>,
    /// Process ids.
    pub pids: Vec<u32>,
    /// Not before.
    pub from: Option<Moment>,
    /// Not after.
    pub to: Option<Moment>,
    /// Names of kernels, mangled as the log has them.
    pub kernels: Vec<Name>,
}

/// A name, or a pattern with `*`, `?` or `[…]` that it fits as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    text: String,
    pattern: Option<Pattern>,
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pattern = if text.contains(['*', '?', '[']) {
            Some(Pattern::new(text).map_err(|why| format!("`{text}` is no pattern: {why}"))?)
        } else {
            None
        };
        Ok(Name { text: text.to_owned(), pattern })
    }
}

impl Name {
    fn is(&self, name: &str) -> bool {
        self.pattern.as_ref().map_or_else(|| name == self.text, |pattern| pattern.matches(name))
    }

    fn is_in(&self, name: &str) -> bool {
        self.pattern.as_ref().map_or_else(|| name.contains(&self.text), |pattern| pattern.matches(name))
    }
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// Seconds since the first call of the process, as in column `t_s`.
    Seconds(f64),
    /// Wall clock, ns since 1970.
    Wall(i64),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('s').unwrap_or(text).trim_end();
        if let Some(seconds) = number.parse().ok().filter(|seconds: &f64| seconds.is_finite()) {
            return Ok(Moment::Seconds(seconds));
        }
        let wall = DateTime::parse_from_rfc3339(text).ok().and_then(|time| time.timestamp_nanos_opt());
        wall.map(Moment::Wall).ok_or_else(|| {
            format!("`{text}` is neither seconds (`1.5`) nor a time with its zone (`2026-11-30T07:42:11Z`)")
        })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Moment::Seconds(seconds) => write!(f, "{seconds} s"),
            Moment::Wall(ns) => {
                f.write_str(&DateTime::from_timestamp_nanos(ns).to_rfc3339_opts(SecondsFormat::AutoSi, true))
            }
        }
    }
}

/// As a person may read it: `api=cudaMalloc outcome=denied`.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Destructured whole: what is new can't be forgotten.
        let Filter { apis, outcomes, pids, from, to, kernels } = self;
        let texts = |names: &[Name]| names.iter().map(|name| name.text.clone()).collect::<Vec<_>>();
        let outcomes: Vec<String> = outcomes.iter().map(|outcome| outcome.name().to_owned()).collect();
        let moment = |moment: &Option<Moment>| moment.iter().map(Moment::to_string).collect();
        let parts = [
            ("api", texts(apis)),
            ("outcome", outcomes),
            ("pid", pids.iter().map(u32::to_string).collect()),
            ("from", moment(from)),
            ("to", moment(to)),
            ("kernel", texts(kernels)),
        ];
        let given = parts.iter().filter(|(_, values)| !values.is_empty());
        let given: Vec<String> = given.map(|(name, values)| format!("{name}={}", values.join(","))).collect();
        f.write_str(&given.join(" "))
    }
}

impl Filter {
    /// Whether it lets everything through.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether it chooses among the calls of a process.
    pub fn is_of_calls(&self) -> bool {
        !Filter { pids: Vec::new(), ..self.clone() }.is_empty()
    }

    /// Whether calls without a row, of which the API alone is known, may be among the chosen.
    pub(crate) fn is_of_apis_alone(&self) -> bool {
        Filter { pids: Vec::new(), apis: Vec::new(), ..self.clone() }.is_empty()
    }

    /// Whether an API of this name is among the chosen.
    pub(crate) fn has_api(&self, name: &str) -> bool {
        self.apis.is_empty() || self.apis.iter().any(|api| api.is(name))
    }

    /// Leaves the processes that it chooses, with all their calls.
    ///
    /// # Errors
    /// A process id was asked for that the logs don't have.
    pub fn choose_processes(&self, events: &mut Events) -> Result<(), Error> {
        if self.pids.is_empty() {
            return Ok(());
        }
        let is_there = |pid: &u32| events.processes.iter().any(|process| process.pid == Some(*pid));
        if let Some(&missing) = self.pids.iter().find(|pid| !is_there(pid)) {
            let mut there: Vec<u32> = events.processes.iter().filter_map(|process| process.pid).collect();
            there.sort_unstable();
            there.dedup();
            return Err(Error::NoSuchProcess { pid: missing, there });
        }
        let mut calls = Columns::default();
        let mut processes: Vec<Process> = Vec::new();
        let all = std::mem::take(&mut events.processes);
        let dropped = all.iter().any(|process| !self.has_process(process));
        for mut process in all.into_iter().filter(|process| self.has_process(process)) {
            let from = calls.len();
            for i in process.rows.clone() {
                calls.push(Row { process: processes.len() as u32, ..events.calls.row(i) });
            }
            process.rows = from..calls.len();
            if dropped {
                // What all of a job held can't be told by some of its processes.
                process.job = None;
            }
            processes.push(process);
        }
        (events.calls, events.processes) = (calls, processes);
        Ok(())
    }

    fn has_process(&self, process: &Process) -> bool {
        process.pid.is_some_and(|pid| self.pids.contains(&pid))
    }

    /// Of each call whether it is chosen; `timelines` are those of the processes.
    ///
    /// # Errors
    /// A time was given and no call has one of that kind.
    pub fn choose_calls(&self, events: &Events, timelines: &[Timeline]) -> Result<Vec<bool>, Error> {
        let calls = &events.calls;
        let mut chosen = vec![false; calls.len()];
        let moments = [self.from, self.to];
        let (mut timed, mut stamped) = (false, false);
        for (process, timeline) in events.processes.iter().zip(timelines) {
            for (position, i) in process.rows.clone().enumerate() {
                let at = timeline.at.get(position).copied().filter(|_| timeline.base != TimeBase::Sequence);
                let wall = calls.wall_ns[i];
                (timed, stamped) = (timed || at.is_some(), stamped || wall.is_some());
                let after = |moment| match moment {
                    Moment::Seconds(seconds) => at.is_some_and(|at| at >= seconds),
                    Moment::Wall(ns) => wall.is_some_and(|wall| wall >= ns),
                };
                let before = |moment| match moment {
                    Moment::Seconds(seconds) => at.is_some_and(|at| at <= seconds),
                    Moment::Wall(ns) => wall.is_some_and(|wall| wall <= ns),
                };
                chosen[i] = self.has_api(events.names.text(calls.api[i]))
                    && (self.outcomes.is_empty() || self.outcomes.contains(&calls.outcome[i]))
                    && self.from.is_none_or(after)
                    && self.to.is_none_or(before)
                    && self.has_kernel(calls.kernel[i].map(|id| events.names.text(id)));
            }
        }
        let needs = |wall: bool| moments.iter().flatten().any(|moment| matches!(moment, Moment::Wall(_)) == wall);
        let (lacks_times, lacks_stamps) = (needs(false) && !timed, needs(true) && !stamped);
        if !calls.is_empty() && (lacks_times || lacks_stamps) {
            return Err(Error::NoTimes { wall: !lacks_times });
        }
        Ok(chosen)
    }

    fn has_kernel(&self, kernel: Option<&str>) -> bool {
        self.kernels.is_empty() || kernel.is_some_and(|kernel| self.kernels.iter().any(|name| name.is_in(kernel)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::timeline;
    use hook_event::Kind;

    /// Two processes: allocations at 0, 1 and 2 s of one, a launch of the other.
    fn events() -> Events {
        let mut events = Events::default();
        let (malloc, launch) = (events.names.id("cudaMalloc"), events.names.id("cudaLaunchKernel"));
        let kernel = events.names.id("_Z12dummy_kernelPfi");
        for (second, outcome) in [(0, Outcome::Ok), (1, Outcome::Denied), (2, Outcome::Failed)] {
            let row = Row::bare(0, 1, malloc, Kind::Alloc, outcome);
            let ns = second * 1_000_000_000;
            events.calls.push(Row { mono_ns: Some(ns), wall_ns: Some(ns as i64), ..row });
        }
        let row = Row::bare(0, 1, launch, Kind::Launch, Outcome::Ok);
        events.calls.push(Row { process: 1, kernel: Some(kernel), ..row });
        let process = |pid, rows| Process { pid: Some(pid), rows, job: Some(9), ..Process::default() };
        events.processes = vec![process(7, 0..3), process(8, 3..4)];
        events
    }

    fn chosen(filter: &Filter) -> Result<Vec<bool>, Error> {
        let events = events();
        let timelines: Vec<_> = events.processes.iter().map(|p| timeline::of(&events.calls, p)).collect();
        filter.choose_calls(&events, &timelines)
    }

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn calls_are_chosen_by_every_kind_of_value() {
        let of = |filter: Filter| chosen(&filter).unwrap().iter().map(|&is| u8::from(is)).collect::<Vec<_>>();
        let all = Filter::default();
        assert_eq!(of(Filter { apis: names(&["cudaMalloc"]), ..all.clone() }), [1, 1, 1, 0]);
        assert_eq!(of(Filter { apis: names(&["cudaMall"]), ..all.clone() }), [0, 0, 0, 0], "a name is whole");
        assert_eq!(of(Filter { apis: names(&["*Kernel", "nothing"]), ..all.clone() }), [0, 0, 0, 1]);
        assert_eq!(of(Filter { outcomes: vec![Outcome::Ok, Outcome::Failed], ..all.clone() }), [1, 0, 1, 1]);
        assert_eq!(of(Filter { kernels: names(&["dummy"]), ..all.clone() }), [0, 0, 0, 1]);
        assert_eq!(of(Filter { kernels: names(&["dummy*"]), ..all.clone() }), [0, 0, 0, 0], "a pattern is whole");
        let from = Some(Moment::Seconds(1.0));
        assert_eq!(of(Filter { from, ..all.clone() }), [0, 1, 1, 0]);
        let to = Some("1970-01-01T01:00:01+01:00".parse().unwrap());
        assert_eq!(of(Filter { from, to, ..all }), [0, 1, 0, 0]);
    }

    #[test]
    fn processes_are_chosen_whole() {
        let mut some = events();
        Filter { pids: vec![8], ..Filter::default() }.choose_processes(&mut some).unwrap();
        assert_eq!((some.processes.len(), some.calls.len(), some.calls.process[0]), (1, 1, 0));
        assert_eq!((some.processes[0].rows.clone(), some.processes[0].job), (0..1, None));
        let error = Filter { pids: vec![9], ..Filter::default() }.choose_processes(&mut events()).unwrap_err();
        assert!(error.to_string().contains("7, 8"), "{error}");
    }

    #[test]
    fn times_that_a_log_does_not_have_are_an_error() {
        let mut none = events();
        none.calls.mono_ns.fill(None);
        none.calls.wall_ns.fill(None);
        let timelines: Vec<_> = none.processes.iter().map(|p| timeline::of(&none.calls, p)).collect();
        for moment in ["1.5", "2026-11-30T07:42:11Z"] {
            let filter = Filter { from: Some(moment.parse().unwrap()), ..Filter::default() };
            assert!(filter.choose_calls(&none, &timelines).is_err(), "{moment}");
        }
    }

    #[test]
    fn moments_and_patterns_are_read_strictly_and_shown_as_given() {
        assert_eq!("1.5s".parse(), Ok(Moment::Seconds(1.5)));
        assert_eq!("-1".parse(), Ok(Moment::Seconds(-1.0)));
        for text in ["", "abc", "nan", "1e999", "2026-11-30", "2026-11-30T07:42:11"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
        assert!("a[".parse::<Name>().is_err());
        let filter = Filter {
            apis: names(&["cuda*", "cuInit"]),
            outcomes: vec![Outcome::Denied],
            to: Some("2026-11-30T07:42:11.5Z".parse().unwrap()),
            ..Filter::default()
        };
        assert_eq!(filter.to_string(), "api=cuda*,cuInit outcome=denied to=2026-11-30T07:42:11.500Z");
        assert!(filter.is_of_calls() && !Filter { pids: vec![1], ..Filter::default() }.is_of_calls());
    }
}
