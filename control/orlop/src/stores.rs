//! How commands on a server's machine reach its store: the etcd that it uses, the socket of a
//! server that runs, or the file of one that does not.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use control_store::Store;
use control_store::embedded::{EmbeddedStore, Options as EmbeddedOptions};
use control_store::etcd::{Dial, Etcd, EtcdOptions, Io, Tls};
use futures::future::BoxFuture;
use tokio::net::UnixStream;

use crate::error::Error;
use crate::server_record::{EtcdRecord, ServerRecord};

/// The socket in a server's folder at which it serves its store to commands.
pub const SOCKET: &str = "store.sock";
/// The file of the embedded store.
pub const STORE: &str = "store.redb";
/// The file that says that the store of a folder was moved away.
pub const MOVED: &str = "store.moved";

/// An etcd that a command line names.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "named_etcd")]
pub struct NamedEtcd {
    /// URLs of etcd's members.
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub etcd_servers: Vec<String>,
    /// PEM file of the authority that signed etcd's certificates.
    #[arg(long, requires = "etcd_servers", value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// PEM file of the client certificate for etcd.
    #[arg(long, requires_all = ["etcd_cafile", "etcd_keyfile"], value_name = "FILE")]
    pub etcd_certfile: Option<PathBuf>,
    /// PEM file of that certificate's key.
    #[arg(long, requires = "etcd_certfile", value_name = "FILE")]
    pub etcd_keyfile: Option<PathBuf>,
}

/// A store that is open, by whatever way.
#[derive(Clone)]
pub struct OpenedStore {
    /// It.
    pub store: Arc<dyn Store>,
    /// `embedded` or `etcd`.
    pub kind: &'static str,
    /// Its name for people.
    pub name: String,
}

impl NamedEtcd {
    /// The etcd, if there is one.
    pub fn record(&self) -> Option<EtcdRecord> {
        (!self.etcd_servers.is_empty()).then(|| EtcdRecord {
            servers: self.etcd_servers.clone(),
            ca_file: self.etcd_cafile.clone(),
            cert_file: self.etcd_certfile.clone(),
            key_file: self.etcd_keyfile.clone(),
        })
    }
}

/// Opens the store of the server whose folder is `data_dir`, or the named etcd.
///
/// # Errors
/// When there is none, or it does not answer.
pub async fn open(data_dir: &Path, named: &NamedEtcd) -> Result<OpenedStore, Error> {
    let record = ServerRecord::read(data_dir);
    if let Some(etcd) = named
        .record()
        .or_else(|| record.and_then(|record| record.etcd))
    {
        return etcd_store(&etcd).await;
    }
    let socket = data_dir.join(SOCKET);
    if UnixStream::connect(&socket).await.is_ok() {
        return Ok(OpenedStore {
            store: Arc::new(over_socket(&socket).await?),
            kind: "embedded",
            name: format!("the store of the server in `{}`", data_dir.display()),
        });
    }
    let file = data_dir.join(STORE);
    if !file.exists() {
        return Err(Error::Option(format!(
            "there is no store in `{}`: give --data-dir of a server on this machine, or --etcd-servers",
            data_dir.display()
        )));
    }
    embedded(&file)
}

/// Opens the file of a server that does not run.
///
/// # Errors
/// When a process has it open, or it is damaged.
pub fn embedded(file: &Path) -> Result<OpenedStore, Error> {
    let store = EmbeddedStore::open(file, EmbeddedOptions::default()).map_err(Error::Store)?;
    Ok(OpenedStore {
        store: Arc::new(store),
        kind: "embedded",
        name: format!("`{}`", file.display()),
    })
}

/// Connects to an etcd.
///
/// # Errors
/// When it does not answer, or certificates cannot be used.
pub async fn etcd_store(record: &EtcdRecord) -> Result<OpenedStore, Error> {
    let tls = match &record.ca_file {
        None => None,
        Some(ca) => Some(Tls {
            ca: read(ca)?,
            identity: match (&record.cert_file, &record.key_file) {
                (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
                _ => None,
            },
        }),
    };
    let store = Etcd::connect(EtcdOptions {
        endpoints: record.servers.clone(),
        tls,
        ..EtcdOptions::default()
    })
    .await
    .map_err(Error::Store)?;
    Ok(OpenedStore {
        store: Arc::new(store),
        kind: "etcd",
        name: format!("etcd at {}", record.servers.join(", ")),
    })
}

/// Speaks with a running server's store by its socket.
async fn over_socket(socket: &Path) -> Result<Etcd, Error> {
    Etcd::connect(EtcdOptions {
        // The name is never shown.
        endpoints: vec!["http://localhost:2379".to_owned()],
        dial: Some(Arc::new(SocketDial(socket.to_owned()))),
        ..EtcdOptions::default()
    })
    .await
    .map_err(Error::Store)
}

struct SocketDial(PathBuf);

impl Dial for SocketDial {
    fn dial(&self, _host: &str, _port: u16) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let path = self.0.clone();
        Box::pin(async move {
            let stream = UnixStream::connect(path).await?;
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

/// Refuses a folder whose store was moved away: an older copy would come to life.
///
/// # Errors
/// [`Error::Moved`].
pub fn ensure_not_moved(data_dir: &Path) -> Result<(), Error> {
    let marker = data_dir.join(MOVED);
    match std::fs::read_to_string(&marker) {
        Ok(text) => Err(Error::Moved {
            marker,
            to: text.trim().to_owned(),
        }),
        Err(_) => Ok(()),
    }
}
