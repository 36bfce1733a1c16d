//! `cargo xtask vm`: kernel-dependent tests on other kernels, by emulation.
//!
//! A Debian kernel boots in qemu without hardware virtualisation; its first
//! process runs a suite of programs and switches the machine off. The
//! datapath's suite is its tests, which print what the verifier walked through;
//! the pods' suite is a node whose control groups are of version 2 alone; the
//! volumes' suite is the CSI driver's tests that need device-mapper and XFS
//! quotas; the [packages'](packages) suite installs and removes the Debian package under
//! systemd. The datapath's [short form](short) is part of `cargo xtask test`.
//! With `--arch aarch64` the datapath's suite and its short form run on a machine of that
//! [architecture](arch); the other suites start programs of this machine.

pub mod arch;
mod elf;
mod initramfs;
mod kernel;
mod machine;
mod packages;
mod programs;
pub mod short;
mod suites;

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use self::{
    arch::Architecture,
    initramfs::write_initramfs,
    kernel::{Kernel, MODULES, NETFILTER_MODULES, SERIES, STORAGE_MODULES},
    machine::Machine,
    suites::{datapath_files, pods_files, volume_figures_files, volumes_files},
};
use crate::{
    error::Error,
    results::Results,
    run::{Step, target},
    setup,
};

/// What runs in the machines.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Suite {
    /// The datapath's tests.
    Datapath,
    /// Pods on control groups of version 2.
    Pods,
    /// The CSI driver on LVM, encrypted devices and XFS quotas.
    Volumes,
    /// Volumes of LVM, measured beside a plain disk.
    VolumeFigures,
    /// The Debian package on Debian with systemd.
    Packages,
}

/// Which kernels.
#[derive(Args)]
pub struct Options {
    /// Architecture of the machines; aarch64 runs the datapath's tests alone.
    #[arg(long, value_enum, default_value_t)]
    arch: Architecture,
    /// Kernel series of Debian's packages.
    #[arg(long, value_delimiter = ',', default_values_t = SERIES.map(str::to_owned))]
    kernels: Vec<String>,
    /// Load the programs and make one connection of each kind, on all kernels at once.
    #[arg(long, conflicts_with_all = ["suites", "only", "programs"])]
    short: bool,
    /// What runs in them; pods take a quarter of an hour.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Suite::Datapath])]
    suites: Vec<Suite>,
    /// Of the datapath's tests, only files whose name begins so.
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of the programs that run pods and are packed; without, they are built.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Longest time for one machine, in seconds [default: 1500, for aarch64 3600]
    #[arg(long)]
    timeout: Option<u64>,
}

/// Boots each kernel and runs the tests in it.
///
/// # Errors
/// When a package cannot be had, the tests do not build, or one fails.
pub fn vm(options: &Options) -> Result<(), Error> {
    check_suites(options.arch, &options.suites)?;
    setup::setup()?;
    setup::setup_for_machines(options.arch)?;
    if options.short {
        return short::run_alone(options.arch, &options.kernels, limit(options));
    }
    let mut results = Results::default();
    let outcome = run_suites(options, &mut results);
    println!("\n{results}");
    outcome
}

/// Fails for a suite that starts programs of this machine, on another architecture.
fn check_suites(architecture: Architecture, suites: &[Suite]) -> Result<(), Error> {
    let native = suites.iter().find(|suite| **suite != Suite::Datapath);
    match native.and_then(Suite::to_possible_value) {
        Some(name) if architecture.is_foreign() => Err(Error::State(format!(
            "the suite `{}` is for x86_64 alone: it starts programs of this machine",
            name.get_name()
        ))),
        _ => Ok(()),
    }
}

fn run_suites(options: &Options, results: &mut Results) -> Result<(), Error> {
    for suite in &options.suites {
        let files = match suite {
            Suite::Datapath => datapath_files(options.arch, &options.only)?,
            Suite::Pods => pods_files(options.programs.as_deref())?,
            Suite::Volumes => volumes_files()?,
            Suite::VolumeFigures => volume_figures_files()?,
            Suite::Packages => {
                packages::run_suite(&options.kernels, options.programs.as_deref(), results)?;
                continue;
            }
        };
        for series in &options.kernels {
            run_suite(*suite, series, &files, options, results)?;
        }
    }
    Ok(())
}

fn limit(options: &Options) -> Duration {
    let default = options.arch.time_limit();
    options.timeout.map_or(default, Duration::from_secs)
}

/// Boots one kernel with one suite.
fn run_suite(
    suite: Suite,
    series: &str,
    files: &[(String, PathBuf)],
    options: &Options,
    results: &mut Results,
) -> Result<(), Error> {
    let machine = options.arch.machine_name(series);
    let step = Step::begin(format!("kernel {machine}"));
    let kernel = Kernel::fetch(options.arch, series)?;
    let image = target().join("vm").join(format!("{machine}.cpio"));
    let mut files = files.to_vec();
    files.extend(kernel.modules(&MODULES));
    match suite {
        Suite::Datapath => files.extend(kernel.modules(&NETFILTER_MODULES)),
        Suite::Volumes | Suite::VolumeFigures => files.extend(kernel.modules(&STORAGE_MODULES)),
        Suite::Pods | Suite::Packages => {}
    }
    write_initramfs(&image, &files)?;
    // Of pods, images and layers are in memory, too.
    let (name, mebibytes) = match suite {
        Suite::Datapath => (machine.clone(), 1024),
        Suite::Pods => (format!("{machine}-pods"), 2560),
        // So are the disks of volumes.
        Suite::Volumes => (format!("{machine}-volumes"), 3072),
        Suite::VolumeFigures => (format!("{machine}-volume-figures"), 4096),
        Suite::Packages => (format!("{machine}-packages"), packages::MEBIBYTES),
    };
    let emulated = Machine {
        name,
        architecture: options.arch,
        kernel: kernel.image()?,
        image,
        mebibytes,
        parameters: String::new(),
        arguments: Vec::new(),
    };
    let output = emulated.boot(limit(options), |line| {
        // The firmware's last words may stand before our first.
        let is_shown = |start: &&str| line.starts_with(start);
        let is_figure = suite == Suite::VolumeFigures
            && ["backend ", "random ", "sequential ", "skipped"]
                .iter()
                .any(is_shown);
        if is_figure || line.contains("vm: ") || ["test ", "cost "].iter().any(is_shown) {
            println!("    {line}");
        }
    })?;
    step.done();
    output.count(&machine, results);
    output.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_of_this_machine_s_programs_are_for_its_architecture_alone() {
        let all = [Suite::Datapath, Suite::Pods];
        check_suites(Architecture::X86_64, &all).unwrap();
        check_suites(Architecture::Aarch64, &all[..1]).unwrap();
        let error = check_suites(Architecture::Aarch64, &all).unwrap_err();
        assert!(
            error.to_string().contains("`pods` is for x86_64"),
            "{error}"
        );
    }
}
