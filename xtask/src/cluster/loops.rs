//! Loop devices of test hosts' volumes. They belong to no namespace, so that they outlive
//! the host whose driver made them.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path, process::Command};

use nix::sys::stat::{major, minor};

use crate::run::output;

/// A file: `major:minor` of its device, and its inode.
type File = (String, u64);

/// Detaches the loop devices whose files are below `folder`, or on a file system that is on
/// such a device.
pub fn detach(folder: &Path) {
    let mut files = BTreeSet::new();
    collect(folder, &mut files);
    if files.is_empty() {
        return;
    }
    let mut list = Command::new("losetup");
    list.args(["--list", "--raw", "--noheadings", "--output"])
        .arg("NAME,MAJ:MIN,BACK-MAJ:MIN,BACK-INO");
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

/// Returns the devices of a listing whose files are among these or on a device that is
/// returned, the innermost first.
fn attached<'a>(listed: &'a str, files: &BTreeSet<File>) -> Vec<&'a str> {
    // Raw columns of numbers are padded with blanks, which are written as `\x20`.
    let words = |line: &'a str| line.split_whitespace().map(unpadded);
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| words(line).collect()).collect();
    let (mut names, mut numbers) = (Vec::new(), BTreeSet::new());
    loop {
        let before = names.len();
        for line in &lines {
            let [name, number, device, inode] = line[..] else {
                continue;
            };
            let inode = inode.parse();
            let is_listed = inode.is_ok_and(|inode| files.contains(&(device.to_owned(), inode)));
            if (is_listed || numbers.contains(device)) && numbers.insert(number) {
                names.push(name);
            }
        }
        if names.len() == before {
            names.reverse();
            return names;
        }
    }
}

fn unpadded(mut word: &str) -> &str {
    const BLANK: &str = "\\x20";
    while let Some(rest) = word.strip_prefix(BLANK).or(word.strip_suffix(BLANK)) {
        word = rest;
    }
    word
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
            "/dev/loop3 \\x20\\x207:3\\x20\\x20 \\x20\\x207:0\\x20\\x20 131\n\
             /dev/loop0 \\x20\\x207:0\\x20\\x20 \\x20{device}\\x20\\x20 {inode}\n\
             /dev/loop1 7:1 {device} {}\n/dev/loop2 7:2 254:77 {inode}\n\
             /dev/loop4 7:4 7:1 131\n",
            inode + 1
        );
        // The third is on a file system that is on the first.
        assert_eq!(attached(&listed, &files), ["/dev/loop3", "/dev/loop0"]);
    }
}
