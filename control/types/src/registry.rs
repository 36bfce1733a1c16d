//! The resources of the API: generated rows and how to find one.

use crate::generated::resources::{GROUPS, RESOURCES};
use crate::schema::TypeId;

/// An API group with its served versions.
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    /// Empty for the core group.
    pub name: &'static str,
    /// Served versions, the preferred one first.
    pub versions: &'static [&'static str],
}

/// A version in which objects are stored.
#[derive(Debug, PartialEq, Eq)]
pub struct Storage {
    /// API group; another than the resource's where two groups share objects (events).
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
}

/// A resource in one version.
#[derive(Debug)]
pub struct Resource {
    /// API group; empty for core.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind of one object.
    pub kind: &'static str,
    /// Name in paths.
    pub plural: &'static str,
    /// Name of one.
    pub singular: &'static str,
    /// Short names.
    pub short_names: &'static [&'static str],
    /// Categories, as `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
    /// Verbs, in alphabetical order.
    pub verbs: &'static [&'static str],
    /// Subresources, in alphabetical order.
    pub subresources: &'static [Subresource],
    /// Hash that tells clients when the stored version changes; empty when nothing is stored.
    pub storage_version_hash: &'static str,
    /// The version in which its objects are stored.
    pub storage: Storage,
    /// Type of one object.
    pub schema: TypeId,
    /// Type of a list; absent where nothing can be listed.
    pub list_schema: Option<TypeId>,
    /// Whether a deletion answers the deleted object, and not a status.
    pub returns_deleted: bool,
}

/// A subresource.
#[derive(Debug)]
pub struct Subresource {
    /// Name behind the object's.
    pub name: &'static str,
    /// The kind of the request and response body.
    pub kind: &'static str,
    /// Group of that kind.
    pub group: &'static str,
    /// Version of that kind.
    pub version: &'static str,
    /// Verbs, in alphabetical order.
    pub verbs: &'static [&'static str],
    /// Type of that kind.
    pub schema: TypeId,
}

/// All resources: by group in the order of discovery, then version, then plural.
#[must_use]
pub fn resources() -> &'static [Resource] {
    RESOURCES
}

/// All groups in the order of discovery, core first.
#[must_use]
pub fn groups() -> &'static [Group] {
    GROUPS
}

/// The group of this name.
#[must_use]
pub fn group(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| group.name == name)
}

/// The resource at a path.
#[must_use]
pub fn lookup(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES
        .iter()
        .find(|one| one.plural == plural && one.group == group && one.version == version)
}

/// The resource of a kind.
#[must_use]
pub fn lookup_kind(group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
    RESOURCES
        .iter()
        .find(|one| one.kind == kind && one.group == group && one.version == version)
}

/// The resources of a group and version, in the order of discovery.
pub fn resources_of(group: &str, version: &str) -> impl Iterator<Item = &'static Resource> {
    RESOURCES
        .iter()
        .filter(move |one| one.group == group && one.version == version)
}

/// Returns the type of any kind of the API: a resource, a list, the body of a
/// subresource, or a kind of `meta.k8s.io` (which exists in every group).
#[must_use]
pub fn schema_of(group: &str, version: &str, kind: &str) -> Option<TypeId> {
    if let Some(resource) = lookup_kind(group, version, kind) {
        return Some(resource.schema);
    }
    let meta =
        |kind: &str| TypeId::by_name(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"));
    let package = match group {
        "meta.k8s.io" => return meta(kind),
        "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration.k8s.io" => "io.k8s.kube-aggregator.pkg.apis.apiregistration",
        "metrics.k8s.io" => "io.k8s.metrics.pkg.apis.metrics",
        "" => "io.k8s.api.core",
        _ => {
            let short = group.split('.').next().unwrap_or(group);
            return TypeId::by_name(&format!("io.k8s.api.{short}.{version}.{kind}"))
                .or_else(|| meta(kind));
        }
    };
    TypeId::by_name(&format!("{package}.{version}.{kind}")).or_else(|| meta(kind))
}

/// The name of the type that represents custom resources.
pub const CUSTOM: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata";

impl Resource {
    /// Whether it is defined by a CustomResourceDefinition: its type is then not in
    /// the tables.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        self.schema.get().name == CUSTOM
    }

    /// `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> compact_str::CompactString {
        crate::meta::join_api_version(self.group, self.version)
    }

    /// Whether it knows a verb.
    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// The subresource of this name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|one| one.name == name)
    }

    /// Returns the kind of a list of this resource.
    #[must_use]
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_is_found_by_its_path_and_by_its_kind() {
        assert!(resources().len() > 60);
        for one in resources() {
            assert!(std::ptr::eq(
                lookup(one.group, one.version, one.plural).unwrap(),
                one
            ));
            assert_eq!(
                lookup_kind(one.group, one.version, one.kind)
                    .unwrap()
                    .plural,
                one.plural
            );
            assert_eq!(
                schema_of(one.group, one.version, one.kind),
                Some(one.schema)
            );
            if one.has_verb("list") {
                assert_eq!(
                    schema_of(one.group, one.version, &one.list_kind()),
                    one.list_schema
                );
                assert!(one.list_schema.is_some());
            }
            for sub in one.subresources {
                assert_eq!(
                    schema_of(sub.group, sub.version, sub.kind),
                    Some(sub.schema),
                    "{sub:?}"
                );
            }
        }
        assert!(lookup("", "v1", "nope").is_none());
    }

    #[test]
    fn shared_objects_have_one_storage() {
        let event = lookup("events.k8s.io", "v1", "events").unwrap();
        let core = lookup("", "v1", "events").unwrap();
        assert_eq!(event.storage, core.storage);
        let one = lookup("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
        let two = lookup("autoscaling", "v2", "horizontalpodautoscalers").unwrap();
        assert_eq!(one.storage, two.storage);
    }

    #[test]
    fn meta_kinds_are_known_in_every_group() {
        assert!(schema_of("apps", "v1", "DeleteOptions").is_some());
        assert!(schema_of("", "v1", "Status").is_some());
        assert!(schema_of("meta.k8s.io", "v1", "Table").is_some());
    }
}
