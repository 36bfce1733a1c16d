//! MetalLB from its own manifest, in images made of programs that are built from its module.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::Command,
};

use tests::{Cluster, Failure, ensure};

use super::super::migration::{
    images,
    stock::{NODES, shell},
};

/// The programs: the variable that names another, and the name.
pub const PROGRAMS: [(&str, &str); 2] = [
    ("METALLB_CONTROLLER", "metallb-controller"),
    ("METALLB_SPEAKER", "metallb-speaker"),
];
const MODULE: &str = "go.universe.tf/metallb";
/// The manifest of MetalLB's native mode, in which the speakers implement BGP without FRR.
const MANIFEST: &str = "config/manifests/metallb-native.yaml";
/// The format of autonomous system numbers.
const NARROW: &str = "format: int32\n                maximum: 4294967295";
const WIDE: &str = "format: int64\n                maximum: 4294967295";
/// The archive of images in a node's folder, which is `/mnt` there.
const ARCHIVE: &str = "metallb.tar";

/// A MetalLB that is installed.
pub struct Metallb {
    manifest: String,
}

/// Installs MetalLB and waits until it runs.
pub fn install(cluster: &Cluster, programs: &[PathBuf]) -> Result<Metallb, Failure> {
    // Kubernetes 1.36 accepts no number whose maximum does not fit its format. MetalLB 0.16 has
    // the other format in its place.
    let text = fs::read_to_string(module()?.join(MANIFEST))?.replace(NARROW, WIDE);
    let mut made = Vec::new();
    for name in text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("image: "))
    {
        let base = images::base(name);
        let wanted = format!("metallb-{base}");
        let program = programs.iter().find(|path| path.ends_with(&wanted));
        let program = program.ok_or_else(|| format!("no program for the image {name}"))?;
        made.push(images::of_program(name, program)?);
    }
    for (node, _) in NODES {
        let archive = cluster.dir.join("nodes").join(node).join(ARCHIVE);
        xtask_oci::write(File::create(&archive)?, &made, None)?;
        let import = format!("ctr --namespace k8s.io images import /mnt/{ARCHIVE}");
        shell(cluster, node, &import)?;
        fs::remove_file(archive)?;
    }
    cluster.kubectl_with("apply -f -", &text)?;
    for workload in ["deployment/controller", "daemonset/speaker"] {
        let wait = format!("-n metallb-system rollout status {workload} --timeout=120s");
        cluster.kubectl(&wait)?;
    }
    Ok(Metallb { manifest: text })
}

impl Metallb {
    pub fn remove(&self, cluster: &Cluster) -> Result<(), Failure> {
        let delete = "delete --grace-period=1 -f -";
        cluster.kubectl_with(delete, &self.manifest).map(drop)
    }
}

/// Where Go keeps the source of the pinned version.
fn module() -> Result<PathBuf, Failure> {
    let output = Command::new("go")
        .args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", MODULE])
        .current_dir(tests::workspace().join("tests/programs/metallb"))
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.success(), format!("go list: {errors}"))?;
    Ok(String::from_utf8(output.stdout)?.trim().into())
}
