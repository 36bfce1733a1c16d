//! Trees of any depth, walked by descriptors.
//!
//! A container may nest folders deeper than a path can be long, and exchange a folder
//! for a link while the tree is walked. So each folder is opened by its name in the
//! folder before, without following links or entering mounts. Only the last
//! [`OPEN_LEVELS`] folders are held open; on the way back a folder further up is opened
//! as `..` and must be the one that was left.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustc_hash::FxHashSet;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat,
};
use rustix::io::Errno;

use super::Directory;

/// How many folders of a walk are open at once.
const OPEN_LEVELS: usize = 64;

/// How often a folder is read again because it was not empty after all was removed.
const ROUNDS: u32 = 64;

/// How often a tree is counted again because a folder was moved meanwhile.
const COUNTS: usize = 3;

/// How many files of several names are remembered, so that each is counted once.
const MOST_LINKED: usize = 1 << 18;

type FileIdentity = (u64, u64);

fn identity(stat: &Stat) -> FileIdentity {
    (stat.st_dev, stat.st_ino)
}

/// A folder on the path of a walk.
struct WalkLevel {
    /// Its name in the folder above.
    name: CString,
    identity: FileIdentity,
    /// Closed while the walk is far below.
    stream: Option<Dir>,
    /// Where reading goes on after it was closed.
    offset: i64,
    rounds: u32,
}

impl WalkLevel {
    /// Opens a folder, unless it is a link or something is mounted there.
    fn open(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<Self> {
        let folder = Directory::open_dir_here(parent, name)?;
        Ok(Self {
            name: name.to_owned(),
            identity: identity(&fstat(&folder)?),
            stream: Some(Dir::new(folder)?),
            offset: 0,
            rounds: 0,
        })
    }

    fn stream(&mut self) -> io::Result<&mut Dir> {
        self.stream
            .as_mut()
            .ok_or_else(|| io::Error::other("a folder is closed while it is read"))
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.stream {
            Some(stream) => Ok(stream.fd()?),
            None => Err(io::Error::other("a folder is closed while it is read")),
        }
    }

    /// The next name, without `.` and `..`.
    fn next(&mut self) -> io::Result<Option<(CString, FileType)>> {
        while let Some(entry) = self.stream()?.read() {
            let entry = entry?;
            self.offset = entry.offset();
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                return Ok(Some((name.to_owned(), entry.file_type())));
            }
        }
        Ok(None)
    }

    /// Opens a folder again that was closed, as the parent of `child`.
    fn reopen(&mut self, child: &Self) -> io::Result<()> {
        if self.stream.is_some() {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat(child.fd()?, "..", flags, Mode::empty())?;
        if identity(&fstat(&parent)?) != self.identity {
            return Err(moved());
        }
        self.stream = Some(Dir::new(parent)?);
        Ok(())
    }
}

fn moved() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "a folder was moved while its tree was walked",
    )
}

/// Descends into `level`; a folder far above is closed.
fn push(stack: &mut Vec<WalkLevel>, level: WalkLevel) {
    stack.push(level);
    if let Some(far) = stack.len().checked_sub(OPEN_LEVELS + 1)
        && let Some(above) = stack.get_mut(far)
    {
        above.stream = None;
    }
}

fn mounted(name: &CStr) -> io::Error {
    let name = name.to_string_lossy();
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        format!("`{name}` is still mounted"),
    )
}

/// Removes the file or the folder of that name with all that is in it. Links are removed
/// and not followed; what is mounted is not touched. Nothing of that name is fine.
///
/// # Errors
/// When something cannot be removed, or is mounted below it; what was removed until then
/// is gone.
pub fn remove_tree(parent: &Directory, name: &OsStr) -> io::Result<()> {
    let name = CString::new(name.as_bytes())?;
    let mut stack = Vec::new();
    if let Some(level) = remove_one(parent.as_fd(), &name, FileType::Unknown)? {
        push(&mut stack, level);
    }
    while let Some(level) = stack.last_mut() {
        if let Some((name, kind)) = level.next()? {
            if let Some(below) = remove_one(level.fd()?, &name, kind)? {
                push(&mut stack, below);
            }
            continue;
        }
        let Some(mut level) = stack.pop() else { break };
        let above = match stack.last_mut() {
            None => parent.as_fd(),
            Some(above) => {
                // read from its beginning: what was read before is gone
                above.reopen(&level)?;
                above.fd()?
            }
        };
        match unlinkat(above, &level.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) if level.rounds < ROUNDS => {
                level.rounds += 1;
                level.stream()?.rewind();
                stack.push(level);
            }
            Err(Errno::BUSY) => return Err(mounted(&level.name)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Removes a file or an empty folder; gives a folder that has to be emptied first.
fn remove_one(at: BorrowedFd<'_>, name: &CStr, kind: FileType) -> io::Result<Option<WalkLevel>> {
    let tries = if kind == FileType::Directory {
        [AtFlags::REMOVEDIR, AtFlags::empty()]
    } else {
        [AtFlags::empty(), AtFlags::REMOVEDIR]
    };
    for flags in tries {
        match unlinkat(at, name, flags) {
            Ok(()) | Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTEMPTY | Errno::EXIST) => break,
            // it is the other of both
            Err(Errno::ISDIR | Errno::NOTDIR) => {}
            Err(Errno::PERM) if flags.is_empty() && kind == FileType::Unknown => {}
            Err(Errno::BUSY) => return Err(mounted(name)),
            Err(error) => return Err(error.into()),
        }
    }
    match WalkLevel::open(at, name) {
        Ok(level) => Ok(Some(level)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::XDEV) => Err(mounted(name)),
        Err(error) => Err(error.into()),
    }
}

/// The disk space and inodes that files take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeUsage {
    /// Bytes on disk.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

impl std::ops::AddAssign for TreeUsage {
    fn add_assign(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.inodes = self.inodes.saturating_add(other.inodes);
    }
}

/// What a file or a tree takes on its own file system; links are not followed, mounts
/// not entered, and a file of several names counts once. Nothing there takes nothing.
#[must_use]
pub fn disk_usage(path: &Path) -> TreeUsage {
    let mut most = TreeUsage::default();
    for _ in 0..COUNTS {
        let mut count = UsageCount::default();
        let counted = count.tree(path);
        most.bytes = most.bytes.max(count.usage.bytes);
        most.inodes = most.inodes.max(count.usage.inodes);
        match counted {
            // it may hide what was not reached yet
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            _ => break,
        }
    }
    most
}

#[derive(Default)]
struct UsageCount {
    usage: TreeUsage,
    linked: FxHashSet<u64>,
}

impl UsageCount {
    fn add(&mut self, stat: &Stat) {
        #[cfg_attr(
            target_arch = "x86_64",
            expect(clippy::unnecessary_cast, reason = "narrower on other architectures")
        )]
        let links = (stat.st_nlink as u64).max(1);
        let bytes = u64::try_from(stat.st_blocks)
            .unwrap_or(0)
            .saturating_mul(512);
        let folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let mut one = TreeUsage { bytes, inodes: 1 };
        if links > 1 && !folder {
            if self.linked.contains(&stat.st_ino) {
                return;
            }
            if self.linked.len() < MOST_LINKED {
                self.linked.insert(stat.st_ino);
            } else {
                // too many to remember: each name has its share
                one.bytes = bytes / links;
            }
        }
        self.usage += one;
    }

    fn tree(&mut self, path: &Path) -> io::Result<()> {
        let top = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
        self.add(&top);
        if FileType::from_raw_mode(top.st_mode) != FileType::Directory {
            return Ok(());
        }
        let root = Directory::open(path)?;
        let device = root.stat("")?.st_dev;
        let mut stack = Vec::new();
        push(&mut stack, WalkLevel::open(root.as_fd(), c".")?);
        while let Some(level) = stack.last_mut() {
            let Some((name, _)) = level.next()? else {
                let Some(level) = stack.pop() else { break };
                if let Some(above) = stack.last_mut()
                    && above.stream.is_none()
                {
                    above.reopen(&level)?;
                    let offset = above.offset;
                    above.stream()?.seek(offset)?;
                }
                continue;
            };
            let at = level.fd()?;
            // what goes away meanwhile takes nothing
            let Ok(stat) = statat(at, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if stat.st_dev != device {
                continue;
            }
            let folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let below = folder.then(|| WalkLevel::open(at, &name));
            self.add(&stat);
            match below {
                Some(Ok(below)) => push(&mut stack, below),
                // out of descriptors or of memory: what is below is not known
                Some(Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM))) => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const NAME: &str = "a folder with a name that is not short, so that few make a long path";

    /// Makes `depth` folders in one another, with a file of 8 KiB in the last.
    fn nest(path: &Path, depth: usize) {
        fs::create_dir(path).unwrap();
        let mut at = Directory::open(path).unwrap();
        for _ in 0..depth {
            at = at.create_dir(NAME, 0o755).unwrap();
        }
        let mut file = at.create_file("file").unwrap();
        io::Write::write_all(&mut file, &[1; 8192]).unwrap();
    }

    #[test]
    fn a_tree_deeper_than_a_path_is_counted_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("deep");
        let depth = 3000;
        nest(&deep, depth);
        nest(&deep.join("beside"), depth);
        fs::write(deep.join("last"), vec![1; 8192]).unwrap();
        assert!(depth * NAME.len() > 4096 * 8);
        let usage = disk_usage(&deep);
        assert_eq!(usage.inodes, 2 * (depth as u64 + 2) + 1);
        assert!(usage.bytes >= 3 * 8192);
        let parent = Directory::open(dir.path()).unwrap();
        remove_tree(&parent, OsStr::new("deep")).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        // what is gone is fine
        remove_tree(&parent, OsStr::new("deep")).unwrap();
        assert_eq!(disk_usage(&deep), TreeUsage::default());
    }

    #[test]
    fn links_are_removed_and_what_they_lead_to_stays() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("file"), "x").unwrap();
        fs::create_dir_all(dir.path().join("tree/in")).unwrap();
        symlink(outside.path(), dir.path().join("tree/away")).unwrap();
        symlink(outside.path(), dir.path().join("tree/in/away")).unwrap();
        symlink(outside.path(), dir.path().join("link")).unwrap();
        let parent = Directory::open(dir.path()).unwrap();
        for name in ["tree", "link"] {
            remove_tree(&parent, OsStr::new(name)).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(outside.path().join("file").exists());
    }

    #[test]
    fn a_link_that_takes_a_folder_s_place_meanwhile_leads_nowhere() {
        use rustix::fs::{RenameFlags, renameat_with};
        use std::sync::atomic::{AtomicBool, Ordering};
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("victim");
        fs::create_dir(&victim).unwrap();
        for number in 0..8 {
            fs::write(victim.join(number.to_string()), "x").unwrap();
        }
        let tree = dir.path().join("tree");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // a folder and a link of the same names as those of the victim
                while !stop.load(Ordering::Relaxed) {
                    let (a, b) = (tree.join("a"), tree.join("b"));
                    let _ = renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE);
                }
            });
            let parent = Directory::open(dir.path()).unwrap();
            for _ in 0..300 {
                fs::create_dir_all(tree.join("a")).unwrap();
                for number in 0..8 {
                    let _ = fs::write(tree.join("a").join(number.to_string()), "x");
                }
                let _ = symlink(&victim, tree.join("b"));
                let _ = remove_tree(&parent, OsStr::new("tree"));
                let _ = fs::remove_file(tree.join("a"));
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 8);
    }

    #[test]
    fn mounts_below_are_neither_entered_nor_removed() {
        let mount_point = tempfile::tempdir().unwrap();
        let Some(disk) = crate::testing::SmallDisk::new(mount_point.path(), 256) else {
            return;
        };
        // a second mount of the same file system: its device is the same
        let (source, target) = (disk.path().join("data"), disk.path().join("tree/in/mount"));
        fs::create_dir_all(&source).unwrap();
        fs::create_dir_all(&target).unwrap();
        fs::write(source.join("file"), vec![1; 64 << 10]).unwrap();
        rustix::mount::mount_bind(&source, &target).unwrap();
        let usage = disk_usage(&disk.path().join("tree"));
        let parent = Directory::open(disk.path()).unwrap();
        let error = remove_tree(&parent, OsStr::new("tree"));
        rustix::mount::unmount(&target, rustix::mount::UnmountFlags::DETACH).unwrap();
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert!(source.join("file").exists());
        assert!(usage.bytes < 64 << 10, "{usage:?}");
        remove_tree(&parent, OsStr::new("tree")).unwrap();
    }

    #[test]
    fn what_is_below_a_folder_is_counted_once_and_nothing_outside() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("big"), vec![1; 1 << 20]).unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        let file = dir.path().join("a/file");
        fs::write(&file, vec![1; 64 << 10]).unwrap();
        fs::hard_link(&file, dir.path().join("again")).unwrap();
        symlink(other.path(), dir.path().join("out")).unwrap();
        let TreeUsage { bytes, inodes } = disk_usage(dir.path());
        assert!((64 << 10..200 << 10).contains(&bytes), "{bytes}");
        assert_eq!(inodes, 4);
        assert!(disk_usage(&file).bytes >= 64 << 10);
        assert_eq!(disk_usage(&dir.path().join("out")).inodes, 1);
    }
}
