//! `cargo xtask dist`: static programs for other machines, and packages of them.
//! `xtask/dist`, which this runs, decides the contents of packages.

use std::path::{Path, PathBuf};

use crate::{
    apt::Apt,
    build::PLUGIN,
    ebpf,
    error::{Error, at},
    layout::{self, Order},
    run::{Step, cargo, output, run, target, which, workspace},
    vm::arch::Architecture,
};

/// For what, and where to.
#[derive(clap::Args)]
pub struct Options {
    /// Target of the programs. May be repeated.
    #[arg(
        long,
        default_value = "x86_64-unknown-linux-musl",
        value_name = "TRIPLE"
    )]
    target: Vec<String>,
    /// Folder of the artefacts.
    #[arg(long, default_value = "target/dist", value_name = "FOLDER")]
    out: PathBuf,
    /// Folder with programs that are packed as they are, for the one target, instead of building
    /// them.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Secret key that signs the sums; `cargo run -p xtask-dist -- keygen NAME` makes one.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Also write target/cargo-timings, which shows how long each crate takes to compile.
    #[arg(long)]
    timings: bool,
}

/// The profile of installed programs.
const PROFILE: &str = "dist";

/// The most that the stripped `orlop` may have, in bytes.
const LIMIT: u64 = 60_000_000;

/// Options of lld, which make programs smaller: functions with the same code become one, and a
/// relocation takes a bit (`SHT_RELR`, which musl applies) instead of 24 bytes.
const SMALLER: [&str; 3] = ["--icf=all", "-z", "pack-relative-relocs"];

/// Builds programs unless they are given, and packs them.
///
/// # Errors
/// A target or a C compiler that is missing, what does not compile, what cannot be packed.
pub fn dist(options: &Options) -> Result<(), Error> {
    let mut folders = Vec::new();
    match (&options.programs, &options.target[..]) {
        (Some(folder), [triple]) => folders.push((triple.clone(), folder.clone())),
        (Some(_), _) => {
            return Err(Error::State(
                "--programs are those of one --target".to_owned(),
            ));
        }
        (None, triples) => {
            let step = Step::begin("eBPF programs");
            ebpf::build(&workspace(), &workspace().join(ebpf::OBJECT))?;
            step.done();
            for triple in triples {
                folders.push((triple.clone(), build(triple, options.timings)?));
            }
        }
    }
    let mut command = cargo();
    command.args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "xtask-dist",
        "--",
        "pack",
    ]);
    for (triple, folder) in &folders {
        let folder = std::fs::canonicalize(folder).map_err(at(folder))?;
        command.arg("--programs");
        command.arg(format!("{triple}={}", folder.display()));
    }
    command.arg("--out").arg(absolute(&options.out)?);
    if let Some(key) = &options.key {
        command.arg("--key").arg(absolute(key)?);
    }
    if options.programs.is_none() {
        command.arg("--limit").arg(LIMIT.to_string());
    }
    run(&mut command)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(at(path))
}

/// Writes Debian packages of the programs in a folder, one of each version.
///
/// # Errors
/// What cannot be packed.
pub fn pack_deb(triple: &str, programs: &Path, versions: &[&str], out: &Path) -> Result<(), Error> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--package", "xtask-dist"]);
    command.args(["--", "deb", "--programs"]);
    command.arg(format!("{triple}={}", programs.display()));
    for version in versions {
        command.args(["--package-version", version]);
    }
    run(command.arg("--out").arg(out))
}

/// Builds the programs for a target, and gives their folder.
///
/// # Errors
/// A C compiler that is missing, what does not compile.
pub fn build(triple: &str, timings: bool) -> Result<PathBuf, Error> {
    let tools = Tools::find(triple)?;
    let with = |mut command: std::process::Command| {
        command.args(["--profile", PROFILE, "--target", triple]);
        for (name, value) in tools.environment() {
            command.env(name, value);
        }
        command
    };
    let mut command = cargo();
    command.args(["build", "--package", "orlop", "--package", "csi"]);
    command.args(["--package", "tests-images", "--bins"]);
    if timings {
        command.arg("--timings");
    }
    run(tools.arrange(&mut with(command))?)?;
    let mut command = cargo();
    command.args(["rustc", "--package", "cni", "--bin", "orlop-cni"]);
    let mut command = with(command);
    run(tools.arrange(&mut command)?.arg("--").args(PLUGIN))?;
    Ok(target().join(triple).join(PROFILE))
}

/// The C compiler of a target, and the paths of sources.
struct Tools {
    triple: String,
    compiler: Compiler,
    /// Rust's own lld. Beside it, in `gcc-ld`, it has the name by which C compilers look for it.
    lld: PathBuf,
    workspace: PathBuf,
    registry: PathBuf,
}

impl Tools {
    fn find(triple: &str) -> Result<Self, Error> {
        let libraries = output(std::process::Command::new("rustc").args([
            "--print",
            "target-libdir",
            "--target",
            triple,
        ]))?;
        if !Path::new(libraries.trim()).is_dir() {
            return Err(Error::Missing {
                what: format!("Rust's standard library for {triple}"),
                how: format!("rustup target add {triple}"),
            });
        }
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let named = |name: &str| std::env::var(name).ok();
        let mut compiler = compiler(triple, named, |it| which(it).is_some())?;
        if let Compiler::Clang { headers } = &mut compiler {
            *headers = musl_headers()?;
        }
        let host = output(std::process::Command::new("rustc").args(["--print", "target-libdir"]))?;
        let lld = Path::new(host.trim()).join("../bin/rust-lld");
        Ok(Self {
            triple: triple.to_owned(),
            compiler,
            lld,
            workspace: workspace(),
            registry: home.unwrap_or_default().join("registry/src"),
        })
    }

    /// Makes a cargo command link in the order of installed programs.
    fn arrange<'a>(
        &self,
        cargo: &'a mut std::process::Command,
    ) -> Result<&'a mut std::process::Command, Error> {
        if self.is_foreign() {
            return layout::arrange_lld(cargo, Order::Dist, &self.triple, &self.lld);
        }
        layout::arrange(cargo, Order::Dist)
    }

    /// Returns whether this machine's own C compiler cannot link for the target. Rust's lld can,
    /// with the musl that Rust has for the target.
    fn is_foreign(&self) -> bool {
        self.triple.split('-').next() != Some(std::env::consts::ARCH)
    }

    /// Variables of cargo: the same sources make the same programs wherever they are.
    fn environment(&self) -> Vec<(String, String)> {
        let key = self.triple.replace('-', "_");
        let (workspace, registry) = (self.workspace.display(), self.registry.display());
        let mut flags = vec![
            "-Ctarget-feature=+crt-static".to_owned(),
            // Names of functions are of use to `cargo xtask layout` and profilers only. cargo's
            // own option is not in force for packages with settings of their own.
            "-Cstrip=symbols".to_owned(),
            layout::MANGLING.to_owned(),
            format!("--remap-path-prefix={workspace}=/orlop"),
            format!("--remap-path-prefix={registry}=/crates"),
        ];
        let mut options = format!("-ffile-prefix-map={registry}=/crates");
        let mut variables = Vec::new();
        if self.is_foreign() {
            flags.extend(SMALLER.map(|option| format!("-Clink-arg={option}")));
        } else {
            flags.push("-Clink-arg=-fuse-ld=lld".to_owned());
            flags.push(format!("-Clink-arg=-Wl,{}", SMALLER.join(",")));
            // In a flag the path would become part of all symbols' hashes.
            let lld = self.lld.with_file_name("gcc-ld").display().to_string();
            variables.push(("COMPILER_PATH".to_owned(), lld));
        }
        let compiler = match &self.compiler {
            Compiler::Named(name) => name.as_str(),
            Compiler::Clang { headers } => {
                let headers = headers.display();
                options.push_str(&format!(" -nostdlibinc -isystem {headers}"));
                variables.push((format!("AR_{key}"), "llvm-ar".to_owned()));
                "clang"
            }
        };
        variables.extend([
            ("CARGO_ENCODED_RUSTFLAGS".to_owned(), flags.join("\u{1f}")),
            (format!("CC_{key}"), compiler.to_owned()),
            (format!("CFLAGS_{key}"), options),
        ]);
        variables
    }
}

/// The C compiler of a target.
#[derive(Debug, Eq, PartialEq)]
enum Compiler {
    /// A compiler for the target alone.
    Named(String),
    /// clang, which compiles for all targets, with musl's headers in this folder.
    Clang { headers: PathBuf },
}

/// Returns the folder of musl's headers for 64-bit ARM, out of Debian's package.
fn musl_headers() -> Result<PathBuf, Error> {
    let apt = Apt::new(Architecture::Aarch64)?;
    let root = apt.unpack_with_dependencies("musl", &["musl-dev"])?;
    Ok(root.join("usr/include/aarch64-linux-musl"))
}

/// The C compiler for a target: the one that cc's variable names, or one of the usual names, or
/// clang.
fn compiler(
    triple: &str,
    variable: impl Fn(&str) -> Option<String>,
    is_there: impl Fn(&str) -> bool,
) -> Result<Compiler, Error> {
    let key = format!("CC_{}", triple.replace('-', "_"));
    if let Some(named) = variable(&key) {
        return Ok(Compiler::Named(named));
    }
    let machine = triple.split('-').next().unwrap_or_default();
    let libc = triple.rsplit('-').next().unwrap_or_default();
    let mut names = vec![format!("{machine}-linux-{libc}-gcc")];
    if machine == std::env::consts::ARCH {
        names.push(if libc == "musl" { "musl-gcc" } else { "cc" }.to_owned());
    }
    if let Some(name) = names.iter().find(|name| is_there(name)) {
        return Ok(Compiler::Named(name.clone()));
    }
    let has_clang = triple == "aarch64-unknown-linux-musl";
    if has_clang && ["clang", "llvm-ar"].iter().all(|name| is_there(name)) {
        return Ok(Compiler::Clang {
            headers: PathBuf::new(),
        });
    }
    let package = if has_clang {
        "clang and llvm"
    } else {
        "musl-tools"
    };
    Err(Error::Missing {
        what: format!("a C compiler for {triple} ({})", names.join(", ")),
        how: format!("install one (Debian: {package}), or name it with {key}"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_compiler_for_c_is_found_by_variable_and_by_name() {
        let none = |_: &str| None;
        let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let found = compiler(&triple, none, |name| name == "musl-gcc");
        assert_eq!(found.unwrap(), Compiler::Named("musl-gcc".to_owned()));
        let named = |name: &str| name.starts_with("CC_").then(|| "my-cc".to_owned());
        let found = compiler(&triple, named, |_| false);
        assert_eq!(found.unwrap(), Compiler::Named("my-cc".to_owned()));
        let missing = compiler("sparc64-unknown-linux-musl", none, |name| {
            name == "musl-gcc"
        });
        let missing = missing.unwrap_err().to_string();
        assert!(
            missing.contains("CC_sparc64_unknown_linux_musl"),
            "{missing}"
        );
    }

    #[test]
    fn clang_compiles_for_64_bit_arm_with_headers_of_musl_and_rust_links() {
        let found = compiler(
            "aarch64-unknown-linux-musl",
            |_| None,
            |name| ["clang", "llvm-ar", "musl-gcc"].contains(&name),
        );
        let headers = PathBuf::new();
        assert_eq!(found.unwrap(), Compiler::Clang { headers });
        let tools = Tools {
            triple: "aarch64-unknown-linux-musl".to_owned(),
            compiler: Compiler::Clang {
                headers: "/musl".into(),
            },
            lld: "/rust/rust-lld".into(),
            workspace: "/home/me/orlop".into(),
            registry: "/home/me/.cargo/registry/src".into(),
        };
        let variables = tools.environment();
        let value = |name: &str| {
            let found = variables.iter().find(|(variable, _)| variable == name);
            found.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        assert_eq!(value("CC_aarch64_unknown_linux_musl"), "clang");
        assert!(value("CFLAGS_aarch64_unknown_linux_musl").contains("-isystem /musl"));
        let flags: Vec<_> = value("CARGO_ENCODED_RUSTFLAGS").split('\u{1f}').collect();
        assert!(flags.contains(&"-Clink-arg=--icf=all"), "{flags:?}");
    }

    #[test]
    fn rust_links_for_another_architecture_whatever_compiles_c() {
        let other = match std::env::consts::ARCH {
            "x86_64" => "aarch64",
            _ => "x86_64",
        };
        let of = |machine: &str| Tools {
            triple: format!("{machine}-unknown-linux-musl"),
            compiler: Compiler::Named(format!("{machine}-linux-musl-gcc")),
            lld: "/rust/rust-lld".into(),
            workspace: "/home/me/orlop".into(),
            registry: "/home/me/.cargo/registry/src".into(),
        };
        let is_linked_by_c = |tools: &Tools| {
            let variables = tools.environment();
            let has = |text: &str| variables.iter().any(|(_, value)| value.contains(text));
            assert!(has("--icf=all"));
            has("-fuse-ld=lld")
        };
        assert!(is_linked_by_c(&of(std::env::consts::ARCH)));
        assert!(!is_linked_by_c(&of(other)));
    }

    #[test]
    fn no_path_of_this_machine_gets_into_programs() {
        let tools = Tools {
            triple: "x86_64-unknown-linux-musl".to_owned(),
            compiler: Compiler::Named("musl-gcc".to_owned()),
            lld: "/rust/rust-lld".into(),
            workspace: "/home/me/orlop".into(),
            registry: "/home/me/.cargo/registry/src".into(),
        };
        let variables: BTreeMap<_, _> = tools.environment().into_iter().collect();
        let flags = &variables["CARGO_ENCODED_RUSTFLAGS"];
        for place in [
            "/home/me/orlop=/orlop",
            "/home/me/.cargo/registry/src=/crates",
        ] {
            assert!(
                flags.contains(&format!("--remap-path-prefix={place}")),
                "{flags}"
            );
        }
        assert!(!flags.contains("/rust"), "{flags}");
        assert_eq!(variables["CC_x86_64_unknown_linux_musl"], "musl-gcc");
        assert_eq!(variables["COMPILER_PATH"], "/rust/gcc-ld");
    }
}
