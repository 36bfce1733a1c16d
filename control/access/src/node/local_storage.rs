//! Secrets that a node's own volume driver needs: those that a storage class of the driver
//! names for making, deleting and growing volumes, for claims for which the node was
//! selected and volumes that are on it.
//!
//! What a volume says itself of its secrets does not count, since its node wrote it.

use compact_str::CompactString;
use control_types::meta;
use control_types::value::Value;
use rustc_hash::FxHashMap;

/// Name of the driver.
const DRIVER: &str = "csi.orlop.dev";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const NODE_KEY: &str = "topology.csi.orlop.dev/node";
/// Parameters of a class that name such a secret, before `-name` and `-namespace`, and
/// whether the name may depend on annotations of the claim.
const SECRETS: [(&str, bool); 2] = [
    ("csi.storage.k8s.io/provisioner-secret", false),
    ("csi.storage.k8s.io/controller-expand-secret", true),
];
/// Length of the longest name of a secret: longer annotations are part of none.
const LONGEST: usize = 253;

/// Claims and volumes with a node, and classes with secrets.
#[derive(Debug, Default)]
pub(super) struct LocalStorage {
    claims: FxHashMap<(CompactString, CompactString), Use>,
    volumes: FxHashMap<CompactString, Use>,
    classes: FxHashMap<CompactString, Vec<Template>>,
}

/// A use of a class on a node.
#[derive(Debug)]
struct Use {
    node: CompactString,
    class: CompactString,
    volume: CompactString,
    namespace: CompactString,
    claim: CompactString,
    /// The claim's annotations, which nodes may not write.
    annotations: FxHashMap<CompactString, CompactString>,
}

/// Name and namespace of a secret, with `${…}` in them.
#[derive(Debug)]
struct Template {
    name: String,
    namespace: String,
    has_annotations: bool,
}

impl LocalStorage {
    /// Takes a claim as it is now.
    pub fn set_claim(&mut self, claim: &Value) {
        let (namespace, name) = (meta::namespace(claim), meta::name(claim));
        self.remove_claim(namespace, name);
        let node = meta::annotation(claim, SELECTED_NODE).unwrap_or_default();
        let class = claim.str_at(&["spec", "storageClassName"]);
        let Some(class) = class.filter(|_| !node.is_empty()) else {
            return;
        };
        let known = Use {
            node: node.into(),
            class: class.into(),
            volume: format!("pvc-{}", meta::uid(claim)).into(),
            namespace: namespace.into(),
            claim: name.into(),
            annotations: annotations(claim),
        };
        self.claims.insert((namespace.into(), name.into()), known);
    }

    /// Forgets a deleted claim.
    pub fn remove_claim(&mut self, namespace: &str, name: &str) {
        self.claims.remove(&(namespace.into(), name.into()));
    }

    /// Takes a volume as it is now.
    pub fn set_volume(&mut self, volume: &Value) {
        let name = meta::name(volume);
        self.remove_volume(name);
        let terms = ["spec", "nodeAffinity", "required", "nodeSelectorTerms"];
        let [term] = volume.items_at(&terms) else {
            return;
        };
        let [expression] = term.items_at(&["matchExpressions"]) else {
            return;
        };
        let is_local = volume.str_at(&["spec", "csi", "driver"]) == Some(DRIVER)
            && expression.str_at(&["key"]) == Some(NODE_KEY)
            && expression.str_at(&["operator"]) == Some("In");
        let [node] = expression.items_at(&["values"]) else {
            return;
        };
        let text = |path: &[&str]| CompactString::from(volume.str_at(path).unwrap_or_default());
        if is_local {
            let known = Use {
                node: node.as_str().unwrap_or_default().into(),
                class: text(&["spec", "storageClassName"]),
                volume: name.into(),
                namespace: text(&["spec", "claimRef", "namespace"]),
                claim: text(&["spec", "claimRef", "name"]),
                annotations: FxHashMap::default(),
            };
            self.volumes.insert(name.into(), known);
        }
    }

    /// Forgets a deleted volume.
    pub fn remove_volume(&mut self, name: &str) {
        self.volumes.remove(name);
    }

    /// Takes a storage class as it is now.
    pub fn set_class(&mut self, class: &Value) {
        let name = meta::name(class);
        self.remove_class(name);
        if class.str_at(&["provisioner"]) != Some(DRIVER) {
            return;
        }
        let parameter = |secret: &str, part: &str| {
            let key = format!("{secret}-{part}");
            class.str_at(&["parameters", &key]).map(str::to_owned)
        };
        let template = |(secret, has_annotations): (&str, bool)| {
            Some(Template {
                name: parameter(secret, "name")?,
                namespace: parameter(secret, "namespace")?,
                has_annotations,
            })
        };
        let templates: Vec<Template> = SECRETS.into_iter().filter_map(template).collect();
        if !templates.is_empty() {
            self.classes.insert(name.into(), templates);
        }
    }

    /// Forgets a deleted storage class.
    pub fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    /// Whether the driver of the node needs the secret.
    pub fn needs(&self, node: &str, namespace: &str, name: &str) -> bool {
        if self.classes.is_empty() || node.is_empty() {
            return false;
        }
        let mut all = self.claims.values().chain(self.volumes.values());
        all.any(|known| {
            let templates = self
                .classes
                .get(&known.class)
                .filter(|_| known.node == node);
            templates.is_some_and(|templates| {
                let mut templates = templates.iter();
                templates.any(|template| {
                    known.namespace_of(template).as_deref() == Some(namespace)
                        && known.name_of(template).as_deref() == Some(name)
                })
            })
        })
    }
}

impl Use {
    fn namespace_of(&self, template: &Template) -> Option<String> {
        fill(&template.namespace, |token| self.value(token))
    }

    /// Returns the name of the secret. It alone may depend on the claim's name and annotations.
    fn name_of(&self, template: &Template) -> Option<String> {
        fill(&template.name, |token| match token {
            "pvc.name" => Some(&self.claim),
            _ if template.has_annotations && token.starts_with("pvc.annotations") => {
                let key = token.strip_prefix("pvc.annotations['")?;
                let value = self.annotations.get(key.strip_suffix("']")?)?;
                Some(value)
            }
            _ => self.value(token),
        })
    }

    fn value(&self, token: &str) -> Option<&str> {
        match token {
            "pv.name" => Some(&self.volume),
            "pvc.namespace" => Some(&self.namespace),
            _ => None,
        }
    }
}

/// Substitutes values for `${token}`, as external-provisioner does; returns `None` if a
/// value is missing.
fn fill<'a>(template: &str, value: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        let (token, after) = after.split_once('}')?;
        text.push_str(before);
        text.push_str(value(token)?);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// Returns the annotations of a claim that may be part of a secret's name.
fn annotations(claim: &Value) -> FxHashMap<CompactString, CompactString> {
    let Some(Value::Object(all)) = claim.path(&["metadata", "annotations"]) else {
        return FxHashMap::default();
    };
    let values = all.iter().filter_map(|(key, value)| {
        let value = value.as_str().filter(|value| value.len() <= LONGEST)?;
        Some((CompactString::from(&**key), CompactString::from(value)))
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn class(name: &str, driver: &str, secret: &str, namespace: &str) -> Value {
        value!({
            "metadata": {"name": name}, "provisioner": driver,
            "parameters": {
                "csi.storage.k8s.io/provisioner-secret-name": secret,
                "csi.storage.k8s.io/provisioner-secret-namespace": namespace
            }
        })
    }

    fn claim(name: &str, node: &str, class: &str) -> Value {
        value!({
            "metadata": {
                "namespace": "shop", "name": name, "uid": "u1",
                "annotations": {"volume.kubernetes.io/selected-node": node}
            },
            "spec": {"storageClassName": class}
        })
    }

    #[test]
    fn the_secret_for_growth_may_be_named_by_an_annotation_of_the_claim_and_no_other() {
        let (key, team) = ("${pvc.annotations['team/key']}", "csi.storage.k8s.io/");
        let parameter = |secret: &str, part: &str| format!("{team}{secret}-secret-{part}");
        let mut class = class("crypt", DRIVER, key, "kube-system");
        for (part, value) in [("name", key), ("namespace", "${pvc.namespace}")] {
            let path = parameter("controller-expand", part);
            class.set_path(&["parameters", &path], value);
        }
        let mut storage = LocalStorage::default();
        storage.set_class(&class);
        let mut own = claim("data", "n1", "crypt");
        storage.set_claim(&own);
        assert!(!storage.needs("n1", "shop", ""), "it has no annotation");
        own.set_path(&["metadata", "annotations", "team/key"], "blue");
        storage.set_claim(&own);
        assert!(storage.needs("n1", "shop", "blue"));
        assert!(!storage.needs("n2", "shop", "blue"));
        assert!(
            !storage.needs("n1", "kube-system", "blue"),
            "the provisioner takes no annotations"
        );
    }

    #[test]
    fn a_node_needs_the_secrets_of_classes_of_its_claims_and_volumes() {
        let mut storage = LocalStorage::default();
        storage.set_class(&class("crypt", DRIVER, "keys", "kube-system"));
        storage.set_class(&class(
            "each",
            DRIVER,
            "${pvc.name}-${pv.name}",
            "${pvc.namespace}",
        ));
        storage.set_class(&class(
            "other",
            "other.example.com",
            "foreign",
            "kube-system",
        ));
        storage.set_class(&class("wrong", DRIVER, "s", "${pvc.name}"));
        assert!(!storage.needs("n1", "kube-system", "keys"), "no claim yet");
        storage.set_claim(&claim("data", "n1", "crypt"));
        storage.set_claim(&claim("own", "n1", "each"));
        storage.set_claim(&claim("foreign", "n1", "other"));
        storage.set_claim(&claim("wrong", "n1", "wrong"));
        for (node, namespace, name, needed) in [
            ("n1", "kube-system", "keys", true),
            ("n1", "shop", "own-pvc-u1", true),
            ("n1", "shop", "data-pvc-u1", false),
            ("n1", "kube-system", "foreign", false),
            ("n1", "wrong", "s", false),
            ("n2", "kube-system", "keys", false),
            ("", "kube-system", "keys", false),
        ] {
            assert_eq!(
                storage.needs(node, namespace, name),
                needed,
                "{node} {namespace}/{name}"
            );
        }
        storage.set_claim(&claim("data", "n2", "crypt"));
        assert!(
            !storage.needs("n1", "kube-system", "keys"),
            "another node was selected"
        );
        storage.remove_claim("shop", "data");
        assert!(!storage.needs("n2", "kube-system", "keys"));
        // A released volume is deleted with the secret of its class.
        storage.set_volume(&value!({
            "metadata": {
                "name": "pvc-u1",
                "annotations": {"volume.kubernetes.io/provisioner-deletion-secret-name": "admin"}
            },
            "spec": {
                "storageClassName": "crypt", "csi": {"driver": DRIVER},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": NODE_KEY, "operator": "In", "values": ["n2"]}
                ]}]}}
            }
        }));
        assert!(storage.needs("n2", "kube-system", "keys"));
        assert!(
            !storage.needs("n2", "kube-system", "admin"),
            "its node wrote that"
        );
        storage.remove_volume("pvc-u1");
        assert!(!storage.needs("n2", "kube-system", "keys"));
    }
}
