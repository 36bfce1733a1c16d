//! Maintenance that etcd leaves to its operator: quota alarms and defragmentation. The
//! leader's server does it, so that only one does.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::plan::{Defragmentation, MemberView, defragmentation_order, next_defragmentation};
use crate::{Admin, Error, Record};

/// How often the cluster is looked at.
const EVERY: Duration = Duration::from_secs(20);

/// Looks after the cluster whenever the member of `record` leads it, until `shutdown`, and keeps
/// the record in `folder` up to date.
pub async fn run(admin: Admin, mut record: Record, folder: PathBuf, shutdown: CancellationToken) {
    let policy = Defragmentation::default();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let done = async {
            let members = admin.survey().await?;
            if record.knows(&members) {
                record.save(&folder)?;
            }
            look_after(&admin, &record, &members, policy).await
        };
        if let Err(error) = done.await {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, cause, "etcd maintenance failed, retrying");
        }
    }
}

/// Performs due maintenance, if the member leads.
///
/// # Errors
/// [`Error::Unreachable`] or [`Error::Refused`].
pub async fn once(admin: &Admin, record: &Record, policy: Defragmentation) -> Result<(), Error> {
    let members = admin.survey().await?;
    look_after(admin, record, &members, policy).await
}

async fn look_after(
    admin: &Admin,
    record: &Record,
    members: &[MemberView],
    policy: Defragmentation,
) -> Result<(), Error> {
    let own = members
        .iter()
        .find(|member| member.peer_urls.contains(&record.peer_url()));
    if !own.is_some_and(MemberView::is_leader) {
        return Ok(());
    }
    let full = admin.quota_alarms().await?;
    if !full.is_empty() {
        return free_space(admin, members, &full).await;
    }
    if let Some(member) = next_defragmentation(members, policy) {
        defragment(admin, member).await?;
    }
    Ok(())
}

/// Makes a cluster writable again whose quota is used up: history is forgotten, files are made
/// smaller, the alarm is taken back. Where it is the data itself, the alarm comes again.
async fn free_space(admin: &Admin, members: &[MemberView], full: &[u64]) -> Result<(), Error> {
    tracing::error!(
        members = ?full.iter().map(|id| format!("{id:x}")).collect::<Vec<_>>(),
        "etcd has exceeded its quota and rejects writes, compacting and defragmenting it"
    );
    let revision = admin.compact().await?;
    tracing::info!(revision, "etcd history compacted");
    for member in defragmentation_order(members) {
        defragment(admin, member).await?;
    }
    admin.disarm(full).await?;
    tracing::info!("etcd accepts writes again; delete unused objects, or raise --etcd-quota");
    Ok(())
}

async fn defragment(admin: &Admin, member: &MemberView) -> Result<(), Error> {
    let Some(url) = member.client_urls.first() else {
        return Ok(());
    };
    let began = std::time::Instant::now();
    admin.defragment(url).await?;
    let after = admin.status(url).await.map(|status| status.db_size);
    tracing::info!(
        member = member.label(),
        took = ?began.elapsed(),
        before = member.status.as_ref().map(|status| status.db_size),
        after = after.ok(),
        "etcd member defragmented"
    );
    Ok(())
}
