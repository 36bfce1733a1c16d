//! The namespace of a connectivity test.

use std::time::{Duration, Instant};

use control_client::{Client, DeleteOptions, Selection, resources};
use control_connectivity::objects;
use jiff::Timestamp;
use serde_json::Value;

use super::{POLL, gather};
use crate::error::Error;

/// The age from which the namespace of another test counts as abandoned.
const STALE: Duration = Duration::from_secs(60 * 60);

/// Creates one.
///
/// # Errors
/// What the API says.
pub async fn create(client: &Client) -> Result<String, Error> {
    let namespace = client
        .create::<Value>(&resources::NAMESPACES, "", &objects::namespace())
        .await
        .map_err(Error::Client)?;
    gather::name(&namespace)
        .map(str::to_owned)
        .ok_or_else(|| Error::Connectivity("the API server gave a namespace no name".to_owned()))
}

/// Removes a namespace and waits until it no longer exists.
///
/// # Errors
/// The API's error, or that it still exists.
pub async fn remove(client: &Client, name: &str, limit: Duration) -> Result<(), Error> {
    let started = Instant::now();
    let mut last = String::new();
    loop {
        let deleted = client
            .delete(&resources::NAMESPACES, "", name, &DeleteOptions::default())
            .await;
        match deleted {
            Err(error) if error.is_not_found() => return Ok(()),
            // It goes, or is changed at the moment.
            Ok(()) => {}
            Err(error) => last = format!(": {}", error.chain()),
        }
        if started.elapsed() > limit {
            return Err(Error::Connectivity(format!(
                "namespace {name} is still there after {} s; remove it with `kubectl delete \
                 namespace {name}`{last}",
                limit.as_secs()
            )));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Removes what tests left that were killed. Failures are left to the next test.
pub async fn remove_stale(client: &Client) {
    let selection = Selection::all().labels(format!("{}=true", objects::LABEL));
    let Ok(list) = client
        .list::<Value>(&resources::NAMESPACES, &selection)
        .await
    else {
        return;
    };
    for namespace in list.items {
        let created = namespace["metadata"]["creationTimestamp"].as_str();
        if let Some(name) = gather::name(&namespace)
            && created.is_some_and(|created| is_stale(created, Timestamp::now()))
        {
            eprintln!("removing namespace {name}, left by an earlier test");
            let _ = client
                .delete(&resources::NAMESPACES, "", name, &DeleteOptions::default())
                .await;
        }
    }
}

fn is_stale(created: &str, now: Timestamp) -> bool {
    let created: Option<Timestamp> = created.parse().ok();
    created.is_some_and(|created| {
        let age = now.duration_since(created);
        Duration::try_from(age).is_ok_and(|age| age > STALE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_namespaces_are_stale() {
        let now: Timestamp = "2030-01-01T12:00:00Z".parse().unwrap();
        assert!(is_stale("2030-01-01T10:00:00Z", now));
        assert!(!is_stale("2030-01-01T11:30:00Z", now));
        assert!(!is_stale("2030-01-01T13:00:00Z", now), "another clock");
        assert!(!is_stale("", now));
    }
}
