//! A backup becomes the first member of a managed etcd.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use clap::Args;
use control_backup::restore::DataFolder;
use control_etcd::record::Launch;
use control_etcd::{Record, restore};

use crate::address;
use crate::error::Error;
use crate::servers::{self, etcd};

/// The file of the snapshot in the folder that is put together.
const SNAPSHOT: &str = "etcd.db";

/// The member that is made.
#[derive(Args)]
#[group(id = "restored_etcd")]
pub struct Options {
    /// `managed`: restore into the first member of a new etcd, which the server runs from then on.
    /// Other servers join it as usual. Needs etcdutl or etcdctl.
    #[arg(long = "etcd", value_name = "MODE", value_parser = ["managed"],
          conflicts_with_all = ["etcd_servers", "etcd_snapshot", "store_only"])]
    mode: Option<String>,
    /// Address of this machine that the other servers reach; that of the default route unless
    /// given. The server must be started with the same one.
    #[arg(long, value_name = "ADDRESS", requires = "mode")]
    advertise_address: Option<IpAddr>,
    /// The program of the managed etcd, beside which etcdutl or etcdctl is looked for first.
    #[arg(long, value_name = "PATH", default_value = "etcd", requires = "mode")]
    etcd_binary: PathBuf,
    /// Name of the member; the host name unless given.
    #[arg(long, value_name = "NAME", value_parser = crate::values::node_name, requires = "mode")]
    etcd_name: Option<String>,
    /// Port of the member for clients.
    #[arg(long, value_name = "PORT", default_value_t = etcd::CLIENT_PORT, requires = "mode")]
    etcd_client_port: u16,
    /// Port of the member for the other members.
    #[arg(long, value_name = "PORT", default_value_t = etcd::PEER_PORT, requires = "mode")]
    etcd_peer_port: u16,
}

impl Options {
    /// Whether a member is made.
    pub fn is_wanted(&self) -> bool {
        self.mode.is_some()
    }

    /// Describes the member.
    ///
    /// # Errors
    /// [`Error::NoAddress`] if no address is given and the machine has no default route.
    pub fn record(&self) -> Result<Record, Error> {
        let address = match self.advertise_address {
            Some(address) => address,
            None => address::of_default_route(Ipv4Addr::UNSPECIFIED.into()).map_err(|source| {
                Error::NoAddress {
                    option: "--advertise-address",
                    source,
                }
            })?,
        };
        let name = self.etcd_name.clone().unwrap_or_else(etcd::host_name);
        let ports = (self.etcd_client_port, self.etcd_peer_port);
        Ok(Record::first(&name, address, ports.0, ports.1))
    }

    /// Makes the member of `record` in the folder from the snapshot at [`snapshot`], which is
    /// removed.
    ///
    /// # Errors
    /// As [`restore::first_member`].
    pub fn make(&self, record: &Record, folder: &DataFolder) -> Result<(), Error> {
        let failed = |error| Error::Servers(servers::Error::Etcd(error));
        let snapshot = snapshot(folder);
        let launch = Launch {
            binary: self.etcd_binary.clone(),
            folder: etcd::folder(&folder.path("")),
            pki: folder.path("pki/etcd"),
            // It is not started here.
            quota_bytes: 0,
            begins_anew: false,
        };
        restore::first_member(record, &launch, &snapshot).map_err(failed)?;
        std::fs::remove_file(&snapshot).map_err(|source| Error::File {
            path: snapshot,
            source,
        })
    }
}

/// Returns the place of the snapshot from which the member is made.
pub fn snapshot(folder: &DataFolder) -> PathBuf {
    folder.path(SNAPSHOT)
}

/// Returns the next steps.
pub fn next(record: &Record, data_dir: &Path) -> String {
    format!(
        "next: start the server with --data-dir {} --advertise-address {}; then have the other \
         servers join with the line of `orlop token create --server`\n",
        data_dir.display(),
        record.address
    )
}
