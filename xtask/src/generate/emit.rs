//! Writes the tables as Rust: static arrays of numbers and texts, which compile
//! in a moment and take no time at start.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::golang::Name;
use super::resources::{Resource, Resources};
use super::schema::{Merge, Ref, Type, package_of};

pub(super) const HEADER: &str =
    "//! Written by `cargo xtask generate` from the published Kubernetes API; do not edit.\n\n";

/// Keys of labels, resources and the like that nearly every cluster holds: worth
/// interning although they are no field names.
const MORE_NAMES: [&str; 34] = [
    "app",
    "app.kubernetes.io/component",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "ca.crt",
    "controller-revision-hash",
    "cpu",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deployment.kubernetes.io/revision",
    "endpointslice.kubernetes.io/managed-by",
    "ephemeral-storage",
    "hugepages-1Gi",
    "hugepages-2Mi",
    "k8s-app",
    "kubectl.kubernetes.io/last-applied-configuration",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/metadata.name",
    "kubernetes.io/os",
    "kubernetes.io/service-name",
    "memory",
    "node-role.kubernetes.io/control-plane",
    "pod-template-generation",
    "pod-template-hash",
    "pods",
    "tier",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// All files: name and text.
pub fn files(resources: &Resources, types: &BTreeMap<String, Type>) -> Vec<(&'static str, String)> {
    let names: BTreeSet<&str> = types
        .values()
        .flat_map(|one| one.fields.iter().map(|field| field.name.as_str()))
        .filter(|name| !name.is_empty())
        .chain(MORE_NAMES)
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    let module = format!(
        "{HEADER}#[rustfmt::skip]\npub mod internal;\n#[rustfmt::skip]\npub mod names;\n#[rustfmt::skip]\npub mod resources;\n#[rustfmt::skip]\npub mod schema;\n\n\
         /// What the API says in words, as `xtask/src/generate/texts.rs` lays it out.\n\
         pub static TEXTS: &[u8] = include_bytes!(\"texts.z\");\n"
    );
    vec![
        ("mod.rs", module),
        ("names.rs", names_file(&names)),
        ("resources.rs", resources_file(resources, types)),
        ("schema.rs", schema_file(types, &names)),
    ]
}

fn names_file(names: &[&str]) -> String {
    let mut out = HEADER.to_owned();
    out.push_str(
        "/// Field names and other frequent keys, in order.\npub static NAMES: &[&str] = &[\n",
    );
    for name in names {
        let _ = writeln!(out, "    {name:?},");
    }
    out.push_str("];\n");
    out
}

/// Texts that get a number in the order of their first use; the first is empty.
struct Numbers<T> {
    items: Vec<T>,
}

impl<T: Clone + Default + PartialEq> Numbers<T> {
    fn new() -> Self {
        Self {
            items: vec![T::default()],
        }
    }

    fn number(&mut self, item: &T) -> usize {
        match self.items.iter().position(|one| one == item) {
            Some(at) => at,
            None => {
                self.items.push(item.clone());
                self.items.len() - 1
            }
        }
    }
}

fn schema_file(types: &BTreeMap<String, Type>, names: &[&str]) -> String {
    let numbers: BTreeMap<&str, usize> = types.keys().map(String::as_str).zip(0..).collect();
    let mut merges: Numbers<Merge> = Numbers::new();
    let mut defaults: Numbers<String> = Numbers::new();
    let mut go_types: Numbers<String> = Numbers::new();
    let mut refs: Vec<Ref> = Vec::new();
    let (mut type_rows, mut field_rows) = (String::new(), String::new());
    let (mut fields, count) = (0, types.len());
    let mut go_names = Vec::new();
    for (name, one) in types {
        let _ = writeln!(
            type_rows,
            "    Type {{ name: {name:?}, go: {:?}, shape: {}, atomic: {}, published: {}, range: ({fields}, {}) }},",
            one.go,
            one.shape,
            one.atomic,
            one.published,
            one.fields.len(),
        );
        if !one.fields.is_empty() {
            let _ = writeln!(field_rows, "    // {name}");
        }
        for field in &one.fields {
            let at = match refs.iter().position(|one| *one == field.type_ref) {
                Some(at) => at,
                None => {
                    refs.push(field.type_ref.clone());
                    refs.len() - 1
                }
            };
            let number = names
                .binary_search(&field.name.as_str())
                .map_or(0xffff, |at| at);
            let _ = writeln!(
                field_rows,
                "    f({number}, {}, {}, {at}, {}, {}, {}), // {}",
                field.number,
                field.flags,
                merges.number(&field.merge),
                defaults.number(&field.default),
                go_types.number(&field.go),
                if field.name.is_empty() {
                    "(inline)"
                } else {
                    &field.name
                },
            );
            if !field.has_regular_name() {
                go_names.push((fields, &field.go_name));
            }
            fields += 1;
        }
    }
    let mut out = HEADER.to_owned();
    out.push_str("use crate::schema::{Field, Merge, Type, TypeId, TypeRef, f};\nuse crate::schema::Shape::{Any, SchemaOrArray, SchemaOrBool, SchemaOrTexts, Struct, Texts};\n\n");
    let _ = writeln!(
        out,
        "/// Types, ordered by name.\npub(crate) static TYPES: &[Type; {count}] = &[\n{type_rows}];\n"
    );
    let _ = writeln!(
        out,
        "/// Types of fields.\npub(crate) static REFS: &[TypeRef; {}] = &[",
        refs.len()
    );
    for one in &refs {
        let _ = writeln!(out, "    {},", type_ref(one, &numbers));
    }
    out.push_str("];\n\n");
    let _ = writeln!(
        out,
        "/// How lists and maps merge.\npub(crate) static MERGES: &[Merge; {}] = &[",
        merges.items.len()
    );
    for one in &merges.items {
        let _ = writeln!(
            out,
            "    Merge {{ list_type: {:?}, list_map_keys: &{:?}, map_type: {:?}, patch_strategy: {:?}, patch_merge_key: {:?} }},",
            one.list_type, one.list_map_keys, one.map_type, one.patch_strategy, one.patch_merge_key
        );
    }
    out.push_str("];\n\n");
    list(&mut out, "Defaults, as JSON.", "DEFAULTS", &defaults.items);
    list(
        &mut out,
        "Types as Go names them.",
        "GO_TYPES",
        &go_types.items,
    );
    let _ = writeln!(
        out,
        "/// Names in Go that do not follow from those in JSON, by the field's place below.\npub(crate) static GO_NAMES: &[(u16, &str); {}] = &[",
        go_names.len()
    );
    for (at, name) in &go_names {
        let _ = writeln!(out, "    ({at}, {name:?}),");
    }
    out.push_str("];\n\n");
    let _ = writeln!(
        out,
        "/// Fields, type by type: name, protobuf number, flags, type, merge, default, Go type.\npub(crate) static FIELDS: &[Field; {fields}] = &[\n{field_rows}];"
    );
    out
}

fn list(out: &mut String, doc: &str, name: &str, items: &[String]) {
    let _ = writeln!(
        out,
        "/// {doc}\npub(crate) static {name}: &[&str; {}] = &[",
        items.len()
    );
    for item in items {
        let _ = writeln!(out, "    {item:?},");
    }
    out.push_str("];\n\n");
}

fn type_ref(one: &Ref, numbers: &BTreeMap<&str, usize>) -> String {
    match one {
        Ref::Plain(name) => format!("TypeRef::{name}"),
        Ref::Object(name) => format!("TypeRef::Object(TypeId({}))", numbers[name.as_str()]),
        Ref::List(inner) => format!("TypeRef::List(&{})", type_ref(inner, numbers)),
        Ref::Map(inner) => format!("TypeRef::Map(&{})", type_ref(inner, numbers)),
    }
}

fn resources_file(resources: &Resources, types: &BTreeMap<String, Type>) -> String {
    let numbers: BTreeMap<&str, usize> = types.keys().map(String::as_str).zip(0..).collect();
    let id = |group: &str, version: &str, kind: &str| {
        let name = Name {
            package: package_of(group, version),
            name: kind.to_owned(),
        };
        numbers.get(name.openapi().as_str()).copied()
    };
    let mut out = HEADER.to_owned();
    out.push_str("use crate::registry::{Group, Resource, Storage, Subresource};\nuse crate::schema::TypeId;\n\n");
    out.push_str(
        "/// Groups in the order of discovery.\npub(crate) static GROUPS: &[Group] = &[\n",
    );
    for group in &resources.groups {
        let _ = writeln!(
            out,
            "    Group {{ name: {:?}, versions: &{:?} }},",
            group.name, group.versions
        );
    }
    out.push_str("];\n\n/// Resources by group, version and plural.\npub(crate) static RESOURCES: &[Resource] = &[\n");
    for one in &resources.resources {
        resource(&mut out, one, &id);
    }
    out.push_str("];\n");
    out
}

fn resource(out: &mut String, one: &Resource, id: &impl Fn(&str, &str, &str) -> Option<usize>) {
    let schema = id(&one.group, &one.version, &one.kind).unwrap_or_default();
    let list = id(&one.group, &one.version, &format!("{}List", one.kind))
        .map_or("None".to_owned(), |list| format!("Some(TypeId({list}))"));
    let _ = writeln!(
        out,
        "    Resource {{\n        group: {:?}, version: {:?}, kind: {:?}, plural: {:?}, singular: {:?},",
        one.group, one.version, one.kind, one.plural, one.singular
    );
    let _ = writeln!(
        out,
        "        short_names: &{:?}, categories: &{:?}, namespaced: {},\n        verbs: &{:?},",
        one.short_names, one.categories, one.namespaced, one.verbs
    );
    if one.subresources.is_empty() {
        out.push_str("        subresources: &[],\n");
    } else {
        out.push_str("        subresources: &[\n");
        for sub in &one.subresources {
            let schema = id(&sub.group, &sub.version, &sub.kind).unwrap_or_default();
            let _ = writeln!(
                out,
                "            Subresource {{ name: {:?}, kind: {:?}, group: {:?}, version: {:?}, verbs: &{:?}, schema: TypeId({schema}) }},",
                sub.name, sub.kind, sub.group, sub.version, sub.verbs
            );
        }
        out.push_str("        ],\n");
    }
    let _ = writeln!(
        out,
        "        storage_version_hash: {:?}, storage: Storage {{ group: {:?}, version: {:?} }},\n        schema: TypeId({schema}), list_schema: {list}, returns_deleted: {},\n    }},",
        one.hash, one.storage.0, one.storage.1, one.returns_deleted
    );
}
