//! The tarball: the same files below one folder.

use flate2::{Compression, write::GzEncoder};
use xtask_oci::{Content, File};

/// Writes the files below `root`, compressed, with this date.
///
/// # Errors
/// None in practice: it writes into memory.
pub fn write(files: &[File], root: &str, epoch: u64) -> std::io::Result<Vec<u8>> {
    let mut below: Vec<File> = vec![File {
        path: root.to_owned(),
        mode: 0o755,
        content: Content::Folder,
    }];
    below.extend(files.iter().map(|file| File {
        path: format!("{root}/{}", file.path),
        ..file.clone()
    }));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    xtask_oci::tar(&mut encoder, &below, epoch)?;
    encoder.finish()
}
