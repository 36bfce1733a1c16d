//! The border to logind: its delay inhibitor and its word of shutdowns, over
//! D-Bus (`org.freedesktop.login1`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use zbus::proxy::{Builder, CacheProperties};
use zbus::{Connection, OwnedFd, Proxy};

/// Where logind reads what changes its configuration.
pub const DROP_INS: &str = "/etc/systemd/logind.conf.d";

/// The kubelet's own, so that either finds what the other left.
const DROP_IN: &str = "99-kubelet.conf";

/// How often it is looked whether logind has taken a longer delay over, and
/// how long it is waited for in between, at first.
const LOOKS: u32 = 5;
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// Why logind cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bus, or logind on it.
    #[error("logind: cannot {what}; is systemd-logind running, with its D-Bus?")]
    Bus {
        /// What was tried.
        what: &'static str,
        /// What the bus said.
        source: zbus::Error,
    },
    /// Its configuration cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It goes on limiting what others may delay.
    #[error(
        "logind delays shutdowns for no more than {has:?}, and {wanted:?} are wanted; set InhibitDelayMaxSec in logind.conf"
    )]
    Limit {
        /// The limit.
        has: Duration,
        /// What was asked for.
        wanted: Duration,
    },
}

fn bus(what: &'static str) -> impl FnOnce(zbus::Error) -> Error {
    move |source| Error::Bus { what, source }
}

/// A connection to logind.
pub struct Logind {
    login: Proxy<'static>,
    systemd: Proxy<'static>,
}

impl Logind {
    /// Over the machine's bus.
    ///
    /// # Errors
    /// When there is none.
    pub async fn connect() -> Result<Self, Error> {
        let bus_of_machine = Connection::system().await;
        Self::over(bus_of_machine.map_err(bus("reach it"))?).await
    }

    /// Over a bus.
    ///
    /// # Errors
    /// When it is lost.
    pub async fn over(connection: Connection) -> Result<Self, Error> {
        let proxy = |service: &'static str, path: &'static str, interface: &'static str| {
            Builder::<Proxy<'static>>::new(&connection)
                .destination(service)
                .path(path)
                .interface(interface)
                // the limit is what is asked for again until it has changed
                .cache_properties(CacheProperties::No)
                .build()
        };
        let login = proxy(
            "org.freedesktop.login1",
            "/org/freedesktop/login1",
            "org.freedesktop.login1.Manager",
        );
        let systemd = proxy(
            "org.freedesktop.systemd1",
            "/org/freedesktop/systemd1",
            "org.freedesktop.systemd1.Manager",
        );
        Ok(Self {
            login: login.await.map_err(bus("reach it"))?,
            systemd: systemd.await.map_err(bus("reach systemd"))?,
        })
    }

    /// How long shutdowns may be delayed.
    async fn limit(&self) -> Result<Duration, Error> {
        let limit = self.login.get_property::<u64>("InhibitDelayMaxUSec").await;
        Ok(Duration::from_micros(limit.map_err(bus("read its limit"))?))
    }

    /// Has logind allow delays of `wanted`, by a file in `drop_ins` where it
    /// does not yet.
    ///
    /// # Errors
    /// When it does not.
    pub async fn allow(&self, wanted: Duration, drop_ins: &Path) -> Result<(), Error> {
        if self.limit().await? >= wanted {
            return Ok(());
        }
        let path = drop_ins.join(DROP_IN);
        let text = format!(
            "# so that pods have time to end\n[Login]\nInhibitDelayMaxSec={}\n",
            wanted.as_secs()
        );
        fs::create_dir_all(drop_ins)
            .and_then(|()| fs::write(&path, text))
            .map_err(|source| Error::Write { path, source })?;
        const HANGUP: i32 = 1;
        let reload = ("systemd-logind.service", "all", HANGUP);
        self.systemd
            .call::<_, _, ()>("KillUnit", &reload)
            .await
            .map_err(bus("have it read its configuration"))?;
        let mut has = Duration::ZERO;
        for look in 0..LOOKS {
            tokio::time::sleep(FIRST_LOOK * 2_u32.pow(look)).await;
            has = self.limit().await?;
            if has >= wanted {
                return Ok(());
            }
        }
        Err(Error::Limit { has, wanted })
    }

    /// What delays shutdowns for as long as it is held.
    ///
    /// # Errors
    /// When logind refuses.
    pub async fn inhibit(&self) -> Result<OwnedFd, Error> {
        let why = (
            "shutdown",
            "kubelet",
            "Pods need time to end before the node shuts down",
            "delay",
        );
        let held = self.login.call("Inhibit", &why).await;
        held.map_err(bus("have it delay shutdowns"))
    }

    /// Tells of shutdowns: whether one begins, or was called off.
    ///
    /// # Errors
    /// When the bus is lost.
    pub async fn shutdowns(&self) -> Result<BoxStream<'static, bool>, Error> {
        let signals = self.login.receive_signal("PrepareForShutdown").await;
        let signals = signals.map_err(bus("listen to it"))?;
        let told = signals.filter_map(|signal| async move { signal.body().deserialize().ok() });
        Ok(told.boxed())
    }
}
