//! `orlop support-bundle`: one file for who helps.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use control_client::Client;
use jiff::Timestamp;
use node_agent::machine as checks;
use serde_json::json;

use super::status::{self, PlacesArgs};
use crate::{
    bundle::{SupportBundle, collect},
    error::Error,
    kubeconfig::Kubeconfig,
    values,
};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop support-bundle                             orlop-support-HOST-TIME.tar.gz in this folder
  orlop support-bundle --file /tmp/it.tar.gz --since '2 hours ago'
  tar -xOf FILE --wildcards '*/contents.json'      what is in it, and what is missing

Secrets and ConfigMaps are not read. Keys, tokens, passwords, and values of pods' environment are
taken out of the rest. Names, addresses and images stay: look through it before you send it.";

/// Contents and destination.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    #[command(flatten)]
    places: PlacesArgs,
    /// Path of the bundle; the file must not exist.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How far back logs go, as journalctl reads it.
    #[arg(long, default_value = "6 hours ago", value_name = "TIME")]
    since: String,
    /// Megabytes of all files together, before compression.
    #[arg(long, default_value_t = 64, value_name = "NUMBER")]
    max_size: usize,
    /// Time limit of collecting; missing parts are left out.
    #[arg(long, value_parser = values::duration, default_value = "1m30s", value_name = "DURATION")]
    timeout: Duration,
    /// The container runtime's socket.
    #[arg(
        long,
        default_value = "unix:///run/containerd/containerd.sock",
        value_name = "SOCKET"
    )]
    container_runtime_endpoint: String,
}

/// Collects and writes the bundle.
///
/// # Errors
/// A file that cannot be written.
pub async fn run(options: Options) -> Result<(), Error> {
    let now = Timestamp::now();
    let host = nix::unistd::gethostname().map_err(|errno| Error::Start(errno.into()))?;
    let path = options.file.clone().unwrap_or_else(|| {
        let host = host.to_string_lossy();
        PathBuf::from(format!(
            "orlop-support-{host}-{}.tar.gz",
            now.strftime("%Y%m%dT%H%M%SZ")
        ))
    });
    let mut bundle = SupportBundle::new(options.max_size << 20);
    let collected = {
        let gathering = Box::pin(gather(&mut bundle, &options));
        tokio::time::timeout(options.timeout, gathering).await
    };
    if collected.is_err() {
        let limit = options.timeout.as_secs();
        bundle.missing("…", &format!("collecting took longer than {limit} s"));
    }
    let size = bundle.write(&path, now).map_err(|source| Error::File {
        path: path.clone(),
        source,
    })?;
    let missing = bundle.contents().iter().filter(|it| it.error.is_some());
    for entry in missing.clone() {
        let why = entry.error.as_deref().unwrap_or_default();
        eprintln!("missing: {}: {why}", entry.name);
    }
    println!(
        "{}: {} files, {} missing, {:.1} MiB",
        path.display(),
        bundle.contents().len() - missing.clone().count(),
        missing.count(),
        size as f64 / f64::from(1 << 20)
    );
    Ok(())
}

async fn gather(bundle: &mut SupportBundle, options: &Options) {
    let machine = crate::status::machine::MachinePaths::from(options.places.clone());
    let parts = status::parts(&options.kubeconfig, &machine).await;
    collect::add_json(bundle, "status.json", json!({ "parts": parts }));
    let places = collect::BundlePaths {
        checks: checks::ProbePaths {
            pin_dir: machine.pin_dir.clone(),
            runtime_endpoint: options.container_runtime_endpoint.clone(),
            disks: super::preflight::DISKS.map(PathBuf::from).to_vec(),
        },
        machine,
        since: options.since.clone(),
    };
    collect::of_machine(bundle, &places).await;
    match options.kubeconfig.files_of_machine() {
        Err(error) => bundle.missing("cluster", &error.to_string()),
        Ok(files) => match Client::from_kubeconfigs(&files).await {
            Ok(client) => {
                collect::of_cluster(bundle, &client.named("orlop-support-bundle")).await;
            }
            Err(error) => bundle.missing("cluster", &error.chain()),
        },
    }
}
