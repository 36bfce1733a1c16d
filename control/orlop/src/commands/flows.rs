//! `orlop flows`: the last flows of all nodes, and those that come.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use node_agent::flows::{Flow, FlowEnd, FlowFilter, FlowList, FlowVerdict, MissedFlows};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::values::InvalidValue;
use crate::{
    error::Error,
    nodes::{Cluster, Nodes},
    run::all_causes,
    table,
};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop flows --verdict dropped --since 5m      what was dropped of late, and by which rule
  orlop flows -f --pod shop/web                 what a pod does, as it happens
  orlop flows --summary --since 1h              who talked to whom, and what became of it
  orlop flows -o json | jq .reason              one object a line";

/// Default number of flows in one answer.
const LAST: usize = 100;
/// Flows of one answer of which a summary is made, a node.
const ALL: usize = 100_000;
/// How long a flow waits for older ones of other nodes.
const WAIT: Duration = Duration::from_millis(500);
/// How often flows that waited are printed.
const TICK: Duration = Duration::from_millis(100);
/// Delay before a node that had no more flows is asked again.
const AGAIN: Duration = Duration::from_secs(2);

/// Filters and output.
#[derive(Args)]
pub struct Options {
    /// Go on: print flows as they come.
    #[arg(short, long, conflicts_with = "summary")]
    follow: bool,
    /// A pod at either end, as NAMESPACE/NAME; or a namespace's pods, as NAMESPACE/.
    #[arg(long, value_parser = pod, value_name = "NAMESPACE/[NAME]")]
    pod: Option<String>,
    /// Only flows with this verdict: forwarded (a sample, see --flows-sample of the
    /// agent), dropped or refused.
    #[arg(long)]
    verdict: Option<FlowVerdict>,
    /// Not older than that: 30s, 5m, 1h.
    #[arg(long, value_parser = age, value_name = "AGE")]
    since: Option<SignedDuration>,
    /// The last so many of each node; 100 unless given, and all with --since or --summary.
    #[arg(long, value_name = "NUMBER")]
    last: Option<usize>,
    /// Only of this node; may be repeated.
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Include traffic from a node to its own pods, which is mostly probes.
    #[arg(long)]
    probes: bool,
    /// Count the flows between each pair of peers by verdict.
    #[arg(long)]
    summary: bool,
    /// How they are shown.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// An object a line.
    Json,
}

/// Flows that are alike, for a summary.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct FlowKind {
    verdict: FlowVerdict,
    source: String,
    destination: String,
    protocol: String,
    port: u16,
    why: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FlowCount<'a> {
    count: u64,
    last: Timestamp,
    #[serde(flatten)]
    kind: &'a FlowKind,
}

/// Prints them.
///
/// # Errors
/// An API server that does not answer, or no node that does.
pub async fn run(options: Options) -> Result<(), Error> {
    let client = options.cluster.client("orlop-flows").await?;
    let cluster = Nodes::list(client).await?;
    let nodes = if options.nodes.is_empty() {
        cluster.names()
    } else {
        options.nodes.clone()
    };
    if nodes.is_empty() {
        return Err(Error::Option("the cluster has no nodes".to_owned()));
    }
    let filter = FlowFilter {
        pod: options.pod.clone(),
        verdict: options.verdict,
        since: options.since,
    };
    let last = options.last.unwrap_or(if options.follow {
        0
    } else if options.summary || options.since.is_some() {
        ALL
    } else {
        LAST
    });
    let mut query = filter.query();
    // Those that are hidden do not count.
    let asked = if options.probes { last } else { last.max(ALL) };
    if options.follow {
        query.push(("last", last.to_string()));
        query.push(("follow", "true".to_owned()));
        return follow(cluster, nodes, &query, &options).await;
    }
    query.push(("last", asked.to_string()));
    let asked = nodes.iter().map(|node| {
        let (cluster, query) = (&cluster, &query);
        async move { cluster.request::<FlowList>(node, "flows", query).await }
    });
    let mut flows = Vec::new();
    let mut answered = 0;
    for (node, listed) in nodes.iter().zip(join_all(asked).await) {
        match listed {
            Ok(listed) => {
                answered += 1;
                if listed.lost > 0 {
                    eprintln!(
                        "orlop: {node} lost {} records since its agent began",
                        listed.lost
                    );
                }
                let shown = |flow: &Flow| options.probes || !is_probe(flow);
                let mut its: Vec<Flow> = listed.flows.into_iter().filter(shown).collect();
                flows.extend(its.split_off(its.len().saturating_sub(last)));
            }
            Err(error) => eprintln!("orlop: {node} cannot be asked: {}", all_causes(&error)),
        }
    }
    if answered == 0 {
        return Err(Error::Option("no node answered".to_owned()));
    }
    flows.sort_by(|a, b| (a.time, &a.node).cmp(&(b.time, &b.node)));
    print!("{}", shown(&flows, options.summary, options.output));
    Ok(())
}

/// Returns whether a node sends to a pod of its own, as a kubelet's probes do.
fn is_probe(flow: &Flow) -> bool {
    flow.verdict == FlowVerdict::Forwarded
        && flow.source.node.as_deref() == Some(flow.node.as_str())
        && flow.destination.pod.is_some()
}

/// Returns the rule that decided; without one, the description of the reason in
/// docs/reference/counters.md.
fn why(flow: &Flow) -> &str {
    flow.rule
        .as_deref()
        .unwrap_or_else(|| meaning(&flow.reason))
}

/// A counter's meaning in words; of one that is not listed, its name.
fn meaning(reason: &str) -> &str {
    const COUNTERS: &str = include_str!("../../../../docs/reference/counters.md");
    let meaning = COUNTERS.lines().find_map(|line| {
        let row = line.strip_prefix("| `")?.strip_prefix(reason)?;
        let (meaning, _) = row.strip_prefix("` | ")?.split_once(" | ")?;
        Some(meaning)
    });
    meaning.unwrap_or(reason)
}

fn shown(flows: &[Flow], summary: bool, output: Output) -> String {
    match (summary, output) {
        (false, Output::Json) => flows.iter().map(json).collect(),
        (false, Output::Table) => {
            let rows: Vec<_> = flows.iter().map(row).collect();
            table::table(HEAD, &rows)
        }
        (true, output) => {
            let kinds = summarised(flows);
            let mut counted: Vec<_> = kinds
                .iter()
                .map(|(kind, (count, last))| FlowCount {
                    count: *count,
                    last: *last,
                    kind,
                })
                .collect();
            counted.sort_by(|a, b| (b.count, a.kind).cmp(&(a.count, b.kind)));
            if output == Output::Json {
                return counted.iter().map(json).collect();
            }
            let head = ["COUNT", "LAST", "VERDICT", "FROM", "TO", "PORT", "WHY"];
            let rows: Vec<_> = counted.iter().map(counted_row).collect();
            table::table(head, &rows)
        }
    }
}

fn json(it: &impl Serialize) -> String {
    format!("{}\n", serde_json::json!(it))
}

const HEAD: [&str; 7] = ["TIME", "NODE", "VERDICT", "PROTO", "FROM", "TO", "WHY"];
/// Column widths while following flows, since later ones are unknown.
const WIDTHS: [usize; 7] = [12, 10, 17, 5, 30, 30, 0];

fn row(flow: &Flow) -> [String; 7] {
    let side = flow.direction.map_or("", |it| it.word());
    let to = match &flow.service {
        Some(service) => format!("{} ({service})", flow.destination),
        None => flow.destination.to_string(),
    };
    [
        flow.time.strftime("%H:%M:%S%.3f").to_string(),
        flow.node.clone(),
        format!("{} {side}", flow.verdict).trim_end().to_owned(),
        flow.protocol.clone(),
        flow.source.to_string(),
        to,
        why(flow).to_owned(),
    ]
}

fn counted_row(it: &FlowCount<'_>) -> [String; 7] {
    let port = match it.kind.port {
        0 => it.kind.protocol.clone(),
        port => format!("{port}/{}", it.kind.protocol),
    };
    [
        it.count.to_string(),
        it.last.strftime("%H:%M:%S").to_string(),
        it.kind.verdict.to_string(),
        it.kind.source.clone(),
        it.kind.destination.clone(),
        port,
        it.kind.why.clone(),
    ]
}

/// Groups flows without clients' ports: their number, and the time of the last one.
fn summarised(flows: &[Flow]) -> BTreeMap<FlowKind, (u64, Timestamp)> {
    let mut all = BTreeMap::new();
    for flow in flows {
        let name = |party: &FlowEnd| {
            FlowEnd {
                port: 0,
                ..party.clone()
            }
            .to_string()
        };
        let kind = FlowKind {
            verdict: flow.verdict,
            source: name(&flow.source),
            destination: name(&flow.destination),
            protocol: flow.protocol.clone(),
            port: flow.destination.port,
            why: why(flow).to_owned(),
        };
        let (count, last) = all.entry(kind).or_insert((0, flow.time));
        *count += u64::from(flow.weight);
        *last = flow.time.max(*last);
    }
    all
}

/// A line of who follows.
#[derive(Deserialize)]
#[serde(untagged)]
enum FlowLine {
    Flow(Box<Flow>),
    Missed(MissedFlows),
}

async fn follow(
    cluster: Nodes,
    nodes: Vec<String>,
    query: &[(&'static str, String)],
    options: &Options,
) -> Result<(), Error> {
    let output = options.output;
    let (sender, mut lines) = mpsc::channel(256);
    let cluster = Arc::new(cluster);
    for node in nodes {
        let (cluster, query, sender) = (Arc::clone(&cluster), query.to_vec(), sender.clone());
        tokio::spawn(follow_one(cluster, node, query, sender));
    }
    let shutdown = crate::run::shutdown_on_signals()?;
    let mut merged = Merge::default();
    let mut tick = tokio::time::interval(TICK);
    if output == Output::Table {
        println!("{}", table::line(&HEAD.map(str::to_owned), WIDTHS));
    }
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            Some((node, line)) = lines.recv() => match serde_json::from_slice(&line) {
                Ok(FlowLine::Flow(flow)) if is_probe(&flow) && !options.probes => {}
                Ok(FlowLine::Flow(flow)) => merged.put(*flow, Instant::now()),
                Ok(FlowLine::Missed(it)) => {
                    eprintln!("orlop: {node}: {} flows came too fast", it.missed);
                }
                // Another version's: not understood, and no reason to end.
                Err(_) => {}
            },
            _ = tick.tick() => {
                for flow in merged.ready(Instant::now()) {
                    match output {
                        Output::Table => println!("{}", table::line(&row(&flow), WIDTHS)),
                        Output::Json => print!("{}", json(&flow)),
                    }
                }
            }
        }
    }
}

/// Follows a node, again and again: its agent may be replaced.
async fn follow_one(
    cluster: Arc<Nodes>,
    node: String,
    mut query: Vec<(&'static str, String)>,
    lines: mpsc::Sender<(String, Vec<u8>)>,
) {
    loop {
        match cluster.follow(&node, "flows", &query, &lines).await {
            Ok(()) => return,
            Err(error) => eprintln!(
                "orlop: {node} cannot be asked: {}; trying again",
                all_causes(&error)
            ),
        }
        // Earlier flows are known by now.
        query.retain(|(name, _)| *name != "last");
        tokio::time::sleep(AGAIN).await;
    }
}

/// Merges the flows of several nodes in order of time, as far as they arrive in time.
#[derive(Default)]
struct Merge {
    /// By time and order of arrival.
    waiting: BTreeMap<(Timestamp, u64), (Instant, Flow)>,
    number: u64,
}

impl Merge {
    fn put(&mut self, flow: Flow, now: Instant) {
        self.number += 1;
        self.waiting.insert((flow.time, self.number), (now, flow));
    }

    /// Those that have waited enough, and all that are older.
    fn ready(&mut self, now: Instant) -> Vec<Flow> {
        let waited = |came: &Instant| now.duration_since(*came) >= WAIT;
        let last = self
            .waiting
            .iter()
            .rev()
            .find(|(_, (came, _))| waited(came))
            .map(|(key, _)| *key);
        let Some((time, number)) = last else {
            return Vec::new();
        };
        let rest = self.waiting.split_off(&(time, number + 1));
        let ready = std::mem::replace(&mut self.waiting, rest);
        ready.into_values().map(|(_, flow)| flow).collect()
    }
}

fn pod(text: &str) -> Result<String, InvalidValue> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.contains('/') => {
            Ok(text.to_owned())
        }
        _ => {
            let way_out = "write NAMESPACE/NAME, or NAMESPACE/ for all of its";
            Err(InvalidValue::new(text, "pod", way_out))
        }
    }
}

fn age(text: &str) -> Result<SignedDuration, InvalidValue> {
    let wrong = || InvalidValue::new(text, "age", "write 30s, 5m, 2h or 1h30m");
    let age: SignedDuration = text.parse().map_err(|_| wrong())?;
    if age.is_negative() {
        Err(wrong())
    } else {
        Ok(age)
    }
}

#[cfg(test)]
mod tests {
    use node_agent::flows::Direction;

    use super::*;

    fn flow(second: i64, node: &str, change: impl Fn(&mut Flow)) -> Flow {
        let party = |address: &str, port, pod: &str| FlowEnd {
            address: address.parse().unwrap(),
            port,
            pod: Some(pod.to_owned()),
            node: None,
        };
        let mut flow = Flow {
            time: Timestamp::from_second(second).unwrap(),
            node: node.to_owned(),
            verdict: FlowVerdict::Dropped,
            direction: Some(Direction::Ingress),
            protocol: "TCP".to_owned(),
            source: party("10.0.0.1", 40_000, "shop/web"),
            destination: party("10.0.0.2", 5432, "shop/db-0"),
            service: None,
            reason: "dropped_policy_ingress".to_owned(),
            policy: None,
            rule: Some("NetworkPolicy shop/p ingress[0]".to_owned()),
            interface: "orl1".to_owned(),
            weight: 1,
        };
        change(&mut flow);
        flow
    }

    #[test]
    fn flows_are_rows_and_objects() {
        let flows = [flow(3_661, "n1", |it| {
            it.service = Some("shop/db".to_owned());
        })];
        assert_eq!(
            shown(&flows, false, Output::Table),
            "TIME          NODE  VERDICT          PROTO  FROM            TO                        WHY\n\
             01:01:01.000  n1    dropped ingress  TCP    shop/web:40000  shop/db-0:5432 (shop/db)  \
             NetworkPolicy shop/p ingress[0]\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&shown(&flows, false, Output::Json)).unwrap();
        assert_eq!(json["destination"]["pod"], "shop/db-0");
    }

    #[test]
    fn what_a_node_sends_to_its_own_pods_is_a_probe() {
        let probe = flow(1, "n1", |it| {
            it.verdict = FlowVerdict::Forwarded;
            it.source.pod = None;
            it.source.node = Some("n1".to_owned());
        });
        assert!(is_probe(&probe));
        let of = |change: fn(&mut Flow)| {
            let mut other = probe.clone();
            change(&mut other);
            is_probe(&other)
        };
        assert!(!of(|it| it.source.node = Some("n2".to_owned())));
        assert!(!of(|it| it.verdict = FlowVerdict::Dropped));
        assert!(!of(|it| it.destination.pod = None));
    }

    #[test]
    fn reasons_are_told_in_words() {
        let dropped = flow(1, "n1", |it| it.rule = None);
        assert_eq!(why(&dropped), "no policy rule allows it into the pod");
        assert_eq!(meaning("of_another_version"), "of_another_version");
        // A name is not taken for another that begins alike.
        assert_ne!(meaning("dropped_policy"), meaning("dropped_policy_ingress"));
        let unlisted: Vec<&str> = ebpf_abi::Counter::ALL
            .iter()
            .map(|counter| counter.label())
            .filter(|name| name.starts_with("dropped_") || *name == "packet_refused")
            .filter(|name| meaning(name) == *name)
            .collect();
        assert_eq!(unlisted, [""; 0]);
    }

    #[test]
    fn a_summary_counts_without_clients_ports_and_by_weight() {
        let flows = [
            flow(1, "n1", |it| it.source.port = 1),
            flow(5, "n2", |it| it.source.port = 2),
            flow(2, "n1", |it| {
                it.verdict = FlowVerdict::Forwarded;
                it.weight = 16;
            }),
        ];
        let text = shown(&flows, true, Output::Table);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1][..4], ["16", "00:00:02", "forwarded", "shop/web"]);
        assert_eq!(
            lines[2][..6],
            [
                "2",
                "00:00:05",
                "dropped",
                "shop/web",
                "shop/db-0",
                "5432/TCP"
            ]
        );
        assert_eq!(lines.len(), 3);
        let json = shown(&flows, true, Output::Json);
        let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!(
            (&first["count"], &first["port"]),
            (&16.into(), &5432.into())
        );
    }

    #[test]
    fn flows_of_several_nodes_are_merged_by_time() {
        let mut merge = Merge::default();
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        merge.put(flow(5, "n1", |_| {}), at(0));
        merge.put(flow(3, "n2", |_| {}), at(300));
        merge.put(flow(9, "n2", |_| {}), at(300));
        assert!(merge.ready(at(400)).is_empty());
        let seconds =
            |flows: Vec<Flow>| -> Vec<i64> { flows.iter().map(|it| it.time.as_second()).collect() };
        // What is older than one that has waited goes along.
        assert_eq!(seconds(merge.ready(at(500))), [3, 5]);
        assert_eq!(seconds(merge.ready(at(800))), [9]);
        assert!(merge.ready(at(9_000)).is_empty());
    }

    #[test]
    fn pods_and_ages_are_understood() {
        assert!(pod("shop/web").is_ok() && pod("shop/").is_ok());
        assert!(pod("web").is_err() && pod("/web").is_err() && pod("a/b/c").is_err());
        assert_eq!(age("5m"), Ok(SignedDuration::from_secs(300)));
        assert_eq!(age("1h30m"), Ok(SignedDuration::from_secs(5_400)));
        assert!(age("-5m").is_err() && age("soon").is_err());
    }

    #[test]
    fn lines_of_followers_are_told_apart() {
        let text = json(&flow(1, "n1", |_| {}));
        assert!(matches!(serde_json::from_str(&text), Ok(FlowLine::Flow(_))));
        let missed = serde_json::from_str("{\"missed\": 7}");
        assert!(matches!(
            missed,
            Ok(FlowLine::Missed(MissedFlows { missed: 7 }))
        ));
    }
}
