//! The way back.

use std::collections::BTreeSet;

use control_client::resources;
use control_import::ObjectId;
use control_import::metallb::service::ServedService;
use control_import::metallb::takeover::{RECORD, TAKEN, cover, limited, restoring};
use control_load_balancer::{ASSIGNED, FINALIZER, WANTED_POOL};
use serde_json::{Value, json};

use super::probe::{answers, verify};
use super::record::{Phase, TakeoverRecord};
use super::{KINDS, NOTICE, SETTLE, Takeover, of_addresses, stopped};
use crate::error::Error;

impl Takeover {
    /// Returns the addresses to MetalLB, from the record.
    ///
    /// # Errors
    /// The address or node at which it stopped.
    pub async fn undo(&self) -> Result<(), Error> {
        let Some(record) = self.record().await? else {
            return Err(stopped(format!(
                "there is no ConfigMap {}/{RECORD}, so nothing was taken over",
                self.options.namespace
            )));
        };
        let (situation, _) = self.situation(Some(&record)).await?;
        let nodes = situation.bgp_nodes();
        let groups = situation.groups();
        let words = [
            "limit Orlop's objects to what it has taken over",
            "give MetalLB its pools and speakers back",
            "let MetalLB announce addresses, node by node",
            "remove Orlop's objects and marks",
            "start MetalLB's controller",
        ];
        let say = |number: usize| println!("[{}/{}] {}", number + 1, words.len(), words[number]);
        if self.options.dry_run {
            (0..words.len()).for_each(say);
            return Ok(());
        }
        let before = answers(&situation.services).await;
        say(0);
        // Repeated, it would take the returned addresses back.
        if record.phase != Phase::GivingBack {
            if record.phase == Phase::TakenOver {
                for service in &situation.services {
                    self.label_service(service, Some(TAKEN)).await?;
                }
                for node in &nodes {
                    self.label_node(node, Some(TAKEN)).await?;
                }
                for object in &situation.objects {
                    self.apply_own(&limited(object)).await?;
                }
            }
            self.write_record(&record, Phase::GivingBack).await?;
        }
        say(1);
        self.set_failure_policies(&vec!["Ignore".to_owned(); record.failure_policies.len()])
            .await?;
        self.park(&BTreeSet::new(), &record).await?;
        for advertisement in &record.advertisements {
            let id = ObjectId::from_object(advertisement);
            let spec = match &advertisement["spec"] {
                Value::Null => json!({}),
                other => other.clone(),
            };
            let patch = json!([{"op": "add", "path": "/spec", "value": spec}]);
            if let Some(resource) = KINDS.iter().find(|it| it.kind == id.kind.as_str()) {
                self.patch_by_json(resource, &id.namespace, &id.name, &patch)
                    .await?;
            }
        }
        // Speakers come back to the nodes that are not labelled.
        let selector = match &record.speaker["spec"]["template"]["spec"]["nodeSelector"] {
            Value::Null => json!({}),
            other => other.clone(),
        };
        let patch = json!([
            {"op": "add", "path": "/spec/template/spec/nodeSelector", "value": selector}]);
        self.patch_speaker_by_json(&patch).await?;
        self.until_speakers_are_ready().await?;
        verify(&situation.services, None, &before).await?;
        say(2);
        for addresses in groups {
            for service in of_addresses(&situation.services, &addresses) {
                self.label_service(service, None).await?;
            }
            tokio::time::sleep(SETTLE).await;
            verify(&situation.services, Some(&addresses), &before).await?;
        }
        for node in nodes {
            self.label_node(&node, None).await?;
            self.until_speakers_are_ready().await?;
            verify(&situation.services, None, &before).await?;
        }
        for service in &situation.services {
            self.label_service(service, None).await?;
        }
        say(3);
        // Pools must not be removed one by one. Without any, Services keep their
        // addresses.
        for service in &situation.services {
            let patch = json!({"metadata": {"annotations": {WANTED_POOL: null}}});
            if record.has_added(service, WANTED_POOL) {
                let (namespace, name) = (&service.namespace, &service.name);
                self.patch(&resources::SERVICES, namespace, name, &patch)
                    .await?;
            }
        }
        let cover = cover(&situation.objects);
        self.apply_own(&cover).await?;
        tokio::time::sleep(NOTICE).await;
        for (kind, name) in record.objects.iter().filter(|(kind, _)| kind != "Secret") {
            self.delete_own(kind, name).await?;
        }
        tokio::time::sleep(NOTICE).await;
        self.delete_own("IPPool", &ObjectId::from_object(&cover).name)
            .await?;
        tokio::time::sleep(NOTICE).await;
        for service in &situation.services {
            self.unmark(service, &record).await?;
        }
        say(4);
        self.patch_speaker_by_json(&restoring(&record.speaker))
            .await?;
        self.set_failure_policies(&record.failure_policies).await?;
        self.patch(
            &resources::DEPLOYMENTS,
            &self.options.namespace,
            &self.options.controller,
            &json!({"spec": {"replicas": record.replicas.unwrap_or(1)}}),
        )
        .await?;
        self.delete(&resources::CONFIG_MAPS, &self.options.namespace, RECORD)
            .await?;
        println!("done; MetalLB announces the addresses");
        Ok(())
    }

    /// Removes what Orlop's controller and the take-over wrote into a Service.
    async fn unmark(&self, service: &ServedService, record: &TakeoverRecord) -> Result<(), Error> {
        let (namespace, name) = (&service.namespace, &service.name);
        let object: Value = self
            .client
            .get(&resources::SERVICES, namespace, name)
            .await
            .map_err(Error::Client)?;
        let meta = &object["metadata"];
        let finalizers = meta["finalizers"].as_array().into_iter().flatten();
        let finalizers: Vec<&Value> = finalizers.filter(|it| **it != FINALIZER).collect();
        let mut annotations = json!({ASSIGNED: null});
        for (_, _, keys) in record
            .annotations
            .iter()
            .filter(|it| (&it.0, &it.1) == (namespace, name))
        {
            for key in keys {
                annotations[key] = Value::Null;
            }
        }
        let patch = json!({"metadata": {
            "resourceVersion": meta["resourceVersion"],
            "finalizers": finalizers,
            "annotations": annotations,
        }});
        self.patch(&resources::SERVICES, namespace, name, &patch)
            .await
    }

    async fn until_speakers_are_ready(&self) -> Result<(), Error> {
        self.until("MetalLB's speakers to be ready", || async {
            let speaker: Value = self
                .client
                .get(
                    &resources::DAEMON_SETS,
                    &self.options.namespace,
                    &self.options.speaker,
                )
                .await
                .map_err(Error::Client)?;
            let status = &speaker["status"];
            let number = |key: &str| status[key].as_u64().unwrap_or_default();
            let observed = status["observedGeneration"].as_u64();
            let is_current = observed == speaker["metadata"]["generation"].as_u64();
            let (ready, wanted) = (number("numberReady"), number("desiredNumberScheduled"));
            Ok(if is_current && ready >= wanted {
                None
            } else {
                Some(format!("{ready} of {wanted} are"))
            })
        })
        .await?;
        // They read their configuration and announce.
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }
}
