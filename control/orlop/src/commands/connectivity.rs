//! `orlop connectivity`: whether a cluster's network does what Kubernetes promises.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use control_connectivity::Group;
use serde_json::json;

use crate::values::InvalidValue;
use crate::{
    connectivity::{self, Line, Plan, Verdict},
    error::Error,
    kubeconfig::Kubeconfig,
    style::Style,
    table, values,
};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop connectivity test                               all checks on two nodes of the cluster
  orlop connectivity test --only services,dns           some groups
  orlop connectivity test --nodes n1,n7                 between these nodes
  orlop connectivity test -o json | jq '.checks[] | select(.result == \"fail\")'

It works on any cluster with any dataplane. Probes run in a namespace of their own, which is
removed in the end, also after Ctrl-C.";

/// The image of probes on clusters that can pull it, or that have it.
const IMAGE: &str = concat!("registry.orlop.dev/orlop:", env!("CARGO_PKG_VERSION"));

/// Subcommand.
#[derive(Subcommand)]
pub enum Command {
    /// Deploy probes, check Services, DNS, policy, node ports, host network, MTU and egress, and
    /// print a table.
    #[command(after_help = EXAMPLES)]
    Test(Box<TestOptions>),
    /// Be a probe.
    #[command(hide = true)]
    Probe {
        /// The probe's options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// Cluster and checks.
#[derive(Args)]
pub struct TestOptions {
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Image of the probes: one whose program takes `connectivity probe`, as that of Orlop does.
    #[arg(long, default_value = IMAGE)]
    image: String,
    /// When nodes pull the image.
    #[arg(long, default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: String,
    /// Groups of checks; all unless given.
    #[arg(long, value_delimiter = ',', value_name = "GROUP", value_parser = group)]
    only: Vec<Group>,
    /// Groups of checks that are left out.
    #[arg(long, value_delimiter = ',', value_name = "GROUP", value_parser = group)]
    skip: Vec<Group>,
    /// One or two nodes between which is checked; two that are ready unless given.
    #[arg(long, value_delimiter = ',', value_name = "NODE", num_args = 1..=2)]
    nodes: Vec<String>,
    /// A server outside of the cluster that pods must reach, such as 192.0.2.1:443.
    #[arg(long, value_name = "HOST:PORT")]
    external: Option<String>,
    /// The cluster's domain.
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    cluster_domain: String,
    /// First of three ports on the nodes' addresses that probes listen on.
    #[arg(long, default_value_t = 24_080, value_parser = clap::value_parser!(u16).range(1024..=65_533))]
    host_port: u16,
    /// How long a check is tried before it fails.
    #[arg(long, value_parser = values::duration, default_value = "15s", value_name = "DURATION")]
    settle: Duration,
    /// Longest wait for probes to start, for checks to end and for the namespace to go.
    #[arg(long, value_parser = values::duration, default_value = "3m", value_name = "DURATION")]
    timeout: Duration,
    /// Leave the probes and their namespace, to look into them.
    #[arg(long)]
    keep: bool,
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Exit code if a check fails; 0 to report failures only in the output.
    #[arg(long, default_value_t = 1, value_name = "CODE")]
    exit_code: u8,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// A table.
    Text,
    /// One object.
    Json,
}

fn group(name: &str) -> Result<Group, InvalidValue> {
    Group::named(name).ok_or_else(|| {
        let names = Group::ALL.map(Group::name).join(", ");
        InvalidValue::new(name, "group of checks", format!("there are {names}"))
    })
}

/// Runs the command.
///
/// # Errors
/// What stops the test, or [`Error::Checks`] when a check fails.
pub fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Test(options) => crate::run::command(test(*options)),
        Command::Probe { words } => control_connectivity::probe::run(words)
            .map_err(|error| Error::Connectivity(error.to_string())),
    }
}

async fn test(options: TestOptions) -> Result<(), Error> {
    let groups = groups(&options.only, &options.skip)?;
    let client = options.kubeconfig.client("orlop-connectivity").await?;
    let plan = Plan {
        image: options.image,
        pull_policy: options.image_pull_policy,
        groups,
        nodes: options.nodes,
        external: options.external,
        domain: options.cluster_domain,
        host_port: options.host_port,
        settle: options.settle,
        timeout: options.timeout,
        keep: options.keep,
    };
    let lines = Box::pin(connectivity::run(&client, &plan)).await?;
    let failed = count(&lines, Verdict::Fail);
    match options.output {
        Output::Text => print!("{}", text(&lines, Style::of_stdout())),
        Output::Json => println!(
            "{}",
            json!({
                "passed": count(&lines, Verdict::Pass),
                "failed": failed,
                "skipped": count(&lines, Verdict::Skip),
                "checks": lines,
            })
        ),
    }
    match (failed, options.exit_code) {
        (0, _) | (_, 0) => Ok(()),
        (failed, code) => Err(Error::Checks { failed, code }),
    }
}

fn groups(only: &[Group], skip: &[Group]) -> Result<Vec<Group>, Error> {
    let is_wanted =
        |group: &Group| (only.is_empty() || only.contains(group)) && !skip.contains(group);
    let groups: Vec<Group> = Group::ALL.into_iter().filter(is_wanted).collect();
    if groups.is_empty() {
        return Err(Error::Option(
            "--only and --skip leave no group of checks".to_owned(),
        ));
    }
    Ok(groups)
}

fn count(lines: &[Line], verdict: Verdict) -> usize {
    lines.iter().filter(|line| line.result == verdict).count()
}

/// The table, then the numbers.
fn text(lines: &[Line], style: Style) -> String {
    let row = |line: &Line| {
        [
            line.group.to_owned(),
            line.check.clone(),
            format!("{} → {}", line.from, line.to),
            match line.result {
                Verdict::Pass => "ok".to_owned(),
                Verdict::Fail => "FAILED".to_owned(),
                Verdict::Skip => "skipped".to_owned(),
            },
            line.latency_us.map_or_else(String::new, latency),
            line.why.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    let head = ["GROUP", "CHECK", "FROM → TO", "RESULT", "LATENCY", "WHY"];
    let table = table::table(head, &rows);
    let results = std::iter::once(None).chain(lines.iter().map(|line| Some(line.result)));
    let mut text = String::new();
    for (line, result) in table.lines().zip(results) {
        let line = match result {
            None => style.bold(line),
            Some(Verdict::Fail) => style.red(line),
            Some(Verdict::Skip) => style.dim(line),
            Some(Verdict::Pass) => line.to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str(&format!(
        "\n{} ok, {} failed, {} skipped\n",
        count(lines, Verdict::Pass),
        count(lines, Verdict::Fail),
        count(lines, Verdict::Skip),
    ));
    text
}

fn latency(micros: u64) -> String {
    let millis = Duration::from_micros(micros).as_secs_f64() * 1000.0;
    format!("{millis:.2} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(result: Verdict, why: Option<&str>) -> Line {
        Line {
            group: "dns",
            check: "full name".to_owned(),
            from: "pod-a on n1".to_owned(),
            to: "a.b".to_owned(),
            result,
            latency_us: (result == Verdict::Pass).then_some(1234),
            attempts: Some(1),
            why: why.map(str::to_owned),
        }
    }

    #[test]
    fn the_table_has_a_line_per_check_and_ends_with_numbers() {
        let lines = [
            line(Verdict::Pass, None),
            line(Verdict::Fail, Some("no name server answers")),
        ];
        let expected = "GROUP  CHECK      FROM → TO          RESULT  LATENCY  WHY\n\
                        dns    full name  pod-a on n1 → a.b  ok      1.23 ms\n\
                        dns    full name  pod-a on n1 → a.b  FAILED           no name server answers\n\
                        \n\
                        1 ok, 1 failed, 0 skipped\n";
        assert_eq!(text(&lines, Style::plain()), expected);
        let coloured = text(&lines, Style::coloured());
        assert!(coloured.contains("\x1b[31mdns"), "{coloured:?}");
    }

    #[test]
    fn groups_are_chosen_and_left_out() {
        let chosen = groups(&[Group::Dns, Group::Mtu], &[Group::Mtu]).unwrap();
        assert_eq!(chosen, [Group::Dns]);
        assert_eq!(groups(&[], &[]).unwrap(), Group::ALL);
        assert!(groups(&[Group::Dns], &[Group::Dns]).is_err());
        assert!(
            group("nothing")
                .unwrap_err()
                .to_string()
                .contains("node-ports")
        );
    }
}
