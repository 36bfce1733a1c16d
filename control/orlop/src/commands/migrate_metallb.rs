//! `orlop migrate metallb`: take load balancer addresses over, one after another.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use control_import::metallb;

use super::policy::manifests;
use super::policy_import::{show_remarks, yaml};
use crate::{
    error::Error,
    kubeconfig::Kubeconfig,
    migrate::metallb::{MANAGER, Takeover},
    values,
};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop migrate metallb --dry-run     list what would be done
  orlop migrate metallb               all addresses, one after another
  orlop migrate metallb --undo        give the addresses back to MetalLB
  orlop migrate metallb -f metallb/   convert files, and print Orlop's objects";

/// Options of `orlop migrate metallb`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// File or folder of MetalLB's objects; may be repeated. They are converted and
    /// printed without contacting a cluster.
    #[arg(
        short = 'f',
        long = "file",
        value_name = "DIR|FILE",
        conflicts_with = "undo"
    )]
    pub files: Vec<PathBuf>,
    /// Return the addresses to MetalLB, as recorded at the take-over.
    #[arg(long)]
    pub undo: bool,
    /// List what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Go on without what cannot be converted.
    #[arg(long)]
    pub lossy: bool,
    /// Take over also addresses that only one node announces by BGP, or that belong to a Service
    /// with others that ARP or NDP announces: their routes are away for some seconds.
    #[arg(long)]
    pub allow_gap: bool,
    /// How long one step may take.
    #[arg(long, value_parser = values::duration, default_value = "60s", value_name = "DURATION")]
    pub timeout: Duration,
    /// MetalLB's namespace.
    #[arg(long, default_value = "metallb-system", value_name = "NAME")]
    pub namespace: String,
    /// MetalLB's controller, a Deployment.
    #[arg(long, default_value = "controller", value_name = "NAME")]
    pub controller: String,
    /// MetalLB's speakers, a DaemonSet.
    #[arg(long, default_value = "speaker", value_name = "NAME")]
    pub speaker: String,
    /// MetalLB's webhooks, a ValidatingWebhookConfiguration.
    #[arg(
        long,
        default_value = "metallb-webhook-configuration",
        value_name = "NAME"
    )]
    pub webhooks: String,
}

/// Runs the command.
///
/// # Errors
/// Why it cannot begin, or the address or node at which it stopped.
pub async fn run(options: Options) -> Result<(), Error> {
    if !options.files.is_empty() {
        return options.print_converted();
    }
    let client = options.kubeconfig.client(MANAGER).await?;
    let takeover = Takeover { client, options };
    if takeover.options.undo {
        takeover.undo().await
    } else {
        takeover.run().await
    }
}

impl Options {
    fn print_converted(&self) -> Result<(), Error> {
        let mut documents = Vec::new();
        for path in &self.files {
            manifests(path, true, &mut documents)?;
        }
        let report = metallb::convert(&control_import::flatten(documents), self.lossy)
            .map_err(|error| Error::Migration(error.to_string()))?;
        show_remarks(&report);
        print!("{}", yaml(&report.objects)?);
        if report.is_complete() || self.lossy {
            return Ok(());
        }
        Err(Error::Migration(format!(
            "{} parts were not converted; see above",
            report.refused.len()
        )))
    }
}
