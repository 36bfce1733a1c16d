//! Parameters of a storage class: those for the driver, and those of external-provisioner.

use std::collections::BTreeMap;

use control_client::Meta;

use crate::views::SecretReference;

/// What begins parameters that are not the driver's.
const RESERVED: &str = "csi.storage.k8s.io/";

/// Parameters of a class, for one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// What the driver gets.
    pub driver: BTreeMap<String, String>,
    /// File system of the volume; empty for the driver's default.
    pub fs_type: String,
    /// Secret of CreateVolume and DeleteVolume.
    pub provisioner: Option<SecretReference>,
    /// Secret of ControllerPublishVolume.
    pub controller_publish: Option<SecretReference>,
    /// Secret of NodeStageVolume.
    pub node_stage: Option<SecretReference>,
    /// Secret of NodePublishVolume.
    pub node_publish: Option<SecretReference>,
    /// Secret of ControllerExpandVolume.
    pub controller_expand: Option<SecretReference>,
    /// Secret of NodeExpandVolume.
    pub node_expand: Option<SecretReference>,
}

/// Reason why parameters cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A key that is reserved for Kubernetes is not known.
    #[error("found unknown parameter key \"{0}\" with reserved namespace csi.storage.k8s.io/")]
    Unknown(String),
    /// A secret has a name or a namespace only.
    #[error("either name and namespace for {0} secrets specified, Both must be specified")]
    Half(&'static str),
    /// A template names what does not exist.
    #[error("invalid token `${{{token}}}` in `{template}` of the storage class")]
    Token {
        /// The whole template.
        template: String,
        /// The name between the braces.
        token: String,
    },
}

/// Reads the parameters of a class for a volume and its claim.
///
/// # Errors
/// Names the first parameter that cannot be used.
pub fn parse(
    parameters: &BTreeMap<String, String>,
    volume: &str,
    claim: &Meta,
) -> Result<Parameters, ParameterError> {
    let mut parsed = Parameters::default();
    let mut secrets: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, value) in parameters {
        let Some(name) = key.strip_prefix(RESERVED) else {
            parsed.driver.insert(key.clone(), value.clone());
            continue;
        };
        let is_secret = [
            "provisioner-",
            "controller-publish-",
            "node-stage-",
            "node-publish-",
            "controller-expand-",
            "node-expand-",
        ]
        .iter()
        .any(|purpose| {
            let rest = name.strip_prefix(purpose);
            matches!(rest, Some("secret-name" | "secret-namespace"))
        });
        if name == "fstype" {
            parsed.fs_type.clone_from(value);
        } else if is_secret {
            secrets.insert(name, value);
        } else {
            return Err(ParameterError::Unknown(key.clone()));
        }
    }
    let secret = |purpose: &str, title: &'static str, of_claim: bool| {
        let template = |part: &str| secrets.get(format!("{purpose}-secret-{part}").as_str());
        match (template("name"), template("namespace")) {
            (None, None) => Ok(None),
            (Some(name), Some(namespace)) => {
                let known = |token: &str| match token {
                    "pv.name" => Some(volume.to_owned()),
                    "pvc.namespace" => Some(claim.namespace.to_string()),
                    _ => None,
                };
                let known_to_name = |token: &str| {
                    known(token).or_else(|| match token {
                        "pvc.name" => Some(claim.name.to_string()),
                        _ if of_claim => {
                            let key = token.strip_prefix("pvc.annotations['")?;
                            let key = key.strip_suffix("']")?;
                            claim.annotations.get(key).map(str::to_owned)
                        }
                        _ => None,
                    })
                };
                Ok(Some(SecretReference {
                    name: expand(name, known_to_name)?,
                    namespace: expand(namespace, known)?,
                }))
            }
            _ => Err(ParameterError::Half(title)),
        }
    };
    parsed.provisioner = secret("provisioner", "Provisioner", false)?;
    parsed.controller_publish = secret("controller-publish", "ControllerPublish", true)?;
    parsed.node_stage = secret("node-stage", "NodeStage", true)?;
    parsed.node_publish = secret("node-publish", "NodePublish", true)?;
    parsed.controller_expand = secret("controller-expand", "ControllerExpand", true)?;
    parsed.node_expand = secret("node-expand", "NodeExpand", true)?;
    Ok(parsed)
}

/// Returns the parameters that the driver gets, whatever the others are.
#[must_use]
pub fn of_driver(parameters: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut own = parameters.clone();
    own.retain(|key, _| !key.starts_with(RESERVED));
    own
}

/// Puts values in place of `${token}`.
fn expand(
    template: &str,
    value: impl Fn(&str) -> Option<String>,
) -> Result<String, ParameterError> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        text.push_str(before);
        let (token, after) = after.split_once('}').unwrap_or((after, ""));
        let value = value(token).ok_or_else(|| ParameterError::Token {
            template: template.to_owned(),
            token: token.to_owned(),
        })?;
        text.push_str(&value);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse_pairs(pairs: &[(&str, &str)]) -> Result<Parameters, ParameterError> {
        let claim =
            json!({"namespace": "shop", "name": "data", "annotations": {"team/key": "blue"}});
        let claim: Meta = serde_json::from_value(claim).expect("metadata");
        let pairs = pairs.iter();
        let pairs = pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        parse(&pairs.collect(), "pvc-1", &claim)
    }

    #[test]
    fn templates_of_secrets_become_the_names_of_one_claim() {
        let parsed = parse_pairs(&[
            ("class", "fast"),
            ("csi.storage.k8s.io/fstype", "xfs"),
            (
                "csi.storage.k8s.io/node-stage-secret-name",
                "${pvc.name}-${pvc.annotations['team/key']}",
            ),
            (
                "csi.storage.k8s.io/node-stage-secret-namespace",
                "${pvc.namespace}",
            ),
            (
                "csi.storage.k8s.io/provisioner-secret-name",
                "of-${pv.name}",
            ),
            (
                "csi.storage.k8s.io/provisioner-secret-namespace",
                "kube-system",
            ),
        ])
        .expect("parameters");
        let secret = |namespace: &str, name: &str| {
            Some(SecretReference {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
            })
        };
        assert_eq!(
            parsed.driver,
            BTreeMap::from([("class".to_owned(), "fast".to_owned())])
        );
        assert_eq!(parsed.fs_type, "xfs");
        assert_eq!(parsed.node_stage, secret("shop", "data-blue"));
        assert_eq!(parsed.provisioner, secret("kube-system", "of-pvc-1"));
        assert_eq!(parsed.node_expand, None);
    }

    #[test]
    fn parameters_that_nobody_understands_are_named() {
        let name = "csi.storage.k8s.io/node-stage-secret-name";
        let namespace = "csi.storage.k8s.io/node-stage-secret-namespace";
        for (pairs, part) in [
            (
                vec![("csi.storage.k8s.io/fs-type", "xfs")],
                "csi.storage.k8s.io/fs-type",
            ),
            (vec![(name, "s")], "NodeStage"),
            (vec![(name, "${pvc.uid}"), (namespace, "n")], "${pvc.uid}"),
            (vec![(name, "s"), (namespace, "${pvc.name}")], "${pvc.name}"),
        ] {
            let error = parse_pairs(&pairs).expect_err("an error").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
