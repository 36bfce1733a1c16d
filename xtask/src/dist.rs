//! `cargo xtask dist`: static programs for other machines, and packages of them.
//! `xtask/dist`, which this runs, decides the contents of packages.

use std::path::{Path, PathBuf};

use crate::{
    build::PLUGIN,
    ebpf,
    error::{Error, at},
    layout,
    run::{Step, cargo, output, run, target, which, workspace},
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

/// The most that the stripped `orlop` may have, in bytes.
const LIMIT: u64 = 60_000_000;

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
        command.args(["--release", "--target", triple]);
        // Names of functions are of use to `cargo xtask layout` and profilers only.
        command.args(["--config", "profile.release.strip=\"symbols\""]);
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
    run(layout::arrange(&mut with(command))?)?;
    let mut command = cargo();
    command.args(["rustc", "--package", "cni", "--bin", "orlop-cni"]);
    let mut command = with(command);
    run(command.arg("--").args(PLUGIN))?;
    Ok(target().join(triple).join("release"))
}

/// The C compiler of a target, and the paths of sources.
struct Tools {
    triple: String,
    compiler: String,
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
        Ok(Self {
            triple: triple.to_owned(),
            compiler: compiler(
                triple,
                |name| std::env::var(name).ok(),
                |it| which(it).is_some(),
            )?,
            workspace: workspace(),
            registry: home.unwrap_or_default().join("registry/src"),
        })
    }

    /// Variables of cargo: the same sources make the same programs wherever they are.
    fn environment(&self) -> Vec<(String, String)> {
        let key = self.triple.replace('-', "_");
        let (workspace, registry) = (self.workspace.display(), self.registry.display());
        let flags = [
            "-Ctarget-feature=+crt-static".to_owned(),
            format!("--remap-path-prefix={workspace}=/orlop"),
            format!("--remap-path-prefix={registry}=/crates"),
        ];
        vec![
            ("CARGO_ENCODED_RUSTFLAGS".to_owned(), flags.join("\u{1f}")),
            (format!("CC_{key}"), self.compiler.clone()),
            (
                format!("CFLAGS_{key}"),
                format!("-ffile-prefix-map={registry}=/crates"),
            ),
        ]
    }
}

/// The C compiler for a target: the one that cc's variable names, or one of the usual names.
fn compiler(
    triple: &str,
    variable: impl Fn(&str) -> Option<String>,
    is_there: impl Fn(&str) -> bool,
) -> Result<String, Error> {
    let key = format!("CC_{}", triple.replace('-', "_"));
    if let Some(named) = variable(&key) {
        return Ok(named);
    }
    let machine = triple.split('-').next().unwrap_or_default();
    let libc = triple.rsplit('-').next().unwrap_or_default();
    let mut names = vec![format!("{machine}-linux-{libc}-gcc")];
    if machine == std::env::consts::ARCH {
        names.push(if libc == "musl" { "musl-gcc" } else { "cc" }.to_owned());
    }
    match names.iter().find(|name| is_there(name)) {
        Some(name) => Ok(name.clone()),
        None => Err(Error::Missing {
            what: format!("a C compiler for {triple} ({})", names.join(", ")),
            how: format!("install one (Debian: musl-tools), or name it with {key}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_for_c_is_found_by_variable_and_by_name() {
        let none = |_: &str| None;
        let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let found = compiler(&triple, none, |name| name == "musl-gcc");
        assert_eq!(found.unwrap(), "musl-gcc");
        let named = |name: &str| name.starts_with("CC_").then(|| "my-cc".to_owned());
        assert_eq!(compiler(&triple, named, |_| false).unwrap(), "my-cc");
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
    fn no_path_of_this_machine_gets_into_programs() {
        let tools = Tools {
            triple: "x86_64-unknown-linux-musl".to_owned(),
            compiler: "musl-gcc".to_owned(),
            workspace: "/home/me/orlop".into(),
            registry: "/home/me/.cargo/registry/src".into(),
        };
        let variables = tools.environment();
        let flags = &variables[0].1;
        for place in [
            "/home/me/orlop=/orlop",
            "/home/me/.cargo/registry/src=/crates",
        ] {
            assert!(
                flags.contains(&format!("--remap-path-prefix={place}")),
                "{flags}"
            );
        }
        assert_eq!(variables[1].0, "CC_x86_64_unknown_linux_musl");
    }
}
