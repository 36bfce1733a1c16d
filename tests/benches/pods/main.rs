//! Measures the latency of pods on a node, and the costs of the node's agent meanwhile.
//!
//! `cargo bench -p tests --bench pods` starts one test host and measures it;
//! `-- --figures start,logs` selects figures. This measures another agent, here a stock kubelet
//! with kube-proxy whose programs are in the control group `stock-1/system`:
//!
//! ```text
//! cargo bench -p tests --bench pods -- --kubeconfig FILE --node stock-1 \
//!     --group /stock-1/system --agent bin/kubelet --agent bin/kube-proxy \
//!     --image registry.k8s.io/pause:3.10.2
//! ```
//!
//! The benchmark binds pods to the node itself, so no scheduler is measured. A time ends when a
//! watch of the API delivers the awaited change. The benchmark needs root and kubectl. Other load
//! on the machine distorts times, so the load is printed beside them.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use tests::Failure;

mod cost;
mod http;
mod idle;
mod logs;
mod many;
mod restart;
mod start;
mod streams;
mod subject;
mod watching;

use subject::Subject;

#[derive(Parser)]
struct Options {
    /// Which figures.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Figure::value_variants().to_vec())]
    figures: Vec<Figure>,
    /// Another cluster than one of its own.
    #[arg(long, requires_all = ["group", "agent"])]
    kubeconfig: Option<PathBuf>,
    /// The node that is measured.
    #[arg(long, default_value = "node-1")]
    node: String,
    /// The control group of the node's programs.
    #[arg(long)]
    group: Option<String>,
    /// What the command lines of the agent's programs contain; the first is who runs pods.
    #[arg(long)]
    agent: Vec<String>,
    /// The image of the pods, which the node has; it must stay without arguments.
    #[arg(long, default_value = "registry.orlop.dev/pause:1")]
    image: String,
    /// How many pods are many.
    #[arg(long, default_value_t = 110)]
    pods: usize,
    /// How many pods start one after the other.
    #[arg(long, default_value_t = 20)]
    singles: usize,
    /// How many pods start at once.
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// How many streams there are at once.
    #[arg(long, default_value_t = 90)]
    streams: usize,
    /// The image of the pods with streams: Orlop's own for tests.
    #[arg(long, default_value = "registry.orlop.dev/demo:1")]
    talker: String,
    /// Seconds of idleness before and while costs are measured.
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Figure {
    /// From bind to Ready, one pod after the other.
    Start,
    /// From the first bind to the last Ready of many at once.
    Batch,
    /// Memory and processor time of an idle node, without and with many pods.
    Idle,
    /// The agent's end and start beside many pods.
    Restart,
    /// A container's log to one reader.
    Logs,
    /// Many pods at once: their start, what they cost, their end, and what is left of them.
    Many,
    /// Many logs that are followed, commands and forwarded ports at once, by the API server.
    Streams,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    if !nix::unistd::geteuid().is_root() || tests::kubectl_program().is_none() {
        println!("skipped: clusters need root and kubectl");
        return Ok(());
    }
    tokio::runtime::Runtime::new()?.block_on(measure(&options))
}

async fn measure(options: &Options) -> Result<(), Failure> {
    let subject = Subject::find(options).await?;
    println!("load average at the start: {}", cost::load());
    for figure in &options.figures {
        match figure {
            Figure::Start => start::singles(&subject, options.singles).await?,
            Figure::Batch => start::batch(&subject, options.batch).await?,
            Figure::Idle => idle::run(&subject, options.pods, options.idle).await?,
            Figure::Restart => restart::run(&subject, options.pods).await?,
            Figure::Logs => logs::run(&subject).await?,
            Figure::Many => many::run(&subject, options.pods, options.idle).await?,
            Figure::Streams => streams::run(&subject, options.streams, &options.talker).await?,
        }
    }
    println!("load average at the end: {}", cost::load());
    subject.end()
}
