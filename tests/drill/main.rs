//! `drill`: puts a cluster of test hosts through the faults that operators meet, and holds what
//! users see, what the API says and how it heals against bounds.
//!
//! ```text
//! drill [NAME|list] [--state DIR] [--short] [--cycles N] [--seed N]
//! drill probe HOST:PORT      asks every 100 ms, one line an answer, until standard input ends
//! ```
//!
//! A scenario is a file of its own under `scenarios/`, listed here. The cycles of faults of three
//! servers are in `servers/`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use tests::{Cluster, Failure, report::Report};

mod bounds;
mod host;
mod probe;
mod scenarios;
mod servers;
mod timeline;
mod workload;

use bounds::Bounds;

/// A fault and how the cluster is to take it.
struct Scenario {
    name: &'static str,
    /// The fault, in a few words for people.
    fault: &'static str,
    /// Whether `--short`, and so CI, runs it.
    short: bool,
    run: fn(&Drill, &mut Bounds) -> Result<(), Failure>,
}

/// All scenarios, the gentlest first.
const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "agent-gone",
        fault: "the agent of a node is gone while its pods crash",
        short: true,
        run: scenarios::agent_gone::run,
    },
    Scenario {
        name: "runtime-hung",
        fault: "containerd of a node hangs for 2 min (20 s with --short)",
        short: false,
        run: scenarios::runtime_hung::run,
    },
    Scenario {
        name: "server-gone",
        fault: "the server is gone for 5 min (20 s with --short)",
        short: true,
        run: scenarios::server_gone::run,
    },
    Scenario {
        name: "clock-ahead",
        fault: "the clock of a node, then of the server, jumps 1 h ahead",
        short: false,
        run: scenarios::clock::ahead,
    },
    Scenario {
        name: "clock-behind",
        fault: "the clock of a node, then of the server, jumps 1 h back",
        short: false,
        run: scenarios::clock::behind,
    },
    Scenario {
        name: "disk-full",
        fault: "the disk of a node's agent is full",
        short: false,
        run: scenarios::disk_full::run,
    },
    Scenario {
        name: "cable-30s",
        fault: "a node's cable is out for 30 s",
        short: true,
        run: scenarios::cable::blip,
    },
    Scenario {
        name: "cable-10min",
        fault: "a node's cable is out for 10 min (80 s with --short)",
        short: false,
        run: scenarios::cable::outage,
    },
    Scenario {
        name: "power-cut",
        fault: "a node loses its power, and gets it back",
        short: true,
        run: scenarios::power_cut::run,
    },
    Scenario {
        name: "all-at-once",
        fault: "the server is killed while one node has no power and its agent crashes",
        short: false,
        run: scenarios::all_at_once::run,
    },
];

/// What a scenario works on.
pub struct Drill {
    /// The cluster, of two nodes or more; the first has the server.
    pub cluster: Cluster,
    /// Whether long outages are to be short.
    pub short: bool,
}

/// The node that faults happen to; the server is on another.
pub const VICTIM: &str = "node-2";
/// The node with the server.
pub const SERVER: &str = "node-1";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, target] = &words[..]
        && verb == "probe"
    {
        return probe::ask(target);
    }
    match perform(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("drill: {error}");
            ExitCode::FAILURE
        }
    }
}

fn perform(words: &[String]) -> Result<ExitCode, Failure> {
    let mut name = None;
    let mut state = None;
    let mut short = false;
    let (mut cycles, mut seed) = (None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64, Failure> {
            let value = words.next().and_then(|value| value.parse().ok());
            value.ok_or_else(|| format!("{word} wants a number").into())
        };
        match word.as_str() {
            "--short" => short = true,
            "--cycles" => cycles = Some(number()?),
            "--seed" => seed = Some(number()?),
            "--state" => state = Some(PathBuf::from(words.next().ok_or("--state wants a folder")?)),
            word if word.starts_with('-') => return Err(format!("no option `{word}`").into()),
            word => name = Some(word.to_owned()),
        }
    }
    if name.as_deref() == Some("list") {
        for scenario in SCENARIOS {
            println!("{:<14} {}", scenario.name, scenario.fault);
        }
        println!("{:<14} {}", servers::NAME, servers::FAULT);
        return Ok(ExitCode::SUCCESS);
    }
    let chosen: Vec<&Scenario> = SCENARIOS
        .iter()
        .filter(|scenario| match &name {
            Some(name) => scenario.name.contains(name.as_str()),
            None => scenario.short || !short,
        })
        .collect();
    let has_servers = match &name {
        Some(name) => servers::NAME.contains(name.as_str()),
        None => true,
    };
    if chosen.is_empty() && !has_servers {
        return Err("no scenario has such a name; `drill list` prints all".into());
    }
    let mut report = Report::default();
    let names = chosen.iter().map(|scenario| scenario.name);
    let names: Vec<&str> = names.chain(has_servers.then_some(servers::NAME)).collect();
    if !nix::unistd::geteuid().is_root() {
        report.skip_all(
            names,
            "clusters need root for namespaces, control groups and eBPF",
        );
        return Ok(report.end());
    }
    if tests::kubectl_program().is_none() {
        report.skip_all(names, &tests::no_stock_program("KUBECTL", "kubectl"));
        return Ok(report.end());
    }
    if !chosen.is_empty() {
        run(&chosen, state.as_deref(), short, &mut report)?;
    }
    // A cluster with two nodes has not three servers.
    if has_servers && (state.is_none() || chosen.is_empty()) {
        let usual = if short {
            servers::SHORT
        } else {
            servers::CYCLES
        };
        let usual_seed = if short {
            servers::SHORT_SEED
        } else {
            servers::any_seed()
        };
        let options = servers::Options {
            cycles: cycles.unwrap_or(usual),
            seed: seed.unwrap_or(usual_seed),
        };
        println!("\n{}: {}", servers::NAME, servers::FAULT);
        let started = Instant::now();
        let own = tests::workspace().join("target/drill-servers");
        let result = servers::run(state.as_deref(), &own, options);
        report.record(servers::NAME, started, result);
    }
    Ok(report.end())
}

/// Runs scenarios on a cluster of two nodes.
fn run(
    chosen: &[&Scenario],
    state: Option<&Path>,
    short: bool,
    report: &mut Report,
) -> Result<(), Failure> {
    let cluster = match state {
        Some(dir) => {
            let cluster = Cluster::running(dir)?;
            // Before anything is done to it.
            let record = host::record(&cluster)?;
            record.keeper(SERVER)?;
            record.keeper(VICTIM)?;
            cluster
        }
        None => {
            let dir = tests::workspace().join("target/drill");
            std::fs::create_dir_all(&dir)?;
            Cluster::up(Path::new(&dir), 2, false)?
        }
    };
    let drill = Drill { cluster, short };
    for scenario in chosen {
        println!("\n{}: {}", scenario.name, scenario.fault);
        let started = Instant::now();
        let mut bounds = Bounds::default();
        let result = (scenario.run)(&drill, &mut bounds);
        bounds.print();
        report.record(scenario.name, started, result.and_then(|()| bounds.judge()));
    }
    let _ = workload::remove(&drill.cluster);
    Ok(())
}
