//! `orlop etcd recover`: restores a majority from one member after the others are
//! permanently lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use control_backup::restore::raise_revision;
use control_etcd::plan::MemberView;
use control_etcd::record::Launch;
use control_etcd::{Admin, Record, process, recover};
use control_pki::EtcdPki;

use crate::error::Error;
use crate::server_record::{EtcdRecord, ServerRecord};
use crate::servers::{self, etcd};
use crate::stores;

/// How long the member may take to serve.
const PATIENCE: Duration = Duration::from_secs(60);

/// How to continue.
#[derive(Args)]
pub struct Options {
    /// The program of the managed etcd: 3.4 to 3.7.
    #[arg(long, value_name = "PATH", default_value = "etcd")]
    etcd_binary: PathBuf,
    /// Upper bound of changes that the lost members may have acknowledged and this one
    /// does not have. The revision is raised by it, so that no client's watch goes
    /// backwards.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    revisions_ahead: u64,
    /// Go on alone even if other members answer and know a leader.
    #[arg(long)]
    force: bool,
}

/// Runs the command.
///
/// # Errors
/// A running server, members that have a majority, or a member that does not start.
pub async fn run(data_dir: &Path, options: &Options) -> Result<(), Error> {
    let failed = |error| Error::Servers(servers::Error::Etcd(error));
    let folder = etcd::folder(data_dir);
    let record = Record::load(&folder).map_err(failed)?.ok_or_else(|| {
        Error::Option(format!(
            "`{}` has no member of etcd: name the folder of a server with --data-dir",
            folder.display()
        ))
    })?;
    if ServerRecord::read(data_dir).is_some_and(|server| server.is_running()) {
        return Err(Error::Option(
            "the server runs: stop it first, and start it again afterwards".to_owned(),
        ));
    }
    process::check(&options.etcd_binary).map_err(failed)?;
    let keys = data_dir.join("pki");
    let credentials = etcd::credentials(&keys).map_err(Error::Servers)?;
    let others = Admin::new(credentials.clone(), record.others.clone());
    let has_leader = async {
        let members = others.survey().await.unwrap_or_default();
        members.iter().any(MemberView::is_healthy)
    };
    if !options.force && has_leader.await {
        return Err(Error::Option(
            "other members answer and know a leader: nothing is lost; use `orlop etcd members \
             replace`, or --force"
                .to_owned(),
        ));
    }
    let pki = EtcdPki::load_or_create(&keys).map_err(Error::Pki)?;
    let names = record.certificate_names();
    pki.keep_member(&record.name, &names).map_err(Error::Pki)?;
    let launch = Launch {
        binary: options.etcd_binary.clone(),
        folder: folder.clone(),
        pki: pki.file(""),
        // Nothing large is written; the server has its own limits.
        quota_bytes: 8 << 30,
        begins_anew: true,
    };
    let local = Admin::new(credentials, vec![record.local_url()]);
    let (record, member) = recover::alone(record, &launch, &local, PATIENCE)
        .await
        .map_err(failed)?;
    let raised = raise(&record, &pki, options.revisions_ahead).await;
    member.stop().await;
    let revision = raised?;
    record.save(&folder).map_err(failed)?;
    println!(
        "{} is the only member now, at revision {revision}: clients list again\nstart the server \
         here; on each other machine remove the folder `etcd` of its --data-dir before it joins \
         with the line of `orlop token create --server`",
        record.name
    );
    Ok(())
}

/// Raises the revision above any that a client may have seen, and compacts the history. A watch
/// from an older revision then ends with 410 Gone and the client lists again, rather than silently
/// missing the lost changes.
async fn raise(record: &Record, pki: &EtcdPki, ahead: u64) -> Result<u64, Error> {
    let own = EtcdRecord {
        servers: vec![record.local_url()],
        ca_file: Some(pki.file("ca.crt")),
        cert_file: Some(pki.file("client.crt")),
        key_file: Some(pki.file("client.key")),
    };
    let opened = stores::etcd_store(&own).await?;
    let newest = opened.store.latest().await.map_err(Error::Store)?;
    let wanted = newest.saturating_add(ahead.max(1));
    raise_revision(&*opened.store, wanted, &opened.name)
        .await
        .map_err(Error::Backup)
}
