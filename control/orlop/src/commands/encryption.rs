//! `orlop encryption`: how what is stored is encrypted, and with another key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use control_client::Client;
use control_encryption::OwnKeys;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;

/// Where a server tells about it.
const PATH: &str = "/orlop/v1/encryption";
/// Objects that are read at once.
const PAGE: usize = 200;
/// How long a server takes at most to notice that its keys changed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which server, and what to do.
#[derive(Args)]
pub struct Options {
    /// Folder of the server's store, authorities and keys.
    #[arg(long, global = true, default_value = "/var/lib/orlop/server")]
    data_dir: PathBuf,
    /// Kubeconfig of an administrator; the server's own unless given.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Subcommand)]
enum Command {
    /// Show what is encrypted with which keys.
    Status,
    /// Write everything anew that is not stored as configured.
    Rewrite,
    /// Make a new key, write all Secrets anew with it, and drop the old keys. For the
    /// server's own key file; with an EncryptionConfiguration, change that and rewrite.
    Rotate,
}

/// What the server tells.
#[derive(Debug, Deserialize)]
struct Told {
    healthy: bool,
    error: String,
    resources: Vec<Row>,
}

/// What it tells of a resource.
#[derive(Debug, Deserialize)]
struct Row {
    resource: String,
    group: String,
    base: String,
    writes: String,
    objects: u64,
    stale: u64,
    stored: BTreeMap<String, u64>,
}

/// Does it.
///
/// # Errors
/// A server that cannot be asked, files that cannot be used.
pub async fn run(options: Options) -> Result<(), Error> {
    let kubeconfig = options
        .kubeconfig
        .unwrap_or_else(|| options.data_dir.join("admin.kubeconfig"));
    let client = Client::from_kubeconfig(&kubeconfig)
        .await
        .map_err(Error::Client)?
        .named("orlop-encryption");
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

async fn told(client: &Client) -> Result<Told, Error> {
    client
        .request(Method::GET, PATH, None::<&()>)
        .await
        .map_err(Error::Client)
}

fn table(told: &Told) -> String {
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

/// What a prefix is called in words.
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

/// Writes one object as it is; tells whether it did. One that changed or went
/// meanwhile needs it no more.
async fn put(client: &Client, row: &Row, list: &Value, item: &Value) -> Result<bool, Error> {
    let mut object = item.clone();
    // Items of a list do not say what they are.
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

async fn rotate(client: &Client, path: &Path) -> Result<(), Error> {
    let failed = |error: control_encryption::Error| Error::Encryption(error.to_string());
    let text = std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })?;
    let keys = OwnKeys::parse(&text, path).map_err(failed)?;
    let both = keys.with_new().map_err(failed)?;
    let name = both.names().next().unwrap_or_default().to_owned();
    both.write(path).map_err(failed)?;
    println!("new key: {name}");
    let wanted = format!("k8s:enc:aesgcm:v1:{name}:");
    let began = Instant::now();
    loop {
        let now = told(client).await?;
        if now.resources.iter().any(|row| row.writes == wanted) {
            break;
        }
        if began.elapsed() > PATIENCE {
            return Err(Error::Encryption(format!(
                "the server does not use the keys of `{}`: both keys stay in it",
                path.display()
            )));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    rewrite(client).await?;
    both.newest().write(path).map_err(failed)?;
    println!("the old keys are dropped");
    Ok(())
}

/// A value of a query.
fn escaped(text: &str) -> String {
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
        let told: Told = serde_json::from_value(serde_json::json!({
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
}
