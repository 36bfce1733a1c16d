//! Keeps a node's certificates: gets the serving certificate once the Node is
//! registered, and new ones in time.

use std::{net::IpAddr, path::Path, time::Duration};

use control_client::{Client, resources};
use control_kinds::admission::{JOINED_FROM, SERVING_NAMES, listed};
use control_pki::{CertificateKeyPair, Request, check_certificate, validity};
use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Error, Folder, request, user};

/// Wait after a failure.
const RETRY: Duration = Duration::from_secs(10);
/// Wait after a request was denied: asking again sooner changes nothing.
const DENIED: Duration = Duration::from_secs(600);
/// Longest sleep: clocks may be set, machines may sleep.
const ROUND: Duration = Duration::from_secs(3600);

/// Keeps the certificates in `folder` until `shutdown`, or until there is a new
/// client certificate: then `true`, and the caller starts again with it.
/// `names` are the node's names and addresses for the serving certificate.
pub async fn keep(
    folder: &Folder,
    node: &str,
    names: &[String],
    client: &Client,
    shutdown: &CancellationToken,
) -> bool {
    // Not all nodes at the same time.
    let share = rand::random_range(0.7..0.9);
    let mut replaced = false;
    loop {
        let wait = match round(folder, node, names, client, share, &mut replaced).await {
            Ok(Next::Renewed) => return true,
            Ok(Next::In(wait)) => wait.min(ROUND),
            Err(error) => {
                let retry = match &error {
                    Error::Refused { .. } => DENIED,
                    _ => RETRY,
                };
                let error = crate::run::in_one_line(&crate::error::Error::Join(error));
                tracing::warn!(
                    error,
                    "failed to maintain the node's certificates, retrying in {retry:?}"
                );
                retry
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return false,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Renews the client certificate whatever its age.
#[cfg(test)]
pub(super) async fn renew_now(folder: &Folder, node: &str, client: &Client) -> Result<bool, Error> {
    let next = round(folder, node, &[], client, 0.0, &mut true).await?;
    Ok(matches!(next, Next::Renewed))
}

enum Next {
    Renewed,
    In(Duration),
}

async fn round(
    folder: &Folder,
    node: &str,
    names: &[String],
    client: &Client,
    share: f64,
    replaced: &mut bool,
) -> Result<Next, Error> {
    let now = Timestamp::now();
    let Some(mut own) = folder.load(node)? else {
        let folder = folder.path().to_owned();
        return Err(Error::NotJoined { folder });
    };
    let client_due = due(&own.client.cert_pem, &folder.file("client.crt"), share)?;
    if client_due <= now {
        let asked = Request::new(&user(node), &["system:nodes"], &[])?;
        let pem = request::certificate(client, &asked, request::RequestKind::Client)
            .await
            .map_err(|error| error.with_server(&own.server))?;
        own.client = CertificateKeyPair {
            cert_pem: pem,
            key_pem: asked.key_pem,
        };
        folder.save(&own, node)?;
        tracing::info!(certificate = %folder.file("client.crt").display(), "node certificate renewed");
        return Ok(Next::Renewed);
    }
    let path = folder.file("serving.crt");
    let vouched = match client.get::<Value>(&resources::NODES, "", node).await {
        Ok(object) => vouched(&object, names),
        // It registers at the same time.
        Err(error) if error.is_not_found() => return Ok(Next::In(Duration::from_secs(1))),
        Err(error) => return Err(Error::Client(error)),
    };
    let names = &vouched;
    let serving_due = match std::fs::read_to_string(&path) {
        // Servers before the authority of kubelets signed with the cluster's own: one new
        // certificate each start shows whether this one still does.
        Ok(pem) if !std::mem::replace(replaced, true) && is_signed_by(&pem, &own.authority) => now,
        Ok(pem) if check_certificate(&pem, &path, "").is_ok() && covers(&pem, &path, names) => {
            due(&pem, &path, share)?
        }
        _ => now,
    };
    if serving_due > now {
        let next = client_due.min(serving_due);
        let wait = u64::try_from(next.as_second() - now.as_second()).unwrap_or(0);
        return Ok(Next::In(Duration::from_secs(wait.max(1))));
    }
    let asked = Request::new(&user(node), &["system:nodes"], names)?;
    let pem = request::certificate(client, &asked, request::RequestKind::Serving)
        .await
        .map_err(|error| error.with_server(&own.server))?;
    folder.save_serving(&CertificateKeyPair {
        cert_pem: pem,
        key_pem: asked.key_pem,
    })?;
    tracing::info!(certificate = %path.display(), "serving certificate obtained");
    Ok(Next::In(Duration::from_secs(1)))
}

/// Returns those of `names` that the control plane has recorded: requests with any other
/// are not approved. Returns all of them if the Node has no record, as with another
/// control plane.
fn vouched(node: &Value, names: &[String]) -> Vec<String> {
    let annotation = |key: &str| node["metadata"]["annotations"][key].as_str();
    let Some(joined_from) = annotation(JOINED_FROM) else {
        return names.to_vec();
    };
    let added = annotation(SERVING_NAMES).unwrap_or_default();
    let known: Vec<&str> = listed(joined_from).chain(listed(added)).collect();
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let is_vouched = |wanted: &&String| {
        let is = |known: &str| known.eq_ignore_ascii_case(wanted);
        is(name) || known.iter().any(|known| is(known))
    };
    let vouched: Vec<String> = names.iter().filter(is_vouched).cloned().collect();
    let is_address = |name: &String| name.parse::<IpAddr>().is_ok();
    if vouched.iter().any(is_address) || !names.iter().any(is_address) {
        return vouched;
    }
    // Without an address the node is unreachable: the approver shall see what is missing.
    names.to_vec()
}

/// Whether the authority (PEM) signed the certificate.
fn is_signed_by(pem: &str, authority: &str) -> bool {
    control_pki::is_signed_by(pem, authority).unwrap_or(false)
}

/// When a certificate is to be renewed: after this share of its life.
fn due(pem: &str, path: &Path, share: f64) -> Result<Timestamp, Error> {
    let (begins, ends) = validity(pem, path)?;
    Ok(at_share(begins, ends, share))
}

fn at_share(begins: Timestamp, ends: Timestamp, share: f64) -> Timestamp {
    let life = ends.duration_since(begins);
    begins + life.mul_f64(share)
}

/// Whether a certificate has all these names; a node may get another address.
fn covers(pem: &str, path: &Path, names: &[String]) -> bool {
    control_pki::names(pem, path).is_ok_and(|own| {
        names
            .iter()
            .all(|name| own.iter().any(|known| known.eq_ignore_ascii_case(name)))
    })
}

#[cfg(test)]
mod tests {
    use control_pki::{Authority, Spec};

    use super::*;

    #[test]
    fn a_certificate_is_due_before_its_end() {
        let begins: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let ends: Timestamp = "2026-01-11T00:00:00Z".parse().expect("a time");
        let expected: Timestamp = "2026-01-08T00:00:00Z".parse().expect("a time");
        assert_eq!(at_share(begins, ends, 0.7), expected);
    }

    #[test]
    fn names_that_nobody_vouches_for_are_not_asked_for() {
        let names = ["192.0.2.11", "fd00::11", "n1"].map(str::to_owned);
        let node = |annotations: Value| {
            let node = serde_json::json!({"metadata": {"name": "n1", "annotations": annotations}});
            vouched(&node, &names)
        };
        assert_eq!(node(Value::Null), names, "another control plane");
        let joined = serde_json::json!({JOINED_FROM: "192.0.2.11"});
        assert_eq!(node(joined), ["192.0.2.11", "n1"]);
        let added = serde_json::json!({JOINED_FROM: "192.0.2.1", SERVING_NAMES: "FD00::11, x"});
        assert_eq!(node(added), ["fd00::11", "n1"]);
        let elsewhere = serde_json::json!({JOINED_FROM: "192.0.2.1"});
        assert_eq!(node(elsewhere), names, "people see what is missing");
    }

    #[test]
    fn a_new_address_needs_a_new_certificate() {
        let authority = Authority::create("kubernetes").expect("an authority");
        let issued = authority
            .issue(&Spec::server("n1", ["n1", "10.0.0.1"]))
            .expect("issued");
        let covers = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            covers(&issued.cert_pem, Path::new("serving.crt"), &names)
        };
        assert!(covers(&["10.0.0.1", "N1"]));
        assert!(!covers(&["10.0.0.2", "n1"]));
    }
}
