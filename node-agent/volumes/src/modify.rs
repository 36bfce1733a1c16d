//! The modifier: gives volumes of this node the attributes of the VolumeAttributesClass that
//! their claim names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control_client::events::ObjectReference;
use control_client::{Queue, resources};
use csi_api as api;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::conditions::{self, Condition, MODIFYING};
use crate::driver::{CallError, NAME};
use crate::error::Result;
use crate::shared::{Key, LoopContext, REST, queue, queue_latest};
use crate::standby::Duty;
use crate::views::{AttributesClass, Claim, Volume};

/// Claims at a time.
const WORKERS: usize = 2;

/// The next step for a claim.
#[derive(Debug, PartialEq, Eq)]
enum ModifyDecision {
    /// Its volume has the attributes.
    Nothing,
    /// The class does not exist.
    Wait {
        /// Whether the claim does not say so yet.
        is_new: bool,
    },
    /// The class is of another driver.
    Refuse {
        /// Whether the claim does not say so yet.
        is_new: bool,
    },
    /// The volume is to have these attributes.
    Modify {
        handle: String,
        parameters: BTreeMap<String, String>,
    },
}

/// Returns the class whose attributes a claim wants and its volume does not have.
fn wanted_class<'a>(claim: &'a Claim, volume: &Volume) -> Option<&'a str> {
    let wanted = claim.spec.volume_attributes_class_name.as_deref();
    let wanted = wanted.filter(|name| !name.is_empty())?;
    let current = claim.status.current_volume_attributes_class_name.as_deref();
    let current = current.or(volume.spec.volume_attributes_class_name.as_deref());
    (current != Some(wanted)).then_some(wanted)
}

/// Decides whether a volume of `node` changes its attributes.
fn decide(
    claim: &Claim,
    volume: &Volume,
    class: Option<&AttributesClass>,
    node: &str,
) -> ModifyDecision {
    let is_bound = claim.status.phase == "Bound" && volume.is_of(&claim.metadata);
    let handle = volume.handle_on(node).filter(|_| is_bound);
    let (Some(handle), Some(wanted)) = (handle, wanted_class(claim, volume)) else {
        return ModifyDecision::Nothing;
    };
    let is_new = |status: &str| {
        claim.status.modify_volume_status.as_ref() != Some(&modification(wanted, status))
    };
    match class {
        Some(class) if class.driver_name == NAME => ModifyDecision::Modify {
            handle: handle.to_owned(),
            parameters: class.parameters.clone(),
        },
        Some(_) => ModifyDecision::Refuse {
            is_new: is_new("Infeasible"),
        },
        None => ModifyDecision::Wait {
            is_new: is_new("Pending"),
        },
    }
}

fn modification(class: &str, status: &str) -> Value {
    json!({"targetVolumeAttributesClassName": class, "status": status})
}

/// Whether the claim says that its volume is given the attributes of `class`. One that says that
/// it cannot have them keeps saying so while it is tried again: a write at each attempt would
/// queue the claim at once and defeat the delay between attempts.
fn is_begun(claim: &Claim, class: &str) -> bool {
    let status = claim.status.modify_volume_status.as_ref();
    ["InProgress", "Infeasible"]
        .iter()
        .any(|it| status == Some(&modification(class, it)))
}

/// Returns the status of a claim whose change of attributes failed.
fn failed(claim: &Claim, wanted: &str, status: &str, message: String) -> Value {
    let condition = Condition {
        kind: "ModifyVolumeError",
        message,
    };
    json!({
        "modifyVolumeStatus": modification(wanted, status),
        "conditions": conditions::with(claim, MODIFYING, Some(&condition)),
    })
}

/// Whether attributes cannot be had, however often it is tried.
fn is_infeasible(error: &CallError) -> bool {
    use tonic::Code::{InvalidArgument, NotFound, OutOfRange};
    matches!(error.code, InvalidArgument | NotFound | OutOfRange)
}

struct Modifier {
    shared: Arc<LoopContext>,
    queue: Queue<Key>,
}

/// Runs the modifier until `shutdown`.
pub async fn run(shared: Arc<LoopContext>, shutdown: CancellationToken) {
    shared.synced().await;
    let this = Arc::new(Modifier {
        shared,
        queue: queue(),
    });
    let worker = this.clone();
    let work = move |key| {
        let this = worker.clone();
        async move { this.sync(key).await }
    };
    tokio::select! {
        () = this.queue.run("volume-modifier", WORKERS, &shutdown, work) => {}
        () = this.follow() => {}
    }
}

impl Modifier {
    async fn follow(&self) {
        let mut claims = self.shared.claims.changes();
        let mut classes = self.shared.attributes.changes();
        loop {
            tokio::select! {
                change = claims.recv() => {
                    let Some(change) = change else { return };
                    queue_latest(&self.queue, &change);
                }
                change = classes.recv() => {
                    if change.is_none() {
                        return;
                    }
                    for claim in self.shared.claims.cache().snapshot().iter() {
                        if claim.spec.volume_attributes_class_name.is_some() {
                            self.queue.add(Key::from_meta(&claim.metadata));
                        }
                    }
                }
            }
        }
    }

    async fn sync(&self, key: Key) -> Result<Option<Duration>> {
        let shared = &self.shared;
        let Some(claim) = shared.claims.cache().get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let Some(volume) = shared.volumes.cache().get("", &claim.spec.volume_name) else {
            return Ok(None);
        };
        let Some(wanted) = wanted_class(&claim, &volume) else {
            return Ok(None);
        };
        let class = shared.attributes.cache().get("", wanted);
        let decision = decide(&claim, &volume, class.as_deref(), &shared.node);
        if decision != ModifyDecision::Nothing && !shared.standby.is_ours(Duty::Resize) {
            return Ok(Some(REST / 10));
        }
        let about =
            ObjectReference::to_object(&resources::PERSISTENT_VOLUME_CLAIMS, &claim.metadata);
        match decision {
            ModifyDecision::Nothing
            | ModifyDecision::Wait { is_new: false }
            | ModifyDecision::Refuse { is_new: false } => {}
            ModifyDecision::Refuse { is_new: true } => {
                let message = format!("VAC {wanted} is not of driver {NAME}: name one that is");
                shared
                    .recorder
                    .warning(&about, "VolumeModifyFailed", message.clone());
                self.report(&claim, failed(&claim, wanted, "Infeasible", message))
                    .await?;
            }
            ModifyDecision::Wait { is_new: true } => {
                let message = format!("VAC {wanted} does not exist");
                shared
                    .recorder
                    .warning(&about, "VolumeModifyFailed", message);
                let status = json!({"modifyVolumeStatus": modification(wanted, "Pending")});
                self.report(&claim, status).await?;
            }
            ModifyDecision::Modify { handle, parameters } => {
                self.modify((&claim, &volume), wanted, &about, handle, parameters)
                    .await?;
            }
        }
        Ok(None)
    }

    async fn modify(
        &self,
        (claim, volume): (&Claim, &Volume),
        wanted: &str,
        about: &ObjectReference,
        handle: String,
        parameters: BTreeMap<String, String>,
    ) -> Result<()> {
        let shared = &self.shared;
        let name = &volume.metadata.name;
        let mut claim = claim.clone();
        if !is_begun(&claim, wanted) {
            let condition = Condition {
                kind: "ModifyingVolume",
                message: "ModifyVolume operation in progress.".to_owned(),
            };
            let status = json!({
                "modifyVolumeStatus": modification(wanted, "InProgress"),
                "conditions": conditions::with(&claim, MODIFYING, Some(&condition)),
            });
            claim = self.report(&claim, status).await?;
            let message = format!("external resizer is modifying volume {name} with vac {wanted}");
            shared.recorder.normal(about, "VolumeModify", message);
        }
        let request = api::ControllerModifyVolumeRequest {
            volume_id: handle,
            secrets: BTreeMap::new(),
            mutable_parameters: parameters,
        };
        if let Err(error) = shared.driver.modify_volume(request).await {
            let message = error.to_string();
            shared.warn(about, "VolumeModifyFailed", &message, message.clone());
            let status = if is_infeasible(&error) {
                "Infeasible"
            } else {
                "InProgress"
            };
            self.report(&claim, failed(&claim, wanted, status, message))
                .await?;
            return Err(error.into());
        }
        let patch = json!({"spec": {"volumeAttributesClassName": wanted}});
        let what = "write the class of attributes of the PersistentVolume";
        shared.patch(what, volume, "", patch).await?;
        let status = json!({
            "currentVolumeAttributesClassName": wanted, "modifyVolumeStatus": null,
            "conditions": conditions::with(&claim, MODIFYING, None),
        });
        self.report(&claim, status).await?;
        let message =
            format!("external resizer modified volume {name} with vac {wanted} successfully");
        shared
            .recorder
            .normal(about, "VolumeModifySuccessful", message);
        Ok(())
    }

    async fn report(&self, claim: &Claim, status: Value) -> Result<Claim> {
        let patch = json!({"status": status});
        self.shared
            .patch("write the status of the claim", claim, "status", patch)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    fn claim(wanted: &str, current: Option<&str>) -> Value {
        let mut claim = testing::claim();
        claim["spec"]["volumeName"] = json!("pvc-u1");
        claim["spec"]["volumeAttributesClassName"] = json!(wanted);
        claim["status"] = json!({
            "phase": "Bound", "currentVolumeAttributesClassName": current,
        });
        claim
    }

    #[test]
    fn a_volume_gets_the_attributes_that_its_claim_names_and_it_does_not_have() {
        let class = |driver: &str| -> AttributesClass {
            parsed(json!({"metadata": {"name": "fast"}, "driverName": driver,
                "parameters": {"readIOPS": "100"}}))
        };
        let volume: Volume = parsed(testing::volume("n1"));
        let decided = |claim: Value, class: Option<&AttributesClass>| {
            decide(&parsed(claim), &volume, class, "n1")
        };
        let own = class(NAME);
        let modify = ModifyDecision::Modify {
            handle: "pvc-u1".to_owned(),
            parameters: BTreeMap::from([("readIOPS".to_owned(), "100".to_owned())]),
        };
        assert_eq!(decided(claim("fast", None), Some(&own)), modify);
        assert_eq!(decided(claim("fast", Some("slow")), Some(&own)), modify);
        assert_eq!(
            decided(claim("fast", Some("fast")), Some(&own)),
            ModifyDecision::Nothing
        );
        assert_eq!(decided(claim("", None), None), ModifyDecision::Nothing);
        let waits = ModifyDecision::Wait { is_new: true };
        assert_eq!(decided(claim("fast", None), None), waits);
        let refused = ModifyDecision::Refuse { is_new: true };
        assert_eq!(decided(claim("fast", None), Some(&class("other"))), refused);
        let mut told = claim("fast", None);
        told["status"]["modifyVolumeStatus"] = modification("fast", "Pending");
        assert_eq!(decided(told, None), ModifyDecision::Wait { is_new: false });
        let unmodified: Claim = parsed(claim("fast", None));
        let mut told = claim("fast", None);
        told["status"].as_object_mut().unwrap().extend(
            failed(&unmodified, "fast", "Infeasible", "m".to_owned())
                .as_object()
                .cloned()
                .unwrap(),
        );
        assert_eq!(told["status"]["conditions"][0]["type"], "ModifyVolumeError");
        let again = decided(told, Some(&class("other")));
        assert_eq!(again, ModifyDecision::Refuse { is_new: false });
        let elsewhere: Volume = parsed(testing::volume("n2"));
        let other = decide(&parsed(claim("fast", None)), &elsewhere, Some(&own), "n1");
        assert_eq!(other, ModifyDecision::Nothing);
        // It was made with them, and its claim does not say so.
        let mut made = testing::volume("n1");
        made["spec"]["volumeAttributesClassName"] = json!("fast");
        let made = decide(
            &parsed(claim("fast", None)),
            &parsed(made),
            Some(&own),
            "n1",
        );
        assert_eq!(made, ModifyDecision::Nothing);
    }

    #[test]
    fn an_attempt_that_fails_as_the_last_one_did_leaves_the_claim_as_it_is() {
        let mut object = claim("fast", None);
        assert!(!is_begun(&parsed(object.clone()), "fast"));
        for status in ["Infeasible", "InProgress"] {
            let before: Claim = parsed(object.clone());
            let first = failed(&before, "fast", status, "no such limit".to_owned());
            for (field, value) in first.as_object().expect("a status") {
                object["status"][field] = value.clone();
            }
            let after: Claim = parsed(object.clone());
            assert!(is_begun(&after, "fast"), "{status}");
            assert!(!is_begun(&after, "slow"), "{status}");
            let second = failed(&after, "fast", status, "no such limit".to_owned());
            assert_eq!(second, first, "{status}");
        }
        object["status"]["modifyVolumeStatus"] = modification("fast", "Pending");
        assert!(!is_begun(&parsed(object), "fast"));
    }
}
