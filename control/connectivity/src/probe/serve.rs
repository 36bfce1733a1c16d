//! The serving side: names over HTTP, and echoes.

use std::{
    io::{BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    thread,
    time::{Duration, Instant},
};

use nix::{
    cmsg_space, libc,
    sys::{
        signal::{SigSet, Signal},
        socket::{
            ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg,
            setsockopt, sockopt,
        },
    },
};

use super::{Error, TIMEOUT};

/// Bytes of a request that are read at most.
const REQUEST: u64 = 8192;

/// How long the port of another socket is waited for: on a node's own network, the probe of an
/// earlier test may still be ending.
const BUSY: Duration = Duration::from_secs(30);
/// The interval between attempts to listen.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts to serve: HTTP that answers with `NAME CLIENT`, and echoes.
pub fn start(name: &str, http: u16, echo: u16) -> std::io::Result<()> {
    let until = Instant::now() + BUSY;
    let listener = free(until, || TcpListener::bind(any(http)))?;
    let name = name.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let name = name.clone();
            // A client that disconnects is not an error.
            thread::spawn(move || drop(answer(&stream, &name)));
        }
    });
    let listener = free(until, || TcpListener::bind(any(echo)))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || drop(send_back(&stream)));
        }
    });
    let socket = free(until, || UdpSocket::bind(any(echo)))?;
    match socket.local_addr()? {
        SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
        SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?,
    }
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        loop {
            // A client that is gone is not an error.
            let _ = echo_datagram(&socket, &mut buffer);
        }
    });
    Ok(())
}

/// Binds again until the port is free, or time is up.
fn free<T>(until: Instant, bind: impl Fn() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                thread::sleep(PAUSE);
            }
            bound => return bound,
        }
    }
}

/// The signals that end a serving probe. The first process of a container gets only those
/// that it waits for.
pub struct EndSignals(SigSet);

impl EndSignals {
    /// Blocks them in this thread and those that it starts from now on.
    pub fn block() -> Result<Self, Error> {
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        let blocked = signals.thread_block().map(|()| Self(signals));
        blocked.map_err(|error| Error::Signals {
            action: "block",
            error,
        })
    }

    /// Waits for one.
    pub fn wait(self) -> Result<(), Error> {
        let waited = self.0.wait().map(drop);
        waited.map_err(|error| Error::Signals {
            action: "wait for",
            error,
        })
    }
}

/// All addresses, of both IP versions where the kernel has both.
fn any(port: u16) -> SocketAddr {
    let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => six,
        Err(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
    }
}

fn answer(stream: &TcpStream, name: &str) -> std::io::Result<()> {
    let client = stream.peer_addr()?.ip().to_canonical();
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.take(REQUEST));
    let mut line = String::new();
    while lines.read_line(&mut line)? > 2 {
        line.clear();
    }
    let body = format!("{name} {client}\n");
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn send_back(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT * 5))?;
    let mut buffer = vec![0; 65_536];
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length])?;
    }
}

/// Sends a datagram back from the address to which it was sent. The kernel would choose the address
/// nearest to the client, for a pod that asks its own node often that of a bridge.
fn echo_datagram(socket: &UdpSocket, buffer: &mut [u8]) -> nix::Result<()> {
    let mut space = cmsg_space!(libc::in6_pktinfo);
    let (length, client, asked) = {
        let mut parts = [IoSliceMut::new(buffer)];
        let message = recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::empty(),
        )?;
        let asked = message.cmsgs()?.next();
        (message.bytes, message.address, asked)
    };
    let (mut four, mut six);
    let source = match asked {
        Some(ControlMessageOwned::Ipv4PacketInfo(info)) => {
            four = info;
            four.ipi_ifindex = 0;
            four.ipi_spec_dst = info.ipi_addr;
            Some(ControlMessage::Ipv4PacketInfo(&four))
        }
        Some(ControlMessageOwned::Ipv6PacketInfo(info)) => {
            six = info;
            six.ipi6_ifindex = 0;
            Some(ControlMessage::Ipv6PacketInfo(&six))
        }
        _ => None,
    };
    let bytes = [IoSlice::new(&buffer[..length])];
    sendmsg(
        socket.as_raw_fd(),
        &bytes,
        source.as_slice(),
        MsgFlags::empty(),
        client.as_ref(),
    )
    .map(drop)
}
