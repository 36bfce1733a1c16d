//! `cargo xtask manifests`: plain manifests for `kubectl apply`, rendered from the Helm chart by
//! helm itself, which is built from its Go module.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::{Error, at},
    go,
    run::{output, workspace},
};

/// A manifest, and the values that make it.
const MANIFESTS: [(&str, &[&str]); 3] = [
    ("datapath.yaml", &[]),
    (
        "network.yaml",
        &["mode=network", "apiServer.host=API_SERVER_HOST"],
    ),
    ("load-balancer.yaml", &["loadBalancer.enabled=true"]),
];

/// The oldest release that the chart supports.
const KUBERNETES: &str = "1.28.0";
/// The folder of chart and manifests.
const FOLDER: &str = "node-agent/agent/deploy";

/// Writes the manifests; with `check` only compares them with what is committed.
///
/// # Errors
/// Without helm, when the chart does not render, or, with `check`, when a manifest differs.
pub fn run(check: bool) -> Result<(), Error> {
    let folder = workspace().join(FOLDER);
    let helm = helm()?;
    output(
        Command::new(&helm)
            .args(["lint", "--strict"])
            .arg(folder.join("chart")),
    )?;
    let mut different = Vec::new();
    for (name, values) in MANIFESTS {
        let path = folder.join("manifests").join(name);
        let text = render(&helm, &folder.join("chart"), values)?;
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        if check {
            different.push(path.display().to_string());
        } else {
            fs::create_dir_all(folder.join("manifests")).map_err(at(&path))?;
            fs::write(&path, text).map_err(at(&path))?;
            println!("written  {}", path.display());
        }
    }
    if different.is_empty() {
        return Ok(());
    }
    Err(Error::State(format!(
        "not what the chart renders: {}; `cargo xtask manifests` writes them",
        different.join(", ")
    )))
}

fn helm() -> Result<PathBuf, Error> {
    go::program("helm").ok_or_else(|| Error::Missing {
        what: "`helm`".to_owned(),
        how: "`cargo xtask setup --for-tests` builds it where Go is installed".to_owned(),
    })
}

fn render(helm: &Path, chart: &Path, values: &[&str]) -> Result<String, Error> {
    let mut command = Command::new(helm);
    command.args(["template", "orlop"]).arg(chart);
    command.args(["--namespace", "kube-system", "--skip-tests"]);
    if values.contains(&"mode=network") {
        command.arg("--include-crds");
    }
    // Built from its module, helm knows no release of Kubernetes.
    command.args(["--kube-version", KUBERNETES]);
    for value in values {
        command.args(["--set", value]);
    }
    let text = output(&mut command)?;
    Ok(format!(
        "# Rendered from the chart: `cargo xtask manifests` writes it.\n{text}"
    ))
}
