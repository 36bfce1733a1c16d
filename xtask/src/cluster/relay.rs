//! Relays this machine's loopback to the servers of a cluster of test hosts: connections
//! to a port of the loopback are forwarded to the address that the servers share, from
//! the bridge's namespace.
//!
//! That is the cable from this machine to the test network, and no part of how clients
//! find a server: the servers themselves decide which of them has the address.

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    path::Path,
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt};

use super::network;
use crate::error::{Error, at};

/// The configuration file in the bridge's folder.
const FILE: &str = "relay";
/// How long a connection waits for a server.
const PATIENCE: Duration = Duration::from_secs(5);
const ATTEMPT: Duration = Duration::from_millis(500);
/// The limit on concurrent connections.
const MOST: usize = 1000;

/// Configures the process that will hold the bridge in `folder` to relay the socket that
/// it gets.
///
/// # Errors
/// When the file cannot be written.
pub fn prepare(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let path = folder.join(FILE);
    let target = SocketAddr::from((network::SERVERS, 6443));
    fs::write(&path, target.to_string()).map_err(at(&path))
}

/// Relays the socket that is this process's standard input, if the folder configures it.
/// Returns only if it does not.
///
/// # Errors
/// When the file cannot be parsed.
pub fn run(folder: &Path) -> Result<(), Error> {
    let path = folder.join(FILE);
    let Ok(text) = fs::read_to_string(&path) else {
        return Ok(());
    };
    let target: SocketAddr = text
        .trim()
        .parse()
        .map_err(|error| at(&path)(std::io::Error::other(error)))?;
    let input = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(at(&path))?;
    let listener = TcpListener::from(input);
    let open = std::sync::Arc::new(());
    for client in listener.incoming() {
        let Ok(client) = client else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if std::sync::Arc::strong_count(&open) > MOST {
            continue;
        }
        let counted = open.clone();
        std::thread::spawn(move || {
            let _counted = counted;
            if let Some(server) = connect(target) {
                both_ways(&client, &server);
            }
        });
    }
    Ok(())
}

/// Connects to whichever server has the address; it may be on its way to another.
fn connect(target: SocketAddr) -> Option<TcpStream> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Ok(server) = TcpStream::connect_timeout(&target, ATTEMPT) {
            // When the address moves, the next packet reaches a server that does not know
            // the connection and resets it: there is one within a second.
            let _ = setsockopt(&server, sockopt::KeepAlive, &true);
            let _ = setsockopt(&server, sockopt::TcpKeepIdle, &1);
            let _ = setsockopt(&server, sockopt::TcpKeepInterval, &1);
            let _ = setsockopt(&server, sockopt::TcpKeepCount, &3);
            let _ = setsockopt(&server, sockopt::TcpUserTimeout, &3000);
            let _ = server.set_nodelay(true);
            return Some(server);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

fn both_ways(client: &TcpStream, server: &TcpStream) {
    let _ = client.set_nodelay(true);
    std::thread::scope(|scope| {
        scope.spawn(|| copy(client, server));
        copy(server, client);
    });
}

/// Copies until one end is reached, and tells the other. A connection that breaks off takes both
/// directions with it.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut buffer = [0; 16 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Ok(size) if to.write_all(&buffer[..size]).is_ok() => {}
            _ => {
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}
