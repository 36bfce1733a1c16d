//! The file with which a client finds and convinces a server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::CertificateKeyPair;

/// A kubeconfig with one cluster, one user and the context of both.
///
/// `server` is the URL. The file holds the user's private key: write it with
/// [`crate::write_private`].
#[must_use]
pub fn kubeconfig(
    server: &str,
    ca_pem: &str,
    user: &CertificateKeyPair,
    cluster_name: &str,
    user_name: &str,
) -> String {
    let context = format!("{user_name}@{cluster_name}");
    // JSON strings are YAML strings, whatever is in them.
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let (server, cluster_name) = (text(server), text(cluster_name));
    let (user_name, context) = (text(user_name), text(&context));
    let authority = STANDARD.encode(ca_pem);
    let certificate = STANDARD.encode(&user.cert_pem);
    let key = STANDARD.encode(&user.key_pem);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: {cluster_name}
  cluster:
    certificate-authority-data: {authority}
    server: {server}
users:
- name: {user_name}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {context}
  context:
    cluster: {cluster_name}
    user: {user_name}
current-context: {context}
preferences: {{}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_names_its_context_and_carries_the_key() {
        let user = CertificateKeyPair {
            cert_pem: "C".to_owned(),
            key_pem: "K".to_owned(),
        };
        let text = kubeconfig("https://10.0.0.1:6443", "CA", &user, "orlop", "admin");
        assert!(
            serde_json::from_str::<serde_json::Value>(&text).is_err(),
            "{text}"
        );
        let config: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
        assert_eq!(config["current-context"], "admin@orlop");
        assert_eq!(config["contexts"][0]["name"], "admin@orlop");
        assert_eq!(
            config["users"][0]["user"]["client-key-data"],
            STANDARD.encode("K")
        );
        assert_eq!(
            config["clusters"][0]["cluster"]["server"],
            "https://10.0.0.1:6443"
        );
    }
}
