//! Warnings about valid but discouraged pod specs: deprecated fields, duplicate names,
//! overlapping files, fractions of bytes.

use control_types::value::Value;

use super::{claims, ip, names, node_labels, quantity, resources};
use crate::error::{Path, quoted};
use crate::tree::{Read, same};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// Annotations that nothing reads any more, and what says the same.
const ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];
/// Volumes whose plugins were removed, and their names in the warning.
const VOLUMES: &[(&str, &str, &str)] = &[
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

/// Warnings for a pod, or for a template (`at`: where it stands).
pub(crate) fn check(
    metadata: &Value,
    spec: &Value,
    template: Option<&Path<'_>>,
    out: &mut Vec<String>,
) {
    // a pod's own fields are at the root
    let (meta_text, spec_text) = match template {
        Some(at) => (
            at.child("metadata.annotations").to_string(),
            at.child("spec").to_string(),
        ),
        None => ("metadata.annotations".to_owned(), "spec".to_owned()),
    };
    let (annotations_at, at) = (Path::new(&meta_text), Path::new(&spec_text));
    let annotations = metadata.at("annotations");

    placement(spec, &at, out);
    for (key, message) in ANNOTATIONS {
        if annotations.has(key) {
            out.push(format!("{}: {message}", annotations_at.key(key)));
        }
    }
    volumes(spec.items("volumes"), &at.child("volumes"), out);
    doubles(spec, &at, out);
    let overhead = at.child("overhead");
    for resource in ["memory", "ephemeral-storage"] {
        fraction(spec.at("overhead"), resource, &overhead, out);
    }
    seccomp(
        spec.at("securityContext"),
        annotations,
        "seccomp.security.alpha.kubernetes.io/pod",
        &annotations_at,
        out,
    );
    each_container(spec, &at, |c, at| {
        let key = format!(
            "container.seccomp.security.alpha.kubernetes.io/{}",
            c.text("name")
        );
        seccomp(
            c.at("securityContext"),
            annotations,
            &key,
            &annotations_at,
            out,
        );
        // a pod's field may be made of the annotation by now
        let given = if template.is_some() {
            c.at("securityContext").has("appArmorProfile")
        } else {
            spec.at("os").text("name") == "windows" || gives_profile(metadata, c.text("name"))
        };
        if !given {
            let whole = spec.at("securityContext").at("appArmorProfile");
            app_armor(c, whole, annotations, &annotations_at, out);
        }
        container(c, at, out);
    });
    ports(spec, &at, out);
    if spec.num("terminationGracePeriodSeconds") < 0 {
        out.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            at.child("terminationGracePeriodSeconds")
        ));
    }
    affinity_without_selector(spec.at("affinity"), &at.child("affinity"), out);
    let servers = at.child("dnsConfig.nameservers");
    for (i, server) in spec.at("dnsConfig").items("nameservers").iter().enumerate() {
        out.extend(ip::warning(&servers.index(i), server.as_text()));
    }
    let aliases = at.child("hostAliases");
    for (i, alias) in spec.items("hostAliases").iter().enumerate() {
        out.extend(ip::warning(&aliases.index(i).child("ip"), alias.text("ip")));
    }
}

fn each_container<'a>(spec: &'a Value, at: &Path<'_>, mut visit: impl FnMut(&'a Value, &Path<'_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let all = at.child(list);
        for (i, c) in spec.items(list).iter().enumerate() {
            visit(c, &all.index(i));
        }
    }
}

fn placement(spec: &Value, at: &Path<'_>, out: &mut Vec<String>) {
    let selector = at.child("nodeSelector");
    for (key, _) in spec.entries("nodeSelector") {
        if let Some(why) = node_labels::deprecated(key) {
            out.push(format!("{}: {why}", selector.key(key)));
        }
    }
    let node = spec.at("affinity").at("nodeAffinity");
    let node_at = at.child("affinity.nodeAffinity");
    let list = node_at.child(REQUIRED);
    let list = list.child("nodeSelectorTerms");
    for (i, term) in node
        .at(REQUIRED)
        .items("nodeSelectorTerms")
        .iter()
        .enumerate()
    {
        node_term(term, false, &list.index(i), out);
    }
    let list = node_at.child(PREFERRED);
    for (i, term) in node.items(PREFERRED).iter().enumerate() {
        node_term(
            term.at("preference"),
            true,
            &list.index(i).child("preference"),
            out,
        );
    }
    let list = at.child("topologySpreadConstraints");
    for (i, constraint) in spec.items("topologySpreadConstraints").iter().enumerate() {
        let (key, at) = (constraint.text("topologyKey"), list.index(i));
        if let Some(why) = node_labels::deprecated(key) {
            out.push(format!("{}: {key} is {why}", at.child("topologyKey")));
        }
        without_selector(constraint, &at, out);
    }
}

/// Warnings for a term of a node selector.
pub(crate) fn node_term(term: &Value, values: bool, at: &Path<'_>, out: &mut Vec<String>) {
    let list = at.child("matchExpressions");
    for (i, expression) in term.items("matchExpressions").iter().enumerate() {
        let (key, at) = (expression.text("key"), list.index(i));
        if let Some(why) = node_labels::deprecated(key) {
            out.push(format!("{}: {key} is {why}", at.child("key")));
        }
        let list = at.child("values");
        let given = expression.items("values").iter().map(Read::as_text);
        for (i, value) in given.enumerate().filter(|_| values) {
            for message in names::label_value(value) {
                out.push(format!("{}: {value} is invalid, {message}", list.index(i)));
            }
        }
    }
}

fn without_selector(owner: &Value, at: &Path<'_>, out: &mut Vec<String>) {
    if !owner.has("labelSelector") {
        out.push(format!(
            "{}: a null labelSelector results in matching no pod",
            at.child("labelSelector")
        ));
    }
}

fn affinity_without_selector(affinity: &Value, at: &Path<'_>, out: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (terms, at) = (affinity.at(kind), at.child(kind));
        let list = at.child(REQUIRED);
        for (i, term) in terms.items(REQUIRED).iter().enumerate() {
            without_selector(term, &list.index(i), out);
        }
        let list = at.child(PREFERRED);
        for (i, term) in terms.items(PREFERRED).iter().enumerate() {
            without_selector(
                term.at("podAffinityTerm"),
                &list.index(i).child("podAffinityTerm"),
                out,
            );
        }
    }
}

fn volumes(list: &[Value], all: &Path<'_>, out: &mut Vec<String>) {
    for (i, volume) in list.iter().enumerate() {
        let at = all.index(i);
        for (_, said, why) in VOLUMES.iter().filter(|(field, ..)| volume.has(field)) {
            out.push(format!("{}: {why}", at.child(said)));
        }
        let template = volume.at("ephemeral").at("volumeClaimTemplate");
        if !template.is_null() {
            claims::warnings(
                template.at("spec"),
                &at.child("ephemeral.volumeClaimTemplate.spec"),
                out,
            );
        }
    }
    for volume in list {
        overlaps(volume, out);
    }
}

/// A file of a volume, and its source.
#[derive(Clone, PartialEq, Eq)]
struct File {
    path: String,
    source: String,
}

impl std::fmt::Display for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&quoted(&self.path))?;
        if self.source.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.source)
    }
}

fn overlaps(volume: &Value, out: &mut Vec<String>) {
    let name = quoted(volume.text("name"));
    let plain = |items: &[Value], source: &str| -> Vec<File> {
        items
            .iter()
            .map(|item| File {
                path: item.text("path").to_owned(),
                source: source.to_owned(),
            })
            .collect()
    };
    for (kind, said) in [
        ("configMap", "ConfigMap"),
        ("secret", "Secret"),
        ("downwardAPI", "DownwardAPI"),
    ] {
        let source = volume.at(kind);
        let said = match kind {
            "configMap" => format!("{said} {}", quoted(source.text("name"))),
            "secret" => format!("{said} {}", quoted(source.text("secretName"))),
            _ => said.to_owned(),
        };
        let mut seen = Vec::new();
        for file in plain(source.items("items"), "") {
            place(file, &mut seen, |text| {
                out.push(format!("volume {name} ({said}): overlapping paths: {text}"));
            });
        }
    }
    let mut seen = Vec::new();
    for source in volume.at("projected").items("sources") {
        if source.as_object().is_none_or(control_types::Map::is_empty) {
            out.push(format!("volume {name} (Projected) has no sources provided"));
            continue;
        }
        let (maps, secrets) = (source.at("configMap"), source.at("secret"));
        let token = source.at("serviceAccountToken");
        let files = if !maps.items("items").is_empty() {
            let said = format!("ConfigMap {}", quoted(maps.text("name")));
            plain(maps.items("items"), &said)
        } else if !secrets.items("items").is_empty() {
            let said = format!("Secret {}", quoted(secrets.text("name")));
            plain(secrets.items("items"), &said)
        } else if !source.at("downwardAPI").items("items").is_empty() {
            plain(source.at("downwardAPI").items("items"), "DownwardAPI")
        } else if !token.is_null() {
            plain(std::slice::from_ref(token), "ServiceAccountToken")
        } else {
            Vec::new()
        };
        for file in files {
            place(file, &mut seen, |text| {
                out.push(format!(
                    "volume {name} (Projected): overlapping paths: {text}"
                ));
            });
        }
    }
}

/// Says which of `seen` are above or below the file, then adds it.
fn place(mut file: File, seen: &mut Vec<File>, mut say: impl FnMut(String)) {
    file.path.truncate(file.path.trim_end_matches('/').len());
    let below = |a: &str, b: &str| format!("{a}/").starts_with(&format!("{b}/"));
    if !file.path.is_empty() {
        for other in seen.iter().filter(|other| !other.path.is_empty()) {
            if *other == file || below(&other.path, &file.path) || below(&file.path, &other.path) {
                say(format!("{file} with {other}"));
            }
        }
    }
    seen.push(file);
}

fn doubles(spec: &Value, at: &Path<'_>, out: &mut Vec<String>) {
    for (list, field, said) in [
        ("hostAliases", "ip", "duplicate ip"),
        ("imagePullSecrets", "name", "duplicate name"),
    ] {
        let (items, all) = (spec.items(list), at.child(list));
        for (i, item) in items.iter().enumerate() {
            let value = item.text(field);
            if items.iter().take(i).any(|other| other.text(field) == value) {
                out.push(format!(
                    "{}: {said} {}",
                    all.index(i).child(field),
                    quoted(value)
                ));
            }
        }
    }
    let all = at.child("imagePullSecrets");
    for (i, secret) in spec.items("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            out.push(format!(
                "{}: invalid empty name \"\"",
                all.index(i).child("name")
            ));
        }
    }
}

/// Bytes come whole.
pub(crate) fn fraction(list: &Value, resource: &str, at: &Path<'_>, out: &mut Vec<String>) {
    let Some(amount) = list.get(resource) else {
        return;
    };
    if !quantity::is_whole(quantity::to_nanos(amount)) {
        out.push(format!(
            "{}: fractional byte value {} is invalid, must be an integer",
            at.key(resource),
            quoted(&resources::shown(amount))
        ));
    }
}

fn seccomp(context: &Value, annotations: &Value, key: &str, at: &Path<'_>, out: &mut Vec<String>) {
    if !context.has("seccompProfile") && annotations.has(key) {
        out.push(format!(
            "{}: non-functional in v1.27+; use the \"seccompProfile\" field instead",
            at.key(key)
        ));
    }
}

/// Returns whether the author of a new pod set a container's profile in the field.
fn gives_profile(metadata: &Value, container: &str) -> bool {
    let key = format!(
        "k:{{\"name\":{}}}",
        crate::error::compact_json(&container.into())
    );
    metadata.items("managedFields").iter().any(|manager| {
        let spec = manager.at("fieldsV1").at("f:spec");
        ["f:initContainers", "f:containers"].iter().any(|list| {
            let of_container = spec.at(list).at(&key);
            of_container
                .at("f:securityContext")
                .has("f:appArmorProfile")
        })
    })
}

fn app_armor(c: &Value, whole: &Value, annotations: &Value, at: &Path<'_>, out: &mut Vec<String>) {
    let key = format!(
        "container.apparmor.security.beta.kubernetes.io/{}",
        c.text("name")
    );
    if !annotations.has(&key) {
        return;
    }
    let text = annotations.text(&key);
    let local = text.strip_prefix("localhost/").unwrap_or("");
    let said = match text {
        "runtime/default" => "RuntimeDefault",
        "unconfined" => "Unconfined",
        _ if !local.is_empty() => "Localhost",
        _ => "",
    };
    let agrees = !whole.is_null()
        && !said.is_empty()
        && whole.text("type") == said
        && whole.text("localhostProfile") == local;
    if !agrees {
        out.push(format!(
            "{}: deprecated since v1.30; use the \"appArmorProfile\" field instead",
            at.key(&key)
        ));
    }
}

fn container(c: &Value, at: &Path<'_>, out: &mut Vec<String>) {
    for resource in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            let at = at.child("resources");
            fraction(c.at("resources").at(list), resource, &at.child(list), out);
        }
    }
    let (vars, env) = (c.items("env"), at.child("env"));
    for (i, var) in vars.iter().enumerate() {
        let name = var.text("name");
        if !vars.iter().take(i).any(|v| v.text("name") == name) {
            continue;
        }
        // a value that builds on the one before hides nothing
        let reference = format!("$({name})");
        let value = var.text("value");
        if var.has("valueFrom") || value == reference || !value.contains(&reference) {
            out.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                env.index(i),
                quoted(name)
            ));
        }
    }
}

fn ports(spec: &Value, at: &Path<'_>, out: &mut Vec<String>) {
    let mut seen: Vec<(String, &Value)> = Vec::new();
    each_container(spec, at, |c, at| {
        let list = at.child("ports");
        for (i, port) in c.items("ports").iter().enumerate() {
            let here = list.index(i);
            let (host, number) = (port.text("hostIP"), port.num("hostPort"));
            if !host.is_empty() && number == 0 {
                out.push(format!(
                    "{here}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{host}}}",
                    port.text("name"),
                    port.num("containerPort"),
                    port.text("protocol"),
                ));
            }
            for (there, other) in seen.iter().filter(|(_, other)| {
                same(other.at("containerPort"), port.at("containerPort"))
                    && other.text("protocol") == port.text("protocol")
            }) {
                let (other_host, other_number) = (other.text("hostIP"), other.num("hostPort"));
                let what = if other_host == host && other_number == number {
                    "duplicate"
                } else if number == 0 || other_number == 0 {
                    "overlapping"
                } else if number == other_number && host.is_empty() != other_host.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                out.push(format!("{here}: {what} port definition with {there}"));
            }
            seen.push((here.to_string(), port));
        }
    });
    let mut names: Vec<(&str, String)> = Vec::new();
    each_container(spec, at, |c, at| {
        let list = at.child("ports");
        for (i, port) in c.items("ports").iter().enumerate() {
            let (name, here) = (port.text("name"), list.index(i));
            if name.is_empty() {
                continue;
            }
            match names.iter().find(|(known, _)| *known == name) {
                Some((_, other)) => out.push(format!(
                    "{here}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                    quoted(name)
                )),
                None => names.push((name, here.to_string())),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(spec: &str) -> Vec<String> {
        let spec = Value::from_slice(spec.as_bytes()).expect("test spec");
        let mut out = Vec::new();
        check(&Value::Null, &spec, None, &mut out);
        out
    }

    #[test]
    fn a_value_that_builds_on_the_one_before_hides_nothing() {
        let said = warnings(
            r#"{"containers":[{"env":[{"name":"A","value":"x"},{"name":"A","value":"$(A)y"},{"name":"A","value":"z"}]}]}"#,
        );
        assert_eq!(
            said,
            [
                "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply"
            ]
        );
    }

    #[test]
    fn files_of_a_projection_overlap_across_sources() {
        let said = warnings(
            r#"{"volumes":[{"name":"v","projected":{"sources":[{"configMap":{"name":"m","items":[{"key":"k","path":"a"}]}},{"secret":{"name":"s","items":[{"key":"k","path":"a/b"}]}},{}]}}]}"#,
        );
        assert_eq!(
            said,
            [
                "volume \"v\" (Projected): overlapping paths: \"a/b\" (Secret \"s\") with \"a\" (ConfigMap \"m\")",
                "volume \"v\" (Projected) has no sources provided"
            ]
        );
    }
}
