//! A folder of files that changes as a whole, while others read it.
//!
//! ```text
//! volume/
//!   ..2026_01_02_03_04_05.123456789/   the files of one moment
//!     key
//!   ..data -> ..2026_01_02_03_04_05.123456789
//!   key -> ..data/key
//! ```
//!
//! A reader that follows `key` sees the old files until `..data` is replaced
//! by one `rename`, and the new ones from then on. The names are those that
//! the kubelet uses: programs watch `..data` to notice changes.

//!
//! Nothing in the volume is followed on the way: not a link in the place of the folder that
//! `..data` names, nor one in the place of a file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use node_agent_files::{Directory, remove_tree, set_owner};
use rustix::fs::FileType;

/// One file of a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PayloadFile {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
    /// Its owner; root when absent.
    pub user: Option<u32>,
}

/// Files by path below the volume.
pub type Payload = BTreeMap<String, PayloadFile>;

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";

/// Makes the volume at `root` hold exactly `payload`; files get the group
/// `group`, if there is one. Whether anything changed. `seen` is of the time before,
/// and none at first.
///
/// # Errors
/// When a path leads out of the volume, or the file system refuses. The old
/// files stay then.
pub fn write(
    root: &Path,
    payload: &Payload,
    group: Option<u32>,
    seen: &mut Option<PayloadStamp>,
) -> io::Result<bool> {
    write_at(root, payload, group, seen, SystemTime::now())
}

fn write_at(
    root: &Path,
    payload: &Payload,
    group: Option<u32>,
    seen: &mut Option<PayloadStamp>,
    now: SystemTime,
) -> io::Result<bool> {
    for path in payload.keys() {
        check(path)?;
    }
    let root = &Directory::open(root)?;
    let wanted = names(payload);
    if let Some(name) = current(root)?
        && let Ok(old) = root.open_dir(&name)
        && is_kept(&old, &name, payload, seen, now)?
        && wanted.iter().all(|name| root.is_symlink(name))
    {
        return Ok(false);
    }
    *seen = None;
    let (name, new) = fresh(root)?;
    let filled = fill(&new, payload, group).and_then(|()| {
        remove_tree(root, OsStr::new(DATA_NEW))?;
        root.symlink(&name, DATA_NEW)?;
        root.rename(DATA_NEW, DATA)
    });
    if let Err(error) = filled {
        let _ = remove_tree(root, OsStr::new(&name));
        return Err(error);
    }
    for visible in &wanted {
        if !root.is_symlink(visible) {
            remove_tree(root, visible)?;
            root.symlink(Path::new(DATA).join(visible), visible)?;
        }
    }
    // the files of before, and what a former agent could not finish
    for (other, _) in root.names()? {
        if other != DATA && other != *name && !wanted.contains(&other) {
            remove_tree(root, &other)?;
        }
    }
    Ok(true)
}

/// The name of the folder with the files of now; none when there is none, or the link
/// leads to something that [`write`] did not make.
fn current(root: &Directory) -> io::Result<Option<OsString>> {
    match root.read_link(DATA) {
        Ok(target) => {
            let name = target.as_bytes();
            let own = name.len() > 2 && name.starts_with(b"..") && !name.contains(&b'/');
            Ok(own.then_some(target))
        }
        // not there, or no link
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::InvalidInput
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// How long files have to be unchanged before what is seen of them is relied upon:
/// two changes in one tick of the kernel's clock look like one.
const SETTLED: Duration = Duration::from_secs(2);

/// The files' metadata after a payload was written. While it and the payload are unchanged,
/// nothing is rewritten.
#[derive(Debug)]
pub struct PayloadStamp {
    at: OsString,
    hasher: RandomState,
    payload: u64,
    looks: Vec<FileStamp>,
}

/// Device, inode, mode, size and change time of a file.
type FileStamp = (u64, u64, u32, i64, (i64, i64));

impl PayloadStamp {
    /// How the files of `payload` in `folder` look, with their folders; none when they
    /// are not all there or changed just now.
    fn of(folder: &Directory, at: &OsStr, payload: &Payload, now: SystemTime) -> Option<Self> {
        let now = now.duration_since(UNIX_EPOCH).ok()?;
        let settled = i64::try_from(now.checked_sub(SETTLED)?.as_secs()).ok()?;
        let looks = looks(folder, payload)?;
        if looks.iter().any(|(.., (seconds, _))| *seconds >= settled) {
            return None;
        }
        let hasher = RandomState::new();
        Some(Self {
            at: at.to_owned(),
            payload: hasher.hash_one(payload),
            hasher,
            looks,
        })
    }

    fn holds(&self, folder: &Directory, at: &OsStr, payload: &Payload) -> bool {
        self.at == at
            && self.payload == self.hasher.hash_one(payload)
            && looks(folder, payload).as_ref() == Some(&self.looks)
    }
}

fn looks(folder: &Directory, payload: &Payload) -> Option<Vec<FileStamp>> {
    let mut paths = BTreeSet::from([Path::new("")]);
    for path in payload.keys() {
        paths.extend(Path::new(path).ancestors());
    }
    let look = |path: &Path| {
        let found = folder.stat(path).ok()?;
        let changed = (found.st_ctime, i64::try_from(found.st_ctime_nsec).ok()?);
        Some((
            found.st_dev,
            found.st_ino,
            found.st_mode,
            found.st_size,
            changed,
        ))
    };
    paths.into_iter().map(look).collect()
}

/// Whether the files in `folder`, which is called `at`, are those of `payload`; reads them
/// only where that was not seen before.
fn is_kept(
    folder: &Directory,
    at: &OsStr,
    payload: &Payload,
    seen: &mut Option<PayloadStamp>,
    now: SystemTime,
) -> io::Result<bool> {
    let held = seen.as_ref();
    if held.is_some_and(|seen| seen.holds(folder, at, payload)) {
        return Ok(true);
    }
    // looked at before they are read: what changes meanwhile looks different later
    *seen = PayloadStamp::of(folder, at, payload, now);
    same(folder, payload)
}

/// The first components of the paths: what one sees in the volume.
fn names(payload: &Payload) -> BTreeSet<OsString> {
    payload
        .keys()
        .filter_map(|path| Path::new(path).components().next())
        .map(|first| first.as_os_str().to_owned())
        .collect()
}

fn check(path: &str) -> io::Result<()> {
    let refused = |why: &str| {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("path `{path}` {why}"),
        ))
    };
    if path.is_empty() || path.len() > 4096 {
        return refused("is empty or too long");
    }
    let mut components = Path::new(path).components().peekable();
    if let Some(Component::Normal(first)) = components.peek()
        && first.to_string_lossy().starts_with("..")
    {
        return refused("must not start with `..`");
    }
    if components.all(|c| matches!(c, Component::Normal(_))) {
        Ok(())
    } else {
        refused("must be relative and without `..`")
    }
}

fn fresh(root: &Directory) -> io::Result<(String, Directory)> {
    let stamp = jiff::Timestamp::now().strftime("..%Y_%m_%d_%H_%M_%S.");
    for _ in 0..16 {
        let name = format!("{stamp}{:09}", rand::random::<u32>());
        match root.create_dir(&name, FOLDER) {
            Ok(made) => return Ok((name, made)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("no free name for the new files"))
}

/// Mode of folders: containers of any user read the volume, through a mount of it.
const FOLDER: u32 = 0o755;

/// The same where files are a group's.
const GROUP_FOLDER: u32 = 0o2755;

fn fill(new: &Directory, payload: &Payload, group: Option<u32>) -> io::Result<()> {
    let mut folders = BTreeSet::new();
    for (path, file) in payload {
        let path = Path::new(path);
        if let Some(parent) = path.parent() {
            new.create_dirs(parent, FOLDER)?;
            let above = parent.ancestors();
            folders.extend(above.filter(|path| !path.as_os_str().is_empty()));
        }
        let mut out = new.create_file(path)?;
        out.write_all(&file.data)?;
        if file.user.is_some() || group.is_some() {
            set_owner(&out, file.user, group)?;
        }
        // the group may read, since that is what it is given for
        let mode = file.mode | if group.is_some() { 0o440 } else { 0 };
        out.set_permissions(fs::Permissions::from_mode(mode))?;
    }
    if let Some(group) = group {
        give(new, group)?;
        for path in folders {
            give(&new.open_dir(path)?, group)?;
        }
    }
    Ok(())
}

fn give(folder: &Directory, group: u32) -> io::Result<()> {
    folder.set_group(group)?;
    folder.set_mode(GROUP_FOLDER)
}

/// Gives the volume itself the owner and mode that containers need: they read it through
/// a mount of it, and nobody writes it.
///
/// # Errors
/// When the file system refuses.
pub fn open_to_containers(root: &Path, group: Option<u32>) -> io::Result<()> {
    let root = Directory::open(root)?;
    let stat = root.stat("")?;
    let mode = if group.is_some() {
        GROUP_FOLDER
    } else {
        FOLDER
    };
    if let Some(group) = group.filter(|group| *group != stat.st_gid) {
        root.set_group(group)?;
    }
    if stat.st_mode & 0o7777 != mode {
        root.set_mode(mode)?;
    }
    Ok(())
}

/// Whether the files in `folder` are those of `payload`, bytes and modes.
fn same(folder: &Directory, payload: &Payload) -> io::Result<bool> {
    let depth = |path: &String| Path::new(path).components().count();
    let deepest = payload.keys().map(depth).max().unwrap_or(0);
    let mut found = BTreeSet::new();
    if !collect(folder, Path::new(""), deepest, &mut found)? {
        return Ok(false);
    }
    if found.len() != payload.len() || !payload.keys().all(|path| found.contains(path)) {
        return Ok(false);
    }
    for (path, file) in payload {
        let Ok(open) = folder.open_file(path) else {
            return Ok(false);
        };
        let mode = open.metadata()?.permissions().mode() & 0o7777;
        let mut data = Vec::new();
        open.take(file.data.len() as u64 + 1)
            .read_to_end(&mut data)?;
        if mode | 0o440 != file.mode & 0o7777 | 0o440 || data != file.data {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Collects the paths of what is no folder. False when folders are nested deeper than
/// `deeper`: then they are not those of the payload.
fn collect(
    at: &Directory,
    path: &Path,
    deeper: usize,
    found: &mut BTreeSet<String>,
) -> io::Result<bool> {
    for (name, kind) in at.names()? {
        let path = path.join(&name);
        if kind == FileType::Directory {
            if deeper <= 1 || !collect(&at.open_dir(&name)?, &path, deeper - 1, found)? {
                return Ok(false);
            }
        } else {
            found.insert(path.to_string_lossy().into_owned());
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    fn payload(files: &[(&str, &str)]) -> Payload {
        files
            .iter()
            .map(|(path, data)| {
                let file = PayloadFile {
                    data: data.as_bytes().to_vec(),
                    mode: 0o644,
                    user: None,
                };
                ((*path).to_owned(), file)
            })
            .collect()
    }

    /// As by an agent that saw nothing before.
    fn write_at_once(root: &Path, payload: &Payload, group: Option<u32>) -> io::Result<bool> {
        write(root, payload, group, &mut None)
    }

    #[test]
    fn files_are_read_again_only_when_they_look_different() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let first = payload(&[("a", "1"), ("deep/b", "22")]);
        let mut seen = None;
        let later = SystemTime::now() + Duration::from_secs(60);
        let mut again = |payload: &Payload, now| {
            let changed = write_at(root, payload, None, &mut seen, now).unwrap();
            let name = fs::read_link(root.join(DATA)).unwrap().into_os_string();
            let data = Directory::open(&root.join(&name)).unwrap();
            let held = seen.as_ref();
            let relied = held.is_some_and(|seen| seen.holds(&data, &name, payload));
            (changed, relied)
        };
        assert_eq!(again(&first, SystemTime::now()), (true, false));
        // what was written just now is not relied upon
        assert_eq!(again(&first, SystemTime::now()), (false, false));
        assert_eq!(again(&first, later), (false, true));
        assert_eq!(again(&first, later), (false, true));
        let second = payload(&[("a", "1"), ("deep/b", "23")]);
        assert_eq!(again(&second, later), (true, false));
        assert_eq!(again(&second, later), (false, true));

        let tick = || std::thread::sleep(Duration::from_millis(20));
        let data = || root.join(fs::read_link(root.join(DATA)).unwrap());
        let faults: [(&str, &dyn Fn()); 5] = [
            ("other bytes", &|| {
                fs::write(data().join("deep/b"), "24").unwrap();
            }),
            ("another mode", &|| {
                let mode = fs::Permissions::from_mode(0o600);
                fs::set_permissions(data().join("a"), mode).unwrap();
            }),
            ("one more", &|| {
                fs::write(data().join("deep/c"), "").unwrap();
            }),
            ("one less", &|| fs::remove_file(data().join("a")).unwrap()),
            ("another file", &|| {
                fs::write(root.join("new"), "1").unwrap();
                fs::rename(root.join("new"), data().join("a")).unwrap();
                fs::write(data().join("a"), "2").unwrap();
            }),
        ];
        for (what, fault) in faults {
            assert_eq!(again(&second, later), (false, true), "before {what}");
            tick();
            fault();
            assert_eq!(again(&second, later), (true, false), "{what}");
            assert_eq!(visible(root)["deep/b"], "23", "{what}");
            assert_eq!(again(&second, later), (false, true), "after {what}");
        }
    }

    fn visible(root: &Path) -> BTreeMap<String, String> {
        fn walk(root: &Path, at: &Path, out: &mut BTreeMap<String, String>) {
            for entry in fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_string_lossy()
                    .into_owned();
                if name.starts_with("..") {
                    continue;
                }
                if path.is_dir() {
                    walk(root, &path, out);
                } else {
                    out.insert(name, fs::read_to_string(&path).unwrap());
                }
            }
        }
        let mut out = BTreeMap::new();
        walk(root, root, &mut out);
        out
    }

    #[test]
    fn volume_changes_as_a_whole_and_leaves_no_old_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert!(write_at_once(root, &payload(&[("a", "1"), ("d/e/f", "2")]), None).unwrap());
        let first = fs::read_link(root.join("..data")).unwrap();
        assert!(!write_at_once(root, &payload(&[("a", "1"), ("d/e/f", "2")]), None).unwrap());
        assert_eq!(fs::read_link(root.join("..data")).unwrap(), first);
        assert!(write_at_once(root, &payload(&[("a", "3"), ("b", "4")]), None).unwrap());
        assert_eq!(
            visible(root).into_iter().collect::<Vec<_>>(),
            [
                ("a".to_owned(), "3".to_owned()),
                ("b".to_owned(), "4".to_owned())
            ]
        );
        assert!(!root.join("d").is_symlink());
        assert!(!root.join(first).exists());
        assert_eq!(
            fs::read_link(root.join("a")).unwrap(),
            Path::new("..data/a")
        );
    }

    fn sized(files: &[(&str, usize)]) -> Payload {
        let file = |size: usize| PayloadFile {
            data: vec![b'x'; size],
            mode: 0o644,
            user: None,
        };
        files
            .iter()
            .map(|(path, size)| ((*path).to_owned(), file(*size)))
            .collect()
    }

    #[test]
    fn a_full_disk_or_a_name_that_no_file_can_have_keeps_the_old_files() {
        let mount_point = tempfile::tempdir().unwrap();
        let Some(disk) = node_agent_files::testing::SmallDisk::new(mount_point.path(), 512) else {
            return;
        };
        let root = disk.path().join("volume");
        fs::create_dir(&root).unwrap();
        let old = sized(&[("a", 3), ("b/c", 3)]);
        write_at_once(&root, &old, None).unwrap();
        let names = |root: &Path| {
            let all = fs::read_dir(root).unwrap();
            let mut all: Vec<_> = all.flatten().map(|e| e.file_name()).collect();
            all.sort();
            all
        };
        let before = names(&root);
        let is_old = || {
            assert_eq!(fs::read(root.join("a")).unwrap(), b"xxx");
            assert_eq!(fs::read(root.join("b/c")).unwrap(), b"xxx");
            assert_eq!(names(&root), before, "nothing is left of what was tried");
        };
        disk.fill();
        let more = sized(&[("a", 4), ("b/c", 300_000)]);
        assert!(write_at_once(&root, &more, None).is_err());
        is_old();
        disk.free();
        let long = "n".repeat(256);
        assert!(write_at_once(&root, &sized(&[("a", 4), (&long, 1)]), None).is_err());
        is_old();
        write_at_once(&root, &more, None).unwrap();
        assert_eq!(fs::metadata(root.join("b/c")).unwrap().len(), 300_000);
    }

    #[test]
    fn a_giant_config_map_is_a_volume_like_any_other() {
        let dir = tempfile::tempdir().unwrap();
        // as large as an object can be: many keys of the longest name
        let keys: Vec<String> = (0..1000).map(|n| format!("{n:0>253}")).collect();
        let files: Vec<(&str, usize)> = keys.iter().map(|k| (k.as_str(), 700)).collect();
        assert!(write_at_once(dir.path(), &sized(&files), None).unwrap());
        assert!(
            !write_at_once(dir.path(), &sized(&files), None).unwrap(),
            "as it is"
        );
        assert!(write_at_once(dir.path(), &sized(&files[..1]), None).unwrap());
        assert_eq!(fs::read(dir.path().join(&keys[0])).unwrap().len(), 700);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_hostile_data_link_or_folder_removes_nothing_outside() {
        let outside = tempfile::tempdir().unwrap();
        let victim = outside.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("a"), "1").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join(DATA);
        let up = Path::new("../").join(outside.path().file_name().unwrap());
        let targets = [
            victim.clone(),
            up.join("victim"),
            "..".into(),
            "../".into(),
            ".".into(),
            "..link".into(),
            "..data".into(),
        ];
        let mut files = payload(&[("a", "1"), ("b/c", "2")]);
        for (round, target) in targets.iter().enumerate() {
            write_at_once(dir.path(), &files, None).unwrap();
            let _ = fs::remove_file(dir.path().join("..link"));
            symlink(&victim, dir.path().join("..link")).unwrap();
            fs::remove_file(&data).unwrap();
            symlink(target, &data).unwrap();
            // a file and a folder that are seen give way to links, too
            fs::remove_file(dir.path().join("a")).unwrap();
            symlink(&victim, dir.path().join("stranger")).unwrap();
            files.get_mut("a").unwrap().data = vec![b'0'; round];
            assert!(write_at_once(dir.path(), &files, None).unwrap());
            assert_eq!(visible(dir.path())["a"], "0".repeat(round), "{target:?}");
            assert!(victim.join("a").exists(), "{target:?}");
            let name = fs::read_link(&data).unwrap();
            assert!(dir.path().join(name).is_dir());
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "{target:?}");
        }
        // a link in the place of the folder of the files
        let name = fs::read_link(&data).unwrap();
        let folder = dir.path().join(&name);
        fs::remove_dir_all(&folder).unwrap();
        symlink(&victim, &folder).unwrap();
        assert!(write_at_once(dir.path(), &files, None).unwrap());
        // and of one below it
        let folder = dir.path().join(fs::read_link(&data).unwrap());
        fs::remove_dir_all(folder.join("b")).unwrap();
        symlink(&victim, folder.join("b")).unwrap();
        assert!(write_at_once(dir.path(), &files, None).unwrap());
        assert_eq!(visible(dir.path())["b/c"], "2");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    }

    #[test]
    fn nobody_but_root_writes_the_volume_and_everybody_reads_it_through_a_mount() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &str| {
            let found = fs::metadata(dir.path().join(path)).unwrap();
            found.permissions().mode() & 0o7777
        };
        let files = payload(&[("a", ""), ("b/c", "")]);
        for (group, folder) in [(None, 0o755), (Some(4242), 0o2755)] {
            let group = group.filter(|_| rustix::process::getuid().is_root());
            let folder = if group.is_some() { folder } else { 0o755 };
            write_at_once(dir.path(), &payload(&[]), group).unwrap();
            write_at_once(dir.path(), &files, group).unwrap();
            open_to_containers(dir.path(), group).unwrap();
            assert_eq!([mode(""), mode("..data"), mode("b")], [folder; 3]);
        }
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../x", "/x", "a/../../x", "", "..data", "..x/y"] {
            assert!(
                write_at_once(dir.path(), &payload(&[(path, "")]), None).is_err(),
                "{path}"
            );
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn modes_are_as_asked_for_whatever_the_umask() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = payload(&[("a", "")]);
        files.get_mut("a").unwrap().mode = 0o400;
        write_at_once(dir.path(), &files, None).unwrap();
        let mode = fs::metadata(dir.path().join("a"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o400);
        files.get_mut("a").unwrap().mode = 0o666;
        assert!(write_at_once(dir.path(), &files, None).unwrap());
        let mode = fs::metadata(dir.path().join("a"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o666);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_sequence_ends_with_the_last_payload(
            steps in proptest::collection::vec(
                proptest::collection::btree_map("[a-c](/[x-z])?", "[0-9]{0,4}", 0..5), 1..6)
        ) {
            let dir = tempfile::tempdir().unwrap();
            for step in steps {
                // a file and a folder of the same name cannot both be
                let files: BTreeMap<String, String> = step
                    .iter()
                    .filter(|(path, _)| path.contains('/') || !step.keys().any(|p| p.starts_with(&format!("{path}/"))))
                    .map(|(p, d)| (p.clone(), d.clone()))
                    .collect();
                let list: Vec<(&str, &str)> = files.iter().map(|(p, d)| (p.as_str(), d.as_str())).collect();
                write_at_once(dir.path(), &payload(&list), None).unwrap();
                prop_assert_eq!(visible(dir.path()), files);
            }
        }
    }
}
