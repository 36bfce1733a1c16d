//! The way back.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

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
            "give MetalLB its speakers back, node by node",
            "let MetalLB announce addresses, one after another",
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
        // A take-over that was interrupted may have left its temporary announcements.
        self.delete_claims(&situation).await?;
        say(1);
        self.set_failure_policies(&vec!["Ignore".to_owned(); record.failure_policies.len()])
            .await?;
        // Speakers come back to the nodes that are not labelled. What ARP or NDP announces stays
        // parked until all have come back: the first would announce it from where it runs.
        let selector = match &record.speaker["spec"]["template"]["spec"]["nodeSelector"] {
            Value::Null => json!({}),
            other => other.clone(),
        };
        let patch = json!([
            {"op": "add", "path": "/spec/template/spec/nodeSelector", "value": selector}]);
        self.patch_speaker_by_json(&patch).await?;
        let mut awaited: BTreeSet<String> = record
            .speaker_nodes
            .iter()
            .filter(|it| situation.nodes.contains_key(*it))
            .cloned()
            .collect();
        let later: BTreeSet<String> = awaited.intersection(&nodes).cloned().collect();
        awaited.retain(|it| !later.contains(it));
        self.until_speakers_are_ready(&awaited).await?;
        verify(&situation.services, None, &before).await?;
        for node in nodes {
            self.label_node(&node, None).await?;
            if later.contains(&node) {
                awaited.insert(node);
                self.until_speakers_are_ready(&awaited).await?;
            }
            verify(&situation.services, None, &before).await?;
        }
        self.patch_speaker_by_json(&restoring(&record.speaker))
            .await?;
        self.until_speakers_are_restarted().await?;
        self.until_speakers_are_ready(&awaited).await?;
        say(2);
        for addresses in groups {
            let mut taken = self.parked().await?;
            taken.retain(|it| !addresses.contains(it));
            self.park(&taken, &record).await?;
            // Neighbours learn of the new owner while the old one still answers.
            tokio::time::sleep(SETTLE).await;
            for service in of_addresses(&situation.services, &addresses) {
                self.label_service(service, None).await?;
            }
            tokio::time::sleep(SETTLE).await;
            verify(&situation.services, Some(&addresses), &before).await?;
        }
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

    /// Waits until speakers are ready on some nodes, and have read their configuration.
    async fn until_speakers_are_ready(&self, nodes: &BTreeSet<String>) -> Result<(), Error> {
        self.until("MetalLB's speakers to be ready", || async {
            let ready = self.speaker_nodes().await?;
            let missing = nodes.difference(&ready).next();
            Ok(missing.map(|node| format!("not on {node} yet")))
        })
        .await?;
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }

    /// Waits until speakers that came back with the limited template run with MetalLB's own. They
    /// are restarted one after another, so each may take the time of a step.
    async fn until_speakers_are_restarted(&self) -> Result<(), Error> {
        let restarts = Cell::new(Restarts::NotBegun);
        while restarts.get() != Restarts::Done {
            let before = restarts.get();
            self.until("MetalLB's speakers to be restarted", || async {
                let speaker: Value = self
                    .client
                    .get(
                        &resources::DAEMON_SETS,
                        &self.options.namespace,
                        &self.options.speaker,
                    )
                    .await
                    .map_err(Error::Client)?;
                let now = Restarts::of(&speaker);
                restarts.set(now);
                Ok((now <= before).then(|| now.to_string()))
            })
            .await?;
        }
        Ok(())
    }
}

/// How many pods of a DaemonSet have its present template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Restarts {
    /// Its controller has not seen the template yet.
    NotBegun,
    /// So many have it.
    Updated(u64),
    /// All have it, or the others will not be given it.
    Done,
}

impl Restarts {
    fn of(daemon_set: &Value) -> Self {
        let (meta, status) = (&daemon_set["metadata"], &daemon_set["status"]);
        let number = |key: &str| status[key].as_u64().unwrap_or_default();
        if number("observedGeneration") < meta["generation"].as_u64().unwrap_or_default() {
            return Self::NotBegun;
        }
        let updated = number("updatedNumberScheduled");
        let is_manual = daemon_set["spec"]["updateStrategy"]["type"] == "OnDelete";
        if is_manual || updated >= number("desiredNumberScheduled") {
            Self::Done
        } else {
            Self::Updated(updated)
        }
    }
}

impl fmt::Display for Restarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBegun => f.write_str("the DaemonSet's change is not observed yet"),
            Self::Updated(updated) => write!(f, "{updated} are"),
            Self::Done => f.write_str("all are"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speakers_are_restarted_once_all_have_the_template() {
        let daemon_set = |observed: u64, updated: u64, strategy: &str| {
            json!({
                "metadata": {"generation": 3},
                "spec": {"updateStrategy": {"type": strategy}},
                "status": {
                    "observedGeneration": observed,
                    "updatedNumberScheduled": updated,
                    "desiredNumberScheduled": 2,
                },
            })
        };
        let of =
            |observed, updated, strategy| Restarts::of(&daemon_set(observed, updated, strategy));
        assert_eq!(of(2, 2, "RollingUpdate"), Restarts::NotBegun);
        assert_eq!(of(3, 1, "RollingUpdate"), Restarts::Updated(1));
        assert_eq!(of(3, 2, "RollingUpdate"), Restarts::Done);
        assert_eq!(of(3, 0, "OnDelete"), Restarts::Done);
        assert_eq!(of(2, 0, "OnDelete"), Restarts::NotBegun);
        assert!(Restarts::NotBegun < Restarts::Updated(0));
        assert!(Restarts::Updated(1) < Restarts::Updated(2));
        assert!(Restarts::Updated(2) < Restarts::Done);
    }
}
