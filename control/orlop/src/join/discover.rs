//! Discovers the cluster's authority, verified by its hash.

use std::path::Path;

use control_client::{Client, resources};
use serde_json::{Value, json};

use super::{Error, decode, kubeconfig};

/// The data that a cluster publishes for joining machines.
#[derive(Clone, Debug)]
pub struct DiscoveredCluster {
    /// The authority's certificate, PEM.
    pub authority: String,
    /// The server's URL, as the cluster names it.
    pub server: String,
    /// The authority's hash.
    pub hash: String,
}

/// Checks the form of a server's URL and of hashes of its authority.
///
/// # Errors
/// [`Error::Url`], [`Error::HashForm`].
pub fn check(server: &str, hashes: &[String]) -> Result<(), Error> {
    let is_url = server
        .strip_prefix("https://")
        .is_some_and(|rest| !rest.is_empty() && rest.parse::<http::uri::Authority>().is_ok());
    if !is_url {
        return Err(Error::Url(server.to_owned()));
    }
    hashes.iter().try_for_each(|hash| check_form(hash))
}

/// Asks the server who it is, and believes it if the authority has one of the
/// hashes.
///
/// # Errors
/// [`Error`].
pub async fn cluster(server: &str, hashes: &[String]) -> Result<DiscoveredCluster, Error> {
    check(server, hashes)?;
    // Nothing secret is sent, and the answer is verified by its hash.
    let anybody = json!({"server": server, "insecure-skip-tls-verify": true});
    let text = kubeconfig(&anybody, &json!({}));
    let client = Client::from_kubeconfig_text(&text, "--join")
        .await
        .map_err(Error::Client)?;
    let map = client
        .get(&resources::CONFIG_MAPS, "kube-public", "cluster-info")
        .await
        .map_err(|source| match Error::of_request(server, source) {
            Error::TokenRefused { server } => Error::BadInfo {
                server,
                problem: "nobody may look without credentials",
            },
            Error::MayNot { server, source } => Error::NoInfo { server, source },
            Error::Client(source) => Error::NoInfo {
                server: server.to_owned(),
                source,
            },
            other => other,
        })?;
    let cluster = read(&map).map_err(|problem| Error::BadInfo {
        server: server.to_owned(),
        problem,
    })?;
    if !hashes
        .iter()
        .any(|hash| hash.eq_ignore_ascii_case(&cluster.hash))
    {
        return Err(Error::WrongAuthority {
            server: server.to_owned(),
            found: cluster.hash,
            wanted: hashes.join(" or "),
        });
    }
    let valid = control_pki::check_certificate(
        &cluster.authority,
        Path::new("ca.crt"),
        "the cluster needs a new authority",
    );
    match valid {
        Ok(()) => Ok(cluster),
        Err(source) => Err(Error::Clock {
            server: server.to_owned(),
            now: jiff::Timestamp::now(),
            source: Box::new(source),
        }),
    }
}

/// Parses the ConfigMap `kube-public/cluster-info`.
pub fn read(map: &Value) -> Result<DiscoveredCluster, &'static str> {
    let text = map["data"]["kubeconfig"]
        .as_str()
        .ok_or("there is no kubeconfig")?;
    // Stock clusters write YAML, in which only `true` and `false` are no texts.
    let options = serde_saphyr::options! { strict_booleans: true };
    let config: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|_| "the kubeconfig is no YAML")?;
    let cluster = &config["clusters"][0]["cluster"];
    let authority = cluster["certificate-authority-data"]
        .as_str()
        .and_then(decode)
        .ok_or("there is no certificate-authority-data")?;
    let hash = control_pki::public_key_hash(&authority, Path::new("ca.crt"))
        .map_err(|_| "the authority is no certificate")?;
    Ok(DiscoveredCluster {
        server: cluster["server"].as_str().unwrap_or_default().to_owned(),
        authority,
        hash,
    })
}

fn check_form(hash: &str) -> Result<(), Error> {
    let digits = hash.strip_prefix("sha256:").unwrap_or_default();
    if digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        Ok(())
    } else {
        Err(Error::HashForm(hash.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;

    fn map(authority: &str) -> Value {
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    \
             server: https://10.0.0.1:6443\n  name: \"\"\n",
            encode(authority)
        );
        json!({"data": {"kubeconfig": text}})
    }

    #[test]
    fn what_kubeadm_publishes_is_read() {
        let authority = control_pki::Authority::create("kubernetes").expect("an authority");
        let pem = authority.certificate_pem();
        let cluster = read(&map(pem)).expect("read");
        assert_eq!(cluster.authority, pem);
        assert_eq!(cluster.server, "https://10.0.0.1:6443");
        assert!(check_form(&cluster.hash).is_ok());
    }

    #[test]
    fn what_only_looks_like_a_truth_value_is_a_text() {
        let authority = control_pki::Authority::create("kubernetes").expect("an authority");
        let data = encode(authority.certificate_pem());
        let text =
            format!("clusters: [{{cluster: {{server: on, certificate-authority-data: {data}}}}}]");
        let cluster = read(&json!({"data": {"kubeconfig": text}})).expect("read");
        assert_eq!(cluster.server, "on");
    }

    #[test]
    fn rubbish_is_named() {
        for (map, why) in [
            (json!({}), "no kubeconfig"),
            (json!({"data": {"kubeconfig": "{"}}), "no YAML"),
            (
                json!({"data": {"kubeconfig": "a: b"}}),
                "certificate-authority-data",
            ),
            (map("rubbish"), "no certificate"),
        ] {
            let error = read(&map).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        for hash in ["", "sha256:", "sha256:xyz", "md5:0"] {
            assert!(check_form(hash).is_err(), "{hash}");
        }
    }

    #[tokio::test]
    async fn what_is_no_url_of_a_server_is_named() {
        for server in ["", "10.0.0.1:6443", "http://a:1", "https://", "https://a b"] {
            let error = cluster(server, &[]).await.expect_err(server);
            assert!(matches!(error, Error::Url(_)), "{server}: {error}");
        }
    }
}
