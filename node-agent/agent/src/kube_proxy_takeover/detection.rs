//! Whether a kube-proxy runs on this node: as a process of its own, or as a part of another program, as
//! in k3s.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use super::step::RunningKubeProxy;
use crate::machine;

/// The name of its process.
const NAME: &str = "kube-proxy";
/// What kube-proxy answers at `/proxyMode`. Orlop's answer is `ebpf`.
const MODES: [&str; 3] = ["iptables", "ipvs", "nftables"];
/// How long it may take to answer.
const WITHIN: Duration = Duration::from_secs(1);
/// More than such an answer has, in bytes.
const MOST: u64 = 4096;

/// The kube-proxy that runs in this network namespace: a process of its name, or, at `metrics`, the
/// address of its `/metrics`, a server that answers with one of its modes.
pub async fn running(metrics: SocketAddr) -> Option<RunningKubeProxy> {
    let process = tokio::task::spawn_blocking(|| runs_here(NAME)).await;
    if process.unwrap_or_default() {
        return Some(RunningKubeProxy::Process);
    }
    has_mode(metrics)
        .await
        .then_some(RunningKubeProxy::Embedded)
}

async fn has_mode(metrics: SocketAddr) -> bool {
    let answer = machine::fetch(metrics, "/proxyMode", MOST, WITHIN).await;
    answer.is_ok_and(|(code, mode)| code == 200 && MODES.contains(&mode.trim()))
}

/// Whether a process of this name is in this network namespace.
fn runs_here(name: &str) -> bool {
    let namespace = |process: &Path| fs::read_link(process.join("ns/net")).ok();
    let own = namespace(Path::new("/proc/self"));
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|entry| {
        let process = entry.path();
        fs::read_to_string(process.join("comm")).is_ok_and(|comm| comm.trim() == name)
            && namespace(&process) == own
    })
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    #[test]
    fn a_process_of_this_namespace_is_found_by_its_name() {
        let own = fs::read_to_string("/proc/self/comm").expect("a name");
        assert!(runs_here(own.trim()));
        assert!(!runs_here("no such program"));
    }

    /// A server that gives each client this answer.
    async fn server(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                // The kernel resets a connection whose bytes nobody reads.
                let _ = client.read(&mut [0; 256]).await;
                let _ = client.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    #[tokio::test]
    async fn a_part_of_another_program_is_found_by_its_mode() {
        let nftables = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nnftables";
        assert!(has_mode(server(nftables).await).await);
        let ours = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nebpf";
        assert!(!has_mode(server(ours).await).await);
        assert!(!has_mode(server("HTTP/1.1 404 Not Found\r\n\r\nnftables").await).await);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let nobody = listener.local_addr().expect("an address");
        drop(listener);
        assert!(!has_mode(nobody).await);
    }
}
