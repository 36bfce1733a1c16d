//! What the agent does to its own process and folders before it runs pods.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use node_agent_files::{DIRECTORY_MODE, create_dirs, tighten};
use rustix::fs::Mode;

/// The kubelet's default of `--oom-score-adj`: nearly everything else goes first.
const OOM_SCORE: &str = "-999";

/// What the process creates is not for others, unless it says so.
const UMASK: u32 = 0o027;

/// Folders below the agent's root that only the agent, the runtime and drivers enter.
const FOLDERS: [&str; 5] = [
    "pods",
    "plugins",
    "plugins_registry",
    "device-plugins",
    "pod-resources",
];

/// Sets the umask and the OOM score of this process.
pub fn prepare_process() {
    rustix::process::umask(Mode::from_raw_mode(UMASK));
    if let Err(error) = set_oom_score(Path::new("/proc/self/oom_score_adj")) {
        // some machines let nobody lower it, and the agent works without
        tracing::info!(%error, score = OOM_SCORE, "cannot lower the OOM score of the agent");
    }
}

/// Lowers the score; one that is lower already stays.
fn set_oom_score(file: &Path) -> io::Result<()> {
    let held = fs::read_to_string(file)?;
    let wanted = OOM_SCORE.parse::<i32>();
    let lower = held.trim().parse::<i32>().ok().zip(wanted.ok());
    if lower.is_some_and(|(held, wanted)| held <= wanted) {
        return Ok(());
    }
    fs::write(file, OOM_SCORE)
}

/// Makes the agent's folder and that of pods' logs, with the kubelet's modes, and takes
/// from what is there already the permissions of everybody else.
///
/// # Errors
/// The folder that cannot be made, and why.
pub fn prepare_folders(root: &Path, logs: &Path) -> Result<(), (PathBuf, io::Error)> {
    for folder in [root, logs, &root.join("pods")] {
        create_dirs(folder, DIRECTORY_MODE).map_err(|error| (folder.to_owned(), error))?;
        // either may be a link to where there is room
        match fs::canonicalize(folder).and_then(|path| tighten(&path)) {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(folder = %folder.display(), "restricted the mode of a folder");
            }
            Err(error) => {
                let folder = folder.display();
                tracing::warn!(%folder, %error, "failed to change the mode of a folder");
            }
        }
    }
    for path in FOLDERS.iter().map(|name| root.join(name)) {
        tighten_or_warn(&path);
    }
    for pod in folders(&root.join("pods")) {
        tighten_or_warn(&pod);
        for below in ["containers", "volumes", "volume-subpaths", "volumeDevices"] {
            let below = pod.join(below);
            tighten_or_warn(&below);
            // the next are volumes themselves, or what is mounted
            folders(&below)
                .iter()
                .for_each(|path| tighten_or_warn(path));
        }
    }
    Ok(())
}

fn tighten_or_warn(folder: &Path) {
    match tighten(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "failed to change the mode of a folder");
        }
        _ => {}
    }
}

/// The folders in a folder, links not followed.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn an_old_tree_is_closed_to_others_and_what_links_lead_to_stays() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, logs) = (dir.path().join("kubelet"), dir.path().join("logs"));
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let volume = root.join("pods/u/volumes/kubernetes.io~empty-dir/v");
        let tight = [
            root.join("pods/u/volumes/kubernetes.io~empty-dir"),
            root.join("pods/u/volumes"),
            root.join("pods/u/containers/c"),
            root.join("pods/u"),
            root.join("plugins"),
            root.join("pods"),
            root.clone(),
            logs.clone(),
        ];
        fs::create_dir_all(&volume).unwrap();
        for path in &tight {
            fs::create_dir_all(path).unwrap();
            set(path, 0o755);
        }
        set(&volume, 0o777);
        set(outside.path(), 0o755);
        symlink(outside.path(), root.join("pods/link")).unwrap();
        symlink(outside.path(), root.join("pods/u/volume-subpaths")).unwrap();
        prepare_folders(&root, &logs).unwrap();
        for path in &tight {
            assert_eq!(mode(path), 0o750, "{}", path.display());
        }
        // its containers see it through a mount, as any user
        assert_eq!(mode(&volume), 0o777);
        assert_eq!(mode(outside.path()), 0o755);
    }

    #[test]
    fn the_score_is_lowered_and_never_raised() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("oom_score_adj");
        for (held, wanted) in [("0\n", "-999"), ("500\n", "-999"), ("-1000\n", "-1000\n")] {
            fs::write(&file, held).unwrap();
            set_oom_score(&file).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), wanted);
        }
        assert!(set_oom_score(&dir.path().join("none")).is_err());
    }
}
