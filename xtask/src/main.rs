//! `cargo xtask`: builds Orlop, brings clusters of test hosts up and down, runs
//! tests and benches, regenerates tables. `cargo xtask help` lists the verbs.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

mod apt;
mod bench;
mod build;
mod cluster;
mod differential;
mod dist;
mod drill;
mod ebpf;
mod error;
mod generate;
mod go;
mod images;
mod layout;
mod machete;
mod manifests;
mod oracle;
mod previous;
mod results;
mod run;
mod setup;
mod supply_chain;
mod test;
mod vm;

use cluster::{network, node::NodeHost};
use error::Error;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Orlop's build, clusters, tests and benches",
    max_term_width = 100
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Install what this machine lacks: lists it first, does nothing if everything is
    /// there.
    Setup {
        /// Also what only tests need: etcd, the standard CNI plugins, a router, cargo-machete,
        /// and, where Go is installed, stock Kubernetes programs.
        #[arg(long)]
        for_tests: bool,
        /// Also what the tests with kubeadm need: it, etcd and CoreDNS, where Go is installed.
        #[arg(long)]
        for_kubeadm: bool,
        /// Also MetalLB, whose addresses a test takes over, where Go is installed.
        #[arg(long)]
        for_metallb: bool,
    },
    /// Build the eBPF programs and the binaries target/release/{orlop,orlop-cni}.
    Build,
    /// Set up, build, and bring a cluster of test hosts up; then show it at work.
    Up {
        /// Number of nodes.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50))]
        nodes: u8,
        /// Number of servers, as hosts of their own with a managed etcd and one address for all;
        /// without, the first node has the one server.
        #[arg(long, conflicts_with = "host", value_parser = clap::value_parser!(u8).range(1..=7))]
        servers: Option<u8>,
        /// This machine itself is the one node: its network and its containerd are used.
        #[arg(long, conflicts_with = "nodes")]
        host: bool,
        /// Folder of the cluster's files.
        #[arg(long, default_value = "target/cluster")]
        state: PathBuf,
        /// Skip the demo Deployment and Service.
        #[arg(long)]
        no_demo: bool,
        /// Only the hosts, with a container runtime and images: for a cluster of other programs.
        #[arg(long, conflicts_with_all = ["host", "servers", "dual_stack", "overlay"])]
        bare: bool,
        /// Folder with programs to run, `orlop` and `orlop-cni`, instead of building them.
        #[arg(long)]
        programs: Option<PathBuf>,
        /// Give nodes, pods and Services IPv6 addresses beside IPv4.
        #[arg(long, conflicts_with = "host")]
        dual_stack: bool,
        /// How pods of other nodes are reached: the agents' option of that name.
        #[arg(long, conflicts_with = "host", value_name = "MODE")]
        overlay: Option<String>,
    },
    /// End a cluster and remove everything that it left.
    Down {
        /// Folder of the cluster's files.
        #[arg(long, default_value = "target/cluster")]
        state: PathBuf,
        /// Keep the store and the certificates for the next `up`.
        #[arg(long)]
        keep_state: bool,
    },
    /// Show what runs, with memory; fails when a host or program is down.
    Status {
        /// Folder of the cluster's files.
        #[arg(long, default_value = "target/cluster")]
        state: PathBuf,
    },
    /// Format check, lints, and all tests: unit, property, netns, differential, e2e.
    Test(test::Options),
    /// Hold the crates that are built in against deny.toml: licences, bans, sources, withdrawn
    /// versions. Needs no network.
    SupplyChain,
    /// Write the API tables from the published Kubernetes API.
    Generate {
        /// Only check that the committed tables are what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Render plain manifests from the Helm chart, which is linted first.
    Manifests {
        /// Only check that the committed manifests are what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Ask the API server recorded questions; compare with a stock server's answers.
    Oracle(oracle::Options),
    /// Hold our parts against the stock ones that they replace, on random objects.
    Differential(differential::Options),
    /// Measure the figures of docs/performance.md.
    Bench(bench::Options),
    /// Build static programs and pack them: tarball, .deb, .rpm, image, air-gap bundle, SBOM, sums.
    Dist(dist::Options),
    /// Put a cluster through faults, and hold what users see and how it heals against bounds.
    Drill(drill::Options),
    /// Boot another kernel under emulation and run kernel-dependent tests in it.
    Vm(vm::Options),
    /// Order of functions in the program: record which are called, and place those
    /// together.
    Layout {
        #[command(subcommand)]
        verb: layout::LayoutVerb,
    },
    /// End a host, if it is up, and start it again. Its disk stays.
    Restart {
        /// The host, such as node-2.
        node: String,
        /// Folder of the cluster's files.
        #[arg(long, default_value = "target/cluster")]
        state: PathBuf,
    },
    /// Run a shell, or a command, as a process of a host: in its namespaces and its control group.
    Shell {
        /// The host, such as node-2.
        node: String,
        /// Folder of the cluster's files.
        #[arg(long, default_value = "target/cluster")]
        state: PathBuf,
        /// The command; without, a shell.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Events of machines, applied to a host of a cluster.
    Host {
        #[command(subcommand)]
        part: Part,
    },
}

/// A host, and its cluster.
#[derive(clap::Args)]
struct OneHost {
    /// The host, such as node-2.
    name: String,
    /// Folder of the cluster's files.
    #[arg(long, default_value = "target/cluster")]
    state: PathBuf,
}

/// Operation on a host; hidden, the role of this program when `up` starts it inside
/// namespaces.
#[derive(Subcommand)]
enum Part {
    /// End its programs in order, then the host.
    Stop(OneHost),
    /// Start a host that is down.
    Start(OneHost),
    /// Stop it immediately, as a power cut does.
    Kill(OneHost),
    /// Cut it off the others, as a pulled cable does.
    Cut(OneHost),
    /// Join it to the others again.
    Join(OneHost),
    #[command(hide = true)]
    Node { folder: PathBuf },
    #[command(hide = true)]
    Lan { group: String, folder: PathBuf },
    #[command(hide = true)]
    Exec {
        group: String,
        keeper: i32,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

fn main() -> ExitCode {
    if let Some(done) = layout::linked() {
        return done;
    }
    match perform(Arguments::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orlop: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn perform(verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Setup {
            for_tests,
            for_kubeadm,
            for_metallb,
        } => {
            if for_tests || for_kubeadm || for_metallb {
                setup::setup_for_tests()?;
            } else {
                setup::setup()?;
            }
            if for_kubeadm {
                go::build_for_kubeadm();
            }
            if for_metallb {
                go::build_for_metallb();
            }
            run::print_step("all is there");
            Ok(())
        }
        Verb::Build => {
            setup::setup()?;
            build::build(build::Profile::Release)
        }
        Verb::Up {
            host: true,
            state,
            no_demo,
            programs,
            ..
        } => cluster::real::up(&state, no_demo, programs.as_deref()),
        Verb::Up {
            nodes,
            servers,
            host: false,
            state,
            no_demo,
            bare,
            programs,
            dual_stack,
            overlay,
        } => cluster::up::up(&cluster::up::Options {
            nodes,
            servers: servers.unwrap_or(0),
            dir: state,
            no_demo,
            bare,
            programs,
            net: network::Net {
                dual_stack,
                overlay,
                has_servers: servers.is_some_and(|count| count > 0),
            },
        }),
        Verb::Down { state, keep_state } => {
            let dir = absolute(state);
            if cluster::real::is_one(&dir) {
                return cluster::real::down(&dir, keep_state);
            }
            cluster::down::down(&dir, keep_state)
        }
        Verb::Status { state } => cluster::status::status(&absolute(state)),
        Verb::Test(options) => test::test(&options),
        Verb::SupplyChain => supply_chain::check(),
        Verb::Generate { check } => generate::run(check),
        Verb::Manifests { check } => manifests::run(check),
        Verb::Oracle(options) => oracle::oracle(&options),
        Verb::Differential(options) => differential::differential(&options),
        Verb::Bench(options) => bench::bench(&options),
        Verb::Dist(options) => dist::dist(&options),
        Verb::Drill(options) => drill::drill(&options),
        Verb::Vm(options) => vm::vm(&options),
        Verb::Layout { verb } => layout::perform(verb),
        Verb::Restart { node, state } => cluster::node::restart(&absolute(state), &node),
        Verb::Shell {
            node,
            state,
            command,
        } => NodeHost::find(&absolute(state), &node)?.shell(&command),
        Verb::Host { part } => match part {
            Part::Stop(one) => NodeHost::find(&absolute(one.state), &one.name)?.stop(),
            Part::Start(one) => NodeHost::find(&absolute(one.state), &one.name)?.start(),
            Part::Kill(one) => NodeHost::find(&absolute(one.state), &one.name)?.kill(),
            Part::Cut(one) => NodeHost::find(&absolute(one.state), &one.name)?.cut(),
            Part::Join(one) => NodeHost::find(&absolute(one.state), &one.name)?.join(),
            Part::Node { folder } => cluster::host::first_process(&folder),
            Part::Lan { group, folder } => cluster::host::hold(&group, &folder),
            Part::Exec {
                group,
                keeper,
                command,
            } => cluster::up::exec(&group, keeper, &command),
        },
    }
}

/// The folder as the cluster's record and its processes name it.
fn absolute(state: PathBuf) -> PathBuf {
    std::fs::canonicalize(&state).unwrap_or(state)
}
