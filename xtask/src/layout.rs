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
//! ORLOP_LAYOUT_TOLD=FUNCTIONS cargo xtask build         tells what is linked; FUNCTIONS.program
//!                                                       is the same program with symbols
//! cargo xtask layout trace --into CALLED …              names of its functions, as they are called
//! cargo xtask layout merge release --linked FUNCTIONS … writes xtask/src/layout/release.txt
//! cargo xtask build ─► rustc ─► cc: this program ─► the real one, with an order
//! ```
//!
//! The same with `cargo xtask dist` and `merge dist`, whose program has an order of its own: it is
//! compiled as a whole, so that its functions are of no crate any more, and other ones are inlined.
//!
//! Traced are node agents while pods with volumes and probes come and go and Services change
//! (`cargo xtask up --programs FOLDER`, with a script as `orlop` that starts `trace`), and a server
//! under requests of every kind. What an agent calls after its start comes first.
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

/// Option of rustc: names of functions tell their types, so that the order knows each instance of a
/// generic function.
pub const MANGLING: &str = "-Csymbol-mangling-version=v0";

/// The path of the order file.
const ORDER: &str = "ORLOP_LAYOUT_ORDER";
/// The path of the file for the list of linked functions.
const TOLD: &str = "ORLOP_LAYOUT_TOLD";

/// The linkers in whose place this program acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linker {
    /// A C compiler: what rustc calls, unless configured otherwise.
    Compiler,
    /// Rust's own lld, which links for other architectures.
    Lld,
}

impl Linker {
    /// The name by which it is called.
    fn name(self) -> &'static str {
        match self {
            Self::Compiler => "cc",
            Self::Lld => "rust-lld",
        }
    }

    /// The variable that tells this program that it acts as the linker, and where the real one is.
    fn variable(self) -> &'static str {
        match self {
            Self::Compiler => "ORLOP_LAYOUT_LINKER",
            Self::Lld => "ORLOP_LAYOUT_LLD",
        }
    }

    /// An option of lld, as this linker takes it.
    fn option(self, option: &str) -> String {
        match self {
            Self::Compiler => format!("-Wl,{option}"),
            Self::Lld => option.to_owned(),
        }
    }
}

/// The orders, each of one way to build the program.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Order {
    /// That of `cargo xtask build`.
    Release,
    /// That of `cargo xtask dist`.
    Dist,
}

impl Order {
    fn file(self) -> PathBuf {
        let name = match self {
            Self::Release => "release.txt",
            Self::Dist => "dist.txt",
        };
        workspace().join("xtask/src/layout").join(name)
    }
}

/// Operations on the orders.
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
    /// Create an order from recorded calls: the first file's functions come first.
    Merge {
        /// The order.
        order: Order,
        /// File that `cargo xtask build` or `dist` wrote about the traced program to
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
        LayoutVerb::Merge {
            order,
            linked,
            called,
        } => {
            let read = |path: &PathBuf| fs::read_to_string(path).map_err(at(path));
            let linked = link::parse_symbols(&read(&linked)?);
            let called: Vec<_> = called.iter().map(read).collect::<Result<_, _>>()?;
            let text = order::written(&linked, called.iter().flat_map(|it| it.lines()));
            let file = order.file();
            fs::write(&file, text).map_err(at(&file))
        }
    }
}

/// Makes a cargo command link in the order.
///
/// # Errors
/// When this program cannot be installed as the linker.
pub fn arrange(cargo: &mut Command, order: Order) -> Result<&mut Command, Error> {
    arranged(cargo, order, target().join("layout"))
}

fn arranged(cargo: &mut Command, order: Order, folder: PathBuf) -> Result<&mut Command, Error> {
    let linker = Linker::Compiler;
    // The parent process may have set the same.
    let real = std::env::var_os(linker.variable()).map(PathBuf::from);
    let Some(real) = real.or_else(|| which(linker.name())) else {
        return Ok(cargo);
    };
    // It is found on the path, since cargo would rebuild everything for another linker's
    // name.
    install(linker, &folder)?;
    let mut path = folder.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    cargo.env("PATH", path).env(linker.variable(), real);
    Ok(cargo.env(ORDER, order.file()))
}

/// Makes a cargo command link programs for a target in the order with Rust's own lld, which is at
/// `real`.
///
/// # Errors
/// When this program cannot be installed as the linker.
pub fn arrange_lld<'a>(
    cargo: &'a mut Command,
    order: Order,
    triple: &str,
    real: &Path,
) -> Result<&'a mut Command, Error> {
    arranged_lld(cargo, order, triple, real, &target().join("layout"))
}

fn arranged_lld<'a>(
    cargo: &'a mut Command,
    order: Order,
    triple: &str,
    real: &Path,
    folder: &Path,
) -> Result<&'a mut Command, Error> {
    let linker = Linker::Lld;
    let place = install(linker, folder)?;
    let triple = triple.replace('-', "_").to_uppercase();
    cargo.env(format!("CARGO_TARGET_{triple}_LINKER"), place);
    Ok(cargo.env(linker.variable(), real).env(ORDER, order.file()))
}

/// Puts this program into a folder under a linker's name, and gives its path.
fn install(linker: Linker, folder: &Path) -> Result<PathBuf, Error> {
    let this = std::env::current_exe().map_err(at(Path::new("/proc/self/exe")))?;
    let place = folder.join(linker.name());
    fs::create_dir_all(folder).map_err(at(folder))?;
    let _ = fs::remove_file(&place);
    symlink(this, &place).map_err(at(&place))?;
    Ok(place)
}

/// Links, if it is as a linker that this program was started.
pub fn linked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let called = arguments.next()?;
    let name = Path::new(&called).file_name()?;
    let linkers = [Linker::Compiler, Linker::Lld];
    let linker = linkers.into_iter().find(|it| name == it.name())?;
    let real = std::env::var_os(linker.variable())?;
    let order = std::env::var_os(ORDER)?;
    let told = std::env::var_os(TOLD).map(PathBuf::from);
    let arguments: Vec<OsString> = arguments.collect();
    Some(link::link(
        linker,
        Path::new(&real),
        Path::new(&order),
        told.as_deref(),
        &arguments,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_finds_this_program_in_the_linkers_place() {
        let mut command = Command::new("cargo");
        let folder = tempfile::tempdir().unwrap();
        arranged(&mut command, Order::Dist, folder.path().to_owned()).unwrap();
        let place = folder.path().join(Linker::Compiler.name());
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
    fn lld_is_replaced_for_the_target_alone() {
        let mut command = Command::new("cargo");
        let triple = "aarch64-unknown-linux-musl";
        let real = Path::new("/rust/rust-lld");
        let folder = tempfile::tempdir().unwrap();
        arranged_lld(&mut command, Order::Dist, triple, real, folder.path()).unwrap();
        let variables: Vec<_> = command.get_envs().collect();
        let name = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER";
        let place = variables.iter().find(|(it, _)| *it == name).unwrap().1;
        assert!(place.is_some_and(|it| Path::new(it) == folder.path().join("rust-lld")));
        assert!(!variables.iter().any(|(it, _)| *it == "PATH"));
    }

    #[test]
    fn the_orders_that_are_kept_are_some() {
        for order in [Order::Release, Order::Dist] {
            let text = fs::read_to_string(order.file()).unwrap();
            let entries = text.lines().filter(|line| {
                let size = line.split_once(' ').map(|(_, size)| size.parse::<u64>());
                matches!(size, Some(Ok(_)))
            });
            assert!(entries.count() > 5_000, "{order:?}");
        }
    }
}
