//! Builds the BPF object from source.
//!
//! The target `bpfel-unknown-none` has no precompiled `core`, so the build
//! compiles it (`-Zbuild-std=core`), which takes the compiler's own sources and
//! its unstable features (`RUSTC_BOOTSTRAP=1`). What the verifier sees must not depend on
//! the machine, so the compiler is one release, [`RUSTC`], wherever it comes from:
//!
//! - Debian's `rustc-web`, `cargo-web` and `rust-web-src` in `/usr`, while they are of that
//!   release;
//! - else rustup's toolchain of that release with the component `rust-src`.
//!
//! Both are called by explicit path and with an environment made from scratch:
//! a rustup proxy earlier in `PATH`, or `RUSTUP_TOOLCHAIN` inherited from the
//! cargo that runs this very program, would otherwise mix the compiler of one
//! with the sources of the other.
//!
//! `bpf-linker` links LLVM's bitcode of all crates to one object. Its LLVM must
//! not be older than the compiler's.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// LLVM's major version that `bpf-linker` is built with.
pub const LLVM: u32 = 22;
/// The installation path of Debian's `llvm-22-dev`.
pub const LLVM_PREFIX: &str = "/usr/lib/llvm-22";
/// The version of `bpf-linker` that [`install_linker`] installs.
pub const LINKER_VERSION: &str = "0.13.0";
/// Path of the object below the workspace, where `node-agent-datapath` looks for it.
pub const OBJECT: &str = "target/bpf/orlop.bpf.o";

const TARGET: &str = "bpfel-unknown-none";
/// The release of the compiler that builds the programs.
pub const RUSTC: &str = "1.96.0";

/// Reason why the object cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `bpf-linker` is nowhere.
    #[error(
        "`bpf-linker` is neither in `{}` nor in PATH; `cargo xtask setup` installs it",
        .place.display()
    )]
    NoLinker {
        /// The expected path.
        place: PathBuf,
    },
    /// No compiler can build for BPF.
    #[error(
        "no Rust compiler here builds for BPF ({reasons}); `cargo xtask setup` installs one, as does: \
         rustup toolchain install {RUSTC} --profile minimal --component rust-src"
    )]
    NoProvider {
        /// Why each candidate is unusable.
        reasons: String,
    },
    /// LLVM's development files are missing.
    #[error("`{LLVM_PREFIX}` is missing; install the package llvm-{LLVM}-dev")]
    NoLlvm,
    /// A program could not be started.
    #[error("could not start `{}`", .program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A program failed; it has printed why.
    #[error("`{}` failed ({status}); its own messages are above", .program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
    },
    /// A file could not be read or written.
    #[error("could not {verb} `{}`", .path.display())]
    File {
        /// The operation.
        verb: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

/// A compiler that can build for BPF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// For people.
    pub name: String,
    /// Its cargo.
    pub cargo: PathBuf,
    /// Its rustc.
    pub rustc: PathBuf,
    /// What provides the sources of its standard library.
    pub sources: &'static str,
}

/// Compiles `ebpf/programs` and puts the object at `out`, which is touched only
/// if its content changes. Cargo's messages go to standard error.
///
/// # Errors
///
/// When a tool is missing (the error names it and the way to it) or fails.
pub fn build(workspace: &Path, out: &Path) -> Result<PathBuf, Error> {
    let linker = linker()?;
    let provider = provider()?;
    let scratch = workspace.join("target/bpf/build");
    let flags = [
        "-Clinker=".to_owned() + &linker.to_string_lossy(),
        "-Clink-arg=--btf".into(),
        "-Cdebuginfo=2".into(),
    ];
    let mut cargo = clean(&provider.cargo);
    cargo
        .current_dir(workspace)
        .args([
            "build",
            "--quiet",
            "--package",
            "ebpf-programs",
            "--profile",
            "bpf",
            "--target",
            TARGET,
        ])
        .arg("-Zbuild-std=core")
        .env("RUSTC", &provider.rustc)
        // A stable release accepts unstable features only with this.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &scratch)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    run(&mut cargo)?;
    let built = scratch.join(TARGET).join("bpf").join("orlop-bpf");
    let stripped = scratch.join("orlop.bpf.o");
    strip(&built, &stripped)?;
    install(&stripped, out)?;
    Ok(out.to_owned())
}

/// Installs `bpf-linker` from the registry into cargo's home; does nothing if it is
/// there.
///
/// # Errors
///
/// When LLVM's development files are missing or the installation fails.
pub fn install_linker() -> Result<PathBuf, Error> {
    if let Ok(found) = linker() {
        return Ok(found);
    }
    if !Path::new(LLVM_PREFIX).join("include/llvm-c").is_dir() {
        return Err(Error::NoLlvm);
    }
    // This one is an ordinary program: the cargo that runs us builds it.
    let cargo =
        std::env::var_os("CARGO").map_or_else(|| PathBuf::from("/usr/bin/cargo"), PathBuf::from);
    let mut command = clean(&cargo);
    command
        .args([
            "install",
            "bpf-linker",
            "--version",
            LINKER_VERSION,
            "--locked",
            "--no-default-features",
        ])
        .args(["--features", &format!("llvm-{LLVM}")])
        .arg("--root")
        .arg(tools())
        // LLVM, which does the work, is already compiled; the rest need not be optimised.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        // One is read by llvm-sys, the other by bpf-linker's own build.
        .env("LLVM_SYS_221_PREFIX", LLVM_PREFIX)
        .env("LLVM_PREFIX", LLVM_PREFIX);
    if let Some(directory) = cargo.parent() {
        command.env("RUSTC", directory.join("rustc"));
    }
    run(&mut command)?;
    linker()
}

/// The `bpf-linker` to use: the one in cargo's home, else the one in `PATH`.
///
/// # Errors
///
/// [`Error::NoLinker`].
pub fn linker() -> Result<PathBuf, Error> {
    let own = tools().join("bin/bpf-linker");
    if own.is_file() {
        return Ok(own);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join("bpf-linker"))
        .find(|candidate| candidate.is_file())
        .ok_or(Error::NoLinker { place: own })
}

/// The compiler to use: the one of release [`RUSTC`] that is complete.
///
/// # Errors
///
/// [`Error::NoProvider`], saying of each candidate what it lacks.
pub fn provider() -> Result<Provider, Error> {
    let mut reasons = Vec::new();
    for candidate in candidates() {
        match lack(&candidate) {
            None => return Ok(candidate),
            Some(reason) => reasons.push(format!("{}: {reason}", candidate.name)),
        }
    }
    Err(Error::NoProvider {
        reasons: reasons.join("; "),
    })
}

fn candidates() -> [Provider; 2] {
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let rustup =
        std::env::var_os("RUSTUP_HOME").map_or_else(|| home.join(".rustup"), PathBuf::from);
    let name = format!("{RUSTC}-{}", crate::build::TRIPLE);
    let programs = rustup.join("toolchains").join(&name).join("bin");
    [
        Provider {
            name: "Debian's rustc".into(),
            cargo: "/usr/bin/cargo".into(),
            rustc: "/usr/bin/rustc".into(),
            sources: "package rust-web-src",
        },
        Provider {
            name: format!("rustup's {name}"),
            cargo: programs.join("cargo"),
            rustc: programs.join("rustc"),
            sources: "component rust-src",
        },
    ]
}

/// Installs the pinned release by rustup, for machines whose packages have another.
///
/// # Errors
/// When rustup is missing or fails.
pub fn install_compiler() -> Result<(), Error> {
    run(Command::new("rustup")
        .args(["toolchain", "install", RUSTC, "--no-self-update"])
        .args(["--profile", "minimal", "--component", "rust-src"]))
}

/// Returns what a candidate lacks, if anything.
fn lack(candidate: &Provider) -> Option<String> {
    for program in [&candidate.cargo, &candidate.rustc] {
        if !program.is_file() {
            return Some(format!("no `{}`", program.display()));
        }
    }
    let Some(sysroot) = output(&candidate.rustc, &["--print", "sysroot"]) else {
        return Some(format!("`{}` does not run", candidate.rustc.display()));
    };
    if !Path::new(sysroot.trim())
        .join("lib/rustlib/src/rust/library/core")
        .is_dir()
    {
        let sources = candidate.sources;
        return Some(format!("no sources of the standard library ({sources})"));
    }
    let version = output(&candidate.rustc, &["-vV"]).unwrap_or_default();
    lack_of_version(&version)
}

/// Returns what is wrong with a compiler of this version.
fn lack_of_version(version: &str) -> Option<String> {
    let field = |name: &str| {
        version
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let release = field("release:").unwrap_or_default();
    if release != RUSTC {
        return Some(format!("release `{release}` is not {RUSTC}"));
    }
    let llvm = field("LLVM version:").unwrap_or_default();
    let major: u32 = llvm
        .split('.')
        .next()
        .and_then(|major| major.parse().ok())
        .unwrap_or_default();
    if major > LLVM {
        return Some(format!("its LLVM {llvm} is newer than bpf-linker's {LLVM}"));
    }
    None
}

/// Returns the destination of `cargo install`: shared by all checkouts, so that a new one
/// need not build the linker again.
pub fn tools() -> PathBuf {
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from)
}

/// A command whose environment holds only what such a build needs.
fn clean(program: &Path) -> Command {
    const KEPT: [&str; 14] = [
        "HOME",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "CARGO_HTTP_CAINFO",
        "CARGO_NET_OFFLINE",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "TERM",
    ];
    let kept = KEPT
        .iter()
        .filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let mut command = Command::new(program);
    command.env_clear().envs(kept).env(
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    );
    command
}

fn run(command: &mut Command) -> Result<(), Error> {
    let program = PathBuf::from(command.get_program());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Failed { program, status }),
        Err(source) => Err(Error::Start { program, source }),
    }
}

fn output(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = clean(program).args(arguments).output().ok()?;
    if output.status.success() {
        String::from_utf8(output.stdout).ok()
    } else {
        None
    }
}

/// Removes what only debuggers read; BTF stays. Without LLVM's own `strip`,
/// which knows BPF, the object merely remains larger.
fn strip(from: &Path, to: &Path) -> Result<(), Error> {
    let tool = Path::new(LLVM_PREFIX).join("bin/llvm-strip");
    if tool.is_file() {
        let mut command = clean(&tool);
        command.arg("--strip-debug").arg("-o").arg(to).arg(from);
        return run(&mut command);
    }
    fs::copy(from, to).map_err(|source| Error::File {
        verb: "copy",
        path: from.to_owned(),
        source,
    })?;
    Ok(())
}

/// Puts `from` at `to` by renaming, and only if they differ, so that nothing
/// that embeds the object is compiled again in vain.
fn install(from: &Path, to: &Path) -> Result<(), Error> {
    let fresh = fs::read(from).map_err(|source| Error::File {
        verb: "read",
        path: from.to_owned(),
        source,
    })?;
    if fs::read(to).is_ok_and(|present| present == fresh) {
        return Ok(());
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File {
            verb: "write",
            path,
            source,
        }
    };
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory).map_err(failed(directory))?;
    }
    let mut name: OsString = to.as_os_str().to_owned();
    name.push(".new");
    let staged = PathBuf::from(name);
    fs::write(&staged, fresh).map_err(failed(&staged))?;
    fs::rename(&staged, to).map_err(failed(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_with_newer_llvm_than_the_linker_is_refused() {
        let version = format!("rustc {RUSTC}\nrelease: {RUSTC}\nLLVM version: 23.1.0\n");
        assert_eq!(
            lack_of_version(&version),
            Some("its LLVM 23.1.0 is newer than bpf-linker's 22".into())
        );
    }

    #[test]
    fn every_release_but_the_pinned_one_is_refused() {
        for other in ["1.63.0", "1.95.0", "1.97.0-nightly"] {
            let version = format!("release: {other}\nLLVM version: 22.1.4\n");
            let refused = lack_of_version(&version).unwrap();
            assert!(
                refused.contains(other) && refused.contains(RUSTC),
                "{refused}"
            );
        }
        let version = format!("release: {RUSTC}\nLLVM version: 22.1.8\n");
        assert_eq!(lack_of_version(&version), None);
    }

    #[test]
    fn installing_the_same_object_again_leaves_the_file_alone() {
        let directory = std::env::temp_dir().join(format!("orlop-xtask-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (from, to) = (directory.join("from"), directory.join("to"));
        fs::write(&from, b"object").unwrap();
        install(&from, &to).unwrap();
        let first = fs::metadata(&to).unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        install(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), first);
        fs::remove_dir_all(&directory).unwrap();
    }
}
