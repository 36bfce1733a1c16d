//! Options of the API server's store: an embedded file, or etcd.
//!
//! The embedded file can be served to others through etcd's API.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use control_apiserver::store_calls::StoreCalls;
use control_etcd_api::EtcdApi;
use control_proxy::egress::{Dialer, Egress, Kind};
use control_store::{
    Store,
    embedded::{EmbeddedStore, Options as EmbeddedOptions},
    etcd::{Calls, Dial, Etcd, EtcdOptions, Io, Tls},
};
use futures::future::BoxFuture;

use crate::{
    error::Error,
    server_record::EtcdRecord,
    servers::{self, ManagedEtcd},
    stores,
};

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
    /// Socket at which the embedded store is served by etcd's v3 API, for etcdctl or a
    /// stock kube-apiserver: `unix:///PATH`. Only this server's user can connect.
    #[arg(long, value_name = "ENDPOINT", conflicts_with = "etcd_servers")]
    etcd_listen: Option<String>,
    #[command(flatten)]
    pub managed: servers::etcd::Options,
}

/// A store that is open.
pub struct OpenStore {
    pub store: Arc<dyn Store>,
    /// Serves it to others.
    pub etcd_api: Option<EtcdApi>,
    /// Serves it to commands on this machine.
    pub maintenance: Option<EtcdApi>,
}

impl Options {
    /// Whether other servers may use the same store.
    pub fn is_shared(&self, data_dir: &Path) -> bool {
        self.is_external() || self.managed.is_managed(data_dir)
    }

    /// Returns whether objects are in an external etcd.
    pub const fn is_external(&self) -> bool {
        !self.etcd_servers.is_empty()
    }

    /// Checks what would otherwise fail only after files were created.
    ///
    /// # Errors
    /// An invalid endpoint.
    pub fn check(&self) -> Result<(), Error> {
        match &self.etcd_listen {
            Some(endpoint) => EtcdApi::check(endpoint).map_err(Error::EtcdApi),
            None => Ok(()),
        }
    }

    /// Opens the embedded store, a file in `dir`, and the socket at which it is served.
    ///
    /// # Errors
    /// A corrupt or locked file; a socket that cannot be made.
    pub async fn open(&self, dir: &Path) -> Result<OpenStore, Error> {
        stores::ensure_not_moved(dir)?;
        let store = EmbeddedStore::open(dir.join("store.redb"), EmbeddedOptions::default())
            .map(Arc::new)
            .map_err(Error::Store)?;
        let etcd_api = match &self.etcd_listen {
            Some(endpoint) => {
                let api = EtcdApi::open(endpoint, Arc::clone(&store)).await;
                Some(api.map_err(Error::EtcdApi)?)
            }
            None => None,
        };
        let maintenance = maintenance(dir, &store).await;
        Ok(OpenStore {
            store,
            etcd_api,
            maintenance,
        })
    }

    /// Connects to etcd, if the options name one, through `egress`. If requests are
    /// traced, so are its calls.
    ///
    /// # Errors
    /// An etcd that does not answer, certificates.
    pub async fn connect(
        &self,
        egress: &Egress,
        is_traced: bool,
    ) -> Result<Option<OpenStore>, Error> {
        if !self.is_external() {
            return Ok(None);
        }
        let dial = egress.selected(Kind::Etcd).map(by);
        let connected = connect(self.etcd_servers.clone(), self.tls()?, dial, is_traced);
        connected.await.map(Some)
    }

    /// Connects to the member of etcd beside this server, without egress.
    ///
    /// # Errors
    /// A member that does not answer.
    pub async fn connect_managed(
        &self,
        managed: &ManagedEtcd,
        is_traced: bool,
    ) -> Result<OpenStore, Error> {
        let endpoints = vec![managed.endpoint()];
        connect(endpoints, Some(managed.tls()), None, is_traced).await
    }

    /// How commands on this machine reach the etcd that the options name.
    pub fn record(&self) -> Option<EtcdRecord> {
        self.is_external().then(|| EtcdRecord {
            servers: self.etcd_servers.clone(),
            ca_file: self.etcd_cafile.clone(),
            cert_file: self.etcd_certfile.clone(),
            key_file: self.etcd_keyfile.clone(),
        })
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

async fn connect(
    endpoints: Vec<String>,
    tls: Option<Tls>,
    dial: Option<Arc<dyn Dial>>,
    is_traced: bool,
) -> Result<OpenStore, Error> {
    let etcd = Etcd::connect(EtcdOptions {
        endpoints,
        tls,
        dial,
        calls: is_traced.then(|| Arc::new(StoreCalls) as Arc<dyn Calls>),
        ..EtcdOptions::default()
    })
    .await
    .map_err(Error::Store)?;
    Ok(OpenStore {
        store: Arc::new(etcd),
        etcd_api: None,
        maintenance: None,
    })
}

/// Opens the socket at which commands on this machine reach the store. Without it the server
/// works all the same.
async fn maintenance(dir: &Path, store: &Arc<EmbeddedStore>) -> Option<EtcdApi> {
    let path = std::path::absolute(dir.join(stores::SOCKET)).ok()?;
    let endpoint = format!("unix://{}", path.display());
    match EtcdApi::open(&endpoint, Arc::clone(store)).await {
        Ok(api) => Some(api),
        Err(error) => {
            tracing::warn!(
                error = crate::run::all_causes(&error),
                "commands such as `orlop backup create` cannot reach the store while the server runs"
            );
            None
        }
    }
}

/// Connections to etcd are made by this dialer.
fn by(dialer: Dialer) -> Arc<dyn Dial> {
    Arc::new(StoreUser(dialer))
}

struct StoreUser(Dialer);

impl Dial for StoreUser {
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
