//! Measures the cost of an idle agent.

use std::time::Duration;

use serde_json::json;
use tests::Failure;

use super::{
    cost::{Taken, load, memory},
    subject::Subject,
    watching::names,
};

/// Without pods and with as many as fit into `most`.
pub async fn run(subject: &Subject, most: usize, seconds: u64) -> Result<(), Failure> {
    let watching = subject.watching();
    still(subject, "no further pods", seconds).await;
    let names = names("many", most.saturating_sub(subject.others().await?));
    subject.make(&names, &json!({})).await?;
    watching.ready(&names).await?;
    still(subject, &format!("{most} pods"), seconds).await;
    subject.clear().await
}

/// Memory and processor time while nothing happens.
pub async fn still(subject: &Subject, what: &str, seconds: u64) {
    // what a start leaves behind is given back first
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let before = Taken::now(subject);
    let over = Duration::from_secs(seconds);
    tokio::time::sleep(over).await;
    println!(
        "idle, {what}: {}; {}; load {}",
        memory(subject),
        Taken::now(subject).since(before, Some(over)),
        load()
    );
}
