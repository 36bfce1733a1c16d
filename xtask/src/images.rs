//! The images that need no registry: the pause image of every pod's sandbox
//! and the demo image, each one static program, in one OCI archive.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use xtask_oci::{Content, Image, Variant};

use crate::{
    build::images_programs,
    error::{Error, at},
    run::{output, target},
};

/// The image of pods' sandboxes, as nodes know it.
pub const PAUSE: &str = "registry.orlop.dev/pause:1";
/// The image for the show and for tests.
pub const DEMO: &str = "registry.orlop.dev/demo:1";

/// The image of the probes of `orlop connectivity test`.
pub const PROBE: &str = "registry.orlop.dev/probe:1";

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
            (PROBE, programs.join("probe"), &["connectivity", "probe"]),
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

fn write_archive(path: &Path, images: &[(&str, PathBuf, &[&str])]) -> Result<(), Error> {
    let mut made = Vec::new();
    for (name, program, arguments) in images {
        let bytes = std::fs::read(program).map_err(at(program))?;
        made.push(Image {
            name: (*name).to_owned(),
            variants: vec![Variant {
                architecture: "amd64".to_owned(),
                files: vec![xtask_oci::File {
                    path: "program".to_owned(),
                    mode: 0o755,
                    content: Content::Bytes(bytes),
                }],
                entrypoint: vec!["/program".to_owned()],
                arguments: arguments.iter().map(ToString::to_string).collect(),
                user: "65535:65535".to_owned(),
                compressed: false,
            }],
            labels: Vec::new(),
        });
    }
    let file = File::create(path).map_err(at(path))?;
    xtask_oci::write(file, &made, None).map_err(at(path))
}
