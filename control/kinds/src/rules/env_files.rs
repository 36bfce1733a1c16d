//! Variables of files in volumes (KEP-3721).

use control_types::value::Value;

use super::{container, names};
use crate::error::{Errors, Path};
use crate::tree::Read;

/// A variable's reference to a key of a file.
pub(crate) fn reference(reference: &Value, at: &Path<'_>, errors: &mut Errors) {
    for (field, rule) in [
        ("key", names::env_var as fn(&str) -> names::Messages),
        ("volumeName", names::dns_label),
    ] {
        let text = reference.text(field);
        if text.is_empty() {
            errors.required(&at.child(field), "");
        } else {
            errors.invalid_each(&at.child(field), text, rule(text));
        }
    }
    let path = reference.text("path");
    if path.is_empty() {
        errors.required(&at.child("path"), "");
    } else {
        container::no_backsteps(path, &at.child("path"), errors);
    }
}

/// Files of variables are in volumes of the pod's own: all that is in them comes from
/// its containers.
pub(crate) fn volumes(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let all = at.child(list);
        for (i, container) in spec.items(list).iter().enumerate() {
            let container_at = all.index(i);
            let env_at = container_at.child("env");
            for (j, variable) in container.items("env").iter().enumerate() {
                let from = variable.at("valueFrom");
                if !from.has("fileKeyRef") {
                    continue;
                }
                let name = from.at("fileKeyRef").text("volumeName");
                let variable_at = env_at.index(j);
                let at = variable_at.child("valueFrom");
                let at = at.child("fileKeyRef");
                let at = at.child("volumeName");
                let mut volumes = spec.items("volumes").iter();
                // of several of a name the last, as in the map that stock makes
                match volumes.rfind(|volume| volume.text("name") == name) {
                    None => errors.not_found(&at, name),
                    Some(volume) if !volume.has("emptyDir") => {
                        errors.invalid(&at, name, "referenced volume must be of type emptyDir");
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{collect, defaults, validate_pod};
    use super::*;

    const SPEC: Path<'static> = Path::new("spec");

    fn pod(list: &str, reference: &str) -> Value {
        let others = match list {
            "containers" => String::new(),
            _ => r#""containers":[{"name":"c","image":"i"}],"#.to_owned(),
        };
        let text = format!(
            r#"{{"volumes":[{{"name":"own","emptyDir":{{}}}},{{"name":"host","hostPath":{{"path":"/"}}}}],{others}
            "{list}":[{{"name":"x","image":"i","env":[{{"name":"A","valueFrom":{{"fileKeyRef":{reference}}}}}]}}]}}"#
        );
        let mut spec = Value::from_slice(text.as_bytes()).expect("test object");
        defaults::pod_spec(&mut spec);
        spec
    }

    fn told(list: &str, reference: &str) -> Vec<String> {
        let spec = pod(list, reference);
        let errors = collect(|errors| validate_pod::spec(&spec, "p", true, &SPEC, errors));
        let prefix = format!("spec.{list}[0].env[0].valueFrom.fileKeyRef.");
        let all = errors.iter().map(ToString::to_string);
        all.map(|error| error.replace(&prefix, "")).collect()
    }

    #[test]
    fn a_reference_says_volume_path_and_key() {
        let key = "Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='";
        let volume = "volumeName: Invalid value: \"Own\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let cases = [
            (r#"{"volumeName":"own","path":"a/b.env","key":"K"}"#, vec![]),
            (
                r#"{"volumeName":"own","path":"a..b","key":"any key"}"#,
                vec![],
            ),
            (
                "{}",
                vec![
                    "key: Required value".to_owned(),
                    "volumeName: Required value".to_owned(),
                    "path: Required value".to_owned(),
                    "volumeName: Not found: \"\"".to_owned(),
                ],
            ),
            (
                r#"{"volumeName":"Own","path":"a/../b","key":"a=b"}"#,
                vec![
                    format!("key: {key}"),
                    volume.to_owned(),
                    "path: Invalid value: \"a/../b\": must not contain '..'".to_owned(),
                    "volumeName: Not found: \"Own\"".to_owned(),
                ],
            ),
        ];
        for (reference, why) in cases {
            assert_eq!(told("containers", reference), why, "{reference}");
        }
    }

    #[test]
    fn files_are_in_volumes_of_the_pods_own_whichever_container_reads_them() {
        let of = |volume: &str| format!(r#"{{"volumeName":"{volume}","path":"f","key":"K"}}"#);
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            assert_eq!(told(list, &of("own")), [""; 0], "{list}");
            let why =
                "volumeName: Invalid value: \"host\": referenced volume must be of type emptyDir";
            assert_eq!(told(list, &of("host")), [why], "{list}");
            let why = "volumeName: Not found: \"none\"";
            assert_eq!(told(list, &of("none")), [why], "{list}");
        }
    }

    #[test]
    fn a_reference_is_kept_and_must_be_there_unless_it_says_otherwise() {
        let kept = |reference: &str| {
            let spec = pod("containers", reference);
            let container = spec.items("containers").first().expect("one");
            let variable = container.items("env").first().expect("one");
            variable.at("valueFrom").at("fileKeyRef").clone()
        };
        let one = kept(r#"{"volumeName":"own","path":"f","key":"K"}"#);
        assert_eq!(
            (one.text("path"), one.truth("optional")),
            ("f", Some(false))
        );
        let one = kept(r#"{"volumeName":"own","path":"f","key":"K","optional":true}"#);
        assert_eq!(one.truth("optional"), Some(true));
    }
}
