//! Pods that end: their devices go, and the programs with them.
//!
//! `ORLOP_COSTS=1 cargo test -p node-agent-datapath --test guard -- leave --nocapture`
//! prints how long the kernel takes for many, one after the other and together.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::net::if_::if_nametoindex;
use node_agent_datapath::remove_devices;
use serde_json::json;

use super::world::{Place, World, ip};

/// Pods, and the names of their devices.
fn pods(world: &mut World, first: usize, count: usize) -> (Vec<Place>, BTreeSet<String>) {
    let pods = (first..first + count).map(|number| {
        let place = world.pod("x", &format!("p{number}"), &json!({"app": "p"}));
        (place, format!("orl{number}"))
    });
    pods.unzip()
}

fn time(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

#[test]
fn devices_of_a_crowd_go_at_once_and_others_stay() {
    let Some(mut world) = World::new() else {
        return;
    };
    let count = if std::env::var_os("ORLOP_COSTS").is_some() {
        40
    } else {
        3
    };
    let (_stays, stay) = pods(&mut world, 1, 1);
    let (_one, one) = pods(&mut world, 2, 1);
    let (_crowd, crowd) = pods(&mut world, 3, count);
    let (_others, others) = pods(&mut world, 3 + count, count);
    let there = |names: &BTreeSet<String>| {
        let is = |name: &&String| if_nametoindex(name.as_str()).is_ok();
        names.iter().filter(is).count()
    };
    assert_eq!(there(&crowd), count);
    let pins = world.pin_dir().to_owned();
    let remove = |names: &BTreeSet<String>| remove_devices(&pins, names).expect("removed");
    let single = time(|| remove(&one));
    let together = time(|| remove(&crowd));
    assert_eq!((there(&stay), there(&one), there(&crowd)), (1, 0, 0));
    let alone = time(|| {
        for name in &others {
            ip(&format!("link del {name}"));
        }
    });
    println!("{count} devices: one {single:?}, together {together:?}, by `ip` each {alone:?}");
    // What is left of the programs is noticed, and in nobody's way.
    world.follow();
    let (_next, next) = pods(&mut world, 3 + 2 * count, 1);
    assert_eq!((there(&stay), there(&next)), (1, 1));
}
