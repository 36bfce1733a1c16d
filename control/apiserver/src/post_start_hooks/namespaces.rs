//! The namespaces that every cluster has.

use std::time::Duration;

use control_types::status::Status;
use control_types::value;
use futures::FutureExt;

use super::{PostStartHook, SETTLE};
use crate::api::Api;
use control_registry::own;

pub(super) static HOOK: PostStartHook = PostStartHook {
    name: "namespaces",
    follows: &[("", "namespaces")],
    every: Duration::from_secs(60),
    settle: SETTLE,
    run: |api| run(api).boxed(),
    stop: None,
};

async fn run(api: &Api) -> Result<(), Status> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let object = value!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
        });
        own::ensure(api, ("", "namespaces"), own::OWN, object, |_, _| false).await?;
    }
    Ok(())
}
