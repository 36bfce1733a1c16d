//! Tests rules for all commands: each ends quietly when its output is closed, and writes nothing
//! before it has validated its options.

use std::{
    io::pipe,
    process::{Command, Stdio},
};

fn orlop() -> Command {
    Command::new(env!("CARGO_BIN_EXE_orlop"))
}

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    for words in [
        &["policy", "crd"][..],
        &["config", "server"],
        &["load-balancer", "manifests"],
    ] {
        let (reader, writer) = pipe().expect("a pipe");
        // As `head` does once it has its lines.
        drop(reader);
        let done = orlop()
            .args(words)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("orlop runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(said, "", "{words:?}");
        assert_eq!(done.status.code(), Some(141), "{words:?}");
    }
}

#[test]
fn options_that_cannot_be_used_leave_nothing_on_disk() {
    let port = free_port::free_port().expect("a port").to_string();
    for wrong in [
        &["--feature-gates=NoSuchGate=maybe"][..],
        &["--authorization-mode=Nobody"],
        &["--token-auth-file=/does/not/exist"],
        &["--oidc-issuer-url=http://plain", "--oidc-client-id=c"],
        &["--encryption-provider-config=/does/not/exist"],
        &["--egress-selector-config-file=/does/not/exist"],
        &[
            "--audit-log-path=LOG",
            "--audit-policy-file=/does/not/exist",
        ],
        &[
            "--etcd-servers=http://127.0.0.1:1",
            "--etcd-cafile=/does/not/exist",
        ],
        &["--admission-control-config-file=/does/not/exist"],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let log = folder.path().join("log").display().to_string();
        let done = orlop()
            .args([
                "apiserver",
                "--bind-address",
                "127.0.0.1",
                "--secure-port",
                &port,
            ])
            .arg("--data-dir")
            .arg(&data)
            .args(wrong.iter().map(|word| word.replace("LOG", &log)))
            .output()
            .expect("orlop runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success(), "{wrong:?}");
        let left: Vec<_> = std::fs::read_dir(folder.path())
            .expect("the folder")
            .flatten()
            .map(|entry| entry.path())
            .collect();
        assert!(left.is_empty(), "{wrong:?} left {left:?}: {said}");
    }
}
