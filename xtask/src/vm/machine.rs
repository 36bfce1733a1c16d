//! Emulated machines.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::arch::Architecture;
use crate::{
    error::{Error, at},
    results::Results,
    run::target,
};

/// An emulated machine.
pub struct Machine {
    /// Name of the machine and its log.
    pub name: String,
    /// Which emulator runs it.
    pub architecture: Architecture,
    /// Image of the kernel.
    pub kernel: PathBuf,
    /// The archive that becomes its file system.
    pub image: PathBuf,
    /// Memory, in MiB.
    pub mebibytes: u32,
    /// Kernel parameters; those that the kernel does not know become the environment of
    /// the first process.
    pub parameters: String,
    /// Further arguments of the emulator.
    pub arguments: Vec<String>,
}

/// What a machine printed.
pub struct MachineOutput {
    name: String,
    passed: bool,
    /// Output of the serial console.
    pub text: String,
    log: PathBuf,
}

impl Machine {
    /// Runs the machine until it ends, or for as long as `limit`.
    ///
    /// # Errors
    /// When the emulator cannot be started, or the log cannot be written.
    pub fn boot(
        self,
        limit: Duration,
        mut on_line: impl FnMut(&str),
    ) -> Result<MachineOutput, Error> {
        let log = target().join("vm").join(format!("{}.log", self.name));
        let emulator = self.architecture.emulator();
        let mut machine = Command::new(&emulator)
            .args(["-accel", "tcg", "-smp", "2", "-nographic", "-no-reboot"])
            .args(self.architecture.board())
            .args(["-m", &self.mebibytes.to_string()])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.image)
            .arg("-append")
            .arg(format!(
                "console={} quiet panic=-1 rdinit=/init {}",
                self.architecture.console(),
                self.parameters
            ))
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(at(Path::new(&emulator)))?;
        let lines = machine.stdout.take();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = lines.map(BufReader::new);
            let mut line = Vec::new();
            // What tests print need not be text.
            while let Some(reader) = &mut lines
                && matches!(reader.read_until(b'\n', &mut line), Ok(1..))
            {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if send.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let started = Instant::now();
        let mut text = String::new();
        let mut passed = false;
        while let Some(left) = limit.checked_sub(started.elapsed()) {
            let Ok(line) = receive.recv_timeout(left) else {
                break;
            };
            on_line(&line);
            passed |= line.contains("vm: passed");
            text.push_str(&line);
            text.push('\n');
        }
        let _ = machine.kill();
        let _ = machine.wait();
        fs::write(&log, &text).map_err(at(&log))?;
        Ok(MachineOutput {
            name: self.name,
            passed,
            text,
            log,
        })
    }
}

impl MachineOutput {
    /// Counts the results of the test programs, named with `kernel`.
    pub fn count(&self, kernel: &str, results: &mut Results) {
        for (program, printed) in self.test_programs() {
            results.count(&format!("{program} on Linux {kernel}"), printed);
        }
    }

    /// Returns the output of each test program, by its name.
    pub fn test_programs(&self) -> Vec<(&str, &str)> {
        printed(&self.text)
    }

    /// Fails unless all tests passed.
    ///
    /// # Errors
    /// With the path of the log, when they did not.
    pub fn into_result(self) -> Result<(), Error> {
        if self.passed {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "the tests did not pass in machine {}: see `{}`",
            self.name,
            self.log.display()
        )))
    }
}

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
