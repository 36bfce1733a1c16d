//! The process's resource usage from proc(5), under the names of Prometheus' client
//! libraries; unreadable values are left out.

use control_metrics::{Kind, Page};

/// Ticks of the clock a second, which Linux shows to user space.
const TICKS: f64 = 100.0;
const PAGE: f64 = 4096.0;

/// The fields of `/proc/self/stat` behind the name.
struct Stat(Vec<String>);

impl Stat {
    fn read() -> Self {
        let stat = read("/proc/self/stat");
        // The name in brackets may hold anything.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        Self(fields.split_whitespace().map(str::to_owned).collect())
    }

    fn field(&self, at: usize) -> Option<f64> {
        self.0.get(at)?.parse().ok()
    }

    /// Unix seconds.
    fn started(&self) -> Option<f64> {
        let booted = read("/proc/stat")
            .lines()
            .find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok())?;
        Some(booted + self.field(19)? / TICKS)
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Writes when the process began.
pub fn write_start(page: &mut Page) {
    gauge(
        page,
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        Stat::read().started(),
    );
}

/// Writes all.
#[expect(clippy::cast_precision_loss, reason = "for metrics")]
pub fn write(page: &mut Page) {
    let stat = Stat::read();
    let limits = read("/proc/self/limits");
    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let soft = line.split_whitespace().next()?;
        if soft == "unlimited" {
            return Some(u64::MAX as f64);
        }
        soft.parse::<f64>().ok()
    };
    let cpu = stat.field(11).zip(stat.field(12));
    let (received, sent) = traffic(&read("/proc/self/net/dev"));
    for (name, help, value) in [
        (
            "process_cpu_seconds",
            "Total user and system CPU time spent in seconds.",
            cpu.map(|(user, system)| (user + system) / TICKS),
        ),
        (
            "process_network_receive_bytes",
            "Number of bytes received by the process over the network.",
            received,
        ),
        (
            "process_network_transmit_bytes",
            "Number of bytes sent by the process over the network.",
            sent,
        ),
    ] {
        if let Some(value) = value {
            page.family(name, Kind::Counter, help);
            page.sample(&format!("{name}_total"), &[], value);
        }
    }
    for (name, help, value) in [
        (
            "process_max_fds",
            "Maximum number of open file descriptors.",
            limit("Max open files"),
        ),
        (
            "process_open_fds",
            "Number of open file descriptors.",
            std::fs::read_dir("/proc/self/fd")
                .map(|all| all.count() as f64)
                .ok(),
        ),
        (
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            stat.field(21).map(|pages| pages * PAGE),
        ),
        (
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            stat.started(),
        ),
        (
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            stat.field(20),
        ),
        (
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            limit("Max address space"),
        ),
    ] {
        gauge(page, name, help, value);
    }
}

fn gauge(page: &mut Page, name: &str, help: &str, value: Option<f64>) {
    if let Some(value) = value {
        page.family(name, Kind::Gauge, help);
        page.sample(name, &[], value);
    }
}

/// Bytes received and sent by all devices of the process' network namespace.
fn traffic(devices: &str) -> (Option<f64>, Option<f64>) {
    let rows = devices.lines().filter_map(|line| line.split_once(':'));
    let mut sums = None;
    for (_, row) in rows {
        let row: Vec<f64> = row
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        if let (Some(received), Some(sent)) = (row.first(), row.get(8)) {
            let (all_received, all_sent) = sums.unwrap_or((0.0, 0.0));
            sums = Some((all_received + received, all_sent + sent));
        }
    }
    (
        sums.map(|(received, _)| received),
        sums.map(|(_, sent)| sent),
    )
}

#[cfg(test)]
mod tests {
    use control_metrics::Format;

    use super::*;

    #[test]
    fn a_process_knows_what_it_uses() {
        let mut page = Page::new(Format::Text);
        write(&mut page);
        let page = page.finish();
        for name in [
            "process_cpu_seconds_total",
            "process_open_fds",
            "process_resident_memory_bytes",
            "process_start_time_seconds",
            "process_virtual_memory_max_bytes",
        ] {
            assert!(page.contains(&format!("\n{name} ")), "{name} in {page}");
        }
    }

    #[test]
    fn the_traffic_of_all_devices_is_added() {
        let text = "Inter-|   Receive\n face |bytes packets\n    lo: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n  eth0: 1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n";
        assert_eq!(traffic(text), (Some(11.0), Some(22.0)));
        assert_eq!(traffic(""), (None, None));
    }
}
