//! Requests that change the cluster, and waiting for their effects.

use std::time::Instant;

use control_client::{DeleteOptions, Discard, Patch, Resource, resources};
use control_import::ObjectId;
use control_import::metallb::service::ServedService;
use control_import::metallb::takeover::LABEL;
use serde_json::{Value, json};

use super::{LOOK, MANAGER, OWN_KINDS, Takeover, WEBHOOKS, stopped};
use crate::error::Error;

impl Takeover {
    /// Waits for a condition; its text names what is missing.
    pub(super) async fn until<F, Done>(&self, what: &str, mut check: F) -> Result<(), Error>
    where
        F: FnMut() -> Done,
        Done: Future<Output = Result<Option<String>, Error>>,
    {
        let end = Instant::now() + self.options.timeout;
        let mut said = String::new();
        loop {
            match check().await? {
                None => return Ok(()),
                Some(missing) if Instant::now() > end => {
                    return Err(stopped(format!(
                        "after {} s still waiting for {what}: {missing}; go back with `orlop \
                         migrate metallb --undo`, or run it again to go on",
                        self.options.timeout.as_secs()
                    )));
                }
                Some(missing) => {
                    if said != missing {
                        println!("      waiting for {what}: {missing}");
                        said = missing;
                    }
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(super) async fn apply_own(&self, object: &Value) -> Result<(), Error> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let resource = OWN_KINDS.iter().find(|(known, _)| *known == kind);
        match resource {
            Some((_, resource)) => self.apply(resource, object).await,
            None => Ok(()),
        }
    }

    pub(super) async fn delete_own(&self, kind: &str, name: &str) -> Result<(), Error> {
        match OWN_KINDS.iter().find(|(known, _)| *known == kind) {
            Some((_, resource)) => self.delete(resource, "", name).await,
            None => Ok(()),
        }
    }

    pub(super) async fn apply(&self, resource: &Resource, object: &Value) -> Result<(), Error> {
        let id = ObjectId::from_object(object);
        let patch = Patch::Apply {
            body: object,
            manager: MANAGER,
            force: true,
        };
        self.client
            .patch::<Discard>(resource, &id.namespace, &id.name, "", patch)
            .await
            .map(drop)
            .map_err(Error::Client)
    }

    pub(super) async fn patch(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), Error> {
        self.client
            .patch::<Discard>(resource, namespace, name, "", Patch::Merge(patch))
            .await
            .map(drop)
            .map_err(Error::Client)
    }

    pub(super) async fn patch_speaker(&self, patch: &Value) -> Result<(), Error> {
        let (namespace, name) = (&self.options.namespace, &self.options.speaker);
        self.patch(&resources::DAEMON_SETS, namespace, name, patch)
            .await
    }

    pub(super) async fn patch_by_json(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), Error> {
        self.client
            .patch::<Discard>(resource, namespace, name, "", Patch::Json(patch))
            .await
            .map(drop)
            .map_err(Error::Client)
    }

    pub(super) async fn patch_speaker_by_json(&self, patch: &Value) -> Result<(), Error> {
        let (namespace, name) = (&self.options.namespace, &self.options.speaker);
        self.patch_by_json(&resources::DAEMON_SETS, namespace, name, patch)
            .await
    }

    /// Allows changes of MetalLB's objects while its webhook is down.
    pub(super) async fn set_failure_policies(&self, policies: &[String]) -> Result<(), Error> {
        if policies.is_empty() {
            return Ok(());
        }
        let patch: Value = policies
            .iter()
            .enumerate()
            .map(|(index, policy)| {
                json!({"op": "add", "path": format!("/webhooks/{index}/failurePolicy"),
                    "value": policy})
            })
            .collect();
        self.patch_by_json(&WEBHOOKS, "", &self.options.webhooks, &patch)
            .await
    }

    pub(super) async fn label_service(
        &self,
        service: &ServedService,
        value: Option<&str>,
    ) -> Result<(), Error> {
        let patch = json!({"metadata": {"labels": {LABEL: value}}});
        self.patch(
            &resources::SERVICES,
            &service.namespace,
            &service.name,
            &patch,
        )
        .await
    }

    pub(super) async fn label_node(&self, node: &str, value: Option<&str>) -> Result<(), Error> {
        let patch = json!({"metadata": {"labels": {LABEL: value}}});
        self.patch(&resources::NODES, "", node, &patch).await
    }

    pub(super) async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(), Error> {
        let done = self
            .client
            .delete(resource, namespace, name, &DeleteOptions::default())
            .await;
        match done {
            Err(error) if !error.is_not_found() => Err(Error::Client(error)),
            _ => Ok(()),
        }
    }
}
