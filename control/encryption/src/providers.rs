//! The providers of each resource.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cipher::{ANY_PREFIX, Cipher, OpenedValue};
use crate::error::Error;
use crate::kms::Kms;

/// One key of a provider, or a provider without keys.
#[derive(Clone)]
pub(crate) enum Provider {
    /// Stores values as they are.
    Identity,
    /// A key in the configuration.
    Key {
        prefix: String,
        cipher: Arc<dyn Cipher>,
    },
    /// A key manager.
    Kms { prefix: String, kms: Arc<Kms> },
}

/// The providers of all resources.
#[derive(Clone, Default)]
pub struct Table {
    /// By `resource.group`, as configurations write it; `*.group`, `*.*`.
    resources: FxHashMap<String, Arc<[Provider]>>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.resources.iter().map(|(resource, providers)| {
            let prefixes: Vec<_> = providers.iter().map(Provider::prefix).collect();
            (resource, prefixes)
        });
        formatter.debug_map().entries(all).finish()
    }
}

impl Provider {
    /// Returns the prefix of its values; empty for plain values.
    pub fn prefix(&self) -> &str {
        match self {
            Self::Identity => "",
            Self::Key { prefix, .. } | Self::Kms { prefix, .. } => prefix,
        }
    }
}

impl Table {
    pub(crate) fn put(&mut self, resource: &str, providers: &[Provider]) {
        let all = self.resources.remove(resource);
        let all: Vec<_> = all
            .iter()
            .flat_map(|old| old.iter())
            .chain(providers)
            .cloned()
            .collect();
        self.resources.insert(resource.to_owned(), all.into());
    }

    pub(crate) fn has(&self, resource: &str) -> bool {
        self.resources.contains_key(resource)
    }

    /// The resources that it names, in alphabetical order; some are patterns.
    #[must_use]
    pub fn resources(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.resources.keys().map(String::as_str).collect();
        all.sort_unstable();
        all
    }

    /// Whether it says how values of a resource are stored.
    #[must_use]
    pub fn covers(&self, group: &str, resource: &str) -> bool {
        self.of(group, resource).is_some()
    }

    /// Returns the prefix of new values of a resource; empty if they are stored in plain
    /// form.
    #[must_use]
    pub fn prefix(&self, group: &str, resource: &str) -> &str {
        self.of(group, resource)
            .and_then(<[Provider]>::first)
            .map_or("", Provider::prefix)
    }

    /// Returns the prefix of stored bytes that names their provider and key, among the
    /// providers of the resource; empty if they are not encrypted.
    #[must_use]
    pub fn prefix_of<'a>(&'a self, group: &str, resource: &str, stored: &[u8]) -> &'a str {
        let providers = self.of(group, resource).unwrap_or_default();
        let mut named = providers.iter().map(Provider::prefix);
        named
            .find(|prefix| !prefix.is_empty() && stored.starts_with(prefix.as_bytes()))
            .unwrap_or_default()
    }

    /// Checks that all key managers are healthy.
    ///
    /// # Errors
    /// The problem of one of them.
    pub fn health(&self) -> Result<(), Error> {
        for provider in self.resources.values().flat_map(|all| all.iter()) {
            if let Provider::Kms { kms, .. } = provider {
                kms.health()?;
            }
        }
        Ok(())
    }

    fn of(&self, group: &str, resource: &str) -> Option<&[Provider]> {
        if self.resources.is_empty() {
            return None;
        }
        let name = name_of(group, resource);
        self.resources
            .get(name.as_ref())
            .or_else(|| self.resources.get(&format!("*.{group}")))
            .or_else(|| self.resources.get("*.*"))
            .map(AsRef::as_ref)
    }

    /// See [`crate::Encryption::seal`].
    ///
    /// # Errors
    /// As there.
    pub fn seal(
        &self,
        group: &str,
        resource: &str,
        place: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        let first = self.of(group, resource).and_then(<[Provider]>::first);
        match first {
            None | Some(Provider::Identity) => Ok(None),
            Some(Provider::Key { prefix, cipher }) => {
                let mut out = Vec::with_capacity(prefix.len() + value.len() + 64);
                out.extend_from_slice(prefix.as_bytes());
                cipher.seal(place, value, &mut out)?;
                Ok(Some(out))
            }
            Some(Provider::Kms { prefix, kms }) => {
                let mut out = prefix.clone().into_bytes();
                kms.seal(place, value, &mut out)?;
                Ok(Some(out))
            }
        }
    }

    /// The value of stored bytes.
    ///
    /// # Errors
    /// When no provider of the resource can decrypt them.
    pub fn open(
        &self,
        group: &str,
        resource: &str,
        place: &[u8],
        stored: &[u8],
    ) -> Result<OpenedValue, Error> {
        let providers = self.of(group, resource).unwrap_or_default();
        let encrypted = stored.starts_with(ANY_PREFIX);
        let mut refused = None;
        for (at, provider) in providers.iter().enumerate() {
            let stale = at > 0;
            match provider {
                Provider::Identity if encrypted => {}
                Provider::Identity => {
                    let value = stored.to_vec();
                    return Ok(OpenedValue { value, stale });
                }
                Provider::Key { prefix, cipher } => {
                    let Some(sealed) = stored.strip_prefix(prefix.as_bytes()) else {
                        continue;
                    };
                    // Another key of the same name may follow.
                    match cipher.open(place, sealed) {
                        Some(value) => return Ok(OpenedValue { value, stale }),
                        None => refused = refused.or(Some(refusal(prefix))),
                    }
                }
                Provider::Kms { prefix, kms } => {
                    let Some(sealed) = stored.strip_prefix(prefix.as_bytes()) else {
                        continue;
                    };
                    match kms.open(place, sealed) {
                        Ok(opened) => {
                            return Ok(OpenedValue {
                                stale: stale || opened.stale,
                                ..opened
                            });
                        }
                        Err(error) => refused = refused.or(Some(error)),
                    }
                }
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        if !encrypted {
            // Stored before its encryption was turned on.
            return Ok(OpenedValue {
                value: stored.to_vec(),
                stale: !self.prefix(group, resource).is_empty(),
            });
        }
        let end = stored.len().min(64);
        let head = String::from_utf8_lossy(stored.get(..end).unwrap_or_default());
        let prefix: Vec<&str> = head.split(':').take(5).collect();
        Err(Error::NoProvider {
            resource: name_of(group, resource).into_owned(),
            prefix: prefix.join(":"),
        })
    }
}

fn refusal(prefix: &str) -> Error {
    Error::Refused {
        provider: prefix.to_owned(),
    }
}

/// `resource.group`, or the resource alone in the core group.
fn name_of<'a>(group: &str, resource: &'a str) -> std::borrow::Cow<'a, str> {
    if group.is_empty() {
        resource.into()
    } else {
        format!("{resource}.{group}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aes::{Cbc, Gcm};

    fn gcm(name: &str, byte: u8) -> Provider {
        Provider::Key {
            prefix: format!("k8s:enc:aesgcm:v1:{name}:"),
            cipher: Arc::new(Gcm::new(&[byte; 32]).expect("a key")),
        }
    }

    fn table(resource: &str, providers: &[Provider]) -> Table {
        let mut table = Table::default();
        table.put(resource, providers);
        table
    }

    #[test]
    fn the_first_provider_writes_and_all_read() {
        let old = table("secrets", &[gcm("old", 1), Provider::Identity]);
        let new = table("secrets", &[gcm("new", 2), gcm("old", 1)]);
        let sealed = old
            .seal("", "secrets", b"/k", b"v")
            .expect("sealed")
            .expect("encrypted");
        assert!(sealed.starts_with(b"k8s:enc:aesgcm:v1:old:"));
        let opened = new.open("", "secrets", b"/k", &sealed).expect("opened");
        assert_eq!((opened.value.as_slice(), opened.stale), (&b"v"[..], true));
        let opened = old.open("", "secrets", b"/k", &sealed).expect("opened");
        assert!(!opened.stale);
        let plain = old.open("", "secrets", b"/k", b"plain").expect("opened");
        assert!(plain.stale, "encryption was turned on later");
        let none = table("secrets", &[gcm("other", 3)]);
        let error = none
            .open("", "secrets", b"/k", &sealed)
            .expect_err("no key");
        assert!(
            error.to_string().contains("k8s:enc:aesgcm:v1:old"),
            "{error}"
        );
    }

    #[test]
    fn turned_off_is_identity_first() {
        let table = table("secrets", &[Provider::Identity, gcm("old", 1)]);
        assert_eq!(
            table.seal("", "secrets", b"/k", b"v").expect("as it is"),
            None
        );
        let sealed = self::table("secrets", &[gcm("old", 1)])
            .seal("", "secrets", b"/k", b"v")
            .expect("sealed")
            .expect("encrypted");
        let opened = table.open("", "secrets", b"/k", &sealed).expect("opened");
        assert_eq!((opened.value.as_slice(), opened.stale), (&b"v"[..], true));
    }

    #[test]
    fn two_keys_of_one_name_are_both_tried() {
        let sealed = table("secrets", &[gcm("a", 1)])
            .seal("", "secrets", b"/k", b"v")
            .expect("sealed")
            .expect("encrypted");
        let both = table("secrets", &[gcm("a", 2), gcm("a", 1)]);
        let opened = both.open("", "secrets", b"/k", &sealed).expect("opened");
        assert!(opened.stale);
    }

    #[test]
    fn patterns_cover_what_is_not_named() {
        let mut table = table("secrets", &[gcm("s", 1)]);
        table.put("*.apps", &[gcm("apps", 2)]);
        table.put("*.", &[Provider::Identity]);
        table.put(
            "*.*",
            &[Provider::Key {
                prefix: "k8s:enc:aescbc:v1:rest:".into(),
                cipher: Arc::new(Cbc::new(&[3; 16]).expect("a key")),
            }],
        );
        for (group, resource, prefix) in [
            ("", "secrets", "k8s:enc:aesgcm:v1:s:"),
            ("apps", "deployments", "k8s:enc:aesgcm:v1:apps:"),
            ("", "pods", ""),
            ("a.example", "things", "k8s:enc:aescbc:v1:rest:"),
        ] {
            assert_eq!(table.prefix(group, resource), prefix, "{resource}");
        }
        assert!(!Table::default().covers("", "secrets"));
    }
}
