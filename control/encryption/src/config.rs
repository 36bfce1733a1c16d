//! `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::aes::{Cbc, Gcm};
use crate::cipher::Cipher;
use crate::error::Error;
use crate::kms::Kms;
use crate::providers::{Provider, Table};
use crate::secretbox::SecretBox;

/// How long a key manager may take unless the configuration says.
const KMS_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Configuration {
    api_version: String,
    kind: String,
    #[serde(default)]
    resources: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    providers: Vec<EncryptionFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EncryptionFile {
    aesgcm: Option<Keys>,
    aescbc: Option<Keys>,
    secretbox: Option<Keys>,
    identity: Option<EmptyProvider>,
    kms: Option<Manager>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyProvider {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    #[serde(default)]
    name: String,
    #[serde(default)]
    secret: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Manager {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    endpoint: String,
    #[serde(default)]
    timeout: Option<String>,
    #[serde(default, rename = "cachesize")]
    cache_size: Option<i64>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Key")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Reads a configuration. Its key managers are contacted immediately.
///
/// # Errors
/// The problem and its position.
pub(crate) fn read(text: &str) -> Result<Table, Error> {
    let configuration: Configuration =
        serde_saphyr::from_str(text).map_err(|error| invalid("", error.to_string()))?;
    if (
        configuration.api_version.as_str(),
        configuration.kind.as_str(),
    ) != ("apiserver.config.k8s.io/v1", "EncryptionConfiguration")
    {
        return Err(invalid(
            "kind",
            "must be EncryptionConfiguration of apiserver.config.k8s.io/v1",
        ));
    }
    if configuration.resources.is_empty() {
        return Err(invalid("resources", "must contain at least one resource"));
    }
    let mut table = Table::default();
    let mut managers = HashSet::new();
    for (at, entry) in configuration.resources.iter().enumerate() {
        let at = format!("resources[{at}]");
        if entry.resources.is_empty() {
            return Err(invalid(
                &format!("{at}.resources"),
                "must contain at least one resource",
            ));
        }
        if entry.providers.is_empty() {
            return Err(invalid(
                &format!("{at}.providers"),
                "must contain at least one provider",
            ));
        }
        let mut providers = Vec::new();
        for (index, written) in entry.providers.iter().enumerate() {
            let at = format!("{at}.providers[{index}]");
            provider(written, &at, &mut managers, &mut providers)?;
        }
        for resource in &entry.resources {
            check(resource, &table, &format!("{at}.resources"))?;
            table.put(resource, &providers);
        }
    }
    Ok(table)
}

fn invalid(at: &str, detail: impl Into<String>) -> Error {
    Error::Invalid {
        at: if at.is_empty() {
            "encryption configuration"
        } else {
            at
        }
        .to_owned(),
        detail: detail.into(),
    }
}

/// Whether a resource may be named, after those that are there.
fn check(resource: &str, before: &Table, at: &str) -> Result<(), Error> {
    let wrong = |detail: String| Err(invalid(at, detail));
    if resource == "*" {
        return wrong(
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
                .into(),
        );
    }
    if resource.is_empty() || resource.contains('/') {
        return wrong(format!("`{resource}` is no resource"));
    }
    if resource.chars().any(|letter| letter.is_ascii_uppercase()) {
        return wrong(format!("`{resource}`: resource name should be lower case"));
    }
    if matches!(
        resource,
        "apiserveripinfo" | "serviceipallocations" | "servicenodeportallocations"
    ) {
        return wrong(format!("`{resource}`: may not encrypt non-REST resources"));
    }
    let (name, group) = resource.split_once('.').unwrap_or((resource, ""));
    if name == "*" && group.starts_with("*.") || (name != "*" && group.contains('*')) {
        return wrong(format!(
            "`{resource}`: resource name should not contain wildcards besides `*.<group>` and `*.*`"
        ));
    }
    if before.has(resource) {
        // A resource that is named twice gets the providers of both, as in stock.
        return Ok(());
    }
    for wider in [format!("*.{group}"), "*.*".to_owned()] {
        if resource != wider && before.has(&wider) {
            return wrong(format!("`{resource}` is masked by earlier rule `{wider}`"));
        }
    }
    Ok(())
}

fn provider(
    written: &EncryptionFile,
    at: &str,
    managers: &mut HashSet<String>,
    out: &mut Vec<Provider>,
) -> Result<(), Error> {
    let before = out.len();
    let mut kinds = 0;
    if let Some(keys) = &written.aesgcm {
        kinds += 1;
        of_keys(keys, "aesgcm", at, out, |key| {
            Gcm::new(key).map(|cipher| Arc::new(cipher) as _)
        })?;
    }
    if let Some(keys) = &written.aescbc {
        kinds += 1;
        of_keys(keys, "aescbc", at, out, |key| {
            Cbc::new(key).map(|cipher| Arc::new(cipher) as _)
        })?;
    }
    if let Some(keys) = &written.secretbox {
        kinds += 1;
        of_keys(keys, "secretbox", at, out, |key| {
            SecretBox::new(key).map(|cipher| Arc::new(cipher) as _)
        })?;
    }
    if written.identity.is_some() {
        kinds += 1;
        out.push(Provider::Identity);
    }
    if let Some(manager) = &written.kms {
        kinds += 1;
        out.push(of_manager(manager, &format!("{at}.kms"), managers)?);
    }
    if kinds != 1 || out.len() == before {
        return Err(invalid(
            at,
            "must contain exactly one of aesgcm, aescbc, secretbox, identity, kms",
        ));
    }
    Ok(())
}

fn of_keys(
    keys: &Keys,
    kind: &str,
    at: &str,
    out: &mut Vec<Provider>,
    make: impl Fn(&[u8]) -> Option<Arc<dyn Cipher>>,
) -> Result<(), Error> {
    if keys.keys.is_empty() {
        return Err(invalid(
            &format!("{at}.{kind}.keys"),
            "at least one key must be provided",
        ));
    }
    for (index, key) in keys.keys.iter().enumerate() {
        let at = format!("{at}.{kind}.keys[{index}]");
        if key.name.is_empty() {
            return Err(invalid(&format!("{at}.name"), "key name must be provided"));
        }
        if key.secret.is_empty() {
            return Err(invalid(&format!("{at}.secret"), "secret must be provided"));
        }
        let bytes = STANDARD
            .decode(key.secret.trim())
            .map_err(|_| invalid(&format!("{at}.secret"), "secrets must be base64 encoded"))?;
        let sizes = if kind == "secretbox" {
            "32"
        } else {
            "16, 24 or 32"
        };
        let cipher = make(&bytes).ok_or_else(|| {
            let length = bytes.len();
            let detail =
                format!("secret is not of the expected length, got {length}, expected {sizes}");
            invalid(&format!("{at}.secret"), detail)
        })?;
        out.push(Provider::Key {
            prefix: format!("k8s:enc:{kind}:v1:{}:", key.name),
            cipher,
        });
    }
    Ok(())
}

fn of_manager(
    manager: &Manager,
    at: &str,
    managers: &mut HashSet<String>,
) -> Result<Provider, Error> {
    let wrong = |field: &str, detail: String| Err(invalid(&format!("{at}.{field}"), detail));
    if manager.api_version != "v2" {
        return wrong(
            "apiVersion",
            "must be v2; KMS v1 is deprecated and not served here".into(),
        );
    }
    if manager.name.is_empty() || manager.name.contains(':') {
        return wrong("name", "must be given and may not contain ':'".into());
    }
    if !managers.insert(manager.name.clone()) {
        return wrong("name", format!("`{}` is used twice", manager.name));
    }
    if manager.cache_size.is_some() {
        return wrong("cachesize", "cachesize is not supported in v2".into());
    }
    let socket = manager
        .endpoint
        .strip_prefix("unix://")
        .filter(|path| path.starts_with('/'));
    let Some(socket) = socket else {
        return wrong(
            "endpoint",
            "must be the path of a socket, as in unix:///run/kms.sock".into(),
        );
    };
    let timeout = match &manager.timeout {
        None => KMS_TIMEOUT,
        Some(text) => match duration(text) {
            Some(timeout) if !timeout.is_zero() => timeout,
            _ => return wrong("timeout", "should be a positive value, as in 3s".into()),
        },
    };
    Ok(Provider::Kms {
        prefix: format!("k8s:enc:kms:v2:{}:", manager.name),
        kms: Kms::start(&manager.name, socket, timeout)?,
    })
}

/// `3s`, `500ms`, `1m`.
fn duration(text: &str) -> Option<Duration> {
    let end = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(body: &str) -> String {
        format!("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n{body}")
    }

    const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

    #[test]
    fn providers_write_and_read_in_their_order() {
        let text = configuration(&format!(
            "resources:\n\
             - resources: [secrets, configmaps]\n\
             \x20 providers:\n\
             \x20 - secretbox: {{keys: [{{name: a, secret: {KEY}}}]}}\n\
             \x20 - aescbc: {{keys: [{{name: b, secret: {KEY}}}, {{name: c, secret: {KEY}}}]}}\n\
             \x20 - identity: {{}}\n\
             - resources: ['*.apps']\n\
             \x20 providers:\n\
             \x20 - aesgcm: {{keys: [{{name: d, secret: {KEY}}}]}}\n"
        ));
        let table = read(&text).expect("read");
        assert_eq!(table.resources(), ["*.apps", "configmaps", "secrets"]);
        assert_eq!(table.prefix("", "secrets"), "k8s:enc:secretbox:v1:a:");
        assert_eq!(table.prefix("apps", "deployments"), "k8s:enc:aesgcm:v1:d:");
        for (resource, group) in [("secrets", ""), ("deployments", "apps")] {
            let sealed = table
                .seal(group, resource, b"/k", b"v")
                .expect("sealed")
                .expect("encrypted");
            let opened = table.open(group, resource, b"/k", &sealed).expect("opened");
            assert_eq!((opened.value.as_slice(), opened.stale), (&b"v"[..], false));
        }
    }

    #[test]
    fn what_cannot_be_is_told_with_its_place() {
        let keys = |key: &str| format!("aesgcm: {{keys: [{key}]}}");
        let of = |resources: &str, provider: &str| {
            configuration(&format!(
                "resources:\n- resources: [{resources}]\n  providers:\n  - {provider}\n"
            ))
        };
        let good = keys(&format!("{{name: a, secret: {KEY}}}"));
        read(&of("secrets", &good)).expect("nothing is wrong with it");
        for (text, told) in [
            (
                configuration(""),
                "resources: must contain at least one resource",
            ),
            (of("", &good), "resources[0].resources: must contain"),
            (of("'*'", &good), "use '*.'"),
            (of("Secrets", &good), "lower case"),
            (
                of("'*.*', secrets", &good),
                "`secrets` is masked by earlier rule `*.*`",
            ),
            (of("secrets", "{}"), "exactly one of"),
            (
                of("secrets", &keys("{name: a, secret: c2hvcnQ=}")),
                "resources[0].providers[0].aesgcm.keys[0].secret: secret is not of the expected length, got 5",
            ),
            (of("secrets", &keys("{name: a, secret: '%'}")), "base64"),
            (
                of("secrets", &keys(&format!("{{secret: {KEY}}}"))),
                "keys[0].name",
            ),
            (of("secrets", "rot13: {}"), "rot13"),
            (
                of(
                    "secrets",
                    "kms: {apiVersion: v1, name: k, endpoint: 'unix:///x'}",
                ),
                "kms.apiVersion",
            ),
            (
                of(
                    "secrets",
                    "kms: {apiVersion: v2, name: k, endpoint: 'tcp://x'}",
                ),
                "kms.endpoint",
            ),
            (
                of(
                    "secrets",
                    "kms: {apiVersion: v2, name: 'a:b', endpoint: 'unix:///x'}",
                ),
                "kms.name",
            ),
        ] {
            let error = read(&text).expect_err(told).to_string();
            assert!(error.contains(told), "{error}\nwanted: {told}");
        }
    }
}
