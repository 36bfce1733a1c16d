//! The parameters of policies: objects of any kind that bindings name or select.

use std::sync::{Arc, Mutex, PoisonError};

use control_strategy::ServedVersion;
use control_types::labels::{self, Selector};
use control_types::meta;
use control_types::registry::{self, Resource};
use control_types::status::Status;
use control_types::value::Value;

use control_strategy::CachedObject;

use crate::attributes::Attributes;
use crate::cluster::Cluster;

/// `paramKind`: what parameters are.
#[derive(Debug)]
pub(super) struct ParamKind {
    group: String,
    version: String,
    kind: String,
    /// The resource, where the API itself has it.
    built_in: Option<&'static Resource>,
}

/// `paramRef`: where parameters are.
#[derive(Debug)]
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Result<Selector, labels::Error>>,
    /// Whether a request is denied when there are none.
    needed: bool,
    /// What was read last: parameters change seldom.
    last: Mutex<Vec<ParsedParam>>,
}

#[derive(Clone, Debug)]
struct ParsedParam {
    key: String,
    revision: u64,
    api_version: String,
    object: Arc<Value>,
}

/// Error of parameters that cannot be used, in the words of stock.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParamError {
    /// Nobody serves their kind.
    #[error("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")]
    UnknownKind {
        group: String,
        version: String,
        kind: String,
    },
    /// They are in a namespace, and the request is in none.
    #[error(
        "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
    )]
    NoNamespace,
    /// They are in no namespace, and one is given.
    #[error("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")]
    UnwantedNamespace,
    /// Objects of their kind are not stored here.
    #[error("paramKind kind `{kind}` not known")]
    NotStored { kind: &'static str },
    /// The selector that selects them is wrong.
    #[error(transparent)]
    Selector(#[from] labels::Error),
    /// They are neither named nor selected.
    #[error("one of name or selector must be provided")]
    Unselected,
    /// There are none, and there must be some.
    #[error("no params found for policy binding with `Deny` parameterNotFoundAction")]
    NotFound,
    /// One cannot be read, or whether the binding is about the request.
    #[error("{}", .0.message)]
    Status(Status),
}

/// The parameters with which a policy is asked, each time with another; `None`:
/// with none.
pub(super) type Params = Vec<Option<Arc<Value>>>;

impl ParamKind {
    pub fn read(stated: &Value) -> Self {
        let text = |field: &str| stated.str_at(&[field]).unwrap_or_default();
        let api_version = text("apiVersion");
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let kind = text("kind");
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            built_in: registry::resources()
                .iter()
                .find(|one| (one.group, one.version, one.kind) == (group, version, kind)),
        }
    }

    /// The resource of the parameters.
    fn resolve(&self, cluster: &dyn Cluster) -> Option<Arc<ServedVersion>> {
        match self.built_in {
            Some(known) => cluster.resource_of_path(known.group, known.version, known.plural),
            None => cluster.resource_of_kind(&self.group, &self.version, &self.kind),
        }
    }

    /// The resource of the parameters.
    ///
    /// # Errors
    /// As stock words it: there is no such.
    pub fn resource(&self, cluster: &dyn Cluster) -> Result<Arc<ServedVersion>, ParamError> {
        self.resolve(cluster)
            .ok_or_else(|| ParamError::UnknownKind {
                group: self.group.clone(),
                version: self.version.clone(),
                kind: self.kind.clone(),
            })
    }
}

impl ParamRef {
    pub fn read(stated: &Value) -> Self {
        let text = |field: &str| stated.str_at(&[field]).unwrap_or_default().to_owned();
        let selector = stated.get("selector").filter(|one| !one.is_null());
        Self {
            name: text("name"),
            namespace: text("namespace"),
            selector: selector.map(|one| Selector::from_object(Some(one))),
            needed: text("parameterNotFoundAction") == "Deny",
            last: Mutex::default(),
        }
    }

    /// The parameters for a request in `namespace`.
    ///
    /// # Errors
    /// As stock words them: the reference does not fit the kind or the request, or
    /// nothing is found and that must not be.
    pub fn find(
        &self,
        attributes: &Attributes<'_>,
        served: &ServedVersion,
    ) -> Result<Params, ParamError> {
        let namespace = attributes.namespace;
        let scope = if served.resource.namespaced {
            let scope = if self.namespace.is_empty() {
                namespace
            } else {
                &self.namespace
            };
            if scope.is_empty() {
                return Err(ParamError::NoNamespace);
            }
            scope
        } else if self.namespace.is_empty() {
            ""
        } else {
            return Err(ParamError::UnwantedNamespace);
        };
        let cache = attributes.cluster.objects(served);
        let kind = served.resource.kind;
        let cache = cache.ok_or(ParamError::NotStored { kind })?;
        let objects: Vec<Arc<dyn CachedObject>> = if !self.name.is_empty() {
            let key = served.key(scope, &self.name);
            cache.get(&key).into_iter().collect()
        } else if let Some(selector) = &self.selector {
            let selector = selector.as_ref().map_err(Clone::clone)?;
            let (_, mut objects) = cache.list(scope);
            objects.retain(|one| selector.matches_with(|key| one.label(key)));
            objects
        } else {
            return Err(ParamError::Unselected);
        };
        if objects.is_empty() && self.needed {
            return Err(ParamError::NotFound);
        }
        self.trees(served, &objects)
    }

    /// The objects as trees; those that did not change are not read again.
    fn trees(
        &self,
        served: &ServedVersion,
        objects: &[Arc<dyn CachedObject>],
    ) -> Result<Params, ParamError> {
        let last = {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.clone()
        };
        let mut fresh = last.len() == objects.len();
        let mut now = Vec::with_capacity(objects.len());
        for object in objects {
            let known = last.iter().find(|one| {
                one.revision == object.revision()
                    && one.key == object.key()
                    && one.api_version == served.api_version
            });
            now.push(match known {
                Some(known) => known.clone(),
                None => {
                    fresh = false;
                    ParsedParam {
                        key: object.key().to_owned(),
                        revision: object.revision(),
                        api_version: served.api_version.clone(),
                        object: tree(served, &**object)
                            .map(Arc::new)
                            .map_err(ParamError::Status)?,
                    }
                }
            });
        }
        let found = now
            .iter()
            .map(|one| Some(Arc::clone(&one.object)))
            .collect();
        if !fresh {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            *last = now;
        }
        Ok(found)
    }
}

/// Returns an object in the version that is served.
fn tree(served: &ServedVersion, object: &dyn CachedObject) -> Result<Value, Status> {
    let mut value = object.value()?;
    if !served.is_form_of_version(meta::api_version(&value)) {
        served.convert_by_tables(&mut value)?;
    }
    Ok(value)
}

/// With what a policy is asked by a binding.
///
/// # Errors
/// As [`ParamRef::find`].
pub(super) fn collect(
    attributes: &Attributes<'_>,
    kind: Option<&Arc<ServedVersion>>,
    reference: Option<&ParamRef>,
) -> Result<Params, ParamError> {
    match (kind, reference) {
        (Some(kind), Some(reference)) => reference.find(attributes, kind),
        _ => Ok(vec![None]),
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn kinds_of_the_api_are_known_by_group_version_and_kind() {
        let kind = |api_version: &str, kind: &str| {
            ParamKind::read(&value!({"apiVersion": (api_version), "kind": (kind)}))
                .built_in
                .map(|known| known.plural)
        };
        assert_eq!(kind("v1", "ConfigMap"), Some("configmaps"));
        assert_eq!(kind("apps/v1", "Deployment"), Some("deployments"));
        assert_eq!(kind("apps/v2", "Deployment"), None);
        assert_eq!(kind("example.com/v1", "Limit"), None);
    }
}
