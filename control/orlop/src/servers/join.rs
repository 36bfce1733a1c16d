//! Joins a machine as a further server: it verifies the cluster's authority by its hash,
//! presents the token, decrypts the shared keys with a part of the token that it never
//! sends, and adds its member to etcd.

use std::path::Path;

use clap::Args;
use control_access::BOOTSTRAP_TOKEN_NAMESPACE;
use control_client::{Client, Resource, resources};
use control_pki::Cluster;
use ipnet::IpNet;
use serde_json::Value;

use super::{Error, ServerToken, bundle::Bundle, offer};
use crate::join;

/// Whether, and where, this server joins others.
#[derive(Args, Clone, Default)]
#[group(id = "server_join")]
pub struct Options {
    /// Join the servers of the cluster at this URL, such as https://10.0.0.1:6443. Later starts
    /// need no such option.
    #[arg(long, value_name = "URL")]
    join: Option<String>,
    /// The token that `orlop token create --server` printed.
    #[arg(
        long,
        env = "ORLOP_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    token: Option<String>,
    /// Hash of the cluster's authority: sha256: and 64 hexadecimal digits. May be
    /// repeated; one of them must match.
    #[arg(long, value_name = "HASH", value_delimiter = ',')]
    ca_cert_hash: Vec<String>,
}

/// The state with which a joined server continues.
#[derive(Debug)]
pub struct JoinedServer {
    /// Members of the managed etcd; none where it is not managed.
    pub etcd: Vec<String>,
}

const SERVICE_CIDRS: Resource =
    Resource::cluster("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR");

// === impl Options ===

impl Options {
    /// Checks the form of the options.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn check(&self) -> Result<(), Error> {
        let Some(server) = &self.join else {
            return Ok(());
        };
        match &self.token {
            Some(token) if !self.ca_cert_hash.is_empty() => {
                ServerToken::parse(token).ok_or(Error::TokenForm)?;
                join::check(server, &self.ca_cert_hash).map_err(Error::Join)
            }
            _ => Err(Error::Incomplete),
        }
    }

    /// Whether the options say to join.
    pub const fn is_asked(&self) -> bool {
        self.join.is_some()
    }

    /// Gets the shared keys into `data_dir`; `None` when nothing is to be joined, or the server
    /// has joined before.
    ///
    /// # Errors
    /// [`Error`], each with its way out.
    pub async fn ensure(
        &self,
        data_dir: &Path,
        has_member: bool,
        service_ranges: &[IpNet],
    ) -> Result<Option<JoinedServer>, Error> {
        let (Some(server), Some(token)) = (&self.join, &self.token) else {
            return Ok(None);
        };
        if has_member {
            tracing::info!("server has joined before, ignoring the token");
            return Ok(None);
        }
        let token = ServerToken::parse(token).ok_or(Error::TokenForm)?;
        let server = server.trim_end_matches('/');
        let cluster = join::cluster(server, &self.ca_cert_hash)
            .await
            .map_err(Error::Join)?;
        let pki = data_dir.join("pki");
        check_folder(&pki, &cluster.authority)?;
        let client = join::with_token(server, &cluster.authority, &token.bootstrap())
            .await
            .map_err(Error::Join)?;
        let bundle = fetch(&client, server, &token).await?;
        if bundle.authority() != Some(&cluster.authority) {
            return Err(Error::BadKeys {
                server: server.to_owned(),
                problem: "they are of another authority than the cluster shows",
            });
        }
        let aside = data_dir.join("pki.joining");
        let _ = std::fs::remove_dir_all(&aside);
        bundle.unpack(&aside)?;
        let settled = settle(&aside, server, service_ranges).await;
        if settled.is_err() {
            let _ = std::fs::remove_dir_all(&aside);
        }
        settled?;
        if pki.exists() {
            // Of the same cluster, as verified: an earlier attempt that did not complete.
            std::fs::remove_dir_all(&aside).map_err(|source| Error::File {
                path: aside.clone(),
                source,
            })?;
            bundle.unpack(&pki)?;
        } else {
            std::fs::rename(&aside, &pki).map_err(|source| Error::File {
                path: pki.clone(),
                source,
            })?;
        }
        tracing::info!(server, folder = %pki.display(), "received the cluster's keys");
        Ok(Some(JoinedServer { etcd: bundle.etcd }))
    }
}

/// Refuses a folder with the keys of another cluster.
fn check_folder(pki: &Path, authority: &str) -> Result<(), Error> {
    match std::fs::read_to_string(pki.join("ca.crt")) {
        Ok(text) if text == authority => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(Error::OtherCluster {
            folder: pki.to_owned(),
        }),
        Err(source) => Err(Error::File {
            path: pki.join("ca.crt"),
            source,
        }),
    }
}

/// Reads and opens the keys for the token.
async fn fetch(client: &Client, server: &str, token: &ServerToken) -> Result<Bundle, Error> {
    let name = offer::name(token.id());
    let secret: Value = client
        .get(&resources::SECRETS, BOOTSTRAP_TOKEN_NAMESPACE, &name)
        .await
        .map_err(|source| match source {
            control_client::Error::Forbidden(_) | control_client::Error::NotFound(_) => {
                Error::NoKeys {
                    server: server.to_owned(),
                    source,
                }
            }
            source => Error::Join(join::Error::of_request(server, source)),
        })?;
    let bad = |problem| Error::BadKeys {
        server: server.to_owned(),
        problem,
    };
    let sealed = offer::sealed(&secret).ok_or_else(|| bad("the Secret has none"))?;
    let plain = token
        .open(&sealed)
        .ok_or_else(|| bad("the token does not open them"))?;
    let bundle: Bundle =
        serde_json::from_slice(&plain).map_err(|_| bad("they are of another version"))?;
    if !bundle.is_whole() {
        return Err(bad("some are missing"));
    }
    Ok(bundle)
}

/// Compares options with those of the cluster, which all servers must share.
async fn settle(pki: &Path, server: &str, service_ranges: &[IpNet]) -> Result<(), Error> {
    let keys = Cluster::load_or_create(pki).map_err(Error::Pki)?;
    let own = keys.administrator().map_err(Error::Pki)?;
    let text = control_pki::kubeconfig(
        server,
        keys.ca.certificate_pem(),
        &own,
        "orlop",
        "kubernetes-admin",
    );
    let client = Client::from_kubeconfig_text(&text, "--join")
        .await
        .map_err(Error::Client)?;
    let found = client.get::<Value>(&SERVICE_CIDRS, "", "kubernetes").await;
    match found {
        Ok(object) => check_ranges(&object, service_ranges),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(Error::Join(join::Error::of_request(server, error))),
    }
}

fn check_ranges(object: &Value, own: &[IpNet]) -> Result<(), Error> {
    let cidrs = object["spec"]["cidrs"].as_array();
    let wanted: Vec<String> = cidrs
        .into_iter()
        .flatten()
        .filter_map(|cidr| cidr.as_str().map(str::to_owned))
        .collect();
    let given: Vec<String> = own.iter().map(|range| range.trunc().to_string()).collect();
    if wanted.is_empty() || wanted == given {
        return Ok(());
    }
    Err(Error::Differs {
        option: "--service-cluster-ip-range",
        given: given.join(","),
        wanted: wanted.join(","),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_belong_together_and_a_node_s_token_is_refused() {
        let server = ServerToken::new("abcdef", "0123456789abcdef").text();
        let hash = format!("sha256:{}", "0".repeat(64));
        let options = |join: Option<&str>, token: Option<&str>, hash: Option<&str>| Options {
            join: join.map(str::to_owned),
            token: token.map(str::to_owned),
            ca_cert_hash: hash.into_iter().map(str::to_owned).collect(),
        };
        let url = Some("https://10.0.0.1:6443");
        assert!(options(None, None, None).check().is_ok());
        assert!(options(url, Some(&server), Some(&hash)).check().is_ok());
        let refused = |options: Options| options.check().unwrap_err().to_string();
        assert!(refused(options(url, None, Some(&hash))).contains("--join needs"));
        assert!(refused(options(url, Some(&server), None)).contains("--join needs"));
        let node = Some("abcdef.0123456789abcdef");
        assert!(refused(options(url, node, Some(&hash))).contains("none of a server"));
        let bad = options(Some("10.0.0.1"), Some(&server), Some(&hash));
        assert!(refused(bad).contains("no URL"));
    }

    #[test]
    fn ranges_of_services_are_the_cluster_s() {
        let object = json!({"spec": {"cidrs": ["10.96.0.0/16"]}});
        let own = |text: &str| vec![text.parse::<IpNet>().expect("a range")];
        assert!(check_ranges(&object, &own("10.96.0.0/16")).is_ok());
        let error = check_ranges(&object, &own("10.97.0.0/16")).unwrap_err();
        assert!(
            error.to_string().contains("`10.96.0.0/16` in the cluster"),
            "{error}"
        );
    }

    #[test]
    fn a_folder_of_another_cluster_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(check_folder(dir.path(), "a").is_ok());
        std::fs::write(dir.path().join("ca.crt"), "b").expect("written");
        assert!(matches!(
            check_folder(dir.path(), "a"),
            Err(Error::OtherCluster { .. })
        ));
        assert!(check_folder(dir.path(), "b").is_ok());
    }
}
