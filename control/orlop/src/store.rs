//! Where the API server keeps objects: its own file, or an etcd.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use control_apiserver::egress::{Dialer, Egress, Kind};
use control_apiserver::tracer::StoreCalls;
use control_store::{
    Store,
    embedded::{Embedded, Options as EmbeddedOptions},
    etcd::{Calls, Dial, Etcd, Io, Options as EtcdOptions, Tls},
};
use futures::future::BoxFuture;

use crate::error::Error;

/// An etcd to keep objects in, in place of the embedded store.
#[derive(Args)]
#[group(id = "etcd")]
pub struct Options {
    /// URLs of etcd's members; without, the embedded store is used.
    #[arg(long, value_delimiter = ',')]
    etcd_servers: Vec<String>,
    /// PEM file of the authority that signed etcd's certificates.
    #[arg(long, requires = "etcd_servers")]
    etcd_cafile: Option<PathBuf>,
    /// PEM file of the client certificate for etcd.
    #[arg(long, requires_all = ["etcd_cafile", "etcd_keyfile"])]
    etcd_certfile: Option<PathBuf>,
    /// PEM file of that certificate's key.
    #[arg(long, requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
}

impl Options {
    /// Whether other servers may use the same store.
    pub const fn is_shared(&self) -> bool {
        !self.etcd_servers.is_empty()
    }

    /// Opens the embedded store: a file in `dir`.
    ///
    /// # Errors
    /// A corrupt or locked file.
    pub fn open(dir: &Path) -> Result<Arc<dyn Store>, Error> {
        Embedded::open(dir.join("store.redb"), EmbeddedOptions::default())
            .map(|store| Arc::new(store) as Arc<dyn Store>)
            .map_err(Error::Store)
    }

    /// Connects to etcd, if the options name one, by the way of `egress` for it. Where
    /// requests are traced, so are its calls.
    ///
    /// # Errors
    /// An etcd that does not answer, certificates.
    pub async fn connect(
        &self,
        egress: &Egress,
        is_traced: bool,
    ) -> Result<Option<Arc<dyn Store>>, Error> {
        if self.etcd_servers.is_empty() {
            return Ok(None);
        }
        let etcd = Etcd::connect(EtcdOptions {
            endpoints: self.etcd_servers.clone(),
            tls: self.tls()?,
            dial: egress.selected(Kind::Etcd).map(by),
            calls: is_traced.then(|| Arc::new(StoreCalls) as Arc<dyn Calls>),
            ..EtcdOptions::default()
        })
        .await
        .map_err(Error::Store)?;
        Ok(Some(Arc::new(etcd)))
    }

    fn tls(&self) -> Result<Option<Tls>, Error> {
        let Some(ca) = &self.etcd_cafile else {
            return Ok(None);
        };
        let identity = match (&self.etcd_certfile, &self.etcd_keyfile) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        Ok(Some(Tls {
            ca: read(ca)?,
            identity,
        }))
    }
}

/// Connections to etcd are made by this dialer.
fn by(dialer: Dialer) -> Arc<dyn Dial> {
    Arc::new(By(dialer))
}

struct By(Dialer);

impl Dial for By {
    fn dial(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let (dialer, host) = (self.0.clone(), host.to_owned());
        Box::pin(async move {
            let stream = dialer.dial(&host, port).await?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}
