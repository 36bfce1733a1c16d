//! The program at a device's driver.

use aya_ebpf::bindings::xdp_action;
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;

/// Packets that a device of the node received, before the kernel makes buffers
/// of its own for them.
#[xdp]
fn orlop_xdp(_ctx: XdpContext) -> u32 {
    xdp_action::XDP_PASS
}
