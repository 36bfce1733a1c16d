//! `orlop status`: one screen about a cluster and this machine.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, ValueEnum};
use control_client::Client;
use jiff::Timestamp;
use serde_json::json;

use crate::{
    error::Error,
    kubeconfig::Kubeconfig,
    status::{Part, Problem, State, age, cluster, machine},
    style::Style,
    table,
};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop status                              the cluster of the kubeconfig, and this machine
  orlop status --kubeconfig FILE            another cluster
  orlop status -o json | jq .healthy        for programs
  orlop status >/dev/null || alert          exit code 0: all is well; 1: something is wrong

Without a kubeconfig, on a node, the agent's own is used: what the node may not read is shown as
unknown, which is no failure.";

/// Cluster and machine.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    #[command(flatten)]
    places: PlacesArgs,
    /// How the state is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Paths of this machine's parts.
#[derive(Args, Clone)]
#[group(id = "status_places")]
pub struct PlacesArgs {
    /// Folder of a server on this machine.
    #[arg(long, default_value = "/var/lib/orlop/server", value_name = "FOLDER")]
    server_dir: PathBuf,
    /// Folder of an agent on this machine.
    #[arg(long, default_value = "/var/lib/orlop/agent", value_name = "FOLDER")]
    agent_dir: PathBuf,
    /// Directory of pinned eBPF programs and maps.
    #[arg(long, default_value = node_agent::PINS, value_name = "FOLDER")]
    pin_dir: PathBuf,
    /// Address of the agent's health checks on this machine.
    #[arg(long, default_value = "127.0.0.1:10256", value_name = "ADDRESS")]
    healthz: SocketAddr,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// A screen for people.
    Text,
    /// One object.
    Json,
}

impl From<PlacesArgs> for machine::MachinePaths {
    fn from(it: PlacesArgs) -> Self {
        Self {
            server_dir: it.server_dir,
            agent_dir: it.agent_dir,
            pin_dir: it.pin_dir,
            healthz: it.healthz,
        }
    }
}

/// Prints the state.
///
/// # Errors
/// [`Error::Status`] when something is wrong.
pub async fn run(options: Options) -> Result<(), Error> {
    let places = options.places.into();
    let parts = parts(&options.kubeconfig, &places).await;
    let wrong: usize = parts.iter().map(|part| part.problems.len()).sum();
    match options.output {
        Output::Text => print!("{}", text(&parts, Timestamp::now(), Style::of_stdout())),
        Output::Json => {
            println!("{}", json!({ "healthy": wrong == 0, "parts": parts }));
        }
    }
    match wrong {
        0 => Ok(()),
        wrong => Err(Error::Status(wrong)),
    }
}

/// Asks the cluster and looks at this machine.
pub async fn parts(kubeconfig: &Kubeconfig, places: &machine::MachinePaths) -> Vec<Part> {
    let (cluster, machine) = tokio::join!(
        Box::pin(of_cluster(kubeconfig)),
        Box::pin(machine::gather(places))
    );
    let mut parts = cluster;
    parts.extend(machine::judge(&machine, Timestamp::now()));
    parts
}

async fn of_cluster(kubeconfig: &Kubeconfig) -> Vec<Part> {
    const NAME: &str = "API server";
    let files = match kubeconfig.files_of_machine() {
        Ok(files) => files,
        Err(error) => return vec![Part::unknown(NAME, error.to_string())],
    };
    let named: Vec<_> = files.iter().map(|it| it.display().to_string()).collect();
    match Client::from_kubeconfigs(&files).await {
        Ok(client) => {
            let client = client.named("orlop-status");
            let facts = cluster::gather(&client, named.join(":")).await;
            cluster::judge(&facts, Timestamp::now())
        }
        Err(error) => {
            let way_out = "name a kubeconfig that works with --kubeconfig";
            let problem = Problem::new(error.chain(), None, way_out);
            vec![Part::down(NAME, "cannot be asked", problem)]
        }
    }
}

/// Formats the report: a line for each part, then the problems.
pub fn text(parts: &[Part], now: Timestamp, style: Style) -> String {
    let row = |part: &Part| {
        [
            part.name.to_owned(),
            part.state.label().to_owned(),
            part.summary.clone(),
        ]
    };
    let rows: Vec<_> = parts.iter().map(row).collect();
    let mut text = String::new();
    let states = std::iter::once(None).chain(parts.iter().map(|part| Some(part.state)));
    for (line, state) in table::table(["PART", "STATE", "ABOUT"], &rows)
        .lines()
        .zip(states)
    {
        let line = match state {
            None => style.bold(line),
            Some(State::Ok) => style.green(line),
            Some(State::Unknown) => style.dim(line),
            Some(State::Degraded) => style.yellow(line),
            Some(State::Down) => style.red(line),
        };
        text.push_str(&line);
        text.push('\n');
    }
    let wrong = parts.iter().flat_map(|part| &part.problems);
    for (place, problem) in wrong.enumerate() {
        if place == 0 {
            text.push_str(&format!("\n{}\n", style.bold("What is wrong:")));
        }
        let since = problem.since.map_or_else(String::new, |since| {
            format!(
                ", since {} ({})",
                since.strftime("%Y-%m-%dT%H:%M:%SZ"),
                age(since, now)
            )
        });
        text.push_str(&format!("  {}{since}\n", problem.what));
        text.push_str(&format!("    to do: {}\n", problem.way_out));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_has_a_line_per_part_and_then_what_to_do() {
        let now: Timestamp = "2026-05-01T12:00:00Z".parse().expect("a time");
        let since = "2026-05-01T11:48:00Z".parse().ok();
        let parts = [
            Part::new(
                "nodes",
                "1 of 2 ready",
                vec![Problem::new("node-2 is not ready", since, "look")],
            ),
            Part::unknown("store", "not asked"),
        ];
        let expected = "PART   STATE     ABOUT\n\
                        nodes  degraded  1 of 2 ready\n\
                        store  unknown   not asked\n\
                        \n\
                        What is wrong:\n\
                        \x20 node-2 is not ready, since 2026-05-01T11:48:00Z (12m)\n\
                        \x20   to do: look\n";
        assert_eq!(text(&parts, now, Style::plain()), expected);
    }
}
