//! Kubernetes' internal types, as far as its messages show them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use super::golang::{Body, Field, GoType, Name, Packages};
use crate::error::Error;

const INSIDE: &str = "k8s.io/kubernetes/pkg/apis/";

/// The types in messages; their fields' types are included.
const SHOWN: [(&str, &[&str]); 9] = [
    (
        "core",
        &[
            "EphemeralContainer",
            "NodeSelector",
            "PersistentVolumeClaimSpec",
            "PersistentVolumeSource",
            "PodSpec",
            "PodTemplateSpec",
            "Taint",
            "Toleration",
            "VolumeNodeAffinity",
        ],
    ),
    (
        "apps",
        &[
            "DaemonSetUpdateStrategy",
            "DeploymentStrategy",
            "StatefulSetUpdateStrategy",
        ],
    ),
    ("batch", &["PodFailurePolicy", "SuccessPolicy"]),
    ("certificates", &["CertificateSigningRequestCondition"]),
    ("networking", &["ParentReference", "ServiceCIDRSpec"]),
    ("autoscaling", &["MetricTarget"]),
    ("rbac", &["RoleRef"]),
    (
        "resource",
        &[
            "AllocationResult",
            "ResourceClaimSpec",
            "ResourceClaimTemplateSpec",
        ],
    ),
    ("storage", &["CSINodeDriver", "VolumeAttachmentSpec"]),
];

/// Fields that conversion finds elsewhere: in the object around.
const AROUND: [(&str, &str); 5] = [
    ("HostIPC", "hostIPC"),
    ("HostNetwork", "hostNetwork"),
    ("HostPID", "hostPID"),
    ("HostUsers", "hostUsers"),
    ("ShareProcessNamespace", "shareProcessNamespace"),
];

/// The file.
pub fn file(header: &str, go: &mut Packages<'_>) -> Result<String, Error> {
    let mut types: BTreeMap<String, Vec<(String, String, Shape)>> = BTreeMap::new();
    let mut queue: VecDeque<Name> = SHOWN
        .iter()
        .flat_map(|(group, names)| names.iter().map(move |name| inside(group, name)))
        .collect();
    while let Some(name) = queue.pop_front() {
        if types.contains_key(&name.short()) {
            continue;
        }
        let Some(Body::Struct(fields)) = go.find(&name)?.map(|found| found.body) else {
            continue;
        };
        let published = published(&name, go)?;
        let mut rows = Vec::new();
        for field in &fields {
            let mut shape = shape(&field.go_type, go)?;
            if field.embedded
                && let Shape::Struct(of) = shape
            {
                shape = Shape::Inline(of);
            }
            if let Some(of) = shape.names() {
                queue.push_back(of.clone());
            }
            rows.push((field.name.clone(), json_of(&name, field, &published), shape));
        }
        types.insert(name.short(), rows);
    }
    Ok(text(header, &types))
}

fn text(header: &str, types: &BTreeMap<String, Vec<(String, String, Shape)>>) -> String {
    let numbers: BTreeMap<&str, usize> = types.keys().map(String::as_str).zip(0..).collect();
    let mut out = header.to_owned();
    out.push_str(
        "use crate::internal::Internal;\nuse crate::internal::FieldType::*;\n\n\
         /// Types, by name.\npub static INTERNAL: &[Internal] = &[\n",
    );
    for (name, rows) in types {
        let _ = writeln!(out, "    Internal {{ name: {name:?}, fields: &[");
        for (go, json, shape) in rows {
            let of = |what: &str, name: &Name| {
                let number = numbers.get(name.short().as_str());
                number.map_or_else(|| "Object".to_owned(), |at| format!("{what}({at})"))
            };
            let shape = match shape {
                Shape::Is(what) => (*what).to_owned(),
                Shape::Struct(name) => of("Struct", name),
                Shape::Pointer(name) => of("Pointer", name),
                Shape::List(name) => of("List", name),
                Shape::Map(name) => of("Map", name),
                Shape::Inline(name) => of("Inline", name),
            };
            let _ = writeln!(out, "        ({go:?}, {json:?}, {shape}),");
        }
        out.push_str("    ] },\n");
    }
    out.push_str("];\n");
    out
}

enum Shape {
    Is(&'static str),
    Struct(Name),
    Pointer(Name),
    List(Name),
    Map(Name),
    Inline(Name),
}

impl Shape {
    fn names(&self) -> Option<&Name> {
        match self {
            Self::Is(_) => None,
            Self::Struct(name)
            | Self::Pointer(name)
            | Self::List(name)
            | Self::Map(name)
            | Self::Inline(name) => Some(name),
        }
    }
}

fn shape(of: &GoType, go: &mut Packages<'_>) -> Result<Shape, Error> {
    Ok(match of {
        GoType::Builtin(name) => Shape::Is(match name.as_str() {
            "string" => "Text",
            "bool" => "Truth",
            _ => "Number",
        }),
        GoType::Pointer(inner) => match shape(inner, go)? {
            Shape::Struct(name) => Shape::Pointer(name),
            _ => Shape::Is("Plain"),
        },
        GoType::List(inner) => match shape(inner, go)? {
            Shape::Struct(name) | Shape::Pointer(name) => Shape::List(name),
            _ => Shape::Is("Plain"),
        },
        GoType::Map(_, inner) => match shape(inner, go)? {
            Shape::Struct(name) | Shape::Pointer(name) => Shape::Map(name),
            _ => Shape::Is("Plain"),
        },
        GoType::Interface => Shape::Is("Plain"),
        GoType::Named(name) if name.package.starts_with(INSIDE) => {
            match go.find(name)?.map(|found| found.body) {
                Some(Body::Of(of)) => shape(&of, go)?,
                _ => Shape::Struct(name.clone()),
            }
        }
        GoType::Named(name) => Shape::Is(match name.name.as_str() {
            "Quantity" => "Quantity",
            "UID" | "NodeName" | "LabelSelectorOperator" => "Text",
            // Its zero value is the number.
            "IntOrString" => "Number",
            "Time" | "MicroTime" | "RawExtension" | "Object" => "Plain",
            "ObjectMeta" => "Meta",
            _ => "Object",
        }),
    })
}

fn inside(group: &str, name: &str) -> Name {
    Name {
        package: format!("{INSIDE}{group}"),
        name: name.to_owned(),
    }
}

/// The fields of the published type: their names in Go and in JSON.
fn published(name: &Name, go: &mut Packages<'_>) -> Result<Vec<(String, String)>, Error> {
    let group = name.package.trim_start_matches(INSIDE);
    let version = if group == "autoscaling" { "v2" } else { "v1" };
    let name = Name {
        package: format!("k8s.io/api/{group}/{version}"),
        name: name.name.clone(),
    };
    let fields = match go.find(&name)?.map(|found| found.body) {
        Some(Body::Struct(fields)) => fields,
        _ => Vec::new(),
    };
    let names = fields.iter();
    Ok(names
        .map(|field| (field.name.clone(), field.json().0.to_owned()))
        .collect())
}

fn json_of(name: &Name, field: &Field, published: &[(String, String)]) -> String {
    if name.name == "PodSecurityContext"
        && let Some((_, json)) = AROUND.iter().find(|(go, _)| *go == field.name)
    {
        return format!("^{json}");
    }
    let same = |(go, json): &&(String, String)| {
        *go == field.name || json.eq_ignore_ascii_case(&field.name)
    };
    match published.iter().find(same) {
        Some((_, json)) => json.clone(),
        None => {
            let mut letters = field.name.chars();
            let first = letters.next().map(|first| first.to_ascii_lowercase());
            first.into_iter().chain(letters).collect()
        }
    }
}
