//! A bucket of an S3 server (`gofakes3` on the PATH or in `$GOFAKES3`) keeps backups as a folder
//! does. Without the server this says so and passes.

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
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
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
    let Some((_server, endpoint)) = start() else {
        return;
    };
    // The place reads its credentials from the environment of the process.
    let set = std::env::var_os("AWS_ACCESS_KEY_ID").is_some();
    if !set {
        let test = std::env::current_exe().expect("this test");
        let done = Command::new(test)
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .args(["--exact", "a_bucket_keeps_backups", "--nocapture"])
            .status();
        assert!(done.expect("it runs").success());
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let options = S3Options {
        endpoint: Some(endpoint),
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
