//! `EventRateLimit`: so many events a second may be written, in all, by namespace, by
//! user, or by source and object.
//!
//! A limit is a set of buckets of tokens, one for each key, that fill with time.
//! The buckets of a limit are bounded: the one that was least recently asked makes
//! room, and would have filled meanwhile. Unlike kube-apiserver, which overlooks
//! them, events written as `events.k8s.io` count as well.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use control_types::status::Status;
use control_types::value::Value;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;
use crate::settings::PluginError;

/// How many keys a limit knows whose configuration does not say.
const KEYS: usize = 4096;

/// The plugin, with all limits.
#[derive(Debug)]
pub struct EventRateLimit(Vec<EventLimit>);

#[derive(Debug)]
struct EventLimit {
    of: LimitKind,
    rate: f64,
    burst: f64,
    most: usize,
    buckets: Mutex<Buckets>,
}

/// What events are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum LimitKind {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

/// Keys come from clients and may be long: their digests are kept.
type KeyDigest = [u8; 16];

#[derive(Debug, Default)]
struct Buckets {
    all: FxHashMap<KeyDigest, Bucket>,
    /// By when they were asked.
    order: BTreeMap<u64, KeyDigest>,
    asked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
    asked: u64,
}

/// `Configuration` of `eventratelimit.admission.k8s.io/v1alpha1`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EventRateConfiguration {
    #[serde(default)]
    limits: Vec<LimitConfiguration>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct LimitConfiguration {
    #[serde(rename = "type")]
    of: String,
    #[serde(default)]
    qps: i32,
    #[serde(default)]
    burst: i32,
    #[serde(default)]
    cache_size: i32,
}

impl Admission for EventRateLimit {
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        if attributes.dry_run {
            return done(Ok(()));
        }
        let context = attributes.context;
        let (namespace, user) = (&context.info.namespace, &context.user.name);
        done(self.take(change.new, namespace, user))
    }
}

impl EventRateLimit {
    /// The limits of a configuration.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn new(configuration: &EventRateConfiguration) -> Result<Self, PluginError> {
        let mut wrong = Vec::new();
        let invalid = |field: String, value: String, must: &str| PluginError::Invalid {
            field,
            value,
            must: must.to_owned(),
        };
        if configuration.limits.is_empty() {
            let field = "limits".to_owned();
            wrong.push(invalid(field, "null".to_owned(), "must not be empty"));
        }
        let mut limits = Vec::new();
        for (at, limit) in configuration.limits.iter().enumerate() {
            let of = match &*limit.of {
                "Server" => Some(LimitKind::Server),
                "Namespace" => Some(LimitKind::Namespace),
                "User" => Some(LimitKind::User),
                "SourceAndObject" => Some(LimitKind::SourceAndObject),
                _ => None,
            };
            if of.is_none() {
                wrong.push(PluginError::Unsupported {
                    field: format!("limits[{at}].type"),
                    value: control_types::status::quote(&limit.of),
                    supported: r#""Namespace", "Server", "SourceAndObject", "User""#,
                });
            }
            for (field, value) in [("burst", limit.burst), ("qps", limit.qps)] {
                if value <= 0 {
                    let field = format!("limits[{at}].{field}");
                    wrong.push(invalid(field, value.to_string(), "must be positive"));
                }
            }
            if limit.cache_size < 0 && of != Some(LimitKind::Server) {
                let (field, size) = (format!("limits[{at}].cacheSize"), limit.cache_size);
                wrong.push(invalid(field, size.to_string(), "must not be negative"));
            }
            limits.extend(of.map(|of| {
                EventLimit {
                    of,
                    rate: f64::from(limit.qps),
                    burst: f64::from(limit.burst),
                    most: usize::try_from(limit.cache_size)
                        .ok()
                        .filter(|size| *size > 0)
                        .unwrap_or(KEYS),
                    buckets: Mutex::default(),
                }
            }));
        }
        match wrong.len() {
            0 => Ok(Self(limits)),
            1 => Err(wrong.remove(0)),
            _ => Err(PluginError::Several(wrong)),
        }
    }

    /// Takes a token of every limit for an event of a namespace that a user writes.
    ///
    /// # Errors
    /// 429, naming the limits that have none left.
    fn take(&self, event: &Value, namespace: &str, user: &str) -> Result<(), Status> {
        self.take_at(event, namespace, user, Instant::now())
    }

    fn take_at(
        &self,
        event: &Value,
        namespace: &str,
        user: &str,
        now: Instant,
    ) -> Result<(), Status> {
        let mut refused = Vec::new();
        for limit in &self.0 {
            let key = limit.of.key(event, namespace, user);
            if !limit.take(&key, now) {
                refused.push(format!(
                    "limit reached on type {:?} for key {key}",
                    limit.of
                ));
            }
        }
        let why = match refused.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut status = Status::too_many_requests(format!("Too many requests: {why}"), 0);
        status.details = None;
        Err(status)
    }
}

impl LimitKind {
    fn key(self, event: &Value, namespace: &str, user: &str) -> String {
        match self {
            Self::Server => String::new(),
            Self::Namespace => namespace.to_owned(),
            Self::User => user.to_owned(),
            Self::SourceAndObject => {
                // By their names in v1, and in events.k8s.io.
                let part = |names: [&str; 2], field: &str| {
                    let mut found = names.iter().filter_map(|name| event.str_at(&[name, field]));
                    found.next().unwrap_or_default().to_owned()
                };
                let source =
                    ["component", "host"].map(|field| part(["source", "deprecatedSource"], field));
                let object = ["kind", "namespace", "name", "uid", "apiVersion"]
                    .map(|field| part(["involvedObject", "regarding"], field));
                source.concat() + &object.concat()
            }
        }
    }
}

impl EventLimit {
    fn take(&self, key: &str, now: Instant) -> bool {
        let digest = Sha256::digest(key);
        let mut key = KeyDigest::default();
        key.copy_from_slice(&digest[..16]);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets = &mut *buckets;
        buckets.asked += 1;
        let asked = buckets.asked;
        let full = Bucket {
            tokens: self.burst,
            at: now,
            asked,
        };
        let bucket = buckets.all.entry(key).or_insert(full);
        if bucket.asked != asked {
            buckets.order.remove(&bucket.asked);
        }
        buckets.order.insert(asked, key);
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        let tokens = (bucket.tokens + passed * self.rate).min(self.burst);
        let taken = tokens >= 1.0;
        *bucket = Bucket {
            tokens: if taken { tokens - 1.0 } else { tokens },
            at: now,
            asked,
        };
        while buckets.all.len() > self.most {
            let Some((_, oldest)) = buckets.order.pop_first() else {
                break;
            };
            buckets.all.remove(&oldest);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use control_types::value;

    use super::*;

    fn rates(of: &str, more: &str) -> Result<EventRateLimit, String> {
        let text = format!(r#"{{"limits":[{{"type":"{of}","qps":2,"burst":3{more}}}]}}"#);
        EventRateLimit::new(&serde_json::from_str(&text).expect("a configuration"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_burst_passes_and_then_so_many_a_second() {
        let rates = rates("Namespace", "").expect("right");
        let begin = Instant::now();
        let event = Value::object();
        let take = |namespace: &str, after: u64| {
            let now = begin + Duration::from_millis(after);
            rates
                .take_at(&event, namespace, "ann", now)
                .map_err(|status| (status.code, status.message))
        };
        for _ in 0..3 {
            take("a", 0).expect("the burst");
        }
        let refused = (
            429,
            "Too many requests: limit reached on type Namespace for key a".to_owned(),
        );
        assert_eq!(take("a", 0), Err(refused.clone()));
        take("b", 0).expect("another namespace");
        assert_eq!(take("a", 499), Err(refused.clone()));
        take("a", 999).expect("half a second later");
        assert_eq!(take("a", 999), Err(refused));
        for _ in 0..3 {
            take("a", 60_000).expect("full again, and not fuller");
        }
        assert!(take("a", 60_000).is_err());
    }

    #[test]
    fn keys_are_bounded_and_the_least_recent_is_forgotten() {
        let rates = rates("User", r#","cacheSize":2"#).expect("right");
        let now = Instant::now();
        let event = Value::object();
        let take = |user: &str| rates.take_at(&event, "n", user, now).is_ok();
        for expected in [true, true, true, false] {
            assert_eq!(take("a"), expected);
        }
        // b is known besides; c makes room by a, which is full again when it comes back.
        assert!(take("b") && take("c") && take("a"));
        for user in 0..10_000 {
            take(&user.to_string());
        }
        let buckets = rates.0[0].buckets.lock().expect("fine");
        assert_eq!((buckets.all.len(), buckets.order.len()), (2, 2));
    }

    #[test]
    fn an_event_is_counted_by_source_and_object_in_both_groups() {
        let old =
            value!({"source": {"component": "c"}, "involvedObject": {"kind": "Pod", "name": "p"}});
        let new = value!({"deprecatedSource": {"component": "c"}, "regarding": {"kind": "Pod", "name": "p"}});
        assert_eq!(LimitKind::SourceAndObject.key(&old, "", ""), "cPodp");
        assert_eq!(LimitKind::SourceAndObject.key(&new, "", ""), "cPodp");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let why = rates("Pod", r#","cacheSize":-1"#).expect_err("two errors");
        assert!(
            why.starts_with("[limits[0].type: Unsupported value: \"Pod\""),
            "{why}"
        );
        assert!(
            why.ends_with("limits[0].cacheSize: Invalid value: -1: must not be negative]"),
            "{why}"
        );
        let none = serde_json::from_str("{}").expect("a configuration");
        assert!(EventRateLimit::new(&none).is_err());
    }
}
