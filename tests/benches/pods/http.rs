//! A minimal HTTP client over TLS for streams that are observed as they arrive.

use std::{fs::File, io, net::SocketAddr, os::fd::AsFd as _, path::PathBuf, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, client::ConfigExt as _};
use nix::sched::{CloneFlags, setns};
use rustls::{ClientConfig, pki_types::ServerName};
use tests::Failure;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::subject::Subject;

/// Who is asked.
#[derive(Clone)]
pub struct Place {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    /// The network that it is reached from, if not this process's.
    network: Option<PathBuf>,
}

impl Place {
    /// The API server.
    pub async fn api(subject: &Subject) -> Result<Self, Failure> {
        let url = &subject.config.cluster_url;
        let host = url.host().ok_or("the API server has no name")?;
        let mut found = tokio::net::lookup_host((host, url.port_u16().unwrap_or(443))).await?;
        Ok(Self {
            address: found.next().ok_or("the API server has no address")?,
            config: Arc::new(subject.config.rustls_client_config()?),
            network: None,
        })
    }

    /// The node's own port.
    pub async fn node(subject: &Subject) -> Result<Self, Failure> {
        let nodes: Api<Node> = Api::all(subject.client.clone());
        let status = nodes.get(&subject.node).await?.status.unwrap_or_default();
        let mut addresses = status.addresses.into_iter().flatten();
        let address = addresses.find(|address| address.type_ == "InternalIP");
        let address = address.ok_or("the node has no address")?.address;
        let port = status
            .daemon_endpoints
            .and_then(|endpoints| endpoints.kubelet_endpoint)
            .map_or(10250, |endpoint| endpoint.port);
        Ok(Self {
            address: SocketAddr::new(address.parse()?, u16::try_from(port)?),
            config: Arc::new(subject.config.rustls_client_config()?),
            network: Some(format!("/proc/{}/ns/net", subject.agent()?).into()),
        })
    }

    /// A connection of its own.
    pub async fn connect(&self) -> Result<TlsStream<TcpStream>, Failure> {
        let stream = match &self.network {
            None => TcpStream::connect(self.address).await?,
            Some(network) => {
                let (address, network) = (self.address, File::open(network)?);
                // A socket belongs to the network of the thread that made it.
                let made = std::thread::spawn(move || -> io::Result<std::net::TcpStream> {
                    setns(network.as_fd(), CloneFlags::CLONE_NEWNET)?;
                    std::net::TcpStream::connect(address)
                });
                let stream = made.join().map_err(|_| "no connection")??;
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream)?
            }
        };
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let connector = TlsConnector::from(self.config.clone());
        Ok(connector.connect(name, stream).await?)
    }
}

/// Sends a request's head, whose last line is not closed, and reads the answer's: what
/// came beyond it.
pub async fn ask(
    stream: &mut TlsStream<TcpStream>,
    head: &str,
    wanted: u16,
) -> Result<Vec<u8>, Failure> {
    stream.write_all(format!("{head}\r\n").as_bytes()).await?;
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 16 << 10]);
    loop {
        let count = more(stream, &mut buffer).await?;
        answer.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        if end.is_none() && count > 0 {
            continue;
        }
        let body = answer.split_off(end.map_or(answer.len(), |end| end + 4));
        let told = String::from_utf8_lossy(&answer);
        let status = told.lines().next().unwrap_or_default();
        if status.contains(&format!(" {wanted} ")) {
            return Ok(body);
        }
        let asked = head.lines().next().unwrap_or_default();
        let why = String::from_utf8_lossy(&body);
        return Err(format!("{asked}: {status} {why}").into());
    }
}

/// Reads; nothing at the end, with or without a word.
pub async fn more(stream: &mut TlsStream<TcpStream>, buffer: &mut [u8]) -> Result<usize, Failure> {
    match stream.read(buffer).await {
        Ok(count) => Ok(count),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        Err(error) => Err(error.into()),
    }
}
