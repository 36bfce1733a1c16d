//! The port of a component that runs by itself, under kube-scheduler's and
//! kube-controller-manager's options.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use clap::Args;
use control_client::Client;
use control_metrics::Page;
use control_serving::component::{Component, OPEN, Options as Port};
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// Health and metrics endpoint, and its access control.
#[derive(Args, Clone, Debug)]
#[group(id = "component_port")]
pub struct Options {
    /// Address at which health and metrics are served.
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// Certificate of that port, PEM; without one, a self-signed certificate is made at each
    /// start.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Key of the certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Authorities of clients' certificates, PEM; those that the API server publishes unless
    /// given.
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Kubeconfig of who asks the API server about clients' tokens and rights; --kubeconfig
    /// unless given.
    #[arg(long, value_name = "FILE")]
    authentication_kubeconfig: Option<PathBuf>,
    /// The same file again: one client asks about tokens and rights.
    #[arg(long, value_name = "FILE")]
    authorization_kubeconfig: Option<PathBuf>,
    /// Paths that need no authorization; one that ends with `*` is a prefix.
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        default_values_t = OPEN.map(str::to_owned)
    )]
    authorization_always_allow_paths: Vec<String>,
    /// Taken for the sake of manifests of the stock components. A front proxy's clients need
    /// credentials of their own here.
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
}

impl Options {
    /// Listens at a port to serve the component's metrics; does nothing for port 0.
    ///
    /// # Errors
    /// An unusable address, file or kubeconfig.
    pub async fn bind(
        self,
        port: u16,
        own: &Client,
        metrics: fn(&mut Page),
    ) -> Result<Option<Component>, Error> {
        if port == 0 {
            return Ok(None);
        }
        let reviews = match (
            &self.authentication_kubeconfig,
            &self.authorization_kubeconfig,
        ) {
            (Some(tokens), Some(rights)) if tokens != rights => {
                return Err(Error::Option(
                    "--authentication-kubeconfig and --authorization-kubeconfig must be the \
                     same file"
                        .to_owned(),
                ));
            }
            (Some(file), _) | (None, Some(file)) => {
                Client::from_kubeconfig(file).await.map_err(Error::Client)?
            }
            (None, None) => own.clone(),
        };
        let options = Port {
            address: SocketAddr::new(self.bind_address, port),
            certificate: self.tls_cert_file.zip(self.tls_private_key_file),
            client_ca: self.client_ca_file,
            open: self.authorization_always_allow_paths,
        };
        let bound = Component::bind(options, reviews.named("delegated-auth"), metrics).await;
        bound.map(Some).map_err(Error::Component)
    }
}

/// Serves the port beside a component until `shutdown`.
pub fn serve(port: Option<Component>, shutdown: &CancellationToken) {
    let Some(port) = port else { return };
    let until = shutdown.clone();
    control_supervise::task("component-port")
        .until(shutdown)
        .spawn_essential(async move { port.serve(until).await });
}
