//! Emulated machines.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    error::{Error, at},
    run::target,
};

/// An emulated machine.
pub struct Machine {
    /// Name of the machine and its log.
    pub name: String,
    /// Image of the kernel.
    pub kernel: PathBuf,
    /// The archive that becomes its file system.
    pub image: PathBuf,
    /// Memory, in MiB.
    pub mebibytes: u32,
    /// Kernel parameters; those that the kernel does not know become the environment of
    /// the first process.
    pub parameters: &'static str,
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
        let mut machine = Command::new("qemu-system-x86_64")
            .args([
                "-accel",
                "tcg",
                "-cpu",
                "max",
                "-smp",
                "2",
                "-nographic",
                "-no-reboot",
            ])
            .args(["-m", &self.mebibytes.to_string()])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.image)
            .arg("-append")
            .arg(format!(
                "console=ttyS0 quiet panic=-1 rdinit=/init {}",
                self.parameters
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(at(Path::new("qemu-system-x86_64")))?;
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
