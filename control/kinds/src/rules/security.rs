//! Security contexts of pods and containers.

use control_types::value::Value;

use super::{container, names, one_of, windows};
use crate::error::{Errors, Path};
use crate::tree::Read;

fn id(owner: &Value, field: &str, at: &Path<'_>, errors: &mut Errors) {
    if let Some(id) = owner
        .int(field)
        .filter(|id| !(0..=i64::from(i32::MAX)).contains(id))
    {
        errors.invalid(&at.child(field), id, names::between(0, i64::from(i32::MAX)));
    }
}

fn seccomp(profile: &Value, at: &Path<'_>, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let kind = profile.text("type");
    if kind.is_empty() {
        errors.required(
            &at.child("type"),
            "type is required when seccompProfile is set",
        );
    } else {
        one_of(
            kind,
            &["Localhost", "RuntimeDefault", "Unconfined"],
            &at.child("type"),
            errors,
        );
    }
    let local = at.child("localhostProfile");
    match (kind == "Localhost", profile.has("localhostProfile")) {
        (true, false) => errors.required(&local, "must be set when seccomp type is Localhost"),
        (true, true) => {
            container::descending_path(profile.text("localhostProfile"), &local, errors);
        }
        (false, true) => errors.invalid(
            &local,
            profile.clone(),
            "can only be set when seccomp type is Localhost",
        ),
        (false, false) => {}
    }
}

fn app_armor(profile: &Value, at: &Path<'_>, errors: &mut Errors) {
    if profile.is_null() {
        return;
    }
    let local = at.child("localhostProfile");
    let named = profile.text("localhostProfile");
    match profile.text("type") {
        "Localhost" => {
            if named.trim() != named {
                errors.invalid(&local, named, "must not be padded with whitespace");
            } else if named.is_empty() {
                errors.required(&local, "must be set when AppArmor type is Localhost");
            }
            if named.len() > 4095 {
                errors.too_long(&local, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" if profile.has("localhostProfile") => {
            errors.invalid(
                &local,
                named,
                "can only be set when AppArmor type is Localhost",
            );
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => errors.required(
            &at.child("type"),
            "type is required when appArmorProfile is set",
        ),
        other => errors.not_supported(
            &at.child("type"),
            other,
            &["Localhost", "RuntimeDefault", "Unconfined"],
        ),
    }
}

/// `securityContext` of a container.
pub(crate) fn container(context: &Value, host_users: bool, at: &Path<'_>, errors: &mut Errors) {
    if context.is_null() {
        return;
    }
    windows::options(
        context.at("windowsOptions"),
        &at.child("windowsOptions"),
        errors,
    );
    id(context, "runAsUser", at, errors);
    id(context, "runAsGroup", at, errors);
    seccomp(
        context.at("seccompProfile"),
        &at.child("seccompProfile"),
        errors,
    );
    let escalation = context.truth("allowPrivilegeEscalation") == Some(false);
    if escalation && context.flag("privileged") {
        errors.invalid(
            at,
            context.clone(),
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        );
    }
    let added = context.at("capabilities").items("add");
    if escalation && added.iter().any(|c| matches!(c.as_text(), "CAP_SYS_ADMIN")) {
        errors.invalid(
            at,
            context.clone(),
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
        );
    }
    app_armor(
        context.at("appArmorProfile"),
        &at.child("appArmorProfile"),
        errors,
    );
    if context.has("procMount") {
        let mount = context.text("procMount");
        let at = at.child("procMount");
        one_of(mount, &["Default", "Unmasked"], &at, errors);
        if host_users && mount == "Unmasked" {
            errors.invalid(&at, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
}

fn sysctl_name(name: &str) -> bool {
    let part = |p: &str| {
        let bytes = p.as_bytes();
        let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        bytes.first().is_some_and(alnum)
            && bytes.last().is_some_and(alnum)
            && bytes.iter().all(|b| alnum(b) || matches!(b, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
}

/// `securityContext` of a pod.
pub(crate) fn pod(context: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    windows::options(
        context.at("windowsOptions"),
        &at.child("windowsOptions"),
        errors,
    );
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(context, field, at, errors);
    }
    let groups = at.child("supplementalGroups");
    for (i, group) in context.items("supplementalGroups").iter().enumerate() {
        if let Some(id) = group
            .as_i64()
            .filter(|id| !(0..=i64::from(i32::MAX)).contains(id))
        {
            errors.invalid(&groups.index(i), id, names::between(0, i64::from(i32::MAX)));
        }
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        errors.invalid(
            &at.child("shareProcessNamespace"),
            true,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        );
    }
    let list = context.items("sysctls");
    let all = at.child("sysctls");
    for (i, sysctl) in list.iter().enumerate() {
        let item = all.index(i);
        let at = item.child("name");
        let name = sysctl.text("name");
        if name.is_empty() {
            errors.required(&at, "");
        } else if !sysctl_name(name) {
            errors.invalid(
                &at,
                name,
                "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            );
        } else if list.iter().take(i).any(|s| s.text("name") == name) {
            errors.duplicate(&at, name);
        }
        let dotted = name.replace('/', ".");
        if spec.flag("hostNetwork") && dotted.starts_with("net.") {
            errors.invalid(&at, name, "may not be specified when 'hostNetwork' is true");
        }
        let ipc = dotted.starts_with("kernel.shm")
            || dotted.starts_with("kernel.msg")
            || dotted.starts_with("fs.mqueue.")
            || dotted == "kernel.sem";
        if spec.flag("hostIPC") && ipc {
            errors.invalid(&at, name, "may not be specified when 'hostIPC' is true");
        }
    }
    for (field, of) in [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["MountOption", "Recursive"]),
    ] {
        if context.has(field) {
            one_of(context.text(field), of, &at.child(field), errors);
        }
    }
    seccomp(
        context.at("seccompProfile"),
        &at.child("seccompProfile"),
        errors,
    );
    app_armor(
        context.at("appArmorProfile"),
        &at.child("appArmorProfile"),
        errors,
    );
}
