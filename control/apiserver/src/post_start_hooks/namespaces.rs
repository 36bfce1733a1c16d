//! The namespaces that every cluster has.

use std::time::Duration;

use control_types::status::Status;
use control_types::value;
use futures::FutureExt;

use super::PostStartHook;
use control_registry::{Registry, own};

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("namespaces", Duration::from_secs(60), |context| {
        run(context).boxed()
    })
    .following(&[("", "namespaces")]);

async fn run(registry: &Registry) -> Result<(), Status> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let object = value!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
        });
        own::ensure(registry, ("", "namespaces"), own::OWN, object, |_, _| false).await?;
    }
    Ok(())
}
