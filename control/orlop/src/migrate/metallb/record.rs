//! The record for the way back, kept in a ConfigMap.

use std::collections::BTreeSet;

use control_client::{Resource, resources};
use control_import::ObjectId;
use control_import::metallb::service::ServedService;
use control_import::metallb::takeover::{RECORD, Situation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::situation::{is_advertisement, is_pool};
use super::{Takeover, WEBHOOKS, stopped};
use crate::error::Error;

/// The information for the way back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TakeoverRecord {
    /// MetalLB's pools.
    pub(super) pools: Vec<Value>,
    /// MetalLB's advertisements.
    pub(super) advertisements: Vec<Value>,
    /// Replicas of its controller.
    pub(super) replicas: Option<u64>,
    /// The failure policies of its webhooks, in order.
    pub(super) failure_policies: Vec<String>,
    /// Parts of its speakers' DaemonSet.
    pub(super) speaker: Value,
    /// The nodes on which its speakers were ready.
    pub(super) speaker_nodes: BTreeSet<String>,
    /// Names of the objects that were created, by kind.
    pub(super) objects: Vec<(String, String)>,
    /// Annotations that were added to Services, by namespace and name.
    pub(super) annotations: Vec<(String, String, Vec<String>)>,
    /// How far it is.
    pub(super) phase: Phase,
}

/// The progress of a take-over. Completion marks are removed at the end, so repeating the
/// steps then would stop the announcements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// Under way.
    #[default]
    TakingOver,
    /// Done.
    TakenOver,
    /// Being given back.
    GivingBack,
}

impl TakeoverRecord {
    /// Whether an annotation was added to a Service.
    pub(super) fn has_added(&self, service: &ServedService, key: &str) -> bool {
        self.annotations.iter().any(|(namespace, name, keys)| {
            *namespace == service.namespace
                && *name == service.name
                && keys.iter().any(|it| it == key)
        })
    }
}

impl Takeover {
    pub(super) async fn record(&self) -> Result<Option<TakeoverRecord>, Error> {
        let got = self
            .client
            .get::<Value>(&resources::CONFIG_MAPS, &self.options.namespace, RECORD)
            .await;
        match got {
            Ok(object) => {
                let text = object["data"]["record"].as_str().unwrap_or_default();
                let read = serde_json::from_str(text);
                read.map(Some).map_err(|error| {
                    stopped(format!(
                        "ConfigMap {}/{RECORD} is damaged ({error}): restore it, or delete it if \
                         MetalLB serves all addresses",
                        self.options.namespace
                    ))
                })
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(Error::Client(error)),
        }
    }

    /// Records the state before any change.
    pub(super) async fn recorded(
        &self,
        situation: &Situation,
        original: Vec<Value>,
    ) -> Result<TakeoverRecord, Error> {
        let (namespace, options) = (&self.options.namespace, &self.options);
        let get = |resource: Resource, name: String| async move {
            let got = self.client.get::<Value>(&resource, namespace, &name).await;
            match got {
                Ok(object) => Ok(object),
                Err(error) if error.is_not_found() => Ok(Value::Null),
                Err(error) => Err(Error::Client(error)),
            }
        };
        let controller = get(resources::DEPLOYMENTS, options.controller.clone()).await?;
        let speaker = get(resources::DAEMON_SETS, options.speaker.clone()).await?;
        if controller.is_null() || speaker.is_null() {
            return Err(stopped(format!(
                "there is no Deployment {namespace}/{} or no DaemonSet {namespace}/{}: name \
                 MetalLB's by --namespace, --controller and --speaker",
                options.controller, options.speaker
            )));
        }
        let webhooks = get(WEBHOOKS, options.webhooks.clone()).await?;
        let policies = webhooks["webhooks"].as_array().into_iter().flatten();
        let policies = policies.map(|it| it["failurePolicy"].as_str().unwrap_or("Fail").to_owned());
        let lean = |object: &Value| {
            let meta = &object["metadata"];
            let mut lean = json!({
                "apiVersion": object["apiVersion"], "kind": object["kind"], "spec": object["spec"],
                "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            });
            if meta["labels"].is_object() {
                lean["metadata"]["labels"] = meta["labels"].clone();
            }
            lean
        };
        let some = |which: fn(&Value) -> bool| -> Vec<Value> {
            let which = original.iter().filter(|it| which(it));
            which.map(lean).collect()
        };
        let template = &speaker["spec"]["template"]["spec"];
        Ok(TakeoverRecord {
            pools: some(is_pool),
            advertisements: some(is_advertisement),
            replicas: controller["spec"]["replicas"].as_u64(),
            failure_policies: policies.collect(),
            speaker: json!({"spec": {
                "updateStrategy": speaker["spec"]["updateStrategy"],
                "template": {"spec": {
                    "affinity": template["affinity"],
                    "nodeSelector": template["nodeSelector"],
                }},
            }}),
            speaker_nodes: self.speaker_nodes().await?,
            objects: situation
                .objects
                .iter()
                .map(ObjectId::from_object)
                .map(|id| (id.kind, id.name))
                .collect(),
            phase: Phase::TakingOver,
            annotations: situation
                .services
                .iter()
                .map(|it| {
                    let keys = it.annotations.keys().cloned().collect();
                    (it.namespace.clone(), it.name.clone(), keys)
                })
                .collect(),
        })
    }

    pub(super) async fn write_record(
        &self,
        record: &TakeoverRecord,
        phase: Phase,
    ) -> Result<(), Error> {
        let record = TakeoverRecord {
            phase,
            ..record.clone()
        };
        let text = serde_json::to_string(&record).map_err(|it| stopped(it.to_string()))?;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": self.options.namespace, "name": RECORD},
            "data": {"record": text},
        });
        self.apply(&resources::CONFIG_MAPS, &object).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back() {
        let record = TakeoverRecord {
            pools: vec![json!({"kind": "IPAddressPool"})],
            advertisements: vec![json!({"kind": "L2Advertisement"})],
            replicas: Some(1),
            failure_policies: vec!["Fail".to_owned()],
            speaker: json!({"spec": {}}),
            speaker_nodes: BTreeSet::from(["n".to_owned()]),
            objects: vec![("IPPool".to_owned(), "a".to_owned())],
            annotations: vec![("d".to_owned(), "s".to_owned(), vec!["k".to_owned()])],
            phase: Phase::TakenOver,
        };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(
            serde_json::from_str::<TakeoverRecord>(&text).unwrap(),
            record
        );
    }
}
