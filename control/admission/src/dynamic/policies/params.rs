//! The parameters of policies: objects of any kind that bindings name or select.

use std::sync::{Arc, Mutex, PoisonError};

use control_strategy::ServedVersion;
use control_types::labels::Selector;
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
    selector: Option<Result<Selector, String>>,
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
    pub fn resource(&self, cluster: &dyn Cluster) -> Result<Arc<ServedVersion>, String> {
        self.resolve(cluster).ok_or_else(|| {
            format!(
                "failed to find resource referenced by paramKind: '{}/{}, Kind={}'",
                self.group, self.version, self.kind
            )
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
            selector: selector
                .map(|one| Selector::from_object(Some(one)).map_err(|error| error.to_string())),
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
    ) -> Result<Params, String> {
        let namespace = attributes.namespace;
        let scope = if served.resource.namespaced {
            let scope = if self.namespace.is_empty() {
                namespace
            } else {
                &self.namespace
            };
            if scope.is_empty() {
                return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into());
            }
            scope
        } else if self.namespace.is_empty() {
            ""
        } else {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into(),
            );
        };
        let cache = attributes.cluster.objects(served);
        let cache =
            cache.ok_or_else(|| format!("paramKind kind `{}` not known", served.resource.kind))?;
        let objects: Vec<Arc<dyn CachedObject>> = if !self.name.is_empty() {
            let key = served.key(scope, &self.name);
            cache.get(&key).into_iter().collect()
        } else if let Some(selector) = &self.selector {
            let selector = selector.as_ref().map_err(Clone::clone)?;
            let (_, mut objects) = cache.list(scope);
            objects.retain(|one| selector.matches_with(|key| one.label(key)));
            objects
        } else {
            return Err("one of name or selector must be provided".into());
        };
        if objects.is_empty() && self.needed {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".into(),
            );
        }
        self.trees(served, &objects)
    }

    /// The objects as trees; those that did not change are not read again.
    fn trees(
        &self,
        served: &ServedVersion,
        objects: &[Arc<dyn CachedObject>],
    ) -> Result<Params, String> {
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
                            .map_err(|status| status.message)?,
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
) -> Result<Params, String> {
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
