//! Tests `orlop flows` and `orlop why` against a fake API server on loopback. It proxies to two
//! nodes, cannot reach a third, and the kubelet of the fourth is not our agent. The answers of
//! agents are tested in their own crates.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

/// Answers requests, one a connection.
struct Api {
    folder: tempfile::TempDir,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Where tokens of who asks agents are made.
const TOKENS: &str = "/api/v1/namespaces/kube-system/serviceaccounts/orlop-flows/token";

fn flow(second: u32, node: &str, verdict: &str, source: &str) -> Value {
    json!({
        "time": format!("2026-01-01T00:00:{second:02}Z"),
        "node": node, "verdict": verdict, "direction": "ingress", "protocol": "TCP",
        "source": {"address": "10.0.0.1", "port": 40_000 + second, "pod": source},
        "destination": {"address": "10.0.0.2", "port": 5432, "pod": "shop/db"},
        "reason": "dropped_policy_ingress", "rule": "NetworkPolicy shop/p ingress[0]",
        "interface": "orl1", "weight": 1,
    })
}

/// One end, as a node tells of it.
fn end(allow: bool, why: &str) -> Value {
    json!({
        "plan": {
            "allow": allow, "identity": 2, "matches": [], "ruleset": u8::from(!allow),
            "policies": [], "portClass": 0, "why": why, "cookie": 0,
        },
        "map": {"allow": allow, "cookie": 0, "looks": ["PEERS     10.0.0.1: class 2"]},
    })
}

fn list(kind: &str, items: Value) -> Option<String> {
    let list = json!({
        "kind": format!("{kind}List"), "apiVersion": "v1",
        "metadata": {"resourceVersion": "1"}, "items": items,
    });
    Some(list.to_string())
}

/// What is answered; none: 404.
fn answer(path: &str) -> Option<String> {
    let pod = |name: &str, node: &str, address: &str| {
        json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"nodeName": node, "containers": []},
            "status": {"podIP": address, "podIPs": [{"ip": address}]},
        })
    };
    let policy = json!({
        "metadata": {"namespace": "shop", "name": "p"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    });
    let named = |name: &str| json!({"metadata": {"name": name}});
    let apart = json!({
        "metadata": {"name": "n4", "annotations": {"orlop.dev/flows-port": "10253"}},
    });
    let place = path.split('?').next().unwrap_or_default();
    match place {
        "/api/v1/nodes" => list(
            "Node",
            json!([named("n1"), named("n2"), named("n3"), apart]),
        ),
        "/api/v1/namespaces" => list("Namespace", json!([named("shop")])),
        "/api/v1/pods" => list(
            "Pod",
            json!([
                pod("web", "n1", "10.0.0.1"),
                pod("db", "n2", "10.0.0.2"),
                pod("far", "n3", "10.0.0.3")
            ]),
        ),
        "/apis/networking.k8s.io/v1/networkpolicies" => list("NetworkPolicy", json!([policy])),
        "/api/v1/nodes/n1/proxy/flows" => Some(
            json!({"node": "n1", "lost": 7, "flows": [
                flow(1, "n1", "dropped", "shop/web"), flow(3, "n1", "dropped", "shop/web"),
            ]})
            .to_string(),
        ),
        "/api/v1/nodes/n2/proxy/flows" => Some(
            json!({"node": "n2", "lost": 0, "flows": [flow(2, "n2", "forwarded", "shop/job")]})
                .to_string(),
        ),
        "/api/v1/nodes/https:n4:10253/proxy/flows" => Some(
            json!({"node": "n4", "lost": 0, "flows": [flow(4, "n4", "dropped", "shop/x")]})
                .to_string(),
        ),
        "/api/v1/nodes/n1/proxy/why" => Some(
            json!({
                "node": "n1", "complete": true, "epoch": 1, "generation": 1,
                "from": "shop/web", "to": "shop/db",
                "egress": end(true, "egress allowed: no policy selects it"),
            })
            .to_string(),
        ),
        "/api/v1/nodes/n2/proxy/why" => Some(
            json!({
                "node": "n2", "complete": true, "epoch": 1, "generation": 1,
                "from": "10.0.0.1", "to": "shop/db",
                "ingress": end(true, "ingress allowed: no policy selects it"),
            })
            .to_string(),
        ),
        _ => None,
    }
}

impl Api {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).expect("a file");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&asked);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let known = Arc::clone(&known);
                std::thread::spawn(move || serve(stream, &known));
            }
        });
        Self { folder, asked }
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orlop"));
        command
            .args(arguments.split(' '))
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"));
        command
    }

    fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("orlop runs")
    }

    fn asked(&self, part: &str) -> bool {
        let asked = self.asked.lock().expect("no panic");
        asked.iter().any(|it| it.contains(part))
    }
}

fn serve(stream: TcpStream, known: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut stream = stream;
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() {
        return;
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut head = String::new();
    while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
    let header = |name: &str| {
        let mut pairs = head.lines().filter_map(|line| line.split_once(": "));
        pairs.find_map(|(its, value)| its.eq_ignore_ascii_case(name).then(|| value.to_owned()))
    };
    let length = header("content-length").map_or(0, |it| it.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let token = header("orlop-authorization").unwrap_or_default();
    known
        .lock()
        .expect("no panic")
        .push(format!("{path} {token}").trim().to_owned());
    let head = "content-type: application/json\r\nconnection: close\r\n";
    if path.contains("follow=true") && (path.contains("/n1/") || path.contains("/n2/")) {
        // A flow a line, in chunks that do not end where lines do.
        let node = if path.contains("/n1/") { "n1" } else { "n2" };
        let second = if node == "n1" { 2 } else { 1 };
        let text = format!("{}\n", flow(second, node, "dropped", "shop/web"));
        let (one, two) = text.split_at(text.len() / 2);
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\n{head}transfer-encoding: chunked\r\n\r\n"
        );
        for part in [one, two] {
            let _ = write!(stream, "{:x}\r\n{part}\r\n", part.len());
            let _ = stream.flush();
        }
        // Until the client goes.
        let _ = reader.read_to_end(&mut Vec::new());
        return;
    }
    // A token says for what it is.
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let made = json!({"status": {"token": body["spec"]["audiences"][0]}});
    let answer = if path.starts_with(TOKENS) {
        Some(made.to_string())
    } else {
        answer(&path)
    };
    let (status, body) = match answer {
        Some(body) => ("200 OK", body),
        None if path.contains("/n3/") => ("503 Service Unavailable", "no route to n3".to_owned()),
        None => (
            "404 Not Found",
            "{\"code\":404,\"message\":\"not found\"}".to_owned(),
        ),
    };
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\n{head}content-length: {length}\r\n\r\n{body}"
    );
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn flows_of_all_nodes_are_merged_and_a_node_that_is_away_is_named() {
    let api = Api::new();
    let output = api.run("flows -o json --pod shop/db --since 5m");
    assert!(output.status.success(), "{output:?}");
    let nodes: Vec<_> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["node"].clone())
        .collect();
    assert_eq!(nodes, ["n1", "n2", "n1", "n4"], "by time");
    let said = text(&output.stderr);
    assert!(
        said.contains("n3 cannot be asked") && said.contains("no route to n3"),
        "{said}"
    );
    assert!(said.contains("n1 lost 7 records"), "{said}");
    assert!(api.asked("/nodes/n1/proxy/flows?pod=shop/db&sinceSeconds=300"));

    // A token is for who gets it alone, and the kubelets' own agents get none.
    assert!(api.asked(
        "/nodes/https:n4:10253/proxy/flows?pod=shop/db&sinceSeconds=300&last=100000 \
         Bearer orlop.dev/flows/n4"
    ));
    let tokens = |asked: &[String]| asked.iter().filter(|it| it.contains("Bearer")).count();
    assert_eq!(tokens(&api.asked.lock().expect("no panic")), 1);

    let output = api.run("flows --summary --node n1 --node n2");
    let shown = text(&output.stdout);
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|it| it.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[1][2..6],
        ["dropped", "shop/web", "shop/db", "5432/TCP"],
        "{shown}"
    );
    assert_eq!((rows[1][0], rows[2][0]), ("2", "1"), "{shown}");

    let output = api.run("flows --node n3");
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("no node answered"),
        "{output:?}"
    );
}

/// Ends the command, whatever becomes of the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn flows_of_all_nodes_are_printed_as_they_come() {
    let api = Api::new();
    let mut command = api.command("flows -f -o json");
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("orlop runs");
    let mut child = Ends(child);
    let said = BufReader::new(child.0.stderr.take().expect("piped"));
    let named = said
        .lines()
        .map_while(Result::ok)
        .any(|it| it.contains("n3 cannot be asked"));
    assert!(named);
    let shown = BufReader::new(child.0.stdout.take().expect("piped"));
    let nodes: Vec<_> = shown
        .lines()
        .map_while(Result::ok)
        .take(2)
        .map(|line| serde_json::from_str::<Value>(&line).expect("JSON")["node"].clone())
        .collect();
    let mut sorted = nodes.clone();
    sorted.sort_by_key(ToString::to_string);
    assert_eq!(sorted, ["n1", "n2"]);
}

#[test]
fn why_asks_both_nodes_and_says_where_they_and_the_objects_differ() {
    let api = Api::new();
    let output = api.run("why shop/web shop/db:5432");
    assert!(output.status.success(), "{output:?}");
    let shown = text(&output.stdout);
    for line in [
        "ALLOWED: shop/web to shop/db (10.0.0.1 to 10.0.0.2:5432 TCP)",
        "egress of shop/web, on n1: allowed",
        "ingress of shop/db, on n2: allowed",
        "  map       PEERS     10.0.0.1: class 2",
        "! who the sender is: shop/web to n1, 10.0.0.1 to n2",
        "! ingress on n2: the node compiled `ingress allowed: no policy selects it`, the objects \
         say `ingress denied: no ingress rule allows it; selected by NetworkPolicy shop/p`",
    ] {
        assert!(shown.lines().any(|it| it == line), "{line}\n{shown}");
    }
    assert!(api.asked("/nodes/n1/proxy/why?from=10.0.0.1&to=10.0.0.2&protocol=6&port=5432"));

    // The objects stand for a node that cannot be asked.
    let output = api.run("why shop/web shop/far:80/udp -o json");
    assert!(output.status.success(), "{output:?}");
    let reports: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let report = &reports[0];
    assert_eq!(report["allow"], false);
    let end = &report["ends"][1];
    assert_eq!(
        (&end["direction"], &end["node"]),
        (&"ingress".into(), &"n3".into())
    );
    assert!(
        end["unknown"]
            .as_str()
            .is_some_and(|it| it.contains("no route to n3")),
        "{end}"
    );
    assert_eq!(end["objects"]["plan"]["object"], "NetworkPolicy shop/p");
    assert_eq!(end["rule"], json!({}));

    let output = api.run("why shop/web shop/gone:80");
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("pod `shop/gone` is not there"),
        "{output:?}"
    );
}
