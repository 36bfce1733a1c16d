//! Suites: what is in a machine besides the kernel and its modules.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    arch::Architecture,
    programs::{executables, iptables_extensions, libraries, test_programs, with_programs},
};
use crate::{
    build, ebpf,
    error::{Error, at},
    go, images,
    run::{Step, cargo, output, run, target, workspace},
    setup,
};

/// Programs that the datapath's tests start.
pub const DATAPATH_PROGRAMS: [&str; 3] = ["ip", "tc", "insmod"];

/// What writes kube-proxy's rules.
const RULE_PROGRAMS: [&str; 2] = ["nft", "iptables-nft-restore"];

/// What a node of pods consists of, besides its own programs.
const NODE_PROGRAMS: [&str; 5] = [
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "kubectl",
];

/// What the volumes' tests start.
const VOLUME_PROGRAMS: [&str; 19] = [
    "ip",
    "insmod",
    "dd",
    "lvcreate",
    "lvremove",
    "lvextend",
    "lvchange",
    "lvs",
    "vgs",
    "pvcreate",
    "vgcreate",
    "vgremove",
    "cryptsetup",
    "mkfs.ext4",
    "mkfs.xfs",
    "e2fsck",
    "resize2fs",
    "xfs_growfs",
    "xfs_quota",
];

/// The tests of volumes that machines commonly lack the kernel for.
const VOLUME_TESTS: [&str; 5] = [
    "mapper::logical_volumes_are_copied_grown_and_zeroed",
    "mapper::thin_volumes_are_copied_grown_and_zeroed",
    "mapper::an_encrypted_volume_shows_its_data_to_the_holder_of_the_passphrase_alone",
    "mapper::a_volume_whose_key_a_manager_wraps_opens_again_grows_and_is_copied",
    "mapper::a_project_quota_enforces_and_reports_the_size_of_a_folder",
];

/// The datapath's tests.
///
/// # Errors
/// When something does not build, or this machine lacks a program.
pub fn datapath_files(
    architecture: Architecture,
    only: &str,
) -> Result<Vec<(String, PathBuf)>, Error> {
    ebpf::build(&workspace(), &workspace().join(ebpf::OBJECT))?;
    let step = Step::begin("the datapath's tests");
    let tests = datapath_tests(
        architecture,
        &["--release", "--package", "node-agent-datapath", "--tests"],
    )?;
    step.done();
    let init = architecture.build_static_programs()?.join("vm-init");
    let mut files = vec![("init".to_owned(), init)];
    for (name, test) in tests {
        if name.starts_with(only) {
            files.extend(libraries(&test)?);
            files.push((format!("tests/{name}"), test));
        }
    }
    files.extend(iptables_extensions(architecture)?);
    // Names of protocols.
    files.push(("etc/protocols".to_owned(), PathBuf::from("/etc/protocols")));
    with_programs(
        architecture,
        files,
        &[&DATAPATH_PROGRAMS[..], &RULE_PROGRAMS].concat(),
    )
}

/// The datapath's test programs, by name, built as `cargo test` with this selection
/// builds them.
///
/// # Errors
/// When they do not build, or there are none.
pub fn datapath_tests(
    architecture: Architecture,
    selection: &[&str],
) -> Result<Vec<(String, PathBuf)>, Error> {
    test_programs(architecture, selection, |package| {
        package.contains("node-agent/datapath#") || package.contains("node-agent-datapath")
    })
}

/// A node with its programs and images.
///
/// # Errors
/// As [`datapath_files`].
pub fn pods_files(built: Option<&Path>) -> Result<Vec<(String, PathBuf)>, Error> {
    let built = match built {
        Some(folder) => folder.to_owned(),
        None => {
            build::build(build::Profile::Release)?;
            build::Profile::Release.folder()
        }
    };
    let archive = images::build()?;
    let programs = build::images_programs()?;
    // Symbol names are a quarter of the size.
    let folder = target().join("vm");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let orlop = folder.join("orlop");
    run(Command::new("strip")
        .arg("-o")
        .arg(&orlop)
        .arg(built.join("orlop")))?;
    let mut files = vec![
        ("init".to_owned(), programs.join("vm-init")),
        ("tests/pods".to_owned(), programs.join("vm-pods")),
        ("images.tar".to_owned(), archive),
        ("bin/orlop".to_owned(), orlop.clone()),
        ("bin/orlop-cni".to_owned(), built.join("orlop-cni")),
    ];
    files.extend(libraries(&orlop)?);
    files.extend(libraries(&built.join("orlop-cni"))?);
    let programs: Vec<&str> = ["ip", "insmod"].into_iter().chain(NODE_PROGRAMS).collect();
    with_programs(Architecture::X86_64, files, &programs)
}

/// The CSI driver's tests of volumes.
///
/// # Errors
/// As [`datapath_files`].
pub fn volumes_files() -> Result<Vec<(String, PathBuf)>, Error> {
    setup::setup_for_volumes()?;
    go::build();
    let step = Step::begin("the volumes' tests");
    let selection = ["--package", "csi", "--test", "volumes"];
    let built = test_programs(Architecture::X86_64, &selection, |package| {
        package.contains("/csi#")
    })?;
    step.done();
    let folder = target().join("vm");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let only = folder.join("volumes.only");
    fs::write(&only, VOLUME_TESTS.join("\n")).map_err(at(&only))?;
    let mut files = vec![
        ("init".to_owned(), build::images_programs()?.join("vm-init")),
        ("only/volumes".to_owned(), only),
    ];
    for (name, program) in built {
        files.extend(libraries(&program)?);
        let place = if name == "volumes" {
            "tests/volumes".to_owned()
        } else {
            // The tests were compiled with this path of the driver.
            program.to_string_lossy().trim_start_matches('/').to_owned()
        };
        files.push((place, program));
    }
    let sanity = go::folder().join("csi-sanity");
    if sanity.is_file() {
        files.push(("bin/csi-sanity".to_owned(), sanity));
    }
    with_programs(Architecture::X86_64, files, &VOLUME_PROGRAMS)
}

/// The bench of volumes, of which the parts run that need device-mapper.
///
/// # Errors
/// As [`datapath_files`].
pub fn volume_figures_files() -> Result<Vec<(String, PathBuf)>, Error> {
    setup::setup_for_volume_figures()?;
    let step = Step::begin("the bench of volumes");
    let text = output(cargo().args([
        "bench",
        "--no-run",
        "--message-format",
        "json",
        "--package",
        "csi",
        "--bench",
        "volumes",
    ]))?;
    let built = executables(&text, |package| package.contains("/csi#"));
    step.done();
    let only = target().join("vm").join("volume-figures.only");
    fs::create_dir_all(target().join("vm")).map_err(at(&only))?;
    fs::write(&only, "lvm\nlvm-thin").map_err(at(&only))?;
    let mut files = vec![
        ("init".to_owned(), build::images_programs()?.join("vm-init")),
        ("only/volumes".to_owned(), only),
    ];
    for (_, program) in built.into_iter().filter(|(name, _)| name == "volumes") {
        files.extend(libraries(&program)?);
        files.push(("tests/volumes".to_owned(), program));
    }
    let programs: Vec<&str> = VOLUME_PROGRAMS.into_iter().chain(["fio"]).collect();
    with_programs(Architecture::X86_64, files, &programs)
}
