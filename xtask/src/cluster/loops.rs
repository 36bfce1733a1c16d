//! Loop devices of test hosts' volumes. They belong to no namespace, so that they outlive
//! the host whose driver made them.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path, process::Command};

use nix::sys::stat::{major, minor};

use crate::run::output;

/// A file: `major:minor` of its device, and its inode.
type File = (String, u64);

/// Detaches the loop devices whose files are below `folder`.
pub fn detach(folder: &Path) {
    let mut files = BTreeSet::new();
    collect(folder, &mut files);
    if files.is_empty() {
        return;
    }
    let mut list = Command::new("losetup");
    list.args(["--list", "--raw", "--noheadings", "--output"])
        .arg("NAME,BACK-MAJ:MIN,BACK-INO");
    let Ok(listed) = output(&mut list) else {
        return;
    };
    for device in attached(&listed, &files) {
        let _ = output(Command::new("losetup").arg("--detach").arg(device));
    }
}

/// Collects the images of volumes and snapshots.
fn collect(folder: &Path, files: &mut BTreeSet<File>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        if meta.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|it| it == "img") {
            let device = format!("{}:{}", major(meta.dev()), minor(meta.dev()));
            files.insert((device, meta.ino()));
        }
    }
}

/// Returns the devices of a listing whose files are among these.
fn attached<'a>(listed: &'a str, files: &BTreeSet<File>) -> Vec<&'a str> {
    let device = |line: &'a str| {
        let mut words = line.split_whitespace();
        let (name, device, inode) = (words.next()?, words.next()?, words.next()?);
        let file = (device.to_owned(), inode.parse().ok()?);
        files.contains(&file).then_some(name)
    };
    listed.lines().filter_map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_the_clusters_files_alone_are_detached() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let volumes = folder.path().join("nodes/node-1/state/volumes");
        fs::create_dir_all(&volumes).expect("made");
        fs::write(volumes.join("pvc-1.img"), "").expect("written");
        fs::write(volumes.join("notes.txt"), "").expect("written");
        let mut files = BTreeSet::new();
        collect(folder.path(), &mut files);
        let [(device, inode)] = files.iter().collect::<Vec<_>>()[..] else {
            panic!("{files:?}");
        };
        let listed = format!(
            "/dev/loop0 {device} {inode}\n/dev/loop1 {device} {}\n/dev/loop2 254:77 {inode}\n",
            inode + 1
        );
        assert_eq!(attached(&listed, &files), ["/dev/loop0"]);
    }
}
