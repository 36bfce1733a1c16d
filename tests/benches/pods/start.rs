//! Measures the time from binding to Ready.

use std::{slice, time::Duration};

use serde_json::{Value, json};
use tests::Failure;

use super::{
    cost::{Taken, load, spread},
    subject::Subject,
    watching::{Seen, Watching, names},
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
            times.extend(seen.first().and_then(Seen::took));
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
    all(subject, &watching, &names("batch", count), &json!({})).await?;
    subject.clear().await
}

/// Starts all these, and says how long it took until all were ready.
pub async fn all(
    subject: &Subject,
    watching: &Watching,
    names: &[String],
    further: &Value,
) -> Result<(), Failure> {
    let before = Taken::now(subject);
    subject.make(names, further).await?;
    let seen = watching.ready(names).await?;
    let cost = Taken::now(subject).since(before, None);
    let first = seen.iter().filter_map(|pod| pod.bound).min();
    let last = seen.iter().filter_map(|pod| pod.ready).max();
    let took = first
        .zip(last)
        .map_or(Duration::ZERO, |(from, to)| to - from);
    println!(
        "{} pods at once, first bind to last Ready: {:.2} s; each {}; {cost}; load {}",
        names.len(),
        took.as_secs_f64(),
        spread(seen.iter().filter_map(Seen::took).collect()),
        load()
    );
    Ok(())
}
