//! Huge pages: their sizes, and the three ways in which they are written: as a
//! resource (`hugepages-2Mi`), by the runtime (`2MB`), as an option of a mount
//! (`2M`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use node_agent_cri::api::HugepageLimit;
use node_agent_objects::pod::{Container, PodSpec, ResourceRequirements};
use node_agent_objects::quantity;

/// What resources of huge pages begin with.
pub const PREFIX: &str = "hugepages-";

/// Where the kernel lists the sizes that it has.
pub const FOLDER: &str = "/sys/kernel/mm/hugepages";

fn scaled(bytes: u64) -> (u64, &'static str) {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let whole = |shift: u32| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift);
    let found = units.into_iter().find(|(shift, _)| whole(*shift));
    found.map_or((bytes, ""), |(shift, unit)| (bytes >> shift, unit))
}

/// The resource of pages of so many bytes.
#[must_use]
pub fn resource(bytes: u64) -> String {
    let (count, unit) = scaled(bytes);
    format!("{PREFIX}{count}{unit}i")
}

/// As an option of a mount.
#[must_use]
pub fn option(bytes: u64) -> String {
    let (count, unit) = scaled(bytes);
    format!("pagesize={count}{unit}")
}

/// As the runtime and control groups name the size.
#[must_use]
pub fn unit(bytes: u64) -> String {
    let (count, unit) = scaled(bytes);
    format!("{count}{unit}B")
}

/// The bytes of one page of a resource; none for a resource of something else.
#[must_use]
pub fn size(resource: &str) -> Option<u64> {
    let bytes = quantity::whole(resource.strip_prefix(PREFIX)?)?;
    u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// By bytes of a page: how many pages a folder of the kernel's says there are.
#[must_use]
pub fn pages(folder: &Path) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let size = name
            .to_str()
            .and_then(|name| name.strip_prefix("hugepages-")?.strip_suffix("kB"))
            .and_then(|kibi| kibi.parse::<u64>().ok()?.checked_mul(1024));
        let text = fs::read_to_string(entry.path().join("nr_hugepages"));
        if let Some(size) = size {
            let pages = text.ok().and_then(|text| text.trim().parse().ok());
            found.insert(size, pages.unwrap_or(0));
        }
    }
    found
}

/// By bytes of a page: how many bytes of them resources allow.
fn limits(resources: &ResourceRequirements) -> BTreeMap<u64, u64> {
    let one = |(name, text): (&String, &String)| {
        let bytes = u64::try_from(quantity::whole(text)?).ok()?;
        Some((size(name)?, bytes))
    };
    resources.limits.iter().filter_map(one).collect()
}

/// What a container may have of each size that the node has: none of those
/// that neither it nor its pod asks for.
#[must_use]
pub fn of_container(sizes: &[u64], spec: &PodSpec, container: &Container) -> Vec<HugepageLimit> {
    let mut all = spec.resources.as_ref().map(limits).unwrap_or_default();
    all.extend(limits(&container.resources));
    let one = |bytes: &u64| HugepageLimit {
        page_size: unit(*bytes),
        limit: all.get(bytes).copied().unwrap_or(0),
    };
    sizes.iter().map(one).collect()
}

/// The same of a whole pod.
#[must_use]
pub fn of_pod(sizes: &[u64], spec: &PodSpec) -> Vec<HugepageLimit> {
    let one = |bytes: &u64| HugepageLimit {
        page_size: unit(*bytes),
        limit: u64::try_from(super::qos::pod_request(spec, &resource(*bytes))).unwrap_or(0),
    };
    sizes.iter().map(one).collect()
}

/// Why a volume has no huge pages.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediumError {
    /// The pod has no limit of pages of the medium's size.
    #[error("medium {0}: the pod asks for no huge pages of that size")]
    OtherSize(String),
    /// The pod has no limit of huge pages.
    #[error("medium HugePages: the pod asks for no huge pages")]
    NoPages,
    /// The pod has limits of several sizes.
    #[error("medium HugePages: the pod asks for pages of several sizes; write HugePages-SIZE")]
    SeveralSizes,
}

/// The size of the pages of a volume of medium `HugePages`, or `HugePages-SIZE`.
///
/// # Errors
/// Why there is no such volume.
pub fn of_medium(medium: &str, spec: &PodSpec) -> Result<u64, MediumError> {
    let mut asked: Vec<u64> = spec
        .all_containers()
        .map(|c| &c.resources)
        .chain(&spec.resources)
        .flat_map(|r| limits(r).into_keys())
        .collect();
    asked.sort_unstable();
    asked.dedup();
    match medium.strip_prefix("HugePages-") {
        Some(text) => {
            let bytes = quantity::whole(text).and_then(|n| u64::try_from(n).ok());
            let found = bytes.filter(|bytes| asked.contains(bytes));
            found.ok_or_else(|| MediumError::OtherSize(medium.to_owned()))
        }
        None => match asked.as_slice() {
            [one] => Ok(*one),
            [] => Err(MediumError::NoPages),
            _ => Err(MediumError::SeveralSizes),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_written_in_three_ways() {
        let cases = [
            (64 << 10, "hugepages-64Ki", "64KB", "pagesize=64K"),
            (2 << 20, "hugepages-2Mi", "2MB", "pagesize=2M"),
            (1 << 30, "hugepages-1Gi", "1GB", "pagesize=1G"),
        ];
        for (bytes, as_resource, as_unit, as_option) in cases {
            assert_eq!(resource(bytes), as_resource);
            assert_eq!(unit(bytes), as_unit);
            assert_eq!(option(bytes), as_option);
            assert_eq!(size(as_resource), Some(bytes));
        }
        assert_eq!(size("memory"), None);
        assert_eq!(size("hugepages-"), None);
    }

    fn spec(limits: &serde_json::Value) -> PodSpec {
        serde_json::from_value(
            serde_json::json!({"containers": [{"name": "a", "resources": {"limits": limits}}]}),
        )
        .unwrap()
    }

    #[test]
    fn pages_that_nobody_asks_for_are_forbidden() {
        let spec = spec(&serde_json::json!({"hugepages-2Mi": "4Mi"}));
        let sizes = [2 << 20, 1 << 30];
        let found = of_container(&sizes, &spec, &spec.containers[0]);
        let told: Vec<(&str, u64)> = found.iter().map(|l| (&*l.page_size, l.limit)).collect();
        assert_eq!(told, [("2MB", 4 << 20), ("1GB", 0)]);
        assert_eq!(of_pod(&sizes, &spec), found);
    }

    #[test]
    fn a_medium_means_the_size_that_the_pod_asks_for() {
        let one = spec(&serde_json::json!({"hugepages-2Mi": "4Mi"}));
        let two = spec(&serde_json::json!({"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}));
        assert_eq!(of_medium("HugePages", &one), Ok(2 << 20));
        assert_eq!(of_medium("HugePages-2Mi", &two), Ok(2 << 20));
        assert!(of_medium("HugePages", &two).is_err());
        assert!(of_medium("HugePages-1Gi", &one).is_err());
        assert!(of_medium("HugePages", &PodSpec::default()).is_err());
    }
}
