//! `orlop credentials`: kubeconfigs and certificates signed by the cluster's
//! authority, made without a running server.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use control_pki::{CertificateKeyPair, Cluster, Spec, kubeconfig, write_private, write_public};

use crate::{error::Error, values};

const CLUSTER: &str = "orlop";

/// Subject of the credentials.
#[derive(Subcommand)]
pub enum Command {
    /// The administrator's kubeconfig.
    Admin(Admin),
    /// A node's kubeconfig, serving certificate and trust.
    Node(NodeCredentials),
}

/// The authority and the server.
#[derive(Args)]
pub struct Common {
    /// The server's data folder; the authority is made there if it is not yet.
    #[arg(long)]
    data_dir: PathBuf,
    /// The API server's URL, for the kubeconfig, such as https://10.0.0.1:6443.
    #[arg(long, value_parser = values::server_url, value_name = "URL")]
    server: String,
    /// The file (`admin`) or folder (`node`) to write.
    #[arg(long)]
    output: PathBuf,
}

/// Options of `credentials admin`.
#[derive(Args)]
pub struct Admin {
    #[command(flatten)]
    common: Common,
}

/// Options of `credentials node`.
#[derive(Args)]
pub struct NodeCredentials {
    #[command(flatten)]
    common: Common,
    /// The Node object's name.
    #[arg(long, value_parser = values::node_name)]
    name: String,
    /// Addresses at which the node's agent serves.
    #[arg(long, required = true)]
    address: Vec<IpAddr>,
}

/// Writes the credentials.
///
/// # Errors
/// An authority that cannot be used, or a file that cannot be written.
pub fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Admin(Admin { common }) => {
            let cluster = load(&common)?;
            let issued = cluster.administrator().map_err(Error::Pki)?;
            write_kubeconfig(
                &cluster,
                &common,
                &common.output,
                &issued,
                "kubernetes-admin",
            )
        }
        Command::Node(NodeCredentials {
            common,
            name,
            address,
        }) => {
            let cluster = load(&common)?;
            let folder = &common.output;
            fs::create_dir_all(folder).map_err(|source| Error::File {
                path: folder.clone(),
                source,
            })?;
            let user = format!("system:node:{name}");
            let client = Spec::client(&user, &["system:nodes"]);
            let own = cluster.ca.issue(&client).map_err(Error::Pki)?;
            write_kubeconfig(&cluster, &common, &folder.join("kubeconfig"), &own, &user)?;
            let names = address.iter().map(IpAddr::to_string).chain([name]);
            let serving = Spec::server(&user, names);
            let serving = cluster.kubelet_ca.issue(&serving).map_err(Error::Pki)?;
            let public = |file: &str, text: &str| {
                write_public(&folder.join(file), text.as_bytes()).map_err(Error::Pki)
            };
            public("serving.crt", &serving.cert_pem)?;
            public("ca.crt", cluster.ca.certificate_pem())?;
            write_private(&folder.join("serving.key"), serving.key_pem.as_bytes())
                .map_err(Error::Pki)
        }
    }
}

fn load(common: &Common) -> Result<Cluster, Error> {
    Cluster::load_or_create(common.data_dir.join("pki")).map_err(Error::Pki)
}

fn write_kubeconfig(
    cluster: &Cluster,
    common: &Common,
    path: &Path,
    user: &CertificateKeyPair,
    name: &str,
) -> Result<(), Error> {
    let text = kubeconfig(
        &common.server,
        cluster.ca.certificate_pem(),
        user,
        CLUSTER,
        name,
    );
    write_private(path, text.as_bytes()).map_err(Error::Pki)
}
