//! Admission policies: `ValidatingAdmissionPolicy` (KEP-3488) and
//! `MutatingAdmissionPolicy` (KEP-3962).
//!
//! What a policy says of a request is decided by `control_kinds::policies`. Here is
//! found what it is decided about: which policies and bindings match, their
//! parameters, the objects in the version that a policy asked for; and here is done
//! what follows: answers, warnings, annotations, metrics, changes.

mod authorizer;
mod choice;
mod hooks;
mod mutating;
mod params;
mod request;
mod validating;

use std::sync::Arc;

use control_kinds::policies::{MutatingPolicy, ValidatingPolicy};
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;

use crate::attributes::Attributes;
use crate::dynamic::rounds::Rounds;
use control_strategy::ObjectCache;
use hooks::Hooks;

pub(super) use authorizer::UserAuthorizer;
pub(super) use request::{question, request};

/// All policies and their bindings.
#[derive(Debug)]
pub struct Policies {
    validating: Hooks<ValidatingPolicy>,
    mutating: Hooks<MutatingPolicy>,
}

impl Policies {
    /// `cache` finds the cache of a resource of the group by its plural.
    pub fn new(cache: impl Fn(&str) -> Option<Arc<dyn ObjectCache>>) -> Option<Self> {
        Some(Self {
            validating: Hooks::new(
                cache("validatingadmissionpolicies")?,
                cache("validatingadmissionpolicybindings")?,
                hooks::validating,
            ),
            mutating: Hooks::new(
                cache("mutatingadmissionpolicies")?,
                cache("mutatingadmissionpolicybindings")?,
                hooks::mutating,
            ),
        })
    }

    /// Lets policies change an object.
    ///
    /// # Errors
    /// What they refuse, and what fails in those that must not fail.
    pub async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        if is_excluded(attributes) {
            return Ok(());
        }
        match self.mutating.now() {
            Some(hooks) => mutating::run(&hooks, attributes, object, old, rounds).await,
            None => Ok(()),
        }
    }

    /// Lets policies look at what is to be done.
    ///
    /// # Errors
    /// What they refuse, and what fails in those that must not fail.
    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if is_excluded(attributes) {
            return Ok(());
        }
        match self.validating.now() {
            Some(hooks) => validating::run(&hooks, attributes, object, old).await,
            None => Ok(()),
        }
    }
}

/// Questions about users and their rights are no policy's business: a cluster in
/// which nobody can be asked about does not work.
fn is_excluded(attributes: &Attributes<'_>) -> bool {
    let resource = attributes.served.resource;
    attributes.subresource.is_empty()
        && matches!(
            (resource.group, resource.plural),
            (
                "authentication.k8s.io",
                "selfsubjectreviews" | "tokenreviews"
            ) | (
                "authorization.k8s.io",
                "localsubjectaccessreviews"
                    | "selfsubjectaccessreviews"
                    | "selfsubjectrulesreviews"
                    | "subjectaccessreviews"
            )
        )
}

/// The answer to a request that is refused.
fn forbidden(attributes: &Attributes<'_>, object: Option<&Value>, why: &str) -> Status {
    let own = object.map_or(("", ""), |object| {
        (meta::name(object), meta::generate_name(object))
    });
    let name = match (attributes.name, own) {
        ("", ("", "")) => "Unknown",
        ("", ("", prefix)) => prefix,
        ("", (name, _)) | (name, _) => name,
    };
    let resource = attributes.served.resource;
    Status::forbidden(resource.group, resource.plural, name, why)
}

/// The namespace of what a request is about, as policies see it: none for
/// namespaces themselves.
fn namespace_of<'a>(attributes: &Attributes<'a>) -> &'a str {
    match (attributes.kind.group, attributes.kind.kind) {
        ("", "Namespace") => "",
        _ => attributes.namespace,
    }
}

/// The object of that namespace without what policies do not see of it.
fn namespace_object(attributes: &Attributes<'_>) -> Result<Option<Value>, Status> {
    let name = namespace_of(attributes);
    if name.is_empty() {
        return Ok(None);
    }
    let found = attributes.cluster.get("", "namespaces", name);
    let found = found.ok_or_else(|| Status::not_found("", "namespaces", name))?;
    let mut object = found.value()?;
    for field in ["apiVersion", "kind"] {
        object.remove(field);
    }
    let metadata = meta::metadata_mut(&mut object);
    for field in ["managedFields", "ownerReferences", "selfLink"] {
        metadata.remove(field);
    }
    Ok(Some(object))
}
