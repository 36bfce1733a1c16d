//! The OCI images: Orlop itself, and what pods' sandboxes are made of.

use std::path::Path;

use xtask_oci::{Content, File, Image, Variant};

use crate::{
    contents::{PROGRAMS, text},
    error::{Error, at},
    target::Target,
};

/// The name of Orlop's image without its tag.
pub const NAME: &str = "registry.orlop.dev/orlop";
/// The image of pods' sandboxes.
pub const PAUSE: &str = "registry.orlop.dev/pause:1";

/// Orlop's image for some targets, each with its files.
pub fn orlop(targets: &[(Target, Vec<File>)], version: &str) -> Image {
    let variant = |(target, files): &(Target, Vec<File>)| Variant {
        architecture: target.debian.to_owned(),
        files: layer(files),
        entrypoint: vec!["/usr/bin/orlop".to_owned()],
        arguments: vec!["help".to_owned()],
        user: String::new(),
        compressed: true,
    };
    let label =
        |key: &str, value: &str| (format!("org.opencontainers.image.{key}"), value.to_owned());
    Image {
        name: format!("{NAME}:{version}"),
        variants: targets.iter().map(variant).collect(),
        labels: vec![
            label("title", "Orlop"),
            label("version", version),
            label("licenses", "Apache-2.0"),
            label("source", "https://orlop.dev"),
        ],
    }
}

/// The sandbox image, where the program `pause` is beside the others.
///
/// # Errors
/// A file that cannot be read.
pub fn pause(programs: &Path, target: &Target) -> Result<Option<Image>, Error> {
    let path = programs.join("pause");
    if !path.is_file() {
        return Ok(None);
    }
    let program = File {
        path: "program".to_owned(),
        mode: 0o755,
        content: Content::Bytes(std::fs::read(&path).map_err(at(&path))?),
    };
    Ok(Some(Image {
        name: PAUSE.to_owned(),
        variants: vec![Variant {
            architecture: target.debian.to_owned(),
            files: vec![program],
            entrypoint: vec!["/program".to_owned()],
            arguments: vec![],
            user: "65535:65535".to_owned(),
            compressed: true,
        }],
        labels: vec![],
    }))
}

/// The programs, users, folders that programs expect, and licences; no shell, no libraries.
fn layer(files: &[File]) -> Vec<File> {
    let folder = |path: &str, mode| File {
        path: path.to_owned(),
        mode,
        content: Content::Folder,
    };
    let mut layer = vec![
        folder("etc", 0o755),
        text(
            "etc/passwd",
            "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
        ),
        text("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
        text("etc/nsswitch.conf", "hosts: files dns\n"),
        folder("tmp", 0o1777),
    ];
    let is_kept = |file: &&File| {
        let program = file.path.strip_prefix("usr/bin/");
        program.is_some_and(|name| PROGRAMS.contains(&name))
            || file.path.starts_with("usr/share/doc/orlop/")
    };
    let kept: Vec<File> = files.iter().filter(is_kept).cloned().collect();
    layer.extend(crate::contents::folders(&kept));
    layer.extend(kept);
    layer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::tests::sample;

    #[test]
    fn an_image_has_programs_but_no_units_and_no_configuration() {
        let target = Target::parse("x86_64-unknown-linux-musl").unwrap();
        let image = orlop(&[(target, sample())], "1.2.3");
        assert_eq!(image.name, "registry.orlop.dev/orlop:1.2.3");
        let paths: Vec<&str> = image.variants[0]
            .files
            .iter()
            .map(|file| file.path.as_str())
            .collect();
        assert!(paths.contains(&"usr/bin/orlop"), "{paths:?}");
        assert!(
            paths.iter().all(|path| !path.contains("systemd")),
            "{paths:?}"
        );
        assert!(
            paths.iter().all(|path| !path.starts_with("etc/orlop")),
            "{paths:?}"
        );
    }
}
