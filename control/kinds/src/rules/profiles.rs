//! Seccomp and AppArmor profiles in annotations, which pods used before there were
//! fields: valid values, and consistency with the fields (KEP-135, KEP-24).

use control_types::value::Value;

use super::container::descending_path;
use crate::error::{Errors, Path, quoted};
use crate::tree::Read;

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Validates annotations of profiles. `at` is the path of the annotations.
pub(crate) fn annotations(all: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let entries = || all.as_object().into_iter().flatten();
    if all.has(SECCOMP_POD) {
        seccomp(all.text(SECCOMP_POD), &at.child(SECCOMP_POD), errors);
    }
    for (key, profile) in entries().filter(|(key, _)| key.starts_with(SECCOMP)) {
        seccomp(profile.as_text(), &at.child(key), errors);
    }
    for (key, profile) in entries() {
        let Some(name) = key.strip_prefix(APP_ARMOR) else {
            continue;
        };
        let of_name = |list: &str| spec.items(list).iter().any(|one| one.text("name") == name);
        if !LISTS.iter().any(|list| of_name(list)) {
            errors.invalid(&at.key(key), name, "container not found");
        }
        let profile = profile.as_text();
        let known = matches!(profile, "" | "runtime/default" | "unconfined");
        if !known && !profile.starts_with("localhost/") {
            let why = format!("invalid AppArmor profile name: {}", quoted(profile));
            errors.invalid(&at.key(key), profile, why);
        }
    }
}

fn seccomp(profile: &str, at: &Path<'_>, errors: &mut Errors) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        _ => match profile.strip_prefix("localhost/") {
            Some(path) => descending_path(path, at, errors),
            None => errors.invalid(at, profile, "must be a valid seccomp profile"),
        },
    }
}

/// Checks that annotations and fields name the same profiles. `at` is the path of the
/// spec.
pub(crate) fn fields(annotations: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if annotations
        .as_object()
        .is_none_or(control_types::Map::is_empty)
    {
        return;
    }
    let whole = spec.at("securityContext");
    if annotations.has(SECCOMP_POD) {
        let at = at.child("securityContext.seccompProfile");
        let said = annotations.text(SECCOMP_POD);
        matching("seccomp", said, whole.at("seccompProfile"), &at, errors);
    }
    each(spec, at, &mut |container, at| {
        let key = format!("{SECCOMP}{}", container.text("name"));
        if annotations.has(&key) {
            let at = at.child("securityContext.seccompProfile");
            let field = container.at("securityContext").at("seccompProfile");
            matching("seccomp", annotations.text(&key), field, &at, errors);
        }
    });
    if spec.at("os").text("name") == "windows" {
        return;
    }
    each(spec, at, &mut |container, at| {
        let key = format!("{APP_ARMOR}{}", container.text("name"));
        if annotations.has(&key) {
            let at = at.child("securityContext.appArmorProfile");
            let own = container.at("securityContext").at("appArmorProfile");
            let field = if own.is_null() {
                whole.at("appArmorProfile")
            } else {
                own
            };
            matching("apparmor", annotations.text(&key), field, &at, errors);
        }
    });
}

fn each(spec: &Value, at: &Path<'_>, look: &mut dyn FnMut(&Value, &Path<'_>)) {
    for list in LISTS {
        let all = at.child(list);
        for (i, container) in spec.items(list).iter().enumerate() {
            look(container, &all.index(i));
        }
    }
}

/// `what`: how messages call the kind of profile.
fn matching(what: &str, said: &str, field: &Value, at: &Path<'_>, errors: &mut Errors) {
    let fits = match field.text("type") {
        "Unconfined" => said == "unconfined",
        "RuntimeDefault" => {
            said == "runtime/default" || (what == "seccomp" && said == "docker/default")
        }
        "Localhost" => said.starts_with("localhost/"),
        _ => return,
    };
    if !fits {
        let why = format!("{what} type in annotation and field must match");
        errors.forbidden(&at.child("type"), why);
    } else if let Some(path) = said.strip_prefix("localhost/")
        && (!field.has("localhostProfile") || field.text("localhostProfile") != path)
    {
        let why = format!("{what} profile in annotation and field must match");
        errors.forbidden(&at.child("localhostProfile"), why);
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;
    use crate::rules::collect;

    fn told(annotations: &Value, spec: &Value) -> Vec<String> {
        let found = collect(|errors| {
            super::annotations(annotations, spec, &Path::new("annotations"), errors);
            fields(annotations, spec, &Path::new("spec"), errors);
        });
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn annotations_name_profiles_that_there_are() {
        let spec = value!({"containers": [{"name": "c"}]});
        let all = value!({
            "seccomp.security.alpha.kubernetes.io/pod": "docker/default",
            "container.seccomp.security.alpha.kubernetes.io/c": "bad",
            "container.apparmor.security.beta.kubernetes.io/c": "runtime/default",
            "container.apparmor.security.beta.kubernetes.io/d": "bad"
        });
        assert_eq!(
            told(&all, &spec),
            [
                "annotations.container.seccomp.security.alpha.kubernetes.io/c: Invalid value: \"bad\": must be a valid seccomp profile",
                "annotations[container.apparmor.security.beta.kubernetes.io/d]: Invalid value: \"d\": container not found",
                "annotations[container.apparmor.security.beta.kubernetes.io/d]: Invalid value: \"bad\": invalid AppArmor profile name: \"bad\""
            ]
        );
    }

    #[test]
    fn annotations_and_fields_agree() {
        let spec = value!({
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Unconfined"}},
            "containers": [
                {"name": "c"},
                {"name": "d", "securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}}
            ]
        });
        let all = value!({
            "seccomp.security.alpha.kubernetes.io/pod": "docker/default",
            "container.apparmor.security.beta.kubernetes.io/c": "runtime/default",
            "container.apparmor.security.beta.kubernetes.io/d": "localhost/y"
        });
        assert_eq!(
            told(&all, &spec),
            [
                "spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match",
                "spec.containers[1].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation and field must match"
            ]
        );
        assert_eq!(told(&Value::Null, &spec), [""; 0]);
    }
}
