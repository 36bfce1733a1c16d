//! Packets through the programs in the kernel.

#[allow(dead_code, reason = "more tests are to use it")]
#[path = "packets/kernel.rs"]
mod kernel;
#[allow(dead_code, reason = "more tests are to use it")]
#[path = "packets/raw.rs"]
mod raw;

use kernel::Kernel;

#[test]
fn programs_load() {
    let Some(mut kernel) = Kernel::new() else {
        return;
    };
    for (name, cost) in kernel.costs() {
        println!("cost {name} {cost}");
    }
}
