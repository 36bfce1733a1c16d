//! What systemd is told, where it asks for it (`sd_notify(3)`, `Type=notify`): that the
//! agent is ready, and with `WatchdogSec=`, for as long as it is well, that it lives
//! (`sd_watchdog_enabled(3)`). Who no longer says so is started anew.

use std::{
    ffi::OsString,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    sync::Arc,
    time::Duration,
};

use node_agent_pods::SyncLoopHealth;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::Error;

/// A shorter time is no time to be well in.
const LEAST: Duration = Duration::from_secs(1);

/// How often the loop over the pods is asked at first.
const BEGINNING: Duration = Duration::from_secs(1);

/// How often something is said again that could not be said, and how long is in between.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// The notifications that systemd expects of this service.
#[derive(Debug, Default)]
pub struct SystemdNotice {
    /// Where; none is nowhere.
    to: Option<SocketAddr>,
    /// How long it waits for a sign of life; none is for ever.
    watchdog: Option<Duration>,
}

/// Why a request of systemd cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    /// No address.
    #[error("NOTIFY_SOCKET is `{}`, which is neither a path nor an abstract name (`@…`)", .0.display())]
    Socket(OsString),
    /// No time.
    #[error(
        "WATCHDOG_USEC is `{}`; it must be more than a second, in microseconds (WatchdogSec= of the unit)",
        .0.display()
    )]
    Watchdog(OsString),
}

impl SystemdNotice {
    /// As this process was told. Where an address is none that is known here (there are
    /// others, of virtual machines), nothing is said.
    ///
    /// # Errors
    /// A time that makes no sense: who waits for signs of life would kill the agent.
    pub fn of_this_process() -> Result<Self, SystemdError> {
        match Self::read(|name| std::env::var_os(name), std::process::id()) {
            Err(error @ SystemdError::Socket(_)) => {
                warn!(%error, "failed to notify systemd");
                Ok(Self::default())
            }
            other => other,
        }
    }

    /// As a process of that id is told by its variables. Pure.
    fn read(variable: impl Fn(&str) -> Option<OsString>, id: u32) -> Result<Self, SystemdError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let to = match set("NOTIFY_SOCKET") {
            None => return Ok(Self::default()),
            Some(name) => address(&name).ok_or(SystemdError::Socket(name))?,
        };
        // variables are inherited: it may be another process that is meant
        let meant = set("WATCHDOG_PID").is_none_or(|other| other == id.to_string().as_str());
        let watchdog = match set("WATCHDOG_USEC").filter(|_| meant) {
            None => None,
            Some(text) => {
                let micros = text.to_str().and_then(|text| text.parse().ok());
                let time = micros.map(Duration::from_micros);
                Some(
                    time.filter(|t| *t > LEAST)
                        .ok_or(SystemdError::Watchdog(text))?,
                )
            }
        };
        Ok(Self {
            to: Some(to),
            watchdog,
        })
    }

    /// Says that the agent is ready once its loop over the pods goes round, and that it
    /// lives as long as that does, until `shutdown`. Without a `pulse` there are no pods
    /// to look after.
    ///
    /// # Errors
    /// None: what cannot be said is logged.
    pub async fn keep(
        self,
        pulse: Option<Arc<SyncLoopHealth>>,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        if self.to.is_some() {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = self.tell(pulse.as_deref()) => {}
            }
        }
        shutdown.cancelled().await;
        Ok(())
    }

    /// The same for ever.
    async fn tell(&self, pulse: Option<&SyncLoopHealth>) {
        let beats = async |within| match pulse {
            Some(pulse) => pulse.beats(within).await,
            None => true,
        };
        while !beats(BEGINNING).await {}
        self.say("READY=1").await;
        let Some(time) = self.watchdog else {
            return;
        };
        info!(?time, "systemd watchdog enabled");
        loop {
            if beats(time / 2).await {
                self.say("WATCHDOG=1").await;
                tokio::time::sleep(time / 2).await;
            } else {
                warn!("skipping the systemd watchdog notification: the sync loop is stuck");
            }
        }
    }

    async fn say(&self, what: &str) {
        let Some(to) = &self.to else { return };
        for left in (0..TRIES).rev() {
            match send(to, what) {
                Ok(()) => return,
                Err(error) if left == 0 => warn!(what, %error, "failed to notify systemd"),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

fn address(name: &OsString) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name).ok(),
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        _ => None,
    }
}

fn send(to: &SocketAddr, what: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // who does not listen keeps nobody
    socket.set_nonblocking(true)?;
    socket.send_to_addr(what.as_bytes(), to).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<SystemdNotice, SystemdError> {
        let all = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        };
        SystemdNotice::read(all, 7)
    }

    #[test]
    fn who_is_not_asked_says_nothing() {
        let socket = ("NOTIFY_SOCKET", "/run/n");
        for none in [&[][..], &[("NOTIFY_SOCKET", "")], &[("WATCHDOG_USEC", "x")]] {
            let wanted = read(none).expect("nothing");
            assert!(wanted.to.is_none() && wanted.watchdog.is_none());
        }
        let ready = read(&[socket]).expect("ready only");
        assert!(ready.to.is_some() && ready.watchdog.is_none());
        let time = ("WATCHDOG_USEC", "3000000");
        for (id, meant) in [("7", true), ("8", false), ("", true)] {
            let wanted = read(&[socket, time, ("WATCHDOG_PID", id)]).expect("right");
            assert_eq!(wanted.watchdog, meant.then(|| Duration::from_secs(3)));
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for name in ["run/n", "@", "vsock:2:1"] {
            let error = read(&[("NOTIFY_SOCKET", name)]).expect_err(name);
            assert!(error.to_string().contains(name), "{error}");
        }
        for time in ["soon", "-5", "0", "1000000"] {
            let error = read(&[("NOTIFY_SOCKET", "/n"), ("WATCHDOG_USEC", time)]);
            let error = error.expect_err(time).to_string();
            assert!(
                error.contains(time) && error.contains("WatchdogSec"),
                "{error}"
            );
        }
    }

    fn heard(socket: &UnixDatagram) -> Vec<String> {
        let mut all = Vec::new();
        let mut text = [0; 64];
        while let Ok(length) = socket.recv(&mut text) {
            all.push(String::from_utf8_lossy(&text[..length]).into_owned());
        }
        all
    }

    #[test]
    fn paths_and_abstract_names_are_reached() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify").display().to_string();
        let name = format!("@orlop-test-{}", std::process::id());
        for name in [path, name] {
            let to = address(&OsString::from(&name)).expect("an address");
            let socket = UnixDatagram::bind_addr(&to).expect("bound");
            socket.set_nonblocking(true).expect("set");
            send(&to, "READY=1").expect("sent");
            assert_eq!(heard(&socket), ["READY=1"], "{name}");
        }
        let gone = address(&"/nonexistent/notify".into()).expect("an address");
        assert!(send(&gone, "READY=1").is_err());
    }

    /// A socket, and who tells it of its life every two seconds.
    fn told(folder: &tempfile::TempDir) -> (UnixDatagram, SystemdNotice) {
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        socket.set_nonblocking(true).expect("set");
        let wanted = SystemdNotice {
            to: address(&path.into()),
            watchdog: Some(Duration::from_secs(4)),
        };
        (socket, wanted)
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_comes_in_time_and_none_when_the_loop_hangs() {
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, wanted) = told(&folder);
        let (pulse, stop) = (
            Arc::new(SyncLoopHealth::default()),
            CancellationToken::new(),
        );
        let keeping = tokio::spawn(wanted.keep(Some(pulse.clone()), stop.clone()));
        let pass = || tokio::time::sleep(Duration::from_secs(21));
        pass().await;
        assert!(heard(&socket).is_empty(), "not before the loop goes round");

        let goes = tokio::spawn({
            let pulse = pulse.clone();
            async move { pulse.go_round().await }
        });
        pass().await;
        let said = heard(&socket);
        assert_eq!(said[0], "READY=1");
        assert!(said.len() >= 10, "{said:?}");
        assert!(said[1..].iter().all(|one| one == "WATCHDOG=1"), "{said:?}");

        goes.abort();
        assert!(goes.await.is_err());
        pass().await;
        // one may have been on its way
        assert!(heard(&socket).len() <= 1);
        pass().await;
        assert!(heard(&socket).is_empty(), "systemd may begin anew");
        assert!(!keeping.is_finished());
        stop.cancel();
        keeping.await.expect("no panic").expect("no error");
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_without_pods_is_ready_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, wanted) = told(&folder);
        let stop = CancellationToken::new();
        let keeping = tokio::spawn(wanted.keep(None, stop.clone()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(heard(&socket), ["READY=1", "WATCHDOG=1"]);
        stop.cancel();
        keeping.await.expect("no panic").expect("no error");
    }
}
