//! Notifies systemd that the server is ready, if requested (`sd_notify(3)`,
//! `Type=notify`). The agent has its own notification, since it also serves the watchdog.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

use control_client::Client;
use tokio_util::sync::CancellationToken;

/// The polling interval of readiness.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until the server answers `/readyz`, then notifies; returns early at `shutdown`,
/// and immediately if no notification is requested.
pub async fn when_ready(client: &Client, shutdown: &CancellationToken) {
    let Some(socket) = socket(std::env::var_os("NOTIFY_SOCKET")) else {
        return;
    };
    while !is_ready(client).await {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
    if let Err(error) = send(&socket, "READY=1") {
        tracing::warn!(%error, "failed to notify systemd");
    }
}

async fn is_ready(client: &Client) -> bool {
    match http::Request::get("/readyz").body(Vec::new()) {
        Ok(request) => client.kube().request_text(request).await.is_ok(),
        Err(_) => false,
    }
}

/// The address in the variable: a path, or an abstract name after `@`.
fn socket(variable: Option<OsString>) -> Option<SocketAddr> {
    let name = variable?;
    match name.as_bytes() {
        [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name).ok(),
        [b'/', ..] => SocketAddr::from_pathname(OsStr::new(&name)).ok(),
        _ => None,
    }
}

fn send(to: &SocketAddr, text: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // A missing listener must not block the server.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text.as_bytes(), to).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_is_told_where_it_listens_and_nobody_else() {
        for none in [None, Some(""), Some("@"), Some("run/notify")] {
            assert!(socket(none.map(OsString::from)).is_none(), "{none:?}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        let to = socket(Some(path.into_os_string())).expect("an address");
        send(&to, "READY=1").expect("sent");
        let mut buffer = [0; 32];
        let length = listener.recv(&mut buffer).expect("received");
        assert_eq!(&buffer[..length], b"READY=1");
    }
}
