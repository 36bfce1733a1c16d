//! Lets a listener ignore new connections to one address.
//!
//! While a server gives the address away, a new connection to it must not be refused: a client
//! whose SYN is not answered sends it again after a second, to the server that has the address
//! then, while most clients do not try again after a refusal.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use nix::libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SKF_NET_OFF};
use socket2::{SockFilter, SockRef};

/// Where an IPv4 header has the destination (RFC 791, section 3.1), in bytes.
const DESTINATION_4: u32 = 16;
/// Where an IPv6 header has it (RFC 8200, section 3), in bytes.
const DESTINATION_6: u32 = 24;

/// Makes a listener drop the SYNs that are sent to `address`. Connections that it has accepted go
/// on.
///
/// # Errors
/// The system's error.
pub fn ignore_new_connections(listener: &impl AsFd, address: IpAddr) -> io::Result<()> {
    SockRef::from(listener).attach_filter(&program(address))
}

/// A classic BPF program that drops packets to `address` and keeps all others.
fn program(address: IpAddr) -> Vec<SockFilter> {
    let (begin, bytes) = match address {
        IpAddr::V4(address) => (DESTINATION_4, address.octets().to_vec()),
        IpAddr::V6(address) => (DESTINATION_6, address.octets().to_vec()),
    };
    let words: Vec<u32> = bytes
        .chunks_exact(4)
        .map(|word| {
            word.iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte))
        })
        .collect();
    let mut program = Vec::new();
    for (number, word) in (0u8..).zip(&words) {
        let left = u8::try_from(words.len()).unwrap_or(u8::MAX) - number - 1;
        let offset = SKF_NET_OFF.cast_unsigned() + begin + 4 * u32::from(number);
        program.push(statement(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset));
        // A word that differs leads to the last statement.
        program.push(statement(BPF_JMP | BPF_JEQ | BPF_K, 0, 2 * left + 1, *word));
    }
    program.push(statement(BPF_RET | BPF_K, 0, 0, 0));
    program.push(statement(BPF_RET | BPF_K, 0, 0, u32::MAX));
    program
}

fn statement(code: u32, if_true: u8, if_false: u8, operand: u32) -> SockFilter {
    let code = u16::try_from(code).unwrap_or_default();
    SockFilter::new(code, if_true, if_false, operand)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Whether a connection is made within 300 ms; a SYN is sent again after one second.
    async fn connects(to: IpAddr, port: u16) -> bool {
        let connect = TcpStream::connect((to, port));
        let connected = tokio::time::timeout(Duration::from_millis(300), connect).await;
        connected.is_ok_and(|connected| connected.expect("not refused").peer_addr().is_ok())
    }

    #[tokio::test]
    async fn new_connections_to_the_address_are_neither_made_nor_refused() {
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let [shared, own] =
            [[127, 0, 0, 2], [127, 0, 0, 1]].map(|it| IpAddr::from(Ipv4Addr::from(it)));
        let old = TcpStream::connect((shared, port)).await.expect("connected");
        let (accepted, _) = listener.accept().await.expect("accepted");
        ignore_new_connections(&listener, shared).expect("a filter");
        assert!(!connects(shared, port).await);
        assert!(connects(own, port).await);
        old.try_write(b"?").expect("sent");
        let readable = tokio::time::timeout(Duration::from_secs(5), accepted.readable());
        readable
            .await
            .expect("in time")
            .expect("the old connection goes on");
    }

    #[tokio::test]
    async fn all_words_of_an_address_are_compared() {
        let Ok(listener) = TcpListener::bind("[::1]:0").await else {
            println!("skipped: the machine has no IPv6");
            return;
        };
        let port = listener.local_addr().expect("an address").port();
        let own = IpAddr::from(Ipv6Addr::LOCALHOST);
        for other in ["::2", "1::1", "0:0:1::1", "0:0:0:0:1::1"] {
            let other = other.parse().expect("an address");
            ignore_new_connections(&listener, other).expect("a filter");
            assert!(connects(own, port).await, "{other}");
        }
        ignore_new_connections(&listener, own).expect("a filter");
        assert!(!connects(own, port).await);
    }
}
