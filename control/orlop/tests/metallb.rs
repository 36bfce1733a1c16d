//! Tests `orlop migrate metallb` and back on a whole control plane. MetalLB's objects exist, but
//! no MetalLB runs, and the test writes an Announcer instead of a node's agent. Speakers and
//! routers are not tested here.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use control_client::{Client, Discard, Patch, Resource, Selection, resources};
use serde_json::{Value, json};

const NAMESPACE: &str = "metallb-system";
const POOLS: Resource =
    Resource::namespaced("metallb.io", "v1beta1", "ipaddresspools", "IPAddressPool");
const L2: Resource = Resource::namespaced(
    "metallb.io",
    "v1beta1",
    "l2advertisements",
    "L2Advertisement",
);
const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);
const WEBHOOKS: Resource = Resource::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
);
const IP_POOLS: Resource = Resource::cluster("orlop.dev", "v1alpha1", "ippools", "IPPool");
const ANNOUNCEMENTS: Resource =
    Resource::cluster("orlop.dev", "v1alpha1", "l2announcements", "L2Announcement");
const ANNOUNCERS: Resource = Resource::cluster("orlop.dev", "v1alpha1", "announcers", "Announcer");
const ASSIGNED: &str = "orlop.dev/load-balancer-assigned";

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn orlop() -> Command {
    Command::new(env!("CARGO_BIN_EXE_orlop"))
}

fn serve(data: &Path) -> Server {
    let port = free_port::free_port().expect("a port");
    let log = std::fs::File::create(data.with_extension("log")).expect("a log");
    let child = orlop()
        .args(["server", "--bind-address", "127.0.0.1", "--secure-port"])
        .arg(port.to_string())
        .arg("--data-dir")
        .arg(data)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    Server(child.expect("orlop runs"))
}

async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(Instant::now() < end, "no {what}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

struct Cluster {
    client: Client,
    kubeconfig: std::path::PathBuf,
}

impl Cluster {
    async fn apply(&self, resource: &Resource, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let patch = Patch::Apply {
            body: object,
            manager: "test",
            force: true,
        };
        let (namespace, name) = (namespace.unwrap_or_default(), name.expect("a name"));
        self.client
            .patch::<Discard>(resource, namespace, name, "", patch)
            .await
            .expect("applied");
    }

    async fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        match self.client.get(resource, namespace, name).await {
            Ok(object) => Some(object),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn define(&self, kind: &str, resource: &Resource) {
        let plural = resource.plural.as_ref();
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.metallb.io")},
            "spec": {
                "group": "metallb.io", "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
                "versions": [{"name": "v1beta1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}],
            },
        });
        self.apply(&DEFINITIONS, &definition).await;
        eventually("kind of MetalLB", async || {
            self.client
                .list::<Value>(resource, &Selection::all())
                .await
                .ok()
        })
        .await;
    }

    /// A Service with an address, as MetalLB leaves it.
    async fn service(&self, name: &str, address: &str, annotations: Value) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": "default", "name": name, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "selector": {"app": name},
                "ports": [{"port": if name == "b" { 81 } else { 80 }}]},
        });
        self.apply(&resources::SERVICES, &service).await;
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
        self.client
            .patch_status::<Discard>(&resources::SERVICES, "default", name, Patch::Merge(&status))
            .await
            .expect("written");
    }

    async fn metallb(&self) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE}});
        self.apply(&resources::NAMESPACES, &namespace).await;
        let template = |app: &str| {
            json!({"metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": app, "image": "none"}]}})
        };
        let meta = |name: &str| json!({"namespace": NAMESPACE, "name": name});
        let controller = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("controller"),
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "controller"}},
                "template": template("controller")},
        });
        self.apply(&resources::DEPLOYMENTS, &controller).await;
        let speaker = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta("speaker"),
            "spec": {"selector": {"matchLabels": {"app": "speaker"}},
                "template": template("speaker")},
        });
        self.apply(&resources::DAEMON_SETS, &speaker).await;
        self.define("IPAddressPool", &POOLS).await;
        self.define("L2Advertisement", &L2).await;
        let pool = |name: &str, range: &str| {
            json!({"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
                "metadata": meta(name), "spec": {"addresses": [range]}})
        };
        self.apply(&POOLS, &pool("office", "192.0.2.240-192.0.2.250"))
            .await;
        self.apply(&POOLS, &pool("single", "198.51.100.7/32")).await;
        let advertisement = json!({"apiVersion": "metallb.io/v1beta1", "kind": "L2Advertisement",
            "metadata": meta("all"), "spec": {}});
        self.apply(&L2, &advertisement).await;
        // From now on MetalLB's objects can be changed only if this is set to Ignore.
        let webhooks = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "metallb-webhook-configuration"},
            "webhooks": [{
                "name": "pools.metallb.io", "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 1,
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{"apiGroups": ["metallb.io"], "apiVersions": ["*"],
                    "operations": ["*"], "resources": ["*"]}],
            }],
        });
        self.apply(&WEBHOOKS, &webhooks).await;
        self.service(
            "a",
            "192.0.2.241",
            json!({"metallb.io/allow-shared-ip": "k"}),
        )
        .await;
        self.service(
            "b",
            "192.0.2.241",
            json!({"metallb.universe.tf/allow-shared-ip": "k"}),
        )
        .await;
        self.service("c", "198.51.100.7", json!({})).await;
    }

    fn migrate(&self, words: &[&str]) -> (bool, String) {
        let done = orlop()
            .args(["migrate", "metallb", "--kubeconfig"])
            .arg(&self.kubeconfig)
            .args(words)
            .output()
            .expect("orlop runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&done.stdout) + &text(&done.stderr);
        (done.status.success(), said)
    }

    /// The addresses of all Services, which never change.
    async fn addresses(&self) -> Vec<String> {
        let mut all = Vec::new();
        for name in ["a", "b", "c"] {
            let service = self.get(&resources::SERVICES, "default", name).await;
            let service = service.expect("a Service");
            let ip = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
            all.push(ip.as_str().unwrap_or_default().to_owned());
        }
        all
    }

    async fn pool_ranges(&self, name: &str) -> Option<Value> {
        let pool = self.get(&POOLS, NAMESPACE, name).await?;
        Some(pool["spec"]["addresses"].clone())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metallb_s_addresses_are_taken_over_and_given_back() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let dir = tempfile::tempdir().expect("a folder");
    let data = dir.path().join("server");
    let _server = serve(&data);
    let kubeconfig = data.join("admin.kubeconfig");
    let client = eventually("API server", async || {
        let client = Client::from_kubeconfigs(std::slice::from_ref(&kubeconfig))
            .await
            .ok()?;
        client
            .list::<Value>(&resources::NAMESPACES, &Selection::all())
            .await
            .ok()?;
        client.serves(&IP_POOLS).await.ok()?.then_some(client)
    })
    .await;
    let cluster = Cluster { client, kubeconfig };
    cluster.metallb().await;
    let had = ["192.0.2.241", "192.0.2.241", "198.51.100.7"];

    let (fine, said) = cluster.migrate(&["--dry-run"]);
    assert!(fine && said.contains("192.0.2.241 (ARP or NDP)"), "{said}");
    assert!(cluster.get(&IP_POOLS, "", "office").await.is_none());

    // Nobody answers for the addresses: the first one is given back.
    let (fine, said) = cluster.migrate(&["--timeout", "3s"]);
    assert!(!fine, "{said}");
    assert!(said.contains("a node to answer for 192.0.2.241"), "{said}");
    assert_eq!(cluster.addresses().await, had);
    let office = json!(["192.0.2.240-192.0.2.250"]);
    assert_eq!(cluster.pool_ranges("office").await, Some(office.clone()));

    let announcer = json!({
        "apiVersion": "orlop.dev/v1alpha1", "kind": "Announcer", "metadata": {"name": "n1"},
        "status": {"addresses": ["192.0.2.241", "198.51.100.7"]},
    });
    cluster.apply(&ANNOUNCERS, &announcer).await;
    let (fine, said) = cluster.migrate(&[]);
    assert!(fine, "{said}");
    assert_eq!(cluster.addresses().await, had);
    for name in ["a", "b", "c"] {
        let service = cluster.get(&resources::SERVICES, "default", name).await;
        let meta = &service.expect("a Service")["metadata"];
        assert_eq!(meta["annotations"][ASSIGNED], "true", "{meta}");
        let shared = (name != "c").then_some("k");
        let ours = meta["annotations"]["orlop.dev/allow-shared-ip"].as_str();
        assert_eq!(ours, shared, "{meta}");
        assert!(meta["labels"]["orlop.dev/metallb"].is_null(), "{meta}");
    }
    let announcement = cluster.get(&ANNOUNCEMENTS, "", "all").await;
    let announcement = announcement.expect("an announcement");
    let left = &announcement["spec"]["serviceSelector"]["matchLabels"]["orlop.dev/metallb"];
    assert!(left.is_null(), "{announcement}");
    let parked = json!(["192.0.2.241-192.0.2.241", "198.51.100.7-198.51.100.7"]);
    assert_eq!(cluster.pool_ranges("orlop-taken-over").await, Some(parked));
    assert_eq!(cluster.pool_ranges("single").await, None);
    let controller = cluster
        .get(&resources::DEPLOYMENTS, NAMESPACE, "controller")
        .await;
    assert_eq!(controller.expect("one")["spec"]["replicas"], 0);

    let (fine, said) = cluster.migrate(&[]);
    assert!(fine && said.contains("nothing to do"), "{said}");

    let (fine, said) = cluster.migrate(&["--undo"]);
    assert!(fine, "{said}");
    assert_eq!(cluster.addresses().await, had);
    for name in ["a", "b", "c"] {
        let service = cluster.get(&resources::SERVICES, "default", name).await;
        let meta = &service.expect("a Service")["metadata"];
        let ours = |it: &Value| {
            let all = it.as_object().into_iter().flatten();
            all.filter(|(key, _)| key.starts_with("orlop.dev/")).count()
        };
        assert_eq!(
            ours(&meta["annotations"]) + ours(&meta["labels"]),
            0,
            "{meta}"
        );
        assert!(
            meta["finalizers"].as_array().is_none_or(Vec::is_empty),
            "{meta}"
        );
    }
    assert_eq!(cluster.pool_ranges("office").await, Some(office));
    let single = cluster.pool_ranges("single").await;
    assert_eq!(single, Some(json!(["198.51.100.7/32"])));
    assert_eq!(cluster.pool_ranges("orlop-taken-over").await, None);
    let advertisement = cluster.get(&L2, NAMESPACE, "all").await.expect("it");
    assert_eq!(advertisement["spec"], json!({}));
    assert!(cluster.get(&IP_POOLS, "", "office").await.is_none());
    let controller = cluster
        .get(&resources::DEPLOYMENTS, NAMESPACE, "controller")
        .await;
    assert_eq!(controller.expect("one")["spec"]["replicas"], 1);
    let speaker = cluster
        .get(&resources::DAEMON_SETS, NAMESPACE, "speaker")
        .await;
    let speaker = speaker.expect("one");
    let template = &speaker["spec"]["template"]["spec"];
    assert!(
        template["nodeSelector"]
            .as_object()
            .is_none_or(serde_json::Map::is_empty)
    );
    assert!(
        !template["affinity"].to_string().contains("orlop"),
        "{template}"
    );
    assert_eq!(speaker["spec"]["updateStrategy"]["type"], "RollingUpdate");
    let webhooks = cluster
        .get(&WEBHOOKS, "", "metallb-webhook-configuration")
        .await;
    assert_eq!(
        webhooks.expect("one")["webhooks"][0]["failurePolicy"],
        "Fail"
    );
    let (fine, said) = cluster.migrate(&["--undo"]);
    assert!(!fine && said.contains("nothing was taken over"), "{said}");
}
