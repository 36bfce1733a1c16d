//! The costs of programs and the load of the machine.

use std::{fmt, fs, time::Duration};

use tests::{Failure, machine};

use super::subject::Subject;

/// Processor time of the agent's programs and of the container runtime.
#[derive(Clone, Copy)]
pub struct Taken {
    agent: Duration,
    runtime: Duration,
}

impl Taken {
    /// Up to now.
    pub fn now(subject: &Subject) -> Self {
        let sum = |pids: Vec<i32>| {
            let times = pids.into_iter().filter_map(machine::processor_time);
            times.sum()
        };
        Self {
            agent: sum(subject.agents()),
            runtime: sum(subject.runtime()),
        }
    }

    /// Since `before`, in words; of `over` in per cent where that is told.
    pub fn since(self, before: Self, over: Option<Duration>) -> String {
        let words = |name: &str, time: Duration| match over {
            None => format!("{name} {:.2} s", time.as_secs_f64()),
            Some(over) => {
                let share = 100.0 * time.as_secs_f64() / over.as_secs_f64();
                format!("{name} {share:.2} % of a core")
            }
        };
        let agent = self.agent.saturating_sub(before.agent);
        let runtime = self.runtime.saturating_sub(before.runtime);
        format!(
            "{}, {}",
            words("agent", agent),
            words("container runtime", runtime)
        )
    }
}

/// Memory of each of the agent's programs, in words.
pub fn memory(subject: &Subject) -> String {
    let mut words = Vec::new();
    for pid in subject.agents() {
        let mb = |kib: Option<u64>| kib.unwrap_or(0) * 1024 / 1_000_000;
        words.push(format!(
            "{} MB resident (Pss {} MB)",
            mb(machine::resident(pid)),
            mb(machine::proportional(pid))
        ));
    }
    words.join(" + ")
}

/// What a program holds.
pub struct Held {
    pub threads: usize,
    /// Open files, connections among them.
    pub files: usize,
    megabytes: u64,
}

impl Held {
    /// Looks at a process.
    pub fn by(pid: i32) -> Result<Self, Failure> {
        let count =
            |what: &str| Ok::<_, Failure>(fs::read_dir(format!("/proc/{pid}/{what}"))?.count());
        Ok(Self {
            threads: count("task")?,
            files: count("fd")?,
            megabytes: machine::resident(pid).unwrap_or(0) * 1024 / 1_000_000,
        })
    }
}

impl fmt::Display for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            threads,
            files,
            megabytes,
        } = self;
        write!(out, "{threads} threads, {files} files, {megabytes} MB")
    }
}

/// The machine's load averages.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Median, 90th percentile, least and most, in milliseconds.
pub fn spread(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: usize| {
        let index = (times.len().saturating_sub(1)) * share / 100;
        times.get(index).map_or(0, Duration::as_millis)
    };
    format!(
        "p50 {} ms, p90 {} ms, {} to {} ms",
        at(50),
        at(90),
        at(0),
        at(100)
    )
}
