//! Keeps the kernel translating the connections that it knows, whoever removes his rules.
//!
//! What a connection becomes is decided once, by a rule for its first packet; afterwards
//! connection tracking translates it. But the kernel's hooks for that exist only while some
//! chain of type `nat` does, and those of connection tracking itself only while some rule
//! asks it: with the last ones all connections are lost at once. A chain with a rule that
//! reads a connection's state is enough, and does nothing by itself.
//!
//! ```text
//! table ip orlop-keeps-nat { chain output { type nat hook output priority 100; ct state } }
//! ```

use std::io;

use rustix::net::netlink::NETFILTER;

use super::attributes::{header, nest, put};
use super::conntrack::{V4, V6};
use crate::netlink::{ACK, CREATE, Message, Socket};

/// The table's name.
pub(crate) const TABLE: &str = "orlop-keeps-nat";
const CHAIN: &str = "output";

/// nf_tables' number (`NFNL_SUBSYS_NFTABLES`).
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const GET_TABLE: u16 = SUBSYSTEM << 8 | 1;
const DELETE_TABLE: u16 = SUBSYSTEM << 8 | 2;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;
const APPEND: u16 = 0x800;

const TABLE_NAME: u16 = 1;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const ELEMENT: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const CT_REGISTER: u16 = 1;
const CT_KEY: u16 = 2;
/// `NFT_REG_1`.
const REGISTER: u32 = 1;
/// `NFT_CT_STATE`.
const STATE: u32 = 0;
/// `NF_INET_LOCAL_OUT`.
const LOCAL_OUT: u32 = 3;
/// Behind everybody else's.
const PRIORITY: u32 = 100;

const ENOENT: i32 = 2;

/// Adds the table for both IP versions; it is fine if it is there.
pub(super) fn add() -> io::Result<()> {
    for family in [V4, V6] {
        if is_there_in(family)? {
            continue;
        }
        commit(&[
            Message {
                kind: NEW_TABLE,
                flags: ACK | CREATE,
                body: table(family),
            },
            Message {
                kind: NEW_CHAIN,
                flags: ACK | CREATE,
                body: chain(family),
            },
            Message {
                kind: NEW_RULE,
                flags: ACK | CREATE | APPEND,
                body: rule(family),
            },
        ])?;
    }
    Ok(())
}

/// Removes it; it is fine if it is not there. Connections that no other chain keeps are
/// translated no more.
pub(super) fn remove() -> io::Result<()> {
    for family in [V4, V6] {
        if !is_there_in(family)? {
            continue;
        }
        commit(&[Message {
            kind: DELETE_TABLE,
            flags: ACK,
            body: table(family),
        }])?;
    }
    Ok(())
}

/// Whether it is there, for either IP version.
pub(super) fn is_there() -> io::Result<bool> {
    Ok(is_there_in(V4)? || is_there_in(V6)?)
}

fn is_there_in(family: u8) -> io::Result<bool> {
    let found = Socket::open(Some(NETFILTER))
        .and_then(|mut socket| socket.request(GET_TABLE, ACK, &table(family), |_| {}));
    match found {
        Ok(()) => Ok(true),
        // A kernel without nf_tables says `EINVAL` or `EOPNOTSUPP`, one without netfilter's
        // netlink `EPROTONOSUPPORT`.
        Err(error) if matches!(error.raw_os_error(), Some(ENOENT | 22 | 93 | 95)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn commit(messages: &[Message]) -> io::Result<()> {
    let edge = |kind| Message {
        kind,
        flags: 0,
        body: header(0, SUBSYSTEM),
    };
    Socket::open(Some(NETFILTER))?.commit(&edge(BEGIN), messages, &edge(END))
}

fn table(family: u8) -> Vec<u8> {
    let mut body = header(family, 0);
    put(&mut body, TABLE_NAME, &name(TABLE));
    body
}

fn chain(family: u8) -> Vec<u8> {
    let mut body = header(family, 0);
    put(&mut body, CHAIN_TABLE, &name(TABLE));
    put(&mut body, CHAIN_NAME, &name(CHAIN));
    nest(&mut body, CHAIN_HOOK, |hook| {
        put(hook, HOOK_NUMBER, &LOCAL_OUT.to_be_bytes());
        put(hook, HOOK_PRIORITY, &PRIORITY.to_be_bytes());
    });
    put(&mut body, CHAIN_TYPE, &name("nat"));
    body
}

/// Reads a connection's state, and nothing else.
fn rule(family: u8) -> Vec<u8> {
    let mut body = header(family, 0);
    put(&mut body, RULE_TABLE, &name(TABLE));
    put(&mut body, RULE_CHAIN, &name(CHAIN));
    nest(&mut body, RULE_EXPRESSIONS, |all| {
        nest(all, ELEMENT, |one| {
            put(one, EXPRESSION_NAME, &name("ct"));
            nest(one, EXPRESSION_DATA, |data| {
                put(data, CT_REGISTER, &REGISTER.to_be_bytes());
                put(data, CT_KEY, &STATE.to_be_bytes());
            });
        });
    });
    body
}

/// A name as the kernel wants it: with a zero at its end.
fn name(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    /// In a namespace of its own, as the kernel sees it.
    #[test]
    fn the_table_comes_and_goes_and_twice_is_fine() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
                assert!(!is_there().unwrap());
                remove().unwrap();
                if let Err(error) = add() {
                    println!("skipped: this kernel has no nf_tables: {error}");
                    return;
                }
                add().unwrap();
                assert!(is_there().unwrap());
                remove().unwrap();
                assert!(!is_there().unwrap());
                remove().unwrap();
            });
        });
    }
}
