//! `StatefulSet`: pods with identities and volumes of their own.

use control_types::value::Value;

use super::deployment::SCALE;
use crate::Kind;
use crate::generic::{self, DEFAULT};
use crate::rules::{defaults, validate_workload as rules};
use crate::table::{Timestamp, age, cells, columns, name};
use crate::tree::{Read, Write};

pub(crate) static KIND: Kind = Kind {
    group: "apps",
    kind: "StatefulSet",
    namespaced: Some(true),
    template: Some(&["spec", "template"]),
    default,
    prepare_create,
    prepare_update,
    prepare_status_update: generic::update_status,
    validate_create: rules::stateful_set,
    validate_update: rules::stateful_set_update,
    validate_status_update: rules::stateful_set_status,
    warnings: rules::stateful_set_warnings,
    columns: columns::STATEFUL_SET,
    row,
    allow_unconditional_update: true,
    scale: Some(SCALE),
    ..DEFAULT
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    spec.blank("podManagementPolicy", "OrderedReady");
    let strategy = spec.make("updateStrategy");
    if strategy.text("type").is_empty() {
        strategy.put("type", "RollingUpdate");
        if !strategy.has("rollingUpdate") {
            strategy.make("rollingUpdate").put("partition", 0_i64);
        }
    }
    if strategy.text("type") == "RollingUpdate"
        && let Some(rolling) = strategy.there("rollingUpdate")
    {
        rolling.absent("partition", 0_i64);
    }
    let retention = spec.make("persistentVolumeClaimRetentionPolicy");
    retention.blank("whenDeleted", "Retain");
    retention.blank("whenScaled", "Retain");
    spec.absent("replicas", 1_i64);
    spec.absent("revisionHistoryLimit", 10_i64);
    defaults::pod_template(Some(spec.make("template")));
    for claim in spec.items_mut("volumeClaimTemplates") {
        super::persistent_volume_claim::default(claim);
        claim.put("apiVersion", "v1");
        claim.put("kind", "PersistentVolumeClaim");
    }
}

/// `maxUnavailable` is behind a gate that is off (`MaxUnavailableStatefulSet`).
fn drop_max_unavailable(new: &mut Value, old: Option<&Value>) {
    const ROLLING: &[&str] = &["spec", "updateStrategy", "rollingUpdate"];
    if old.is_some_and(|old| old.dig(ROLLING).has("maxUnavailable")) {
        return;
    }
    let mut at = new;
    for key in ROLLING {
        let Some(next) = at.there(key) else { return };
        at = next;
    }
    at.drop_field("maxUnavailable");
}

fn prepare_create(object: &mut Value) {
    drop_max_unavailable(object, None);
    generic::first_generation_no_status(object);
}

fn prepare_update(new: &mut Value, old: &Value) {
    drop_max_unavailable(new, Some(old));
    generic::update_spec(new, old);
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let [names, images] = cells::containers(spec.at("template").at("spec"));
    vec![
        name(object),
        format!("{}/{}", status.num("readyReplicas"), spec.num("replicas")).into(),
        age(object, now),
        names,
        images,
    ]
}
