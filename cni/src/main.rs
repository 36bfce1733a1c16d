//! `orlop-cni`: creates a pod's network interface.
//!
//! A pod gets a veth pair and addresses of the node's pod ranges (`/32` and `/128`); its
//! default route points at a link-local gateway whose hardware address is the host's end,
//! so that no bridge and no ARP are in the path. See README.md for the manual; the verbs
//! are those of the CNI specification 1.1, section 2.

use std::process::ExitCode;

mod addresses;
mod agent;
mod config;
mod error;
mod input;
mod link;
mod loopback;
mod node;
mod reply;
mod verbs;

fn main() -> ExitCode {
    verbs::run()
}
