//! Scheduled backups of a server. With several servers, the leader of a separate election
//! makes them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use control_backup::age::Recipient;
use control_backup::create::{CreatedBackup, Request, create};
use control_backup::place::{Address, Place};
use control_backup::retention::Keep;
use control_backup::{BackupName, StoreSummary};
use control_client::Client;
use control_client::events::{Format as EventFormat, ObjectReference, Recorder};
use control_client::lease::Election;
use control_metrics::{Format, Kind, Page};
use control_store::Store;
use control_types::cron::Schedule;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{S3, about, server_files};
use crate::error::Error;

/// The lease of the server that makes backups, in `kube-system`.
const LEASE: &str = "orlop-backup";
/// Delay of a retry after a failure, unless the schedule is earlier.
const RETRY: Duration = Duration::from_secs(300);

/// Backups that the server makes.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "scheduled_backups")]
pub struct ScheduledBackup {
    /// Times of backups, as a CronJob has them: `@every 6h`, `0 3 * * *` (UTC; `TZ=…` before it
    /// for another zone).
    #[arg(long, value_name = "SCHEDULE", requires = "backup_to")]
    backup_schedule: Option<String>,
    /// Destination of backups: a folder, or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "PLACE", requires = "backup_schedule")]
    backup_to: Option<Address>,
    /// Backups to keep: a number, or a time such as 30d. The newest is kept in any case.
    #[arg(long, value_name = "RULE", default_value = "14")]
    backup_keep: Option<Keep>,
    /// age recipient (`age1…`) that backups are encrypted for. May be repeated.
    #[arg(long, value_name = "RECIPIENT")]
    backup_recipient: Vec<Recipient>,
    /// Do not encrypt backups: their readers get all keys and Secrets of the cluster.
    #[arg(long)]
    backup_plain: bool,
    #[command(flatten)]
    s3: S3,
}

/// Statistics of a server's backups.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    is_on: bool,
    last_success: Option<Timestamp>,
    size: u64,
    keys: u64,
    seconds: f64,
    successes: u64,
    failures: u64,
}

static FIGURES: Mutex<Option<Figures>> = Mutex::new(None);

/// Backups as configured.
struct BackupPlan {
    schedule: Schedule,
    place: Arc<dyn Place>,
    keep: Keep,
    recipients: Vec<Recipient>,
    data_dir: PathBuf,
    store: Arc<dyn Store>,
    kind: &'static str,
}

// === impl Scheduled ===

impl ScheduledBackup {
    /// Checks that the options are consistent, before anything is created.
    ///
    /// # Errors
    /// The inconsistency.
    pub fn check(&self) -> Result<(), Error> {
        let Some(schedule) = &self.backup_schedule else {
            return Ok(());
        };
        parse(schedule)?;
        super::recipients(&self.backup_recipient, self.backup_plain, "--backup-").map(drop)
    }

    /// Makes backups until `shutdown`; does nothing unless there is a schedule.
    ///
    /// # Errors
    /// Options that cannot be used.
    pub async fn run(
        self,
        store: Arc<dyn Store>,
        kind: &'static str,
        data_dir: &Path,
        client: Client,
        identity: &str,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let (Some(schedule), Some(to)) = (&self.backup_schedule, &self.backup_to) else {
            return Ok(());
        };
        let plan = BackupPlan {
            schedule: parse(schedule)?,
            place: self.s3.place(to)?,
            keep: self.backup_keep.unwrap_or(Keep::Last(14)),
            recipients: super::recipients(&self.backup_recipient, self.backup_plain, "--backup-")?,
            data_dir: data_dir.to_owned(),
            store,
            kind,
        };
        figures(|figures| figures.is_on = true);
        let election = Election::new("kube-system", LEASE, identity);
        election
            .lead_repeatedly(&client, &shutdown, |stop| plan.run(&client, identity, stop))
            .await;
        Ok(())
    }
}

fn parse(schedule: &str) -> Result<Schedule, Error> {
    Schedule::parse(schedule)
        .map_err(|error| Error::Option(format!("--backup-schedule `{schedule}`: {error}")))
}

/// Returns when the next backup is due: immediately if one was missed.
fn next_due(schedule: &Schedule, last: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    match last {
        Some(last) => schedule.next(last).map(|due| due.max(now)),
        None => Some(now),
    }
}

// === impl Plan ===

impl BackupPlan {
    /// Makes backups when they are due, until `stop`.
    async fn run(&self, client: &Client, identity: &str, stop: CancellationToken) {
        let recorder = Recorder::new(client, "orlop-backup", identity, EventFormat::Core);
        let mut not_before = Timestamp::now();
        loop {
            let now = Timestamp::now();
            let due = match self.last().await {
                Ok(last) => next_due(&self.schedule, last, now),
                Err(error) => {
                    self.failed(&recorder, &error);
                    if is_stopped_within(&stop, RETRY).await {
                        return;
                    }
                    continue;
                }
            };
            let Some(due) = due.map(|due| due.max(not_before)) else {
                tracing::warn!("backup schedule has no time within five years");
                return stop.cancelled().await;
            };
            let pause = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            if is_stopped_within(&stop, pause).await {
                return;
            }
            let made = tokio::select! {
                () = stop.cancelled() => return,
                made = self.make() => made,
            };
            match made {
                Ok(created) => self.succeeded(&created),
                Err(error) => {
                    self.failed(&recorder, &error);
                    not_before = Timestamp::now() + RETRY;
                }
            }
        }
    }

    async fn cluster(&self) -> Result<(StoreSummary, String), Error> {
        let about = about(&*self.store, self.kind).await?;
        let cluster = BackupName::new(&about, false).cluster;
        Ok((about, cluster))
    }

    /// When the newest backup of this cluster was made.
    async fn last(&self) -> Result<Option<Timestamp>, Error> {
        let (_, cluster) = self.cluster().await?;
        let found = blocking(&self.place, |place| place.list()).await?;
        let newest = found
            .into_iter()
            .filter(|one| one.name.cluster == cluster)
            .map(|one| one.name.created)
            .max();
        figures(|figures| figures.last_success = figures.last_success.max(newest));
        Ok(newest)
    }

    async fn make(&self) -> Result<CreatedBackup, Error> {
        let (about, cluster) = self.cluster().await?;
        let created = create(
            Arc::clone(&self.store),
            Request {
                about,
                files: server_files(&self.data_dir)?,
                recipients: self.recipients.clone(),
                place: Arc::clone(&self.place),
            },
        )
        .await
        .map_err(Error::Backup)?;
        let keep = self.keep;
        let removed = blocking(&self.place, move |place| {
            let names: Vec<BackupName> = place.list()?.into_iter().map(|one| one.name).collect();
            let expired = keep.expired(&names, &cluster, Timestamp::now());
            for name in &expired {
                place.remove(&name.to_string())?;
            }
            Ok(expired.len())
        });
        match removed.await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "expired backups removed"),
            // The backup is there all the same.
            Err(error) => tracing::warn!(
                error = crate::run::all_causes(&error),
                "failed to remove expired backups"
            ),
        }
        Ok(created)
    }

    fn succeeded(&self, created: &CreatedBackup) {
        tracing::info!(
            name = %created.name,
            place = self.place.describe(),
            size = created.size,
            keys = created.manifest.keys,
            took = ?created.took,
            "backup created"
        );
        figures(|figures| {
            figures.last_success = Some(created.manifest.about.created);
            figures.size = created.size;
            figures.keys = created.manifest.keys;
            figures.seconds = created.took.as_secs_f64();
            figures.successes += 1;
        });
    }

    fn failed(&self, recorder: &Recorder, error: &Error) {
        let error = crate::run::all_causes(error);
        tracing::error!(place = self.place.describe(), error, "backup failed");
        figures(|figures| figures.failures += 1);
        let namespace = ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            name: "kube-system".to_owned(),
            ..ObjectReference::default()
        };
        let message = format!("backup to {} failed: {error}", self.place.describe());
        recorder.warning(&namespace, "BackupFailed", message);
    }
}

async fn is_stopped_within(stop: &CancellationToken, time: Duration) -> bool {
    tokio::time::timeout(time, stop.cancelled()).await.is_ok()
}

async fn blocking<T: Send + 'static>(
    place: &Arc<dyn Place>,
    work: impl FnOnce(&dyn Place) -> Result<T, control_backup::Error> + Send + 'static,
) -> Result<T, Error> {
    let place = Arc::clone(place);
    tokio::task::spawn_blocking(move || work(&*place))
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        .map_err(Error::Backup)
}

fn figures(change: impl FnOnce(&mut Figures)) {
    let mut figures = FIGURES.lock().unwrap_or_else(PoisonError::into_inner);
    change(figures.get_or_insert_default());
}

/// Appends the metrics of backups, in OpenMetrics; nothing without a schedule.
pub fn write_metrics(out: &mut String) {
    let figures = *FIGURES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(figures) = figures.filter(|figures| figures.is_on) else {
        return;
    };
    let mut page = Page::new(Format::OpenMetrics);
    let last = figures.last_success.map_or(0, Timestamp::as_second);
    let mut gauge = |name: &str, help: &str, value: f64| {
        page.family(name, Kind::Gauge, help);
        page.sample(name, &[], value);
    };
    let exact = |number: u64| u32::try_from(number).map_or(number as f64, f64::from);
    gauge(
        "orlop_backup_last_success_timestamp_seconds",
        "Time of the newest backup of this cluster; 0 if there is none.",
        exact(u64::try_from(last).unwrap_or_default()),
    );
    gauge(
        "orlop_backup_last_size_bytes",
        "Size of the last backup that this process made.",
        exact(figures.size),
    );
    gauge(
        "orlop_backup_last_keys",
        "Keys in the last backup that this process made.",
        exact(figures.keys),
    );
    gauge(
        "orlop_backup_last_duration_seconds",
        "Duration of the last backup that this process made.",
        figures.seconds,
    );
    page.family(
        "orlop_backup_runs",
        Kind::Counter,
        "Backups by their result.",
    );
    for (result, count) in [
        ("success", figures.successes),
        ("failure", figures.failures),
    ] {
        page.sample("orlop_backup_runs_total", &[("result", result)], count);
    }
    out.push_str(&page.into_families());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(hour * 3_600).unwrap()
    }

    #[test]
    fn a_backup_that_was_missed_is_made_at_once() {
        let schedule = parse("0 3 * * *").unwrap();
        assert_eq!(next_due(&schedule, None, at(50)), Some(at(50)));
        assert_eq!(next_due(&schedule, Some(at(3)), at(50)), Some(at(50)));
        assert_eq!(next_due(&schedule, Some(at(27)), at(50)), Some(at(51)));
        assert!(parse("every day").is_err());
    }

    #[test]
    fn metrics_tell_of_the_last_backup() {
        let mut page = String::new();
        write_metrics(&mut page);
        assert_eq!(page, "");
        figures(|figures| {
            figures.is_on = true;
            figures.last_success = Some(at(1));
            figures.successes = 2;
        });
        write_metrics(&mut page);
        assert!(
            page.contains("orlop_backup_last_success_timestamp_seconds 3600"),
            "{page}"
        );
        assert!(
            page.contains("orlop_backup_runs_total{result=\"success\"} 2"),
            "{page}"
        );
    }
}
