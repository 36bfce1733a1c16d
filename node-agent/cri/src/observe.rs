//! Asks the runtime what it has of a pod.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use node_agent_files::{clip, read_tail};

use super::observed::{ObservedContainer, ObservedPod, ObservedSandbox, key};
use crate::{LogLine, Result, Runtime, api};

/// Longest termination message from a file.
const MESSAGE_MOST: u16 = 4096;

/// Longest reason for the end of a container.
const REASON_MOST: usize = 1024;

/// Longest termination message from a log: bytes and lines.
const LOG_MOST: (u64, usize) = (2048, 80);

/// What the runtime has of the pod now. What is known of `before` and cannot
/// have changed is not asked for again.
///
/// # Errors
/// When the runtime does not answer.
pub async fn pod(runtime: &dyn Runtime, uid: &str, before: &ObservedPod) -> Result<ObservedPod> {
    let selector = BTreeMap::from([(key::POD_UID.to_owned(), uid.to_owned())]);
    let sandboxes = runtime.list_pod_sandbox(api::ListPodSandboxRequest {
        filter: Some(api::PodSandboxFilter {
            label_selector: selector.clone(),
            ..api::PodSandboxFilter::default()
        }),
    });
    let containers = runtime.list_containers(api::ListContainersRequest {
        filter: Some(api::ContainerFilter {
            label_selector: selector,
            ..api::ContainerFilter::default()
        }),
    });
    let (sandboxes, containers) = futures::future::try_join(sandboxes, containers).await?;
    let mut observed = ObservedPod::default();
    for found in sandboxes.items {
        let ready = found.state() == api::PodSandboxState::Ready;
        let known = before
            .sandboxes
            .iter()
            .find(|s| s.id == found.id && s.ready == ready && (!ready || !s.ips.is_empty()));
        if let Some(known) = known {
            observed.sandboxes.push(known.clone());
            continue;
        }
        let mut sandbox = ObservedSandbox {
            ready,
            created_at: found.created_at,
            attempt: found.metadata.as_ref().map_or(0, |m| m.attempt),
            id: found.id,
            ips: before
                .sandboxes
                .iter()
                .filter(|_| !ready)
                .find(|s| s.created_at == found.created_at)
                .map(|s| s.ips.clone())
                .unwrap_or_default(),
        };
        if ready {
            let status = runtime
                .pod_sandbox_status(api::PodSandboxStatusRequest {
                    pod_sandbox_id: sandbox.id.clone(),
                    verbose: false,
                })
                .await;
            match status {
                Ok(status) => sandbox.ips = addresses(status.status),
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            }
        }
        observed.sandboxes.push(sandbox);
    }
    for found in containers.containers {
        let known = before
            .containers
            .iter()
            .find(|c| c.id == found.id && c.state == found.state());
        if let Some(known) = known {
            observed.containers.push(known.clone());
            continue;
        }
        match container(runtime, &found.id, &found.pod_sandbox_id).await {
            Ok(Some(container)) => observed.containers.push(Arc::new(container)),
            Ok(None) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    observed.sort();
    Ok(observed)
}

async fn container(
    runtime: &dyn Runtime,
    id: &str,
    sandbox: &str,
) -> Result<Option<ObservedContainer>> {
    let answer = runtime
        .container_status(api::ContainerStatusRequest {
            container_id: id.to_owned(),
            verbose: false,
        })
        .await?;
    let Some(status) = answer.status else {
        return Ok(None);
    };
    let Some(mut container) = ObservedContainer::from_status(&status, sandbox) else {
        return Ok(None);
    };
    if container.exited() {
        let last_words = last_words(&status);
        if !last_words.is_empty() {
            container.message = last_words;
        }
    }
    // what the runtime says of an end may quote the image or the container
    clip(&mut container.message, MESSAGE_MOST.into());
    clip(&mut container.reason, REASON_MOST);
    Ok(Some(container))
}

fn addresses(status: Option<api::PodSandboxStatus>) -> Vec<String> {
    let Some(network) = status.and_then(|s| s.network) else {
        return Vec::new();
    };
    std::iter::once(network.ip)
        .chain(network.additional_ips.into_iter().map(|a| a.ip))
        .filter(|ip| !ip.is_empty())
        .collect()
}

/// What a container that ended says about its end.
fn last_words(status: &api::ContainerStatus) -> String {
    let annotation = |name: &str| status.annotations.get(name).map_or("", String::as_str);
    let at = annotation(key::MESSAGE_PATH);
    let file = status
        .mounts
        .iter()
        .find(|m| !at.is_empty() && m.container_path == at)
        .map(|m| tail(Path::new(&m.host_path), MESSAGE_MOST.into()))
        .unwrap_or_default();
    let from_log = annotation(key::MESSAGE_POLICY) == "FallbackToLogsOnError";
    if !file.is_empty() || !from_log || status.exit_code == 0 {
        return file;
    }
    from_log_text(&tail(Path::new(&status.log_path), LOG_MOST.0 + 4096))
}

/// The last lines of a log. A line that the container did not end stays open.
fn from_log_text(text: &str) -> String {
    let mut lines: Vec<LogLine<'_>> = text
        .lines()
        .filter_map(|line| LogLine::parse(line.as_bytes()))
        .collect();
    let skip = lines.len().saturating_sub(LOG_MOST.1);
    lines.drain(..skip);
    let mut out = String::new();
    for line in lines {
        out.push_str(&String::from_utf8_lossy(line.content));
        if !line.partial {
            out.push('\n');
        }
    }
    let most = usize::try_from(LOG_MOST.0).unwrap_or(usize::MAX);
    let mut from = out.len().saturating_sub(most);
    while !out.is_char_boundary(from) {
        from += 1;
    }
    out.split_off(from)
}

/// The last bytes of a file; empty when there is none.
fn tail(path: &Path, most: u64) -> String {
    String::from_utf8_lossy(&read_tail(path, most).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_a_pipe_or_of_any_size_keeps_nobody_waiting() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(tail(&pipe, MESSAGE_MOST.into()), "");
        let sparse = dir.path().join("sparse");
        let file = std::fs::File::create(&sparse).unwrap();
        file.set_len(20 << 30).unwrap();
        assert_eq!(tail(&sparse, MESSAGE_MOST.into()).len(), 4096);
    }

    #[test]
    fn last_words_from_a_log_end_as_the_container_ended_them() {
        let time = "2026-01-02T03:04:05.000000006Z";
        let one = |tag: &str, text: &str| format!("{time} stdout {tag} {text}\n");
        assert_eq!(from_log_text(&one("P", "DONE")), "DONE");
        assert_eq!(from_log_text(&one("F", "DONE")), "DONE\n");
        let split = one("P", "DO") + &one("F", "NE") + "nonsense\n";
        assert_eq!(from_log_text(&split), "DONE\n");
        let many: String = (0..100).map(|n| one("F", &n.to_string())).collect();
        assert!(from_log_text(&many).starts_with("20\n21\n"));
        let long = one("F", &"é".repeat(2000));
        let found = from_log_text(&long);
        assert!(found.len() <= 2048 && found.ends_with("é\n"));
    }
}
