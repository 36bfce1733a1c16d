//! The member of etcd that a server runs beside itself.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use control_etcd::record::Launch;
use control_etcd::{Admin, Credentials, Process, Record, disk, join, process, upkeep};
use control_pki::EtcdPki;
use control_store::etcd::Tls;
use control_supervise::{TaskHandle, task};
use control_types::quantity::Quantity;
use tokio_util::sync::CancellationToken;

use super::{Error, join::JoinedServer};
use crate::server_record::EtcdRecord;
use crate::values::InvalidValue;

/// How long a member may take until it knows a leader: the others may be started later.
const PATIENCE: Duration = Duration::from_secs(600);

/// The port that a member's clients use unless another is named.
pub const CLIENT_PORT: u16 = 2379;
/// The port that other members use unless another is named.
pub const PEER_PORT: u16 = 2380;

/// An etcd that the server runs.
#[derive(Args, Clone)]
#[group(id = "managed_etcd")]
pub struct Options {
    /// `managed`: run a member of etcd beside this server and keep objects there, so that other
    /// servers may join. A server whose data folder has a member does so without this option.
    #[arg(long = "etcd", value_name = "MODE", value_parser = ["managed"],
          conflicts_with_all = ["etcd_servers", "etcd_listen"])]
    managed: Option<String>,
    /// The program of the managed etcd: 3.4 to 3.7.
    #[arg(long, value_name = "PATH", default_value = "etcd")]
    etcd_binary: PathBuf,
    /// Name of the managed member, unique among servers; the host name unless given.
    #[arg(long, value_name = "NAME", value_parser = crate::values::node_name)]
    etcd_name: Option<String>,
    /// Port of the managed member for clients.
    #[arg(long, value_name = "PORT", default_value_t = CLIENT_PORT)]
    etcd_client_port: u16,
    /// Port of the managed member for the other members.
    #[arg(long, value_name = "PORT", default_value_t = PEER_PORT)]
    etcd_peer_port: u16,
    /// Size of the managed etcd's database at which it takes no more writes.
    #[arg(long, value_name = "SIZE", default_value = "8Gi", value_parser = size)]
    etcd_quota: u64,
    /// Run the member also on a disk that takes longer than a second to make a write durable.
    #[arg(long)]
    etcd_allow_slow_disk: bool,
}

/// A member that runs.
#[derive(Debug)]
pub struct ManagedEtcd {
    record: Record,
    process: Process,
    upkeep: TaskHandle,
    stop: CancellationToken,
    credentials: Credentials,
}

/// Keeps the files of a member's certificates.
#[derive(Debug)]
pub struct MemberCertificates {
    record: Record,
    pki: EtcdPki,
}

/// The folder of the member below a server's.
pub fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("etcd")
}

/// Returns the name of a member that is not given one: the host's.
pub fn host_name() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    host.to_string_lossy().to_lowercase()
}

/// Returns the credentials of a client on a server for members.
///
/// # Errors
/// Unusable keys.
pub fn credentials(pki: &Path) -> Result<Credentials, Error> {
    let pki = EtcdPki::load_or_create(pki).map_err(Error::Pki)?;
    credentials_of(&pki)
}

fn credentials_of(pki: &EtcdPki) -> Result<Credentials, Error> {
    let client = pki.client("orlop-server").map_err(Error::Pki)?;
    Ok(Credentials {
        ca: pki.ca.certificate_pem().to_owned(),
        certificate: client.cert_pem,
        key: client.key_pem,
    })
}

/// Reads a size such as `8Gi`.
fn size(text: &str) -> Result<u64, InvalidValue> {
    let wrong = || InvalidValue::new(text, "size of at least 16Mi", "write it like 8Gi");
    let bytes = Quantity::parse(text)
        .ok()
        .and_then(|quantity| u64::try_from(quantity.value()).ok())
        .ok_or_else(wrong)?;
    if bytes < 16 << 20 {
        return Err(wrong());
    }
    Ok(bytes)
}

// === impl Options ===

impl Options {
    /// Whether the server with this data folder runs a member, or is to run one.
    pub fn is_managed(&self, data_dir: &Path) -> bool {
        self.managed.is_some() || Self::has_member(data_dir)
    }

    /// Whether the data folder has a member.
    pub fn has_member(data_dir: &Path) -> bool {
        matches!(Record::load(&folder(data_dir)), Ok(Some(_)) | Err(_))
    }

    /// Checks the program, before anything is written.
    ///
    /// # Errors
    /// A program that is missing or of another version.
    pub fn check(&self) -> Result<(), Error> {
        let version = process::check(&self.etcd_binary).map_err(Error::Etcd)?;
        tracing::debug!(version, "etcd found");
        Ok(())
    }

    /// Starts the member of the server in `data_dir`: the one that is there, one that joins, or
    /// the first of a cluster. Returns once it has a vote and knows a leader.
    ///
    /// # Errors
    /// [`Error`], each with its way out.
    pub async fn start(
        &self,
        data_dir: &Path,
        address: IpAddr,
        joined: Option<&JoinedServer>,
    ) -> Result<ManagedEtcd, Error> {
        let own_folder = folder(data_dir);
        let pki = EtcdPki::load_or_create(&data_dir.join("pki")).map_err(Error::Pki)?;
        let credentials = credentials_of(&pki)?;
        let record = match Record::load(&own_folder).map_err(Error::Etcd)? {
            Some(record) if record.address == address => record,
            Some(record) => {
                return Err(Error::Etcd(control_etcd::Error::OtherAddress {
                    name: record.name,
                    recorded: record.address,
                    now: address,
                    folder: own_folder,
                }));
            }
            None => {
                self.new_member(data_dir, address, joined, &credentials)
                    .await?
            }
        };
        let checked = own_folder.clone();
        let allow_slow = self.etcd_allow_slow_disk;
        tokio::task::spawn_blocking(move || disk::check(&checked, allow_slow))
            .await
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
            .map_err(Error::Etcd)?;
        let names = record.certificate_names();
        pki.keep_member(&record.name, &names).map_err(Error::Pki)?;
        let launch = Launch {
            binary: self.etcd_binary.clone(),
            folder: own_folder,
            pki: pki.file(""),
            quota_bytes: self.etcd_quota,
            begins_anew: false,
        };
        let process = Process::start(record.clone(), launch);
        let local = Admin::new(credentials.clone(), vec![record.local_url()]);
        let stop = CancellationToken::new();
        let upkeep = {
            let (admin, record, stop) = (local.clone(), record.clone(), stop.clone());
            let folder = folder(data_dir);
            task("etcd-upkeep")
                .until(&stop.clone())
                .spawn_restarting(move || {
                    upkeep::run(admin.clone(), record.clone(), folder.clone(), stop.clone())
                })
        };
        let managed = ManagedEtcd {
            record,
            process,
            upkeep,
            stop,
            credentials,
        };
        let began = async {
            let record = &managed.record;
            if record.joined {
                join::promote(&local, record).await?;
            }
            join::serving(&local, &record.local_url(), PATIENCE).await
        };
        let began = tokio::select! {
            began = began => began,
            () = managed.process.removed() => Err(control_etcd::Error::Removed {
                name: managed.record.name.clone(),
                folder: folder(data_dir),
            }),
        };
        match began {
            Ok(()) => Ok(managed),
            Err(error) => {
                managed.stop().await;
                Err(Error::Etcd(error))
            }
        }
    }

    /// The record of a member that does not exist yet, written.
    async fn new_member(
        &self,
        data_dir: &Path,
        address: IpAddr,
        joined: Option<&JoinedServer>,
        credentials: &Credentials,
    ) -> Result<Record, Error> {
        let embedded = data_dir.join("store.redb");
        if embedded.exists() {
            return Err(Error::Embedded { path: embedded });
        }
        let name = self.etcd_name.clone().unwrap_or_else(host_name);
        let mut record = Record::first(&name, address, self.etcd_client_port, self.etcd_peer_port);
        if let Some(joined) = joined {
            let admin = Admin::new(credentials.clone(), joined.etcd.clone());
            record = join::add(&admin, record).await.map_err(Error::Etcd)?;
        }
        record.save(&folder(data_dir)).map_err(Error::Etcd)?;
        Ok(record)
    }
}

// === impl Managed ===

impl ManagedEtcd {
    /// The URL at which this server asks its member.
    pub fn endpoint(&self) -> String {
        self.record.local_url()
    }

    /// Returns the TLS files of this server's member.
    pub fn tls(&self) -> Tls {
        let own = &self.credentials;
        Tls {
            ca: own.ca.clone().into_bytes(),
            identity: Some((
                own.certificate.clone().into_bytes(),
                own.key.clone().into_bytes(),
            )),
        }
    }

    /// How commands on this machine reach the member, with the folder of the cluster's keys.
    pub fn store_record(&self, pki: &Path) -> EtcdRecord {
        let file = |name: &str| Some(pki.join("etcd").join(name));
        EtcdRecord {
            servers: vec![self.endpoint()],
            ca_file: file("ca.crt"),
            cert_file: file("client.crt"),
            key_file: file("client.key"),
        }
    }

    /// Returns the maintenance of its certificate files.
    ///
    /// # Errors
    /// Unreadable keys.
    pub fn certificates(&self, data_dir: &Path) -> Result<MemberCertificates, Error> {
        Ok(MemberCertificates {
            record: self.record.clone(),
            pki: EtcdPki::load_or_create(&data_dir.join("pki")).map_err(Error::Pki)?,
        })
    }

    /// Ends the member in order.
    pub async fn stop(self) {
        self.stop.cancel();
        self.upkeep.await;
        self.process.stop().await;
    }
}

impl MemberCertificates {
    /// Renews certificates that are close to expiry. etcd reads the files at every
    /// handshake.
    ///
    /// # Errors
    /// As [`EtcdPki::keep_member`].
    pub fn keep(&self) -> Result<(), control_pki::Error> {
        let names = self.record.certificate_names();
        self.pki.keep_member(&self.record.name, &names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_quantities() {
        assert_eq!(size("8Gi"), Ok(8 << 30));
        assert_eq!(size("16Mi"), Ok(16 << 20));
        for bad in ["", "1Mi", "-1Gi", "x"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
