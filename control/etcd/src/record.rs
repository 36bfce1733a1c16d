//! The record of a member: written once when it joins or begins a cluster, read at every
//! start.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::plan::MemberView;

/// The file in the member's folder.
const FILE: &str = "member.json";
/// etcd's own folder beside it.
const DATA: &str = "data";

/// A member of an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name, unique in the cluster.
    pub name: String,
    /// The address of its machine.
    pub address: IpAddr,
    /// The port that clients use.
    pub client_port: u16,
    /// The port that the other members use.
    pub peer_port: u16,
    /// Names and peer URLs of all members when this one was added, itself among them.
    pub initial_cluster: Vec<(String, String)>,
    /// Whether it was added to a cluster that existed.
    pub joined: bool,
    /// Client URLs of the other members as they were last seen.
    #[serde(default)]
    pub others: Vec<String>,
    /// A word that keeps members of different clusters apart.
    pub cluster_token: String,
}

/// Arguments of the process besides the record.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub binary: PathBuf,
    /// The member's folder, in which [`Record::save`] put the record.
    pub folder: PathBuf,
    /// The folder of its certificates: `ca.crt`, `server.crt`, `peer.crt` and their keys.
    pub pki: PathBuf,
    /// Bytes of the database at which etcd takes no more writes.
    pub quota_bytes: u64,
    /// Whether it forgets the other members and continues alone with its data.
    pub begins_anew: bool,
}

// === impl Record ===

impl Record {
    /// Returns the record of a member that begins a cluster of its own.
    #[must_use]
    pub fn first(name: &str, address: IpAddr, client_port: u16, peer_port: u16) -> Self {
        let mut record = Self {
            name: name.to_owned(),
            address,
            client_port,
            peer_port,
            initial_cluster: Vec::new(),
            joined: false,
            others: Vec::new(),
            cluster_token: format!("orlop-{:08x}", rand::random::<u32>()),
        };
        record.initial_cluster = vec![(record.name.clone(), record.peer_url())];
        record
    }

    /// Reads the record in a member's folder; returns `None` if there is none.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Record`].
    pub fn load(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|source| Error::Record { path, source }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::File { path, source }),
        }
    }

    /// Writes the record, whole or not at all.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn save(&self, folder: &Path) -> Result<(), Error> {
        use std::io::Write as _;
        use std::os::unix::fs::DirBuilderExt as _;
        let path = folder.join(FILE);
        let failed = |source| Error::File {
            path: path.clone(),
            source,
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
        let new = folder.join(format!("{FILE}.new"));
        let mut file = std::fs::File::create(&new).map_err(failed)?;
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.into()))?;
        file.write_all(&text).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        std::fs::rename(&new, &path).map_err(failed)?;
        std::fs::File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed)
    }

    /// The URL by which other machines' clients reach it.
    #[must_use]
    pub fn client_url(&self) -> String {
        url(self.address, self.client_port)
    }

    /// The URL by which this machine's server reaches it: no cut cable is between.
    #[must_use]
    pub fn local_url(&self) -> String {
        let loopback: IpAddr = match self.address {
            IpAddr::V4(_) => [127, 0, 0, 1].into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        url(loopback, self.client_port)
    }

    /// The URL by which other members reach it.
    #[must_use]
    pub fn peer_url(&self) -> String {
        url(self.address, self.peer_port)
    }

    /// The record of the same member once it is the only one of its cluster.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.initial_cluster = vec![(self.name.clone(), self.peer_url())];
        self.joined = false;
        self.others = Vec::new();
        self
    }

    /// Takes down where the other members are, for when this one does not answer; returns
    /// whether that is news.
    pub fn knows(&mut self, members: &[MemberView]) -> bool {
        let own = self.peer_url();
        let mut others: Vec<String> = members
            .iter()
            .filter(|member| !member.peer_urls.contains(&own))
            .flat_map(|member| member.client_urls.clone())
            .collect();
        others.sort();
        let is_news = others != self.others;
        self.others = others;
        is_news
    }

    /// The names and addresses that its certificates carry.
    #[must_use]
    pub fn certificate_names(&self) -> Vec<String> {
        let mut names = vec![
            self.name.clone(),
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "::1".to_owned(),
            self.address.to_string(),
        ];
        names.dedup();
        names
    }

    /// Returns the arguments of the process. All of them exist in etcd 3.4 to 3.7.
    #[must_use]
    pub fn arguments(&self, launch: &Launch) -> Vec<String> {
        let pki = |name: &str| launch.pki.join(name).display().to_string();
        let cluster: Vec<String> = self
            .initial_cluster
            .iter()
            .map(|(name, url)| format!("{name}={url}"))
            .collect();
        let state = if self.joined { "existing" } else { "new" };
        let pairs = [
            ("name", self.name.clone()),
            ("data-dir", launch.data().display().to_string()),
            (
                "listen-client-urls",
                format!("{},{}", self.client_url(), self.local_url()),
            ),
            ("advertise-client-urls", self.client_url()),
            ("listen-peer-urls", self.peer_url()),
            ("initial-advertise-peer-urls", self.peer_url()),
            ("initial-cluster", cluster.join(",")),
            ("initial-cluster-state", state.to_owned()),
            ("initial-cluster-token", self.cluster_token.clone()),
            ("client-cert-auth", "true".to_owned()),
            ("trusted-ca-file", pki("ca.crt")),
            ("cert-file", pki("server.crt")),
            ("key-file", pki("server.key")),
            ("peer-client-cert-auth", "true".to_owned()),
            ("peer-trusted-ca-file", pki("ca.crt")),
            ("peer-cert-file", pki("peer.crt")),
            ("peer-key-file", pki("peer.key")),
            ("quota-backend-bytes", launch.quota_bytes.to_string()),
            // The default from 3.5 on. Without it, a member that is behind and cannot win begins
            // one election after the other, and each restarts the timeout of those that can.
            ("pre-vote", "true".to_owned()),
            // Less than the default of 100 000 entries, which is memory of each member.
            ("snapshot-count", "10000".to_owned()),
        ];
        let anew = launch
            .begins_anew
            .then(|| "--force-new-cluster=true".to_owned());
        pairs
            .into_iter()
            .map(|(name, value)| format!("--{name}={value}"))
            .chain(anew)
            .collect()
    }
}

impl Launch {
    /// Returns the folder of etcd's own data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join(DATA)
    }

    /// Whether etcd has written data already.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.data().join("member").exists()
    }
}

fn url(address: IpAddr, port: u16) -> String {
    format!("https://{}", SocketAddr::new(address, port))
}

/// Reads the version of `etcd --version`.
#[must_use]
pub fn version(output: &str) -> Option<&str> {
    let line = output.lines().next()?;
    line.strip_prefix("etcd Version: ").map(str::trim)
}

/// Whether a version is one that is known to work.
#[must_use]
pub fn is_supported(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok);
    matches!((next(), next()), (Some(3), Some(4..=7)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record::first("server-1", [10, 0, 0, 1].into(), 2379, 2380)
    }

    fn launch() -> Launch {
        Launch {
            binary: "etcd".into(),
            folder: "/data/etcd".into(),
            pki: "/data/pki/etcd".into(),
            quota_bytes: 8,
            begins_anew: false,
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("etcd");
        assert_eq!(Record::load(&folder).expect("none"), None);
        record().save(&folder).expect("written");
        let read = Record::load(&folder).expect("read").expect("there");
        assert_eq!(read.name, "server-1");
        assert_eq!(read.initial_cluster, record().initial_cluster);
        std::fs::write(folder.join(FILE), "{}").expect("written");
        let error = Record::load(&folder).unwrap_err().to_string();
        assert!(error.contains("orlop server --join"), "{error}");
    }

    #[test]
    fn a_first_member_begins_a_cluster_and_a_joined_one_does_not() {
        let arguments = record().arguments(&launch());
        let has = |arguments: &[String], wanted: &str| {
            assert!(
                arguments.iter().any(|one| one == wanted),
                "{wanted} in {arguments:?}"
            );
        };
        has(&arguments, "--initial-cluster-state=new");
        has(
            &arguments,
            "--initial-cluster=server-1=https://10.0.0.1:2380",
        );
        has(&arguments, "--pre-vote=true");
        has(&arguments, "--client-cert-auth=true");
        has(&arguments, "--peer-client-cert-auth=true");
        has(
            &arguments,
            "--listen-client-urls=https://10.0.0.1:2379,https://127.0.0.1:2379",
        );
        let mut second = record();
        second.joined = true;
        second
            .initial_cluster
            .push(("b".into(), "https://10.0.0.2:2380".into()));
        let arguments = second.arguments(&launch());
        has(&arguments, "--initial-cluster-state=existing");
        has(
            &arguments,
            "--initial-cluster=server-1=https://10.0.0.1:2380,b=https://10.0.0.2:2380",
        );
    }

    #[test]
    fn other_members_are_remembered_and_itself_is_none_of_them() {
        let member = |address: &str| MemberView {
            peer_urls: vec![format!("https://{address}:2380")],
            client_urls: vec![format!("https://{address}:2379")],
            ..MemberView::default()
        };
        let all = [member("10.0.0.3"), member("10.0.0.1"), member("10.0.0.2")];
        let mut record = record();
        assert!(record.knows(&all));
        assert_eq!(
            record.others,
            ["https://10.0.0.2:2379", "https://10.0.0.3:2379"]
        );
        assert!(!record.knows(&all));
    }

    #[test]
    fn addresses_of_ipv6_are_bracketed() {
        let record = Record::first("a", std::net::Ipv6Addr::LOCALHOST.into(), 1, 2);
        assert_eq!(record.client_url(), "https://[::1]:1");
        assert_eq!(record.local_url(), "https://[::1]:1");
    }

    #[test]
    fn versions_from_3_4_to_3_7_are_supported() {
        let printed = "etcd Version: 3.4.23\nGit SHA: Not provided\nGo Version: go1.19.8\n";
        assert_eq!(version(printed), Some("3.4.23"));
        assert_eq!(version("usage"), None);
        for good in ["3.4.0", "3.5.21", "3.6.0-rc.1", "3.7.1"] {
            assert!(is_supported(good), "{good}");
        }
        for bad in ["3.3.25", "3.8.0", "4.4.0", "2.4", "", "x"] {
            assert!(!is_supported(bad), "{bad}");
        }
    }
}
