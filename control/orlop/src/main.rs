//! The `orlop` binary: wiring, configuration, operator commands. Each part is in its own
//! crate; this one only assembles them.

use std::{ffi::OsString, path::Path, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

// First: its macros are for all that follow.
#[macro_use]
mod output;

mod access;
mod account_clients;
mod address;
mod admission;
mod api;
mod backups;
mod bundle;
mod cluster_objects;
mod commands;
mod component;
mod config;
mod connectivity;
mod control_plane_address;
mod election;
mod error;
mod join;
mod kubeconfig;
mod listen;
mod local_volumes;
mod logging;
mod memory;
mod migrate;
mod nodes;
mod notify;
mod redact;
mod requests;
mod rotation;
mod run;
mod scheduler_file;
mod server_record;
mod servers;
mod status;
mod store;
mod stores;
mod style;
mod table;
mod token_keys;
mod values;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(
    name = "orlop",
    version,
    about = "A Kubernetes 1.36 compatible cluster for bare metal",
    max_term_width = 100
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logging: logging::LogOptions,
}

#[derive(Subcommand)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one, and it is made once"
)]
enum Command {
    /// A whole cluster of this one machine, which others may join.
    #[command(after_help = commands::up::EXAMPLES)]
    Up(commands::up::Options),
    /// The whole control plane: API server, scheduler and controllers.
    Server(commands::server::Options),
    /// The API server alone, with its embedded store.
    Apiserver(api::Options),
    /// The scheduler, against any API server.
    Scheduler(commands::scheduler::Options),
    /// The controllers, against any API server.
    Controllers(commands::controllers::Options),
    /// Run a node: pods, Services, cluster DNS, routes; or only Services.
    NodeAgent(commands::node_agent::Options),
    /// Join a cluster as a node, and run it.
    #[command(after_help = commands::agent::EXAMPLES)]
    Agent(commands::agent::Options),
    /// Show the state of a cluster and this machine: problems, since when, and what to
    /// do.
    #[command(after_help = commands::status::EXAMPLES)]
    Status(commands::status::Options),
    /// Check whether this machine meets Orlop's requirements, by trying them, and what to
    /// do otherwise. Changes nothing.
    #[command(after_help = commands::preflight::EXAMPLES)]
    Preflight(commands::preflight::Options),
    /// Remove the agent's traces from this machine: pods, datapath, routes, credentials.
    Reset(commands::reset::Options),
    /// End the cluster of this machine, or its part of one: units, pods, network and state.
    #[command(after_help = commands::down::EXAMPLES)]
    Down(commands::down::Options),
    /// Tokens with which machines join the cluster.
    Token(commands::token::Options),
    /// The members of the etcd that servers manage.
    #[command(after_help = commands::etcd::EXAMPLES)]
    Etcd(commands::etcd::Options),
    /// The certificates of the server on this machine.
    Certs(commands::certs::Options),
    /// Back up the cluster's store and keys, list and verify backups.
    #[command(after_help = commands::backup::EXAMPLES)]
    Backup(commands::backup::Options),
    /// Restore a backup into the folder of a server, or into etcd.
    #[command(after_help = commands::restore::EXAMPLES)]
    Restore(commands::restore::Options),
    /// Move the cluster's store from the embedded file to etcd, or back.
    #[command(after_help = commands::store::EXAMPLES)]
    Store(commands::store::Options),
    /// Show encryption at rest, and change its keys.
    Encryption(commands::encryption::Options),
    /// Definitions for load balancer addresses on bare metal, for other control planes.
    LoadBalancer(commands::load_balancer::Options),
    /// Replace another program, node by node, and go back.
    Migrate {
        #[command(subcommand)]
        command: commands::migrate::Command,
    },
    /// Collect what helps to find a fault into one file: state, logs, objects, without secrets.
    #[command(after_help = commands::support_bundle::EXAMPLES)]
    SupportBundle(commands::support_bundle::Options),
    /// Replace the binary of this machine's server or agent by another version, or put it back.
    #[command(after_help = commands::upgrade::EXAMPLES)]
    Upgrade(commands::upgrade::Options),
    /// Print the script by which a shell completes commands and options.
    #[command(after_help = commands::completion::EXAMPLES)]
    Completion(commands::completion::Options),
    /// Print or write manual pages.
    #[command(after_help = commands::completion::MAN_EXAMPLES)]
    Man(commands::completion::ManOptions),
    /// Print the configuration file of a command: all its options with their defaults.
    Config(commands::config::Options),
    /// Evaluate network policies of files or of a cluster.
    Policy(commands::policy::Options),
    /// Show the Services of this node, by address and endpoint, and why some are not
    /// programmed.
    #[command(after_help = commands::services::EXAMPLES)]
    Services(commands::services::Options),
    /// Trace a connection through this node's programs and maps, decision by decision.
    #[command(after_help = commands::trace::EXAMPLES)]
    Trace(commands::trace::Options),
    /// Show the fate of connections on all nodes: drops, and the rules that caused them.
    #[command(after_help = commands::flows::EXAMPLES)]
    Flows(commands::flows::Options),
    /// Explain why a connection between two pods is allowed or dropped, at both ends and
    /// on both nodes.
    #[command(after_help = commands::why::EXAMPLES)]
    Why(commands::why::Options),
    /// Explain the scheduler's decision about a pod: the result of each plugin on each
    /// node.
    Explain(commands::explain::Options),
    /// Show where pods of a file would be placed, and what draining or adding nodes would
    /// change, without changing anything.
    #[command(after_help = commands::simulate::EXAMPLES)]
    Simulate(commands::simulate::Options),
    /// Local volumes: where they are, how full, and why claims are pending.
    #[command(after_help = commands::volumes::EXAMPLES)]
    Volumes(commands::volumes::Options),
    /// Whether the cluster's network does what Kubernetes promises.
    Connectivity {
        #[command(subcommand)]
        command: commands::connectivity::Command,
    },
    /// Connections to services that this node's packet programs translate: list, or forget some.
    Conntrack(commands::conntrack::Options),
    /// Look into a running node.
    Debug {
        #[command(subcommand)]
        command: commands::debug::Command,
    },
    /// Write credentials signed by the cluster's authority.
    Credentials {
        #[command(subcommand)]
        command: commands::credentials::Command,
    },
    /// Create a Deployment and a Service and call it from a node and a pod.
    Demo(commands::demo::Options),
}

fn main() -> ExitCode {
    let given: Vec<_> = std::env::args_os().collect();
    memory::without_huge_pages(&given);
    let command = named(Arguments::command(), given.first());
    let arguments = match config::expand(&command, given) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("orlop: {}", run::all_causes(&error));
            return ExitCode::FAILURE;
        }
    };
    let matches = command.get_matches_from(arguments);
    let flags = config::values(Arguments::command(), &matches);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let log = &arguments.logging;
    let done = match arguments.command {
        Command::Up(mut options) => {
            options.api.flags = flags;
            run::service(log, commands::up::run(options))
        }
        Command::Agent(options) => run::agent(log, commands::agent::run(options)),
        Command::Status(options) => run::command(commands::status::run(options)),
        Command::Preflight(options) => run::command(commands::preflight::run(options)),
        Command::Reset(options) => run::service(log, commands::reset::run(options)),
        Command::Down(options) => run::service(log, commands::down::run(options)),
        Command::Token(options) => run::command(commands::token::run(options)),
        Command::Migrate { command } => run::command(commands::migrate::run(command)),
        Command::Policy(options) => run::command(commands::policy::run(options)),
        Command::Certs(options) => run::command(commands::certs::run(options)),
        Command::Etcd(options) => run::command(commands::etcd::run(options)),
        Command::Backup(options) => run::command(commands::backup::run(options)),
        Command::Restore(options) => run::command(commands::restore::run(options)),
        Command::Store(options) => run::command(commands::store::run(options)),
        Command::Encryption(options) => run::command(commands::encryption::run(options)),
        Command::LoadBalancer(options) => {
            commands::load_balancer::run(&options);
            Ok(())
        }
        Command::Server(mut options) => {
            options.api.flags = flags;
            run::service(log, commands::server::run(options))
        }
        Command::Apiserver(mut options) => {
            options.flags = flags;
            run::service(log, commands::apiserver::run(options))
        }
        Command::Scheduler(options) => run::service(log, commands::scheduler::run(options)),
        Command::NodeAgent(options) => run::agent(log, commands::node_agent::run(options)),
        Command::Config(options) => {
            commands::config::run(&options, Arguments::command());
            Ok(())
        }
        Command::SupportBundle(options) => run::command(commands::support_bundle::run(options)),
        Command::Upgrade(options) => run::command(commands::upgrade::run(options)),
        Command::Completion(options) => {
            commands::completion::run(&options, Arguments::command());
            Ok(())
        }
        Command::Man(options) => commands::completion::man(&options, Arguments::command()),
        Command::Debug { command } => commands::debug::run(command),
        Command::Services(options) => run::command(commands::services::run(options)),
        Command::Trace(options) => commands::trace::run(&options),
        Command::Flows(options) => run::command(commands::flows::run(options)),
        Command::Why(options) => run::command(commands::why::run(options)),
        Command::Explain(options) => run::command(commands::explain::run(options)),
        Command::Simulate(options) => run::command(commands::simulate::run(options)),
        Command::Volumes(options) => run::command(commands::volumes::run(options)),
        Command::Connectivity { command } => commands::connectivity::run(command),
        Command::Conntrack(options) => commands::conntrack::run(&options),
        Command::Controllers(options) => run::service(log, commands::controllers::run(options)),
        Command::Credentials { command } => commands::credentials::run(command),
        Command::Demo(options) => run::command(commands::demo::run(options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orlop: {}", run::in_one_line(&error));
            error.exit_code()
        }
    }
}

/// The command under the name by which it is called: as `kubectl-orlop` it is kubectl's
/// plugin, whose help says `kubectl orlop`.
fn named(command: clap::Command, program: Option<&OsString>) -> clap::Command {
    let stem = program.and_then(|program| Path::new(program).file_stem());
    if stem.is_some_and(|stem| stem == "kubectl-orlop" || stem == "kubectl_orlop") {
        command.bin_name("kubectl orlop")
    } else {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_s_plugin_speaks_of_kubectl() {
        let usage = |program: &str| {
            let program = OsString::from(program);
            let mut command = named(Arguments::command(), Some(&program));
            command.render_usage().to_string()
        };
        assert!(usage("/usr/local/bin/kubectl-orlop").contains("kubectl orlop"));
        assert!(!usage("/usr/local/bin/orlop").contains("kubectl"));
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
