//! Creates the objects of `orlop token create --server`: a bootstrap token in a separate
//! group, the shared keys encrypted under a part of the token that the cluster does not
//! get, and the right of that one token to read that one Secret. All are deleted with the
//! token.

use std::path::Path;
use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use control_access::BOOTSTRAP_TOKEN_NAMESPACE;
use control_client::{Client, Resource, resources};
use control_etcd::{Admin, Record};
use serde_json::{Value, json};

use super::{Error, ServerToken, bundle::Bundle, etcd};

/// The group of those who come with a server's token.
pub const GROUP: &str = "system:bootstrappers:orlop:servers";
/// The type of the Secret with the keys.
const TYPE: &str = "orlop.dev/server-keys";
/// The longest life of a server's token.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Its life unless one is given.
pub const USUAL: Duration = Duration::from_secs(3600);

const ROLES: Resource = Resource::namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role");
const ROLE_BINDINGS: Resource = Resource::namespaced(
    "rbac.authorization.k8s.io",
    "v1",
    "rolebindings",
    "RoleBinding",
);

/// The name of the Secret with the keys for a token.
pub fn name(id: &str) -> String {
    format!("orlop-server-keys-{id}")
}

/// Reads the keys of the server in `data_dir`, and its etcd endpoints.
///
/// # Errors
/// A folder that is not a server's, or one with an embedded store.
pub async fn collect(data_dir: &Path) -> Result<Bundle, Error> {
    let pki = data_dir.join("pki");
    if !pki.join("ca.key").exists() {
        return Err(Error::NoServer {
            folder: data_dir.to_owned(),
        });
    }
    let embedded = data_dir.join("store.redb");
    let record = Record::load(&etcd::folder(data_dir)).map_err(Error::Etcd)?;
    let members = match record {
        Some(record) => members(&pki, &record).await?,
        None if embedded.exists() => return Err(Error::Embedded { path: embedded }),
        None => Vec::new(),
    };
    Bundle::collect(&pki, members)
}

/// The client URLs of all members, this machine's first.
async fn members(pki: &Path, record: &Record) -> Result<Vec<String>, Error> {
    let own = record.client_url();
    let admin = Admin::new(etcd::credentials(pki)?, vec![record.local_url()]);
    let mut all = vec![own.clone()];
    let members = admin.members().await.map_err(Error::Etcd)?;
    let others = members.into_iter().filter(|member| !member.is_learner);
    all.extend(
        others
            .flat_map(|member| member.client_urls)
            .filter(|url| *url != own),
    );
    Ok(all)
}

/// Leaves the keys in the cluster for the holder of `token`, whose Secret `owner` is.
///
/// # Errors
/// What the API answers, or a cipher that fails.
pub async fn publish(
    client: &Client,
    token: &ServerToken,
    owner: &Value,
    bundle: &Bundle,
) -> Result<(), Error> {
    let plain = serde_json::to_vec(bundle).unwrap_or_default();
    let sealed = token.seal(&plain).map_err(Error::Pki)?;
    for (resource, object) in objects(token.id(), owner, &sealed) {
        client
            .create::<Value>(&resource, BOOTSTRAP_TOKEN_NAMESPACE, &object)
            .await
            .map_err(Error::Client)?;
    }
    Ok(())
}

/// The objects, which the token's Secret owns.
fn objects(id: &str, owner: &Value, sealed: &[u8]) -> [(Resource, Value); 3] {
    let metadata = json!({
        "name": name(id),
        "namespace": BOOTSTRAP_TOKEN_NAMESPACE,
        "ownerReferences": [{
            "apiVersion": "v1",
            "kind": "Secret",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }],
    });
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": TYPE,
        "immutable": true,
        "data": {"keys": STANDARD.encode(sealed)},
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata,
        "rules": [{
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": [name(id)],
            "verbs": ["get"],
        }],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": name(id),
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "User",
            "name": format!("system:bootstrap:{id}"),
        }],
    });
    [
        (resources::SECRETS, secret),
        (ROLES, role),
        (ROLE_BINDINGS, binding),
    ]
}

/// Reads the sealed keys of a Secret.
pub fn sealed(secret: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(secret["data"]["keys"].as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_may_read_one_secret_and_all_goes_with_it() {
        let owner = json!({"metadata": {"name": "bootstrap-token-abcdef", "uid": "u"}});
        let all = objects("abcdef", &owner, b"sealed");
        for (_, object) in &all {
            assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "u");
            assert_eq!(object["metadata"]["namespace"], "kube-system");
        }
        let [(_, secret), (_, role), (_, binding)] = all;
        assert_eq!(sealed(&secret).as_deref(), Some(&b"sealed"[..]));
        let rule = &role["rules"][0];
        assert_eq!(rule["resourceNames"], json!([secret["metadata"]["name"]]));
        assert_eq!(rule["verbs"], json!(["get"]));
        assert_eq!(binding["subjects"][0]["name"], "system:bootstrap:abcdef");
        assert_eq!(binding["subjects"].as_array().map(Vec::len), Some(1));
    }
}
