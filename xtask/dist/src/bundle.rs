//! The air-gap bundle: everything that a cluster without a registry needs, in one archive.

use std::path::{Path, PathBuf};

use xtask_oci::{Content, File};

use crate::{
    contents::text,
    error::{Error, at},
};

const README: &str = "\
Orlop, for machines without a registry

  sha256sum -c SHA256SUMS              what is here is complete
  dpkg -i packages/orlop_*.deb         or: rpm -i packages/orlop-*.rpm
  ctr -n k8s.io images import images.tar
  orlop up                             a cluster of this machine

On a cluster that exists already, import the images on each machine, then

  kubectl apply -f manifests/datapath.yaml

with the address of the API server in it, or: helm install orlop chart
";

/// Puts artefacts, images and the deployment's files together.
///
/// # Errors
/// A file of the deployment that cannot be read.
pub fn write(
    root: &str,
    packages: &[(String, Vec<u8>)],
    images: Vec<u8>,
    deploy: &Path,
    epoch: u64,
) -> Result<Vec<u8>, Error> {
    let mut files = vec![text("README.txt", README), bytes("images.tar", images)];
    for (name, content) in packages {
        files.push(bytes(&format!("packages/{name}"), content.clone()));
    }
    for folder in ["chart", "manifests"] {
        files.extend(tree(&deploy.join(folder), folder)?);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let sums = crate::signature::sums(files.iter().filter_map(|file| match &file.content {
        Content::Bytes(bytes) => Some((file.path.as_str(), &bytes[..])),
        Content::Link(_) | Content::Folder => None,
    }));
    files.push(text("SHA256SUMS", sums));
    for file in &mut files {
        file.path = format!("{root}/{}", file.path);
    }
    let mut archive = Vec::new();
    xtask_oci::tar(&mut archive, &files, epoch).map_err(at(Path::new(root)))?;
    Ok(archive)
}

fn bytes(path: &str, content: Vec<u8>) -> File {
    File {
        path: path.to_owned(),
        mode: 0o644,
        content: Content::Bytes(content),
    }
}

/// Returns the files below a folder, by their paths; none if there is no such folder.
fn tree(folder: &Path, name: &str) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    let mut folders: Vec<(PathBuf, String)> = vec![(folder.to_owned(), name.to_owned())];
    while let Some((folder, name)) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&folder).map_err(at(&folder))? {
            let path = entry.map_err(at(&folder))?.path();
            let name = format!("{name}/{}", path.file_name().unwrap_or_default().display());
            if path.is_dir() {
                folders.push((path, name));
            } else {
                files.push(bytes(&name, std::fs::read(&path).map_err(at(&path))?));
            }
        }
    }
    Ok(files)
}
