//! Conversion of custom objects between versions by a webhook of their users.
//!
//! An object is kept in the version in which it was written to the store. Who wants
//! it in another one waits until the webhook has made that of it; what it made is
//! remembered per state of the object, so that all who watch share one question. As
//! long as the webhook gives no good answer requests fail: an object is never shown
//! in a version that it was not converted to.

mod counts;
mod review;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use compact_str::CompactString;
use control_store::Revision;
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use rustc_hash::FxHashMap;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::OnceCell;

use control_proxy::ServiceLister;
use control_proxy::egress::Egress;
use control_proxy::webhook::{Client, ClientConfig, ConfigError};
use control_request::plain_error;
use control_strategy::ServedVersion;
use control_watch_cache::{CacheEntry, Change, PreparedObject, TreeEntry as _, encode};
use review::Version;

pub use counts::{ConversionCounts, Failure};

/// How long a webhook is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many converted objects are remembered.
const REMEMBERED: usize = 1024;
/// So many objects are sent at a time.
pub const TOGETHER: usize = 100;

/// How webhooks that convert are reached, and what is counted of them.
#[derive(Clone, Debug)]
pub struct ConversionWebhooks {
    /// By which ways they are reached.
    pub egress: Egress,
    /// Counters.
    pub counts: ConversionCounts,
}

/// Asks the webhook of a definition.
#[derive(Debug)]
pub struct Converter {
    version: Option<Version>,
    client: Result<Client, ConfigError>,
    counts: ConversionCounts,
    recent: Mutex<Recent>,
}

/// A state of an object in a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ConversionKey {
    version: &'static str,
    revision: Revision,
    key: CompactString,
}

/// The place of a converted object, filled by the first request for it.
pub type Slot = Arc<OnceCell<Arc<CacheEntry>>>;

/// What was converted last; the oldest goes first.
#[derive(Debug, Default)]
struct Recent {
    known: FxHashMap<ConversionKey, Slot>,
    order: VecDeque<ConversionKey>,
}

impl Recent {
    fn slot(&mut self, place: ConversionKey) -> Slot {
        if let Some(slot) = self.known.get(&place) {
            return Arc::clone(slot);
        }
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        let slot = Slot::default();
        self.order.push_back(place.clone());
        self.known.insert(place, Arc::clone(&slot));
        slot
    }
}

impl Converter {
    /// That of a definition; none where versions differ in nothing but their names.
    #[must_use]
    pub fn from_definition(definition: &Value, webhooks: &ConversionWebhooks) -> Option<Self> {
        let conversion = definition.path(&["spec", "conversion"])?;
        if conversion.str_at(&["strategy"]) != Some("Webhook") {
            return None;
        }
        let webhook = conversion.get("webhook").unwrap_or(&Value::Null);
        let versions = webhook.items_at(&["conversionReviewVersions"]).iter();
        let config = ClientConfig::read(webhook.get("clientConfig").unwrap_or(&Value::Null));
        Some(Self {
            version: versions.filter_map(Value::as_str).find_map(Version::parse),
            client: config.and_then(|config| config.client(&webhooks.egress)),
            counts: webhooks.counts.clone(),
            recent: Mutex::default(),
        })
    }

    /// Brings objects into another version of their kind, `group/version`. Those that
    /// are in it stay as they are.
    ///
    /// # Errors
    /// 500 when the webhook does not do it.
    pub async fn convert(
        &self,
        services: &dyn ServiceLister,
        objects: Vec<Value>,
        to: &str,
    ) -> Result<Vec<Value>, Status> {
        let mut converted = objects;
        let wanted: Vec<usize> = converted
            .iter()
            .enumerate()
            .filter(|(_, object)| meta::api_version(object) != to)
            .map(|(at, _)| at)
            .collect();
        for some in wanted.chunks(TOGETHER) {
            let sent: Vec<&Value> = some.iter().map(|at| &converted[*at]).collect();
            let answers = self.ask(services, &sent, to).await?;
            for (at, answer) in some.iter().zip(answers) {
                converted[*at] = answer;
            }
        }
        Ok(converted)
    }

    /// As [`Converter::convert`], of one object.
    ///
    /// # Errors
    /// 500 when the webhook does not do it.
    pub async fn one(
        &self,
        services: &dyn ServiceLister,
        object: Value,
        to: &str,
    ) -> Result<Value, Status> {
        if meta::api_version(&object) == to {
            return Ok(object);
        }
        let mut answers = self.ask(services, &[&object], to).await?;
        answers
            .pop()
            .ok_or_else(|| Status::internal("a conversion answered nothing"))
    }

    /// As [`Converter::one`], for what cannot wait otherwise: decisions about who owns
    /// which field, where managers know other versions than the one that is written.
    ///
    /// # Errors
    /// 500 when the webhook does not do it, or nobody else could do anything
    /// meanwhile.
    pub fn one_now(
        &self,
        services: &dyn ServiceLister,
        object: Value,
        to: &str,
    ) -> Result<Value, Status> {
        let handle = Handle::try_current().map_err(Status::internal)?;
        if handle.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Err(Status::internal(
                "objects cannot be converted on a runtime of one thread",
            ));
        }
        tokio::task::block_in_place(|| handle.block_on(self.one(services, object, to)))
    }

    async fn ask(
        &self,
        services: &dyn ServiceLister,
        objects: &[&Value],
        to: &str,
    ) -> Result<Vec<Value>, Status> {
        let began = Instant::now();
        let asked = self.ask_once(services, objects, to).await;
        let took = began.elapsed();
        let outcome = asked.as_ref().map(|_| ()).map_err(|(failure, _)| *failure);
        self.counts.asked(outcome, took);
        asked.map_err(|(_, why)| plain_error(why))
    }

    async fn ask_once(
        &self,
        services: &dyn ServiceLister,
        objects: &[&Value],
        to: &str,
    ) -> Result<Vec<Value>, (Failure, String)> {
        let Some(version) = self.version else {
            let why = "no supported conversion review versions".to_owned();
            return Err((Failure::Call, why));
        };
        let kind = objects.first().map(|object| review::kind_of(object));
        let kind = kind.unwrap_or_default();
        let failed = |why: String| format!("conversion webhook for {kind} failed: {why}");
        let client = self
            .client
            .as_ref()
            .map_err(|error| (Failure::Call, failed(error.to_string())))?;
        let uid = uuid::Uuid::new_v4().to_string();
        let question = review::encode(version, &uid, objects, to);
        let span = control_tracing::child("Call conversion webhook").map(|span| {
            let count = i64::try_from(objects.len()).unwrap_or(i64::MAX);
            span.with("desired-api-version", to)
                .with("object-count", count)
                .with("UID", uid.as_str())
        });
        let asked = client.post_quietly(services, question.into(), PATIENCE);
        let answer = control_tracing::under(span.as_ref(), asked)
            .await
            .map_err(|error| (Failure::Call, failed(error.to_string())))?;
        let answers = review::read(version, &uid, answer)
            .map_err(|error| (Failure::Malformed, failed(error.to_string())))?;
        review::check(objects, answers, to, &kind)
    }

    /// A stored object in the version of `served`, which is one of this kind.
    pub async fn remembered(
        &self,
        services: &dyn ServiceLister,
        object: &Arc<CacheEntry>,
        served: &ServedVersion,
    ) -> Result<Arc<CacheEntry>, Status> {
        let slot = self.slot(object, served);
        let converted = slot.get_or_try_init(|| async {
            let stored = object.value().map_err(Status::internal)?;
            let value = self.one(services, stored, &served.api_version).await?;
            cached(object, value, served)
        });
        converted.await.map(Arc::clone)
    }

    /// Returns the slot of an object's current state in a version.
    pub fn slot(&self, object: &CacheEntry, served: &ServedVersion) -> Slot {
        let place = ConversionKey {
            version: served.resource.version,
            revision: object.revision(),
            key: object.key().into(),
        };
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.slot(place)
    }
}

/// What a webhook made of a stored object, in the form of those that are stored.
pub fn cached(
    object: &CacheEntry,
    mut value: Value,
    served: &ServedVersion,
) -> Result<Arc<CacheEntry>, Status> {
    served.kind.upgrade_stored(&mut value);
    meta::set_resource_version(&mut value, "");
    let json = encode(&value);
    let prepared = PreparedObject::new(&value, json, &served.kind);
    CacheEntry::from_prepared(object.key(), prepared, object.revision(), Change::Modified)
        .map(Arc::new)
        .map_err(Status::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_much_is_remembered() {
        let mut recent = Recent::default();
        let place = |revision| ConversionKey {
            version: "v1",
            revision,
            key: "n/a".into(),
        };
        let first = recent.slot(place(0));
        assert!(Arc::ptr_eq(&first, &recent.slot(place(0))));
        for revision in 1..=REMEMBERED as u64 {
            recent.slot(place(revision));
        }
        assert_eq!(
            (recent.known.len(), recent.order.len()),
            (REMEMBERED, REMEMBERED)
        );
        assert!(!Arc::ptr_eq(&first, &recent.slot(place(0))));
    }
}
