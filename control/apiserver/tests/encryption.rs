//! Encryption at rest as a client and the store see it.

mod common;

use bytes::Bytes;
use common::{ask, root, server};
use control_apiserver::ApiServer;
use control_encryption::{Encryption, OwnKeys, Table};
use control_types::value;
use control_types::value::Value;
use http::Method;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

async fn stored(server: &ApiServer, name: &str) -> Bytes {
    let key = format!("/registry/secrets/default/{name}");
    let kv = server.api().store().get(key.into(), None).await;
    kv.expect("a store").expect("stored").value
}

async fn told(server: &ApiServer) -> Value {
    let path = "/orlop/v1/encryption";
    let (code, told) = ask(server, &root(), Method::GET, path, None).await;
    assert_eq!(code, 200, "{told}");
    told.items_at(&["resources"])
        .first()
        .cloned()
        .expect("a row")
}

#[tokio::test]
async fn an_object_written_as_it_is_gets_the_present_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    let encryption: Encryption = server.api().config.encryption.clone();
    let secret = value!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
        "stringData": {"password": "hunter2"}
    });
    let (code, made) = ask(&server, &root(), Method::POST, SECRETS, Some(secret)).await;
    assert_eq!(code, 201, "{made}");
    let before = stored(&server, "a").await;
    assert!(before.starts_with(b"k8s:enc:aesgcm:v1:key1:"));
    assert!(!before.windows(7).any(|window| window == b"hunter2"));

    let path = dir.path().join("pki/encryption.key");
    let text = std::fs::read_to_string(&path).expect("keys");
    let keys = OwnKeys::parse(&text, &path).expect("keys");
    let both = keys.with_new().expect("made");
    encryption.replace(both.table());
    assert_eq!(told(&server).await.i64_at(&["stale"]), Some(1));
    let one = format!("{SECRETS}/a");
    let (code, read) = ask(&server, &root(), Method::GET, &one, None).await;
    assert_eq!(code, 200, "the old key still reads");
    let (code, same) = ask(&server, &root(), Method::PUT, &one, Some(read.clone())).await;
    assert_eq!(code, 200);
    assert_eq!(same.path(&["data"]), read.path(&["data"]));
    let after = stored(&server, "a").await;
    assert!(after.starts_with(b"k8s:enc:aesgcm:v1:key2:"));
    let row = told(&server).await;
    assert_eq!(
        (row.i64_at(&["objects"]), row.i64_at(&["stale"])),
        (Some(1), Some(0))
    );
    // And once more: nothing is to be done.
    let (_, read) = ask(&server, &root(), Method::GET, &one, None).await;
    let (_, again) = ask(&server, &root(), Method::PUT, &one, Some(read)).await;
    assert_eq!(
        again.str_at(&["metadata", "resourceVersion"]),
        same.str_at(&["metadata", "resourceVersion"])
    );
    assert_eq!(stored(&server, "a").await, after);
}

#[tokio::test]
async fn a_key_that_is_gone_is_told_and_nothing_is_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = server(dir.path()).await;
    let secret = value!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}
    });
    let (code, _) = ask(&first, &root(), Method::POST, SECRETS, Some(secret)).await;
    assert_eq!(code, 201);
    let mut config = first.api().config.clone();
    config.encryption = Encryption::new(Table::default());
    let bytes = stored(&first, "a").await;
    let key = b"/registry/secrets/default/a";
    let error = config.encryption.open(("", "secrets"), key, &bytes);
    let error = error.expect_err("no key").to_string();
    assert!(error.contains("k8s:enc:aesgcm:v1:key1"), "{error}");
}
