//! `orlop-csi`: the CSI driver `csi.orlop.dev` as a separate process.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use csi::backend::Environment;
use csi::config::Config;
use csi::steps::TraceSteps;
use csi::tool::SystemRunner;
use csi::{Options, server, systemd};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Serve local volumes over the Container Storage Interface.
#[derive(Parser)]
#[command(name = "orlop-csi", version)]
struct Arguments {
    /// Socket for all services, as unix:///PATH.
    #[arg(long, env = "CSI_ENDPOINT")]
    endpoint: String,
    /// Name of the node, as the cluster knows it.
    #[arg(long, env = "NODE_NAME")]
    node_id: String,
    /// Configuration file (kind VolumeConfiguration).
    #[arg(long)]
    config: PathBuf,
    /// Address at which to serve metrics over HTTP.
    #[arg(long)]
    metrics: Option<SocketAddr>,
    /// Folder of the kubelet's registration sockets; registers the driver without a sidecar.
    #[arg(long)]
    registration_dir: Option<PathBuf>,
    /// Grow volumes through the node service alone, for a resizer that is one for all nodes.
    #[arg(long)]
    expand_on_node: bool,
    /// Check the configuration and exit.
    #[arg(long)]
    check: bool,
    /// Log lines as JSON.
    #[arg(long)]
    log_json: bool,
}

/// Logs an error with its causes.
fn fail(error: &dyn std::error::Error) -> ExitCode {
    let mut causes = String::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        causes.push_str(": ");
        causes.push_str(&error.to_string());
        cause = error.source();
    }
    eprintln!("error: {error}{causes}");
    ExitCode::FAILURE
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_env("ORLOP_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    if arguments.log_json {
        lines.json().init();
    } else {
        lines.init();
    }
    let config = match Config::load(&arguments.config) {
        Ok(config) => config,
        Err(error) => return fail(&error),
    };
    let socket = match server::socket_path(&arguments.endpoint) {
        Ok(socket) => socket,
        Err(error) => return fail(&error),
    };
    if arguments.check {
        println!("{} classes", config.classes.len());
        return ExitCode::SUCCESS;
    }
    let options = Options {
        socket,
        node: arguments.node_id,
        config,
        metrics: arguments.metrics,
        registry: arguments.registration_dir,
        expands_on_node: arguments.expand_on_node,
        counts: csi::metrics::Metrics::default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(serve(options)),
        Err(error) => fail(&error),
    }
}

async fn serve(options: Options) -> ExitCode {
    let shutdown = CancellationToken::new();
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        eprintln!("error: cannot listen to signals");
        return ExitCode::FAILURE;
    };
    let environment = Environment {
        tools: Arc::new(SystemRunner),
        steps: Arc::new(TraceSteps),
    };
    let running = csi::run(options, environment, shutdown.clone(), || tell("READY=1"));
    tokio::pin!(running);
    let stopped = tokio::select! {
        ended = &mut running => Some(ended),
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    let ended = match stopped {
        Some(ended) => ended,
        None => {
            tell("STOPPING=1");
            tracing::info!("stopping");
            shutdown.cancel();
            running.await
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Tells systemd, where it wants to know.
fn tell(state: &str) {
    let socket = std::env::var_os("NOTIFY_SOCKET");
    if let Err(error) = systemd::notify(socket.as_deref(), state) {
        tracing::warn!(state, %error, "failed to notify systemd");
    }
}
