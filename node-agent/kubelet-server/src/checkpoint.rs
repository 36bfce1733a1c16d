//! `/checkpoint/NAMESPACE/POD/CONTAINER`: has the runtime write a running
//! container to a file below the agent's folder (KEP-2008).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use http::{Response, StatusCode};
use jiff::Timestamp;
use node_agent_cri::api;
use node_agent_files::create_dirs;
use node_agent_objects::times::rfc3339;
use serde_json::json;

use super::{Body, query, reply, text};
use crate::KubeletServer;

/// A `timeout` that is no number, in the kubelet's words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse value of timeout parameter: \"{0}\"")]
struct InvalidTimeout(String);

/// The seconds that a query gives the runtime; none is as long as it needs.
fn timeout(text: Option<&str>) -> Result<i64, InvalidTimeout> {
    let all = query(text);
    let given = all.iter().find(|(key, _)| key == "timeout");
    given.map_or(Ok(0), |(_, value)| {
        value.parse().map_err(|_| InvalidTimeout(value.clone()))
    })
}

/// The answer: where the file is.
pub(super) async fn answer(
    server: &KubeletServer,
    namespace: &str,
    pod: &str,
    container: &str,
    text_of_query: Option<&str>,
) -> Response<Body> {
    let Some(entry) = server.pods.find(namespace, pod) else {
        return text(StatusCode::NOT_FOUND, "pod does not exist\n");
    };
    let record = entry.observed.latest(container).filter(|r| r.running());
    let Some(record) = record else {
        let message = format!("container {container} does not exist\n");
        return text(StatusCode::NOT_FOUND, message);
    };
    let timeout = match timeout(text_of_query) {
        Ok(timeout) => timeout,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    let folder = server.root.join("checkpoints");
    let private = fs::Permissions::from_mode(0o700);
    // the memory of containers is nobody else's
    let made = create_dirs(&folder, 0o700).and_then(|()| fs::set_permissions(&folder, private));
    if let Err(error) = made {
        let message = format!("cannot make `{}`: {error}", folder.display());
        return text(StatusCode::INTERNAL_SERVER_ERROR, message);
    }
    let file = folder.join(format!(
        "checkpoint-{pod}_{namespace}-{container}-{}.tar",
        rfc3339(Timestamp::now())
    ));
    let path = file.display().to_string();
    let done = server
        .runtime
        .checkpoint_container(api::CheckpointContainerRequest {
            container_id: record.id.clone(),
            location: path.clone(),
            timeout,
        })
        .await;
    match done {
        Ok(_) => reply(
            StatusCode::OK,
            "application/json",
            json!({"items": [path]}).to_string(),
        ),
        Err(error) => {
            let status = if error.is_unimplemented() {
                StatusCode::NOT_FOUND
            } else {
                StatusCode::INTERNAL_SERVER_ERROR
            };
            let message =
                format!("checkpointing of {namespace}/{pod}/{container} failed ({error})\n");
            text(status, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_given_is_a_number_or_an_error() {
        assert_eq!(timeout(None), Ok(0));
        assert_eq!(timeout(Some("timeout=30&x=1")), Ok(30));
        assert!(timeout(Some("timeout=soon")).is_err());
    }
}
