//! A resource in one version, as it is served.

use control_types::meta;
use control_types::registry::{self, Resource, Subresource};
use control_types::status::Status;
use control_types::value::Value;

use crate::decode::ExpectedKind;
use crate::{ObjectSchema, ResourceStrategy, convert};

/// A resource in one version: its entry in the registry and the behaviour of its kind.
#[derive(Debug)]
pub struct ServedVersion {
    /// The entry of the registry.
    pub resource: &'static Resource,
    /// The behaviour of the kind.
    pub kind: ResourceStrategy,
    /// Group and version in which objects are stored.
    pub stored_as: (&'static str, &'static str),
    /// `v1` or `group/version`.
    pub api_version: String,
}

impl ServedVersion {
    /// Describes a resource whose objects are stored in the group and version `stored_as`.
    #[must_use]
    pub fn new(
        resource: &'static Resource,
        kind: ResourceStrategy,
        stored_as: (&'static str, &'static str),
    ) -> Self {
        Self {
            resource,
            kind,
            stored_as,
            api_version: meta::join_api_version(resource.group, resource.version).into(),
        }
    }

    /// Waits until the definition of a custom resource changes; never ends for other resources.
    pub async fn gone(&self) {
        match self.kind.crd_versions() {
            Some(versions) => versions.gone.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the schema of the objects.
    #[inline]
    #[must_use]
    pub fn form(&self) -> ObjectSchema<'_> {
        match &self.kind {
            ResourceStrategy::BuiltIn(_) => ObjectSchema::Typed(self.resource.schema),
            ResourceStrategy::Custom(kind, _) => ObjectSchema::Custom(kind),
        }
    }

    /// Returns the kind that request bodies must hold.
    #[inline]
    #[must_use]
    pub fn expected(&self) -> ExpectedKind<'_> {
        ExpectedKind {
            group: self.resource.group,
            version: self.resource.version,
            kind: self.resource.kind,
            form: self.form(),
        }
    }

    /// Returns the kind of the objects that a subresource takes; with an empty name, that of
    /// the resource.
    #[must_use]
    pub fn expected_of(&self, subresource: &str) -> ExpectedKind<'_> {
        match self.subresource(subresource) {
            Some(of) if of.kind != self.resource.kind => ExpectedKind {
                group: of.group,
                version: of.version,
                kind: of.kind,
                form: ObjectSchema::Typed(
                    registry::schema_of(of.group, of.version, of.kind).unwrap_or(of.schema),
                ),
            },
            _ => self.expected(),
        }
    }

    /// Returns the kind of a list.
    #[must_use]
    pub fn list_kind(&self) -> String {
        match &self.kind {
            ResourceStrategy::BuiltIn(_) => self.resource.list_kind(),
            ResourceStrategy::Custom(kind, _) => kind.list_kind.to_owned(),
        }
    }

    /// Returns a subresource by its name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.resource
            .subresources
            .iter()
            .find(|subresource| subresource.name == name)
    }

    /// Returns status 404 for the object of a key.
    #[must_use]
    pub fn not_found(&self, key: &str) -> Status {
        Status::not_found(self.resource.group, self.resource.plural, name_of(key))
    }

    /// Returns status 409 for the object of a key.
    #[must_use]
    pub fn conflict(&self, key: &str, why: &str) -> Status {
        Status::conflict(self.resource.group, self.resource.plural, name_of(key), why)
    }

    /// Returns the key of an object in the cache.
    #[must_use]
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.resource.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    }

    /// Returns the namespace to look in, of the one that a request names: none for cluster-scoped
    /// resources, such as namespaces themselves.
    #[inline]
    #[must_use]
    pub fn scope<'a>(&self, namespace: &'a str) -> &'a str {
        if self.resource.namespaced {
            namespace
        } else {
            ""
        }
    }

    /// Whether objects are stored in the form in which they are served.
    #[inline]
    #[must_use]
    pub fn is_stored_form(&self) -> bool {
        self.stored_as == (self.resource.group, self.resource.version)
    }

    /// Whether a stored object of this `apiVersion` has the form in which it is served. Objects
    /// of a custom kind may have been stored in a version that was the stored one before.
    #[inline]
    #[must_use]
    pub fn is_form_of_version(&self, api_version: &str) -> bool {
        self.is_stored_form() && (!self.resource.is_custom() || api_version == self.api_version)
    }

    /// As [`ServedVersion::is_form_of_version`], of a tree; what only a webhook converts is
    /// looked at by that.
    #[must_use]
    pub fn is_form_of_tree(&self, object: &Value) -> bool {
        self.is_stored_form()
            && (!self.resource.is_custom()
                || !self.is_converted_by_webhook() && meta::api_version(object) == self.api_version)
    }

    /// Whether a webhook converts objects, since versions differ in more than their names.
    #[must_use]
    pub fn is_converted_by_webhook(&self) -> bool {
        let versions = self.kind.crd_versions();
        versions.is_some_and(|versions| versions.webhook_converts)
    }

    /// Brings a stored object into the version that is served. What only a webhook converts
    /// must have been converted.
    ///
    /// # Errors
    /// 500 when it was not.
    pub fn convert_by_tables(&self, object: &mut Value) -> Result<(), Status> {
        if self.is_converted_by_webhook() && meta::api_version(object) != self.api_version {
            return Err(Status::internal(format!(
                "{} {} was not converted to {}",
                self.resource.kind,
                meta::name(object),
                self.api_version
            )));
        }
        convert::to_served(object, &self.kind, self.resource, &self.api_version);
        Ok(())
    }
}

/// Returns the last part of a key.
#[inline]
#[must_use]
pub fn name_of(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}
