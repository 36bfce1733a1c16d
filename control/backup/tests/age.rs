//! Tests that files and keys are compatible with the `age` program. Without it, these tests are
//! skipped.

use std::io::{Read as _, Write as _};
use std::process::Command;

use control_backup::age::{Identity, decrypt, encrypt};

#[test]
fn the_age_program_reads_our_files_and_we_read_its() {
    if Command::new("age").arg("--version").output().is_err() {
        eprintln!("skipped: no age on the PATH");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (key, ours, theirs) = (
        dir.path().join("key"),
        dir.path().join("ours"),
        dir.path().join("theirs"),
    );
    let identity = Identity::generate().expect("a key");
    let recipient = identity.recipient().expect("a key");
    std::fs::write(&key, format!("# a comment\n{}\n", identity.secret())).expect("written");
    for size in [0, 10, 65_536, 200_000] {
        let content = vec![7; size];
        let mut writer = encrypt(Vec::new(), &[recipient]).expect("begun");
        writer.write_all(&content).expect("written");
        std::fs::write(&ours, writer.finish().expect("finished")).expect("written");
        let done = Command::new("age")
            .arg("-d")
            .arg("-i")
            .arg(&key)
            .arg(&ours)
            .output();
        let done = done.expect("age runs");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        assert!(done.stdout == content, "{size}");

        let plain = dir.path().join("plain");
        std::fs::write(&plain, &content).expect("written");
        let mut age = Command::new("age");
        age.args(["-r", &recipient.to_string(), "-o"])
            .arg(&theirs)
            .arg(&plain);
        assert!(age.status().expect("age runs").success());
        let file = std::fs::read(&theirs).expect("read");
        let mut read = Vec::new();
        let identities = [identity.clone()];
        let mut reader = decrypt(&*file, &identities).expect("opened");
        reader.read_to_end(&mut read).expect("read");
        assert!(read == content, "{size}");
        std::fs::remove_file(&theirs).expect("removed");
    }
}
