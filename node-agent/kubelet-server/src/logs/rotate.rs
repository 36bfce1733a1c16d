//! Keeps logs small: a file that has grown too long is put aside, and the oldest go.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use node_agent_cri::Runtime;
use node_agent_cri::api::ContainerId;
use node_agent_kubelet_config::Settings;
use node_agent_pod_registry::PodRegistry;
use tokio_util::sync::CancellationToken;

/// How often all logs are looked at.
const ROTATE_EVERY: Duration = Duration::from_secs(10);

/// Rotates logs that have grown too long, until `shutdown`.
pub async fn rotate(
    pods: Arc<PodRegistry>,
    runtime: Arc<dyn Runtime>,
    settings: Arc<Settings>,
    shutdown: CancellationToken,
) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(ROTATE_EVERY) => {}
        }
        for entry in pods.all() {
            for record in entry.observed.containers.iter().filter(|c| c.running()) {
                let path = Path::new(&record.log_path);
                if record.log_path.is_empty()
                    || fs::metadata(path).map_or(0, |m| m.len()) < settings.log_most
                {
                    continue;
                }
                let stamp = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
                let aside = PathBuf::from(format!("{}.{stamp}", record.log_path));
                if let Err(error) = fs::rename(path, &aside) {
                    tracing::warn!(path = %path.display(), %error, "failed to rotate the log");
                    continue;
                }
                let reopened = runtime
                    .reopen_container_log(ContainerId {
                        container_id: record.id.clone(),
                    })
                    .await;
                if let Err(error) = reopened {
                    // the runtime goes on writing the old file
                    tracing::warn!(path = %path.display(), %error, "failed to reopen the log");
                    let _ = fs::rename(&aside, path);
                    continue;
                }
                drop_old(path, settings.log_files);
            }
        }
    }
}

/// Removes all but the newest of a log's rotated files.
fn drop_old(path: &Path, most: usize) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        return;
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut rotated: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| {
            e.file_name()
                .to_str()
                .and_then(|n| n.strip_prefix(name))
                .is_some_and(|rest| rest.starts_with('.'))
        })
        .map(|e| e.path())
        .collect();
    rotated.sort();
    let excess = rotated.len().saturating_sub(most.saturating_sub(1));
    for old in rotated.into_iter().take(excess) {
        let _ = fs::remove_file(old);
    }
}
