//! `evictionHard` and its companions: what has to stay free on the node.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Error;
use super::units::{size, time};

/// An absolute amount, or a fraction of the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Bytes, inodes or processes.
    Units(u64),
    /// Of 100.
    Percent(f64),
}

impl Amount {
    /// Returns the amount for a capacity.
    #[must_use]
    pub fn amount_of(self, capacity: u64) -> u64 {
        match self {
            Self::Units(units) => units,
            Self::Percent(percent) => (capacity as f64 * percent / 100.0) as u64,
        }
    }
}

/// An eviction signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// `memory.available`
    Memory,
    /// `nodefs.available`
    Disk,
    /// `nodefs.inodesFree`
    Inodes,
    /// `imagefs.available`
    ImageDisk,
    /// `imagefs.inodesFree`
    ImageInodes,
    /// `pid.available`
    Pids,
}

impl Signal {
    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory.available",
            Self::Disk => "nodefs.available",
            Self::Inodes => "nodefs.inodesFree",
            Self::ImageDisk => "imagefs.available",
            Self::ImageInodes => "imagefs.inodesFree",
            Self::Pids => "pid.available",
        }
    }

    /// By its name in the configuration.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "memory.available" => Self::Memory,
            "nodefs.available" => Self::Disk,
            "nodefs.inodesFree" => Self::Inodes,
            "imagefs.available" => Self::ImageDisk,
            "imagefs.inodesFree" => Self::ImageInodes,
            "pid.available" => Self::Pids,
            _ => return None,
        })
    }
}

/// An eviction threshold of one signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Of what.
    pub signal: Signal,
    /// How much.
    pub least: Amount,
    /// How long it may be less; none is not at all.
    pub grace: Option<Duration>,
    /// How much more has to be free again before it is enough.
    pub reclaim: Amount,
}

/// `evictionHard` and related settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Eviction {
    /// What has to stay free.
    pub thresholds: Vec<Threshold>,
    /// How long a condition of the node outlasts its cause.
    pub transition: Duration,
    /// Seconds that a pod gets at most where the threshold had a grace.
    pub most_grace: i64,
}

impl Eviction {
    /// How much has to stay free of `capacity`, or pods go at once.
    #[must_use]
    pub fn hard(&self, signal: Signal, capacity: u64) -> u64 {
        let hard = self.thresholds.iter().filter(|t| t.grace.is_none());
        let own = hard.filter(|t| t.signal == signal);
        own.map(|t| t.least.amount_of(capacity)).max().unwrap_or(0)
    }
}

/// The thresholds that the kubelet has when none are given.
const HARD: [(&str, &str); 5] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
];

pub(super) fn thresholds(
    hard: Option<BTreeMap<String, String>>,
    soft: &BTreeMap<String, String>,
    graces: &BTreeMap<String, String>,
    reclaims: &BTreeMap<String, String>,
    merge: bool,
) -> Result<Vec<Threshold>, Error> {
    let defaults = HARD.map(|(k, v)| (k.to_owned(), v.to_owned()));
    let hard = match hard {
        None => defaults.into(),
        Some(own) if merge => {
            let mut all: BTreeMap<String, String> = defaults.into();
            all.extend(own);
            all
        }
        Some(own) => own,
    };
    let mut all = Vec::new();
    for (list, is_soft) in [(&hard, false), (soft, true)] {
        for (name, text) in list {
            let Some(signal) = Signal::named(name) else {
                // `containerfs.…` and `allocatableMemory…` are set by the kubelet itself
                continue;
            };
            let least = amount("evictionHard", text)?;
            if matches!(least, Amount::Percent(p) if p <= 0.0) {
                // `0%` switches a threshold off
                continue;
            }
            let grace = if is_soft {
                let text = graces.get(name).ok_or_else(|| Error::Value {
                    field: "evictionSoft",
                    value: name.clone(),
                    why: "has no entry in evictionSoftGracePeriod",
                })?;
                Some(time("evictionSoftGracePeriod", Some(text.clone()), 0)?)
            } else {
                None
            };
            let reclaim = reclaims.get(name).map_or(Ok(Amount::Units(0)), |text| {
                amount("evictionMinimumReclaim", text)
            })?;
            all.push(Threshold {
                signal,
                least,
                grace,
                reclaim,
            });
        }
    }
    Ok(all)
}

fn amount(field: &'static str, text: &str) -> Result<Amount, Error> {
    let wrong = |why| Error::Value {
        field,
        value: text.to_owned(),
        why,
    };
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().map_err(|_| wrong("is no percentage"))?;
        return if (0.0..=100.0).contains(&percent) {
            Ok(Amount::Percent(percent))
        } else {
            Err(wrong("must be between 0% and 100%"))
        };
    }
    size(field, text).map(Amount::Units)
}
