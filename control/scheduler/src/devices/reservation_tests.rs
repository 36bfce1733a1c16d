//! Tests the reservations of devices.

use serde_json::{Value, json};

use super::*;

fn claim(uid: &str, revision: u64, status: Value) -> Arc<ResourceClaim> {
    let claim = json!({
        "metadata": {"name": "c", "namespace": "n", "uid": uid, "resourceVersion": revision.to_string()},
        "status": status,
    });
    Arc::new(serde_json::from_value(claim).expect("a claim"))
}

fn allocation(device: &str) -> Value {
    json!({"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": device}]}})
}

fn pod() -> Pod {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "pod-uid"}});
    serde_json::from_value(pod).expect("a pod")
}

fn reservation(claim: &Arc<ResourceClaim>, device: &str) -> DeviceReservation {
    let allocation = serde_json::from_value(allocation(device)).expect("an allocation");
    DeviceReservation {
        claims: vec![ClaimReservation::new(claim, Some(Arc::new(allocation)))],
        failed: None,
    }
}

fn event(
    previous: Option<&Arc<ResourceClaim>>,
    current: Option<&Arc<ResourceClaim>>,
) -> CatalogEvent {
    CatalogEvent::ResourceClaim(Change {
        previous: previous.cloned(),
        current: current.cloned(),
    })
}

fn in_use(assumed: &AssumedDevices, device: &str) -> bool {
    let pool = control_devices::PoolId {
        driver: "d".into(),
        pool: "p".into(),
    };
    let pool = assumed.allocated.pool(&pool);
    pool.is_some_and(|pool| pool.is_dedicated(device))
}

#[test]
fn devices_are_in_use_from_the_decision_on() {
    let mut assumed = AssumedDevices::default();
    let free = claim("u", 1, json!({}));
    assumed.observe(&event(None, Some(&free)));
    let reservation = reservation(&free, "x");
    assumed.reserve(&pod(), &reservation);
    assert!(in_use(&assumed, "x") && assumed.is_pending("u"));
    // an event from before the write
    let other = claim("u", 2, json!({}));
    assumed.observe(&event(Some(&free), Some(&other)));
    assert!(in_use(&assumed, "x") && assumed.is_pending("u"));
    let allocated = claim("u", 3, json!({"allocation": allocation("x")}));
    assumed.observe(&event(Some(&other), Some(&allocated)));
    assert!(in_use(&assumed, "x") && !assumed.is_pending("u"));
    assumed.unreserve(&pod(), &reservation);
    assert!(in_use(&assumed, "x"), "it is seen in the cache");
    assumed.observe(&event(Some(&allocated), None));
    assert!(!in_use(&assumed, "x"));
}

#[test]
fn what_was_not_written_is_taken_back() {
    let mut assumed = AssumedDevices::default();
    let free = claim("u", 1, json!({}));
    let reservation = reservation(&free, "x");
    assumed.reserve(&pod(), &reservation);
    // it may be written until that has failed
    reservation.claims[0].set_under_way(true);
    assumed.unreserve(&pod(), &reservation);
    assert!(in_use(&assumed, "x"));
    reservation.claims[0].set_under_way(false);
    assumed.unreserve(&pod(), &reservation);
    assert!(!in_use(&assumed, "x") && !assumed.is_pending("u"));
}

#[test]
fn what_was_written_stays_until_it_is_seen() {
    let mut assumed = AssumedDevices::default();
    let free = claim("u", 1, json!({}));
    let reservation = reservation(&free, "x");
    assumed.reserve(&pod(), &reservation);
    let written = claim("u", 5, json!({"allocation": allocation("x")}));
    reservation.claims[0].set_written(Arc::clone(&written));
    assumed.unreserve(&pod(), &reservation);
    assert!(in_use(&assumed, "x"), "the cache does not show it yet");
    // the cache may skip it if the devices were released in between
    let later = claim("u", 6, json!({}));
    assumed.observe(&event(Some(&free), Some(&later)));
    assert!(!in_use(&assumed, "x") && !assumed.is_pending("u"));
}

#[test]
fn a_reservation_of_a_later_attempt_is_not_taken_back() {
    let mut assumed = AssumedDevices::default();
    let free = claim("u", 1, json!({}));
    let (first, second) = (reservation(&free, "x"), reservation(&free, "y"));
    assumed.reserve(&pod(), &first);
    assumed.unreserve(&pod(), &first);
    assumed.reserve(&pod(), &second);
    assumed.unreserve(&pod(), &first);
    assert!(in_use(&assumed, "y") && !in_use(&assumed, "x"));
}

#[test]
fn a_claim_that_is_made_again_has_nothing_of_the_first() {
    let mut assumed = AssumedDevices::default();
    let allocated = claim("u", 3, json!({"allocation": allocation("x")}));
    assumed.observe(&event(None, Some(&allocated)));
    let again = claim("v", 5, json!({}));
    assumed.observe(&event(Some(&allocated), Some(&again)));
    assert!(!in_use(&assumed, "x"));
}

#[test]
fn a_claim_for_extended_resources_takes_the_place_of_what_was_assumed() {
    let mut assumed = AssumedDevices::default();
    let mut reservation = reservation(&Arc::default(), "x");
    reservation.claims[0].mappings = Some(Vec::new());
    assumed.reserve(&pod(), &reservation);
    assert!(in_use(&assumed, "x"));
    let made = json!({
        "metadata": {"name": "m", "namespace": "n", "uid": "made", "resourceVersion": "3",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p",
                "uid": "pod-uid", "controller": true}]},
        "status": {"allocation": allocation("x")},
    });
    let made: Arc<ResourceClaim> = Arc::new(serde_json::from_value(made).expect("a claim"));
    assumed.observe(&event(None, Some(&made)));
    assert!(in_use(&assumed, "x") && !assumed.is_pending("pod-uid"));
    assumed.observe(&event(Some(&made), None));
    assert!(!in_use(&assumed, "x"));
}
