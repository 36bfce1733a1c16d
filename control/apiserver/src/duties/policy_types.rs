//! What types say of validating admission policies: `status.typeChecking`.
//!
//! A policy is looked at once per generation, as by the controller of
//! kube-controller-manager. Beside an API server that runs alone that one does it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control_kinds::policies::Schema;
use control_kinds::policies::types::{MOST_TYPES, Subject, warnings};
use control_types::meta;
use control_types::registry;
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use futures::FutureExt;

use super::{Duty, SETTLE, own};
use crate::api::{Api, Served};

const GROUP: &str = "admissionregistration.k8s.io";
const POLICIES: &str = "validatingadmissionpolicies";
/// Under which name it is told.
const MANAGER: &str = "validatingadmissionpolicy-status";

pub(super) static DUTY: Duty = Duty {
    name: "types of admission policies",
    follows: &[(GROUP, POLICIES)],
    every: Duration::from_secs(600),
    settle: SETTLE,
    run: |api| run(api).boxed(),
    stop: None,
};

async fn run(api: &Api) -> Result<(), Status> {
    if !api.config.whole {
        return Ok(());
    }
    let served = api.resource(GROUP, POLICIES)?;
    for policy in own::all(api, GROUP, POLICIES)? {
        if !is_due(&policy) {
            continue;
        }
        api.definitions.refresh(api).await?;
        let name = meta::name(&policy).to_owned();
        own::apply(api, served, &name, MANAGER, |stored| {
            is_due(stored).then(|| status(api, stored))
        })
        .await?;
    }
    Ok(())
}

/// Whether nobody has looked at this generation of a policy.
fn is_due(policy: &Value) -> bool {
    let seen = policy.i64_at(&["status", "observedGeneration"]);
    seen.unwrap_or_default() < meta::generation(policy)
}

/// The status of a policy.
fn status(api: &Api, policy: &Value) -> Value {
    let spec = policy.get("spec").cloned().unwrap_or_default();
    let params = spec
        .get("paramKind")
        .filter(|kind| !kind.is_null())
        .and_then(|kind| {
            let text = |field: &str| kind.str_at(&[field]).unwrap_or_default();
            let (group, version) = meta::split_api_version(text("apiVersion"));
            let found = of_version(api, group, version);
            let served = found.into_iter().find(|served| {
                served.resource.group == group && served.resource.kind == text("kind")
            })?;
            schema(api, &served)
        });
    let found = warnings(&spec, &subjects(api, &spec), params.as_ref());
    let checked = if found.is_empty() {
        Value::object()
    } else {
        value!({"expressionWarnings": (Value::Array(found))})
    };
    value!({
        "observedGeneration": (meta::generation(policy)),
        "typeChecking": (checked)
    })
}

/// The types that a policy's rules name without stars, in order.
fn subjects(api: &Api, spec: &Value) -> Vec<Subject> {
    let mut found: BTreeMap<(String, String, String), Arc<Served>> = BTreeMap::new();
    for rule in spec.items_at(&["matchConstraints", "resourceRules"]) {
        let texts = |field: &str| -> Vec<&str> {
            let mut all: Vec<&str> = rule
                .items_at(&[field])
                .iter()
                .filter_map(Value::as_str)
                .collect();
            all.sort_unstable();
            all
        };
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        if groups
            .iter()
            .chain(&versions)
            .any(|text| text.contains('*'))
        {
            continue;
        }
        let mut count = 0;
        for group in &groups {
            for version in &versions {
                for plural in texts("resources") {
                    if plural.contains(['*', '/']) {
                        continue;
                    }
                    for served in of_version(api, group, version) {
                        let resource = served.resource;
                        // no group means any
                        let here = group.is_empty() || resource.group == *group;
                        if !here || resource.plural != plural || count >= MOST_TYPES {
                            continue;
                        }
                        count += 1;
                        let key = (
                            resource.group.to_owned(),
                            resource.version.to_owned(),
                            resource.kind.to_owned(),
                        );
                        found.insert(key, served);
                    }
                }
            }
        }
    }
    found
        .into_iter()
        .map(|((group, version, kind), served)| Subject {
            name: format!("{group}/{version}, Kind={kind}"),
            schema: schema(api, &served),
        })
        .collect()
}

/// All resources that are served in a version; of one group, unless that is empty.
fn of_version(api: &Api, group: &str, version: &str) -> Vec<Arc<Served>> {
    let mut all: Vec<Arc<Served>> = registry::resources()
        .iter()
        .filter(|one| one.version == version && (group.is_empty() || one.group == group))
        .filter_map(|one| api.served(one.group, one.version, one.plural))
        .collect();
    let definitions = api.definitions.now();
    let groups = if group.is_empty() {
        definitions.groups()
    } else {
        Vec::new()
    };
    for group in groups
        .into_iter()
        .chain((!group.is_empty()).then_some(group))
    {
        let custom = definitions.resources_of(group, version);
        all.extend(custom.into_iter().map(Arc::clone));
    }
    all
}

/// What the objects of a resource look like.
fn schema(api: &Api, served: &Served) -> Option<Arc<Schema>> {
    let resource = served.resource;
    if !resource.is_custom() {
        return Schema::of_type(resource.schema);
    }
    let name = format!("{}.{}", resource.plural, resource.group);
    let definition = api.cached("apiextensions.k8s.io", "customresourcedefinitions", &name)?;
    let definition = definition.value().ok()?;
    let versions = definition.items_at(&["spec", "versions"]);
    let version = versions
        .iter()
        .find(|one| one.str_at(&["name"]) == Some(resource.version))?;
    Schema::of_custom_resource(version.path(&["schema", "openAPIV3Schema"])?)
}
