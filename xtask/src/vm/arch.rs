//! Architectures of emulated machines: all that differs between them.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use clap::ValueEnum;

use crate::{
    build,
    error::Error,
    run::{output, print_step, run, which},
};

/// The architecture of a machine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Architecture {
    /// 64-bit x86, the architecture of this machine.
    #[default]
    #[value(name = "x86_64")]
    X86_64,
    /// 64-bit ARM.
    #[value(name = "aarch64")]
    Aarch64,
}

impl Architecture {
    /// The name that Linux, Rust and qemu use.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The name that Debian uses.
    pub fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Whether this machine cannot run the architecture's programs, so that they are built for
    /// another target and started with libraries out of Debian's packages.
    pub fn is_foreign(self) -> bool {
        self != Self::X86_64
    }

    /// The emulator.
    pub fn emulator(self) -> String {
        format!("qemu-system-{}", self.name())
    }

    /// The emulator's options for the board and the processor.
    pub fn board(self) -> &'static [&'static str] {
        match self {
            Self::X86_64 => &["-cpu", "max"],
            // Pointer authentication with the architecture's own algorithm is slow to emulate.
            Self::Aarch64 => &["-machine", "virt", "-cpu", "max,pauth-impdef=on"],
        }
    }

    /// The serial console.
    pub fn console(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Aarch64 => "ttyAMA0",
        }
    }

    /// The target of static programs that need no C compiler.
    pub fn static_target(self) -> &'static str {
        match self {
            Self::X86_64 => build::TRIPLE,
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// The compiler's flags for static programs.
    pub fn static_flags(self) -> &'static str {
        match self {
            Self::X86_64 => build::STATIC,
            // Rust's own linker and musl, since this machine has no C library for it.
            Self::Aarch64 => "-C target-feature=+crt-static -C strip=symbols -C linker=rust-lld",
        }
    }

    /// The longest time for a machine that runs a suite.
    pub fn time_limit(self) -> Duration {
        match self {
            Self::X86_64 => Duration::from_secs(1500),
            Self::Aarch64 => Duration::from_secs(3600),
        }
    }

    /// The name of a machine with a kernel of this series.
    pub fn machine_name(self, series: &str) -> String {
        if self.is_foreign() {
            format!("{series}-{}", self.name())
        } else {
            series.to_owned()
        }
    }

    /// Lets a cargo command build tests that run in a machine.
    pub fn build_tests_for(self, command: &mut Command) {
        if self.is_foreign() {
            command
                .args(["--target", self.static_target()])
                .env("RUSTFLAGS", self.static_flags());
        }
    }

    /// Builds the static programs of machines and returns their folder.
    ///
    /// # Errors
    /// When one does not compile.
    pub fn build_static_programs(self) -> Result<PathBuf, Error> {
        build::images_programs_for(self.static_target(), self.static_flags())
    }

    /// Installs Rust's standard library for the architecture, if rustup is there.
    ///
    /// # Errors
    /// When it is missing and cannot be installed.
    pub fn install_standard_library(self) -> Result<(), Error> {
        let target = self.static_target();
        let folder =
            output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
        if Path::new(folder.trim()).is_dir() {
            return Ok(());
        }
        if which("rustup").is_none() {
            return Err(Error::Missing {
                what: format!("Rust's standard library for {target}"),
                how: format!("install rustup and run: rustup target add {target}"),
            });
        }
        print_step(format!("rustup installs the standard library for {target}"));
        run(Command::new("rustup").args(["target", "add", target]))
    }
}
