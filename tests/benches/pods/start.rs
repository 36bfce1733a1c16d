//! From bind to Ready.

use std::{slice, time::Duration};

use serde_json::json;
use tests::Failure;

use super::{
    cost::{Taken, load, spread},
    subject::Subject,
    watching::names,
};

/// Pods whose times are not counted: caches are filled by them.
const WARM: usize = 2;

/// One pod after the other.
pub async fn singles(subject: &Subject, count: usize) -> Result<(), Failure> {
    let watching = subject.watching();
    let mut times = Vec::new();
    let mut before = Taken::now(subject);
    for (number, name) in names("single", count + WARM).iter().enumerate() {
        if number == WARM {
            before = Taken::now(subject);
        }
        subject.make(slice::from_ref(name), &json!({})).await?;
        let seen = watching.ready(slice::from_ref(name)).await?;
        if number >= WARM {
            times.extend(seen.first().and_then(super::watching::Seen::took));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let cost = Taken::now(subject).since(before, None);
    println!(
        "{count} pods, one at a time, bind to Ready: {}; {cost}; load {}",
        spread(times),
        load()
    );
    subject.clear().await
}

/// Many at once.
pub async fn batch(subject: &Subject, count: usize) -> Result<(), Failure> {
    let watching = subject.watching();
    let names = names("batch", count);
    let before = Taken::now(subject);
    subject.make(&names, &json!({})).await?;
    let seen = watching.ready(&names).await?;
    let cost = Taken::now(subject).since(before, None);
    let first = seen.iter().filter_map(|pod| pod.bound).min();
    let last = seen.iter().filter_map(|pod| pod.ready).max();
    let all = first
        .zip(last)
        .map_or(Duration::ZERO, |(from, to)| to - from);
    println!(
        "{count} pods at once, first bind to last Ready: {:.2} s; each {}; {cost}; load {}",
        all.as_secs_f64(),
        spread(
            seen.iter()
                .filter_map(super::watching::Seen::took)
                .collect()
        ),
        load()
    );
    subject.clear().await
}
