//! Libraries of programs that this machine cannot run, by reading the programs.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    path::{Component, Path, PathBuf},
};

use object::{
    Endianness,
    elf::{DT_NEEDED, FileHeader64},
    read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _},
};

use crate::error::{Error, at};

/// Folders of libraries below a root, Debian's for an architecture first.
fn library_folders(architecture: &str) -> [String; 4] {
    [
        format!("lib/{architecture}-linux-gnu"),
        format!("usr/lib/{architecture}-linux-gnu"),
        "lib".to_owned(),
        "usr/lib".to_owned(),
    ]
}

/// Returns the libraries that a program is linked with, and the dynamic linker, found below
/// `root`, each with its place in a machine. A static program has none.
///
/// # Errors
/// When a file is no 64-bit ELF file, or a library is missing.
pub fn libraries_below(
    root: &Path,
    architecture: &str,
    program: &Path,
) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut found = BTreeMap::new();
    let mut waiting = VecDeque::from([program.to_owned()]);
    while let Some(file) = waiting.pop_front() {
        for needed in needed(&file)? {
            // The dynamic linker is named with its path, a library by its name.
            let name = needed.rsplit('/').next().unwrap_or_default().to_owned();
            let place = library_folders(architecture)
                .into_iter()
                .find_map(|folder| {
                    let file = resolve(root, &Path::new(&folder).join(&name))?;
                    let place = match needed.strip_prefix('/') {
                        Some(path) => path.to_owned(),
                        None => format!("{folder}/{name}"),
                    };
                    Some((place, file))
                })
                .ok_or_else(|| Error::Missing {
                    what: format!("the library `{name}` of `{}`", file.display()),
                    how: format!("remove `{}` and try again", root.display()),
                })?;
            if found.insert(place.0, place.1.clone()).is_none() {
                waiting.push_back(place.1);
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// The dynamic linker and the libraries that a file names.
fn needed(file: &Path) -> Result<Vec<String>, Error> {
    let bytes = fs::read(file).map_err(at(file))?;
    parse_needed(&bytes)
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
        .map_err(at(file))
}

fn parse_needed(bytes: &[u8]) -> Result<Vec<String>, object::read::Error> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let mut names = Vec::new();
    for segment in header.program_headers(endian, bytes)? {
        names.extend(segment.interpreter(endian, bytes)?);
    }
    let sections = header.sections(endian, bytes)?;
    if let Some((entries, strings)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, strings)?;
        for entry in entries
            .iter()
            .filter(|entry| entry.tag(endian) == DT_NEEDED)
        {
            names.push(entry.string(endian, strings)?);
        }
    }
    Ok(names
        .into_iter()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect())
}

/// Returns the file that a path below `root` leads to, where `root` stands for `/` in symbolic
/// links, or nothing if there is none.
pub fn resolve(root: &Path, path: &Path) -> Option<PathBuf> {
    // As many links as Linux follows (path_resolution(7)).
    const MOST_LINKS: usize = 40;
    let mut links = 0;
    let mut rest: VecDeque<_> = parts(path);
    let mut at = PathBuf::new();
    while let Some(part) = rest.pop_front() {
        if part == Path::new("..") {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let Ok(link) = fs::read_link(root.join(&next)) else {
            at = next;
            continue;
        };
        links += 1;
        if links > MOST_LINKS {
            return None;
        }
        if link.is_absolute() {
            at = PathBuf::new();
        }
        let mut parts = parts(&link);
        parts.append(&mut rest);
        rest = parts;
    }
    let file = root.join(at);
    file.is_file().then_some(file)
}

fn parts(path: &Path) -> VecDeque<PathBuf> {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| PathBuf::from(part.as_os_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_program_of_this_machine_has_the_libraries_that_its_dynamic_linker_loads() {
        let program = std::env::current_exe().unwrap();
        let architecture = std::env::consts::ARCH;
        let found = libraries_below(Path::new("/"), architecture, &program).unwrap();
        let name = |path: &Path| path.file_name().map(ToOwned::to_owned);
        let read: BTreeSet<_> = found
            .iter()
            .filter_map(|(place, _)| name(Path::new(place)))
            .collect();
        let loaded: BTreeSet<_> = crate::vm::programs::libraries(&program)
            .unwrap()
            .iter()
            .filter_map(|(place, _)| name(Path::new(place)))
            .collect();
        assert!(!read.is_empty());
        assert_eq!(read, loaded);
    }

    #[test]
    fn links_are_followed_within_the_root() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for folder in ["bin", "usr/sbin"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("bin/kmod"), "").unwrap();
        symlink("/bin/kmod", root.join("usr/sbin/insmod")).unwrap();
        symlink("../../bin/kmod", root.join("usr/sbin/rmmod")).unwrap();
        symlink("loop", root.join("bin/loop")).unwrap();
        symlink("usr/sbin", root.join("sbin")).unwrap();
        let kmod = Some(root.join("bin/kmod"));
        assert_eq!(resolve(root, Path::new("sbin/insmod")), kmod);
        assert_eq!(resolve(root, Path::new("sbin/rmmod")), kmod);
        assert_eq!(resolve(root, Path::new("bin/loop")), None);
        assert_eq!(resolve(root, Path::new("bin/sh")), None);
    }
}
