//! The programs at network devices.

use aya_ebpf::bindings::TC_ACT_UNSPEC;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;

/// Packets that a device of the node received.
#[classifier]
fn orlop_tc_ingress(_ctx: TcContext) -> i32 {
    TC_ACT_UNSPEC
}

/// Packets that a device of the node is about to send.
#[classifier]
fn orlop_tc_egress(_ctx: TcContext) -> i32 {
    TC_ACT_UNSPEC
}

/// Packets of a pod: received at the host's end of its device.
#[classifier]
fn orlop_tc_pod_ingress(_ctx: TcContext) -> i32 {
    TC_ACT_UNSPEC
}

/// Packets to a pod: about to be sent at the host's end of its device.
#[classifier]
fn orlop_tc_pod_egress(_ctx: TcContext) -> i32 {
    TC_ACT_UNSPEC
}
