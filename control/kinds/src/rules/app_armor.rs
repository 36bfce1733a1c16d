//! Converts AppArmor annotations, which pods used before 1.30, to the field, which nodes
//! apply (KEP-24).

use control_types::value::Value;

use crate::tree::{Read, Write};

const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Gives the containers of a new pod the profiles that its annotations name.
pub(crate) fn from_annotations(pod: &mut Value) {
    let annotations = pod.dig(&["metadata", "annotations"]);
    let named: Vec<(String, Value)> = annotations
        .as_object()
        .into_iter()
        .flat_map(control_types::Map::iter)
        .filter_map(|(key, text)| {
            let container = key.strip_prefix(ANNOTATION)?;
            Some((container.to_owned(), profile(text.as_text())?))
        })
        .collect();
    let spec = pod.make("spec");
    if named.is_empty() || spec.at("os").text("name") == "windows" {
        return;
    }
    let of_pod = spec.dig(&["securityContext", "appArmorProfile"]).clone();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items_mut(list) {
            let name = container.text("name");
            let Some((_, profile)) = named.iter().find(|(named, _)| named == name) else {
                continue;
            };
            let has_own = container.at("securityContext").has("appArmorProfile");
            if !has_own && *profile != of_pod {
                let context = container.make("securityContext");
                context.put("appArmorProfile", profile.clone());
            }
        }
    }
}

/// Converts an annotation to the field; `None` if it is invalid.
fn profile(text: &str) -> Option<Value> {
    let mut profile = Value::object();
    match text {
        "unconfined" => profile.put("type", "Unconfined"),
        "runtime/default" => profile.put("type", "RuntimeDefault"),
        _ => {
            let local = text.strip_prefix("localhost/")?;
            if local.is_empty() || local.trim() != local || local.len() > 4095 {
                return None;
            }
            profile.put("type", "Localhost");
            profile.put("localhostProfile", local);
        }
    }
    Some(profile)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn annotations_become_fields_where_there_is_none() {
        let mut pod = value!({
            "metadata": {"annotations": {
                "container.apparmor.security.beta.kubernetes.io/a": "localhost/x",
                "container.apparmor.security.beta.kubernetes.io/b": "unconfined",
                "container.apparmor.security.beta.kubernetes.io/c": "nonsense"
            }},
            "spec": {"containers": [
                {"name": "a"},
                {"name": "b", "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
                {"name": "c"}
            ]}
        });
        from_annotations(&mut pod);
        assert_eq!(
            pod.at("spec").at("containers"),
            &value!([
                {"name": "a", "securityContext": {
                    "appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}
                }},
                {"name": "b", "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
                {"name": "c"}
            ])
        );
    }
}
