//! Containers: names, images, ports, environment, mounts, probes, hooks.

use control_types::value::Value;

use super::{env_files, names, non_negative, one_of, ports, resources, security};
use crate::error::{Errors, Path};
use crate::tree::{Read, same};

/// The fields of the pod that a container may refer to.
pub(crate) struct PodContext<'a> {
    /// Those without an error of their own.
    pub(crate) volumes: &'a [&'a Value],
    pub(crate) claims: &'a [&'a str],
    pub(crate) grace: Option<i64>,
    pub(crate) restart_policy: &'a str,
    pub(crate) host_users: bool,
}

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
pub(crate) const VOLUME_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const RESOURCE_FIELDS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

/// Validates what all containers have in common.
fn common(c: &Value, around: &PodContext<'_>, at: &Path<'_>, errors: &mut Errors) {
    let name = c.text("name");
    if name.is_empty() {
        errors.required(&at.child("name"), "");
    } else {
        errors.invalid_each(&at.child("name"), name, names::dns_label(name));
    }
    if c.text("image").is_empty() {
        errors.required(&at.child("image"), "");
    }
    required_one_of(
        c.text("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
        &at.child("terminationMessagePolicy"),
        errors,
    );
    container_ports(c.items("ports"), &at.child("ports"), errors);
    env(c.items("env"), &at.child("env"), errors);
    env_from(c.items("envFrom"), &at.child("envFrom"), errors);
    mounts(c, around, &at.child("volumeMounts"), errors);
    devices(c, around, &at.child("volumeDevices"), errors);
    required_one_of(
        c.text("imagePullPolicy"),
        PULL_POLICIES,
        &at.child("imagePullPolicy"),
        errors,
    );
    let owner = resources::ResourcesOwner::Container;
    resources::requirements(
        c.at("resources"),
        around.claims,
        owner,
        &at.child("resources"),
        errors,
    );
    resize_policy(
        c.items("resizePolicy"),
        around.restart_policy,
        &at.child("resizePolicy"),
        errors,
    );
    security::container(
        c.at("securityContext"),
        around.host_users,
        &at.child("securityContext"),
        errors,
    );
}

pub(crate) fn required_one_of(value: &str, of: &[&str], at: &Path<'_>, errors: &mut Errors) {
    if value.is_empty() {
        errors.required(at, "");
    } else {
        one_of(value, of, at, errors);
    }
}

/// The containers of a pod.
pub(crate) fn containers(
    list: &[Value],
    around: &PodContext<'_>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    if list.is_empty() {
        errors.required(at, "");
        return;
    }
    for (i, c) in list.iter().enumerate() {
        let at = at.index(i);
        common(c, around, &at, errors);
        if list
            .iter()
            .take(i)
            .any(|o| o.text("name") == c.text("name"))
        {
            errors.duplicate(&at.child("name"), c.text("name"));
        }
        hooks_and_probes(c, around, &at, errors);
        restart_rules(c, &at, errors);
    }
    host_ports(list, at, errors);
}

/// The initial containers of a pod.
pub(crate) fn init_containers(
    list: &[Value],
    regular: &[Value],
    around: &PodContext<'_>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    for (i, c) in list.iter().enumerate() {
        let item = at.index(i);
        common(c, around, &item, errors);
        restart_rules(c, &item, errors);
        let name = c.text("name");
        let taken = regular
            .iter()
            .chain(list.iter().take(i))
            .any(|o| o.text("name") == name);
        if taken && !name.is_empty() {
            errors.duplicate(&item.child("name"), name);
        }
        host_ports(std::slice::from_ref(c), at, errors);
        if c.text("restartPolicy") == "Always" {
            hooks_and_probes(c, around, &item, errors);
            continue;
        }
        for field in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if c.has(field) {
                errors.forbidden(
                    &item.child(field),
                    "may not be set for init containers without restartPolicy=Always",
                );
            }
        }
        let list = item.child("resizePolicy");
        for (j, policy) in c.items("resizePolicy").iter().enumerate() {
            if policy.text("restartPolicy") == "RestartContainer" {
                errors.invalid(
                    &list.index(j).child("restartPolicy"),
                    "RestartContainer",
                    "must not be set to 'RestartContainer' for non-sidecar initContainers",
                );
            }
        }
    }
}

/// The containers that were added for debugging.
pub(crate) fn ephemeral_containers(
    list: &[Value],
    others: &[&Value],
    around: &PodContext<'_>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    for (i, c) in list.iter().enumerate() {
        let at = at.index(i);
        common(c, around, &at, errors);
        image_spaces(c, &at, errors);
        let name = c.text("name");
        let before = list.iter().take(i).any(|o| o.text("name") == name);
        if before || others.iter().any(|o| o.text("name") == name) {
            errors.duplicate(&at.child("name"), name);
        }
        let target = c.text("targetContainerName");
        if !target.is_empty() && !others.iter().any(|o| o.text("name") == target) {
            errors.not_found(&at.child("targetContainerName"), target);
        }
        let text = "cannot be set for an Ephemeral Container";
        for field in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let empty = match c.at(field) {
                Value::Null => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(map) => field == "resources" && map.is_empty(),
                _ => false,
            };
            if !empty {
                errors.forbidden(&at.child(field), text);
            }
        }
        let list = at.child("volumeMounts");
        for (i, mount) in c.items("volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    errors.forbidden(&list.index(i).child(field), text);
                }
            }
        }
    }
}

/// Rejects spaces around the images of pods; templates may have them.
pub(crate) fn image_spaces(c: &Value, at: &Path<'_>, errors: &mut Errors) {
    let image = c.text("image");
    if image.trim().len() != image.len() {
        errors.invalid(
            &at.child("image"),
            image,
            "must not have leading or trailing whitespace",
        );
    }
}

fn hooks_and_probes(c: &Value, around: &PodContext<'_>, at: &Path<'_>, errors: &mut Errors) {
    let lifecycle = at.child("lifecycle");
    for hook in ["postStart", "preStop"] {
        let handler = c.at("lifecycle").at(hook);
        if !handler.is_null() {
            let kinds = &["exec", "httpGet", "tcpSocket", "sleep"];
            handler_of(handler, kinds, around.grace, &lifecycle.child(hook), errors);
        }
    }
    probe(c, "livenessProbe", around, at, errors);
    probe(c, "readinessProbe", around, at, errors);
    probe(c, "startupProbe", around, at, errors);
}

fn probe(
    c: &Value,
    field: &'static str,
    around: &PodContext<'_>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let probe = c.at(field);
    if probe.is_null() {
        return;
    }
    let at = at.child(field);
    handler_of(
        probe,
        &["exec", "httpGet", "tcpSocket", "grpc"],
        around.grace,
        &at,
        errors,
    );
    for number in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        non_negative(probe.num(number), &at.child(number), errors);
    }
    let grace = at.child("terminationGracePeriodSeconds");
    if let Some(seconds) = probe.int("terminationGracePeriodSeconds") {
        if seconds <= 0 {
            errors.invalid(&grace, seconds, "must be greater than 0");
        }
        if field == "readinessProbe" {
            errors.invalid(&grace, seconds, "must not be set for readinessProbes");
        }
    }
    if field != "readinessProbe" && probe.num("successThreshold") != 1 {
        errors.invalid(
            &at.child("successThreshold"),
            probe.num("successThreshold"),
            "must be 1",
        );
    }
}

fn handler_of(
    handler: &Value,
    kinds: &[&'static str],
    grace: Option<i64>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let mut found = 0;
    for kind in kinds.iter().filter(|kind| handler.has(kind)) {
        let at = at.child(kind);
        found += 1;
        if found > 1 {
            errors.forbidden(&at, "may not specify more than 1 handler type");
            continue;
        }
        let action = handler.at(kind);
        match *kind {
            "exec" if action.items("command").is_empty() => {
                errors.required(&at.child("command"), "");
            }
            "httpGet" => http_get(action, &at, errors),
            "tcpSocket" => ports::number_or_name(action.at("port"), &at.child("port"), errors),
            "grpc" => ports::number(action.num("port"), &at.child("port"), errors),
            "sleep" => {
                let seconds = action.num("seconds");
                if let Some(grace) = grace.filter(|g| seconds < 0 || seconds > *g) {
                    errors.invalid(
                        &at,
                        seconds,
                        format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"),
                    );
                }
            }
            _ => {}
        }
    }
    if found == 0 {
        errors.required(at, "must specify a handler type");
    }
}

fn http_get(action: &Value, at: &Path<'_>, errors: &mut Errors) {
    if action.text("path").is_empty() {
        errors.required(&at.child("path"), "");
    }
    ports::number_or_name(action.at("port"), &at.child("port"), errors);
    one_of(
        action.text("scheme"),
        &["HTTP", "HTTPS"],
        &at.child("scheme"),
        errors,
    );
    for header in action.items("httpHeaders") {
        let name = header.text("name");
        errors.invalid_each(&at.child("httpHeaders"), name, names::http_header(name));
    }
}

fn restart_rules(c: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rules = c.items("restartPolicyRules");
    if c.has("restartPolicy") {
        one_of(
            c.text("restartPolicy"),
            &["Always", "Never", "OnFailure"],
            &at.child("restartPolicy"),
            errors,
        );
    } else if !rules.is_empty() {
        errors.required(
            &at.child("restartPolicy"),
            "must specify restartPolicy when restart rules are used",
        );
    }
    let list = at.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.too_many(&list, rules.len(), 20);
    }
    for (i, rule) in rules.iter().enumerate() {
        let at = list.index(i);
        one_of(
            rule.text("action"),
            &["Restart", "RestartAllContainers"],
            &at.child("action"),
            errors,
        );
        let codes = at.child("exitCodes");
        if rule.has("exitCodes") {
            one_of(
                rule.at("exitCodes").text("operator"),
                &["In", "NotIn"],
                &codes.child("operator"),
                errors,
            );
        } else {
            errors.required(&codes, "must be specified");
        }
    }
}

fn container_ports(list: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, port) in list.iter().enumerate() {
        let at = at.index(i);
        let name = port.text("name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if !messages.is_empty() {
                errors.invalid_each(&at.child("name"), name, messages);
            } else if seen.contains(&name) {
                errors.duplicate(&at.child("name"), name);
            } else {
                seen.push(name);
            }
        }
        match port.num("containerPort") {
            0 => errors.required(&at.child("containerPort"), ""),
            number => ports::number(number, &at.child("containerPort"), errors),
        }
        if port.num("hostPort") != 0 {
            ports::number(port.num("hostPort"), &at.child("hostPort"), errors);
        }
        ports::protocol(port, &at, errors);
    }
}

/// Two ports of a pod on one port of the host.
fn host_ports(list: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut seen: Vec<String> = Vec::new();
    for (i, c) in list.iter().enumerate() {
        let item = at.index(i);
        let ports = item.child("ports");
        for (j, port) in c
            .items("ports")
            .iter()
            .enumerate()
            .filter(|(_, p)| p.num("hostPort") != 0)
        {
            let key = format!(
                "{}/{}/{}",
                port.text("protocol"),
                port.text("hostIP"),
                port.num("hostPort")
            );
            if seen.contains(&key) {
                errors.duplicate(&ports.index(j).child("hostPort"), key);
            } else {
                seen.push(key);
            }
        }
    }
}

fn env(list: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (i, var) in list.iter().enumerate() {
        let at = at.index(i);
        let name = var.text("name");
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.invalid_each(&at.child("name"), name, names::env_var(name));
        }
        let from = var.at("valueFrom");
        if from.is_null() {
            continue;
        }
        let at = at.child("valueFrom");
        let mut sources = 0;
        if from.has("fieldRef") {
            sources += 1;
            field_ref(
                from.at("fieldRef"),
                ENV_FIELDS,
                &at.child("fieldRef"),
                errors,
            );
        }
        if from.has("resourceFieldRef") {
            sources += 1;
            resource_field_ref(
                from.at("resourceFieldRef"),
                false,
                &at.child("resourceFieldRef"),
                errors,
            );
        }
        for kind in ["configMapKeyRef", "secretKeyRef"] {
            if from.has(kind) {
                sources += 1;
                key_selector(from.at(kind), &at.child(kind), errors);
            }
        }
        if from.has("fileKeyRef") {
            sources += 1;
            env_files::reference(from.at("fileKeyRef"), &at.child("fileKeyRef"), errors);
        }
        if sources == 0 {
            errors.invalid(
                &at,
                "",
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            );
        } else if !var.text("value").is_empty() {
            errors.invalid(&at, "", "may not be specified when `value` is not empty");
        } else if sources > 1 {
            errors.invalid(
                &at,
                "",
                "may not have more than one field specified at a time",
            );
        }
    }
}

fn key_selector(selector: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (name, key) = (selector.text("name"), selector.text("key"));
    errors.invalid_each(&at.child("name"), name, names::subdomain_name(name, false));
    if key.is_empty() {
        errors.required(&at.child("key"), "");
    } else {
        errors.invalid_each(&at.child("key"), key, names::config_key(key));
    }
}

/// A field of the pod, as environment variables and files may hold it.
pub(crate) fn field_ref(reference: &Value, fields: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let path = reference.text("fieldPath");
    if reference.text("apiVersion").is_empty() {
        errors.required(&at.child("apiVersion"), "");
        return;
    }
    if path.is_empty() {
        errors.required(&at.child("fieldPath"), "");
        return;
    }
    let here = at.child("fieldPath");
    if reference.text("apiVersion") != "v1" {
        let version = reference.text("apiVersion");
        errors.invalid(
            &here,
            path,
            format!("error converting fieldPath: unsupported pod version: {version}"),
        );
        return;
    }
    let subscript = path.strip_suffix("']").and_then(|p| p.split_once("['"));
    let base = subscript.map_or(path, |(base, _)| base);
    let known = ENV_FIELDS.contains(&base)
        || VOLUME_FIELDS.contains(&base)
        || matches!(
            base,
            "spec.restartPolicy"
                | "spec.schedulerName"
                | "spec.hostNetwork"
                | "status.phase"
                | "spec.host"
        );
    if !known {
        errors.invalid(
            &here,
            path,
            format!("error converting fieldPath: field label not supported: {path}"),
        );
        return;
    }
    match subscript {
        Some(("metadata.annotations", key)) => {
            errors.invalid_each(
                at,
                &key.to_lowercase(),
                names::qualified(&key.to_lowercase()),
            );
        }
        Some(("metadata.labels", key)) => errors.invalid_each(at, key, names::qualified(key)),
        Some((base, _)) => errors.invalid(at, base, "does not support subscript"),
        None => one_of(path, fields, &here, errors),
    }
}

/// A resource of a container, as environment variables and files may hold it.
pub(crate) fn resource_field_ref(
    reference: &Value,
    volume: bool,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let resource = reference.text("resource");
    let hugepages =
        resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if volume && reference.text("containerName").is_empty() {
        errors.required(&at.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&at.child("resource"), "");
    } else if !hugepages {
        one_of(resource, RESOURCE_FIELDS, &at.child("resource"), errors);
    }
    let divisor = resources::shown(reference.at("divisor"));
    if matches!(divisor.as_str(), "" | "0" | "null") {
        return;
    }
    let message = match resource {
        "limits.cpu" | "requests.cpu" if !matches!(divisor.as_str(), "1m" | "1") => {
            "only divisor's values 1m and 1 are supported with the cpu resource"
        }
        "limits.memory" | "requests.memory" if !is_unit(&divisor) => {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"
        }
        "limits.ephemeral-storage" | "requests.ephemeral-storage" if !is_unit(&divisor) => {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource"
        }
        _ if hugepages && !is_unit(&divisor) => {
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource"
        }
        _ => return,
    };
    errors.invalid(&at.child("divisor"), resource, message);
}

fn is_unit(divisor: &str) -> bool {
    matches!(
        divisor.strip_prefix('1'),
        Some("" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei")
    )
}

fn env_from(list: &[Value], all: &Path<'_>, errors: &mut Errors) {
    for (i, from) in list.iter().enumerate() {
        let at = all.index(i);
        let prefix = from.text("prefix");
        if !prefix.is_empty() {
            errors.invalid_each(&at.child("prefix"), prefix, names::env_var(prefix));
        }
        let mut sources = 0;
        for kind in ["configMapRef", "secretRef"] {
            if !from.has(kind) {
                continue;
            }
            sources += 1;
            let name = from.at(kind).text("name");
            let at = at.child(kind);
            if name.is_empty() {
                errors.required(&at.child("name"), "");
            } else {
                errors.invalid_each(&at.child("name"), name, names::subdomain_name(name, true));
            }
        }
        match sources {
            0 => errors.invalid(
                all,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => errors.invalid(
                all,
                "",
                "may not have more than one field specified at a time",
            ),
        }
    }
}

/// A path below a directory: relative, without steps back.
pub(crate) fn descending_path(path: &str, at: &Path<'_>, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid(at, path, "must be a relative path");
    }
    no_backsteps(path, at, errors);
}

pub(crate) fn no_backsteps(path: &str, at: &Path<'_>, errors: &mut Errors) {
    if path.split('/').any(|part| part == "..") {
        errors.invalid(at, path, "must not contain '..'");
    }
}

fn mounts(c: &Value, around: &PodContext<'_>, all: &Path<'_>, errors: &mut Errors) {
    let list = c.items("volumeMounts");
    let devices = c.items("volumeDevices");
    for (i, mount) in list.iter().enumerate() {
        let at = all.index(i);
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        }
        if !around.volumes.iter().any(|v| v.text("name") == name) {
            errors.not_found(&at.child("name"), name);
        }
        if path.is_empty() {
            errors.required(&at.child("mountPath"), "");
        }
        if list.iter().take(i).any(|m| m.text("mountPath") == path) {
            errors.invalid(&at.child("mountPath"), path, "must be unique");
        }
        if devices.iter().any(|d| d.text("name") == name) {
            errors.invalid(
                &at.child("name"),
                name,
                "must not already exist in volumeDevices",
            );
        }
        if devices.iter().any(|d| d.text("devicePath") == path) {
            errors.invalid(
                &at.child("mountPath"),
                path,
                "must not already exist as a path in volumeDevices",
            );
        }
        let (sub, expr) = (mount.text("subPath"), mount.text("subPathExpr"));
        if !sub.is_empty() {
            descending_path(sub, &all.child("subPath"), errors);
        }
        if !expr.is_empty() {
            if !sub.is_empty() {
                errors.invalid(
                    &at.child("subPathExpr"),
                    expr,
                    "subPathExpr and subPath are mutually exclusive",
                );
            }
            descending_path(expr, &all.child("subPathExpr"), errors);
        }
        propagation(c, mount, all, errors);
    }
}

fn propagation(c: &Value, mount: &Value, all: &Path<'_>, errors: &mut Errors) {
    let mode = mount.text("mountPropagation");
    if mount.has("mountPropagation") {
        let at = all.child("mountPropagation");
        one_of(
            mode,
            &["Bidirectional", "HostToContainer", "None"],
            &at,
            errors,
        );
        if mode == "Bidirectional" && !c.at("securityContext").flag("privileged") {
            errors.forbidden(
                &at,
                "Bidirectional mount propagation is available only to privileged containers",
            );
        }
    }
    let at = all.child("recursiveReadOnly");
    match mount.text("recursiveReadOnly") {
        _ if !mount.has("recursiveReadOnly") => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.flag("readOnly") {
                errors.forbidden(&at, "may only be specified when readOnly is true");
            }
            if !matches!(mode, "" | "None") {
                errors.forbidden(
                    &at,
                    "may only be specified when mountPropagation is None or not specified",
                );
            }
        }
        other => errors.not_supported(&at, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn devices(c: &Value, around: &PodContext<'_>, all: &Path<'_>, errors: &mut Errors) {
    let list = c.items("volumeDevices");
    let mounts = c.items("volumeMounts");
    for (i, device) in list.iter().enumerate() {
        let at = all.index(i);
        let (name, path) = (device.text("name"), device.text("devicePath"));
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else if list.iter().take(i).any(|d| d.text("name") == name) {
            errors.invalid(&at.child("name"), name, "must be unique");
        }
        match around.volumes.iter().find(|v| v.text("name") == name) {
            Some(v) if !v.has("persistentVolumeClaim") && !v.has("ephemeral") => errors.invalid(
                &at.child("name"),
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            ),
            Some(_) => {}
            None => errors.not_found(&at.child("name"), name),
        }
        if path.is_empty() {
            errors.required(&at.child("devicePath"), "");
        }
        if list.iter().take(i).any(|d| d.text("devicePath") == path) {
            errors.invalid(&at.child("devicePath"), path, "must be unique");
        }
        if path.split('/').any(|part| part == "..") {
            errors.invalid(
                &at.child("devicePath"),
                path,
                "can not contain backsteps ('..')",
            );
        }
        if mounts.iter().any(|m| m.text("name") == name) {
            errors.invalid(
                &at.child("name"),
                name,
                "must not already exist in volumeMounts",
            );
        }
        if mounts.iter().any(|m| m.text("mountPath") == path) {
            errors.invalid(
                &at.child("devicePath"),
                path,
                "must not already exist as a path in volumeMounts",
            );
        }
    }
}

fn resize_policy(list: &[Value], pod_policy: &str, at: &Path<'_>, errors: &mut Errors) {
    for (i, policy) in list.iter().enumerate() {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if list
            .iter()
            .take(i)
            .any(|p| same(p.at("resourceName"), policy.at("resourceName")))
        {
            errors.duplicate(&at.index(i), resource);
        }
        required_one_of(resource, &["cpu", "memory"], at, errors);
        required_one_of(restart, &["NotRequired", "RestartContainer"], at, errors);
        if pod_policy == "Never" && restart != "NotRequired" {
            errors.invalid(
                at,
                restart,
                "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            );
        }
    }
}
