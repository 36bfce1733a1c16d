//! The whole way over a socket: a driver that makes itself known, an API in
//! memory, claims of several pods, and agents one after the other.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use node_agent_objects::fake::FakeObjects;
use serde_json::json;

use super::fake::Driver;
use super::*;

type Seen = Arc<Mutex<Vec<String>>>;

const V1: &[&str] = &["v1.DRAPlugin", "v1beta1.DRAPlugin"];

/// An API that notes what is deleted.
fn cluster(deleted: Seen) -> Api {
    let service = tower::service_fn(move |request: Request<control_client::RequestBody>| {
        if request.method() == http::Method::DELETE {
            deleted.lock().unwrap().push(request.uri().to_string());
        }
        async move {
            let body = Full::new(Bytes::from_static(b"{}"));
            Ok::<_, std::convert::Infallible>(Response::new(body))
        }
    });
    Api::in_process(service, ())
}

struct Agent {
    claims: Arc<ClaimManager>,
    changed: mpsc::UnboundedReceiver<String>,
    deleted: Seen,
    end: CancellationToken,
}

impl Agent {
    fn start(root: &Path, away: Duration) -> Self {
        let (changes, changed) = mpsc::unbounded_channel();
        let (deleted, end) = (Seen::default(), CancellationToken::new());
        let api = cluster(deleted.clone());
        let claims = ClaimManager::new(api, "n1", root, changes, away, end.clone()).unwrap();
        let of_claims = claims.plugins();
        of_claims.clone().begin();
        let kinds: Vec<Arc<dyn node_agent_plugins::PluginHandlers>> = vec![of_claims];
        tokio::spawn(node_agent_plugins::watch(
            root.to_owned(),
            kinds,
            end.clone(),
        ));
        Self {
            claims: Arc::new(claims),
            changed,
            deleted,
            end,
        }
    }

    fn deletes(&self, what: &str) -> bool {
        self.deleted
            .lock()
            .unwrap()
            .iter()
            .any(|uri| uri.contains(what))
    }

    async fn knows(&self, driver: &str) {
        until("registered", || self.claims.plugins.find(driver).is_ok()).await;
    }
}

async fn until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..1200 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not {what}");
}

/// A pod that uses claims of these names.
fn pod(uid: &str, claims: &[&str]) -> Pod {
    let all: Vec<_> = claims
        .iter()
        .map(|name| json!({"name": name, "resourceClaimName": name}))
        .collect();
    let own: Vec<_> = claims.iter().map(|name| json!({"name": name})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": uid, "namespace": "a", "uid": uid},
        "spec": {"resourceClaims": all,
            "containers": [{"name": "c", "resources": {"claims": own}}]}}))
    .unwrap()
}

/// Claims that any of the pods may use.
fn objects(claims: &[(&str, &str)]) -> FakeObjects {
    let objects = FakeObjects::default();
    for (name, driver) in claims {
        let claim = json!({
            "metadata": {"name": name, "namespace": "a", "uid": format!("{name}-uid")},
            "status": {
                "allocation": {"devices": {"results": [{"driver": driver}]}},
                "reservedFor": [{"uid": "p1"}, {"uid": "p2"}]}});
        let claim = serde_json::from_value(claim).unwrap();
        objects.resource_claims.lock().unwrap().push(claim);
    }
    objects
}

#[tokio::test]
async fn a_claim_is_prepared_for_the_first_pod_and_taken_back_after_the_last() {
    let root = tempfile::tempdir().unwrap();
    let agent = Agent::start(root.path(), Duration::from_secs(3600));
    let claims = &agent.claims;
    until("begun", || agent.deletes("spec.nodeName%3Dn1")).await;
    let objects = objects(&[("gpu", "d.io"), ("nic", "d.io")]);
    let (p1, p2) = (pod("p1", &["gpu", "nic"]), pod("p2", &["gpu"]));

    let none = claims.prepare(&p1, &objects).await.unwrap_err();
    assert_eq!(none.to_string(), "DRA driver d.io is not registered");
    assert!(!claims.holds("p1"), "it can go without the driver");

    let driver = Driver::start(root.path(), "d.io", V1);
    agent.knows("d.io").await;
    claims.prepare(&p1, &objects).await.unwrap();
    claims.prepare(&p1, &objects).await.unwrap();
    claims.prepare(&p2, &objects).await.unwrap();
    until("told", || driver.asked() >= 2).await;
    assert_eq!(driver.calls(), ["registered true", "v1 Prepare gpu nic"]);
    let devices = claims.cdi_devices(&p1, &p1.spec.containers[0]).unwrap();
    assert_eq!(devices, ["d.io/x=gpu", "d.io/x=nic"]);
    assert!(claims.holds("p1") && claims.holds("p2"));
    let says = |line: &str| {
        let text = claims.metrics();
        assert!(text.lines().any(|l| l.starts_with(line)), "{line}: {text}");
    };
    says("dra_resource_claims_in_use{driver_name=\"<any>\"} 2");
    says("dra_resource_claims_in_use{driver_name=\"d.io\"} 2");
    let prepared = "operation_name=\"PrepareResources\"";
    says(&format!(
        "dra_operations_duration_seconds_count{{{prepared},is_error=\"true\"}} 1"
    ));
    says(&format!(
        "dra_operations_duration_seconds_count{{{prepared},is_error=\"false\"}} 3"
    ));
    says(
        "dra_grpc_operations_duration_seconds_count{driver_name=\"d.io\",method_name=\"/k8s.io.\
         kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources\",grpc_status_code=\"OK\"} 1",
    );

    driver.refuse("Unprepare", "busy");
    let busy = claims.unprepare("p1").await.unwrap_err().to_string();
    assert_eq!(
        busy,
        "NodeUnprepareResources failed for ResourceClaim nic: busy"
    );
    assert!(claims.holds("p1"));
    driver.refuse("Unprepare", "");
    claims.unprepare("p1").await.unwrap();
    claims.unprepare("p1").await.unwrap();
    assert_eq!(driver.calls(), ["v1 Unprepare nic", "v1 Unprepare nic"]);
    claims.unprepare("p2").await.unwrap();
    assert_eq!(driver.calls(), ["v1 Unprepare gpu"]);
    assert!(claims.pods().is_empty());
    says("dra_resource_claims_in_use{driver_name=\"<any>\"} 0");
    agent.end.cancel();
}

#[tokio::test]
async fn the_next_agent_goes_on_with_what_is_prepared_and_takes_it_back() {
    let root = tempfile::tempdir().unwrap();
    let objects = objects(&[("gpu", "d.io")]);
    let driver = Driver::start(root.path(), "d.io", &["v1beta1.DRAPlugin"]);
    let p1 = pod("p1", &["gpu"]);
    let first = Agent::start(root.path(), Duration::from_secs(3600));
    first.knows("d.io").await;
    first.claims.prepare(&p1, &objects).await.unwrap();
    first.end.cancel();

    let second = Agent::start(root.path(), Duration::from_secs(3600));
    let devices = || second.claims.cdi_devices(&p1, &p1.spec.containers[0]);
    assert_eq!(devices().unwrap(), ["d.io/x=gpu"], "of a pod that runs");
    second.knows("d.io").await;
    // a new sandbox, for which the machine may have begun anew
    second.claims.prepare(&p1, &objects).await.unwrap();
    assert_eq!(devices().unwrap(), ["d.io/x=gpu"], "once");
    second.end.cancel();

    // the pod is gone meanwhile: all that is known of it is its uid
    let third = Agent::start(root.path(), Duration::from_secs(3600));
    assert_eq!(third.claims.pods(), ["p1".to_owned()].into());
    third.knows("d.io").await;
    third.claims.unprepare("p1").await.unwrap();
    let mut calls = driver.calls();
    calls.retain(|call| call != "registered true");
    assert_eq!(
        calls,
        [
            "v1beta1 Prepare gpu",
            "v1beta1 Prepare gpu",
            "v1beta1 Unprepare gpu"
        ]
    );
    third.end.cancel();
    let fourth = Agent::start(root.path(), Duration::from_secs(3600));
    assert!(fourth.claims.pods().is_empty());
}

#[tokio::test]
async fn what_a_driver_began_is_taken_back_though_it_failed() {
    let root = tempfile::tempdir().unwrap();
    let agent = Agent::start(root.path(), Duration::from_secs(3600));
    let claims = &agent.claims;
    let (good, bad) = (
        Driver::start(root.path(), "a.io", V1),
        Driver::start(root.path(), "b.io", V1),
    );
    agent.knows("a.io").await;
    agent.knows("b.io").await;
    bad.refuse("Prepare", "out of order");
    let objects = objects(&[("gpu", "a.io"), ("nic", "b.io")]);
    let pod = pod("p1", &["gpu", "nic"]);
    let error = claims
        .prepare(&pod, &objects)
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "NodePrepareResources failed for ResourceClaim nic: out of order"
    );
    assert!(claims.holds("p1"), "nobody else gets what may be prepared");
    claims.unprepare("p1").await.unwrap();
    let asked = |driver: &Driver| -> Vec<String> {
        let all = driver.calls().into_iter();
        all.filter(|call| call.contains("repare")).collect()
    };
    assert_eq!(asked(&good), ["v1 Prepare gpu", "v1 Unprepare gpu"]);
    assert_eq!(asked(&bad), ["v1 Prepare nic", "v1 Unprepare nic"]);
    agent.end.cancel();
}

#[tokio::test]
async fn nothing_is_prepared_that_cannot_be_noted() {
    let root = tempfile::tempdir().unwrap();
    let agent = Agent::start(root.path(), Duration::from_secs(3600));
    let driver = Driver::start(root.path(), "d.io", V1);
    agent.knows("d.io").await;
    let (objects, pod) = (objects(&[("gpu", "d.io")]), pod("p1", &["gpu"]));
    // as good as a full disk: it cannot be put in its place
    let state = root.path().join(STATE);
    std::fs::create_dir_all(state.join("x")).unwrap();
    let error = agent.claims.prepare(&pod, &objects).await.unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error}");
    assert!(!driver.calls().iter().any(|call| call.contains("Prepare")));
    std::fs::remove_dir_all(&state).unwrap();
    agent.claims.prepare(&pod, &objects).await.unwrap();
    // taken back, and not noted at first
    std::fs::remove_file(&state).unwrap();
    std::fs::create_dir_all(state.join("x")).unwrap();
    assert!(agent.claims.unprepare("p1").await.is_err());
    assert!(agent.claims.unprepare("p1").await.is_err());
    std::fs::remove_dir_all(&state).unwrap();
    agent.claims.unprepare("p1").await.unwrap();
    let text = std::fs::read_to_string(&state).unwrap();
    assert_eq!(ClaimTable::load(&text).unwrap(), ClaimTable::default());
    let calls = driver.calls();
    let asked: Vec<&String> = calls
        .iter()
        .filter(|call| call.contains("repare"))
        .collect();
    assert_eq!(asked, ["v1 Prepare gpu", "v1 Unprepare gpu"]);
    agent.end.cancel();
}

#[tokio::test]
async fn a_checkpoint_that_is_none_lets_no_agent_begin() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join(STATE), "{").unwrap();
    let changes = mpsc::unbounded_channel().0;
    let (api, end) = (cluster(Seen::default()), CancellationToken::new());
    let begun = ClaimManager::new(api, "n1", root.path(), changes, AWAY, end);
    let error = begun.err().unwrap().to_string();
    assert!(error.contains(STATE) && error.contains("drain"), "{error}");
}

#[tokio::test]
async fn slices_of_a_driver_go_when_it_is_away_and_pods_hear_of_its_devices() {
    let root = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(root.path(), Duration::from_millis(20));
    let driver = Driver::start(root.path(), "d.io", V1);
    agent.knows("d.io").await;
    let (objects, pod) = (objects(&[("gpu", "d.io")]), pod("p1", &["gpu"]));
    agent.claims.prepare(&pod, &objects).await.unwrap();
    let health = |agent: &Agent| {
        let found = agent.claims.health(&pod)["c"][0].resources[0].clone();
        (found.health, found.message)
    };
    assert_eq!(health(&agent).0, "Unknown");
    driver.report_health("gpu", api::HealthStatus::Unhealthy);
    assert_eq!(agent.changed.recv().await.as_deref(), Some("p1"));
    assert_eq!(
        health(&agent),
        ("Unhealthy".to_owned(), Some("so it is".to_owned()))
    );

    agent.deleted.lock().unwrap().clear();
    driver.stop();
    assert_eq!(agent.changed.recv().await.as_deref(), Some("p1"));
    assert_eq!(health(&agent).0, "Unknown");
    until("deleted", || {
        agent.deletes("spec.nodeName%3Dn1%2Cspec.driver%3Dd.io")
    })
    .await;
    until("gone", || agent.claims.plugins.find("d.io").is_err()).await;
    let waits = agent.claims.unprepare("p1").await.unwrap_err();
    assert_eq!(waits.to_string(), "DRA driver d.io is not registered");
    assert!(agent.claims.holds("p1"));

    let back = Driver::start(root.path(), "d.io", V1);
    agent.knows("d.io").await;
    agent.claims.unprepare("p1").await.unwrap();
    assert!(back.calls().contains(&"v1 Unprepare gpu".to_owned()));
    agent.end.cancel();
}

#[tokio::test]
async fn a_driver_that_speaks_nothing_known_is_told_so() {
    let root = tempfile::tempdir().unwrap();
    let agent = Agent::start(root.path(), Duration::from_secs(3600));
    let driver = Driver::start(root.path(), "d.io", &["v9.DRAPlugin"]);
    until("told", || driver.asked() > 0).await;
    let told = driver.calls().remove(0);
    assert!(
        told.starts_with("registered false") && told.contains("v9"),
        "{told}"
    );
    assert!(agent.claims.plugins.find("d.io").is_err());
    agent.end.cancel();
}
