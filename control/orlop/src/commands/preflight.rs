//! `orlop preflight`: checks the requirements of this machine.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use node_agent::machine::{self, Finding, FindingLevel, MachineRole, ProbePaths};
use serde_json::json;

use crate::{error::Error, style::Style, table};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop preflight                    for a node with pods
  orlop preflight --role datapath    for Services in kube-proxy's place
  orlop preflight --role whole       for `orlop up`: server and node
  orlop preflight -o json | jq '.findings[] | select(.verdict == \"missing\")'";

/// For what, and where to look.
#[derive(Args)]
pub struct Options {
    /// Role of the machine.
    #[arg(long, value_enum, default_value_t = RoleArg::Node)]
    role: RoleArg,
    /// How findings are printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Directory of pinned eBPF programs and maps.
    #[arg(long, default_value = node_agent::PINS)]
    pin_dir: PathBuf,
    /// The container runtime's socket.
    #[arg(
        long,
        default_value = "unix:///run/containerd/containerd.sock",
        value_name = "SOCKET"
    )]
    container_runtime_endpoint: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum RoleArg {
    /// Services only (`orlop node-agent --datapath-only`).
    Datapath,
    /// All that a node does (`orlop agent`).
    Node,
    /// The control plane (`orlop server`).
    Server,
    /// Both (`orlop up`).
    Whole,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// A table.
    Text,
    /// One object with findings and the facts behind them.
    Json,
}

/// Directories whose file systems fill up.
pub const DISKS: [&str; 4] = [
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/orlop",
    "/var/log/pods",
];

/// Prints the results.
///
/// # Errors
/// [`Error::Preflight`] if a requirement of the role is not met.
pub async fn run(options: Options) -> Result<(), Error> {
    let places = ProbePaths {
        pin_dir: options.pin_dir,
        runtime_endpoint: options.container_runtime_endpoint,
        disks: DISKS.map(PathBuf::from).to_vec(),
    };
    let facts = machine::gather(&places).await;
    let findings = machine::judge(&facts, options.role.into());
    match options.output {
        Output::Text => print!("{}", text(&findings, Style::of_stdout())),
        Output::Json => println!("{}", json!({ "findings": findings, "facts": facts })),
    }
    match count(&findings, FindingLevel::Missing) {
        0 => Ok(()),
        missing => Err(Error::Preflight(missing)),
    }
}

fn count(findings: &[Finding], verdict: FindingLevel) -> usize {
    findings.iter().filter(|it| it.verdict == verdict).count()
}

/// The table, then the ways out, then how many there are of each kind.
fn text(findings: &[Finding], style: Style) -> String {
    let row = |it: &Finding| {
        [
            it.check.clone(),
            it.verdict.label().to_owned(),
            it.found.clone(),
        ]
    };
    let rows: Vec<_> = findings.iter().map(row).collect();
    let mut text = String::new();
    let table = table::table(["CHECK", "RESULT", "FOUND"], &rows);
    let verdicts = std::iter::once(None).chain(findings.iter().map(|it| Some(it.verdict)));
    for (line, verdict) in table.lines().zip(verdicts) {
        let line = match verdict {
            None => style.bold(line),
            Some(FindingLevel::Missing) => style.red(line),
            Some(FindingLevel::Warning) => style.yellow(line),
            Some(FindingLevel::Absent) => style.dim(line),
            Some(FindingLevel::Ok) => line.to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    let with_way_out = findings
        .iter()
        .filter_map(|it| Some((it, it.way_out.as_ref()?)));
    for (place, (finding, way_out)) in with_way_out.enumerate() {
        if place == 0 {
            text.push_str("\nWhat to do:\n");
        }
        text.push_str(&format!("  {}: {way_out}\n", finding.check));
    }
    text.push_str(&format!(
        "\n{} missing, {} warnings, {} optional features absent, {} ok\n",
        count(findings, FindingLevel::Missing),
        count(findings, FindingLevel::Warning),
        count(findings, FindingLevel::Absent),
        count(findings, FindingLevel::Ok),
    ));
    text
}

impl From<RoleArg> for MachineRole {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Datapath => Self::Datapath,
            RoleArg::Node => Self::Node,
            RoleArg::Server => Self::Server,
            RoleArg::Whole => Self::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_per_check_and_the_ways_out_follow() {
        let finding = |check: &str, verdict, way_out: Option<&str>| Finding {
            check: check.to_owned(),
            verdict,
            found: "something".to_owned(),
            way_out: way_out.map(str::to_owned),
        };
        let findings = [
            finding("port 10250", FindingLevel::Missing, Some("end the kubelet")),
            finding("memory", FindingLevel::Ok, None),
        ];
        let expected = "CHECK       RESULT   FOUND\n\
                        port 10250  MISSING  something\n\
                        memory      ok       something\n\
                        \n\
                        What to do:\n\
                        \x20 port 10250: end the kubelet\n\
                        \n\
                        1 missing, 0 warnings, 0 optional features absent, 1 ok\n";
        assert_eq!(text(&findings, Style::plain()), expected);
        let coloured = text(&findings, Style::coloured());
        assert!(coloured.contains("\x1b[31mport 10250"), "{coloured:?}");
    }
}
