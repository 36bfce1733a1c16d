//! How a machine's member comes into a cluster: added as a learner, which costs no majority,
//! and promoted once it has caught up.

use std::time::Duration;

use tokio::time::Instant;

use crate::plan::{Admission, admission};
use crate::{Admin, Error, Record};

/// How long another learner may take to catch up before ours is added: etcd takes one at a time.
const TURN: Duration = Duration::from_secs(120);
/// How long ours may take to be promoted.
const CATCH_UP: Duration = Duration::from_secs(300);
const AGAIN: Duration = Duration::from_millis(300);

/// Adds the member of `record` as a learner, unless it was added before and has not started
/// since; returns the record with which it starts.
///
/// # Errors
/// [`Error::Taken`], [`Error::Unreachable`] or [`Error::Refused`].
pub async fn add(admin: &Admin, mut record: Record) -> Result<Record, Error> {
    let until = Instant::now() + TURN;
    let url = record.peer_url();
    let members = loop {
        let members = admin.members().await?;
        match admission(&members, &record.name, &url)? {
            Admission::Resume(_) => break members,
            Admission::Add => match admin.add_learner(&url).await {
                Ok(id) => {
                    tracing::info!(id = format!("{id:x}"), url, "added to etcd as a learner");
                    break admin.members().await?;
                }
                Err(error @ Error::Refused { .. }) if Instant::now() >= until => {
                    return Err(error);
                }
                // Another learner catches up, or the cluster is not settled yet.
                Err(error @ (Error::Refused { .. } | Error::Unreachable { .. }))
                    if Instant::now() < until =>
                {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::info!(%error, cause, "etcd does not accept another member now, retrying");
                }
                Err(error) => return Err(error),
            },
        }
        tokio::time::sleep(AGAIN).await;
    };
    record.joined = true;
    record.initial_cluster = Vec::new();
    for member in members {
        record.others.extend(member.client_urls.iter().cloned());
        for peer in &member.peer_urls {
            let name = match member.name.is_empty() {
                true if *peer == url => record.name.clone(),
                // Another one that has not started: etcd wants all URLs, and any name.
                true => format!("{:x}", member.id),
                false => member.name.clone(),
            };
            record.initial_cluster.push((name, peer.clone()));
        }
    }
    Ok(record)
}

/// Waits until the member of `record` is a voter, and promotes it when it has caught up.
/// `local` queries the member itself; a learner does not list the others, which are
/// queried at their addresses from when it was added.
///
/// # Errors
/// [`Error::NotPromoted`].
pub async fn promote(local: &Admin, record: &Record) -> Result<(), Error> {
    let until = Instant::now() + CATCH_UP;
    let url = record.peer_url();
    let others = local.at(record.others.clone());
    loop {
        let own = local.status(&record.local_url()).await;
        if own.is_ok_and(|own| own.leader != 0 && !own.is_learner) {
            return Ok(());
        }
        let attempt = async {
            let members = others.members().await?;
            let own = members.iter().find(|one| one.peer_urls.contains(&url));
            match own {
                Some(own) if own.is_learner => others.promote(own.id).await.map(|()| own.id),
                Some(own) => Ok(own.id),
                None => Err(Error::NoMember {
                    name: record.name.clone(),
                    known: String::new(),
                }),
            }
        };
        let error = match attempt.await {
            Ok(id) => {
                tracing::info!(
                    name = record.name,
                    id = format!("{id:x}"),
                    "etcd member promoted to voter"
                );
                return Ok(());
            }
            Err(error) => error,
        };
        if Instant::now() >= until {
            return Err(Error::NotPromoted {
                name: record.name.clone(),
                waited: CATCH_UP,
                source: Some(Box::new(error)),
            });
        }
        tracing::debug!(%error, "learner not promoted yet");
        tokio::time::sleep(AGAIN).await;
    }
}

/// Waits until the member at `endpoint` answers and knows a leader.
///
/// # Errors
/// [`Error::NotServing`] after `patience`.
pub async fn serving(admin: &Admin, endpoint: &str, patience: Duration) -> Result<(), Error> {
    let until = Instant::now() + patience;
    loop {
        match admin.status(endpoint).await {
            Ok(status) if status.leader != 0 => return Ok(()),
            _ if Instant::now() >= until => return Err(Error::NotServing { waited: patience }),
            _ => tokio::time::sleep(AGAIN).await,
        }
    }
}
