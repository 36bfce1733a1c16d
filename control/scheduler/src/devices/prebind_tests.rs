//! Tests PreBind against a fake API, in virtual time.

use std::convert::Infallible;
use std::sync::Mutex;

use bytes::Bytes;
use control_client::events::{Format, Recorder};
use control_client::{Cache, RequestBody};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use tower::service_fn;

use super::*;
use crate::catalog::Catalog;
use crate::devices::unreserve;

/// An API server of one claim.
#[derive(Default)]
struct Api {
    claim: Mutex<Value>,
    /// The requests with their bodies.
    requests: Mutex<Vec<(String, Value)>>,
    /// The number of writes before each of which the claim is changed by another writer.
    disturb: Mutex<u32>,
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "code": code, "reason": reason, "message": "no"}),
    )
}

impl Api {
    fn of(claim: Value) -> Arc<Self> {
        Arc::new(Self {
            claim: Mutex::new(claim),
            ..Self::default()
        })
    }

    fn serve(&self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        if path.ends_with("/events") {
            return (201, json!({}));
        }
        self.requests
            .lock()
            .unwrap()
            .push((format!("{method} {path}"), body.clone()));
        let mut claim = self.claim.lock().unwrap();
        let bump = |claim: &mut Value| {
            let revision = claim["metadata"]["resourceVersion"].as_str().unwrap_or("0");
            let revision: u64 = revision.parse().expect("a revision");
            claim["metadata"]["resourceVersion"] = json!((revision + 1).to_string());
        };
        if path.contains("/pods/") {
            return (200, json!({"metadata": {}}));
        }
        match *method {
            Method::GET => (200, claim.clone()),
            Method::POST => {
                *claim = body;
                claim["metadata"]["name"] = json!("made");
                claim["metadata"]["uid"] = json!("made-uid");
                claim["metadata"]["resourceVersion"] = json!("1");
                (201, claim.clone())
            }
            Method::DELETE => {
                *claim = Value::Null;
                (200, json!({}))
            }
            _ => {
                let mut disturb = self.disturb.lock().unwrap();
                if *disturb > 0 {
                    *disturb -= 1;
                    bump(&mut claim);
                }
                let wanted = &body["metadata"]["resourceVersion"];
                if !wanted.is_null() && *wanted != claim["metadata"]["resourceVersion"] {
                    return status(409, "Conflict");
                }
                merge(&mut claim, &body);
                bump(&mut claim);
                (200, claim.clone())
            }
        }
    }

    fn client(self: &Arc<Self>) -> Client {
        let api = Arc::clone(self);
        let service = service_fn(move |request: Request<RequestBody>| {
            let api = Arc::clone(&api);
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await.expect("a body").to_bytes();
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let (code, answer) = api.serve(&parts.method, parts.uri.path(), body);
                let body = Full::new(Bytes::from(answer.to_string()));
                let response = Response::builder().status(code).body(body);
                Ok::<_, Infallible>(response.expect("an answer"))
            }
        });
        Client::in_process(service, ())
    }

    fn binder(self: &Arc<Self>, catalog: Catalog) -> PreBinder {
        let client = self.client();
        PreBinder {
            recorder: Recorder::new(&client, "test", "test", Format::Events),
            client,
            catalog: Arc::new(catalog),
            nodes: Cache::fixed([]),
            pods: Cache::fixed([]),
            bind_timeout: Duration::from_secs(1),
        }
    }

    fn asked(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().map(|(asked, _)| asked.clone()).collect()
    }
}

/// A subset of RFC 7386.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().expect("an object").remove(key);
        } else {
            merge(&mut into[key.as_str()], value);
        }
    }
}

fn claim(status: &Value) -> Value {
    json!({"metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7",
        "finalizers": ["example.com/other"]}, "spec": {}, "status": status})
}

fn pod() -> Pod {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "pod-uid"}});
    serde_json::from_value(pod).expect("a pod")
}

fn allocation(binding: &[&str]) -> AllocationResult {
    serde_json::from_value(
        json!({"devices": {"results": [{"request": "r", "driver": "d",
        "pool": "p", "device": "x", "bindingConditions": binding}]}}),
    )
    .expect("an allocation")
}

fn reserve(claim: &Value, allocation: Option<AllocationResult>) -> DeviceReservation {
    let claim: ResourceClaim = serde_json::from_value(claim.clone()).expect("a claim");
    let allocation = allocation.map(Arc::new);
    DeviceReservation {
        claims: vec![ClaimReservation::new(&Arc::new(claim), allocation)],
        failed: None,
    }
}

fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[tokio::test(start_paused = true)]
async fn allocation_finalizer_and_reservation_are_written() {
    let free = claim(&json!({}));
    let api = Api::of(free.clone());
    let reservation = reserve(&free, Some(allocation(&[])));
    let binder = api.binder(Catalog::default());
    prebind(&binder, &pod(), "node", &reservation)
        .await
        .expect("written");
    let claim = api.claim.lock().unwrap();
    assert_eq!(
        claim["metadata"]["finalizers"],
        json!([
            "example.com/other",
            "resource.kubernetes.io/delete-protection"
        ])
    );
    assert_eq!(
        claim["status"]["allocation"]["devices"]["results"][0]["device"],
        "x"
    );
    assert!(claim["status"]["allocation"]["allocationTimestamp"].is_string());
    assert_eq!(
        claim["status"]["reservedFor"],
        json!([{"resource": "pods", "name": "p", "uid": "pod-uid"}])
    );
    let resource = "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims/c";
    assert_eq!(
        api.asked(),
        [
            format!("PATCH {resource}"),
            format!("PATCH {resource}/status")
        ]
    );
    assert_eq!(
        api.requests.lock().unwrap()[1].1["metadata"]["resourceVersion"],
        "8"
    );
    let written = reservation.claims[0].last_written().expect("written");
    assert!(written.is_reserved_for("pod-uid"));
}

#[tokio::test(start_paused = true)]
async fn an_allocated_claim_is_reserved_for_one_more_pod() {
    let shared = claim(&json!({"allocation": allocation(&[]), "reservedFor": [
        {"resource": "pods", "name": "q", "uid": "q"}]}));
    let api = Api::of(shared.clone());
    let binder = api.binder(Catalog::default());
    prebind(&binder, &pod(), "node", &reserve(&shared, None))
        .await
        .expect("written");
    let claim = api.claim.lock().unwrap();
    assert_eq!(
        claim["status"]["reservedFor"].as_array().map(Vec::len),
        Some(2)
    );
    assert_eq!(
        claim["metadata"]["finalizers"],
        json!(["example.com/other"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_is_repeated_when_others_were_faster() {
    let free = claim(&json!({}));
    let api = Api::of(free.clone());
    *api.disturb.lock().unwrap() = 2;
    let binder = api.binder(Catalog::default());
    prebind(
        &binder,
        &pod(),
        "node",
        &reserve(&free, Some(allocation(&[]))),
    )
    .await
    .expect("written");
    assert!(api.claim.lock().unwrap()["status"]["allocation"].is_object());
    let api = Api::of(free.clone());
    *api.disturb.lock().unwrap() = 100;
    let binder = api.binder(Catalog::default());
    let error = prebind(
        &binder,
        &pod(),
        "node",
        &reserve(&free, Some(allocation(&[]))),
    )
    .await
    .expect_err("others are always faster");
    assert!(
        text(&error).starts_with("add finalizer to claim n/c: "),
        "{}",
        text(&error)
    );
    assert_eq!(api.asked().len(), 9, "five attempts, with reads between");
}

#[tokio::test(start_paused = true)]
async fn what_others_decided_meanwhile_is_not_overwritten() {
    let free = claim(&json!({}));
    for (now, error) in [
        (
            claim(&json!({"allocation": allocation(&[])})),
            "claim n/c got allocated elsewhere in the meantime",
        ),
        (
            {
                let mut going = claim(&json!({}));
                going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                going
            },
            "claim n/c got deleted in the meantime",
        ),
        (
            {
                let mut again = claim(&json!({}));
                again["metadata"]["uid"] = json!("another");
                again
            },
            "claim n/c got deleted in the meantime",
        ),
    ] {
        let mut now = now;
        now["metadata"]["resourceVersion"] = json!("9");
        let api = Api::of(now.clone());
        let binder = api.binder(Catalog::default());
        let failed = prebind(
            &binder,
            &pod(),
            "node",
            &reserve(&free, Some(allocation(&[]))),
        )
        .await;
        assert_eq!(failed.expect_err("an error").to_string(), error);
        assert_eq!(*api.claim.lock().unwrap(), now);
    }
    let allocated = claim(&json!({"allocation": allocation(&[])}));
    let mut free = free;
    free["metadata"]["resourceVersion"] = json!("9");
    let api = Api::of(free);
    let binder = api.binder(Catalog::default());
    let failed = prebind(&binder, &pod(), "node", &reserve(&allocated, None)).await;
    assert_eq!(
        failed.expect_err("an error").to_string(),
        "claim n/c got deallocated elsewhere in the meantime"
    );
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_made_for_extended_resources_and_taken_back() {
    let api = Api::of(Value::Null);
    let mut reservation = reserve(
        &json!({"metadata": {"namespace": "n"}}),
        Some(allocation(&[])),
    );
    reservation.claims[0].mappings = Some(vec![ContainerResourceRequest {
        container_name: "main".into(),
        resource_name: "example.com/gpu".into(),
        request_name: "container-0-request-0".into(),
    }]);
    let binder = api.binder(Catalog::default());
    prebind(&binder, &pod(), "node", &reservation)
        .await
        .expect("written");
    let claims = "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims";
    assert_eq!(
        api.asked(),
        [
            format!("POST {claims}"),
            format!("PATCH {claims}/made"),
            format!("PATCH {claims}/made/status"),
            "PATCH /api/v1/namespaces/n/pods/p/status".to_owned(),
        ]
    );
    {
        let requests = api.requests.lock().unwrap();
        assert_eq!(
            requests[0].1["metadata"]["generateName"],
            "p-extended-resources-"
        );
        assert_eq!(
            requests[3].1["status"]["extendedResourceClaimStatus"],
            json!({"resourceClaimName": "made", "requestMappings": [{"containerName": "main",
                "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}]})
        );
    }
    unreserve(&binder.client, &pod(), &reservation).await;
    assert_eq!(*api.claim.lock().unwrap(), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_taken_back() {
    let free = claim(&json!({}));
    let api = Api::of(free.clone());
    let reservation = reserve(&free, Some(allocation(&[])));
    let binder = api.binder(Catalog::default());
    prebind(&binder, &pod(), "node", &reservation)
        .await
        .expect("written");
    unreserve(&binder.client, &pod(), &reservation).await;
    let requests = api.requests.lock().unwrap();
    let (asked, body) = requests.last().expect("a request");
    assert!(asked.ends_with("resourceclaims/c/status"), "{asked}");
    assert_eq!(
        *body,
        json!({"metadata": {"uid": "u"}, "status": {"reservedFor": [
            {"$patch": "delete", "uid": "pod-uid"}]}})
    );
}

#[tokio::test(start_paused = true)]
async fn binding_waits_for_devices_and_gives_up_in_time() {
    let waiting = |conditions: Value| {
        let mut claim = claim(&json!({"allocation": allocation(&["ready"]),
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "pod-uid"}],
            "devices": [{"driver": "d", "pool": "p", "device": "x", "conditions": conditions}]}));
        claim["status"]["allocation"]["devices"]["results"][0]["bindingFailureConditions"] =
            json!(["failed"]);
        claim
    };
    let run = async |conditions: Value| {
        let claim = waiting(conditions);
        let api = Api::of(claim.clone());
        let catalog = Catalog {
            resource_claims: Cache::fixed(
                [serde_json::from_value(claim.clone()).expect("a claim")],
            ),
            ..Catalog::default()
        };
        let began = tokio::time::Instant::now();
        let binder = api.binder(catalog);
        let result = prebind(&binder, &pod(), "node", &reserve(&claim, None)).await;
        (
            result.map_err(|error| error.to_string()),
            began.elapsed().as_secs(),
        )
    };
    let ready = json!([{"type": "ready", "status": "True"}]);
    assert_eq!(run(ready).await, (Ok(()), 0));
    let failed =
        json!([{"type": "failed", "status": "True", "reason": "Broken", "message": "it is"}]);
    assert_eq!(
        run(failed).await,
        (
            Err("device binding failed: claim=c, reason=Broken, message=\"it is\"".to_owned()),
            0
        )
    );
    assert_eq!(
        run(json!([])).await,
        (
            Err("device binding timeout: context deadline exceeded".to_owned()),
            600
        )
    );
}
