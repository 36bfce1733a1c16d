//! Tests backups, restores, moves and upgrades of a running server with the operator's commands.
//! Tests that need etcd are skipped with a message if it is missing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use control_client::Client;
use http::Method;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn orlop() -> Command {
    Command::new(env!("CARGO_BIN_EXE_orlop"))
}

fn free_port() -> u16 {
    free_port::free_port().expect("a port")
}

/// A server that ends with the test.
struct Server {
    child: Child,
    data: PathBuf,
}

impl Server {
    fn start(data: &Path, more: &[&str]) -> Self {
        let port = free_port().to_string();
        let log = fs::File::create(data.with_extension("log")).expect("a log");
        let child = orlop()
            .args([
                "apiserver",
                "--bind-address",
                "127.0.0.1",
                "--secure-port",
                &port,
            ])
            .arg("--data-dir")
            .arg(data)
            .args(more)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("orlop runs");
        Self {
            child,
            data: data.to_owned(),
        }
    }

    async fn client(&self) -> Client {
        client(&self.data).await
    }

    fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// A client of the server in a folder, when that is ready.
async fn client(data: &Path) -> Client {
    let began = Instant::now();
    loop {
        if let Ok(client) = Client::from_kubeconfig(data.join("admin.kubeconfig")).await
            && get(&client, "/api/v1/namespaces/kube-system").await.is_ok()
            && get(&client, "/api/v1/namespaces/default").await.is_ok()
        {
            return client;
        }
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "no server: {}",
            fs::read_to_string(data.with_extension("log")).unwrap_or_default()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn get(client: &Client, path: &str) -> Result<Value, control_client::Error> {
    client.request(Method::GET, path, None::<&()>).await
}

async fn post(client: &Client, path: &str, body: Value) -> Value {
    let answer = client.request(Method::POST, path, Some(&body)).await;
    answer.expect("created")
}

async fn config_map(client: &Client, name: &str) {
    let body = json!({"metadata": {"name": name}, "data": {"key": "value".repeat(500)}});
    post(client, CONFIG_MAPS, body).await;
}

fn run(command: &mut Command) -> Output {
    command.output().expect("it runs")
}

/// Runs what has to succeed; returns what it printed.
fn printed(command: &mut Command) -> String {
    let done = run(command);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {text}{errors}");
    text
}

/// Runs what has to fail; returns what it said.
fn refused(command: &mut Command) -> String {
    let done = run(command);
    assert!(!done.status.success(), "{command:?}");
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    format!("{}{errors}", String::from_utf8_lossy(&done.stdout))
}

fn begin() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn only_file(folder: &Path) -> PathBuf {
    let files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_server_becomes_the_same_cluster_elsewhere() {
    begin();
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    let server = Server::start(&path("first"), &[]);
    let client = server.client().await;
    for number in 0..40 {
        config_map(&client, &format!("c{number}")).await;
    }
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hidden"}});
    post(&client, "/api/v1/namespaces/default/secrets", secret).await;
    let account = json!({"metadata": {"name": "robot"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(&client, accounts, account).await;
    let token = post(
        &client,
        &format!("{accounts}/robot/token"),
        json!({"spec": {"expirationSeconds": 3600}}),
    )
    .await;
    let before = get(&client, CONFIG_MAPS).await.expect("a list");

    // Encrypted, listed, verified.
    let key = path("backup.key");
    let recipient = printed(orlop().args(["backup", "keygen", "--file"]).arg(&key));
    let create = |data: &Path| {
        let mut command = orlop();
        command.args(["backup", "create", "--recipient", recipient.trim(), "--to"]);
        command.arg(path("backups")).arg("--data-dir").arg(data);
        command
    };
    let unsaid = refused(
        orlop()
            .args(["backup", "create", "--to"])
            .arg(path("backups")),
    );
    assert!(unsaid.contains("--plain"), "{unsaid}");
    printed(&mut create(&server.data));
    let file = only_file(&path("backups"));
    let list = printed(
        orlop()
            .args(["backup", "list", "--from"])
            .arg(path("backups")),
    );
    assert!(
        list.contains(&*file.file_name().expect("a name").to_string_lossy()),
        "{list}"
    );
    let verify = |file: &Path| {
        let mut command = orlop();
        command
            .args(["backup", "verify", "--identity"])
            .arg(&key)
            .arg(file);
        command
    };
    let report = printed(&mut verify(&file));
    assert!(
        report.contains("whole:") && report.contains("/registry/configmaps/"),
        "{report}"
    );
    let content = fs::read(&file).expect("read");
    assert!(!content.windows(6).any(|part| part == b"hidden"));
    for (name, damaged) in [
        ("cut", content[..content.len() - 100].to_vec()),
        ("half", content[..content.len() / 2].to_vec()),
        ("changed", {
            let mut changed = content.clone();
            let middle = changed.len() / 2;
            changed[middle] ^= 1;
            changed
        }),
    ] {
        fs::write(path(name), damaged).expect("written");
        let said = refused(&mut verify(&path(name)));
        assert!(said.contains("damaged"), "{name}: {said}");
        let target = path("none");
        let mut restore = orlop();
        restore
            .args(["restore", "--identity"])
            .arg(&key)
            .arg(path(name));
        refused(restore.arg("--data-dir").arg(&target));
        assert!(
            !target.exists() && !path("none.restoring").exists(),
            "{name}"
        );
    }

    // One that is killed leaves no backup, and the next one tidies up.
    for millis in [2, 10, 25, 60] {
        let mut child = create(&server.data)
            .stdout(Stdio::null())
            .spawn()
            .expect("it runs");
        tokio::time::sleep(Duration::from_millis(millis)).await;
        let _ = child.kill();
        let _ = child.wait();
    }
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    config_map(&client, "lost").await;
    let lost = get(&client, &format!("{CONFIG_MAPS}/lost"))
        .await
        .expect("it");
    let lost_version = lost["metadata"]["resourceVersion"]
        .as_str()
        .expect("one")
        .to_owned();
    server.stop();

    // Elsewhere: the same objects, keys and tokens, and no watch goes on where it was.
    let restore = |data: &Path, more: &[&str]| {
        let mut command = orlop();
        command
            .args(["restore", "--identity"])
            .arg(&key)
            .arg(&file)
            .args(more);
        command.arg("--data-dir").arg(data);
        command
    };
    let said = printed(&mut restore(&path("second"), &[]));
    assert!(said.contains("clients list again"), "{said}");
    let said = refused(&mut restore(&path("second"), &[]));
    assert!(said.contains("--replace"), "{said}");
    let server = Server::start(&path("second"), &[]);
    // Once it answers, it has its store.
    let client = server.client().await;
    let said = refused(&mut restore(&path("second"), &["--replace"]));
    let after = get(&client, CONFIG_MAPS).await.expect("a list");
    assert_eq!(
        before["items"], after["items"],
        "with their resource versions; {said}"
    );
    let version = |list: &Value| -> u64 {
        let text = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default();
        text.parse().expect("a number")
    };
    assert!(version(&after) > version(&before) + 1_000_000_000);
    let secret = get(&client, "/api/v1/namespaces/default/secrets/s")
        .await
        .expect("it");
    assert_eq!(secret["data"]["password"], "aGlkZGVu");
    let review = json!({"spec": {"token": token["status"]["token"]}});
    let review = post(
        &client,
        "/apis/authentication.k8s.io/v1/tokenreviews",
        review,
    )
    .await;
    assert_eq!(review["status"]["authenticated"], true, "{review}");
    for from in [
        &lost_version,
        before["metadata"]["resourceVersion"].as_str().expect("one"),
    ] {
        let watch = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=3&resourceVersion={from}");
        let gone = get(&client, &watch).await;
        let text = format!("{gone:?}");
        assert!(
            text.contains("410") || text.contains("xpired"),
            "{from}: {text}"
        );
    }
    server.stop();
    let said = printed(&mut restore(&path("second"), &["--replace"]));
    assert!(said.contains("before-restore"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_becomes_the_first_member_of_a_managed_etcd() {
    for program in ["etcd", "etcdctl"] {
        if Command::new(program).arg("--help").output().is_err() {
            eprintln!("skipped: no {program} on the PATH");
            return;
        }
    }
    begin();
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    // A member listens at its machine's address and at 127.0.0.1.
    let address = ["--advertise-address", "127.0.0.2"];
    let member = |name: &'static str| -> Vec<String> {
        let ports = [free_port(), free_port()].map(|port| port.to_string());
        let [client, peer] = ports;
        let words = ["--etcd", "managed", "--etcd-name", name];
        let words = words.into_iter().chain(address).map(str::to_owned);
        let ports = [
            "--etcd-client-port".to_owned(),
            client,
            "--etcd-peer-port".to_owned(),
            peer,
        ];
        words.chain(ports).collect()
    };
    let first = member("one");
    let words: Vec<&str> = first.iter().map(String::as_str).collect();
    let server = Server::start(&path("first"), &words);
    let client = server.client().await;
    for number in 0..20 {
        config_map(&client, &format!("c{number}")).await;
    }
    let before = get(&client, CONFIG_MAPS).await.expect("a list");
    let mut create = orlop();
    create.args(["backup", "create", "--plain", "--to"]);
    create.arg(path("backups")).arg("--data-dir");
    printed(create.arg(path("first")));

    let restore = |data: &Path, more: &[String]| {
        let mut command = orlop();
        command.arg("restore").arg(path("backups")).args(more);
        command.arg("--data-dir").arg(data);
        command
    };
    let second = member("two");
    // Not over a server that runs, nor without a program that can do it; neither leaves a thing.
    let mut over = second.clone();
    over.push("--replace".to_owned());
    let said = refused(&mut restore(&path("first"), &over));
    assert!(said.contains("stop it first"), "{said}");
    let said = refused(restore(&path("second"), &second).env("PATH", path("nothing")));
    assert!(said.contains("etcd-client"), "{said}");
    assert!(!path("second").exists() && !path("second.restoring").exists());
    let said = printed(&mut restore(&path("second"), &second));
    assert!(said.contains("--advertise-address 127.0.0.2"), "{said}");
    assert!(!path("second").join("etcd.db").exists());
    server.stop();

    // The server runs the member that it finds, without being told.
    let server = Server::start(&path("second"), &address);
    let client = server.client().await;
    let after = get(&client, CONFIG_MAPS).await.expect("a list");
    assert_eq!(
        before["items"], after["items"],
        "with their resource versions"
    );
    let version = before["metadata"]["resourceVersion"].as_str().expect("one");
    let watch = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=3&resourceVersion={version}");
    let gone = format!("{:?}", get(&client, &watch).await);
    assert!(gone.contains("410") || gone.contains("xpired"), "{gone}");
    config_map(&client, "later").await;
    let mut members = orlop();
    members.args(["etcd", "members", "--data-dir"]);
    let said = printed(members.arg(path("second")));
    assert!(
        said.contains("two") && said.contains("leader") && !said.contains("one "),
        "{said}"
    );
}

/// A real etcd, if there is one.
struct Etcd {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Etcd {
    fn start(data: Option<&Path>) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a folder");
        let url = format!("http://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let data = data.map_or_else(|| dir.path().join("data"), Path::to_owned);
        let child = Command::new("etcd")
            .args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args(["--listen-peer-urls", &peer, "--data-dir"])
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: no etcd on the PATH");
            return None;
        };
        let address = url.trim_start_matches("http://").to_owned();
        let began = Instant::now();
        while std::net::TcpStream::connect(&address).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "etcd does not start"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(Self {
            child,
            url,
            _dir: dir,
        })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_moves_to_etcd_and_back_and_a_backup_of_etcd_restores() {
    begin();
    let Some(etcd) = Etcd::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let data = dir.path().join("server");
    let server = Server::start(&data, &[]);
    let client = server.client().await;
    for number in 0..30 {
        config_map(&client, &format!("c{number}")).await;
    }
    let names = |list: &Value| -> Vec<(Value, Value)> {
        let items = list["items"].as_array().expect("items").iter();
        items
            .map(|item| (item["metadata"]["uid"].clone(), item["data"].clone()))
            .collect()
    };
    let before = get(&client, CONFIG_MAPS).await.expect("a list");
    let stop = format!("kill -TERM {}", server.child.id());
    let said = printed(
        orlop()
            .args(["store", "move", "--to", "etcd", "--etcd-servers", &etcd.url])
            .args(["--stop", &stop, "--data-dir"])
            .arg(&data),
    );
    assert!(said.contains("are equal in both stores"), "{said}");
    assert!(
        said.contains(&format!("--etcd-servers {}", etcd.url)),
        "{said}"
    );
    drop(server);
    // With its old options the server refuses to bring the old store to life.
    let port = free_port().to_string();
    let mut old = orlop();
    old.args([
        "apiserver",
        "--bind-address",
        "127.0.0.1",
        "--secure-port",
        &port,
    ]);
    let said = refused(old.arg("--data-dir").arg(&data));
    assert!(said.contains("was moved to etcd at"), "{said}");
    let server = Server::start(&data, &["--etcd-servers", &etcd.url]);
    let client = server.client().await;
    let after = get(&client, CONFIG_MAPS).await.expect("a list");
    assert_eq!(names(&before), names(&after));
    let version = before["metadata"]["resourceVersion"].as_str().expect("one");
    let watch = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=3&resourceVersion={version}");
    let text = format!("{:?}", get(&client, &watch).await);
    assert!(text.contains("410") || text.contains("xpired"), "{text}");
    config_map(&client, "in-etcd").await;

    // A backup of etcd becomes a file for a new etcd.
    let backups = dir.path().join("backups");
    let mut create = orlop();
    create
        .args(["backup", "create", "--plain", "--to"])
        .arg(&backups);
    printed(create.arg("--data-dir").arg(&data));
    let file = dir.path().join("etcd.db");
    let mut restore = orlop();
    restore
        .arg("restore")
        .arg(&backups)
        .args(["--store-only", "--etcd-snapshot"]);
    printed(restore.arg(&file).arg("--data-dir").arg(&data));
    let made = dir.path().join("etcd.data");
    if Command::new("etcdctl").arg("version").output().is_ok() {
        let mut etcdctl = Command::new("etcdctl");
        etcdctl
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore"])
            .arg(&file);
        printed(etcdctl.arg("--data-dir").arg(&made));
        let second = Etcd::start(Some(&made)).expect("etcd");
        let other = dir.path().join("other");
        let server = Server::start(&other, &["--etcd-servers", &second.url]);
        let restored = get(&server.client().await, CONFIG_MAPS)
            .await
            .expect("a list");
        let now = get(&client, CONFIG_MAPS).await.expect("a list");
        assert_eq!(
            now["items"], restored["items"],
            "with their resource versions"
        );
    }

    // Back again.
    let now = get(&client, CONFIG_MAPS).await.expect("a list");
    let stop = format!("kill -TERM {}", server.child.id());
    let mut back = orlop();
    back.args(["store", "move", "--to", "embedded", "--stop", &stop]);
    let said = printed(back.arg("--data-dir").arg(&data));
    assert!(said.contains("are equal in both stores"), "{said}");
    drop(server);
    let server = Server::start(&data, &[]);
    let embedded = get(&server.client().await, CONFIG_MAPS)
        .await
        .expect("a list");
    assert_eq!(
        now["items"], embedded["items"],
        "with their resource versions"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_gets_another_binary_and_its_old_one_back() {
    begin();
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    let (binary, data) = (path("orlop"), path("server"));
    fs::copy(env!("CARGO_BIN_EXE_orlop"), &binary).expect("copied");
    let script = format!(
        "#!/bin/sh\n[ -f {pid} ] && kill -TERM $(cat {pid}) && while kill -0 $(cat {pid}); do sleep 0.1; done\n\
         {binary} apiserver --bind-address 127.0.0.1 --secure-port {port} --data-dir {data} > {log} 2>&1 &\n\
         echo $! > {pid}\n",
        pid = path("pid").display(),
        binary = binary.display(),
        port = free_port(),
        data = data.display(),
        log = data.with_extension("log").display(),
    );
    let restart = path("restart.sh");
    fs::write(&restart, script).expect("written");
    fs::set_permissions(&restart, fs::Permissions::from_mode(0o755)).expect("set");
    let end = Ended(path("pid"));
    assert!(Command::new(&restart).status().expect("it runs").success());
    config_map(&client(&data).await, "c").await;
    // Another file of the same program.
    let new = path("new");
    let mut bytes = fs::read(&binary).expect("read");
    bytes.extend(b"another build");
    fs::write(&new, &bytes).expect("written");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("set");
    let upgrade = |words: &[&str], to: Option<&Path>| {
        let mut command = orlop();
        command
            .arg("upgrade")
            .args(words)
            .arg("--data-dir")
            .arg(&data);
        if let Some(to) = to {
            command.arg("--to").arg(to);
        }
        command
    };
    let plan = printed(&mut upgrade(&["plan"], Some(&new)));
    assert!(
        plan.contains("store format") && !plan.contains("refused"),
        "{plan}"
    );
    let restart = restart.display().to_string();
    let backups = path("backups").display().to_string();
    let apply = [
        "apply",
        "--restart",
        &restart,
        "--backup-plain",
        "--backup-to",
        &backups,
    ];
    let said = printed(&mut upgrade(&apply, Some(&new)));
    assert!(said.contains("ready after"), "{said}");
    assert_eq!(fs::read(&binary).expect("read"), bytes);
    only_file(&path("backups"));
    get(&client(&data).await, &format!("{CONFIG_MAPS}/c"))
        .await
        .expect("still there");
    printed(&mut upgrade(&["rollback", "--restart", &restart], None));
    assert!(fs::read(&binary).expect("read").len() < bytes.len());
    get(&client(&data).await, &format!("{CONFIG_MAPS}/c"))
        .await
        .expect("still there");

    // One that does not come up is taken back.
    let bad = path("bad");
    let facts = printed(orlop().args(["upgrade", "facts"]));
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = upgrade ] && echo '{}'\nexit $([ \"$1\" = upgrade ]; echo $?)\n",
        facts.trim()
    );
    fs::write(&bad, script).expect("written");
    fs::set_permissions(&bad, fs::Permissions::from_mode(0o755)).expect("set");
    let apply = [
        "apply",
        "--restart",
        &restart,
        "--no-backup",
        "--timeout",
        "5s",
    ];
    let said = refused(&mut upgrade(&apply, Some(&bad)));
    assert!(said.contains("putting the old one back"), "{said}");
    let server = client(&data).await;
    get(&server, &format!("{CONFIG_MAPS}/c"))
        .await
        .expect("still there");
    refused(&mut upgrade(&["rollback", "--restart", &restart], None));

    // The end of an upgrade: what is stored in an old version is stored in the new one.
    things_in_two_versions(&server).await;
    let apply = ["apply", "--restart", &restart, "--no-backup"];
    printed(&mut upgrade(&apply, Some(&new)));
    let server = client(&data).await;
    let said = printed(&mut upgrade(&["finish"], None));
    assert!(
        said.contains("2 things written anew") && said.contains("is finished"),
        "{said}"
    );
    let definition = get(&server, THINGS).await.expect("there");
    assert_eq!(definition["status"]["storedVersions"], json!(["v2"]));
    let left = |end: &str| fs::exists(format!("{}.{end}", binary.display())).expect("looked");
    assert!(!left("before-upgrade") && !left("upgrade.json"));
    refused(&mut upgrade(&["rollback", "--restart", &restart], None));
    refused(&mut upgrade(&["finish"], None));
    drop(end);
}

const THINGS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";

/// Makes custom resources that are stored in `v1`, whose definition stores in `v2` from then on.
async fn things_in_two_versions(client: &Client) {
    let version = |name: &str, stores: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": stores,
            "schema": {"openAPIV3Schema": schema}})
    };
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [version("v1", true), version("v2", false)]}});
    let (all, _) = THINGS.rsplit_once('/').expect("a path");
    post(client, all, definition).await;
    for name in ["one", "two"] {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": name}});
        let path = "/apis/example.com/v1/namespaces/default/things";
        let began = Instant::now();
        // They are served a moment after their definition.
        while let Err(error) = client
            .request::<Value>(Method::POST, path, Some(&thing))
            .await
        {
            assert!(began.elapsed() < Duration::from_secs(30), "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let began = Instant::now();
    loop {
        let mut definition = get(client, THINGS).await.expect("there");
        definition["spec"]["versions"] = json!([version("v1", false), version("v2", true)]);
        let put = client.request::<Value>(Method::PUT, THINGS, Some(&definition));
        let put = put.await;
        let definition = get(client, THINGS).await.expect("there");
        if definition["status"]["storedVersions"] == json!(["v1", "v2"]) {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{put:?} {definition}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Ends the process whose number is in a file.
struct Ended(PathBuf);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Ok(pid) = fs::read_to_string(&self.0) {
            let _ = Command::new("kill").args(["-KILL", pid.trim()]).status();
        }
    }
}
