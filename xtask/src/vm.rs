//! `cargo xtask vm`: kernel-dependent tests on other kernels, by emulation.
//!
//! A Debian kernel boots in qemu without hardware virtualisation; its first
//! process runs a suite of programs and switches the machine off. The
//! datapath's suite is its tests, which print what the verifier walked through;
//! the pods' suite is a node whose control groups are of version 2 alone; the
//! volumes' suite is the CSI driver's tests that need device-mapper and XFS
//! quotas. The datapath's [short form](short) is part of `cargo xtask test`.

mod initramfs;
mod kernel;
mod machine;
mod programs;
pub mod short;
mod suites;

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use self::{
    initramfs::write_initramfs,
    kernel::{MODULES, SERIES, STORAGE_MODULES, find, kernel, modules},
    machine::Machine,
    suites::{datapath_files, pods_files, volume_figures_files, volumes_files},
};
use crate::{
    error::Error,
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
}

/// Which kernels.
#[derive(Args)]
pub struct Options {
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
    /// Folder of the programs that run pods; without, they are built.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Longest time for one machine, in seconds.
    #[arg(long, default_value_t = 1500)]
    timeout: u64,
}

/// Boots each kernel and runs the tests in it.
///
/// # Errors
/// When a package cannot be had, the tests do not build, or one fails.
pub fn vm(options: &Options) -> Result<(), Error> {
    setup::setup()?;
    setup::setup_for_machines()?;
    if options.short {
        return short::run_alone(&options.kernels);
    }
    for suite in &options.suites {
        let files = match suite {
            Suite::Datapath => datapath_files(&options.only)?,
            Suite::Pods => pods_files(options.programs.as_deref())?,
            Suite::Volumes => volumes_files()?,
            Suite::VolumeFigures => volume_figures_files()?,
        };
        for series in &options.kernels {
            run_suite(*suite, series, &files, options)?;
        }
    }
    Ok(())
}

/// Boots one kernel with one suite.
fn run_suite(
    suite: Suite,
    series: &str,
    files: &[(String, PathBuf)],
    options: &Options,
) -> Result<(), Error> {
    let step = Step::begin(format!("kernel {series}"));
    let kernel = kernel(series)?;
    let image = target().join("vm").join(format!("{series}.cpio"));
    let mut files = files.to_vec();
    files.extend(modules(&kernel, &MODULES));
    if matches!(suite, Suite::Volumes | Suite::VolumeFigures) {
        files.extend(modules(&kernel, &STORAGE_MODULES));
    }
    write_initramfs(&image, &files)?;
    // Of pods, images and layers are in memory, too.
    let (name, mebibytes) = match suite {
        Suite::Datapath => (series.to_owned(), 1024),
        Suite::Pods => (format!("{series}-pods"), 2560),
        // So are the disks of volumes.
        Suite::Volumes => (format!("{series}-volumes"), 3072),
        Suite::VolumeFigures => (format!("{series}-volume-figures"), 4096),
    };
    let limit = Duration::from_secs(options.timeout);
    let machine = Machine {
        name,
        kernel: find(&kernel, "vmlinuz")?,
        image,
        mebibytes,
        parameters: "",
    };
    let ran = machine.boot(limit, |line| {
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
    ran.into_result()
}
