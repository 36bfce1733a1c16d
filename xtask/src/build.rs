//! `cargo xtask build`: the eBPF object, then the binaries: `orlop`, which embeds it,
//! `orlop-cni` and `orlop-csi`.

use std::path::PathBuf;

use crate::{
    ebpf,
    error::Error,
    layout::{self, Order},
    run::{Step, cargo, output, run, target, workspace},
};

/// The target of static programs.
pub const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// The compiler's flags for static programs.
pub const STATIC: &str = "-C target-feature=+crt-static -C strip=symbols";

/// How programs are compiled: a profile of `Cargo.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As they are measured and used.
    Release,
    /// For a first look: compiled in minutes, mostly without optimisation.
    Quick,
}

impl Profile {
    /// The profile of a cluster that shows Orlop on this machine: the release if one was
    /// built here before, since what has changed is soon compiled.
    #[must_use]
    pub fn of_first_look() -> Self {
        if Self::Release.folder().join("orlop").is_file() {
            Self::Release
        } else {
            Self::Quick
        }
    }

    /// The folder of the programs.
    #[must_use]
    pub fn folder(self) -> PathBuf {
        target().join(self.name())
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Quick => "quick",
        }
    }
}

/// Builds `orlop`, `orlop-cni` and `orlop-csi` into the profile's folder.
///
/// # Errors
/// When something does not compile, or the eBPF toolchain is not there.
pub fn build(profile: Profile) -> Result<(), Error> {
    let step = Step::begin("eBPF programs");
    ebpf::build(&workspace(), &workspace().join(ebpf::OBJECT))?;
    step.done();
    // cargo shows its own progress, so that the long first build is not silent.
    let mut command = cargo();
    command.args(["build", "--profile", profile.name()]);
    // In one go: built alone, a program's dependencies have fewer features, and are built again.
    command.args(["--package", "orlop", "--package", "csi"]);
    match profile {
        // Dynamic: a pod's start takes some milliseconds more.
        Profile::Quick => run(layout::arrange(
            command.args(["--package", "cni"]),
            Order::Release,
        )?),
        Profile::Release => {
            run(layout::arrange(&mut command, Order::Release)?)?;
            run(cargo()
                .args(["rustc", "--profile", profile.name()])
                .args(["--package", "cni", "--bin", "orlop-cni", "--"])
                .args(PLUGIN))
        }
    }
}

/// Linker options of the CNI plugin, which runs for a moment per pod: static and at a
/// fixed address, so that no start searches libraries or relocates. That was half of its
/// processor time.
pub const PLUGIN: [&str; 4] = [
    "-C",
    "target-feature=+crt-static",
    "-C",
    "relocation-model=static",
];

/// Builds the static programs of images and emulated machines.
///
/// # Errors
/// When one does not compile.
pub fn images_programs() -> Result<PathBuf, Error> {
    images_programs_for(TRIPLE, STATIC)
}

/// Builds them for a target, with these flags of the compiler.
///
/// # Errors
/// When one does not compile.
pub fn images_programs_for(triple: &str, flags: &str) -> Result<PathBuf, Error> {
    // Own target folder: other flags than the rest of the workspace.
    let folder = target().join("images");
    output(
        cargo()
            .args(["build", "--release", "--package", "tests-images"])
            .args(["--target", triple, "--target-dir"])
            .arg(&folder)
            .env("RUSTFLAGS", flags),
    )?;
    Ok(folder.join(triple).join("release"))
}
