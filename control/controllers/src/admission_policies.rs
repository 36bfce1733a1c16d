//! Type checking of ValidatingAdmissionPolicies: the expressions of each new generation are
//! compared with the types of the objects that the policy matches, and what does not fit is
//! written to `status.typeChecking` (KEP-3488).

use std::collections::BTreeMap;
use std::sync::Arc;

use control_client::{Client, Discard, Patch, Queue, View};
use control_kinds::policies::Schema;
use control_kinds::policies::types::{MOST_TYPES, Subject, warnings};
use control_types::registry;
use control_types::value::Value;
use control_types::{meta, value};

use crate::Controller;
use crate::custom;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::AdmissionPolicy;
use crate::work::{self, Outcome};

/// The field manager of the status.
const MANAGER: &str = "validatingadmissionpolicy-status";

/// Checks the types in the expressions of policies.
pub const CONTROLLER: Controller = Controller {
    name: "validatingadmissionpolicy-status-controller",
    service_account: "validatingadmissionpolicy-status-controller",
    start: |ctx| {
        let this = Arc::new(TypeChecker {
            client: ctx.client.clone(),
            reader: ctx.reader().clone(),
            policies: ctx.admission_policies(),
            queue: work::queue(),
        });
        this.policies.queue_present(&this.queue);
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.policies.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run(MANAGER, 5, &shutdown, work).await;
        })
    },
};

/// A kind that the API server serves in one version, and the schema of its objects.
struct ServedKind<'a> {
    group: &'a str,
    version: &'a str,
    plural: &'a str,
    kind: &'a str,
    schema: SchemaSource<'a>,
}

/// The source of a type's schema.
enum SchemaSource<'a> {
    BuiltIn(&'static registry::Resource),
    /// `openAPIV3Schema` of a custom resource.
    Custom(Option<&'a Value>),
}

impl ServedKind<'_> {
    fn schema(&self) -> Option<Arc<Schema>> {
        match self.schema {
            SchemaSource::BuiltIn(resource) => Schema::of_type(resource.schema),
            SchemaSource::Custom(declared) => Schema::of_custom_resource(declared?),
        }
    }
}

/// All kinds of a version; of one group, unless that is empty, as a REST mapper finds them.
fn of_version<'a>(definitions: &'a [Value], group: &str, version: &str) -> Vec<ServedKind<'a>> {
    let wanted = |one: &str| group.is_empty() || one == group;
    let built_in = registry::resources()
        .iter()
        .filter(|one| one.version == version && wanted(one.group))
        .map(|one| ServedKind {
            group: one.group,
            version: one.version,
            plural: one.plural,
            kind: one.kind,
            schema: SchemaSource::BuiltIn(one),
        });
    let custom = definitions.iter().filter_map(|definition| {
        let spec = definition.get("spec")?;
        let group = spec.str_at(&["group"]).filter(|one| wanted(one))?;
        let mut versions = spec.items_at(&["versions"]).iter();
        let version = versions.find(|one| {
            one.str_at(&["name"]) == Some(version) && one.bool_at(&["served"]) == Some(true)
        })?;
        Some(ServedKind {
            group,
            version: version.str_at(&["name"])?,
            plural: spec.str_at(&["names", "plural"])?,
            kind: spec.str_at(&["names", "kind"])?,
            schema: SchemaSource::Custom(version.path(&["schema", "openAPIV3Schema"])),
        })
    });
    built_in.chain(custom).collect()
}

/// The types that a policy's rules name without wildcards, in the order of their names.
fn subjects(spec: &Value, definitions: &[Value]) -> Vec<Subject> {
    let mut found = BTreeMap::new();
    for rule in spec.items_at(&["matchConstraints", "resourceRules"]) {
        let texts = |field: &str| -> Vec<&str> {
            let items = rule.items_at(&[field]).iter();
            let mut all: Vec<&str> = items.filter_map(Value::as_str).collect();
            all.sort_unstable();
            all
        };
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        let mut fixed = groups.iter().chain(&versions);
        if fixed.any(|text| text.contains('*')) {
            continue;
        }
        let mut resources = texts("resources");
        resources.retain(|plural| !plural.contains(['*', '/']));
        let mut count = 0;
        for group in &groups {
            for version in &versions {
                for plural in &resources {
                    for served in of_version(definitions, group, version) {
                        if served.plural != *plural || count >= MOST_TYPES {
                            continue;
                        }
                        count += 1;
                        let key = (served.group, served.version, served.kind);
                        found.insert(key, served.schema());
                    }
                }
            }
        }
    }
    let subject = |((group, version, kind), schema)| Subject {
        name: format!("{group}/{version}, Kind={kind}"),
        schema,
    };
    found.into_iter().map(subject).collect()
}

/// The status of a policy.
fn decide(policy: &Value, definitions: &[Value]) -> Value {
    let spec = policy.get("spec").cloned().unwrap_or_default();
    let params = spec.get("paramKind").and_then(|param| {
        let text = |field: &str| param.str_at(&[field]).unwrap_or_default();
        let (group, version) = meta::split_api_version(text("apiVersion"));
        let mut kinds = of_version(definitions, group, version).into_iter();
        let served = kinds.find(|one| one.group == group && one.kind == text("kind"))?;
        served.schema()
    });
    let found = warnings(&spec, &subjects(&spec, definitions), params.as_ref());
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

struct TypeChecker {
    client: Client,
    /// Lists custom resource definitions, which the controller's role may not.
    reader: Client,
    policies: Arc<KindCache<AdmissionPolicy>>,
    queue: Queue<Key>,
}

impl TypeChecker {
    async fn sync(&self, key: Key) -> Outcome {
        let due = self.policies.by_key(&key).is_some_and(|it| it.is_due());
        if !due {
            return Ok(None);
        }
        let fresh = self
            .client
            .get::<Value>(&AdmissionPolicy::RESOURCE, "", &key.name)
            .await;
        let policy = match fresh {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        let definitions = custom::definitions(&self.reader).await?;
        let body = value!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": (key.name.as_str()), "uid": (meta::uid(&policy))},
            "status": (decide(&policy, &definitions))
        });
        let apply = Patch::Apply {
            body: &body,
            manager: MANAGER,
            force: true,
        };
        let written = self
            .client
            .patch_status::<Discard>(&AdmissionPolicy::RESOURCE, "", &key.name, apply)
            .await;
        match written {
            // Deleted, or deleted and recreated: its event will follow.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(None),
            other => other.map(|_| None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rule: Value, expression: &str) -> Value {
        value!({
            "metadata": {"name": "p", "generation": 3},
            "spec": {
                "matchConstraints": {"resourceRules": [(rule)]},
                "validations": [{"expression": (expression)}]
            }
        })
    }

    fn rule(group: &str, version: &str, resources: &[&str]) -> Value {
        let resources = resources.iter().map(|one| value!(*one)).collect();
        value!({"apiGroups": [(group)], "apiVersions": [(version)],
            "operations": ["*"], "resources": (Value::Array(resources))})
    }

    fn warning(status: &Value) -> Option<&str> {
        let all = status.items_at(&["typeChecking", "expressionWarnings"]);
        all.first()?.str_at(&["warning"])
    }

    fn widgets() -> Value {
        value!({"spec": {"group": "example.com", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object",
                    "properties": {"size": {"type": "integer"}}}}}}}]}})
    }

    #[test]
    fn warnings_name_each_type_that_an_expression_does_not_fit() {
        let both = rule("apps", "v1", &["deployments", "statefulsets", "*/scale"]);
        let status = decide(&policy(both, "object.spec.serviceName == ''"), &[]);
        assert_eq!(status.i64_at(&["observedGeneration"]), Some(3));
        let told = warning(&status).expect("a warning");
        assert!(
            told.starts_with("apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field"),
            "{told}"
        );
        assert!(!told.contains("StatefulSet"), "{told}");
    }

    #[test]
    fn custom_resources_have_the_types_of_their_definitions() {
        let widgets = [widgets()];
        let of = |expression: &str| {
            let rule = rule("example.com", "v1", &["widgets"]);
            let status = decide(&policy(rule, expression), &widgets);
            warning(&status).map(str::to_owned)
        };
        assert_eq!(of("object.spec.size > 3"), None);
        let told = of("object.spec.size == 'a'").expect("a warning");
        assert!(told.starts_with("example.com/v1, Kind=Widget: "), "{told}");
    }

    #[test]
    fn wildcards_and_unknown_types_are_not_checked() {
        for (group, version) in [("*", "v1"), ("apps", "*"), ("none.example.com", "v1")] {
            let rule = rule(group, version, &["deployments"]);
            let status = decide(&policy(rule, "object.spec.nothing == 1"), &[]);
            assert_eq!(status.get("typeChecking"), Some(&Value::object()));
        }
    }

    #[test]
    fn each_generation_is_checked_once() {
        let policy = |observed: i64| {
            let policy = serde_json::json!({"metadata": {"generation": 2},
                "status": {"observedGeneration": observed}});
            serde_json::from_value::<AdmissionPolicy>(policy).unwrap()
        };
        assert!(policy(1).is_due());
        assert!(!policy(2).is_due());
    }
}
