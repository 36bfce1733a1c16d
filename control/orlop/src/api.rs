//! The API server as commands start it: its folder, keys, socket and options.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use clap::Args;
use control_access::{Tokens, User};
use control_apiserver::{ApiServer, Authorities, ClusterAccess, Config, ProxyIdentity};
use control_client::{Client, RequestBody};
use control_controllers::TokenSigner;
use control_encryption::{Encryption, OwnKeys, Source};
use control_etcd_api::EtcdApi;
use control_pki::{
    Authority, ClientTrust, Cluster, ServingIdentity, kubeconfig, server_config_within,
    write_private,
};
use control_proxy::{Egress, Kubelets};
use control_registry::allocate::Allocators;
use control_store::Store;
use http_body_util::BodyExt;
use ipnet::IpNet;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt};

use crate::{
    access, address, control_plane_address,
    election::Times,
    error::Error,
    listen, requests, rotation,
    rotation::Rotation,
    server_record::ServerRecord,
    servers::{self, ManagedEtcd, join, names, names::ServerNames},
    store, token_keys,
};

/// Data folder and addresses of the API server.
// Another command flattens this into its own options: groups need unique names.
#[derive(Args)]
#[group(id = "api")]
pub struct Options {
    #[command(flatten)]
    pub file: crate::config::ConfigFile,
    /// Folder of the store, the authorities and the keys; made if missing.
    #[arg(long, default_value = "/var/lib/orlop/server")]
    pub data_dir: PathBuf,
    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// Port to listen on.
    #[arg(long, default_value_t = 6443)]
    pub secure_port: u16,
    /// Address at which other hosts reach this server. Defaults to the bind address, or
    /// to the address of the default route's device if the server binds to any address.
    #[arg(long)]
    pub advertise_address: Option<IpAddr>,
    /// Ranges of Service addresses: one, or one of each IP version, the primary first.
    #[arg(long, value_delimiter = ',', default_value = "10.96.0.0/16")]
    pub service_cluster_ip_range: Vec<IpNet>,
    #[command(flatten)]
    pub store: store::Options,
    #[command(flatten)]
    pub access: access::Options,
    /// EncryptionConfiguration of kube-apiserver for encryption at rest; reloaded when it
    /// changes. Without it, Secrets are encrypted with the keys in pki/encryption.key of
    /// the data folder.
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,
    #[command(flatten)]
    pub requests: requests::Options,
    /// All options and their values, for `/flagz`.
    #[arg(skip)]
    pub flags: Vec<(String, String)>,
    /// Further name or address for the server's certificate. May be repeated.
    #[arg(long, value_name = "NAME|ADDRESS", value_delimiter = ',',
          value_parser = names::certificate_name)]
    pub tls_san: Vec<String>,
    #[command(flatten)]
    pub join: join::Options,
    #[command(flatten)]
    pub shared: control_plane_address::Options,
    /// Write the administrator's kubeconfig here once the server is ready.
    #[arg(long)]
    pub write_kubeconfig: Option<PathBuf>,
}

/// An API server that is ready to serve; components in this process may call it.
pub struct Api {
    server: ApiServer,
    listeners: Vec<TcpListener>,
    tls: rustls::ServerConfig,
    /// The certificate by which everybody knows the server, in PEM.
    pub authority: String,
    /// Signs certificates as that authority.
    pub signer: Arc<Authority>,
    /// Signs kubelets' serving certificates.
    pub kubelet_signer: Arc<Authority>,
    /// The names and addresses by which clients reach the server.
    pub names: Vec<String>,
    tokens: Tokens,
    /// The token key files, and their last contents.
    token_files: (token_keys::Files, token_keys::SeenKeys),
    /// The URL at which other hosts reach the server.
    pub url: String,
    rotation: Rotation,
    /// The encryption configuration: its source, and its last contents.
    following: (Source, Encryption, [u8; 32]),
    /// Serve the store to others, and to commands on this machine.
    sockets: [Option<EtcdApi>; 2],
    /// The store itself, for backups.
    pub store: Arc<dyn Store>,
    /// The member of etcd beside the server, which ends after it.
    managed: Option<ManagedEtcd>,
    /// The address of all servers together.
    shared_address: Option<control_plane_address::AddressKeeper>,
}

/// How often it is looked whether values are to be encrypted otherwise.
const LOOK: Duration = Duration::from_secs(5);

/// The ports that Services get on nodes.
const NODE_PORTS: (u16, u16) = (30_000, 32_767);

/// The fewest bits that number the addresses of a range of Services, as with a stock server.
const LEAST_HOST_BITS: u8 = 3;

impl Options {
    /// Checks what would be found only after the folder is made and written otherwise.
    fn check(&self, egress: &Egress) -> Result<(), Error> {
        let ranges = &self.service_cluster_ip_range;
        Allocators::new(ranges, NODE_PORTS).map_err(|given| {
            Error::Option(format!(
                "--service-cluster-ip-range must be one range, or one of each IP version: {given}"
            ))
        })?;
        let is_small =
            |range: &&IpNet| range.max_prefix_len() - range.prefix_len() < LEAST_HOST_BITS;
        if let Some(range) = ranges.iter().find(is_small) {
            return Err(Error::Option(format!(
                "--service-cluster-ip-range: {range} has less than 8 addresses"
            )));
        }
        self.requests.tls().check().map_err(Error::Pki)?;
        self.store.check()?;
        self.join.check().map_err(Error::Servers)?;
        if self.is_managed() {
            self.store.managed.check().map_err(Error::Servers)?;
        }
        self.access.check(egress)?;
        match &self.write_kubeconfig {
            Some(path) if path.is_dir() => Err(Error::Option(format!(
                "--write-kubeconfig: `{}` is a folder; name a file",
                path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Opens the store and the socket, and creates the objects of every cluster. If the
    /// server is not `alone`, no other components are expected beside this process.
    ///
    /// # Errors
    /// An unusable folder, store, certificate or address.
    pub async fn open(&self, alone: bool) -> Result<Api, Error> {
        let dir = &self.data_dir;
        if let Some(path) = &self.file.config {
            tracing::info!(path = %path.display(), "options read from a file");
        }
        // The socket first: what cannot listen leaves nothing behind.
        let socket = SocketAddr::new(self.bind_address, self.secure_port);
        let mut listeners = vec![listen::open(socket).await?];
        listeners.extend(listen::inherited()?);
        // All options next, for the same reason.
        let advertise = match self.advertise_address {
            Some(address) => address,
            None if self.bind_address.is_unspecified() => {
                address::of_default_route(self.bind_address).map_err(|source| Error::NoAddress {
                    option: "--advertise-address",
                    source,
                })?
            }
            None => self.bind_address,
        };
        let failed = |error| Error::Encryption(crate::run::all_causes(&error));
        let encrypted = self.encrypted(dir);
        let configured = match &encrypted {
            Source::Configuration(_) => Some(encrypted.load().map_err(failed)?),
            Source::Keys(_) => None,
        };
        let egress = self.requests.egress()?;
        self.check(&egress)?;
        let etcd = self
            .store
            .connect(&egress, self.requests.is_traced())
            .await?;
        let mut settings = self.access.settings(&egress)?;
        let mut chain = self.requests.settings(&egress)?;
        std::fs::create_dir_all(dir).map_err(|source| Error::File {
            path: dir.clone(),
            source,
        })?;
        let managed = Box::pin(self.manage(advertise)).await?;
        let etcd = match &managed {
            Some(managed) => {
                let traced = self.requests.is_traced();
                Some(self.store.connect_managed(managed, traced).await?)
            }
            None => etcd,
        };
        let pki = Cluster::load_or_create(dir.join("pki")).map_err(Error::Pki)?;
        let trust = ClientTrust::new(pki.ca.certificate_pem()).map_err(Error::Pki)?;
        let names = self.names();
        let first_names = names.at(advertise);
        let serving = pki.serving(&first_names).map_err(Error::Pki)?;
        let identity =
            ServingIdentity::new(&serving, &dir.join("pki/apiserver.crt")).map_err(Error::Pki)?;
        let limits = self.requests.tls();
        let tls =
            server_config_within(Arc::clone(&identity), &[&trust], &limits).map_err(Error::Pki)?;
        if let Source::Keys(path) = &encrypted {
            OwnKeys::ensure(path).map_err(failed)?;
        }
        let (table, read) = match configured {
            Some(loaded) => loaded,
            None => encrypted.load().map_err(failed)?,
        };
        let encryption = Encryption::new(table);
        let store::OpenStore {
            store,
            etcd_api,
            maintenance,
        } = match etcd {
            Some(etcd) => etcd,
            None => self.store.open(dir).await?,
        };
        let opened = Arc::clone(&store);
        let administrator = pki.administrator().map_err(Error::Pki)?;
        let authority = pki.ca.certificate_pem().to_owned();
        let kubelet_trust = rotation::kubelet_trust(&pki).map_err(Error::Pki)?;
        if let Some(until) = kubelet_trust.cluster_ca_until {
            tracing::warn!(
                %until,
                "kubelets' serving certificates of the cluster's authority are still accepted, \
                 since the cluster is older than its `kubelet-ca`; replace the cluster's \
                 authority if a node may have been compromised before"
            );
        }
        let kubelets = pki
            .kubelet_client()
            .and_then(|own| Kubelets::new(&kubelet_trust.bundle_pem, &own))
            .map_err(Error::Pki)?;
        let proxy = ProxyIdentity::new(pki.front_proxy_client().map_err(Error::Pki)?);
        let published = Authorities {
            clients: authority.clone(),
            front_proxy: Some(pki.front_proxy_ca.certificate_pem().to_owned()),
        };
        chain.shared_address = self.shared_socket();
        chain.flags = self.flags.clone().into();
        chain.more_metrics = Some(components_metrics);
        settings.front_proxy = Some(self.access.front_proxy(&pki, chain.gates)?);
        let shared_address = self
            .shared
            .open(advertise, self.bind_address, &dir.join("pki"))?;
        let token_files = self.access.token_keys.files(&dir.join("pki"));
        let (keys, seen) = token_files.load()?;
        let tokens = self.access.tokens(keys);
        let own_tokens = tokens.clone();
        let access = ClusterAccess::configured(trust, tokens, settings)
            .map_err(Error::Settings)?
            .publishing(published);
        let server = ApiServer::new(Config {
            store,
            access: Arc::new(access),
            encryption: encryption.clone(),
            advertise_address: advertise,
            advertise_port: self.secure_port,
            service_cidrs: self.service_cluster_ip_range.clone(),
            node_ports: NODE_PORTS,
            kubelets: Some(kubelets.clone()),
            proxy_identity: Some(proxy.clone()),
            egress,
            whole: !alone,
            chain,
        })
        .await
        .map_err(Error::ApiServer)?;
        let text = kubeconfig(
            &self.local_url(),
            &authority,
            &administrator,
            "orlop",
            "kubernetes-admin",
        );
        // Commands on this machine find it there.
        let own = dir.join("admin.kubeconfig");
        let kubeconfigs: Vec<PathBuf> = std::iter::once(own)
            .chain(self.write_kubeconfig.clone())
            .collect();
        for path in &kubeconfigs {
            make_parent(path)?;
            write_private(path, text.as_bytes()).map_err(Error::Pki)?;
        }
        let rotation = Rotation {
            pki: Cluster::load_or_create(dir.join("pki")).map_err(Error::Pki)?,
            names,
            first_names: first_names.clone(),
            member: match &managed {
                Some(managed) => Some(managed.certificates(dir).map_err(Error::Servers)?),
                None => None,
            },
            serving: identity,
            kubelets,
            proxy,
            kubeconfigs,
            url: self.local_url(),
        };
        let files = self.encryption_provider_config.iter().cloned();
        let files = files.chain(self.access.token_keys.paths()).collect();
        let etcd = match &managed {
            Some(managed) => Some(managed.store_record(&dir.join("pki"))),
            None => self.store.record(),
        };
        ServerRecord::of_this_process(etcd, files).write(dir)?;
        tracing::info!(
            address = %socket,
            advertised = %advertise,
            data_dir = %dir.display(),
            "the API server is ready"
        );
        Ok(Api {
            server,
            listeners,
            tls,
            authority,
            signer: Arc::new(pki.ca),
            kubelet_signer: Arc::new(pki.kubelet_ca),
            names: first_names,
            tokens: own_tokens,
            token_files: (token_files, seen),
            rotation,
            following: (encrypted, encryption, read),
            sockets: [etcd_api, maintenance],
            store: opened,
            managed,
            shared_address,
            url: format!(
                "https://{}",
                self.shared_socket()
                    .unwrap_or_else(|| SocketAddr::new(advertise, self.secure_port))
            ),
        })
    }

    /// Returns the source of the encryption configuration.
    fn encrypted(&self, dir: &Path) -> Source {
        match &self.encryption_provider_config {
            Some(path) => Source::Configuration(path.clone()),
            None => Source::Keys(dir.join("pki/encryption.key")),
        }
    }

    /// The URL of the server for programs on this machine.
    pub fn local_url(&self) -> String {
        let host = match self.bind_address {
            IpAddr::V4(address) if address.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(address) if address.is_unspecified() => {
                IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])
            }
            address => address,
        };
        format!("https://{}", SocketAddr::new(host, self.secure_port))
    }

    /// The names and addresses by which clients may call the server.
    fn names(&self) -> ServerNames {
        let bound = (!self.bind_address.is_unspecified()).then_some(self.bind_address);
        ServerNames {
            advertised: self.advertise_address.or(bound),
            bind: self.bind_address,
            service_ranges: self.service_cluster_ip_range.clone(),
            further: self
                .tls_san
                .iter()
                .cloned()
                .chain(self.shared.control_plane_address.map(|it| it.to_string()))
                .collect(),
        }
    }

    /// Returns the address at which clients reach all servers together.
    fn shared_socket(&self) -> Option<SocketAddr> {
        let address = self.shared.control_plane_address?;
        Some(SocketAddr::new(address, self.secure_port))
    }

    /// Whether other servers may use the same store.
    pub fn is_shared(&self) -> bool {
        self.store.is_shared(&self.data_dir) || self.join.is_asked()
    }

    /// Whether this server runs, or is to run, a member of etcd.
    fn is_managed(&self) -> bool {
        let joins = self.join.is_asked() && !self.store.is_external();
        self.store.managed.is_managed(&self.data_dir) || joins
    }

    /// The times of leader elections where none are given.
    pub fn election_times(&self) -> Times {
        if self.is_managed() {
            Times::CLOSE
        } else {
            Times::STOCK
        }
    }

    /// Joins other servers if requested, and starts the member of etcd beside this
    /// server.
    async fn manage(&self, advertise: IpAddr) -> Result<Option<ManagedEtcd>, Error> {
        let dir = &self.data_dir;
        let has_member = servers::etcd::Options::has_member(dir);
        let joined = self
            .join
            .ensure(dir, has_member, &self.service_cluster_ip_range)
            .await
            .map_err(Error::Servers)?;
        if !self.is_managed() {
            return Ok(None);
        }
        if joined.as_ref().is_some_and(|joined| joined.etcd.is_empty()) {
            return Err(Error::Servers(servers::Error::NoEtcd));
        }
        let member = &self.store.managed;
        let started = Box::pin(member.start(dir, advertise, joined.as_ref())).await;
        started.map(Some).map_err(Error::Servers)
    }
}

/// Makes the folder of a file, readable for all.
fn make_parent(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let Some(parent) = path.parent().filter(|path| *path != Path::new("")) else {
        return Ok(());
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(parent)
        .map_err(|source| Error::File {
            path: parent.to_owned(),
            source,
        })
}

impl Api {
    /// Signs the tokens that lie in Secrets.
    pub fn token_signer(&self) -> TokenSigner {
        token_keys::legacy_signer(self.tokens.clone())
    }

    /// Returns the state shared by the server's handlers.
    pub fn shared(&self) -> Arc<control_apiserver::api::Api> {
        Arc::clone(self.server.api())
    }

    /// A client in this process, as that user.
    pub fn client(&self, user: User) -> Client {
        let service = self
            .server
            .service()
            .map_request(|request: http::Request<RequestBody>| {
                request.map(|body| body.map_err(BoxError::from).boxed_unsync())
            });
        Client::in_process(service, user)
    }

    /// Serves until `shutdown`. Then the server is not ready any more, and lets
    /// clients over the network go and open requests finish; then `callers` tells
    /// those in this process to end, and waits until they have.
    pub async fn serve(self, shutdown: CancellationToken, callers: impl Future<Output = ()>) {
        let tls = Arc::new(ArcSwap::from_pointee(self.tls));
        let (source, encryption, read) = self.following;
        let (token_files, seen) = self.token_files;
        let upkeep = async {
            let rotated = self.rotation.run(shutdown.clone());
            tokio::select! {
                () = rotated => {}
                () = source.follow(encryption, read, LOOK) => {}
                () = token_files.follow(self.tokens, seen) => {}
            }
        };
        let serve_store = async {
            let serving = self
                .sockets
                .into_iter()
                .flatten()
                .map(|socket| socket.serve(shutdown.clone()));
            futures::future::join_all(serving).await;
        };
        let shared_address = self.shared_address.map(|keeper| {
            let listeners = self.listeners.iter().map(SockRef::from);
            let listeners = listeners.filter_map(|it| it.try_clone().ok()).collect();
            keeper.start(Arc::clone(self.server.api()), listeners, shutdown.clone())
        });
        let leave = async {
            if let Some(running) = shared_address {
                running.await;
            }
        };
        let serving = self
            .server
            .serve_with(self.listeners, tls, shutdown.clone(), callers);
        tokio::join!(serving, upkeep, serve_store, leave);
        if let Some(managed) = self.managed {
            managed.stop().await;
        }
    }
}

/// The figures of what runs beside the API server in this process.
fn components_metrics(out: &mut String) {
    control_client::metrics::write(out);
    control_scheduler::metrics::write(out);
    crate::backups::write_metrics(out);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[tokio::test]
    async fn options_that_cannot_be_used_leave_no_folder() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let dir = tempfile::tempdir().expect("temporary folder");
        let bad = dir.path().join("bad.yaml").display().to_string();
        std::fs::write(&bad, "bad\n").expect("written");
        let (bad, folder) = (bad.as_str(), dir.path().display().to_string());
        for (option, value) in [
            ("--service-cluster-ip-range", "10.96.0.0/16,10.97.0.0/16"),
            ("--service-cluster-ip-range", "10.96.0.0/31"),
            ("--tls-cipher-suites", "NONE"),
            ("--feature-gates", "None=true"),
            ("--authorization-mode", "None"),
            ("--authorization-config", bad),
            ("--authentication-config", bad),
            ("--authentication-token-webhook-config-file", bad),
            ("--service-account-key-file", bad),
            ("--service-account-signing-key-file", bad),
            ("--encryption-provider-config", bad),
            ("--audit-policy-file", bad),
            ("--egress-selector-config-file", bad),
            ("--enable-admission-plugins", "None"),
            ("--etcd-servers", "http://127.0.0.1:1"),
            ("--etcd-listen", "http://127.0.0.1:2379"),
            ("--write-kubeconfig", &folder),
        ] {
            let data = dir.path().join("server");
            let line = [
                "test",
                "--bind-address=127.0.0.1",
                "--secure-port=0",
                &format!("--data-dir={}", data.display()),
                &format!("{option}={value}"),
            ];
            let opened = Line::parse_from(line).options.open(true).await;
            assert!(opened.is_err(), "{option}={value}");
            assert!(!data.exists(), "{option}={value}");
        }
    }
}
