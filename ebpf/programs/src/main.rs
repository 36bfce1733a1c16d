//! Entry points only: attach types, maps, calls into logic.
//!
//! Compiled for `bpfel-unknown-none` by `cargo xtask build`. For the host this
//! is an empty program, so that tools which check the whole workspace pass.

#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

#[cfg(target_arch = "bpf")]
mod bandwidth;
#[cfg(target_arch = "bpf")]
mod bytes;
#[cfg(target_arch = "bpf")]
mod host;
#[cfg(target_arch = "bpf")]
mod log;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod policy;
#[cfg(target_arch = "bpf")]
mod record;
#[cfg(target_arch = "bpf")]
mod route;
#[cfg(target_arch = "bpf")]
mod scratch;
#[cfg(target_arch = "bpf")]
mod socket;
#[cfg(target_arch = "bpf")]
mod steps;
#[cfg(target_arch = "bpf")]
mod tc;
#[cfg(target_arch = "bpf")]
mod xdp;

/// Helpers such as `bpf_ktime_get_ns` require a licence that the kernel knows; the
/// kernel's list lacks Apache-2.0, and this program is offered under either.
#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[cfg(not(target_arch = "bpf"))]
fn main() {
    eprintln!("this program runs in the kernel: `cargo xtask build` compiles it");
}
