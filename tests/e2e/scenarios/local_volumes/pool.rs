//! A file system for volumes, as large as the scenario needs and with reflinks.

use std::{fs, path::PathBuf};

use tests::Failure;

use super::super::node::Node;

/// The image, as the node sees it.
const IMAGE_FILE: &str = "/mnt/volumes.img";
/// Where agents keep volumes that are files.
pub const FOLDER: &str = "/var/lib/orlop/volumes";

/// XFS where the agent has its volumes, until this is dropped.
pub struct Pool<'a, 'b> {
    pub node: &'a Node<'b>,
    file: PathBuf,
}

impl<'a, 'b> Pool<'a, 'b> {
    /// Makes the pool, and starts the agent again, which finds it.
    pub fn put(node: &'a Node<'b>) -> Result<Self, Failure> {
        let file = node.folder.join("volumes.img");
        let pool = Self { node, file };
        let make = format!("truncate -s 3G {IMAGE_FILE} && mkfs.xfs -q -f {IMAGE_FILE}");
        node.run(&["sh", "-c", &make])?;
        pool.mount()?;
        node.restart_agent(0)?;
        Ok(pool)
    }

    /// Mounts what is there.
    pub fn mount(&self) -> Result<(), Failure> {
        let mount = format!("mkdir -p {FOLDER} && mount -o loop {IMAGE_FILE} {FOLDER}");
        self.node.run(&["sh", "-c", &mount]).map(drop)
    }

    /// What there is of volumes: images and records, mounts, loop devices.
    pub fn inventory(&self) -> Result<Vec<String>, Failure> {
        let script = format!(
            "cd {FOLDER} && find volumes snapshots .orlop-csi -type f ! -name lock; \
             grep -o '/dev/loop[^ ]* [^ ]*csi.orlop.dev[^ ]*' /proc/mounts; \
             losetup --list --raw --noheadings --output BACK-MAJ:MIN,NAME \
             | sed 's/\\\\x20//g' | grep \"^$(mountpoint -d .) \"; true"
        );
        let found = self.node.run(&["sh", "-c", &script])?;
        Ok(found.lines().map(str::to_owned).collect())
    }

    /// Ends devices and mounts of volumes, and the pool's own.
    fn end(&self) -> Result<(), Failure> {
        let script = format!(
            "for image in {FOLDER}/*/*.img; do \
             for device in $(losetup --noheadings --output NAME --associated $image); do \
             grep \"^$device \" /proc/mounts | cut -d' ' -f2 | xargs --no-run-if-empty umount --lazy; \
             losetup --detach $device; done; done; umount --lazy {FOLDER}"
        );
        self.node.run(&["sh", "-c", &script]).map(drop)
    }
}

impl Drop for Pool<'_, '_> {
    fn drop(&mut self) {
        // The agent has files open there: they go with it.
        let ended = self.end().and_then(|()| self.node.restart_agent(0));
        if let Err(error) = ended {
            println!("    the pool of volumes stays: {error}");
        }
        let _ = fs::remove_file(&self.file);
    }
}
