//! The `default` service account of every namespace.

use std::sync::Arc;

use control_client::{Client, Discard, Queue, resources};
use serde_json::json;

use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Namespace, ServiceAccount};
use crate::work::{self, Outcome};

/// Keeps a `default` service account in every namespace.
pub const CONTROLLER: Controller = Controller {
    name: "serviceaccount-controller",
    service_account: "service-account-controller",
    start: |ctx| {
        let this = Arc::new(Accounts {
            client: ctx.client.clone(),
            namespaces: ctx.namespaces(),
            accounts: ctx.service_accounts(),
            queue: work::queue(),
        });
        this.namespaces.queue_present(&this.queue);
        let listener = Arc::clone(&this);
        this.accounts.on_change(move |change| {
            if let (Some(account), None) = (&change.previous, &change.current)
                && account.metadata.name == "default"
            {
                listener
                    .queue
                    .add(Key::new("", account.metadata.namespace.clone()));
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.namespaces.ready().await;
            this.accounts.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("serviceaccount", 2, &shutdown, work).await;
        })
    },
};

struct Accounts {
    client: Client,
    namespaces: Arc<KindCache<Namespace>>,
    accounts: Arc<KindCache<ServiceAccount>>,
    queue: Queue<Key>,
}

/// Whether the namespace needs its account now.
fn needed(namespace: Option<&Namespace>, account: Option<&ServiceAccount>) -> bool {
    namespace.is_some_and(|n| !n.metadata.is_terminating() && n.status.phase != "Terminating")
        && account.is_none()
}

impl Accounts {
    async fn sync(&self, key: Key) -> Outcome {
        let namespace = self.namespaces.by_key(&key);
        let account = self.accounts.get(&key.name, "default");
        if !needed(namespace.as_deref(), account.as_deref()) {
            return Ok(None);
        }
        let body = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": key.name},
        });
        let created = self
            .client
            .create::<Discard>(&resources::SERVICE_ACCOUNTS, &key.name, &body)
            .await;
        work::unless_overtaken(created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_is_made_only_where_the_namespace_stays() {
        let namespace = |phase: &str| Namespace {
            status: serde_json::from_value(json!({"phase":phase})).unwrap(),
            ..Namespace::default()
        };
        assert!(needed(Some(&namespace("Active")), None));
        assert!(!needed(Some(&namespace("Terminating")), None));
        assert!(!needed(
            Some(&namespace("Active")),
            Some(&ServiceAccount::default())
        ));
        assert!(!needed(None, None));
    }
}
