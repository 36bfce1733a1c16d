//! OCI image layouts as one archive, as `ctr images import` and `podman load` take them, written
//! without a daemon and the same each time: no dates, no owners but root.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// One file of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path without a leading slash.
    pub path: String,
    /// Permissions.
    pub mode: u32,
    /// Its content.
    pub content: Content,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A regular file with these bytes.
    Bytes(Vec<u8>),
    /// A symbolic link to this path.
    Link(String),
    /// A folder.
    Folder,
}

/// An image for one or several architectures.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its name with tag, such as `registry.example.org/name:1`.
    pub name: String,
    /// One per architecture.
    pub variants: Vec<Variant>,
    /// Annotations of the image.
    pub labels: Vec<(String, String)>,
}

/// An image for one architecture.
#[derive(Clone, Debug)]
pub struct Variant {
    /// As Go names it: `amd64`, `arm64`.
    pub architecture: String,
    /// The files of its one layer.
    pub files: Vec<File>,
    /// The program.
    pub entrypoint: Vec<String>,
    /// Its arguments unless others are given.
    pub arguments: Vec<String>,
    /// User and group; empty for root.
    pub user: String,
    /// Whether the layer is compressed.
    pub compressed: bool,
}

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Writes images as one archive. `created` is a time in RFC 3339, or none.
///
/// # Errors
/// What `writer` says.
pub fn write(writer: impl Write, images: &[Image], created: Option<&str>) -> io::Result<()> {
    let mut archive = Archive {
        tar: tar::Builder::new(writer),
        digests: Vec::new(),
    };
    archive.add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let mut entries = Vec::new();
    for image in images {
        let mut manifests = Vec::new();
        for variant in &image.variants {
            manifests.push(archive.variant(image, variant, created)?);
        }
        let mut entry = match &manifests[..] {
            [only] => only.clone(),
            _ => {
                let index = json!({
                    "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests,
                });
                archive.blob(INDEX, index.to_string().as_bytes())?
            }
        };
        entry["annotations"] = json!({
            "io.containerd.image.name": image.name,
            "org.opencontainers.image.ref.name": image.name.rsplit(':').next(),
        });
        entries.push(entry);
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
    archive.add("index.json", index.to_string().as_bytes())?;
    archive.tar.finish()
}

/// An archive with these files, all of root's and without dates but `mtime`.
///
/// # Errors
/// What `writer` says.
pub fn tar(writer: impl Write, files: &[File], mtime: u64) -> io::Result<()> {
    let mut tar = tar::Builder::new(writer);
    for file in files {
        append(&mut tar, file, mtime)?;
    }
    tar.finish()
}

struct Archive<W: Write> {
    tar: tar::Builder<W>,
    digests: Vec<String>,
}

impl<W: Write> Archive<W> {
    fn add(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let file = File {
            path: path.to_owned(),
            mode: 0o644,
            content: Content::Bytes(bytes.to_vec()),
        };
        append(&mut self.tar, &file, 0)
    }

    /// Adds a blob, once, and gives its descriptor.
    fn blob(&mut self, media_type: &str, bytes: &[u8]) -> io::Result<Value> {
        let digest = sha256(bytes);
        if !self.digests.contains(&digest) {
            self.add(&format!("blobs/sha256/{digest}"), bytes)?;
            self.digests.push(digest.clone());
        }
        Ok(json!({
            "mediaType": media_type,
            "digest": format!("sha256:{digest}"),
            "size": bytes.len(),
        }))
    }

    fn variant(
        &mut self,
        image: &Image,
        variant: &Variant,
        created: Option<&str>,
    ) -> io::Result<Value> {
        let mut layer = Vec::new();
        tar(&mut layer, &variant.files, 0)?;
        let diff = format!("sha256:{}", sha256(&layer));
        let layer = if variant.compressed {
            self.blob(&format!("{LAYER}+gzip"), &gzip(&layer)?)?
        } else {
            self.blob(LAYER, &layer)?
        };
        let mut settings = json!({
            "Entrypoint": variant.entrypoint,
            "Cmd": variant.arguments,
            "User": variant.user,
            "WorkingDir": "/",
        });
        if !image.labels.is_empty() {
            let labels = image.labels.iter().cloned();
            settings["Labels"] = labels
                .map(|(key, value)| (key, Value::from(value)))
                .collect();
        }
        let mut config = json!({
            "architecture": variant.architecture,
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [diff]},
        });
        if let Some(created) = created {
            config["created"] = created.into();
        }
        let config = self.blob(CONFIG, config.to_string().as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer],
        });
        let mut descriptor = self.blob(MANIFEST, manifest.to_string().as_bytes())?;
        descriptor["platform"] = json!({"architecture": variant.architecture, "os": "linux"});
        Ok(descriptor)
    }
}

/// Compresses, without a date and a name.
///
/// # Errors
/// None in practice: it writes into memory.
pub fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// The SHA-256 sum in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    let sum = Sha256::digest(bytes);
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn append<W: Write>(tar: &mut tar::Builder<W>, file: &File, mtime: u64) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(file.mode);
    header.set_mtime(mtime);
    header.set_uid(0);
    header.set_gid(0);
    match &file.content {
        Content::Bytes(bytes) => {
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, &file.path, &bytes[..])
        }
        Content::Link(target) => {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            tar.append_link(&mut header, &file.path, target)
        }
        Content::Folder => {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_size(0);
            tar.append_data(&mut header, format!("{}/", file.path), io::empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read};

    use super::*;

    fn image(architectures: &[&str]) -> Image {
        let variant = |architecture: &&str| Variant {
            architecture: (*architecture).to_owned(),
            files: vec![File {
                path: "program".to_owned(),
                mode: 0o755,
                content: Content::Bytes(architecture.as_bytes().to_vec()),
            }],
            entrypoint: vec!["/program".to_owned()],
            arguments: vec![],
            user: "1:1".to_owned(),
            compressed: true,
        };
        Image {
            name: "registry.example.org/a:2".to_owned(),
            variants: architectures.iter().map(variant).collect(),
            labels: vec![],
        }
    }

    fn entries(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        for entry in tar::Archive::new(bytes).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            found.insert(path, content);
        }
        found
    }

    #[test]
    fn every_blob_has_the_name_of_its_sum_and_the_index_leads_to_the_program() {
        let mut bytes = Vec::new();
        write(&mut bytes, &[image(&["amd64", "arm64"])], None).unwrap();
        let files = entries(&bytes);
        for (path, content) in &files {
            if let Some(digest) = path.strip_prefix("blobs/sha256/") {
                assert_eq!(sha256(content), digest);
            }
        }
        let read = |descriptor: &Value| -> Value {
            let digest = descriptor["digest"].as_str().unwrap();
            let path = format!("blobs/sha256/{}", digest.trim_start_matches("sha256:"));
            assert_eq!(descriptor["size"], files[&path].len());
            serde_json::from_slice(&files[&path]).unwrap()
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let entry = &index["manifests"][0];
        assert_eq!(
            entry["annotations"]["io.containerd.image.name"],
            "registry.example.org/a:2"
        );
        let both = read(entry);
        let architectures: Vec<_> = (0..2)
            .map(|number| {
                let descriptor = &both["manifests"][number];
                let config = read(&read(descriptor)["config"]);
                assert_eq!(config["config"]["Entrypoint"][0], "/program");
                assert_eq!(
                    descriptor["platform"]["architecture"],
                    config["architecture"]
                );
                config["architecture"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(architectures, ["amd64", "arm64"]);
    }

    #[test]
    fn one_architecture_needs_no_index_of_its_own() {
        let mut bytes = Vec::new();
        write(
            &mut bytes,
            &[image(&["amd64"])],
            Some("2030-01-01T00:00:00Z"),
        )
        .unwrap();
        let files = entries(&bytes);
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        assert_eq!(index["manifests"][0]["mediaType"], MANIFEST);
    }

    #[test]
    fn the_same_files_make_the_same_bytes() {
        let made = || {
            let mut bytes = Vec::new();
            write(&mut bytes, &[image(&["amd64"])], None).unwrap();
            bytes
        };
        assert_eq!(made(), made());
    }
}
