//! The costs of processes, from `/proc`.

use std::{fmt, fs, time::Duration};

/// A process with a name.
#[derive(Clone, Debug)]
pub struct Process {
    name: String,
    pid: u32,
}

/// Reads `NAME=PID`.
pub fn process(text: &str) -> Result<Process, String> {
    let (name, pid) = text.split_once('=').ok_or("NAME=PID is expected")?;
    let pid = pid.parse().map_err(|error| format!("{pid}: {error}"))?;
    let process = Process {
        name: name.to_owned(),
        pid,
    };
    process
        .resident()
        .ok_or(format!("there is no process {pid}"))?;
    Ok(process)
}

/// Prints how much of a processor each process takes while nothing happens.
pub async fn idle(processes: &[Process], time: Duration) {
    let before: Vec<_> = processes.iter().map(Process::processor).collect();
    tokio::time::sleep(time).await;
    for (process, before) in processes.iter().zip(before) {
        let spent = process
            .processor()
            .zip(before)
            .map(|(now, then)| now - then);
        let percent = spent.unwrap_or_default().as_secs_f64() / time.as_secs_f64() * 100.0;
        println!("idle: {percent:.2} % of a core, {process}");
    }
}

impl Process {
    /// Processor time so far.
    fn processor(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // After the name, which may hold anything; utime and stime are fields 14 and 15.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        // A tick is 10 ms on all of Linux (USER_HZ).
        Some(Duration::from_millis((ticks()? + ticks()?) * 10))
    }

    /// Resident memory, in KiB.
    fn resident(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = self.resident().unwrap_or_default() / 1024;
        let spent = self.processor().unwrap_or_default();
        write!(
            f,
            "{}: {memory} MiB, {:.2} s of processor time",
            self.name,
            spent.as_secs_f64()
        )
    }
}
