//! Whether addresses answer, asked from this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use control_import::metallb::service::ServedService;
use tokio::net::TcpStream;

use super::{LOOK, stopped};
use crate::error::Error;

/// How long one connection may take.
const CONNECT: Duration = Duration::from_secs(2);
/// The number of attempts before an address counts as worse.
const TRIES: usize = 3;

/// Whether an address answered, by address and port.
pub(super) type Answers = BTreeMap<SocketAddr, bool>;

/// Returns the addresses that answer from here, on all TCP ports of their Services.
pub(super) async fn answers(services: &[ServedService]) -> Answers {
    let sockets = services.iter().flat_map(|service| {
        let ports = service.ports.iter();
        ports.flat_map(|port| {
            service
                .addresses
                .iter()
                .map(|it| SocketAddr::new(*it, *port))
        })
    });
    let all = sockets.map(|socket| async move { (socket, connects(socket).await) });
    futures::future::join_all(all).await.into_iter().collect()
}

async fn connects(socket: SocketAddr) -> bool {
    let connected = tokio::time::timeout(CONNECT, TcpStream::connect(socket)).await;
    matches!(connected, Ok(Ok(_)))
}

/// Verifies that addresses that answered before still answer.
///
/// # Errors
/// The address that does not.
pub(super) async fn verify(
    services: &[ServedService],
    only: Option<&BTreeSet<IpAddr>>,
    before: &Answers,
) -> Result<(), Error> {
    let known: BTreeSet<IpAddr> = services
        .iter()
        .flat_map(|it| it.addresses.clone())
        .collect();
    let asked = before.iter().filter(|(socket, answered)| {
        let address = socket.ip();
        **answered && known.contains(&address) && only.is_none_or(|it| it.contains(&address))
    });
    for (socket, _) in asked {
        let mut answered = false;
        for _ in 0..TRIES {
            answered = connects(*socket).await;
            if answered {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        if !answered {
            return Err(stopped(format!(
                "{socket} answered before and does not now: see which node announces it \
                 (`kubectl get announcers`), and go back with `orlop migrate metallb --undo`"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_answered_and_does_not_stops_the_take_over() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = listener.local_addr().unwrap();
        let service = ServedService {
            namespace: "d".to_owned(),
            name: "s".to_owned(),
            addresses: vec![socket.ip()],
            pools: vec!["p".to_owned()],
            annotations: BTreeMap::new(),
            ports: vec![socket.port()],
            is_local: false,
        };
        let services = [service];
        let before = answers(&services).await;
        assert_eq!(before, Answers::from([(socket, true)]));
        let only = BTreeSet::from([socket.ip()]);
        verify(&services, Some(&only), &before).await.unwrap();
        drop(listener);
        let error = verify(&services, None, &before).await.unwrap_err();
        assert!(error.to_string().contains("answered before"), "{error}");
        // What never answered is no reason to stop.
        let never = Answers::from([(socket, false)]);
        verify(&services, None, &never).await.unwrap();
    }
}
