//! `ServiceAccount`: pods of accounts with the annotation
//! `kubernetes.io/enforce-mountable-secrets` use only the secrets that the account lists.

use control_types::value::Value;

use super::refusal::Refusal;
use crate::tree::Read;

/// Whether pods of the account are limited to its secrets.
#[must_use]
pub fn limits_secrets(account: &Value) -> bool {
    let annotations = account.at("metadata").at("annotations");
    matches!(
        annotations.text("kubernetes.io/enforce-mountable-secrets"),
        "1" | "t" | "T" | "true" | "TRUE" | "True"
    )
}

/// Checks that a new pod uses only secrets of its account.
///
/// # Errors
/// The first that is not one of them.
pub fn check_secrets(pod: &Value, account: &Value) -> Result<(), Refusal> {
    let name = account.at("metadata").text("name");
    for volume in pod.at("spec").items("volumes") {
        if !volume.has("secret") {
            continue;
        }
        let secret = volume.at("secret").text("secretName");
        if !lists(account, "secrets", secret) {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {name} does not reference that secret"
            )
            .into());
        }
    }
    check_containers(pod, "initContainers", "init container", account)?;
    check_containers(pod, "containers", "container", account)?;
    for (at, pull) in pod.at("spec").items("imagePullSecrets").iter().enumerate() {
        let secret = pull.text("name");
        if !lists(account, "imagePullSecrets", secret) {
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{secret}\" is not allowed because service account {name} does not reference that imagePullSecret"
            )
            .into());
        }
    }
    Ok(())
}

/// Checks that the ephemeral containers of a pod use only secrets of its account.
///
/// # Errors
/// The first that is not one of them.
pub fn check_ephemeral_secrets(pod: &Value, account: &Value) -> Result<(), Refusal> {
    check_containers(pod, "ephemeralContainers", "ephemeral container", account)
}

fn check_containers(pod: &Value, field: &str, what: &str, account: &Value) -> Result<(), Refusal> {
    let name = account.at("metadata").text("name");
    for container in pod.at("spec").items(field) {
        let own = container.text("name");
        let refuse = |by: String, secret: &str| {
            Err(format!(
                "{what} {own} with {by} referencing secret.secretName=\"{secret}\" is not allowed because service account {name} does not reference that secret"
            )
            .into())
        };
        for variable in container.items("env") {
            let from = variable.at("valueFrom");
            let secret = from.at("secretKeyRef").text("name");
            if from.has("secretKeyRef") && !lists(account, "secrets", secret) {
                return refuse(format!("envVar {}", variable.text("name")), secret);
            }
        }
        for from in container.items("envFrom") {
            let secret = from.at("secretRef").text("name");
            if from.has("secretRef") && !lists(account, "secrets", secret) {
                return refuse("envFrom".to_owned(), secret);
            }
        }
    }
    Ok(())
}

fn lists(account: &Value, field: &str, secret: &str) -> bool {
    let mut listed = account.items(field).iter();
    listed.any(|one| one.text("name") == secret)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn each_way_to_a_secret_is_looked_at() {
        let account = value!({
            "metadata": {"name": "robot", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
            "secrets": [{"name": "own"}], "imagePullSecrets": [{"name": "pull"}]
        });
        assert!(limits_secrets(&account) && !limits_secrets(&value!({})));
        let check = |spec: Value| check_secrets(&value!({"spec": (spec)}), &account);
        assert_eq!(
            check(
                value!({"volumes": [{"secret": {"secretName": "own"}}], "imagePullSecrets": [{"name": "pull"}]})
            ),
            Ok(())
        );
        for (spec, words) in [
            (
                value!({"volumes": [{"secret": {"secretName": "x"}}]}),
                "volume with secret.secretName=\"x\" is not allowed",
            ),
            (
                value!({"containers": [{"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "x"}}}]}]}),
                "container c with envVar E referencing",
            ),
            (
                value!({"initContainers": [{"name": "c", "envFrom": [{"secretRef": {"name": "x"}}]}]}),
                "init container c with envFrom referencing",
            ),
            (
                value!({"imagePullSecrets": [{"name": "own"}]}),
                "imagePullSecrets[0].name=\"own\" is not allowed",
            ),
        ] {
            let why = check(spec).expect_err(words);
            assert!(why.as_ref().starts_with(words), "{why}");
        }
        let debug = value!({"spec": {"ephemeralContainers": [{"name": "d", "envFrom": [{"secretRef": {"name": "x"}}]}]}});
        assert!(check_ephemeral_secrets(&debug, &account).is_err());
    }
}
