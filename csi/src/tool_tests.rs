use super::*;

fn shell(script: &str) -> Invocation {
    Invocation::new("sh").arg("-c").arg(script)
}

#[test]
fn output_and_exit_code_come_back() {
    let output = SystemRunner.run(&shell("echo out; echo err >&2")).unwrap();
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
}

#[test]
fn a_failure_names_the_program_and_what_it_said() {
    let error = SystemRunner
        .run(&shell("echo no such pool >&2; exit 5"))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`sh` ended with exit code 5: no such pool"
    );
    let accepted = shell("exit 1").accept(&[0, 1]);
    assert_eq!(SystemRunner.run(&accepted).unwrap().code, 1);
}

#[test]
fn a_program_that_is_not_installed_is_recognised() {
    let error = SystemRunner
        .run(&Invocation::new("orlop-no-such-program"))
        .unwrap_err();
    assert!(matches!(error, ToolError::Absent { .. }), "{error}");
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children() {
    let begun = Instant::now();
    let hanging = shell("sleep 60 & sleep 60").timeout(Duration::from_millis(100));
    let error = SystemRunner.run(&hanging).unwrap_err();
    assert!(matches!(error, ToolError::Timeout { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn long_output_is_cut_and_does_not_block_the_program() {
    let long = shell("head -c 20000000 /dev/zero; exit 0");
    let output = SystemRunner.run(&long).unwrap();
    assert_eq!(output.stdout.len() as u64, OUTPUT_LIMIT);
}

#[test]
fn secrets_are_passed_and_never_printed() {
    let invocation = Invocation::new("cat").input(Secret::new("key"));
    assert_eq!(SystemRunner.run(&invocation).unwrap().stdout, b"key");
    assert!(!format!("{invocation:?}").contains("key"));
}

#[test]
fn the_environment_is_not_inherited() {
    let output = SystemRunner.run(&shell("echo $HOME$LC_ALL")).unwrap();
    assert_eq!(output.stdout, b"C\n");
}
