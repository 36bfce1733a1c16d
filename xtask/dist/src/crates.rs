//! The crates that are linked into the programs.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
};

use cargo_metadata::{DependencyKind, MetadataCommand, PackageId};

use crate::{error::Error, target::Target};

/// The packages whose programs are shipped.
const ROOTS: [&str; 3] = ["orlop", "cni", "csi"];

/// A crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence, an SPDX expression, if it names one.
    pub licence: Option<String>,
    /// Its source's SHA-256 sum; none of the workspace's own.
    pub checksum: Option<String>,
    /// Whether it is of this workspace.
    pub is_own: bool,
    /// The folder of its source.
    pub folder: PathBuf,
    /// Names and versions of those it is linked with.
    pub dependencies: BTreeSet<(String, String)>,
}

/// The crates of the programs, sorted, as they are for a target.
///
/// # Errors
/// When cargo cannot tell.
pub fn linked(workspace: &Path, target: &Target) -> Result<Vec<Crate>, Error> {
    let metadata = MetadataCommand::new()
        .manifest_path(workspace.join("Cargo.toml"))
        .other_options([
            "--locked".to_owned(),
            format!("--filter-platform={}", target.triple),
        ])
        .exec()
        .map_err(Error::Metadata)?;
    let lock = std::fs::read_to_string(workspace.join("Cargo.lock")).unwrap_or_default();
    let checksums = checksums(&lock);
    let edges = linked_with(&metadata);
    let mut queue: VecDeque<PackageId> = metadata
        .workspace_packages()
        .iter()
        .filter(|package| ROOTS.contains(&package.name.as_str()))
        .map(|package| package.id.clone())
        .collect();
    let mut seen: BTreeSet<PackageId> = queue.iter().cloned().collect();
    while let Some(id) = queue.pop_front() {
        for next in edges.get(&id).into_iter().flatten() {
            if seen.insert(next.clone()) {
                queue.push_back(next.clone());
            }
        }
    }
    let key = |id: &PackageId| {
        let package = &metadata[id];
        (package.name.to_string(), package.version.to_string())
    };
    let mut crates: Vec<Crate> = seen
        .iter()
        .map(|id| {
            let package = &metadata[id];
            let (name, version) = key(id);
            Crate {
                checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
                licence: package.license.clone(),
                is_own: package.source.is_none(),
                folder: package
                    .manifest_path
                    .parent()
                    .map(|it| it.as_std_path().to_owned())
                    .unwrap_or_default(),
                dependencies: edges.get(id).into_iter().flatten().map(key).collect(),
                name,
                version,
            }
        })
        .collect();
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(crates)
}

/// Returns what each package is linked with, without build and test dependencies.
fn linked_with(metadata: &cargo_metadata::Metadata) -> BTreeMap<PackageId, Vec<PackageId>> {
    let nodes = metadata.resolve.iter().flat_map(|it| &it.nodes);
    nodes
        .map(|node| {
            let normal = node.deps.iter().filter(|dependency| {
                let mut kinds = dependency.dep_kinds.iter();
                kinds.any(|kind| kind.kind == DependencyKind::Normal)
            });
            let ids = normal.map(|dependency| dependency.pkg.clone());
            (node.id.clone(), ids.collect())
        })
        .collect()
}

/// The sums of a `Cargo.lock` by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            let value = |key: &str| {
                let mut lines = package.lines();
                lines.find_map(|line| {
                    let rest = line.strip_prefix(key)?.strip_prefix(" = ")?;
                    Some(rest.trim_matches('"').to_owned())
                })
            };
            Some(((value("name")?, value("version")?), value("checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_linked_with_what_they_are_and_not_with_tests() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = Target::parse("x86_64-unknown-linux-gnu").unwrap();
        let crates = linked(&workspace, &target).unwrap();
        let has = |name: &str| crates.iter().any(|it| it.name == name);
        for name in [
            "orlop",
            "cni",
            "csi",
            "control-types",
            "tokio",
            "rustls",
            "aya",
        ] {
            assert!(has(name), "{name}");
        }
        for name in [
            "proptest",
            "tempfile",
            "xtask-dist",
            "minisign",
            "criterion",
        ] {
            assert!(!has(name), "{name}");
        }
        for it in &crates {
            assert_eq!(it.checksum.is_none(), it.is_own, "{}", it.name);
            assert!(it.licence.is_some(), "{} names no licence", it.name);
        }
    }
}
