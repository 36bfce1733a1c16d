//! Deletion of namespaces with all that is in them.
//!
//! The API server marks a namespace; this controller deletes the contents and
//! then takes `kubernetes` from its finalizers, by which the namespace goes.
//! Which resources there are is the registry's table, and what discovery names
//! beyond it (custom resources).

mod decide;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use control_client::{
    Client, DeleteOptions, Discard, Error, Metadata, Propagation, Queue, Resource, Selection, View,
    resources,
};
use control_types::registry;
use serde_json::{Value, json};

use self::decide::Sweep;
use crate::context::{Key, Kind};
use crate::views::{Namespace, seconds_now};
use crate::work::{self, Outcome};
use crate::{Controller, custom};

/// The finalizer that is ours to take away.
const FINALIZER: &str = "kubernetes";

/// Deletes what is in namespaces that are being deleted.
pub const CONTROLLER: Controller = Controller {
    name: "namespace-controller",
    service_account: "namespace-controller",
    start: |ctx| {
        let this = Arc::new(Namespaces {
            client: ctx.client.clone(),
            namespaces: ctx.namespaces(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.namespaces.on_change(move |change| {
            if let Some(namespace) = &change.current
                && namespace.metadata.is_terminating()
            {
                listener.queue.add(Key::of(&namespace.metadata));
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.namespaces.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("namespace", 4, &shutdown, work).await;
        })
    },
};

struct Namespaces {
    client: Client,
    namespaces: Arc<Kind<Namespace>>,
    queue: Queue<Key>,
}

impl Namespaces {
    async fn sync(&self, key: Key) -> Outcome {
        let Some(namespace) = self.namespaces.by_key(&key) else {
            return Ok(None);
        };
        let ours = namespace.spec.finalizers.iter().any(|f| f == FINALIZER);
        if !namespace.metadata.is_terminating() || !ours {
            return Ok(None);
        }
        let sweep = self.sweep(&key.name).await;
        self.report(&namespace, &sweep).await?;
        if !sweep.is_clean() {
            // pods need their grace period, other things their controllers
            let waiting = sweep.failures.is_empty() && sweep.discovery.is_none();
            return Ok(Some(Duration::from_millis(if waiting {
                250
            } else {
                2000
            })));
        }
        self.finalize(&namespace).await?;
        Ok(None)
    }

    /// Deletes everything once and counts what is left. Pods go before all else,
    /// so that none runs without what protects and configures it (KEP-5080).
    async fn sweep(&self, namespace: &str) -> Sweep {
        let mut sweep = Sweep::default();
        let (all, discovery) = self.resources().await;
        sweep.discovery = discovery;
        let (pods, others): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|resource| *resource == resources::PODS);
        for some in [pods, others] {
            let cleared = some.iter().map(|resource| self.clear(resource, namespace));
            let results = futures::future::join_all(cleared).await;
            for (resource, result) in some.iter().zip(results) {
                match result {
                    Ok(left) => sweep.left(resource, &left),
                    // a resource that is served no more holds nothing
                    Err(error) if error.is_not_found() => {}
                    Err(error) => sweep.failures.push(error.chain()),
                }
            }
            if !sweep.remaining.is_empty() {
                break;
            }
        }
        sweep
    }

    async fn clear(&self, resource: &Resource, namespace: &str) -> Result<Vec<Metadata>, Error> {
        let here = Selection::all().namespace(namespace).metadata_only();
        let found = self.client.list::<Metadata>(resource, &here).await?.items;
        if found.is_empty() {
            return Ok(found);
        }
        if found.iter().any(|object| !object.metadata.is_terminating()) {
            let options = DeleteOptions::default().propagation(Propagation::Background);
            let all = Selection::all().namespace(namespace);
            match self
                .client
                .delete_collection(resource, &all, &options)
                .await
            {
                Err(error) if error.status().is_some_and(|s| s.code == 405) => {
                    for object in &found {
                        let name = &object.metadata.name;
                        match self
                            .client
                            .delete(resource, namespace, name, &options)
                            .await
                        {
                            Err(error) if !error.is_not_found() => return Err(error),
                            _ => {}
                        }
                    }
                }
                other => other?,
            }
        }
        Ok(self.client.list::<Metadata>(resource, &here).await?.items)
    }

    /// All namespaced resources that can be listed and deleted: one version of
    /// each. The second value says what discovery failed with.
    async fn resources(&self) -> (Vec<Resource>, Option<String>) {
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for row in registry::resources() {
            let usable = row.namespaced
                && row.has_verb("list")
                && (row.has_verb("delete") || row.has_verb("deletecollection"));
            // events are served by two groups from one store
            let twin = row.group == "events.k8s.io";
            if usable && !twin && seen.insert((row.group.to_owned(), row.plural.to_owned())) {
                all.push(Resource::namespaced(
                    row.group,
                    row.version,
                    row.plural,
                    row.kind,
                ));
            }
        }
        let discovery = match custom::resources(&self.client).await {
            Ok(found) => {
                all.extend(found.into_iter().filter(|resource| resource.namespaced));
                None
            }
            Err(error) => Some(error.chain()),
        };
        (all, discovery)
    }

    async fn report(&self, namespace: &Namespace, sweep: &Sweep) -> Result<(), Error> {
        let conditions = decide::conditions(&namespace.status.conditions, sweep, seconds_now());
        if conditions == namespace.status.conditions || sweep.is_clean() {
            return Ok(());
        }
        let meta = &namespace.metadata;
        let patch = json!({"metadata": {"uid": meta.uid}, "status": {"conditions": conditions}});
        work::merge(&self.client, &Namespace::RESOURCE, meta, "status", &patch).await
    }

    /// Takes our finalizer away.
    async fn finalize(&self, namespace: &Namespace) -> Result<(), Error> {
        let name = namespace.metadata.name.as_str();
        let mut object: Value = match self.client.get(&resources::NAMESPACES, "", name).await {
            Ok(object) => object,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        if object["metadata"]["uid"] != namespace.metadata.uid.as_str() {
            return Ok(());
        }
        if let Some(list) = object["spec"]["finalizers"].as_array_mut() {
            list.retain(|finalizer| finalizer != FINALIZER);
        }
        let done = self
            .client
            .update_subresource::<Discard>(&resources::NAMESPACES, "", name, "finalize", &object)
            .await;
        work::unless_gone(done)
    }
}
