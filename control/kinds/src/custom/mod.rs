//! Kinds of CustomResourceDefinitions: everything particular to one of their versions, as
//! data compiled once from the definition.
//!
//! They provide what [`crate::Kind`] and the tables of types provide for built-in kinds:
//! the structure of objects, pruning and defaulting, and validation.

mod columns;
mod correlate;
pub(crate) mod defaults;
mod formats;
mod json_path;
mod lists;
mod rules;
mod strategy;
mod validate;

use control_types::intern;
use control_types::structural::Schema;
use control_types::value::Value;

use crate::tree::Read;
use crate::{Column, Field, Reset, Scale};

use columns::CustomColumn;
use json_path::JsonPath;

/// One version of a kind that is defined by its users.
#[derive(Debug)]
pub struct CustomKind {
    /// API group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Kind of a list.
    pub list_kind: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// The warning of every response in a deprecated version.
    pub deprecation: Option<String>,
    schema: Schema,
    rules: Option<rules::SchemaRules>,
    has_status: bool,
    scale: Option<CustomScale>,
    headings: Box<[Column]>,
    columns: Box<[CustomColumn]>,
    selectable: Box<[&'static str]>,
    selected: Box<[JsonPath]>,
}

/// The paths of the `scale` subresource, and their text in the definition.
#[derive(Debug)]
struct CustomScale {
    paths: Scale,
    spec: String,
    status: String,
    selector: Option<String>,
}

impl CustomKind {
    /// The kind as one of the versions of a definition (`spec.versions[]`) has it.
    #[must_use]
    pub fn new(definition: &Value, version: &Value) -> Self {
        let spec = definition.at("spec");
        let columns: Box<[CustomColumn]> = version
            .items("additionalPrinterColumns")
            .iter()
            .map(CustomColumn::new)
            .collect();
        let columns = if columns.is_empty() {
            Box::new([CustomColumn::age()])
        } else {
            columns
        };
        let paths: Vec<&str> = version
            .items("selectableFields")
            .iter()
            .map(|field| field.text("jsonPath"))
            .collect();
        let subresources = version.at("subresources");
        let scale = subresources.at("scale");
        let fallback = format!("{}List", spec.at("names").text("kind"));
        Self {
            group: intern::text(spec.text("group")),
            version: intern::text(version.text("name")),
            kind: intern::text(spec.at("names").text("kind")),
            list_kind: intern::text(match spec.at("names").text("listKind") {
                "" => &fallback,
                given => given,
            }),
            namespaced: spec.text("scope") != "Cluster",
            deprecation: deprecation(spec, version),
            schema: Schema::compile(version.at("schema").at("openAPIV3Schema")),
            rules: rules::SchemaRules::new(version.at("schema").at("openAPIV3Schema"), true),
            has_status: subresources.has("status"),
            scale: (!scale.is_null()).then(|| CustomScale::new(scale)),
            headings: std::iter::once(columns::NAME)
                .chain(columns.iter().map(|column| column.heading))
                .collect(),
            columns,
            selectable: paths
                .iter()
                .map(|path| intern::text(path.strip_prefix('.').unwrap_or(path)))
                .collect(),
            selected: paths.iter().map(|path| JsonPath::parse(path)).collect(),
        }
    }

    /// The schema of its objects.
    #[must_use]
    pub const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Whether there is a `status` subresource.
    #[must_use]
    pub const fn has_status(&self) -> bool {
        self.has_status
    }

    /// Returns the paths of the `scale` subresource.
    #[must_use]
    pub fn scale(&self) -> Option<Scale> {
        self.scale.as_ref().map(|scale| scale.paths)
    }

    /// Names of the selectable fields besides name and namespace.
    #[must_use]
    pub const fn selectable(&self) -> &[&'static str] {
        &self.selectable
    }

    /// Values of the selectable fields.
    #[must_use]
    pub fn selectable_fields(&self, object: &Value) -> Vec<Field> {
        let values = self.selected.iter().map(|path| {
            let found = path.first(object).filter(|value| !value.is_null());
            found.map(columns::text).unwrap_or_default()
        });
        self.selectable.iter().copied().zip(values).collect()
    }

    /// Returns the fields that a write through an endpoint resets, so that no manager
    /// comes to own them by it.
    #[must_use]
    pub fn reset(&self, subresource: &str) -> Reset {
        match subresource {
            "" if self.has_status => Reset::Fields(&[&["status"]]),
            "status" => Reset::Fields(&[&["metadata"], &["spec"]]),
            _ => Reset::Nothing,
        }
    }

    /// Columns of its table.
    #[must_use]
    pub const fn columns(&self) -> &[Column] {
        &self.headings
    }

    /// The cells of an object's row, one for each column.
    #[must_use]
    pub fn row(&self, object: &Value, now: crate::Timestamp) -> Vec<Value> {
        let name = object.at("metadata").text("name").into();
        let more = self.columns.iter().map(|column| column.cell(object, now));
        std::iter::once(name).chain(more).collect()
    }

    /// How much memory the kind takes, about.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.schema.heap_size() + self.columns.len() * size_of::<(CustomColumn, Column)>()
    }
}

impl CustomScale {
    fn new(scale: &Value) -> Self {
        let path = |text: &str| intern::texts(text.strip_prefix('.').unwrap_or(text).split('.'));
        let selector = scale.text("labelSelectorPath");
        let selector = (!selector.is_empty()).then(|| selector.to_owned());
        let (spec, status) = (
            scale.text("specReplicasPath").to_owned(),
            scale.text("statusReplicasPath").to_owned(),
        );
        Self {
            paths: Scale {
                spec_replicas: path(&spec),
                status_replicas: path(&status),
                selector: selector.as_deref().map(path),
            },
            spec,
            status,
            selector,
        }
    }
}

/// The warning of a deprecated version.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if !version.flag("deprecated") {
        return None;
    }
    if let Some(Value::String(text)) = version.get("deprecationWarning") {
        return Some(text.to_string());
    }
    let (group, kind) = (spec.text("group"), spec.at("names").text("kind"));
    let own = version.text("name");
    let mut text = format!("{group}/{own} {kind} is deprecated");
    let better = spec
        .items("versions")
        .iter()
        .filter(|one| one.flag("served") && !one.flag("deprecated"))
        .map(|one| one.text("name"))
        .max_by(|a, b| compare_versions(a, b));
    if let Some(better) = better.filter(|better| compare_versions(better, own).is_gt()) {
        text.push_str(&format!("; use {group}/{better} {kind}"));
    }
    Some(text)
}

/// Orders versions as Kubernetes does: `v1beta1 < v1 < v2`, others below, those
/// in alphabetical order from the greatest.
#[must_use]
pub fn compare_versions(left: &str, right: &str) -> std::cmp::Ordering {
    match (parse_version(left), parse_version(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => std::cmp::Ordering::Greater,
        (None, Some(_)) => std::cmp::Ordering::Less,
        (None, None) => right.cmp(left),
    }
}

/// Stability, then the major and the minor number.
fn parse_version(text: &str) -> Option<(u8, u64, u64)> {
    let rest = text.strip_prefix('v')?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let number = |text: &str| {
        (!text.starts_with('0'))
            .then(|| text.parse::<u64>().ok())
            .flatten()
    };
    let major = number(&rest[..end])?;
    let (stability, minor) = match &rest[end..] {
        "" => return Some((2, major, 0)),
        beta if beta.starts_with("beta") => (1, &beta[4..]),
        alpha if alpha.starts_with("alpha") => (0, &alpha[5..]),
        _ => return None,
    };
    Some((stability, major, number(minor)?))
}

#[cfg(test)]
mod tests;
