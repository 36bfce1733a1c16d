//! Tests the takeover of a kubeadm control plane and the way back: a stock kube-apiserver with its
//! etcd, keys and EncryptionConfiguration, and `orlop server` on the same files, first beside it,
//! then alone, then the stock server alone again. `$KUBE_APISERVER` and `$ETCD` name the programs,
//! by default those on the PATH; if one is missing, the tests are skipped with a message.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use control_client::{BearerToken, Client, Discard, resources};
use http::Method;
use serde_json::{Value, json};

/// A program that ends with this value.
struct Program(Child);

impl Program {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = std::fs::File::create(log).expect("a log");
        let child = command
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn();
        Self(child.expect("the program starts"))
    }

    /// Ends it in order.
    fn stop(mut self) {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.0.wait();
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

/// `/etc/kubernetes` of a machine, as kubeadm makes it.
struct Kubernetes {
    dir: tempfile::TempDir,
}

impl Kubernetes {
    /// Makes keys and certificates as kubeadm does: RSA keys of 2048 bits in PKCS#1, and its
    /// names and groups.
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("pki/etcd")).expect("made");
        let it = Self { dir };
        it.authority("ca", "kubernetes");
        it.authority("front-proxy-ca", "front-proxy-ca");
        it.authority("etcd/ca", "etcd-ca");
        it.issued("apiserver", "ca", "/CN=kube-apiserver", "serverAuth");
        let kubelets = "/O=kubeadm:cluster-admins/CN=kube-apiserver-kubelet-client";
        it.issued("apiserver-kubelet-client", "ca", kubelets, "clientAuth");
        let front = "/CN=front-proxy-client";
        it.issued("front-proxy-client", "front-proxy-ca", front, "clientAuth");
        let client = "/CN=kube-apiserver-etcd-client";
        it.issued("apiserver-etcd-client", "etcd/ca", client, "clientAuth");
        let both = "serverAuth,clientAuth";
        it.issued("etcd/server", "etcd/ca", "/CN=machine", both);
        it.issued("etcd/peer", "etcd/ca", "/CN=machine", both);
        it.issued(
            "super-admin",
            "ca",
            "/O=system:masters/CN=kubernetes-super-admin",
            "clientAuth",
        );
        it.key("sa");
        it.openssl(&["rsa", "-in", "pki/sa.key", "-pubout", "-out", "pki/sa.pub"]);
        let key = STANDARD.encode([7; 32]);
        let encryption = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
             - resources: [secrets]\n  providers:\n  - aescbc:\n      keys:\n      - {{name: key1, \
             secret: {key}}}\n  - identity: {{}}\n"
        );
        let file = it.path("encryption.yaml");
        std::fs::write(&file, encryption).expect("written");
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(file, own).expect("kept to its owner");
        it
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn openssl(&self, words: &[&str]) {
        let done = Command::new("openssl")
            .current_dir(self.dir.path())
            .args(words)
            .output()
            .expect("openssl runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{words:?}: {said}");
    }

    fn key(&self, name: &str) {
        let file = format!("pki/{name}.key");
        self.openssl(&["genrsa", "-traditional", "-out", &file, "2048"]);
    }

    fn authority(&self, name: &str, cn: &str) {
        self.key(name);
        let (key, certificate) = (format!("pki/{name}.key"), format!("pki/{name}.crt"));
        self.openssl(&[
            "req",
            "-x509",
            "-new",
            "-key",
            &key,
            "-sha256",
            "-days",
            "3650",
            "-subj",
            &format!("/CN={cn}"),
            "-out",
            &certificate,
            "-addext",
            "keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign",
            "-addext",
            &format!("subjectAltName=DNS:{cn}"),
        ]);
    }

    fn issued(&self, name: &str, authority: &str, subject: &str, usage: &str) {
        self.key(name);
        let extensions = format!(
            "keyUsage=critical,digitalSignature,keyEncipherment\nextendedKeyUsage={usage}\n\
             basicConstraints=critical,CA:FALSE\nsubjectAltName=DNS:localhost,DNS:machine,\
             DNS:kubernetes,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1\n"
        );
        std::fs::write(self.path("extensions"), extensions).expect("written");
        let file = |end: &str| format!("pki/{name}.{end}");
        self.openssl(&[
            "req",
            "-new",
            "-key",
            &file("key"),
            "-subj",
            subject,
            "-out",
            "request",
        ]);
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            "request",
            "-CA",
            &format!("pki/{authority}.crt"),
            "-CAkey",
            &format!("pki/{authority}.key"),
            "-CAcreateserial",
            "-days",
            "365",
            "-sha256",
            "-extfile",
            "extensions",
            "-out",
            &file("crt"),
        ]);
    }

    fn option(&self, option: &str, name: &str) -> String {
        format!("--{option}={}", self.path(name).display())
    }

    /// The member of etcd, by kubeadm's options.
    fn etcd(&self, program: &Path, [client, peer]: [u16; 2]) -> Program {
        let (client, peer) = (
            format!("https://127.0.0.1:{client}"),
            format!("https://127.0.0.1:{peer}"),
        );
        Program::start(
            Command::new(program)
                .arg(format!("--advertise-client-urls={client}"))
                .arg(format!("--listen-client-urls={client}"))
                .arg(format!("--initial-advertise-peer-urls={peer}"))
                .arg(format!("--listen-peer-urls={peer}"))
                .arg(format!("--initial-cluster=machine={peer}"))
                .args(["--name=machine", "--client-cert-auth=true"])
                .args(["--peer-client-cert-auth=true", "--snapshot-count=10000"])
                .arg(self.option("cert-file", "pki/etcd/server.crt"))
                .arg(self.option("data-dir", "etcd"))
                .arg(self.option("key-file", "pki/etcd/server.key"))
                .arg(self.option("peer-cert-file", "pki/etcd/peer.crt"))
                .arg(self.option("peer-key-file", "pki/etcd/peer.key"))
                .arg(self.option("peer-trusted-ca-file", "pki/etcd/ca.crt"))
                .arg(self.option("trusted-ca-file", "pki/etcd/ca.crt")),
            &self.path("etcd.log"),
        )
    }

    /// The stock server, by kubeadm's options.
    fn stock(&self, program: &Path, etcd: u16, port: u16) -> Program {
        Program::start(
            Command::new(program)
                .args(["--advertise-address=127.0.0.1", "--allow-privileged=true"])
                .args(["--bind-address=127.0.0.1", "--authorization-mode=Node,RBAC"])
                .arg(self.option("client-ca-file", "pki/ca.crt"))
                .args(["--enable-admission-plugins=NodeRestriction"])
                .args(["--enable-bootstrap-token-auth=true"])
                .arg(self.option("encryption-provider-config", "encryption.yaml"))
                .arg(self.option("etcd-cafile", "pki/etcd/ca.crt"))
                .arg(self.option("etcd-certfile", "pki/apiserver-etcd-client.crt"))
                .arg(self.option("etcd-keyfile", "pki/apiserver-etcd-client.key"))
                .arg(format!("--etcd-servers=https://127.0.0.1:{etcd}"))
                .arg(self.option(
                    "kubelet-client-certificate",
                    "pki/apiserver-kubelet-client.crt",
                ))
                .arg(self.option("kubelet-client-key", "pki/apiserver-kubelet-client.key"))
                .arg(self.option("proxy-client-cert-file", "pki/front-proxy-client.crt"))
                .arg(self.option("proxy-client-key-file", "pki/front-proxy-client.key"))
                .arg(self.option("requestheader-client-ca-file", "pki/front-proxy-ca.crt"))
                .args(["--requestheader-allowed-names=front-proxy-client"])
                .args(["--requestheader-extra-headers-prefix=X-Remote-Extra-"])
                .args(["--requestheader-group-headers=X-Remote-Group"])
                .args(["--requestheader-username-headers=X-Remote-User"])
                .arg(format!("--secure-port={port}"))
                .args(["--service-account-issuer=https://kubernetes.default.svc.cluster.local"])
                .arg(self.option("service-account-key-file", "pki/sa.pub"))
                .arg(self.option("service-account-signing-key-file", "pki/sa.key"))
                .args(["--service-cluster-ip-range=10.96.0.0/16"])
                .arg(self.option("tls-cert-file", "pki/apiserver.crt"))
                .arg(self.option("tls-private-key-file", "pki/apiserver.key")),
            &self.path("kube-apiserver.log"),
        )
    }

    /// Ours, with a copy of the keys as an operator makes it.
    fn ours(&self, etcd: u16, port: u16) -> Program {
        let data = self.path("orlop");
        if !data.exists() {
            std::fs::create_dir(&data).expect("made");
            let copied = Command::new("cp")
                .arg("-a")
                .args([self.path("pki"), data.join("pki")])
                .status();
            assert!(copied.expect("cp runs").success());
        }
        Program::start(
            Command::new(env!("CARGO_BIN_EXE_orlop"))
                .arg("server")
                .arg("--data-dir")
                .arg(&data)
                .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
                .arg(format!("--secure-port={port}"))
                .arg(format!("--etcd-servers=https://127.0.0.1:{etcd}"))
                .arg(self.option("etcd-cafile", "pki/etcd/ca.crt"))
                .arg(self.option("etcd-certfile", "pki/apiserver-etcd-client.crt"))
                .arg(self.option("etcd-keyfile", "pki/apiserver-etcd-client.key"))
                .arg(self.option("encryption-provider-config", "encryption.yaml"))
                .args(["--service-account-issuer=https://kubernetes.default.svc.cluster.local"])
                .args(["--service-cluster-ip-range=10.96.0.0/16"])
                .args(["--cluster-cidr=10.244.0.0/16"]),
            &self.path("orlop.log"),
        )
    }

    /// The administrator's kubeconfig for a port.
    fn kubeconfig(&self, port: u16) -> PathBuf {
        let encoded = |name: &str| STANDARD.encode(std::fs::read(self.path(name)).expect("read"));
        let path = self.path(&format!("{port}.conf"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {{name: c, context: \
             {{cluster: c, user: u}}}}\nclusters:\n- name: c\n  cluster:\n    server: \
             https://127.0.0.1:{port}\n    certificate-authority-data: {}\nusers:\n- name: u\n  \
             user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
            encoded("pki/ca.crt"),
            encoded("pki/super-admin.crt"),
            encoded("pki/super-admin.key"),
        );
        std::fs::write(&path, text).expect("written");
        path
    }

    /// A client of the server at a port, once that is ready.
    async fn client(&self, port: u16) -> Client {
        let client = Client::from_kubeconfig(self.kubeconfig(port)).await;
        let client = client.expect("usable");
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let asked = get(&client, "/api/v1/namespaces/default");
            match asked.await {
                Ok(_) => return client,
                Err(error) => assert!(Instant::now() < until, "{error}\n{}", self.logs()),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn logs(&self) -> String {
        let last = |name: &str| {
            let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let lines = &lines[lines.len().saturating_sub(20)..];
            format!("--- {name}\n{}\n", lines.join("\n"))
        };
        ["etcd.log", "kube-apiserver.log", "orlop.log"]
            .map(last)
            .concat()
    }
}

/// Everything that is looked at before and after, by its path.
const OBJECTS: [&str; 8] = [
    "/api/v1/namespaces/shop",
    "/api/v1/namespaces/shop/configmaps/settings",
    "/api/v1/namespaces/shop/secrets/password",
    "/api/v1/namespaces/shop/serviceaccounts/clerk",
    "/api/v1/namespaces/shop/services/web",
    "/apis/apps/v1/namespaces/shop/deployments/web",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles/reader",
    "/apis/example.com/v1/namespaces/shop/things/one",
];

async fn fill(client: &Client) {
    let make = async |path: &str, body: Value| {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let made = client.request::<Discard>(Method::POST, path, Some(&body));
            match made.await {
                Ok(_) => return,
                // Custom resources are served a moment after their definition.
                Err(error) => assert!(Instant::now() < until, "{path}: {}", error.chain()),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let named = |name: &str| json!({"name": name});
    make("/api/v1/namespaces", json!({"metadata": named("shop")})).await;
    let core = "/api/v1/namespaces/shop";
    let settings = json!({"metadata": named("settings"), "data": {"a": "1"}});
    make(&format!("{core}/configmaps"), settings).await;
    let password = json!({"metadata": named("password"), "stringData": {"p": "hunter2"}});
    make(&format!("{core}/secrets"), password).await;
    let clerk = json!({"metadata": named("clerk")});
    make(&format!("{core}/serviceaccounts"), clerk).await;
    let service = json!({"metadata": named("web"),
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    make(&format!("{core}/services"), service).await;
    let deployment = json!({"metadata": named("web"), "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "example.org/web"}]}}}});
    make("/apis/apps/v1/namespaces/shop/deployments", deployment).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop";
    let role = json!({"metadata": named("reader"),
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]});
    make(&format!("{rbac}/roles"), role).await;
    let binding = json!({"metadata": named("reader"),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "clerk", "namespace": "shop"}]});
    make(&format!("{rbac}/rolebindings"), binding).await;
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {
        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let definition = json!({"metadata": named("things.example.com"), "spec": {
        "group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"}}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    make(definitions, definition).await;
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": named("one"), "size": 7});
    make("/apis/example.com/v1/namespaces/shop/things", thing).await;
}

async fn get(client: &Client, path: &str) -> Result<Value, String> {
    let got = client.request::<Value>(Method::GET, path, None::<&()>);
    got.await.map_err(|error| error.chain())
}

/// All objects, without what controllers write all the while.
async fn objects(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    for path in OBJECTS {
        let until = Instant::now() + Duration::from_secs(30);
        let mut object = loop {
            match get(client, path).await {
                Ok(object) => break object,
                Err(error) => assert!(Instant::now() < until, "{path}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        if path.contains("deployments") {
            for changing in ["status", "metadata"] {
                object[changing] = Value::Null;
            }
        }
        all.push(object);
    }
    all
}

/// A token of the account, which a server signs.
async fn token(client: &Client) -> String {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600}});
    let accounts = &resources::SERVICE_ACCOUNTS;
    let made = client.create_subresource::<Value>(accounts, "shop", "clerk", "token", &request);
    let made = made.await.expect("a token");
    made["status"]["token"].as_str().expect("text").to_owned()
}

/// Reads with the account's token what its role allows, and nothing else.
async fn check_token(kubernetes: &Kubernetes, port: u16, token: &str, whose: &str) {
    let anonymous = Client::anonymous(&[kubernetes.kubeconfig(port)]).await;
    let token = BearerToken::new(token).expect("a token");
    let clerk = anonymous.expect("usable").bearing(token);
    let settings = get(&clerk, OBJECTS[1]).await;
    assert!(settings.is_ok(), "a token of {whose}: {settings:?}");
    let refused = get(&clerk, OBJECTS[2]).await.expect_err("refused");
    assert!(refused.contains("forbidden"), "{refused}");
}

/// Writes through one server; the other shows it at once.
async fn write(through: &Client, seen_by: &[&Client], name: &str) {
    for (resource, key) in [
        (&resources::SECRETS, "data"),
        (&resources::CONFIG_MAPS, "data"),
    ] {
        let value = STANDARD.encode(name);
        let body = json!({"metadata": {"name": name}, key: {"k": value}});
        let made = through.create::<Value>(resource, "shop", &body).await;
        let made = made.expect("written");
        for client in seen_by {
            let read = client.get::<Value>(resource, "shop", name).await;
            assert_eq!(read.expect("read"), made, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_of_kubeadm_is_taken_over_and_given_back() {
    let (Some(api_server), Some(etcd), Some(_)) = (
        find("KUBE_APISERVER", "kube-apiserver"),
        find("ETCD", "etcd"),
        find("OPENSSL", "openssl"),
    ) else {
        return;
    };
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubernetes = Kubernetes::new();
    let (etcd_port, stock_port, our_port) = (free_port(), free_port(), free_port());
    let _etcd = kubernetes.etcd(&etcd, [etcd_port, free_port()]);
    let stock_server = kubernetes.stock(&api_server, etcd_port, stock_port);
    let stock = kubernetes.client(stock_port).await;
    fill(&stock).await;
    let node = json!({"metadata": {"name": "n1"}});
    stock
        .create::<Value>(&resources::NODES, "", &node)
        .await
        .expect("made");
    let before = objects(&stock).await;
    let stock_token = token(&stock).await;

    // Beside it: the same objects, the same users, each other's tokens and writes.
    let our_server = kubernetes.ours(etcd_port, our_port);
    let ours = kubernetes.client(our_port).await;
    assert_eq!(objects(&ours).await, before);
    check_token(&kubernetes, our_port, &stock_token, "the stock server").await;
    let our_token = token(&ours).await;
    check_token(&kubernetes, stock_port, &our_token, "ours").await;
    write(&stock, &[&ours], "of-stock").await;
    write(&ours, &[&stock], "of-ours").await;
    assert_eq!(objects(&stock).await, before, "the stock server reads on");

    // Alone.
    stock_server.stop();
    write(&ours, &[], "of-ours-alone").await;
    check_token(&kubernetes, our_port, &stock_token, "the stock server").await;
    assert_eq!(objects(&ours).await, before);

    // Given back.
    our_server.stop();
    let _stock_server = kubernetes.stock(&api_server, etcd_port, stock_port);
    let stock = kubernetes.client(stock_port).await;
    assert_eq!(objects(&stock).await, before);
    check_token(&kubernetes, stock_port, &our_token, "ours").await;
    for name in ["of-stock", "of-ours", "of-ours-alone"] {
        let secret = stock.get::<Value>(&resources::SECRETS, "shop", name).await;
        let secret = secret.expect("decrypted");
        assert_eq!(secret["data"]["k"], STANDARD.encode(name));
    }
    write(&stock, &[], "of-stock-again").await;
}
