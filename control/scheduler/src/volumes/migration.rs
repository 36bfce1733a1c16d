//! In-tree volumes that CSI drivers have taken over.
//!
//! Kubelets mount such volumes through the CSI driver. So attachment limits use the
//! driver's name of the volume, and placement uses the driver's own topology labels
//! (`k8s.io/csi-translation-lib`).

use compact_str::{CompactString, format_compact};
use control_client::StringMap;
use control_types::volumes::migrated_driver;

use crate::selector::{NodeTerm, Operator, Requirement};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// Separates the zones in the label of a volume that several zones can reach.
const ZONE_DELIMITER: &str = "__";
/// A zone or project of a GCE disk that is not known.
const UNSPECIFIED: &str = "UNSPECIFIED";

/// A volume of an in-tree plugin whose work a CSI driver took over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InTreeVolume {
    /// An Amazon EBS volume.
    AwsEbs {
        /// `aws://ZONE/vol-…` or `vol-…`.
        volume_id: CompactString,
    },
    /// A disk of Google Compute Engine.
    GcePersistentDisk {
        /// The disk's name.
        name: CompactString,
    },
    /// An Azure disk.
    AzureDisk {
        /// The disk's URI.
        uri: CompactString,
        /// `Shared`, `Dedicated` or `Managed`.
        kind: Option<CompactString>,
    },
    /// An OpenStack volume.
    Cinder {
        /// The volume's id.
        volume_id: CompactString,
    },
    /// A Portworx volume.
    Portworx {
        /// The volume's id.
        volume_id: CompactString,
    },
}

/// An in-tree PersistentVolume as its CSI driver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigratedVolume {
    /// The volume.
    pub volume: InTreeVolume,
    /// The driver's name of the volume, or why it has none.
    pub handle: Result<CompactString, CompactString>,
    /// The nodes that can reach it, by the driver's topology labels; `None`: all.
    pub node_affinity: Option<Box<[NodeTerm]>>,
}

/// The CSI driver that provisions for an in-tree provisioner on nodes that have CSI
/// drivers. `None` for in-tree provisioners whose volumes are not counted; any other
/// provisioner is a CSI driver itself.
#[must_use]
pub fn provisioning_driver(provisioner: &str) -> Option<&str> {
    match provisioner {
        "kubernetes.io/azure-file" | "kubernetes.io/vsphere-volume" => None,
        other => Some(migrated_driver(other).unwrap_or(other)),
    }
}

// === impl InTreeVolume ===

impl InTreeVolume {
    /// The name of the in-tree plugin.
    #[must_use]
    pub const fn plugin(&self) -> &'static str {
        match self {
            Self::AwsEbs { .. } => "kubernetes.io/aws-ebs",
            Self::GcePersistentDisk { .. } => "kubernetes.io/gce-pd",
            Self::AzureDisk { .. } => "kubernetes.io/azure-disk",
            Self::Cinder { .. } => "kubernetes.io/cinder",
            Self::Portworx { .. } => "kubernetes.io/portworx-volume",
        }
    }

    /// The name of the CSI driver.
    #[must_use]
    pub fn driver(&self) -> &'static str {
        migrated_driver(self.plugin()).unwrap_or_default()
    }

    /// The label in which the CSI driver names the zone of a node, where it has zones.
    const fn topology_key(&self) -> Option<&'static str> {
        match self {
            Self::AwsEbs { .. } => Some("topology.ebs.csi.aws.com/zone"),
            Self::GcePersistentDisk { .. } => Some("topology.gke.io/zone"),
            Self::Cinder { .. } => Some("topology.cinder.csi.openstack.org/zone"),
            Self::AzureDisk { .. } | Self::Portworx { .. } => None,
        }
    }

    /// Returns the CSI driver's name of a volume that a pod names directly.
    ///
    /// # Errors
    /// Why it has none.
    pub fn inline_handle(&self) -> Result<CompactString, CompactString> {
        self.handle("")
    }

    /// The CSI driver's name of the volume; `zones` is its zone label, which may be empty.
    fn handle(&self, zones: &str) -> Result<CompactString, CompactString> {
        match self {
            Self::AwsEbs { volume_id } => ebs_volume_id(volume_id).map_err(|why| {
                format_compact!("failed to translate Kubernetes ID to EBS Volume ID {why}")
            }),
            Self::GcePersistentDisk { name } => gce_handle(name, zones),
            Self::AzureDisk { uri, kind } => match kind {
                Some(kind) if !kind.eq_ignore_ascii_case("Managed") => Err(format_compact!(
                    "kind({kind}) is not supported in csi migration"
                )),
                _ => Ok(uri.clone()),
            },
            Self::Cinder { volume_id } | Self::Portworx { volume_id } => Ok(volume_id.clone()),
        }
    }
}

/// Returns the identifier in `aws://ZONE/vol-…`; other text is returned as it is.
fn ebs_volume_id(volume_id: &CompactString) -> Result<CompactString, CompactString> {
    let Some(rest) = volume_id.strip_prefix("aws://") else {
        return Ok(volume_id.clone());
    };
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let id = path.trim_matches('/');
    if id.starts_with("vol-") && !id.contains('/') {
        Ok(id.into())
    } else {
        Err(format_compact!(
            "Invalid format for AWS volume ({volume_id})"
        ))
    }
}

fn gce_handle(name: &str, zones: &str) -> Result<CompactString, CompactString> {
    let listed: Vec<&str> = zones.split(ZONE_DELIMITER).collect();
    match listed.as_slice() {
        [zone] => {
            let zone = if zone.is_empty() { UNSPECIFIED } else { zone };
            Ok(format_compact!(
                "projects/{UNSPECIFIED}/zones/{zone}/disks/{name}"
            ))
        }
        zones => {
            let region = gce_region(zones)
                .map_err(|why| format_compact!("failed to get region from zones: {why}"))?;
            Ok(format_compact!(
                "projects/{UNSPECIFIED}/regions/{region}/disks/{name}"
            ))
        }
    }
}

/// The one region of some zones, which are named `LOCALE-REGION-ZONE`.
fn gce_region(zones: &[&str]) -> Result<CompactString, CompactString> {
    let mut found: Option<CompactString> = None;
    for zone in zones {
        let parts: Vec<&str> = zone.split('-').collect();
        let [locale, region, _] = parts.as_slice() else {
            return Err(format_compact!(
                "zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            ));
        };
        let region = format_compact!("{locale}-{region}");
        if found.as_ref().is_some_and(|found| *found != region) {
            return Err(format_compact!(
                "multiple or no regions gotten from zones, got: {zones:?}"
            ));
        }
        found = Some(region);
    }
    found.ok_or_else(|| "no zones specified".into())
}

// === impl MigratedVolume ===

impl MigratedVolume {
    /// A PersistentVolume with these labels and this node affinity, as the CSI driver sees
    /// it.
    #[must_use]
    pub fn translate(
        volume: InTreeVolume,
        labels: &StringMap,
        affinity: Option<&[NodeTerm]>,
    ) -> Self {
        let beta = labels.get(BETA_ZONE).filter(|zones| !zones.is_empty());
        let zones = beta.or_else(|| labels.get(ZONE)).unwrap_or_default();
        let handle = volume.handle(zones);
        let node_affinity = match volume.topology_key() {
            Some(key) => translate_topology(affinity, labels, key),
            None => affinity.map(Into::into),
        };
        Self {
            volume,
            handle,
            node_affinity,
        }
    }
}

fn values<'a>(terms: &'a [NodeTerm], key: &'a str) -> impl Iterator<Item = &'a Requirement> {
    let requirements = terms.iter().flat_map(|term| &*term.labels);
    requirements.filter(move |requirement| requirement.key == key)
}

fn has_values(terms: &[NodeTerm], key: &str) -> bool {
    values(terms, key).any(|requirement| match &requirement.operator {
        Operator::In(values) | Operator::NotIn(values) => !values.is_empty(),
        Operator::Gt(_) | Operator::Lt(_) => true,
        Operator::Exists | Operator::DoesNotExist => false,
    })
}

fn replace_key(terms: &mut [NodeTerm], from: &str, to: &str) {
    let requirements = terms.iter_mut().flat_map(|term| &mut *term.labels);
    for requirement in requirements.filter(|requirement| requirement.key == from) {
        requirement.key = to.into();
    }
}

/// Zones in a volume's affinity, or else in its labels, become the driver's; beta region
/// labels become current ones.
fn translate_topology(
    affinity: Option<&[NodeTerm]>,
    labels: &StringMap,
    driver_key: &str,
) -> Option<Box<[NodeTerm]>> {
    let mut terms: Option<Vec<NodeTerm>> = affinity.map(Into::into);
    let known = terms.as_deref().unwrap_or_default();
    let in_terms = |key: &str| values(known, key).next().is_some();
    let is_current = in_terms(ZONE)
        || !in_terms(BETA_ZONE) && (labels.contains_key(ZONE) || !labels.contains_key(BETA_ZONE));
    let (zone, region) = if is_current {
        (ZONE, REGION)
    } else {
        (BETA_ZONE, BETA_REGION)
    };
    if has_values(known, zone) {
        replace_key(terms.as_deref_mut().unwrap_or_default(), zone, driver_key);
    } else if let Some(label) = labels.get(zone) {
        let mut zones: Vec<CompactString> = label
            .split(ZONE_DELIMITER)
            .map(str::trim)
            .filter(|zone| !zone.is_empty())
            .map(CompactString::from)
            .collect();
        zones.sort_unstable();
        zones.dedup();
        if !zones.is_empty() {
            let terms = terms.get_or_insert_default();
            if terms.is_empty() {
                terms.push(NodeTerm {
                    valid: true,
                    ..NodeTerm::default()
                });
            }
            for term in terms {
                let mut labels = std::mem::take(&mut term.labels).into_vec();
                labels.push(Requirement {
                    key: driver_key.into(),
                    operator: Operator::In(zones.clone().into()),
                });
                term.labels = labels.into();
            }
        }
    }
    if region == BETA_REGION
        && let Some(terms) = &mut terms
        && has_values(terms, BETA_REGION)
    {
        replace_key(terms, BETA_REGION, REGION);
    }
    terms.map(Into::into)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ebs(id: &str) -> InTreeVolume {
        InTreeVolume::AwsEbs {
            volume_id: id.into(),
        }
    }

    fn terms(value: serde_json::Value) -> Vec<NodeTerm> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_ebs_volume_is_known_by_its_bare_identifier() {
        let handle = |id: &str| ebs(id).inline_handle().map(String::from);
        assert_eq!(handle("vol-1"), Ok("vol-1".to_owned()));
        assert_eq!(handle("aws://eu-1a/vol-1"), Ok("vol-1".to_owned()));
        assert_eq!(handle("aws:///vol-1"), Ok("vol-1".to_owned()));
        assert_eq!(
            handle("aws://eu-1a/disk"),
            Err("failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://eu-1a/disk)".into())
        );
    }

    #[test]
    fn a_gce_disk_is_known_by_its_zone_or_region() {
        let of = |zones: &str| {
            let labels: StringMap = [(ZONE, zones)].into_iter().collect();
            let disk = InTreeVolume::GcePersistentDisk { name: "d".into() };
            MigratedVolume::translate(disk, &labels, None).handle
        };
        assert_eq!(
            of("eu-west1-a").unwrap(),
            "projects/UNSPECIFIED/zones/eu-west1-a/disks/d"
        );
        assert_eq!(
            of("eu-west1-a__eu-west1-b").unwrap(),
            "projects/UNSPECIFIED/regions/eu-west1/disks/d"
        );
        assert_eq!(
            of("").unwrap(),
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"
        );
        assert!(of("eu-west1-a__us-east1-b").is_err());
    }

    #[test]
    fn an_azure_disk_must_be_managed() {
        let disk = |kind: Option<&str>| InTreeVolume::AzureDisk {
            uri: "u".into(),
            kind: kind.map(Into::into),
        };
        assert_eq!(disk(None).inline_handle().unwrap(), "u");
        assert_eq!(disk(Some("managed")).inline_handle().unwrap(), "u");
        assert_eq!(
            disk(Some("Shared")).inline_handle().unwrap_err(),
            "kind(Shared) is not supported in csi migration"
        );
    }

    #[test]
    fn zones_of_the_affinity_become_the_drivers() {
        let affinity = terms(json!([{"matchExpressions": [
            {"key": BETA_ZONE, "operator": "In", "values": ["a"]},
            {"key": BETA_REGION, "operator": "In", "values": ["r"]},
        ]}]));
        let translated =
            MigratedVolume::translate(ebs("vol-1"), &StringMap::default(), Some(&affinity));
        let expected = terms(json!([{"matchExpressions": [
            {"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": ["a"]},
            {"key": REGION, "operator": "In", "values": ["r"]},
        ]}]));
        assert_eq!(translated.node_affinity.as_deref(), Some(&expected[..]));
    }

    #[test]
    fn without_an_affinity_the_zone_label_becomes_one() {
        let labels: StringMap = [(ZONE, "b__a")].into_iter().collect();
        let translated = MigratedVolume::translate(ebs("vol-1"), &labels, None);
        let expected = terms(json!([{"matchExpressions": [
            {"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": ["a", "b"]},
        ]}]));
        assert_eq!(translated.node_affinity.as_deref(), Some(&expected[..]));
        let none = MigratedVolume::translate(ebs("vol-1"), &StringMap::default(), None);
        assert_eq!(none.node_affinity, None);
    }
}
