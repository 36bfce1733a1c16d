//! `PodSecurity`: pods keep to what the labels of their namespace ask for; who makes
//! what will make pods that do not is warned.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use control_kinds::pod_security::{self as rules, LevelVersion, NamespacePods, Pod, Policy};
use control_types::meta;
use control_types::status::{Status, quote};
use serde::Deserialize;

use control_strategy::invalid;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;
use crate::counts::Step;
use crate::metrics::PodSecurityLabels;
use crate::plugin::Plugin;
use crate::settings::PluginError;

/// How long the pods of a namespace are looked at when its labels change.
const LOOK: Duration = Duration::from_secs(1);
/// Subresources of pods that change nothing that is judged.
const HARMLESS: &[&str] = &[
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// The plugin, with what holds where no label says it, and who is not judged
/// (`PodSecurityConfiguration`).
#[derive(Clone, Debug)]
pub struct PodSecurity {
    pub policy: Policy,
    exempt: Exemptions,
}

/// `PodSecurityConfiguration` of `pod-security.admission.config.k8s.io/v1`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodSecurityConfiguration {
    #[serde(default)]
    defaults: BTreeMap<String, String>,
    #[serde(default)]
    exemptions: Exemptions,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Exemptions {
    usernames: Vec<String>,
    namespaces: Vec<String>,
    runtime_classes: Vec<String>,
}

/// The members of `defaults`, which are labels without their domain.
const MODES: [&str; 6] = [
    "enforce",
    "enforce-version",
    "audit",
    "audit-version",
    "warn",
    "warn-version",
];

impl Default for PodSecurity {
    fn default() -> Self {
        Self {
            policy: Policy::OPEN,
            exempt: Exemptions::default(),
        }
    }
}

impl PodSecurity {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The members that are not known or say nothing.
    pub fn new(configuration: PodSecurityConfiguration) -> Result<Self, PluginError> {
        let PodSecurityConfiguration {
            defaults,
            exemptions,
        } = configuration;
        if let Some(unknown) = defaults.keys().find(|key| !MODES.contains(&key.as_str())) {
            return Err(PluginError::UnknownField(format!("defaults.{unknown}")));
        }
        let (policy, errors) = Policy::from_labels(|label| {
            let mode = label.rsplit('/').next().unwrap_or_default();
            let said = defaults.get(mode).map(String::as_str);
            // Nobody is warned because others are refused: it would have to be said.
            said.or_else(|| (mode == "warn").then_some("privileged"))
        });
        match errors.first() {
            None => Ok(Self {
                policy,
                exempt: exemptions,
            }),
            Some(error) => {
                let mode = error.label.rsplit('/').next().unwrap_or_default();
                Err(PluginError::Invalid {
                    field: format!("defaults.{mode}"),
                    value: quote(error.value),
                    must: error.must.to_owned(),
                })
            }
        }
    }

    /// Why nothing is judged of this, if so.
    fn exempts(
        &self,
        user: &str,
        namespace: &str,
        class: impl FnOnce() -> Option<String>,
    ) -> Option<&'static str> {
        let Exemptions {
            usernames,
            namespaces,
            runtime_classes,
        } = &self.exempt;
        let named = |list: &[String], name: &str| list.iter().any(|one| one == name);
        if named(namespaces, namespace) {
            return Some("namespace");
        }
        if named(usernames, user) {
            return Some("user");
        }
        let class = (!runtime_classes.is_empty()).then(class).flatten();
        class
            .is_some_and(|class| named(runtime_classes, &class))
            .then_some("runtimeClass")
    }
}

impl Admission for PodSecurity {
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        if !is_judged(attributes) {
            return done(Ok(()));
        }
        let began = Instant::now();
        let checked = self.check(attributes, change, warnings);
        let (plugin, operation) = (Plugin::PodSecurity, attributes.operation);
        let counts = &attributes.metrics.durations;
        done(counts.ended(plugin, Step::Validate, operation, began, checked))
    }
}

/// Whether objects of a resource are looked at at all.
fn is_judged(attributes: &Attributes<'_>) -> bool {
    attributes.is_for("", "namespaces")
        || attributes.is_for("", "pods")
        || attributes.served.kind.facts().template.is_some()
}

impl PodSecurity {
    /// Looks at namespaces, pods, and what makes pods.
    ///
    /// # Errors
    /// 403 for a pod that is not allowed, 422 for labels that say nothing.
    fn check(
        &self,
        attributes: &Attributes<'_>,
        change: Change<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let is_whole = attributes.subresource.is_empty();
        if attributes.is_for("", "namespaces") {
            return match is_whole {
                true => self.check_namespace(attributes, change, warnings),
                false => Ok(()),
            };
        }
        let is_pod = attributes.is_for("", "pods");
        let is_judged = match is_pod {
            true => !HARMLESS.contains(&attributes.subresource),
            false => is_whole,
        };
        match is_judged {
            true => self.judge(attributes, change, is_pod, warnings),
            false => Ok(()),
        }
    }

    fn check_namespace(
        &self,
        attributes: &Attributes<'_>,
        change: Change<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let (new, errors) = self.policy.with(|label| meta::label(change.new, label));
        let name = meta::name(change.new);
        let refused = || {
            let errors: Vec<_> = errors
                .iter()
                .map(rules::LabelError::to_field_error)
                .collect();
            let resource = attributes.served.resource;
            invalid::status(resource.group, resource.kind, name, &errors)
        };
        let Some(old) = change.old else {
            return if errors.is_empty() {
                Ok(())
            } else {
                Err(refused())
            };
        };
        let (old, old_errors) = self.policy.with(|label| meta::label(old, label));
        if !errors.is_empty() && errors != old_errors {
            return Err(refused());
        }
        if new.is_stricter_than(&old) && self.exempts("", name, || None).is_none() {
            let began = Instant::now();
            let pods = attributes.cluster.list("", "pods", name)?;
            let is_late = || began.elapsed() > LOOK;
            warnings.append(&mut NamespacePods::new(pods).warnings(name, new.enforce, is_late));
        }
        Ok(())
    }

    fn judge(
        &self,
        attributes: &Attributes<'_>,
        change: Change<'_>,
        is_pod: bool,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let context = attributes.context;
        let namespace = meta::namespace(change.new);
        let Some(found) = attributes.cluster.get("", "namespaces", namespace) else {
            let why = format!("failed to lookup namespace {}", quote(namespace));
            return if is_pod {
                Err(Status::internal(why))
            } else {
                Ok(())
            };
        };
        let class = || {
            let pod = Pod::within(change.new, attributes.served.kind.facts().template?)?;
            pod.spec.str_at(&["runtimeClassName"]).map(str::to_owned)
        };
        if let Some(why) = self.exempts(&context.user.name, namespace, class) {
            context.annotate("pod-security.kubernetes.io/exempt", why);
            return Ok(());
        }
        let (policy, errors) = self.policy.with(|label| found.label(label));
        let operation = if change.old.is_some() {
            "update"
        } else {
            "create"
        };
        let resource = if is_pod { "pod" } else { "controller" };
        let count = |decision, mode, by: LevelVersion| {
            attributes.metrics.pod_security(&PodSecurityLabels::new(
                decision,
                mode,
                by,
                operation,
                resource,
                attributes.subresource,
            ));
        };
        if policy.is_open() && errors.is_empty() {
            if is_pod {
                context.annotate(
                    "pod-security.kubernetes.io/enforce-policy",
                    "privileged:latest",
                );
                count("allow", "enforce", policy.enforce);
            }
            return Ok(());
        }
        if let (true, Some(old)) = (is_pod, change.old)
            && !rules::is_significant(change.new, old)
        {
            return Ok(());
        }
        let Some(pod) = attributes
            .served
            .kind
            .facts()
            .template
            .and_then(|template| Pod::within(change.new, template))
        else {
            return Ok(());
        };
        if !errors.is_empty() {
            let texts: Vec<_> = errors
                .iter()
                .map(|error| error.to_field_error().to_string())
                .collect();
            let list = match texts.as_slice() {
                [one] => one.clone(),
                many => format!("[{}]", many.join(", ")),
            };
            let text = format!("Failed to parse policy: {list}");
            context.annotate("pod-security.kubernetes.io/error", text);
        }
        // The modes are often of one level: it is looked at once.
        let mut seen: Vec<(LevelVersion, rules::Violations)> = Vec::with_capacity(3);
        let mut look = |by: LevelVersion| {
            if let Some((_, found)) = seen.iter().find(|(other, _)| *other == by) {
                return found.clone();
            }
            let found = rules::evaluate(by, pod);
            seen.push((by, found.clone()));
            found
        };
        let told = |verb: &str, by: LevelVersion, found: &[rules::Violation]| {
            let by = quote(&by.to_string());
            format!("{verb} PodSecurity {by}: {}", rules::details(found))
        };
        let mut answer = Ok(());
        if is_pod {
            let by = policy.enforce;
            context.annotate("pod-security.kubernetes.io/enforce-policy", by.to_string());
            let found = look(by);
            if found.is_empty() {
                count("allow", "enforce", by);
            } else {
                count("deny", "enforce", by);
                let resource = attributes.served.resource;
                answer = Err(Status::forbidden(
                    resource.group,
                    resource.plural,
                    meta::name(change.new),
                    &told("violates", by, &found),
                ));
            }
        }
        let found = look(policy.audit);
        if !found.is_empty() {
            let text = told("would violate", policy.audit, &found);
            context.annotate("pod-security.kubernetes.io/audit-violations", text);
            count("deny", "audit", policy.audit);
        }
        if answer.is_ok() {
            let found = look(policy.warn);
            if !found.is_empty() {
                warnings.push(told("would violate", policy.warn, &found));
                count("deny", "warn", policy.warn);
            }
        }
        answer
    }
}
