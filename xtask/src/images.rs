//! The images that need no registry: the pause image of every pod's sandbox
//! and the demo image, each one static program, in one OCI archive.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    build::images_programs,
    error::{Error, at},
    run::{output, target},
};

/// The image of pods' sandboxes, as nodes know it.
pub const PAUSE: &str = "registry.orlop.dev/pause:1";
/// The image for the show and for tests.
pub const DEMO: &str = "registry.orlop.dev/demo:1";

/// Builds the programs and the archive, and gives the archive's path.
///
/// # Errors
/// When a program does not build or a file cannot be written.
pub fn build() -> Result<PathBuf, Error> {
    let programs = images_programs()?;
    let folder = target().join("images");
    let archive = folder.join("images.tar");
    let temporary = folder.join("images.tar.new");
    write_archive(
        &temporary,
        &[
            (PAUSE, programs.join("pause"), &[]),
            (DEMO, programs.join("demo"), &["serve"]),
        ],
    )?;
    std::fs::rename(&temporary, &archive).map_err(at(&archive))?;
    Ok(archive)
}

/// Imports the archive into a containerd whose socket is at `socket` as seen by
/// the process `pid`, whose mounts are used.
///
/// # Errors
/// What `ctr` says.
pub fn import(pid: i32, socket: &str, archive: &str) -> Result<(), Error> {
    output(
        Command::new("nsenter")
            .args(["--mount", "--target", &pid.to_string(), "--"])
            .args(["ctr", "--address", socket, "--namespace", "k8s.io"])
            .args(["images", "import", archive]),
    )
    .map(drop)
}

struct Archive {
    tar: tar::Builder<File>,
    path: PathBuf,
}

impl Archive {
    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        append(&mut self.tar, name, bytes, 0o644).map_err(at(&self.path))
    }

    /// Adds a blob and gives its descriptor.
    fn blob(&mut self, media_type: &str, bytes: &[u8]) -> Result<serde_json::Value, Error> {
        let digest = hex(&Sha256::digest(bytes));
        self.add(&format!("blobs/sha256/{digest}"), bytes)?;
        Ok(json!({
            "mediaType": media_type,
            "digest": format!("sha256:{digest}"),
            "size": bytes.len(),
        }))
    }
}

fn write_archive(path: &Path, images: &[(&str, PathBuf, &[&str])]) -> Result<(), Error> {
    let mut archive = Archive {
        tar: tar::Builder::new(File::create(path).map_err(at(path))?),
        path: path.to_owned(),
    };
    archive.add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let mut manifests = Vec::new();
    for (name, program, arguments) in images {
        let bytes = std::fs::read(program).map_err(at(program))?;
        let mut layer = tar::Builder::new(Vec::new());
        let entry = "program";
        append(&mut layer, entry, &bytes, 0o755).map_err(at(program))?;
        let layer = layer.into_inner().map_err(at(program))?;
        let diff = format!("sha256:{}", hex(&Sha256::digest(&layer)));
        let layer = archive.blob("application/vnd.oci.image.layer.v1.tar", &layer)?;
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": [format!("/{entry}")],
                "Cmd": arguments,
                "User": "65535:65535",
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [diff]},
        });
        let config = archive.blob(
            "application/vnd.oci.image.config.v1+json",
            config.to_string().as_bytes(),
        )?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": [layer],
        });
        let mut manifest = archive.blob(
            "application/vnd.oci.image.manifest.v1+json",
            manifest.to_string().as_bytes(),
        )?;
        manifest["annotations"] = json!({
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name.rsplit(':').next(),
        });
        manifests.push(manifest);
    }
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    archive.add("index.json", index.to_string().as_bytes())?;
    archive.tar.finish().map_err(at(path))
}

/// Adds a file of root's, with no date, so that the same program always makes
/// the same layer.
fn append<W: std::io::Write>(
    tar: &mut tar::Builder<W>,
    name: &str,
    bytes: &[u8],
    mode: u32,
) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    tar.append_data(&mut header, name, bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
