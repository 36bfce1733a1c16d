//! Bodies and heads that are too large, or grow while they are read.

use control_apiserver::ApiServer;
use control_apiserver::chain::Settings;
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::common::memory::{MIB, Memory};
use super::common::{self, root};
use super::{PATIENCE, target};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_and_heads_are_refused_before_they_are_kept() {
    // Packed before memory is looked at, since that takes some itself.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packed, &vec![b' '; 64 * MIB]).expect("packed");
    let packed = packed.finish().expect("packed");
    let mut target = target(Settings::default()).await;
    target.is_well_before().await;
    // A hundred megabytes.
    let (mut from, mut to) = tokio::io::split(target.connect(b"http/1.1").await);
    let sending = tokio::spawn(async move {
        to.write_all(b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 104857600\r\n\r\n")
            .await
            .expect("sent");
        let chunk = vec![b'x'; MIB];
        for sent in 0..100 {
            if to.write_all(&chunk).await.is_err() {
                return sent;
            }
        }
        100
    });
    let mut answer = vec![0; 12];
    let read = tokio::time::timeout(PATIENCE, from.read_exact(&mut answer)).await;
    read.expect("in time").expect("answered");
    assert_eq!(answer, b"HTTP/1.1 413");
    drop(from);
    sending.abort();

    // A bomb of three megabytes packed: what is packed is not unpacked, but read
    // as it is.
    let mut request = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        packed.len()
    )
    .into_bytes();
    request.extend(packed);
    let answer = target.say(&request).await;
    assert!(
        answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.1 415"),
        "{answer}"
    );

    // Heads.
    let long = "x".repeat(100_000);
    let answer = target
        .say(format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 414") || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    let longer = "x".repeat(400_000);
    let answer = target
        .say(format!("GET / HTTP/1.1\r\nhost: x\r\nx: {longer}\r\n\r\n").as_bytes())
        .await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    let many: String = (0..200).map(|at| format!("x-{at}: y\r\n")).collect();
    let answer = target
        .say(format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n").as_bytes())
        .await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    target.is_well_within(48 * MIB).await;
    target.end().await;
}

/// The answer's code to a body of a media type.
async fn told(
    server: &ApiServer,
    method: Method,
    path: &str,
    media: &str,
    text: impl Into<bytes::Bytes>,
) -> u16 {
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(control_request::body::full(text.into()))
        .expect("a request");
    request.extensions_mut().insert(root());
    let answer = tower::ServiceExt::oneshot(server.service(), request).await;
    answer.expect("infallible").status().as_u16()
}

#[tokio::test]
async fn texts_that_multiply_themselves_or_nest_without_end_are_refused() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let mut memory = Memory::alone().await;
    let dir = tempfile::tempdir().expect("a directory");
    let server = common::server(dir.path()).await;
    let map = control_types::value!({"metadata": {"name": "m"}, "data": {"a": ("x".repeat(1000))}});
    let (code, _) = common::ask(&server, &root(), Method::POST, MAPS, Some(map)).await;
    assert_eq!(code, 201);
    memory.begin();
    // Anchors that double with each line (a billion laughs), as lists and as merges.
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\n";
    let mut laughs = format!("{head}a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    let mut merges = format!("{head}data:\n  m0: &m0 {{k: v}}\n");
    for at in 1..12 {
        let last = at - 1;
        let many = vec![format!("*a{last}"); 10].join(",");
        laughs.push_str(&format!("a{at}: &a{at} [{many}]\n"));
        merges.push_str(&format!(
            "  m{at}: &m{at} {{a: *m{last}, b: *m{last}, c: *m{last}, d: *m{last}}}\n"
        ));
    }
    let itself = format!("{head}data: &d\n  a: *d\n");
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(100_000), close.repeat(100_000));
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"bomb\"}},\"data\":{open}{close}}}"
        )
    };
    let lists = deep("[", "]");
    let objects = deep("{\"a\":", "1}").replace("{\"a\":1}", "1");
    let indented: String = (0..1000)
        .map(|at| format!("{}a:\n", " ".repeat(at)))
        .collect();
    for (what, media, text) in [
        ("laughs", "application/yaml", laughs.clone()),
        ("merges", "application/yaml", merges),
        ("itself", "application/yaml", itself),
        ("lists", "application/json", lists.clone()),
        ("objects", "application/json", objects),
        ("lists in YAML", "application/yaml", lists.clone()),
        ("keys of keys", "application/yaml", "? ".repeat(100_000)),
        (
            "indented",
            "application/yaml",
            format!("{head}data:\n{indented}"),
        ),
    ] {
        assert_eq!(
            told(&server, Method::POST, MAPS, media, text).await,
            400,
            "{what}"
        );
    }
    let path = format!("{MAPS}/m");
    for (what, media, text, code) in [
        (
            "laughs applied",
            "application/apply-patch+yaml",
            laughs,
            400,
        ),
        (
            "a deep merge patch",
            "application/merge-patch+json",
            lists.clone(),
            400,
        ),
        (
            "a deep strategic patch",
            "application/strategic-merge-patch+json",
            lists.clone(),
            400,
        ),
        (
            "a deep JSON patch",
            "application/json-patch+json",
            lists,
            400,
        ),
    ] {
        let path = format!("{path}?fieldManager=x");
        assert_eq!(
            told(&server, Method::PATCH, &path, media, text).await,
            code,
            "{what}"
        );
    }
    // A patch that copies what it copied: 2^30 kilobytes.
    let copies: Vec<String> = (0..30)
        .map(|at| format!(r#"{{"op":"copy","from":"/data","path":"/data/c{at}"}}"#))
        .collect();
    let copies = format!("[{}]", copies.join(","));
    let code = told(
        &server,
        Method::PATCH,
        &path,
        "application/json-patch+json",
        copies,
    )
    .await;
    assert!(matches!(code, 413 | 422), "copies: {code}");
    let one = r#"{"op":"add","path":"/data/a","value":"b"}"#;
    let many = format!("[{}]", vec![one; 10_001].join(","));
    assert_eq!(
        told(
            &server,
            Method::PATCH,
            &path,
            "application/json-patch+json",
            many
        )
        .await,
        413
    );
    // Protobuf: lengths beyond the end, and groups within groups.
    let magic = b"k8s\0";
    for (what, tail) in [
        (
            "a length beyond the end",
            vec![0x12, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ),
        ("groups", vec![0x0b; 1_000_000]),
        ("messages", [0x12, 0xc0, 0x84, 0x3d].repeat(100_000)),
    ] {
        let text = [&magic[..], &tail].concat();
        let media = "application/vnd.kubernetes.protobuf";
        let code = told(&server, Method::POST, MAPS, media, text).await;
        assert!((400..500).contains(&code), "{what}: {code}");
    }
    memory.assert_grown_less(96 * MIB);
    let well = common::send(&server, &root(), Method::GET, "/readyz", &[], None).await;
    assert_eq!(well.status(), 200);
}
