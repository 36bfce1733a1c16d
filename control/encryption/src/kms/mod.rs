//! KMS v2: keys that a key manager beside this server encrypts (KEP-3299,
//! `k8s.io/kms/apis/v2`).
//!
//! The manager encrypts a seed, once for as long as its own key is unchanged. Each value
//! is encrypted with a key that is derived from the seed; the encrypted seed is stored
//! beside the value, so that any server with the same manager reads it.
//!
//! Values are read and written synchronously, while the manager is called over a socket:
//! a separate thread does that. Reading waits for it when a seed is not known yet, which
//! happens once for each key of the manager and each server that wrote; writing never
//! waits.

mod envelope;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use control_kms::{Client, EncryptedData};
use rustc_hash::FxHashMap;
use sha2::{Digest as _, Sha256};

use self::envelope::{EncryptedObject, SEED, Seed};
use crate::aes::{Gcm, random};
use crate::cipher::{Cipher as _, OpenedValue};
use crate::error::Error;

/// For so long after the manager last did its part values are still encrypted.
const WRITES: Duration = Duration::from_secs(3 * 60);
/// The interval of health checks of the manager.
const EVERY: Duration = Duration::from_secs(60);
/// How often when it is not.
const AGAIN: Duration = Duration::from_secs(10);
/// The most seeds that are remembered.
const REMEMBERED: usize = 1024;
/// The most bytes of the manager's key id, and of an encrypted seed.
const SMALL: usize = 1024;

/// A key manager.
pub(crate) struct Kms {
    name: String,
    client: Client,
    state: ArcSwapOption<State>,
    wrong: Mutex<Option<String>>,
    seeds: Mutex<FxHashMap<[u8; 32], KeySource>>,
}

/// The current key for encryption.
struct State {
    seed: Arc<Seed>,
    key_id: String,
    encrypted: Vec<u8>,
    annotations: BTreeMap<String, Vec<u8>>,
    until: Instant,
}

/// What the manager decrypted: a seed, or the key itself in data of servers before 1.29.
#[derive(Clone)]
enum KeySource {
    Seed(Arc<Seed>),
    Key(Arc<Gcm>),
}

impl std::fmt::Debug for Kms {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Kms")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Kms {
    /// Starts to talk to the manager at a socket, and waits for its first answer.
    /// A manager that does not answer yet is no error: it may start later.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(name: &str, socket: &str, timeout: Duration) -> Result<Arc<Self>, Error> {
        let client = Client::start(name, socket, timeout).map_err(|source| Error::Kms {
            name: name.to_owned(),
            detail: source.to_string(),
        })?;
        let kms = Arc::new(Self {
            name: name.to_owned(),
            client,
            state: ArcSwapOption::empty(),
            wrong: Mutex::new(None),
            seeds: Mutex::default(),
        });
        kms.probe();
        let probed = Arc::downgrade(&kms);
        let spawned = std::thread::Builder::new()
            .name(format!("kms-{name}"))
            .spawn(move || {
                loop {
                    let Some(kms) = probed.upgrade() else { return };
                    let well = kms.health().is_ok();
                    drop(kms);
                    // In small steps, so that a new configuration is not delayed.
                    let end = Instant::now() + if well { EVERY } else { AGAIN };
                    while Instant::now() < end {
                        std::thread::sleep(Duration::from_millis(500));
                        if probed.strong_count() == 0 {
                            return;
                        }
                    }
                    if let Some(kms) = probed.upgrade() {
                        kms.probe();
                    }
                }
            });
        spawned.map_err(|error| kms.error(error.to_string()))?;
        Ok(kms)
    }

    fn error(&self, detail: impl Into<String>) -> Error {
        Error::Kms {
            name: self.name.clone(),
            detail: detail.into(),
        }
    }

    /// Whether the manager did its part when it was last asked.
    ///
    /// # Errors
    /// What was wrong.
    pub fn health(&self) -> Result<(), Error> {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        match &*wrong {
            None => Ok(()),
            Some(detail) => Err(self.error(detail.as_str())),
        }
    }

    /// Asks the manager how it is, and for a seed if its key is another.
    pub(crate) fn probe(&self) {
        let result = self.renew();
        if let Err(error) = &result {
            tracing::warn!(name = self.name, %error, "key manager is unhealthy");
        }
        let detail = result.err().map(|error| match error {
            Error::Kms { detail, .. } => detail,
            other => other.to_string(),
        });
        *self.wrong.lock().unwrap_or_else(PoisonError::into_inner) = detail;
    }

    fn renew(&self) -> Result<(), Error> {
        // Taken before the manager is called: an upper bound.
        let until = Instant::now() + WRITES;
        let status = self
            .client
            .status()
            .map_err(|why| self.error(why.to_string()))?;
        if status.healthz != "ok" {
            return Err(self.error(format!("it says of itself: {}", status.healthz)));
        }
        if !matches!(&*status.version, "v2" | "v2beta1") {
            return Err(self.error(format!(
                "expected KMS API version v2, got {}",
                status.version
            )));
        }
        if status.key_id.is_empty() || status.key_id.len() > SMALL {
            return Err(self.error("its key id is empty or too long"));
        }
        if let Some(state) = self.state.load_full()
            && state.key_id == status.key_id
        {
            self.state.store(Some(Arc::new(State {
                seed: Arc::clone(&state.seed),
                key_id: state.key_id.clone(),
                encrypted: state.encrypted.clone(),
                annotations: state.annotations.clone(),
                until,
            })));
            return Ok(());
        }
        let mut bytes = [0; 32];
        random(&mut bytes)?;
        let answer = self
            .client
            .encrypt(bytes.to_vec())
            .map_err(|why| self.error(why.to_string()))?;
        if answer.key_id != status.key_id {
            return Err(self.error("it encrypts with another key than it says it has"));
        }
        if answer.ciphertext.is_empty() || answer.ciphertext.len() > SMALL {
            return Err(self.error("what it made of a seed is empty or too long"));
        }
        let seed = Arc::new(Seed::new(&bytes));
        let state = State {
            seed: Arc::clone(&seed),
            key_id: answer.key_id,
            encrypted: answer.ciphertext,
            annotations: answer.annotations,
            until,
        };
        let id = identity(SEED, &state.encrypted, &state.key_id, &state.annotations);
        self.remember(id, KeySource::Seed(seed));
        self.state.store(Some(Arc::new(state)));
        Ok(())
    }

    /// Appends an encrypted value.
    ///
    /// # Errors
    /// When the manager has not done its part for some minutes.
    pub fn seal(&self, place: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let state = self
            .state
            .load_full()
            .filter(|state| Instant::now() < state.until);
        let Some(state) = state else {
            self.health()?;
            return Err(self.error("it was not asked for too long"));
        };
        let mut data = Vec::with_capacity(value.len() + 64);
        state.seed.seal(place, value, &mut data)?;
        let object = EncryptedObject {
            encrypted_data: data,
            key_id: state.key_id.clone(),
            encrypted_dek_source: state.encrypted.clone(),
            annotations: state.annotations.clone(),
            encrypted_dek_source_type: SEED,
        };
        // Writing to a vector cannot fail.
        let _ = prost::Message::encode(&object, out);
        Ok(())
    }

    /// The value of encrypted bytes.
    ///
    /// # Errors
    /// When the manager cannot decrypt their seed, or they were changed.
    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Result<OpenedValue, Error> {
        let object: EncryptedObject = prost::Message::decode(sealed)
            .map_err(|_| self.error("a stored value is none of its"))?;
        let kind = object.encrypted_dek_source_type;
        let id = identity(
            kind,
            &object.encrypted_dek_source,
            &object.key_id,
            &object.annotations,
        );
        let source = match self.remembered(&id) {
            Some(source) => source,
            None => self.fetch(id, &object)?,
        };
        let data = &object.encrypted_data;
        let value = match source {
            KeySource::Seed(seed) => seed.open(place, data),
            KeySource::Key(key) => key.open(place, data),
        };
        let stale = self
            .state
            .load()
            .as_ref()
            .is_none_or(|state| state.key_id != object.key_id || kind != SEED);
        match value {
            Some(value) => Ok(OpenedValue { value, stale }),
            None => Err(Error::Refused {
                provider: self.name.clone(),
            }),
        }
    }

    fn fetch(&self, id: [u8; 32], object: &EncryptedObject) -> Result<KeySource, Error> {
        let asked = EncryptedData {
            ciphertext: object.encrypted_dek_source.clone(),
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        };
        let bytes = self
            .client
            .decrypt(asked)
            .map_err(|why| self.error(format!("failed to decrypt DEK, error: {why}")))?;
        let source = if object.encrypted_dek_source_type == SEED {
            if bytes.len() < 32 {
                return Err(self.error("the seed of a stored value is too short"));
            }
            KeySource::Seed(Arc::new(Seed::new(&bytes)))
        } else {
            let key = Gcm::new(&bytes)
                .ok_or_else(|| self.error("the key of a stored value has a wrong length"))?;
            KeySource::Key(Arc::new(key))
        };
        self.remember(id, source.clone());
        Ok(source)
    }

    fn remembered(&self, id: &[u8; 32]) -> Option<KeySource> {
        let seeds = self.seeds.lock().unwrap_or_else(PoisonError::into_inner);
        seeds.get(id).cloned()
    }

    fn remember(&self, id: [u8; 32], source: KeySource) {
        let mut seeds = self.seeds.lock().unwrap_or_else(PoisonError::into_inner);
        if seeds.len() >= REMEMBERED {
            seeds.clear();
        }
        seeds.insert(id, source);
    }
}

/// Returns the cache key of an encrypted seed. It includes lengths, so that no part of
/// one field can be taken for a part of the next.
fn identity(
    kind: i32,
    encrypted: &[u8],
    key_id: &str,
    annotations: &BTreeMap<String, Vec<u8>>,
) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    add(&kind.to_be_bytes());
    add(encrypted);
    add(key_id.as_bytes());
    for (key, value) in annotations {
        add(key.as_bytes());
        add(value);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
