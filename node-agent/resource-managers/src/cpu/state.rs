//! The CPU manager's checkpoint, in the kubelet's form.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::checkpoint::{self as print, ManagerState as Checkpoint};

/// The CPU manager's checkpoint (version 2).
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct CpuState {
    pub policy_name: String,
    #[serde(rename = "defaultCpuSet")]
    pub default_cpu_set: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entries: BTreeMap<String, BTreeMap<String, String>>,
    pub checksum: u64,
}

impl Checkpoint for CpuState {
    fn policy(&self) -> &str {
        &self.policy_name
    }

    fn sum(&mut self) -> &mut u64 {
        &mut self.checksum
    }

    fn printed(&self) -> String {
        let entries = self.entries.iter().map(|(pod, own)| (pod, print::map(own)));
        let all = print::fields(&[
            ("PolicyName", print::typed("string", &self.policy_name)),
            (
                "DefaultCPUSet",
                print::typed("string", &self.default_cpu_set),
            ),
            (
                "Entries",
                print::typed("map[string]map[string]string", print::map(entries)),
            ),
            ("Checksum", print::typed("checksum.Checksum", 0)),
        ]);
        print::typed("*state.CPUManagerCheckpoint", all)
    }
}
