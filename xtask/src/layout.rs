//! Where functions lie in the program `orlop`: those that are called lie together.
//!
//! The program is one for all parts, and a part calls a tenth of it. The kernel maps
//! sixteen pages around each page of a program that is touched, so functions scattered
//! over all of the text made most of what an agent held resident, and each call of one
//! after a pause was a miss of every cache. So the linker is given an order (lld's
//! `--symbol-ordering-file`): what an agent calls while it works, then what it calls at
//! its start, then the same of the server, then all else.
//!
//! ```text
//! ORLOP_LAYOUT_TOLD=FUNCTIONS cargo xtask build    tells what is linked
//! cargo xtask layout trace --into CALLED …         names of functions, as they are called
//! cargo xtask layout merge --linked FUNCTIONS …    writes xtask/src/layout/order.txt
//! cargo xtask build ─► rustc ─► cc: this program ─► the real one, with an order
//! ```
//!
//! The order knows functions by what outlives versions ([`names`]), and the instances of a
//! generic function by their size besides. A function that is not found any more, or is not
//! in the order yet, lies where it would without: nothing but memory and time depends on it.
//! Splitting or renaming a crate renames its functions; the order is best traced anew afterwards.

mod link;
mod names;
mod order;
mod symbols;
mod trace;

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Subcommand;

use crate::{
    error::{Error, at},
    run::{target, which, workspace},
};

/// The linker that rustc calls, unless configured otherwise.
const LINKER: &str = "cc";
/// Tells this program that it acts as the linker, and where the real one is.
const REAL: &str = "ORLOP_LAYOUT_LINKER";
/// The path of the order file.
const ORDER: &str = "ORLOP_LAYOUT_ORDER";
/// The path of the file for the list of linked functions.
const TOLD: &str = "ORLOP_LAYOUT_TOLD";

/// Operations on the order.
#[derive(Subcommand)]
pub enum LayoutVerb {
    /// Run a program and note which of its functions are called, and in which order.
    Trace {
        /// Takes their names; of those called before the second phase, FILE.start.
        #[arg(long, value_name = "FILE")]
        into: PathBuf,
        /// After so many seconds a second phase begins: the program works, it does not start.
        #[arg(long, value_name = "SECONDS")]
        second: Option<u32>,
        /// The program and its arguments.
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            required = true,
            value_name = "PROGRAM"
        )]
        command: Vec<String>,
    },
    /// Create the order from recorded calls: the first file's functions come first.
    Merge {
        /// File that `cargo xtask build` wrote about the traced program to
        /// `$ORLOP_LAYOUT_TOLD`.
        #[arg(long, value_name = "FILE")]
        linked: PathBuf,
        /// Files that `trace` wrote.
        #[arg(required = true, value_name = "FILE")]
        called: Vec<PathBuf>,
    },
}

/// Performs the operation.
///
/// # Errors
/// When a file cannot be read or written, or the program cannot be traced or fails.
pub fn perform(verb: LayoutVerb) -> Result<(), Error> {
    match verb {
        LayoutVerb::Trace {
            into,
            second,
            command,
        } => trace::trace(&command, second, &into),
        LayoutVerb::Merge { linked, called } => {
            let read = |path: &PathBuf| fs::read_to_string(path).map_err(at(path));
            let linked = link::parse_symbols(&read(&linked)?);
            let called: Vec<_> = called.iter().map(read).collect::<Result<_, _>>()?;
            let text = order::written(&linked, called.iter().flat_map(|it| it.lines()));
            fs::write(file(), text).map_err(at(&file()))
        }
    }
}

/// Makes a cargo command link in the order.
///
/// # Errors
/// When this program cannot be installed as the linker.
pub fn arrange(cargo: &mut Command) -> Result<&mut Command, Error> {
    arranged(cargo, target().join("layout"))
}

fn arranged(cargo: &mut Command, folder: PathBuf) -> Result<&mut Command, Error> {
    // The parent process may have set the same.
    let real = std::env::var_os(REAL).map(PathBuf::from);
    let (Some(real), Ok(this)) = (real.or_else(|| which(LINKER)), std::env::current_exe()) else {
        return Ok(cargo);
    };
    // It is found on the path, since cargo would rebuild everything for another linker's
    // name.
    let place = folder.join(LINKER);
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let _ = fs::remove_file(&place);
    symlink(this, &place).map_err(at(&place))?;
    let mut path = folder.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    Ok(cargo.env("PATH", path).env(REAL, real).env(ORDER, file()))
}

/// Links, if it is as a linker that this program was started.
pub fn linked() -> Option<ExitCode> {
    let (real, order) = (std::env::var_os(REAL)?, std::env::var_os(ORDER)?);
    let mut arguments = std::env::args_os();
    let called = arguments.next()?;
    if Path::new(&called).file_name()? != LINKER {
        return None;
    }
    let told = std::env::var_os(TOLD).map(PathBuf::from);
    let arguments: Vec<OsString> = arguments.collect();
    Some(link::link(
        Path::new(&real),
        Path::new(&order),
        told.as_deref(),
        &arguments,
    ))
}

fn file() -> PathBuf {
    workspace().join("xtask/src/layout/order.txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_finds_this_program_in_the_linkers_place() {
        let mut command = Command::new("cargo");
        let folder = tempfile::tempdir().unwrap();
        arranged(&mut command, folder.path().to_owned()).unwrap();
        let place = folder.path().join(LINKER);
        assert_eq!(
            fs::canonicalize(&place).unwrap(),
            fs::canonicalize(std::env::current_exe().unwrap()).unwrap()
        );
        let path = command.get_envs().find(|(name, _)| *name == "PATH");
        let path = path.and_then(|(_, value)| value).unwrap();
        let first = std::env::split_paths(path).next();
        assert_eq!(first.as_deref(), Some(folder.path()));
    }

    #[test]
    fn the_order_that_is_kept_is_one() {
        let text = fs::read_to_string(file()).unwrap();
        let entries = text.lines().filter(|line| {
            let size = line.split_once(' ').map(|(_, size)| size.parse::<u64>());
            matches!(size, Some(Ok(_)))
        });
        assert!(entries.count() > 5_000);
    }
}
