//! A logind for tests, and a bus with nobody between.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zbus::object_server::SignalEmitter;
use zbus::{Connection, connection, interface};

use super::logind::Logind;

/// Logind, and systemd beside it.
#[derive(Clone, Default)]
pub struct Login(Arc<Mutex<Facts>>);

#[derive(Default)]
struct Facts {
    /// What it reads again when systemd has it hang up.
    drop_ins: PathBuf,
    limit: u64,
    /// The other ends of inhibitors.
    held: Vec<UnixStream>,
}

impl Login {
    /// Logind that reads that folder again when systemd has it hang up.
    #[must_use]
    pub fn reading(drop_ins: PathBuf) -> Self {
        let login = Self::default();
        login.0.lock().unwrap().drop_ins = drop_ins;
        login
    }

    /// Says that a shutdown begins, or that it was called off.
    ///
    /// # Errors
    /// When the bus is lost.
    pub async fn announce(of: &SignalEmitter<'_>, begins: bool) -> zbus::Result<()> {
        Self::prepare_for_shutdown(of, begins).await
    }

    /// Microseconds for which shutdowns may be delayed.
    #[must_use]
    pub fn delay(&self) -> u64 {
        self.0.lock().unwrap().limit
    }

    /// Whether anything delays the shutdown.
    #[must_use]
    pub fn is_inhibited(&self) -> bool {
        let facts = self.0.lock().unwrap();
        facts.held.iter().any(|end| {
            let mut polled = [PollFd::new(end, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec::default())).unwrap();
            !polled[0].revents().contains(PollFlags::HUP)
        })
    }

    /// How many inhibitors were taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.0.lock().unwrap().held.len()
    }
}

#[interface(name = "org.freedesktop.login1.Manager")]
impl Login {
    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn limit(&self) -> u64 {
        self.0.lock().unwrap().limit
    }

    fn inhibit(&self, what: &str, _who: &str, _why: &str, mode: &str) -> zbus::OwnedFd {
        assert_eq!((what, mode), ("shutdown", "delay"));
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.0.lock().unwrap().held.push(ours);
        std::os::fd::OwnedFd::from(theirs).into()
    }

    #[zbus(signal)]
    async fn prepare_for_shutdown(of: &SignalEmitter<'_>, begins: bool) -> zbus::Result<()>;
}

struct Systemd(Login);

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl Systemd {
    fn kill_unit(&self, unit: &str, whom: &str, signal: i32) {
        assert_eq!((unit, whom, signal), ("systemd-logind.service", "all", 1));
        let mut facts = self.0.0.lock().unwrap();
        let text = std::fs::read_to_string(facts.drop_ins.join("99-kubelet.conf")).unwrap();
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix("InhibitDelayMaxSec="));
        facts.limit = line.unwrap().parse::<u64>().unwrap() * 1_000_000;
    }
}

/// Both ends of a bus with nobody between.
pub async fn machine(login: &Login) -> (Logind, Connection) {
    let (theirs, ours) = UnixStream::pair().unwrap();
    let server = connection::Builder::unix_stream(theirs)
        .server(zbus::Guid::generate())
        .p2p()
        .serve_at("/org/freedesktop/login1", login.clone())
        .serve_at("/org/freedesktop/systemd1", Systemd(login.clone()))
        .build();
    let client = connection::Builder::unix_stream(ours).p2p().build();
    let (server, client) = tokio::try_join!(server, client).unwrap();
    (Logind::over(client).await.unwrap(), server)
}
