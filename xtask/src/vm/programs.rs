//! Programs of machines: those that cargo builds, and those of this machine.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::{Error, at},
    run::{cargo, output, which},
};

/// Programs that `cargo test` with this selection builds of a package, by name.
///
/// # Errors
/// When they do not build, or there are none.
pub fn test_programs(
    selection: &[&str],
    is_of_package: impl Fn(&str) -> bool,
) -> Result<Vec<(String, PathBuf)>, Error> {
    let text = output(
        cargo()
            .args(["test", "--no-run", "--message-format", "json"])
            .args(selection),
    )?;
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

/// These files with programs of this machine.
///
/// # Errors
/// When this machine lacks one of them.
pub fn with_programs(
    mut files: Vec<(String, PathBuf)>,
    programs: &[&str],
) -> Result<Vec<(String, PathBuf)>, Error> {
    for program in programs {
        let path = which(program).ok_or_else(|| Error::Missing {
            what: format!("`{program}`"),
            how: "`cargo xtask setup` installs what Debian has; kubectl is looked for on the path"
                .to_owned(),
        })?;
        files.extend(libraries(&path)?);
        files.push((format!("bin/{program}"), path));
    }
    files.sort();
    files.dedup();
    Ok(files)
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
