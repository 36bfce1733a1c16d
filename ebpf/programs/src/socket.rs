//! The socket hooks, attached at a node's cgroup.

use aya_ebpf::bindings::bpf_sock_addr;
use aya_ebpf::helpers::generated::bpf_set_retval;
use aya_ebpf::helpers::{bpf_get_netns_cookie, bpf_get_socket_cookie};
use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;
use ebpf_abi::{Address, Port, Protocol};
use ebpf_logic::{Family, Peer, Socket, SocketVerdict};

use crate::maps::Kernel;

const GO_ON: i32 = 1;
const FAIL: i32 = 0;

#[cgroup_sock_addr(connect4)]
fn orlop_connect4(ctx: SockAddrContext) -> i32 {
    answer(ebpf_logic::connect(&Kernel, &mut V4(ctx.sock_addr)))
}

#[cgroup_sock_addr(connect6)]
fn orlop_connect6(ctx: SockAddrContext) -> i32 {
    answer(ebpf_logic::connect(&Kernel, &mut V6(ctx.sock_addr)))
}

#[cgroup_sock_addr(sendmsg4)]
fn orlop_sendmsg4(ctx: SockAddrContext) -> i32 {
    answer(ebpf_logic::send(&Kernel, &mut V4(ctx.sock_addr)))
}

#[cgroup_sock_addr(sendmsg6)]
fn orlop_sendmsg6(ctx: SockAddrContext) -> i32 {
    answer(ebpf_logic::send(&Kernel, &mut V6(ctx.sock_addr)))
}

#[cgroup_sock_addr(recvmsg4)]
fn orlop_recvmsg4(ctx: SockAddrContext) -> i32 {
    ebpf_logic::receive(&Kernel, &mut V4(ctx.sock_addr));
    GO_ON
}

#[cgroup_sock_addr(recvmsg6)]
fn orlop_recvmsg6(ctx: SockAddrContext) -> i32 {
    ebpf_logic::receive(&Kernel, &mut V6(ctx.sock_addr));
    GO_ON
}

#[cgroup_sock_addr(getpeername4)]
fn orlop_getpeer4(ctx: SockAddrContext) -> i32 {
    ebpf_logic::peer_name(&Kernel, &mut V4(ctx.sock_addr));
    GO_ON
}

#[cgroup_sock_addr(getpeername6)]
fn orlop_getpeer6(ctx: SockAddrContext) -> i32 {
    ebpf_logic::peer_name(&Kernel, &mut V6(ctx.sock_addr));
    GO_ON
}

#[cgroup_sock_addr(bind4)]
fn orlop_bind4(ctx: SockAddrContext) -> i32 {
    answer(ebpf_logic::bind(&Kernel, &V4(ctx.sock_addr)))
}

#[cgroup_sock_addr(bind6)]
fn orlop_bind6(ctx: SockAddrContext) -> i32 {
    answer(ebpf_logic::bind(&Kernel, &V6(ctx.sock_addr)))
}

#[inline(always)]
fn answer(verdict: SocketVerdict) -> i32 {
    match verdict {
        SocketVerdict::Pass | SocketVerdict::Translated => GO_ON,
        SocketVerdict::Refuse(refusal) => {
            // SAFETY: the helper takes a number. Without it the kernel would
            // say EPERM.
            unsafe { bpf_set_retval(-refusal.errno()) };
            FAIL
        }
    }
}

/// A call with an `AF_INET` address.
struct V4(*mut bpf_sock_addr);
/// A call with an `AF_INET6` address.
struct V6(*mut bpf_sock_addr);

// The context is no memory: the verifier rewrites each access of a field at
// its constant offset. Volatile keeps the compiler from merging accesses.

macro_rules! load {
    ($ctx:expr, $($field:tt)+) => {
        // SAFETY: the kernel hands a valid context in, for the whole run.
        unsafe { core::ptr::addr_of!((*$ctx).$($field)+).read_volatile() }
    };
}

macro_rules! store {
    ($ctx:expr, $value:expr, $($field:tt)+) => {
        // SAFETY: as for `load`; the field may be written in these hooks.
        unsafe { core::ptr::addr_of_mut!((*$ctx).$($field)+).write_volatile($value) }
    };
}

impl Socket for V4 {
    #[inline(always)]
    fn family(&self) -> Family {
        Family::V4
    }

    #[inline(always)]
    fn protocol(&self) -> Protocol {
        Protocol(load!(self.0, protocol) as u8)
    }

    #[inline(always)]
    fn peer(&self) -> Peer {
        let address = Address::v4(load!(self.0, user_ip4).to_ne_bytes());
        Peer {
            address,
            port: Port(load!(self.0, user_port) as u16),
        }
    }

    #[inline(always)]
    fn set_peer(&mut self, peer: Peer) {
        store!(self.0, peer.address.last_word(), user_ip4);
        store!(self.0, u32::from(peer.port.0), user_port);
    }

    #[inline(always)]
    fn cookie(&self) -> u64 {
        cookie(self.0)
    }

    #[inline(always)]
    fn namespace(&self) -> u64 {
        namespace(self.0)
    }
}

impl Socket for V6 {
    #[inline(always)]
    fn family(&self) -> Family {
        Family::V6
    }

    #[inline(always)]
    fn protocol(&self) -> Protocol {
        Protocol(load!(self.0, protocol) as u8)
    }

    #[inline(always)]
    fn peer(&self) -> Peer {
        let words = [
            load!(self.0, user_ip6[0]),
            load!(self.0, user_ip6[1]),
            load!(self.0, user_ip6[2]),
            load!(self.0, user_ip6[3]),
        ];
        Peer {
            address: Address::from_words(words),
            port: Port(load!(self.0, user_port) as u16),
        }
    }

    #[inline(always)]
    fn set_peer(&mut self, peer: Peer) {
        let [a, b, c, d] = peer.address.to_words();
        store!(self.0, a, user_ip6[0]);
        store!(self.0, b, user_ip6[1]);
        store!(self.0, c, user_ip6[2]);
        store!(self.0, d, user_ip6[3]);
        store!(self.0, u32::from(peer.port.0), user_port);
    }

    #[inline(always)]
    fn cookie(&self) -> u64 {
        cookie(self.0)
    }

    #[inline(always)]
    fn namespace(&self) -> u64 {
        namespace(self.0)
    }
}

#[inline(always)]
fn cookie(ctx: *mut bpf_sock_addr) -> u64 {
    // SAFETY: the context is valid for the whole run.
    unsafe { bpf_get_socket_cookie(ctx.cast()) }
}

#[inline(always)]
fn namespace(ctx: *mut bpf_sock_addr) -> u64 {
    // SAFETY: the context is valid for the whole run.
    unsafe { bpf_get_netns_cookie(ctx.cast()) }
}
