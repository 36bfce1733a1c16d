//! The short form: on each kernel the verifier accepts the programs, and one connection of
//! each kind passes.
//!
//! The test programs are those that `cargo test` has built, without optimisation, so that
//! nothing is built twice; all machines run at once.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use super::{
    DATAPATH_PROGRAMS, MODULES, Machine, Ran, SERIES, datapath_tests, find, kernel, libraries,
    modules, with_programs, write_initramfs,
};
use crate::{
    build, ebpf,
    error::{Error, at},
    results::Results,
    run::{Step, run, target, workspace},
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
/// Longest time for all machines together.
const LIMIT: Duration = Duration::from_secs(420);

/// Runs the short form by itself.
///
/// # Errors
/// When a kernel cannot be had, the tests do not build, or one fails.
pub fn run_alone(series: &[String]) -> Result<(), Error> {
    let mut results = Results::default();
    let kernels = series
        .iter()
        .map(|series| Ok((series.clone(), kernel(series)?)))
        .collect::<Result<Vec<_>, Error>>()?;
    let selection: Vec<&str> = ["--package", "node-agent-datapath"]
        .into_iter()
        .chain(TESTS.iter().flat_map(|(program, _)| ["--test", program]))
        .collect();
    let outcome = on_kernels(&kernels, &selection, &mut results);
    println!("\n{results}");
    outcome
}

/// Runs the short form as part of all tests, whose programs `cargo test` with `selection`
/// has built. A kernel that cannot be had is skipped.
///
/// # Errors
/// When a test fails.
pub fn run_among_tests(selection: &[&str], results: &mut Results) -> Result<(), Error> {
    let mut kernels = Vec::new();
    for series in SERIES {
        let found = super::which("qemu-system-x86_64")
            .ok_or_else(|| Error::Missing {
                what: "`qemu-system-x86_64`".to_owned(),
                how: "install the package qemu-system-x86".to_owned(),
            })
            .and_then(|_| kernel(series));
        match found {
            Ok(folder) => kernels.push((series.to_owned(), folder)),
            Err(error @ Error::Missing { .. }) => {
                results.skip(format!("datapath on Linux {series}"), error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    on_kernels(&kernels, selection, results)
}

/// Downloads the kernels, so that tests find them.
pub fn fetch_kernels() {
    for series in SERIES {
        if let Err(error) = kernel(series) {
            // Tests say that they were skipped.
            super::print_step(error.to_string());
        }
    }
}

fn on_kernels(
    kernels: &[(String, PathBuf)],
    selection: &[&str],
    results: &mut Results,
) -> Result<(), Error> {
    let step = Step::begin("test programs for machines");
    ebpf::build(&workspace(), &workspace().join(ebpf::OBJECT))?;
    let files = files(selection)?;
    step.done();
    let names: Vec<&str> = kernels.iter().map(|(series, _)| series.as_str()).collect();
    let step = Step::begin(format!("kernels {}", names.join(", ")));
    let machines = thread::scope(|scope| {
        let running: Vec<_> = kernels
            .iter()
            .map(|(series, folder)| scope.spawn(|| boot(series, folder, &files)))
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
    for ((series, _), ran) in kernels.iter().zip(machines) {
        let ran = ran?;
        for (program, printed) in printed(&ran.text) {
            for line in printed.lines().filter(|line| line.starts_with("test ")) {
                println!("    {series} {program}: {line}");
            }
            results.count(&format!("{program} on Linux {series}"), printed);
        }
        outcome = outcome.and(ran.into_result());
    }
    outcome
}

fn boot(series: &str, folder: &Path, files: &[(String, PathBuf)]) -> Result<Ran, Error> {
    let image = target().join("vm").join(format!("{series}-short.cpio"));
    let mut files = files.to_vec();
    files.extend(modules(folder, &MODULES));
    write_initramfs(&image, &files)?;
    let machine = Machine {
        name: format!("{series}-short"),
        kernel: find(folder, "vmlinuz")?,
        image,
        mebibytes: MEBIBYTES,
        parameters: PARAMETERS,
        disk: None,
    };
    machine.boot(LIMIT, |_| {})
}

/// The files of a machine but for its modules.
fn files(selection: &[&str]) -> Result<Vec<(String, PathBuf)>, Error> {
    let init = build::images_programs()?.join("vm-init");
    let folder = target().join("vm").join("short");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let mut files = vec![("init".to_owned(), init)];
    let built = datapath_tests(selection)?;
    for (program, tests) in TESTS {
        let (_, test) = built
            .iter()
            .find(|(name, _)| name == program)
            .ok_or_else(|| Error::Failed(format!("there is no test program `{program}`")))?;
        // Most of it is debug information, which would only take memory.
        let stripped = folder.join(program);
        run(Command::new("strip").arg("-o").arg(&stripped).arg(test))?;
        files.extend(libraries(&stripped)?);
        files.push((format!("tests/{program}"), stripped));
        let only = folder.join(format!("{program}.only"));
        fs::write(&only, tests.join("\n")).map_err(at(&only))?;
        files.push((format!("only/{program}"), only));
    }
    with_programs(files, &DATAPATH_PROGRAMS)
}

/// Returns the output of each test program, by its name.
fn printed(text: &str) -> Vec<(&str, &str)> {
    const START: &str = "vm: /tests/";
    let starts: Vec<usize> = text
        .match_indices(START)
        .map(|(at, _)| at + START.len())
        .collect();
    let sections = starts.iter().enumerate().map(|(number, start)| {
        let end = starts
            .get(number + 1)
            .map_or(text.len(), |next| next - START.len());
        text[*start..end].split_once('\n').unwrap_or_default()
    });
    // A program that failed is named once more, with how it ended.
    sections.filter(|(name, _)| !name.contains(':')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_prints_is_counted_by_test_program() {
        let text = "vm: kernel 6.1\nvm: /tests/guard\n\nrunning 1 test\ntest a ... ok\n\n\
                    test result: ok. 1 passed; 0 failed; 0 ignored\n\
                    vm: /tests/packets\ntest b ... FAILED\n\
                    test result: FAILED. 0 passed; 1 failed; 0 ignored\n\
                    vm: /tests/packets: Ok(ExitStatus(unix_wait_status(25856)))\nvm: failed\n";
        let mut results = Results::default();
        let names: Vec<_> = printed(text)
            .into_iter()
            .map(|(program, printed)| {
                results.count(program, printed);
                program
            })
            .collect();
        assert_eq!(names, ["guard", "packets"]);
        assert_eq!(
            results.to_string(),
            "failed packets b\n1 passed, 1 failed, 0 skipped"
        );
    }
}
