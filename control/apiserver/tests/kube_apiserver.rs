//! The same etcd behind a stock kube-apiserver and behind this one: each reads what
//! the other wrote, and answers the same. `$ETCD` and `$KUBE_APISERVER` say where the
//! programs are, else the PATH; where there are none, this says so and passes.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{ask, root};
use control_access::Tokens;
use control_apiserver::{ApiServer, ClusterAccess, Config};
use control_pki::{ClientTrust, Cluster, Spec, client_config};
use control_store::etcd::{Etcd, EtcdOptions};
use control_types::registry::{self, Resource};
use control_types::value;
use control_types::value::Value;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

/// Ended with this value.
struct Program(Child);

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

fn start(program: &Path, log: &Path, arguments: &[String]) -> Program {
    let log = std::fs::File::create(log).expect("a log");
    let child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    Program(child.expect("the program starts"))
}

/// A key of the kind that kube-apiserver takes to sign accounts' tokens, and its
/// public half.
fn account_key() -> (String, String) {
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
    use base64::Engine as _;
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
    let pem = |label: &str, der: &[u8]| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let private = key.to_pkcs8v1().expect("DER");
    let public: PublicKeyX509Der<'_> = key.public_key().as_der().expect("DER");
    (
        pem("PRIVATE KEY", private.as_ref()),
        pem("PUBLIC KEY", public.as_ref()),
    )
}

/// A kube-apiserver, asked over the network.
struct Stock {
    port: u16,
    tls: TlsConnector,
    log: PathBuf,
    _program: Program,
}

impl Stock {
    fn start(program: &Path, dir: &Path, pki: &Cluster, etcd: &str) -> Self {
        let port = free_port();
        let keep = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        let serving = pki
            .ca
            .issue(&Spec::server("kube-apiserver", ["127.0.0.1"]))
            .expect("a certificate");
        let keys = keep("tls.key", &serving.key_pem);
        let (private, public) = account_key();
        let (private, public) = (keep("sa.key", &private), keep("sa.pub", &public));
        let arguments = [
            format!("--etcd-servers={etcd}"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            "--endpoint-reconciler-type=none".into(),
            format!("--tls-cert-file={}", keep("tls.crt", &serving.cert_pem)),
            format!("--tls-private-key-file={keys}"),
            format!(
                "--client-ca-file={}",
                keep("clients.crt", pki.ca.certificate_pem())
            ),
            format!(
                "--token-auth-file={}",
                keep("tokens", "secret,root,1,system:masters\n")
            ),
            "--authorization-mode=RBAC".into(),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={public}"),
            format!("--service-account-signing-key-file={private}"),
            "--disable-admission-plugins=ServiceAccount".into(),
        ];
        let log = dir.join("kube-apiserver.log");
        let program = start(program, &log, &arguments);
        let config = client_config(pki.ca.certificate_pem(), None).expect("a configuration");
        Self {
            port,
            tls: TlsConnector::from(Arc::new(config)),
            log,
            _program: program,
        }
    }

    async fn try_ask(
        &self,
        method: Method,
        path: &str,
        object: Option<&Value>,
    ) -> Result<(u16, Value), Box<dyn std::error::Error>> {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = self.tls.connect(name, stream).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let body = object.map_or_else(Vec::new, Value::to_vec);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("authorization", "Bearer secret")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let answer = sender.send_request(request).await?;
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await?.to_bytes();
        Ok((code, Value::from_slice(&bytes).unwrap_or_default()))
    }

    async fn ask(&self, method: Method, path: &str, object: Option<&Value>) -> (u16, Value) {
        self.try_ask(method, path, object).await.expect("an answer")
    }

    async fn ready(&self) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(40) {
            if let Ok((200, _)) = self.try_ask(Method::GET, "/readyz", None).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        panic!("kube-apiserver is not ready after forty seconds:\n{log}");
    }
}

/// Objects to create, as a client would send them.
fn objects() -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../types/tests/objects");
    let mut all: Vec<Value> = std::fs::read_dir(folder)
        .expect("objects")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| Value::from_slice(&std::fs::read(path).expect("a file")).expect("JSON"))
        .collect();
    all.push(value!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
            }]
        }
    }));
    for object in &mut all {
        for field in [
            "uid",
            "resourceVersion",
            "managedFields",
            "creationTimestamp",
            "ownerReferences",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            object.remove_path(&["metadata", field]);
        }
        object.remove("status");
        for field in ["clusterIP", "clusterIPs", "claimRef"] {
            object.remove_path(&["spec", field]);
        }
        if control_types::meta::kind(object) == "Pod" {
            object.remove_path(&["spec", "nodeName"]);
        }
        if let Some(ports) = object
            .path_mut(&["spec", "ports"])
            .and_then(Value::as_array_mut)
        {
            for port in ports {
                port.remove("nodePort");
            }
        }
    }
    all
}

fn in_namespace(object: &mut Value, namespace: &str) {
    object.set_path(&["metadata", "namespace"], namespace);
    if object.get("involvedObject").is_some() {
        object.set_path(&["involvedObject", "namespace"], namespace);
    }
}

fn resource_of(object: &Value) -> &'static Resource {
    let version = control_types::meta::api_version(object);
    let (group, short) = control_types::meta::split_api_version(version);
    registry::lookup_kind(group, short, control_types::meta::kind(object)).expect("a known kind")
}

fn path_of(resource: &Resource, namespace: &str) -> String {
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if resource.namespaced && !namespace.is_empty() {
        format!("{root}/namespaces/{namespace}/{}", resource.plural)
    } else {
        format!("{root}/{}", resource.plural)
    }
}

/// All objects of a resource by namespace and name.
fn by_name(list: &Value) -> std::collections::BTreeMap<String, Value> {
    let items = list.items_at(&["items"]).iter();
    items
        .map(|item| {
            let text = |field| item.str_at(&["metadata", field]).unwrap_or_default();
            let mut item = item.clone();
            // Neither stands in an item of every list.
            item.remove("kind");
            item.remove("apiVersion");
            (format!("{}/{}", text("namespace"), text("name")), item)
        })
        .collect()
}

/// Where two values differ first, and how.
fn difference(ours: &Value, theirs: &Value) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let deeper = match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<_> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.into_iter().find_map(|name| {
                let (a, b) = (a.get(name)?, b.get(name)?);
                Some(format!(".{name}{}", difference(a, b)?))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .zip(0..)
            .find_map(|((a, b), at)| Some(format!("[{at}]{}", difference(a, b)?))),
        _ => None,
    };
    deeper.or_else(|| Some(format!(": {ours}, not {theirs}")))
}

async fn compare(stock: &Stock, ours: &ApiServer, when: &str) {
    let (mut seen, mut different) = (0, Vec::new());
    for resource in registry::resources() {
        // Leases change all the time; definitions and services of the API have
        // controllers in a stock server that write to them.
        if !resource.has_verb("list") || !resource.has_verb("create") || resource.plural == "leases"
        {
            continue;
        }
        let path = path_of(resource, "");
        let (code, theirs) = stock.ask(Method::GET, &path, None).await;
        assert_eq!(code, 200, "{path} of kube-apiserver");
        let (code, own) = ask(ours, &root(), Method::GET, &path, None).await;
        assert_eq!(code, 200, "{path}");
        let (theirs, own) = (by_name(&theirs), by_name(&own));
        let names = |all: &std::collections::BTreeMap<String, Value>| {
            all.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&own), names(&theirs), "{when}: {path}");
        for (name, text) in &theirs {
            seen += 1;
            if let Some(path) = own.get(name).and_then(|own| difference(own, text)) {
                different.push(format!("{} {name}: {path}", resource.plural));
            }
        }
    }
    assert!(
        different.is_empty(),
        "{when}: {} of {seen} objects differ:\n{}",
        different.len(),
        different.join("\n")
    );
    println!("{when}: {seen} objects are the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_reads_what_the_other_wrote() {
    let (Some(etcd), Some(kube)) = (
        find("ETCD", "etcd"),
        find("KUBE_APISERVER", "kube-apiserver"),
    ) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let (client, peer) = (free_port(), free_port());
    let (client, peer) = (
        format!("http://127.0.0.1:{client}"),
        format!("http://127.0.0.1:{peer}"),
    );
    let _etcd = start(
        &etcd,
        &dir.path().join("etcd.log"),
        &[
            format!("--data-dir={}", dir.path().join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--log-level=error".into(),
        ],
    );
    let pki = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let stock = Stock::start(&kube, dir.path(), &pki, &client);
    stock.ready().await;
    for namespace in ["seed", "ours"] {
        let object =
            value!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": namespace}});
        let (code, _) = stock
            .ask(Method::POST, "/api/v1/namespaces", Some(&object))
            .await;
        assert_eq!(code, 201);
    }
    let mut created = 0;
    for mut object in objects() {
        let resource = resource_of(&object);
        if resource.namespaced {
            in_namespace(&mut object, "seed");
        }
        let path = path_of(resource, "seed");
        let (code, answer) = stock.ask(Method::POST, &path, Some(&object)).await;
        assert!(
            code == 201 || code == 409,
            "{path} of kube-apiserver: {code} {answer}"
        );
        created += usize::from(code == 201);
    }
    assert!(created > 12, "{created} objects");
    // A definition is written to by the server that found it.
    tokio::time::sleep(Duration::from_secs(2)).await;

    let trust = ClientTrust::new(pki.ca.certificate_pem()).expect("trust");
    let store = Etcd::connect(EtcdOptions {
        endpoints: vec![client],
        ..EtcdOptions::default()
    });
    let ours = ApiServer::new(Config {
        store: Arc::new(store.await.expect("etcd answers")),
        access: Arc::new(ClusterAccess::new(
            trust,
            Tokens::new(Arc::new(pki.service_account_key)),
        )),
        encryption: Default::default(),
        advertise_address: [127, 0, 0, 1].into(),
        advertise_port: 6443,
        service_cidrs: vec!["10.96.0.0/16".parse().expect("a range")],
        node_ports: (30000, 32767),
        kubelets: None,
        proxy_identity: None,
        egress: control_proxy::Egress::default(),
        whole: false,
        chain: control_apiserver::chain::Settings::default(),
    })
    .await
    .expect("a server");
    compare(&stock, &ours, "what kube-apiserver wrote").await;

    let mut created = 0;
    for mut object in objects() {
        let resource = resource_of(&object);
        if resource.namespaced {
            in_namespace(&mut object, "ours");
        } else {
            let name = format!("ours-{}", control_types::meta::name(&object));
            if resource.plural == "customresourcedefinitions" {
                continue;
            }
            control_types::meta::set_name(&mut object, &name);
        }
        let path = path_of(resource, "ours");
        let (code, answer) = ask(&ours, &root(), Method::POST, &path, Some(object)).await;
        // The account that pods would run as is a controller's to make.
        if code == 403 && resource.plural == "pods" {
            continue;
        }
        assert_eq!(code, 201, "{path}: {answer}");
        created += 1;
    }
    assert!(created > 12, "{created} objects");
    // An update of what the other wrote is written in the present form.
    let path = "/api/v1/namespaces/seed/secrets/opaque";
    let patch = value!({"metadata": {"labels": {"by": "us"}}});
    let (code, answer) = ask(&ours, &root(), Method::PATCH, path, Some(patch)).await;
    assert_eq!(code, 200, "{answer}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    compare(&stock, &ours, "what both wrote").await;
}
