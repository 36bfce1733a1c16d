//! `/metrics/cadvisor`: what dashboards read of containers, under cAdvisor's
//! names and labels. Figures come from control groups and from `/proc`; what a
//! kernel or a version of control groups does not count is left out.

use std::collections::BTreeMap;

use control_metrics::{Format, Kind, LabelSet, Page};
use http::{Response, StatusCode};
use jiff::Timestamp;
use node_agent_cgroups::{CgroupVersion, Cgroups};
use node_agent_node_lifecycle::machine::Machine;
use node_agent_pod_resources::qos;

use super::{Body, reply, stats};
use crate::KubeletServer;

/// Samples by metric; the name decides the metric's type.
#[derive(Default)]
struct Samples(BTreeMap<&'static str, Vec<(LabelSet, f64)>>);

impl Samples {
    fn add(&mut self, metric: &'static str, labels: &LabelSet, value: f64) {
        let samples = self.0.entry(metric).or_default();
        samples.push((labels.clone(), value));
    }

    fn maybe(&mut self, metric: &'static str, labels: &LabelSet, value: Option<u64>) {
        if let Some(value) = value {
            self.add(metric, labels, value as f64);
        }
    }

    fn write(&self, page: &mut Page) {
        for (metric, samples) in &self.0 {
            match metric.strip_suffix("_total") {
                Some(name) => page.family(name, Kind::Counter, ""),
                None => page.family(metric, Kind::Gauge, ""),
            }
            for (labels, value) in samples {
                page.sample_with(metric, labels, value);
            }
        }
    }
}

/// The labels common to all metrics of a container.
struct ContainerLabels<'a> {
    container: &'a str,
    id: &'a str,
    image: &'a str,
    name: &'a str,
    namespace: &'a str,
    pod: &'a str,
}

impl ContainerLabels<'_> {
    fn set(&self) -> LabelSet {
        LabelSet::new(&[
            ("container", self.container),
            ("id", self.id),
            ("image", self.image),
            ("name", self.name),
            ("namespace", self.namespace),
            ("pod", self.pod),
        ])
    }
}

/// A line `name value` of a file.
fn field(text: Option<&str>, name: &str) -> Option<u64> {
    text?.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

/// `some` or `full` of a pressure file, in microseconds.
fn pressure(text: &str, which: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(which))?;
    line.split(' ')
        .find_map(|word| word.strip_prefix("total=")?.parse().ok())
}

/// Reads and writes of all devices together: bytes read, bytes written,
/// reads, writes. `io.stat` of version 2.
fn transfers(text: &str) -> [u64; 4] {
    let mut sums = [0_u64; 4];
    for word in text.split_whitespace() {
        for (sum, name) in sums
            .iter_mut()
            .zip(["rbytes=", "wbytes=", "rios=", "wios="])
        {
            if let Some(value) = word.strip_prefix(name).and_then(|v| v.parse::<u64>().ok()) {
                *sum = sum.saturating_add(value);
            }
        }
    }
    sums
}

/// The same of one file of version 1: `8:0 Read 4096`.
fn transfers_one(text: &str) -> [u64; 2] {
    let sum = |which: &str| {
        text.lines()
            .filter_map(|line| {
                let mut words = line.split(' ').skip(1);
                let fits = words.next()? == which;
                let value = words.next()?.parse::<u64>().ok()?;
                fits.then_some(value)
            })
            .fold(0_u64, u64::saturating_add)
    };
    [sum("Read"), sum("Write")]
}

/// What one control group counts.
fn group(samples: &mut Samples, groups: &Cgroups, path: &str, labels: &LabelSet) {
    let read = |controller: &str, file: &str| groups.read(controller, path, file);
    let number = |controller: &str, file: &str| -> Option<u64> {
        read(controller, file)?.trim().parse().ok()
    };
    let two = groups.version() == CgroupVersion::Two;
    let usage = groups.usage(path);
    let seconds = |ns: u64| ns as f64 / 1e9;
    if let Some(ns) = usage.cpu_nanoseconds {
        let labels = labels.with("cpu", "total");
        samples.add("container_cpu_usage_seconds_total", &labels, seconds(ns));
    }
    let cpu = read(if two { "" } else { "cpu" }, "cpu.stat");
    let cpu = cpu.as_deref();
    let (user, system) = if two {
        let micros = |name| field(cpu, name).map(|us| us as f64 / 1e6);
        (micros("user_usec"), micros("system_usec"))
    } else {
        // in ticks of 10 ms
        let text = read("cpuacct", "cpuacct.stat");
        let ticks = |name| field(text.as_deref(), name).map(|t| t as f64 / 100.0);
        (ticks("user"), ticks("system"))
    };
    for (metric, value) in [
        ("container_cpu_user_seconds_total", user),
        ("container_cpu_system_seconds_total", system),
    ] {
        if let Some(value) = value {
            samples.add(metric, labels, value);
        }
    }
    let (quota, period) = if two {
        let text = read("", "cpu.max").unwrap_or_default();
        let mut words = text.split_whitespace().map(|w| w.parse::<u64>().ok());
        (words.next().flatten(), words.next().flatten())
    } else {
        (
            number("cpu", "cpu.cfs_quota_us"),
            number("cpu", "cpu.cfs_period_us"),
        )
    };
    samples.maybe("container_spec_cpu_period", labels, period);
    if quota.is_some() {
        samples.maybe("container_spec_cpu_quota", labels, quota);
        let periods = field(cpu, "nr_periods");
        let throttled = field(cpu, "nr_throttled");
        samples.maybe("container_cpu_cfs_periods_total", labels, periods);
        samples.maybe(
            "container_cpu_cfs_throttled_periods_total",
            labels,
            throttled,
        );
        let time = if two {
            field(cpu, "throttled_usec").map(|us| us as f64 / 1e6)
        } else {
            field(cpu, "throttled_time").map(seconds)
        };
        if let Some(time) = time {
            samples.add("container_cpu_cfs_throttled_seconds_total", labels, time);
        }
    }
    let shares = if two {
        // back from 1..10000 to 2..262144
        number("", "cpu.weight").map(|w| 2 + w.saturating_sub(1) * 262_142 / 9999)
    } else {
        number("cpu", "cpu.shares")
    };
    samples.maybe("container_spec_cpu_shares", labels, shares);

    samples.maybe("container_memory_usage_bytes", labels, usage.memory);
    samples.maybe(
        "container_memory_working_set_bytes",
        labels,
        usage.working_set,
    );
    samples.maybe("container_memory_rss", labels, usage.rss);
    let memory = if two { "" } else { "memory" };
    let stat = read(memory, "memory.stat");
    let of = |one: &str, other: &str| field(stat.as_deref(), if two { other } else { one });
    samples.maybe("container_memory_cache", labels, of("total_cache", "file"));
    let mapped = of("total_mapped_file", "file_mapped");
    samples.maybe("container_memory_mapped_file", labels, mapped);
    let swap = if two {
        number("", "memory.swap.current")
    } else {
        of("total_swap", "swap")
    };
    samples.maybe("container_memory_swap", labels, swap);
    let most = if two {
        "memory.peak"
    } else {
        "memory.max_usage_in_bytes"
    };
    samples.maybe(
        "container_memory_max_usage_bytes",
        labels,
        number(memory, most),
    );
    for (kind, one, other) in [
        ("pgfault", "total_pgfault", "pgfault"),
        ("pgmajfault", "total_pgmajfault", "pgmajfault"),
    ] {
        let labels = labels.with("failure_type", kind);
        let labels = labels.with("scope", "hierarchy");
        samples.maybe("container_memory_failures_total", &labels, of(one, other));
    }
    let (failures, kills) = if two {
        let events = read("", "memory.events");
        let events = events.as_deref();
        (field(events, "max"), field(events, "oom_kill"))
    } else {
        let control = read("memory", "memory.oom_control");
        (
            number("memory", "memory.failcnt"),
            field(control.as_deref(), "oom_kill"),
        )
    };
    samples.maybe("container_memory_failcnt", labels, failures);
    samples.maybe("container_oom_events_total", labels, kills);
    let limit = number(
        memory,
        if two {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        },
    );
    // no limit is told as none at all
    let limit = limit.filter(|limit| *limit < 1 << 60).unwrap_or(0);
    samples.add("container_spec_memory_limit_bytes", labels, limit as f64);

    samples.maybe("container_threads", labels, groups.tasks(path));
    let processes = read(if two { "" } else { "pids" }, "cgroup.procs");
    let processes = processes.map(|text| text.lines().count() as u64);
    samples.maybe("container_processes", labels, processes);

    let moved = if two {
        read("", "io.stat").map(|text| transfers(&text))
    } else {
        let bytes = read("blkio", "blkio.throttle.io_service_bytes");
        let count = read("blkio", "blkio.throttle.io_serviced");
        bytes.zip(count).map(|(bytes, count)| {
            let ([a, b], [c, d]) = (transfers_one(&bytes), transfers_one(&count));
            [a, b, c, d]
        })
    };
    if let Some(moved) = moved {
        let labels = labels.with("device", "");
        for (metric, value) in [
            "container_fs_reads_bytes_total",
            "container_fs_writes_bytes_total",
            "container_fs_reads_total",
            "container_fs_writes_total",
        ]
        .into_iter()
        .zip(moved)
        {
            samples.add(metric, &labels, value as f64);
        }
    }
    for (file, waiting, stalled) in [
        (
            "cpu.pressure",
            "container_pressure_cpu_waiting_seconds_total",
            "container_pressure_cpu_stalled_seconds_total",
        ),
        (
            "memory.pressure",
            "container_pressure_memory_waiting_seconds_total",
            "container_pressure_memory_stalled_seconds_total",
        ),
        (
            "io.pressure",
            "container_pressure_io_waiting_seconds_total",
            "container_pressure_io_stalled_seconds_total",
        ),
    ] {
        if !two {
            break;
        }
        let Some(text) = read("", file) else { continue };
        for (metric, which) in [(waiting, "some"), (stalled, "full")] {
            if let Some(us) = pressure(&text, which) {
                samples.add(metric, labels, us as f64 / 1e6);
            }
        }
    }
}

/// What the network devices that a process sees counted: `/proc/PID/net/dev`.
fn network(samples: &mut Samples, text: &str, labels: &LabelSet) {
    const METRICS: [(&str, usize); 8] = [
        ("container_network_receive_bytes_total", 0),
        ("container_network_receive_packets_total", 1),
        ("container_network_receive_errors_total", 2),
        ("container_network_receive_packets_dropped_total", 3),
        ("container_network_transmit_bytes_total", 8),
        ("container_network_transmit_packets_total", 9),
        ("container_network_transmit_errors_total", 10),
        ("container_network_transmit_packets_dropped_total", 11),
    ];
    for line in text.lines().skip(2) {
        let Some((device, counts)) = line.split_once(':') else {
            continue;
        };
        let device = device.trim();
        if device == "lo" {
            continue;
        }
        let counts: Vec<f64> = counts
            .split_whitespace()
            .filter_map(|count| count.parse().ok())
            .collect();
        let labels = labels.with("interface", device);
        for (metric, at) in METRICS {
            if let Some(count) = counts.get(at) {
                samples.add(metric, &labels, *count);
            }
        }
    }
}

/// The answer.
pub(super) async fn answer(server: &KubeletServer) -> Response<Body> {
    let layers = stats::by_id(server).await;
    let server = server.clone();
    // a few files of each container
    let made = tokio::task::spawn_blocking(move || collect(&server, &layers)).await;
    match made {
        Ok(text) => reply(StatusCode::OK, stats::METRICS, text),
        Err(error) => super::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn collect(
    server: &KubeletServer,
    layers: &rustc_hash::FxHashMap<String, node_agent_cri::api::ContainerStats>,
) -> String {
    let mut samples = Samples::default();
    let machine = Machine::read(&server.root);
    let own = LabelSet::new(&[("boot_id", ""), ("machine_id", ""), ("system_uuid", "")]);
    samples.add("machine_cpu_cores", &own, machine.cpus as f64);
    samples.add("machine_memory_bytes", &own, machine.memory as f64);
    let now = Timestamp::now().as_second() as f64;
    let none = ContainerLabels {
        container: "",
        id: "/",
        image: "",
        name: "",
        namespace: "",
        pod: "",
    };
    let Some(groups) = &server.cgroups else {
        return text(&samples, false);
    };
    group(&mut samples, groups, "/", &none.set());
    for entry in server.pods.all() {
        let pod = &entry.pod;
        let path = server.layout.pod(qos::class(&pod.spec), pod.uid());
        let of_pod = ContainerLabels {
            id: &path,
            namespace: pod.namespace(),
            pod: pod.name(),
            ..none
        };
        group(&mut samples, groups, &path, &of_pod.set());
        let mut seen = None;
        for record in entry.observed.containers.iter().filter(|c| c.running()) {
            let id = server
                .layout
                .container(&path, &server.runtime_name, &record.id);
            let labels = ContainerLabels {
                container: &record.name,
                id: &id,
                image: &record.image,
                name: &record.id,
                namespace: pod.namespace(),
                pod: pod.name(),
            }
            .set();
            group(&mut samples, groups, &id, &labels);
            let started = record.started_at as f64 / 1e9;
            samples.add("container_start_time_seconds", &labels, started);
            samples.add("container_last_seen", &labels, now);
            let layer = layers
                .get(&record.id)
                .and_then(|s| s.writable_layer.as_ref());
            let used = layer.and_then(|l| l.used_bytes).map(|v| v.value);
            samples.maybe("container_fs_usage_bytes", &labels, used);
            seen = seen.or_else(|| groups.processes(&id).first().copied());
        }
        let sandbox = entry.observed.live_sandbox();
        if let (Some(pid), Some(sandbox), false) = (seen, sandbox, pod.spec.host_network)
            && let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/net/dev"))
        {
            // one network for all containers: the sandbox's
            let id = server
                .layout
                .container(&path, &server.runtime_name, &sandbox.id);
            let labels = ContainerLabels {
                id: &id,
                name: &sandbox.id,
                ..of_pod
            };
            network(&mut samples, &text, &labels.set());
        }
    }
    text(&samples, true)
}

/// The page, with the word that nothing failed once control groups were read.
fn text(samples: &Samples, scraped: bool) -> String {
    let mut page = Page::new(Format::Text);
    samples.write(&mut page);
    if scraped {
        page.family("container_scrape_error", Kind::Gauge, "");
        page.sample("container_scrape_error", &[], 0);
    }
    page.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use node_agent_cgroups::CgroupLayout;

    fn version_two() -> (tempfile::TempDir, Cgroups) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.controllers"), "cpu memory").unwrap();
        let group = dir.path().join("kubepods/podu/c1");
        fs::create_dir_all(&group).unwrap();
        for (file, text) in [
            (
                "cpu.stat",
                "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 10\nnr_throttled 3\nthrottled_usec 1500000\n",
            ),
            ("cpu.max", "50000 100000\n"),
            ("cpu.weight", "1\n"),
            ("memory.current", "1000\n"),
            ("memory.max", "max\n"),
            (
                "memory.stat",
                "anon 300\nfile 600\nfile_mapped 50\ninactive_file 400\npgfault 7\npgmajfault 1\n",
            ),
            ("memory.events", "low 0\nmax 4\noom 1\noom_kill 2\n"),
            (
                "io.stat",
                "8:0 rbytes=10 wbytes=20 rios=1 wios=2\n8:16 rbytes=5 wbytes=0 rios=1 wios=0\n",
            ),
            (
                "memory.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n",
            ),
            ("cgroup.procs", "11\n12\n"),
        ] {
            fs::write(group.join(file), text).unwrap();
        }
        let groups = Cgroups::find(dir.path(), CgroupLayout::below("/")).unwrap();
        (dir, groups)
    }

    #[test]
    fn a_groups_files_become_cadvisors_metrics() {
        let (_dir, groups) = version_two();
        let mut samples = Samples::default();
        let labels = LabelSet::new(&[("pod", "p")]);
        group(&mut samples, &groups, "/kubepods/podu/c1", &labels);
        let text = text(&samples, false);
        for line in [
            "# TYPE container_cpu_usage_seconds_total counter",
            "container_cpu_usage_seconds_total{pod=\"p\",cpu=\"total\"} 2.5",
            "container_cpu_cfs_throttled_periods_total{pod=\"p\"} 3",
            "container_cpu_cfs_throttled_seconds_total{pod=\"p\"} 1.5",
            "container_spec_cpu_quota{pod=\"p\"} 50000",
            "container_spec_cpu_shares{pod=\"p\"} 2",
            "# TYPE container_memory_working_set_bytes gauge",
            "container_memory_working_set_bytes{pod=\"p\"} 600",
            "container_memory_cache{pod=\"p\"} 600",
            "container_memory_failcnt{pod=\"p\"} 4",
            "container_oom_events_total{pod=\"p\"} 2",
            "container_spec_memory_limit_bytes{pod=\"p\"} 0",
            "container_fs_reads_bytes_total{pod=\"p\",device=\"\"} 15",
            "container_fs_writes_total{pod=\"p\",device=\"\"} 2",
            "container_pressure_memory_waiting_seconds_total{pod=\"p\"} 3",
            "container_pressure_memory_stalled_seconds_total{pod=\"p\"} 1",
            "container_processes{pod=\"p\"} 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n--\n{text}");
        }
        assert!(!text.contains("container_memory_swap"));
    }

    #[test]
    fn networks_are_counted_by_device_without_the_loopback() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n\
                    \u{20}   lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n\
                    \u{20} eth0: 100 2 3 4 0 0 0 0 200 5 6 7 0 0 0 0\n";
        let mut samples = Samples::default();
        network(&mut samples, text, &LabelSet::new(&[("pod", "p")]));
        let text = super::text(&samples, false);
        assert!(
            text.contains(
                "container_network_receive_bytes_total{pod=\"p\",interface=\"eth0\"} 100\n"
            )
        );
        assert!(text.contains(
            "container_network_transmit_packets_dropped_total{pod=\"p\",interface=\"eth0\"} 7\n"
        ));
        assert!(!text.contains("lo\""));
    }

    #[test]
    fn a_page_is_written_byte_by_byte() {
        let labels = ContainerLabels {
            container: "c",
            id: "/kubepods/\"x\"",
            image: "",
            name: "n",
            namespace: "default",
            pod: "p",
        };
        let mut samples = Samples::default();
        samples.add("machine_cpu_cores", &LabelSet::new(&[("boot_id", "")]), 8.0);
        samples.maybe("container_oom_events_total", &labels.set(), Some(2));
        samples.add("container_last_seen", &labels.set(), 1.5);
        samples.add("container_last_seen", &labels.set().with("device", ""), 0.0);
        let all =
            r#"container="c",id="/kubepods/\"x\"",image="",name="n",namespace="default",pod="p""#;
        assert_eq!(
            text(&samples, true),
            format!(
                r#"# TYPE container_last_seen gauge
container_last_seen{{{all}}} 1.5
container_last_seen{{{all},device=""}} 0
# TYPE container_oom_events_total counter
container_oom_events_total{{{all}}} 2
# TYPE machine_cpu_cores gauge
machine_cpu_cores{{boot_id=""}} 8
# TYPE container_scrape_error gauge
container_scrape_error 0
"#
            )
        );
    }

    #[test]
    fn transfers_of_all_devices_are_added() {
        assert_eq!(transfers_one("8:0 Read 5\n8:0 Write 7\nTotal 12\n"), [5, 7]);
    }
}
