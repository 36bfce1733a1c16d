//! Tests backups in buckets: one in memory that checks signatures, and one of an S3 server
//! (`gofakes3` on the PATH or in `$GOFAKES3`). Without the server, its test is skipped with a
//! message.

mod bucket;

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use control_backup::Error;
use control_backup::place::{Address, Place, S3Options};

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> Option<(Server, String)> {
    let program = std::env::var("GOFAKES3").unwrap_or_else(|_| "gofakes3".to_owned());
    let port = free_port::free_port().expect("a port");
    let address = format!("127.0.0.1:{port}");
    let child = Command::new(program)
        .args([
            "-backend",
            "memory",
            "-initialbucket",
            "backups",
            "-host",
            &address,
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else {
        eprintln!("skipped: no gofakes3 on the PATH");
        return None;
    };
    let server = Server(child);
    let began = Instant::now();
    while std::net::TcpStream::connect(&address).is_err() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "it does not start"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    Some((server, format!("http://{address}")))
}

const NAME: &str = "orlop-1b2c3d4e-20261126T195310Z-r7.backup";

fn check(place: &dyn Place) {
    assert_eq!(place.list().expect("listed"), []);
    // More than two parts.
    let content: Vec<u8> = (0..40_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    let mut sink = place.create(NAME).expect("begun");
    sink.write_all(&content).expect("written");
    assert_eq!(place.list().expect("listed"), [], "it is not whole yet");
    assert_eq!(sink.commit().expect("committed"), content.len() as u64);
    let found = place.list().expect("listed");
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].name.to_string().as_str(), found[0].size),
        (NAME, 40_000_000)
    );
    let mut read = Vec::new();
    place
        .open(NAME)
        .expect("opened")
        .read_to_end(&mut read)
        .expect("read");
    assert!(read == content);
    let mut given_up = place
        .create("orlop-1b2c3d4e-20261126T195311Z-r8.backup")
        .expect("begun");
    given_up.write_all(b"half").expect("written");
    drop(given_up);
    assert_eq!(place.list().expect("listed").len(), 1);
    place.remove(NAME).expect("removed");
    assert_eq!(place.list().expect("listed"), []);
    assert!(matches!(place.open(NAME), Err(Error::NotFound { .. })));
}

#[test]
fn a_bucket_keeps_backups() {
    if let Some((_server, endpoint)) = start() {
        check_all(&endpoint, "a_bucket_keeps_backups");
    }
}

#[test]
fn a_bucket_that_checks_signatures_keeps_backups() {
    let name = "a_bucket_that_checks_signatures_keeps_backups";
    check_all(&bucket::start(), name);
}

#[test]
fn another_secret_is_refused() {
    if !has_credentials() {
        return again("another_secret_is_refused", "another");
    }
    let options = S3Options {
        endpoint: Some(bucket::start()),
        ..S3Options::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let address: Address = "s3://backups".parse().expect("an address");
        let place = address.place(&options).expect("a place");
        let listed = tokio::task::spawn_blocking(move || place.list()).await;
        let refused = listed.expect("asked").expect_err("refused").to_string();
        assert!(refused.contains("SignatureDoesNotMatch"), "{refused}");
    });
}

/// Whether this process has the variables by which a place learns its credentials.
fn has_credentials() -> bool {
    std::env::var_os("AWS_ACCESS_KEY_ID").is_some()
}

/// Runs a test of this file again, in a process with credentials.
fn again(test: &str, secret: &str) {
    let program = std::env::current_exe().expect("this test");
    let done = Command::new(program)
        .env("AWS_ACCESS_KEY_ID", bucket::KEY)
        .env("AWS_SECRET_ACCESS_KEY", secret)
        .args(["--exact", test, "--nocapture"])
        .status();
    assert!(done.expect("it runs").success());
}

/// Runs the same checks at the root of a bucket and under a prefix.
fn check_all(endpoint: &str, test: &str) {
    if !has_credentials() {
        return again(test, bucket::SECRET);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let options = S3Options {
        endpoint: Some(endpoint.to_owned()),
        ..S3Options::default()
    };
    runtime.block_on(async {
        for address in ["s3://backups", "s3://backups/some/prefix"] {
            let address: Address = address.parse().expect("an address");
            let place = address.place(&options).expect("a place");
            let checked = tokio::task::spawn_blocking(move || check(&*place)).await;
            checked.expect("checked");
        }
    });
}
