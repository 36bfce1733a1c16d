//! `orlop encryption`: shows encryption at rest, and changes its keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use control_client::Client;
use control_encryption::OwnKeys;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::{error::Error, kubeconfig::Kubeconfig};

/// The server's endpoint about encryption.
const PATH: &str = "/orlop/v1/encryption";
/// The number of objects per page.
const PAGE: usize = 200;
/// How long a server takes at most to notice that its keys changed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Server and subcommand.
#[derive(Args)]
pub struct Options {
    /// Folder of the server's store, authorities and keys.
    #[arg(long, global = true, default_value = "/var/lib/orlop/server")]
    data_dir: PathBuf,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    #[command(subcommand)]
    command: Command,
}

/// Subcommand.
#[derive(Subcommand)]
enum Command {
    /// Show the encrypted resources and their keys.
    Status,
    /// Rewrite all objects that are not stored as configured.
    Rewrite,
    /// Create a new key, rewrite all Secrets with it, and drop the old keys. This is for
    /// the server's own key file; with an EncryptionConfiguration, edit that and use
    /// `rewrite`.
    Rotate,
}

/// The server's report about encryption.
#[derive(Debug, Deserialize)]
struct EncryptionStatus {
    healthy: bool,
    error: String,
    resources: Vec<EncryptionRow>,
}

/// The report about a resource.
#[derive(Debug, Deserialize)]
struct EncryptionRow {
    resource: String,
    group: String,
    base: String,
    writes: String,
    objects: u64,
    stale: u64,
    stored: BTreeMap<String, u64>,
}

impl EncryptionStatus {
    /// Whether something is written with this key of the server's own file.
    fn writes_with(&self, key: &str) -> bool {
        let prefix = format!("k8s:enc:aesgcm:v1:{key}:");
        self.resources.iter().any(|row| row.writes == prefix)
    }
}

/// Runs the command.
///
/// # Errors
/// An unreachable server, unusable files.
pub async fn run(options: Options) -> Result<(), Error> {
    let own = [options.data_dir.join("admin.kubeconfig")];
    let client = options
        .kubeconfig
        .client_or(&own, "orlop-encryption")
        .await?;
    match options.command {
        Command::Status => {
            print!("{}", table(&told(&client).await?));
            Ok(())
        }
        Command::Rewrite => rewrite(&client).await,
        Command::Rotate => {
            let keys = options.data_dir.join("pki/encryption.key");
            rotate(&client, &keys).await
        }
    }
}

async fn told(client: &Client) -> Result<EncryptionStatus, Error> {
    client
        .request(Method::GET, PATH, None::<&()>)
        .await
        .map_err(Error::Client)
}

fn table(told: &EncryptionStatus) -> String {
    let mut out = String::new();
    let mut line = |cells: [&str; 4]| {
        let [resource, objects, stale, keys] = cells;
        out.push_str(&format!("{resource:<32} {objects:<8} {stale:<6} {keys}\n"));
    };
    line(["RESOURCE", "OBJECTS", "STALE", "STORED AS"]);
    for row in &told.resources {
        let name = if row.group.is_empty() {
            row.resource.clone()
        } else {
            format!("{}.{}", row.resource, row.group)
        };
        let mut keys: Vec<String> = row
            .stored
            .iter()
            .map(|(prefix, count)| format!("{} ({count})", plain(prefix)))
            .collect();
        if keys.is_empty() {
            keys.push(format!("{} (0)", plain(&row.writes)));
        }
        let (objects, stale) = (row.objects.to_string(), row.stale.to_string());
        line([&name, &objects, &stale, &keys.join(", ")]);
    }
    if !told.healthy {
        out.push_str(&format!("\n{}\n", told.error));
    }
    out
}

/// Describes a storage prefix.
fn plain(prefix: &str) -> &str {
    match prefix {
        "" => "not encrypted",
        other => other.trim_start_matches("k8s:enc:").trim_end_matches(':'),
    }
}

/// Writes every object as it is that is not stored as configured: the server
/// then stores it as configured.
async fn rewrite(client: &Client) -> Result<(), Error> {
    let before = told(client).await?;
    let mut written = 0_u64;
    for row in before.resources.iter().filter(|row| row.stale > 0) {
        let mut token = String::new();
        loop {
            let path = format!(
                "{}/{}?limit={PAGE}&continue={}",
                row.base,
                row.resource,
                escaped(&token)
            );
            let list: Value = client
                .request(Method::GET, &path, None::<&()>)
                .await
                .map_err(Error::Client)?;
            for item in list["items"].as_array().into_iter().flatten() {
                written += u64::from(put(client, row, &list, item).await?);
            }
            token = list["metadata"]["continue"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if token.is_empty() {
                break;
            }
        }
    }
    let left: u64 = told(client).await?.resources.iter().map(|r| r.stale).sum();
    println!("{written} objects written anew");
    if left > 0 {
        return Err(Error::Encryption(format!(
            "{left} objects are still stored otherwise: see `orlop encryption status`"
        )));
    }
    Ok(())
}

/// Rewrites one object unchanged; returns whether it did. An object that was changed or
/// deleted in between needs no rewrite.
async fn put(
    client: &Client,
    row: &EncryptionRow,
    list: &Value,
    item: &Value,
) -> Result<bool, Error> {
    let mut object = item.clone();
    // Items of a list do not repeat their type.
    let kind = list["kind"].as_str().unwrap_or_default();
    object["kind"] = kind.trim_end_matches("List").into();
    object["apiVersion"] = list["apiVersion"].clone();
    let name = item["metadata"]["name"].as_str().unwrap_or_default();
    let path = match item["metadata"]["namespace"].as_str() {
        Some(namespace) => format!(
            "{}/namespaces/{namespace}/{}/{name}",
            row.base, row.resource
        ),
        None => format!("{}/{}/{name}", row.base, row.resource),
    };
    let done: Result<control_client::Discard, _> =
        client.request(Method::PUT, &path, Some(&object)).await;
    match done {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
        Err(error) => Err(Error::Client(error)),
    }
}

/// Refuses unless the server writes with the newest key of the file: it would not take a
/// new one from there.
fn ensure_used(told: &EncryptionStatus, keys: &OwnKeys, path: &Path) -> Result<(), Error> {
    let newest = keys.names().next().unwrap_or_default();
    if told.writes_with(newest) {
        return Ok(());
    }
    let mut used: Vec<&str> = told
        .resources
        .iter()
        .map(|row| plain(&row.writes))
        .collect();
    used.sort_unstable();
    used.dedup();
    Err(Error::Encryption(format!(
        "the server writes with {}, not with `{newest}` of `{}`: is this its --data-dir, and \
         --kubeconfig of the same server?",
        used.join(", "),
        path.display()
    )))
}

async fn rotate(client: &Client, path: &Path) -> Result<(), Error> {
    let failed = |error: control_encryption::Error| Error::Encryption(error.to_string());
    let text = std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })?;
    let keys = OwnKeys::parse(&text, path).map_err(failed)?;
    // Nothing is written before the server that uses this file has answered.
    ensure_used(&told(client).await?, &keys, path)?;
    let both = keys.with_new().map_err(failed)?;
    let name = both.names().next().unwrap_or_default().to_owned();
    both.write(path).map_err(failed)?;
    println!("new key: {name}");
    let rewritten = async {
        let began = Instant::now();
        while !told(client).await?.writes_with(&name) {
            if began.elapsed() > PATIENCE {
                return Err(Error::Encryption(
                    "the server does not take the new key".to_owned(),
                ));
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        rewrite(client).await
    };
    if let Err(error) = rewritten.await {
        let old: Vec<&str> = keys.names().collect();
        eprintln!(
            "orlop: `{}` keeps all keys ({name}, {}), so everything stays readable; \
             `orlop encryption rewrite` goes on",
            path.display(),
            old.join(", ")
        );
        return Err(error);
    }
    both.newest().write(path).map_err(failed)?;
    println!("the old keys are dropped");
    Ok(())
}

/// A value of a query.
pub(super) fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_keys_in_words() {
        let told: EncryptionStatus = serde_json::from_value(serde_json::json!({
            "healthy": false, "error": "KMS provider `k`: ill",
            "resources": [{
                "resource": "secrets", "group": "", "base": "/api/v1", "namespaced": true,
                "writes": "k8s:enc:aesgcm:v1:key2:", "objects": 5, "stale": 3,
                "stored": {"": 1, "k8s:enc:aesgcm:v1:key1:": 2, "k8s:enc:aesgcm:v1:key2:": 2}
            }]
        }))
        .expect("told");
        let table = table(&told);
        assert!(
            table.contains("not encrypted (1), aesgcm:v1:key1 (2), aesgcm:v1:key2 (2)"),
            "{table}"
        );
        assert!(table.ends_with("KMS provider `k`: ill\n"), "{table}");
        assert_eq!(escaped("a/b=="), "a%2Fb%3D%3D");
    }

    #[tokio::test]
    async fn rotate_leaves_the_file_alone_when_the_server_cannot_be_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("encryption.key");
        OwnKeys::ensure(&path).unwrap();
        let before = std::fs::read(&path).unwrap();
        let port = free_port::free_port().unwrap();
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             clusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:{port}'}}}}], \
             users: [{{name: u, user: {{}}}}], \
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}]}}"
        );
        let client = Client::from_kubeconfig_text(&text, "test").await.unwrap();
        let error = rotate(&client, &path).await.unwrap_err().to_string();
        assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_server_with_other_keys_is_not_given_new_ones() {
        let path = Path::new("encryption.key");
        let keys = |names: &str| {
            let lines: Vec<String> = names
                .split(' ')
                .map(|name| format!("{name}:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="))
                .collect();
            OwnKeys::parse(&lines.join("\n"), path).unwrap()
        };
        let told: EncryptionStatus = serde_json::from_value(serde_json::json!({
            "healthy": true, "error": "",
            "resources": [{
                "resource": "secrets", "group": "", "base": "/api/v1", "namespaced": true,
                "writes": "k8s:enc:aesgcm:v1:key2:", "objects": 0, "stale": 0, "stored": {}
            }]
        }))
        .unwrap();
        assert!(ensure_used(&told, &keys("key2 key1"), path).is_ok());
        let error = ensure_used(&told, &keys("key1"), path)
            .unwrap_err()
            .to_string();
        assert!(error.contains("key2") && error.contains("key1"), "{error}");
    }
}
