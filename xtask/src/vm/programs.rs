//! Programs of machines: those that cargo builds, and those of this machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    arch::Architecture,
    elf::{self, libraries_below},
};
use crate::{
    apt::Apt,
    error::{Error, at},
    run::{cargo, output, which},
};

/// Debian's packages with the programs of machines of a foreign architecture.
const PACKAGES: [&str; 4] = ["iproute2", "iptables", "kmod", "nftables"];

/// Folders of programs in packages.
const FOLDERS: [&str; 4] = ["bin", "sbin", "usr/bin", "usr/sbin"];

/// Programs that `cargo test` with this selection builds of a package, by name.
///
/// # Errors
/// When they do not build, or there are none.
pub fn test_programs(
    architecture: Architecture,
    selection: &[&str],
    is_of_package: impl Fn(&str) -> bool,
) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut command = cargo();
    command
        .args(["test", "--no-run", "--message-format", "json"])
        .args(selection);
    architecture.build_tests_for(&mut command);
    let text = output(&mut command)?;
    let programs = executables(&text, is_of_package);
    if programs.is_empty() {
        return Err(Error::Failed(format!(
            "no tests to run in a machine: cargo test {}",
            selection.join(" ")
        )));
    }
    Ok(programs)
}

/// The programs of a package, by name, in cargo's messages.
pub fn executables(messages: &str, is_of_package: impl Fn(&str) -> bool) -> Vec<(String, PathBuf)> {
    let messages = messages.lines();
    messages
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| is_of_package(message["package_id"].as_str().unwrap_or_default()))
        .filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some((name, PathBuf::from(message["executable"].as_str()?)))
        })
        .collect()
}

/// Adds programs to files: those of this machine, or those of Debian's packages for a foreign
/// architecture.
///
/// # Errors
/// When a program is neither on this machine nor in the packages.
pub fn with_programs(
    architecture: Architecture,
    mut files: Vec<(String, PathBuf)>,
    programs: &[&str],
) -> Result<Vec<(String, PathBuf)>, Error> {
    let root = foreign_root(architecture)?;
    for program in programs {
        let path = match &root {
            None => which(program).ok_or_else(|| Error::Missing {
                what: format!("`{program}`"),
                how: "`cargo xtask setup` installs what Debian has; kubectl is looked for on the \
                      path"
                    .to_owned(),
            })?,
            Some(root) => FOLDERS
                .iter()
                .find_map(|folder| elf::resolve(root, &Path::new(folder).join(program)))
                .ok_or_else(|| Error::Missing {
                    what: format!("`{program}` for {}", architecture.debian()),
                    how: format!("it is in none of the packages {}", PACKAGES.join(", ")),
                })?,
        };
        files.extend(match &root {
            None => libraries(&path)?,
            Some(root) => libraries_below(root, architecture.name(), &path)?,
        });
        files.push((format!("bin/{program}"), path));
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// The extensions of iptables, which it loads by their paths.
///
/// # Errors
/// When there are none.
pub fn iptables_extensions(architecture: Architecture) -> Result<Vec<(String, PathBuf)>, Error> {
    let root = foreign_root(architecture)?.unwrap_or_else(|| PathBuf::from("/"));
    let place = format!("usr/lib/{}-linux-gnu/xtables", architecture.name());
    let folder = root.join(&place);
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).map_err(at(&folder))? {
        let name = entry.map_err(at(&folder))?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("libxt_") || name.starts_with("libipt_") {
            let place = format!("{place}/{name}");
            files.extend(elf::resolve(&root, Path::new(&place)).map(|file| (place, file)));
        }
    }
    Ok(files)
}

/// Where Debian's packages for a foreign architecture are unpacked.
fn foreign_root(architecture: Architecture) -> Result<Option<PathBuf>, Error> {
    if !architecture.is_foreign() {
        return Ok(None);
    }
    let apt = Apt::new(architecture)?;
    apt.unpack_with_dependencies("programs", &PACKAGES)
        .map(Some)
}

/// The libraries that a program is linked with; a static one has none.
///
/// # Errors
/// When `ldd` cannot be started.
pub fn libraries(program: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let found = Command::new("ldd")
        .arg(program)
        .output()
        .map_err(at(Path::new("ldd")))?;
    let text = String::from_utf8_lossy(&found.stdout);
    Ok(text
        .split_whitespace()
        .filter(|word| word.starts_with('/') && !word.ends_with(':'))
        .map(|path| (path.trim_start_matches('/').to_owned(), PathBuf::from(path)))
        .collect())
}
