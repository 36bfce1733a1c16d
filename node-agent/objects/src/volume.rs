//! Volumes of a pod, as the agent reads them.

#![expect(
    missing_docs,
    reason = "the fields are documented by the published Kubernetes API, whose names these are"
)]

pub use control_types::label_selector::LabelSelector;
use serde::Deserialize;

use super::pod::{FieldRef, ResourceFieldRef};

/// A volume: a name and one source. An unknown source keeps its field's name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    pub name: String,
    pub source: VolumeSource,
}

#[derive(Clone, Debug, PartialEq)]
pub enum VolumeSource {
    EmptyDir(EmptyDir),
    ConfigMap(ConfigMapSource),
    Secret(SecretSource),
    Projected(ProjectedSource),
    DownwardApi(DownwardApi),
    HostPath(HostPath),
    Image(ImageSource),
    Claim(ClaimSource),
    /// A claim of the pod's own, made from a template by a controller.
    Ephemeral,
    /// Of a driver, living with the pod.
    Csi(InlineCsiSource),
    /// A kind that this agent does not mount, by its field's name.
    Unsupported(String),
}

impl Default for VolumeSource {
    fn default() -> Self {
        Self::EmptyDir(EmptyDir::default())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EmptyDir {
    pub medium: String,
    pub size_limit: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMapSource {
    pub name: String,
    pub items: Vec<KeyToPath>,
    pub default_mode: Option<u32>,
    pub optional: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretSource {
    pub secret_name: String,
    pub items: Vec<KeyToPath>,
    pub default_mode: Option<u32>,
    pub optional: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyToPath {
    pub key: String,
    pub path: String,
    pub mode: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectedSource {
    pub sources: Vec<Projection>,
    pub default_mode: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Projection {
    pub config_map: Option<ConfigMapSource>,
    pub secret: Option<ProjectedSecret>,
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<DownwardApi>,
    pub service_account_token: Option<TokenProjection>,
    pub cluster_trust_bundle: Option<TrustProjection>,
    pub pod_certificate: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrustProjection {
    pub name: Option<String>,
    pub signer_name: Option<String>,
    pub label_selector: Option<LabelSelector>,
    pub optional: Option<bool>,
    pub path: String,
}

/// As [`SecretSource`], whose name has another field in a projection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectedSecret {
    pub name: String,
    pub items: Vec<KeyToPath>,
    pub optional: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenProjection {
    pub audience: String,
    pub expiration_seconds: Option<i64>,
    pub path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DownwardApi {
    pub items: Vec<DownwardFile>,
    pub default_mode: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DownwardFile {
    pub path: String,
    pub field_ref: Option<FieldRef>,
    pub resource_field_ref: Option<ResourceFieldRef>,
    pub mode: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HostPath {
    pub path: String,
    pub r#type: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageSource {
    pub reference: String,
    pub pull_policy: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InlineCsiSource {
    pub driver: String,
    pub read_only: bool,
    pub fs_type: String,
    pub volume_attributes: std::collections::BTreeMap<String, String>,
    pub node_publish_secret_ref: Option<super::pod::LocalReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    pub claim_name: String,
    pub read_only: bool,
}

/// The fields of a volume as they are serialized; [`Volume`] has them as one enum.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawVolume {
    name: String,
    empty_dir: Option<EmptyDir>,
    config_map: Option<ConfigMapSource>,
    secret: Option<SecretSource>,
    projected: Option<ProjectedSource>,
    #[serde(rename = "downwardAPI")]
    downward_api: Option<DownwardApi>,
    host_path: Option<HostPath>,
    image: Option<ImageSource>,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<serde::de::IgnoredAny>,
    csi: Option<InlineCsiSource>,
    #[serde(flatten)]
    rest: std::collections::BTreeMap<String, serde::de::IgnoredAny>,
}

impl<'de> Deserialize<'de> for Volume {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawVolume::deserialize(deserializer)?;
        let source = if let Some(it) = raw.empty_dir {
            VolumeSource::EmptyDir(it)
        } else if let Some(it) = raw.config_map {
            VolumeSource::ConfigMap(it)
        } else if let Some(it) = raw.secret {
            VolumeSource::Secret(it)
        } else if let Some(it) = raw.projected {
            VolumeSource::Projected(it)
        } else if let Some(it) = raw.downward_api {
            VolumeSource::DownwardApi(it)
        } else if let Some(it) = raw.host_path {
            VolumeSource::HostPath(it)
        } else if let Some(it) = raw.image {
            VolumeSource::Image(it)
        } else if let Some(it) = raw.persistent_volume_claim {
            VolumeSource::Claim(it)
        } else if raw.ephemeral.is_some() {
            VolumeSource::Ephemeral
        } else if let Some(it) = raw.csi {
            VolumeSource::Csi(it)
        } else if let Some((kind, _)) = raw.rest.into_iter().next() {
            VolumeSource::Unsupported(kind)
        } else {
            VolumeSource::default()
        };
        Ok(Self {
            name: raw.name,
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_of_an_unknown_kind_keeps_the_kinds_name() {
        let volume: Volume =
            serde_json::from_str(r#"{"name":"data","flexVolume":{"driver":"a/b"}}"#).unwrap();
        assert_eq!(
            volume.source,
            VolumeSource::Unsupported("flexVolume".to_owned())
        );
    }

    #[test]
    fn volume_without_a_source_is_an_empty_dir() {
        let volume: Volume = serde_json::from_str(r#"{"name":"tmp"}"#).unwrap();
        assert_eq!(volume.source, VolumeSource::EmptyDir(EmptyDir::default()));
    }
}
