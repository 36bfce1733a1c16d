//! Removes legacy tokens that were created automatically and not used for a year
//! (KEP-2799): they never expire, and have been stored in Secrets since before Kubernetes
//! 1.24. First they are labelled as invalid, so that they are rejected; a year later they
//! are deleted. Removing the label makes one valid again.
//!
//! A token counts as automatic if its service account names its Secret. Tokens in Secrets
//! that users created stay, and so do those that a pod names.

use std::collections::BTreeMap;
use std::time::Duration;

use control_client::{
    Client, DeleteOptions, Error, Meta, Patch, Preconditions, Selection, resources,
};
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Controller;

const PERIOD: Duration = Duration::from_secs(24 * 3600);
/// How long after the start it is looked for the first time.
const FIRST: Duration = Duration::from_secs(60);
/// For how many days a token must not have been used.
const DAYS: i64 = 365;
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

/// Marks and removes unused tokens.
pub const CONTROLLER: Controller = Controller {
    name: "legacy-serviceaccount-token-cleaner-controller",
    service_account: "legacy-service-account-token-cleaner",
    start: |ctx| {
        let (client, reader) = (ctx.client.clone(), ctx.reader().clone());
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            let mut pause = FIRST;
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(pause) => pause = PERIOD,
                }
                if let Err(error) = round(&client, &reader, Timestamp::now()).await {
                    tracing::warn!(error = %error.chain(), "failed to look for unused tokens, retrying tomorrow");
                }
            }
        })
    },
};

/// A Secret with a token.
#[derive(Debug, Deserialize)]
struct LegacyTokenSecret {
    metadata: Meta,
}

/// A service account, of which only the Secrets are read that it names.
#[derive(Debug, Deserialize)]
struct Account {
    metadata: Meta,
    #[serde(default)]
    secrets: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct LegacyTokenCleaner {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// The consequence for a token.
#[derive(Debug, PartialEq, Eq)]
enum TokenVerdict {
    Stay,
    Mark,
    Remove,
}

/// Judges a token by its use, which is known since `tracked`. A token with unreadable
/// dates is kept.
fn judge(secret: &Meta, tracked: Date, today: Date) -> TokenVerdict {
    let Ok(border) = today.checked_sub(DAYS.days()) else {
        return TokenVerdict::Stay;
    };
    // The day after the first counts as the first whole one.
    if tracked >= border || secret.deletion_timestamp.is_some() {
        return TokenVerdict::Stay;
    }
    let created = secret
        .creation_timestamp
        .as_ref()
        .map(|at| at.to_zoned(TimeZone::UTC).date());
    if created.is_none_or(|created| created >= border) {
        return TokenVerdict::Stay;
    }
    let date = |label: &str| secret.labels.get(label).map(str::parse::<Date>);
    match date(LAST_USED) {
        Some(Err(_)) => return TokenVerdict::Stay,
        Some(Ok(used)) if used >= border => return TokenVerdict::Stay,
        _ => {}
    }
    match date(INVALID_SINCE) {
        Some(Ok(since)) if since >= border => TokenVerdict::Stay,
        Some(Ok(_)) => TokenVerdict::Remove,
        _ => TokenVerdict::Mark,
    }
}

/// Whether the account is the one that the Secret was made for, unasked.
fn was_made_unasked(secret: &Meta, account: &Account) -> bool {
    let uid = secret.annotations.get(UID).unwrap_or_default();
    let named = account.secrets.iter().flatten();
    (uid.is_empty() || uid == account.metadata.uid.as_str())
        && named
            .into_iter()
            .any(|one| one["name"] == secret.name.as_str())
}

/// Whether a part of a pod names the Secret, in any of the ways in which pods do.
fn names(part: &Value, secret: &str) -> bool {
    match part {
        Value::Array(items) => items.iter().any(|item| names(item, secret)),
        Value::Object(members) => members.iter().any(|(key, member)| {
            let lower = key.to_lowercase();
            let is_name = key == "secretName" && member == secret;
            let is_reference = lower.contains("secret")
                && [member]
                    .into_iter()
                    .chain(member.as_array().into_iter().flatten())
                    .any(|one| one["name"] == secret);
            is_name || is_reference || names(member, secret)
        }),
        _ => false,
    }
}

async fn round(client: &Client, reader: &Client, now: Timestamp) -> Result<(), Error> {
    let today = now.to_zoned(TimeZone::UTC).date();
    let tracking: LegacyTokenCleaner = client
        .get(&resources::CONFIG_MAPS, "kube-system", TRACKING)
        .await?;
    let since = tracking
        .data
        .and_then(|data| data.get("since")?.parse::<Date>().ok());
    let Some(tracked) = since else {
        return Ok(());
    };
    let selection = Selection::all().fields("type=kubernetes.io/service-account-token");
    let secrets = reader
        .list::<LegacyTokenSecret>(&resources::SECRETS, &selection)
        .await?;
    for LegacyTokenSecret { metadata: secret } in &secrets.items {
        let verdict = judge(secret, tracked, today);
        if verdict == TokenVerdict::Stay || !is_forgotten(reader, secret).await? {
            continue;
        }
        let (namespace, name) = (&secret.namespace, &secret.name);
        let done = if verdict == TokenVerdict::Mark {
            tracing::info!(%namespace, %name, "unused token marked as invalid");
            let mark = json!({"metadata": {
                "uid": secret.uid.as_str(), "labels": {INVALID_SINCE: today.to_string()}
            }});
            let secrets = &resources::SECRETS;
            let marked = client.patch::<LegacyTokenSecret>(
                secrets,
                namespace,
                name,
                "",
                Patch::Merge(&mark),
            );
            marked.await.map(drop)
        } else {
            tracing::info!(%namespace, %name, "unused token removed");
            let options = DeleteOptions {
                preconditions: Some(Preconditions {
                    uid: None,
                    resource_version: Some(secret.resource_version.to_string()),
                }),
                ..DeleteOptions::default()
            };
            client
                .delete(&resources::SECRETS, namespace, name, &options)
                .await
        };
        match done {
            Err(error) if !error.is_not_found() => {
                tracing::warn!(%namespace, %name, error = %error.chain(), "failed to clean up an unused token");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the token was made unasked, and no pod names its Secret.
async fn is_forgotten(reader: &Client, secret: &Meta) -> Result<bool, Error> {
    let Some(account) = secret.annotations.get(ACCOUNT) else {
        return Ok(false);
    };
    let namespace = &secret.namespace;
    let account = reader
        .get::<Account>(&resources::SERVICE_ACCOUNTS, namespace, account)
        .await;
    match account {
        Ok(account) if was_made_unasked(secret, &account) => {}
        Err(error) if !error.is_not_found() => return Err(error),
        _ => return Ok(false),
    }
    let selection = Selection::all().namespace(namespace.as_str());
    let pods = reader.list::<Value>(&resources::PODS, &selection).await?;
    Ok(!pods
        .items
        .iter()
        .any(|pod| names(&pod["spec"], &secret.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(created: &str, labels: Value) -> Meta {
        serde_json::from_value(json!({
            "name": "robot-token-abc", "namespace": "n", "labels": labels,
            "creationTimestamp": format!("{created}T00:00:00Z"), "annotations": {UID: "u"}
        }))
        .expect("metadata")
    }

    #[test]
    fn a_token_is_marked_after_a_year_and_removed_after_another() {
        let (tracked, today) = (date("2024-01-01"), date("2026-06-01"));
        for (what, created, labels, verdict) in [
            ("never used", "2023-01-01", json!({}), TokenVerdict::Mark),
            ("young", "2026-05-01", json!({}), TokenVerdict::Stay),
            (
                "used of late",
                "2023-01-01",
                json!({LAST_USED: "2026-05-31"}),
                TokenVerdict::Stay,
            ),
            (
                "used long ago",
                "2023-01-01",
                json!({LAST_USED: "2025-05-31"}),
                TokenVerdict::Mark,
            ),
            (
                "used who knows when",
                "2023-01-01",
                json!({LAST_USED: "yesterday"}),
                TokenVerdict::Stay,
            ),
            (
                "marked of late",
                "2023-01-01",
                json!({INVALID_SINCE: "2026-01-01"}),
                TokenVerdict::Stay,
            ),
            (
                "marked long ago",
                "2023-01-01",
                json!({INVALID_SINCE: "2025-05-31"}),
                TokenVerdict::Remove,
            ),
            (
                "marked wrongly",
                "2023-01-01",
                json!({INVALID_SINCE: "x"}),
                TokenVerdict::Mark,
            ),
            (
                "marked, and used since",
                "2023-01-01",
                json!({INVALID_SINCE: "2025-01-01", LAST_USED: "2026-05-01"}),
                TokenVerdict::Stay,
            ),
        ] {
            assert_eq!(
                judge(&secret(created, labels), tracked, today),
                verdict,
                "{what}"
            );
        }
        let old = secret("2020-01-01", json!({}));
        assert_eq!(
            judge(&old, date("2025-06-01"), today),
            TokenVerdict::Stay,
            "not known for a year who is used"
        );
        assert_eq!(judge(&old, date("2025-05-31"), today), TokenVerdict::Mark);
    }

    #[test]
    fn only_a_token_that_its_account_names_was_made_unasked() {
        let account = |uid: &str, names: &[&str]| {
            let secrets: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            serde_json::from_value(
                json!({"metadata": {"name": "robot", "uid": uid}, "secrets": secrets}),
            )
            .expect("an account")
        };
        let secret = secret("2020-01-01", json!({}));
        assert!(was_made_unasked(
            &secret,
            &account("u", &["x", "robot-token-abc"])
        ));
        assert!(!was_made_unasked(&secret, &account("u", &["x"])));
        assert!(!was_made_unasked(
            &secret,
            &account("other", &["robot-token-abc"])
        ));
    }

    #[test]
    fn pods_name_secrets_in_many_ways() {
        for spec in [
            json!({"volumes": [{"secret": {"secretName": "s"}}]}),
            json!({"volumes": [{"projected": {"sources": [{"secret": {"name": "s"}}]}}]}),
            json!({"volumes": [{"csi": {"nodePublishSecretRef": {"name": "s"}}}]}),
            json!({"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]}),
            json!({"initContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}),
            json!({"imagePullSecrets": [{"name": "s"}]}),
        ] {
            assert!(names(&spec, "s"), "{spec}");
            assert!(!names(&spec, "t"), "{spec}");
        }
        assert!(!names(
            &json!({"containers": [{"name": "s"}], "volumes": [{"name": "s"}]}),
            "s"
        ));
    }

    fn date(text: &str) -> Date {
        text.parse().expect("a date")
    }
}
