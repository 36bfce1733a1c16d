//! `orlop why`: explains why a connection is allowed or dropped, step by step, at both
//! ends: what the objects say, what each node compiled, what its maps contain, and where
//! these differ.

mod asked;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use futures::future::join_all;
use node_agent::explain::DecisionAccount;
use node_agent_policy::{Compiler, Config, End, check};

use self::{
    asked::{AskedPeer, FlowQuery, NamedEnd, flows, peer, pod},
    report::{NodeAnswer, Report},
};
use crate::{
    error::Error,
    nodes::{Cluster, Nodes},
};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop why shop/web shop/db-0:5432            a pod asks a pod
  orlop why shop/web svc/shop/db:5432          a pod asks a service: each of its endpoints
  orlop why shop/web 192.0.2.1:53/udp          a pod asks a machine outside
  orlop why shop/web node/n1:22 -o json        a pod asks a node
  orlop why shop/db-0:5432 shop/web --from     the other way: shop/web asks shop/db-0";

/// Ends of the connection.
#[derive(Args)]
pub struct Options {
    /// Pod as NAMESPACE/NAME; with :PORT and /PROTOCOL if it is the server (--from).
    #[arg(value_parser = pod, value_name = "POD")]
    pod: AskedPeer,
    /// The other end: NAMESPACE/NAME of a pod, svc/NAMESPACE/NAME, node/NAME or an address, with
    /// :PORT, and with /udp, /sctp or /icmp behind unless it is TCP.
    #[arg(value_parser = peer, value_name = "PEER[:PORT][/PROTOCOL]")]
    peer: AskedPeer,
    /// The peer asks the pod.
    #[arg(long)]
    from: bool,
    /// End with code 1 if a connection is dropped.
    #[arg(long)]
    exit_code: bool,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// An array, an object for each pair of addresses.
    Json,
}

/// Prints the explanation.
///
/// # Errors
/// An API server that does not answer, an unknown end, or a missing port.
pub async fn run(options: Options) -> Result<(), Error> {
    let client = options.cluster.client("orlop-why").await?;
    let mut documents = Vec::new();
    super::policy::live(&client, &mut documents).await?;
    let services = asked::services(&client, [&options.pod, &options.peer]).await?;
    let (objects, _) =
        check::read(documents.clone()).map_err(|error| Error::Policy(error.to_string()))?;
    let mut compiler = Compiler::new(Config::default());
    objects.apply_to(&mut compiler);
    compiler.sync();
    let (from, to) = if options.from {
        (&options.peer, &options.pod)
    } else {
        (&options.pod, &options.peer)
    };
    let FlowQuery { flows, unused } = flows(&compiler, &objects, &services, from, to)
        .map_err(|error| Error::Option(error.to_string()))?;
    for endpoint in unused {
        eprintln!("orlop: not ready, so that no connection goes to it: {endpoint}");
    }
    let nodes = Nodes::list(client).await?;
    let mut reports = Vec::new();
    for question in &flows {
        reports.push(report_of(&nodes, &compiler, &objects, question).await);
    }
    for report in &mut reports {
        report.quote(&documents);
    }
    match options.output {
        Output::Json => println!("{}", serde_json::json!(reports)),
        Output::Text => {
            for (number, report) in reports.iter().enumerate() {
                if number > 0 {
                    println!();
                }
                print!("{report}");
            }
        }
    }
    if options.exit_code {
        report::ensure_allowed(&reports)?;
    }
    Ok(())
}

/// Asks the nodes of both ends, and the objects themselves.
async fn report_of(
    nodes: &Nodes,
    compiler: &Compiler,
    objects: &check::Objects,
    named: &NamedEnd,
) -> Report {
    let question = &named.question;
    let explained = compiler.explain(question.from, question.to, question.protocol, question.port);
    let node_of = |end: &End| match end {
        End::Node(name) => Some(name.clone()),
        End::Pod { namespace, name } => objects
            .pods
            .get(&(namespace.clone(), name.clone()))
            .map(|pod| pod.spec.node_name.clone())
            .filter(|node| !node.is_empty()),
        End::UnknownPod(_) | End::Outside(_) => None,
    };
    let ends = [node_of(&explained.from), node_of(&explained.to)];
    let mut names: Vec<&String> = ends.iter().flatten().collect();
    names.dedup();
    let query = question.query();
    let asked = names
        .iter()
        .map(|node| nodes.request::<DecisionAccount>(node, "why", &query));
    let answers = join_all(asked).await.into_iter();
    let answers = answers.map(|answer| answer.map_err(Arc::new));
    let heard: BTreeMap<&String, _> = names.iter().copied().zip(answers).collect();
    let objects = DecisionAccount::explain("", question, &explained, |_| None);
    let end = |node: &Option<String>| {
        let node = node.as_ref()?;
        let answer = heard.get(node)?;
        Some(NodeAnswer {
            node: node.clone(),
            answer: answer.clone(),
        })
    };
    Report::new(named, &objects, end(&ends[0]), end(&ends[1]))
}
