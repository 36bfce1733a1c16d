//! What a machine that joins has to know first: `kube-public/cluster-info`, as
//! kubeadm lays it out. Anybody may read it; whoever reads it believes it by
//! the authority's hash, or by a token's signature.

use std::net::SocketAddr;
use std::time::Duration;

use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use futures::FutureExt;

use super::context::HookContext;
use super::{PostStartHook, masters};
use control_registry::own;

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("cluster info", Duration::from_secs(10), |context| {
        run(context).boxed()
    });

async fn run(context: &HookContext) -> Result<(), Status> {
    let Some(authorities) = context.access.authorities() else {
        return Ok(());
    };
    let address = context.shared_address.unwrap_or(context.address);
    let object = object(address, &authorities.clients);
    let others = if context.shared_address.is_some() {
        Vec::new()
    } else {
        let mut alive = masters::alive(context).await?;
        alive.retain(|address| *address != context.address.ip());
        alive
    };
    own::ensure(context, ("", "configmaps"), own::OWN, object, |old, new| {
        let names_other = old
            .str_at(&["data", KUBECONFIG])
            .is_some_and(|text| names_one_of(text, &others));
        // Any server that is alive will do: they would write over each other for ever.
        !names_other && mend(old, new)
    })
    .await
}

/// Its name.
const NAME: &str = "cluster-info";
/// Its namespace.
const NAMESPACE: &str = "kube-public";
/// The key of the kubeconfig in it.
const KUBECONFIG: &str = "kubeconfig";

/// A kubeconfig that names the server and its authority, and no user.
fn kubeconfig(address: SocketAddr, authority_pem: &str) -> String {
    use base64::Engine as _;
    let data = base64::engine::general_purpose::STANDARD.encode(authority_pem);
    let text = value!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "",
            "cluster": {
                "certificate-authority-data": (data.as_str()),
                "server": (format!("https://{address}").as_str())
            }
        }],
        "contexts": null,
        "current-context": "",
        "users": null
    });
    // JSON is YAML.
    let mut text = String::from_utf8_lossy(&text.to_vec()).into_owned();
    text.push('\n');
    text
}

/// The config map; what signers add to an old one stays.
fn object(address: SocketAddr, authority_pem: &str) -> Value {
    let text = kubeconfig(address, authority_pem);
    value!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {KUBECONFIG: (text.as_str())}
    })
}

/// Whether a kubeconfig names one of these servers.
fn names_one_of(kubeconfig: &str, addresses: &[std::net::IpAddr]) -> bool {
    addresses.iter().any(|address| {
        let host = SocketAddr::new(*address, 0).to_string();
        let host = host.trim_end_matches('0');
        kubeconfig.contains(&format!("\"https://{host}"))
    })
}

/// Brings the kubeconfig of `old` up to date; signatures of another one go.
fn mend(old: &mut Value, new: &Value) -> bool {
    let wanted = new.str_at(&["data", KUBECONFIG]);
    if old.str_at(&["data", KUBECONFIG]) == wanted {
        return false;
    }
    old.insert("data", new.get("data").cloned().unwrap_or_default());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_alive_is_recognised() {
        let alive = ["10.0.0.2", "fd00::2"].map(|text| text.parse().expect("an address"));
        assert!(names_one_of(
            r#"{"server":"https://10.0.0.2:6443"}"#,
            &alive
        ));
        assert!(names_one_of(
            r#"{"server":"https://[fd00::2]:6443"}"#,
            &alive
        ));
        assert!(!names_one_of(
            r#"{"server":"https://10.0.0.20:6443"}"#,
            &alive
        ));
        assert!(!names_one_of(
            r#"{"server":"https://10.0.0.1:6443"}"#,
            &alive
        ));
    }

    #[test]
    fn signatures_stay_as_long_as_what_they_sign() {
        let new = value!({"data": {"kubeconfig": "a"}});
        let mut old = value!({"data": {"kubeconfig": "a", "jws-kubeconfig-abcdef": "x"}});
        assert!(!mend(&mut old, &new));
        assert!(old.str_at(&["data", "jws-kubeconfig-abcdef"]).is_some());
        let newer = value!({"data": {"kubeconfig": "b"}});
        assert!(mend(&mut old, &newer));
        assert_eq!(old.get("data"), newer.get("data"));
    }
}
