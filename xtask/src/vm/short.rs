//! The short form: on each kernel the verifier accepts the programs, and one connection of
//! each kind passes.
//!
//! The test programs are those that `cargo test` has built, without optimisation, so that
//! nothing is built twice; all machines run at once.

use std::{fs, path::PathBuf, process::Command, thread, time::Duration};

use super::{
    arch::Architecture,
    initramfs::write_initramfs,
    kernel::{Kernel, MODULES, SERIES},
    machine::{Machine, MachineOutput},
    programs::{libraries, with_programs},
    suites::{DATAPATH_PROGRAMS, datapath_tests},
};
use crate::{
    ebpf,
    error::{Error, at},
    results::Results,
    run::{Step, print_step, run, target, which, workspace},
};

/// Test programs, and which of their tests run.
const TESTS: [(&str, &[&str]); 4] = [
    // The verifier accepts the programs at devices, at the cost that is recorded.
    ("packets", &["programs_cost_what_is_recorded"]),
    // Cluster IPs, node ports, load balancers, external IPs and host ports, by TCP and
    // UDP, over IPv4 and IPv6, by sockets' hooks, tc, XDP, tunnel and direct return.
    ("matrix", &["every_address_answers_as_kubernetes_says"]),
    (
        "services",
        &["client_keeps_its_backend_by_affinity_while_others_come"],
    ),
    (
        "guard",
        &["ingress_is_denied_and_allowed_by_pods_namespaces_addresses_and_ports"],
    ),
];
/// Becomes the environment of the tests: `matrix` asks one question of each kind.
const PARAMETERS: &str = "ORLOP_MATRIX_EACH_KIND=1";
const MEBIBYTES: u32 = 768;
/// Longest time for all machines together among all tests.
const LIMIT: Duration = Duration::from_secs(420);

/// Runs the short form by itself.
///
/// # Errors
/// When a kernel cannot be had, the tests do not build, or one fails.
pub fn run_alone(
    architecture: Architecture,
    series: &[String],
    limit: Duration,
) -> Result<(), Error> {
    let mut results = Results::default();
    let kernels = series
        .iter()
        .map(|series| Ok((series.clone(), Kernel::fetch(architecture, series)?)))
        .collect::<Result<Vec<_>, Error>>()?;
    let selection: Vec<&str> = ["--package", "node-agent-datapath"]
        .into_iter()
        .chain(TESTS.iter().flat_map(|(program, _)| ["--test", program]))
        .collect();
    let outcome = on_kernels(architecture, &kernels, &selection, limit, &mut results);
    println!("\n{results}");
    outcome
}

/// Runs the short form as part of all tests, whose programs `cargo test` with `selection`
/// has built. A kernel that cannot be had is skipped.
///
/// # Errors
/// When a test fails.
pub fn run_among_tests(selection: &[&str], results: &mut Results) -> Result<(), Error> {
    let architecture = Architecture::default();
    let mut kernels = Vec::new();
    for series in SERIES {
        let found = which("qemu-system-x86_64")
            .ok_or_else(|| Error::Missing {
                what: "`qemu-system-x86_64`".to_owned(),
                how: "install the package qemu-system-x86".to_owned(),
            })
            .and_then(|_| Kernel::fetch(architecture, series));
        match found {
            Ok(kernel) => kernels.push((series.to_owned(), kernel)),
            Err(error @ Error::Missing { .. }) => {
                results.skip(format!("datapath on Linux {series}"), error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    on_kernels(architecture, &kernels, selection, LIMIT, results)
}

/// Downloads the kernels, so that tests find them.
pub fn fetch_kernels() {
    for series in SERIES {
        if let Err(error) = Kernel::fetch(Architecture::default(), series) {
            // Tests say that they were skipped.
            print_step(error.to_string());
        }
    }
}

fn on_kernels(
    architecture: Architecture,
    kernels: &[(String, Kernel)],
    selection: &[&str],
    limit: Duration,
    results: &mut Results,
) -> Result<(), Error> {
    let step = Step::begin("test programs for machines");
    ebpf::build(&workspace(), &workspace().join(ebpf::OBJECT))?;
    let files = files(architecture, selection)?;
    step.done();
    let names: Vec<String> = kernels
        .iter()
        .map(|(series, _)| architecture.machine_name(series))
        .collect();
    let step = Step::begin(format!("kernels {}", names.join(", ")));
    let machines = thread::scope(|scope| {
        let running: Vec<_> = kernels
            .iter()
            .zip(&names)
            .map(|((_, kernel), name)| {
                scope.spawn(|| boot(architecture, name, kernel, &files, limit))
            })
            .collect();
        running
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Error::Failed("a machine's thread panicked".into())))
            })
            .collect::<Vec<_>>()
    });
    step.done();
    let mut outcome = Ok(());
    for (name, output) in names.iter().zip(machines) {
        let output = output?;
        for (program, printed) in output.test_programs() {
            for line in printed.lines().filter(|line| line.starts_with("test ")) {
                println!("    {name} {program}: {line}");
            }
        }
        output.count(name, results);
        outcome = outcome.and(output.into_result());
    }
    outcome
}

fn boot(
    architecture: Architecture,
    name: &str,
    kernel: &Kernel,
    files: &[(String, PathBuf)],
    limit: Duration,
) -> Result<MachineOutput, Error> {
    let image = target().join("vm").join(format!("{name}-short.cpio"));
    let mut files = files.to_vec();
    files.extend(kernel.modules(&MODULES));
    write_initramfs(&image, &files)?;
    let machine = Machine {
        name: format!("{name}-short"),
        architecture,
        kernel: kernel.image()?,
        image,
        mebibytes: MEBIBYTES,
        parameters: PARAMETERS.to_owned(),
        arguments: Vec::new(),
    };
    machine.boot(limit, |_| {})
}

/// The files of a machine but for its modules.
fn files(architecture: Architecture, selection: &[&str]) -> Result<Vec<(String, PathBuf)>, Error> {
    let init = architecture.build_static_programs()?.join("vm-init");
    let folder = target().join("vm").join("short");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let mut files = vec![("init".to_owned(), init)];
    let built = datapath_tests(architecture, selection)?;
    for (program, tests) in TESTS {
        let (_, test) = built
            .iter()
            .find(|(name, _)| name == program)
            .ok_or_else(|| Error::Failed(format!("there is no test program `{program}`")))?;
        // Most of it is debug information, which would only take memory.
        let stripped = if architecture.is_foreign() {
            // Those are built without.
            test.clone()
        } else {
            let stripped = folder.join(program);
            run(Command::new("strip").arg("-o").arg(&stripped).arg(test))?;
            stripped
        };
        files.extend(libraries(&stripped)?);
        files.push((format!("tests/{program}"), stripped));
        let only = folder.join(format!("{program}.only"));
        fs::write(&only, tests.join("\n")).map_err(at(&only))?;
        files.push((format!("only/{program}"), only));
    }
    with_programs(architecture, files, &DATAPATH_PROGRAMS)
}
