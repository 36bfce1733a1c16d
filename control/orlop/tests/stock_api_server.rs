//! Tests `orlop controllers` and `orlop scheduler` in place of the stock components: with a stock
//! kube-apiserver with RBAC, the options that kubeadm writes into their manifests, and the users
//! that kubeadm gives them. `$KUBE_APISERVER` and `$ETCD` name the programs, by default those on
//! the PATH; if one is missing, the tests are skipped with a message.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use control_client::{BearerToken, Client, DeleteOptions, Patch, Resource, Selection, resources};
use control_pki::{Authority, CertificateKeyPair, ServiceAccountKey, Spec, kubeconfig};
use http_body_util::{BodyExt, Empty};
use serde_json::{Value, json};
use tokio_util::bytes::Bytes;

/// A program that ends with this value.
struct Program(Child);

impl Program {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = std::fs::File::create(log).expect("a log");
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        Self(child.expect("the program starts"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn find(variable: &str, name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from).or_else(|| {
        std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    });
    if found.is_none() {
        println!("skipped: no `{name}` on the PATH, and {variable} is not set");
    }
    found
}

fn free_port() -> u16 {
    free_port::free_port().expect("a port")
}

/// A control plane's files, as kubeadm lays them out.
struct Folder {
    dir: tempfile::TempDir,
    authority: Authority,
    url: String,
}

impl Folder {
    fn new(port: u16) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let authority = Authority::load_or_create(dir.path(), "ca", "kubernetes").expect("made");
        ServiceAccountKey::load_or_create(dir.path()).expect("a key");
        let serving = Spec::server("kube-apiserver", ["127.0.0.1", "kubernetes"]);
        let folder = Self {
            dir,
            authority,
            url: format!("https://127.0.0.1:{port}"),
        };
        let serving = folder.authority.issue(&serving).expect("issued");
        folder.keep("apiserver.crt", &serving.cert_pem);
        folder.keep("apiserver.key", &serving.key_pem);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn option(&self, option: &str, name: &str) -> String {
        format!("--{option}={}", self.path(name).display())
    }

    fn keep(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    fn client_certificate(&self, name: &str, groups: &[&str]) -> CertificateKeyPair {
        let issued = self.authority.issue(&Spec::client(name, groups));
        issued.expect("issued")
    }

    /// Writes the kubeconfig of a user.
    fn kubeconfig(&self, file: &str, name: &str, groups: &[&str]) {
        let user = self.client_certificate(name, groups);
        let pem = self.authority.certificate_pem();
        self.keep(file, &kubeconfig(&self.url, pem, &user, "kubernetes", name));
    }

    fn api_server(&self, program: &Path, etcd: &str, port: u16) -> Program {
        Program::start(
            Command::new(program)
                .arg(format!("--etcd-servers={etcd}"))
                .arg(format!("--secure-port={port}"))
                .args([
                    "--bind-address=127.0.0.1",
                    "--advertise-address=127.0.0.1",
                    "--authorization-mode=Node,RBAC",
                    "--service-cluster-ip-range=10.96.0.0/16",
                    "--service-account-issuer=https://kubernetes.default.svc",
                    "--endpoint-reconciler-type=none",
                ])
                .arg(self.option("client-ca-file", "ca.crt"))
                .arg(self.option("tls-cert-file", "apiserver.crt"))
                .arg(self.option("tls-private-key-file", "apiserver.key"))
                .arg(self.option("service-account-key-file", "sa.pub"))
                .arg(self.option("service-account-signing-key-file", "sa.key")),
            &self.path("kube-apiserver.log"),
        )
    }

    fn controllers(&self, port: u16) -> Program {
        Program::start(
            Command::new(env!("CARGO_BIN_EXE_orlop"))
                .arg("controllers")
                .args([
                    "--allocate-node-cidrs=true",
                    "--bind-address=127.0.0.1",
                    "--cluster-cidr=10.244.0.0/16",
                    "--cluster-name=kubernetes",
                    "--controllers=*,bootstrapsigner,tokencleaner",
                    "--leader-elect=true",
                    "--service-cluster-ip-range=10.96.0.0/16",
                    "--use-service-account-credentials=true",
                ])
                .arg(format!("--secure-port={port}"))
                .arg(self.option("kubeconfig", "controller-manager.conf"))
                .arg(self.option("authentication-kubeconfig", "controller-manager.conf"))
                .arg(self.option("authorization-kubeconfig", "controller-manager.conf"))
                .arg(self.option("client-ca-file", "ca.crt"))
                .arg(self.option("cluster-signing-cert-file", "ca.crt"))
                .arg(self.option("cluster-signing-key-file", "ca.key"))
                .arg(self.option("root-ca-file", "ca.crt"))
                .arg(self.option("tls-cert-file", "apiserver.crt"))
                .arg(self.option("tls-private-key-file", "apiserver.key"))
                .arg(self.option("service-account-private-key-file", "sa.key")),
            &self.path("controllers.log"),
        )
    }

    fn scheduler(&self, port: u16) -> Program {
        Program::start(
            Command::new(env!("CARGO_BIN_EXE_orlop"))
                .arg("scheduler")
                .args(["--bind-address=127.0.0.1", "--leader-elect=true"])
                .arg(format!("--secure-port={port}"))
                .arg(self.option("kubeconfig", "scheduler.conf"))
                .arg(self.option("tls-cert-file", "apiserver.crt"))
                .arg(self.option("tls-private-key-file", "apiserver.key"))
                .arg(self.option("authentication-kubeconfig", "scheduler.conf"))
                .arg(self.option("authorization-kubeconfig", "scheduler.conf")),
            &self.path("scheduler.log"),
        )
    }

    /// The last lines of the components' logs.
    fn logs(&self) -> String {
        let last = |name: &str| {
            let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(15).collect();
            let lines: Vec<&str> = lines.into_iter().rev().collect();
            format!("--- {name}\n{}\n", lines.join("\n"))
        };
        ["kube-apiserver.log", "controllers.log", "scheduler.log"]
            .map(last)
            .concat()
    }
}

fn etcd(program: &Path, folder: &Folder) -> (Program, String) {
    let url = format!("http://127.0.0.1:{}", free_port());
    let peer = format!("http://127.0.0.1:{}", free_port());
    let started = Program::start(
        Command::new(program)
            .arg("--data-dir")
            .arg(folder.path("etcd"))
            .args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .args(["--log-level", "error"]),
        &folder.path("etcd.log"),
    );
    (started, url)
}

/// Waits until `found` gives something.
async fn wait<T>(folder: &Folder, what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = found().await {
            return found;
        }
        assert!(Instant::now() < until, "{what}\n{}", folder.logs());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    let found = value.pointer(path).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// Asks a component's port, with a client certificate or none.
async fn ask(
    folder: &Folder,
    port: u16,
    path: &str,
    own: Option<&CertificateKeyPair>,
) -> (u16, String) {
    let config = control_pki::client_config(folder.authority.certificate_pem(), own);
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config.expect("usable")));
    let name = "127.0.0.1".try_into().expect("a name");
    let stream = connector.connect(name, stream.expect("connected")).await;
    let stream = hyper_util::rt::TokioIo::new(stream.expect("TLS"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
        .await
        .expect("HTTP");
    tokio::spawn(connection);
    let request = http::Request::get(path).header("host", "localhost");
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let answer = sender.send_request(request).await.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a body");
    (
        status,
        String::from_utf8_lossy(&body.to_bytes()).into_owned(),
    )
}

/// Objects of kinds whose controllers may update them, but not patch them, and what becomes of
/// each.
fn workloads() -> Vec<(Resource, Value, &'static str, Value)> {
    let template = json!({"metadata": {"labels": {"app": "other"}},
        "spec": {"containers": [{"name": "c", "image": "example.org/other"}]}});
    let selector = json!({"matchLabels": {"app": "other"}});
    let mut finite = template.clone();
    finite["spec"]["restartPolicy"] = "Never".into();
    let of = Resource::namespaced;
    vec![
        (
            of("apps", "v1", "statefulsets", "StatefulSet"),
            json!({"spec": {"selector": selector, "serviceName": "s", "template": template}}),
            "/status/replicas",
            json!(1),
        ),
        (
            of("apps", "v1", "daemonsets", "DaemonSet"),
            json!({"spec": {"selector": selector, "template": template}}),
            "/status/currentNumberScheduled",
            json!(1),
        ),
        (
            of("apps", "v1", "replicasets", "ReplicaSet"),
            json!({"spec": {"selector": selector, "template": template}}),
            "/status/replicas",
            json!(1),
        ),
        (
            of("", "v1", "replicationcontrollers", "ReplicationController"),
            json!({"spec": {"selector": {"app": "other"}, "template": template}}),
            "/status/replicas",
            json!(1),
        ),
        (
            of("batch", "v1", "jobs", "Job"),
            json!({"spec": {"template": finite}}),
            "/status/active",
            json!(1),
        ),
        (
            of(
                "autoscaling",
                "v2",
                "horizontalpodautoscalers",
                "HorizontalPodAutoscaler",
            ),
            json!({"spec": {"maxReplicas": 4, "metrics": [{"type": "Resource", "resource":
                {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}),
            "/status/conditions/0/type",
            json!("AbleToScale"),
        ),
    ]
}

/// Each controller writes what it finds, with the rights that stock ones have.
async fn statuses_are_written(folder: &Folder, admin: &Client) {
    let becomes = async |resource: &Resource, name: &str, pointer: &str, wanted: &Value| {
        let what = format!("{resource} {name}: {pointer} is {wanted}");
        wait(folder, &what, async || {
            let object: Value = admin.get(resource, "default", name).await.ok()?;
            (object.pointer(pointer) == Some(wanted)).then_some(())
        })
        .await;
    };
    becomes(&DEPLOYMENTS, "web", "/status/replicas", &json!(3)).await;
    for (resource, mut object, pointer, wanted) in workloads() {
        object["metadata"] = json!({"name": "other"});
        let created = admin.create::<Value>(&resource, "default", &object);
        created.await.expect("created");
        becomes(&resource, "other", pointer, &wanted).await;
    }

    // Endpoints that exist are changed.
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"},
        "ports": [{"port": 80}]}});
    let services = &resources::SERVICES;
    let created = admin.create::<Value>(services, "default", &service);
    created.await.expect("created");
    let endpoints = Resource::namespaced("", "v1", "endpoints", "Endpoints");
    wait(folder, "Endpoints are there", async || {
        admin.get::<Value>(&endpoints, "default", "web").await.ok()
    })
    .await;
    let mark = json!({"metadata": {"labels": {"mark": "1"}}});
    for resource in [&resources::SERVICES, &resources::PODS] {
        let selection = Selection::all().namespace("default");
        let all = admin.list::<Value>(resource, &selection).await;
        for object in all.expect("listed").items {
            let name = text(&object, "/metadata/name");
            let is_web = name == "web" || text(&object, "/metadata/labels/app") == "web";
            if !is_web {
                continue;
            }
            let marked = admin.patch::<Value>(resource, "default", name, "", Patch::Merge(&mark));
            marked.await.expect("patched");
            if resource.kind == "Pod" {
                let ready = json!({"status": {"phase": "Running", "podIP": "10.244.0.9",
                    "podIPs": [{"ip": "10.244.0.9"}],
                    "conditions": [{"type": "Ready", "status": "True"}]}});
                let patch = Patch::Merge(&ready);
                let ready = admin.patch_status::<Value>(resource, "default", name, patch);
                ready.await.expect("patched");
            }
        }
    }
    let address = json!("10.244.0.9");
    becomes(&endpoints, "web", "/subsets/0/addresses/0/ip", &address).await;
    becomes(&endpoints, "web", "/metadata/labels/mark", &json!("1")).await;
    let slices = Resource::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice");
    wait(folder, "the EndpointSlice has the pod", async || {
        let of_web = Selection::all().labels("kubernetes.io/service-name=web");
        let all = admin.list::<Value>(&slices, &of_web).await.ok()?;
        let mut all = all.items.iter();
        all.any(|it| it.pointer("/endpoints/0/conditions/ready") == Some(&json!(true)))
            .then_some(())
    })
    .await;

    // What is published in a namespace is put right.
    let root = "kube-root-ca.crt";
    let config_maps = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
    let spoiled = json!({"data": {"ca.crt": "none"}});
    wait(folder, "the authority is published", async || {
        let patch = Patch::Merge(&spoiled);
        let patched = admin.patch::<Value>(&config_maps, "default", root, "", patch);
        patched.await.ok()
    })
    .await;
    let authority = json!(folder.authority.certificate_pem());
    becomes(&config_maps, root, "/data/ca.crt", &authority).await;

    // A claim and its volume are bound to each other.
    let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/v"}, "storageClassName": "none"}});
    let volumes = Resource::cluster("", "v1", "persistentvolumes", "PersistentVolume");
    let created = admin.create::<Value>(&volumes, "", &volume);
    created.await.expect("created");
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}});
    let claims = Resource::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
    let created = admin.create::<Value>(&claims, "default", &claim);
    created.await.expect("created");
    becomes(&claims, "c", "/status/phase", &json!("Bound")).await;

    // A namespace that cannot end says why not.
    let space = json!({"metadata": {"name": "held"}});
    let namespaces = &resources::NAMESPACES;
    let created = admin.create::<Value>(namespaces, "", &space);
    created.await.expect("created");
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.org/held"]}});
    let created = admin.create::<Value>(&config_maps, "held", &held);
    created.await.expect("created");
    let usual = DeleteOptions::default();
    let deleted = admin.delete(namespaces, "", "held", &usual);
    deleted.await.expect("deleted");
    wait(folder, "the namespace has conditions", async || {
        let space: Value = admin.get(namespaces, "", "held").await.ok()?;
        space.pointer("/status/conditions/0").map(drop)
    })
    .await;
    let free = json!({"metadata": {"finalizers": null}});
    let freed = admin.patch::<Value>(&config_maps, "held", "held", "", Patch::Merge(&free));
    freed.await.expect("patched");
    wait(folder, "the namespace is gone", async || {
        let found = admin.get::<Value>(namespaces, "", "held").await;
        found.is_err_and(|error| error.is_not_found()).then_some(())
    })
    .await;
}

static DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
static CSRS: Resource = Resource::cluster(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_components_run_by_kubeadms_options_under_a_stock_api_server() {
    let (Some(api_server), Some(etcd_program)) = (
        find("KUBE_APISERVER", "kube-apiserver"),
        find("ETCD", "etcd"),
    ) else {
        return;
    };
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let port = free_port();
    let folder = Folder::new(port);
    folder.kubeconfig("admin.conf", "kubernetes-admin", &["system:masters"]);
    folder.kubeconfig(
        "controller-manager.conf",
        "system:kube-controller-manager",
        &[],
    );
    folder.kubeconfig("scheduler.conf", "system:kube-scheduler", &[]);
    let (_etcd, etcd_url) = etcd(&etcd_program, &folder);
    let _api_server = folder.api_server(&api_server, &etcd_url, port);
    let (controllers_port, scheduler_port) = (free_port(), free_port());
    // Before the API server is there: they wait for it.
    let _controllers = folder.controllers(controllers_port);
    let _scheduler = folder.scheduler(scheduler_port);
    let admin = Client::from_kubeconfig(folder.path("admin.conf"))
        .await
        .expect("usable");

    // A node with a range of addresses.
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
    });
    let capacity = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
    let conditions = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady",
        "lastHeartbeatTime": jiff::Timestamp::now().to_string(),
        "lastTransitionTime": jiff::Timestamp::now().to_string()}]);
    let status = json!({"status": {"capacity": capacity, "allocatable": capacity,
        "conditions": conditions}});
    wait(&folder, "the Node is created", async || {
        admin
            .create::<Value>(&resources::NODES, "", &node)
            .await
            .ok()
    })
    .await;
    admin
        .patch_status::<Value>(&resources::NODES, "", "n1", Patch::Strategic(&status))
        .await
        .expect("patched");

    // Deployment → ReplicaSet → Pods → bound.
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "example.org/web"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": template}});
    // The namespace comes a moment after the server.
    wait(&folder, "the Deployment is created", async || {
        let created = admin.create::<Value>(&DEPLOYMENTS, "default", &deployment);
        created.await.ok()
    })
    .await;
    wait(&folder, "three pods are bound", async || {
        let pods = admin
            .list::<Value>(&resources::PODS, &Selection::all())
            .await
            .ok()?;
        let bound = pods
            .items
            .iter()
            .filter(|pod| text(pod, "/spec/nodeName") == "n1");
        (bound.count() == 3).then_some(())
    })
    .await;
    let node: Value = admin.get(&resources::NODES, "", "n1").await.expect("there");
    assert!(
        text(&node, "/spec/podCIDR").starts_with("10.244."),
        "{node}"
    );

    statuses_are_written(&folder, &admin).await;

    // Each controller acts as its own account: its writes say so.
    let replica_sets = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    let of_web = Selection::all().labels("app=web");
    let all = admin
        .list::<Value>(&replica_sets, &of_web)
        .await
        .expect("listed");
    let manager = text(&all.items[0], "/metadata/managedFields/0/manager");
    assert!(manager.starts_with("deployment-controller"), "{manager}");

    // Signed: a client's certificate, and the token of a Secret.
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::default();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "someone");
    let request = params
        .serialize_request(&key)
        .expect("signed")
        .pem()
        .expect("PEM");
    let csr = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "someone"},
        "spec": {"request": STANDARD.encode(request),
            "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}});
    let mut csr: Value = admin.create(&CSRS, "", &csr).await.expect("created");
    csr["status"] = json!({"conditions": [{"type": "Approved", "status": "True",
        "reason": "Test", "message": "for the test"}]});
    let approve = admin.update_subresource::<Value>(&CSRS, "", "someone", "approval", &csr);
    approve.await.expect("approved");
    wait(&folder, "the certificate is signed", async || {
        let csr: Value = admin.get(&CSRS, "", "someone").await.ok()?;
        (!text(&csr, "/status/certificate").is_empty()).then_some(())
    })
    .await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "token", "namespace": "default",
            "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token"});
    wait(&folder, "the Secret is created", async || {
        admin
            .create::<Value>(&resources::SECRETS, "default", &secret)
            .await
            .ok()
    })
    .await;
    let token = wait(&folder, "the Secret has a token", async || {
        let secret: Value = admin
            .get(&resources::SECRETS, "default", "token")
            .await
            .ok()?;
        let token = text(&secret, "/data/token").to_owned();
        (!token.is_empty()).then_some(token)
    })
    .await;
    let token = String::from_utf8(STANDARD.decode(token).expect("base64")).expect("text");
    let bearer = Client::anonymous(&[folder.path("admin.conf")])
        .await
        .expect("usable");
    let bearer = bearer.bearing(BearerToken::new(&token).expect("a token"));
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let reviews = Resource::cluster(
        "authentication.k8s.io",
        "v1",
        "selfsubjectreviews",
        "SelfSubjectReview",
    );
    let me: Value = bearer
        .create(&reviews, "", &review)
        .await
        .expect("the token is taken");
    assert_eq!(
        text(&me, "/status/userInfo/username"),
        "system:serviceaccount:default:default"
    );

    // Their ports: health for everybody, metrics by right.
    let monitor = folder.client_certificate("prometheus", &["system:monitoring"]);
    let stranger = folder.client_certificate("stranger", &[]);
    for (port, name) in [
        (controllers_port, "workqueue_depth"),
        (scheduler_port, "scheduler_schedule_attempts_total"),
    ] {
        assert_eq!(
            ask(&folder, port, "/livez", None).await,
            (200, "ok".to_owned())
        );
        assert_eq!(ask(&folder, port, "/metrics", None).await.0, 403);
        assert_eq!(ask(&folder, port, "/metrics", Some(&stranger)).await.0, 403);
        let page = wait(&folder, "serving metrics", async || {
            let (status, page) = ask(&folder, port, "/metrics", Some(&monitor)).await;
            (status == 200).then_some(page)
        })
        .await;
        for name in [name, "kubernetes_build_info", "process_start_time_seconds"] {
            assert!(page.contains(name), "{name} in {page}");
        }
    }
}
