//! Which claims are prepared on the node, for whom, and what drivers made of
//! them; and how that is kept.
//!
//! The checkpoint is the kubelet's (`checkpoint.dra.kubelet.k8s.io/v1`): JSON in
//! JSON with a CRC-32 of the inner text, so that either can go on with what the
//! other left. Whether a claim was prepared is not in it: after a restart, which
//! may be one of the machine, a claim is prepared again before anything new is
//! started with it, and drivers have to put up with that.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::api;
use super::plan::UsableClaim;
use crate::checkpoint::FormatError;

/// The namespace and name of a claim.
pub type ClaimKey = (String, String);

/// A claim that pods of this node use, with its prepared devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedClaim {
    /// The claim's uid.
    pub uid: String,
    /// Uids of the pods.
    pub pods: BTreeSet<String>,
    /// By driver that has a part of it: the devices, none before it is prepared.
    pub drivers: BTreeMap<String, Vec<PreparedDevice>>,
    /// Whether all drivers have prepared it, since the agent began.
    pub prepared: bool,
}

/// A device as its driver returned it from `NodePrepareResources`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PreparedDevice {
    /// The pool that it is of.
    pub pool_name: String,
    /// Its name there.
    pub device_name: String,
    /// Which share of it.
    #[serde(rename = "ShareID")]
    pub share_id: Option<String>,
    /// The requests of the claim that it is for; all when there is none.
    #[serde(with = "nullable")]
    pub request_names: Vec<String>,
    /// What the runtime knows it by.
    #[serde(rename = "CDIDeviceIDs", with = "nullable")]
    pub cdi_device_ids: Vec<String>,
}

impl PreparedDevice {
    /// Whether the request got it; the empty one is all of the claim.
    #[must_use]
    pub fn is_for(&self, request: &str) -> bool {
        request.is_empty()
            || self.request_names.is_empty()
            || self.request_names.iter().any(|name| name == request)
    }
}

impl From<api::Device> for PreparedDevice {
    fn from(told: api::Device) -> Self {
        Self {
            pool_name: told.pool_name,
            device_name: told.device_name,
            share_id: told.share_id,
            request_names: told.request_names,
            cdi_device_ids: told.cdi_device_ids,
        }
    }
}

/// Another claim of the same name is still in use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a claim of the same name with the UID {uid} is still in use")]
pub struct ClaimInUse {
    /// The uid of the other claim.
    pub uid: String,
}

/// The claims in use on the node, as written to the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimTable(BTreeMap<ClaimKey, PreparedClaim>);

impl ClaimTable {
    /// A claim.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&PreparedClaim> {
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// All claims.
    pub fn iter(&self) -> impl Iterator<Item = (&ClaimKey, &PreparedClaim)> {
        self.0.iter()
    }

    /// The claims that a pod uses.
    #[must_use]
    pub fn claims_of_pod(&self, pod: &str) -> Vec<ClaimKey> {
        let uses = |(_, held): &(&ClaimKey, &PreparedClaim)| held.pods.contains(pod);
        let keys = self.0.iter().filter(uses).map(|(key, _)| key.clone());
        keys.collect()
    }

    /// Notes that a pod uses a claim; whether it still has to be prepared.
    ///
    /// # Errors
    /// When another claim of that name is still in use.
    pub fn enter(
        &mut self,
        pod: &str,
        key: &ClaimKey,
        claim: &UsableClaim,
    ) -> Result<bool, ClaimInUse> {
        let held = self.0.entry(key.clone()).or_insert_with(|| PreparedClaim {
            uid: claim.uid.clone(),
            drivers: (claim.drivers.iter())
                .map(|driver| (driver.clone(), Vec::new()))
                .collect(),
            ..PreparedClaim::default()
        });
        if held.uid != claim.uid {
            return Err(ClaimInUse {
                uid: held.uid.clone(),
            });
        }
        held.pods.insert(pod.to_owned());
        Ok(!held.prepared)
    }

    /// Takes in what a driver made of a claim, in place of what it told before.
    pub fn set(&mut self, key: &ClaimKey, driver: &str, devices: Vec<api::Device>) {
        if let Some(held) = self.0.get_mut(key) {
            let devices = devices.into_iter().map(PreparedDevice::from).collect();
            held.drivers.insert(driver.to_owned(), devices);
        }
    }

    /// Notes that all drivers have prepared a claim.
    pub fn prepared(&mut self, key: &ClaimKey) {
        if let Some(held) = self.0.get_mut(key) {
            held.prepared = true;
        }
    }

    /// Notes that a pod uses a claim no more. When it was the last, it stays
    /// until its drivers have taken the claim back: that claim.
    pub fn leave(&mut self, pod: &str, key: &ClaimKey) -> Option<PreparedClaim> {
        let held = self.0.get_mut(key)?;
        if held.pods.iter().any(|other| other != pod) {
            held.pods.remove(pod);
            return None;
        }
        // who comes now has it prepared anew
        held.prepared = false;
        Some(held.clone())
    }

    /// Forgets a claim that was taken back.
    pub fn remove(&mut self, key: &ClaimKey) {
        self.0.remove(key);
    }

    /// The checkpoint's text.
    #[must_use]
    pub fn save(&self) -> String {
        let entries = self
            .0
            .iter()
            .map(|((namespace, name), held)| ClaimCheckpointEntry {
                uid: held.uid.clone(),
                name: name.clone(),
                namespace: namespace.clone(),
                pods: held.pods.iter().map(|p| (p.clone(), EmptySet {})).collect(),
                drivers: (held.drivers.iter())
                    .map(|(driver, devices)| {
                        let devices = devices.clone();
                        (driver.clone(), DriverState { devices })
                    })
                    .collect(),
            });
        let data = ClaimCheckpointData {
            kind: "DRACheckpoint".to_owned(),
            api_version: "checkpoint.dra.kubelet.k8s.io/v1".to_owned(),
            claims: entries.collect(),
        };
        let data = serde_json::to_string(&data).unwrap_or_default();
        let checksum = crc32fast::hash(data.as_bytes());
        serde_json::to_string(&ClaimCheckpoint { data, checksum }).unwrap_or_default()
    }

    /// From a checkpoint's text.
    ///
    /// # Errors
    /// Why it is none.
    pub fn load(text: &str) -> Result<Self, FormatError> {
        let sealed: ClaimCheckpoint = serde_json::from_str(text)?;
        if crc32fast::hash(sealed.data.as_bytes()) != sealed.checksum {
            return Err(FormatError::Corrupted);
        }
        let data: ClaimCheckpointData = serde_json::from_str(&sealed.data)?;
        let held = data.claims.into_iter().map(|entry| {
            let drivers = entry.drivers.into_iter();
            let held = PreparedClaim {
                uid: entry.uid,
                pods: entry.pods.into_keys().collect(),
                drivers: drivers.map(|(name, own)| (name, own.devices)).collect(),
                prepared: false,
            };
            ((entry.namespace, entry.name), held)
        });
        Ok(Self(held.collect()))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ClaimCheckpoint {
    data: String,
    checksum: u32,
}

#[derive(Serialize, Deserialize)]
struct ClaimCheckpointData {
    #[serde(default)]
    kind: String,
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(rename = "ClaimInfoStateList", with = "nullable", default)]
    claims: Vec<ClaimCheckpointEntry>,
}

#[derive(Clone, Serialize, Deserialize)]
struct ClaimCheckpointEntry {
    #[serde(rename = "ClaimUID")]
    uid: String,
    #[serde(rename = "ClaimName")]
    name: String,
    #[serde(rename = "Namespace")]
    namespace: String,
    #[serde(
        rename = "PodUIDs",
        deserialize_with = "nullable::deserialize",
        default
    )]
    pods: BTreeMap<String, EmptySet>,
    #[serde(
        rename = "DriverState",
        deserialize_with = "nullable::deserialize",
        default
    )]
    drivers: BTreeMap<String, DriverState>,
}

#[derive(Clone, Serialize, Deserialize)]
struct DriverState {
    #[serde(rename = "Devices", with = "nullable", default)]
    devices: Vec<PreparedDevice>,
}

#[derive(Clone, Serialize, Deserialize)]
struct EmptySet {}

/// Go writes lists that nobody made as null, and reads maps from it as well.
mod nullable {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T, S>(value: &T, to: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize,
        for<'a> &'a T: IntoIterator,
        S: Serializer,
    {
        if value.into_iter().next().is_none() {
            to.serialize_none()
        } else {
            value.serialize(to)
        }
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: Deserialize<'de> + Default,
        D: Deserializer<'de>,
    {
        Ok(Option::deserialize(from)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kubelet writes a claim with one device and one that no driver has
    /// prepared yet; the checksums are another program's (zlib).
    const WRITTEN: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"c-1\",\"ClaimName\":\"gpu\",\"Namespace\":\"a\",\"PodUIDs\":{\"p-1\":{},\"p-2\":{}},\"DriverState\":{\"d.io\":{\"Devices\":[{\"PoolName\":\"n1\",\"DeviceName\":\"g0\",\"ShareID\":null,\"RequestNames\":[\"r\"],\"CDIDeviceIDs\":[\"d.io/gpu=g0\"]}]}}},{\"ClaimUID\":\"c-2\",\"ClaimName\":\"nic\",\"Namespace\":\"a\",\"PodUIDs\":{\"p-1\":{}},\"DriverState\":{\"e.io\":{\"Devices\":null}}}]}","Checksum":466222699}"#;

    const NOTHING: &str = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":null}","Checksum":4010664294}"#;

    fn usable(uid: &str, driver: &str) -> UsableClaim {
        UsableClaim {
            uid: uid.to_owned(),
            drivers: [driver.to_owned()].into(),
        }
    }

    fn key(name: &str) -> ClaimKey {
        ("a".to_owned(), name.to_owned())
    }

    fn device() -> api::Device {
        api::Device {
            request_names: vec!["r".to_owned()],
            pool_name: "n1".to_owned(),
            device_name: "g0".to_owned(),
            cdi_device_ids: vec!["d.io/gpu=g0".to_owned()],
            share_id: None,
        }
    }

    #[test]
    fn what_the_kubelet_left_is_gone_on_with_and_written_as_it_does() {
        let mut table = ClaimTable::load(WRITTEN).unwrap();
        assert_eq!(table.save(), WRITTEN);
        assert_eq!(ClaimTable::load(NOTHING).unwrap(), ClaimTable::default());
        assert_eq!(ClaimTable::default().save(), NOTHING);
        let gpu = table.get("a", "gpu").unwrap();
        assert_eq!(gpu.drivers["d.io"][0].cdi_device_ids, ["d.io/gpu=g0"]);
        assert!(!gpu.prepared, "drivers may have forgotten it");
        assert_eq!(table.claims_of_pod("p-1"), [key("gpu"), key("nic")]);
        // prepared again, it has its device once
        table.set(&key("gpu"), "d.io", vec![device()]);
        assert_eq!(table.save(), WRITTEN);
    }

    #[test]
    fn a_checkpoint_that_was_cut_off_or_changed_is_refused() {
        assert!(ClaimTable::load(&WRITTEN[..WRITTEN.len() - 9]).is_err());
        let changed = WRITTEN.replace("p-2", "p-3");
        assert_eq!(
            ClaimTable::load(&changed).unwrap_err().to_string(),
            "checkpoint is corrupted"
        );
        assert!(ClaimTable::load("").is_err());
    }

    #[test]
    fn fields_that_others_added_or_do_not_know_yet_do_no_harm() {
        let data = r#"{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v2","New":1,"ClaimInfoStateList":[{"ClaimUID":"u","ClaimName":"gpu","Namespace":"a","DriverState":{"d":{"Devices":[{"PoolName":"p","DeviceName":"x"}]}}}]}"#;
        let checksum = crc32fast::hash(data.as_bytes());
        let text = serde_json::json!({"Data": data, "Checksum": checksum}).to_string();
        let table = ClaimTable::load(&text).unwrap();
        assert_eq!(
            table.get("a", "gpu").unwrap().drivers["d"][0].pool_name,
            "p"
        );
    }

    #[test]
    fn a_claim_is_held_until_its_last_pod_leaves_and_drivers_took_it_back() {
        let (mut table, gpu) = (ClaimTable::default(), key("gpu"));
        assert_eq!(table.enter("p-1", &gpu, &usable("u", "d")), Ok(true));
        assert_eq!(table.enter("p-2", &gpu, &usable("u", "d")), Ok(true));
        table.prepared(&gpu);
        assert_eq!(table.enter("p-2", &gpu, &usable("u", "d")), Ok(false));
        // another claim of that name
        let other = table.enter("p-3", &gpu, &usable("v", "d"));
        assert_eq!(other.unwrap_err().uid, "u");
        assert!(table.claims_of_pod("p-3").is_empty());

        assert_eq!(table.leave("p-1", &gpu), None);
        assert!(table.claims_of_pod("p-1").is_empty());
        assert_eq!(table.leave("p-2", &gpu).unwrap().uid, "u");
        // until it was taken back, which may have to be tried again
        assert_eq!(table.claims_of_pod("p-2"), std::slice::from_ref(&gpu));
        assert_eq!(table.leave("p-2", &gpu).unwrap().uid, "u");
        assert_eq!(table.enter("p-4", &gpu, &usable("u", "d")), Ok(true));
        table.remove(&gpu);
        assert_eq!(table, ClaimTable::default());
    }
}
