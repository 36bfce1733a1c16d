//! How devices of claims are, as their drivers tell: pure.
//!
//! A driver tells of all its devices each time (KEP-4680). What it told is good
//! for as long as it said, and is forgotten when it goes; nothing of it is kept
//! over a restart, since it would be too old by then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::api;

/// How long it is good for what a driver told without saying how long.
const GOOD_FOR: Duration = Duration::from_secs(30);

/// The most bytes of a message that a status can hold.
const LONGEST: usize = 1024;

/// The pool and name of a device.
pub type DeviceId = (String, String);

/// The health that a driver reported for a device, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReportedHealth {
    health: api::HealthStatus,
    message: String,
    good_for: Duration,
    at: Instant,
}

impl ReportedHealth {
    fn is_good(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= self.good_for
    }
}

/// The health of devices as their drivers report it.
#[derive(Clone, Debug, Default)]
pub struct DeviceHealth(BTreeMap<String, BTreeMap<DeviceId, ReportedHealth>>);

impl DeviceHealth {
    /// Takes in what a driver tells of its devices: those that are not as they
    /// were.
    pub fn take(
        &mut self,
        driver: &str,
        devices: Vec<api::DeviceHealth>,
        now: Instant,
    ) -> BTreeSet<DeviceId> {
        let known = self.0.entry(driver.to_owned()).or_default();
        let mut changed = BTreeSet::new();
        let mut named = BTreeSet::new();
        for device in devices {
            let health = device.health();
            let seconds = u64::try_from(device.health_check_timeout_seconds).unwrap_or(0);
            let place = device.device.unwrap_or_default();
            let place = (place.pool_name, place.device_name);
            let told = ReportedHealth {
                health,
                message: shortened(device.message),
                good_for: match seconds {
                    0 => GOOD_FOR,
                    seconds => Duration::from_secs(seconds),
                },
                at: now,
            };
            let same = known.get(&place).is_some_and(|before| {
                (before.health, &before.message, before.good_for)
                    == (told.health, &told.message, told.good_for)
            });
            if !same {
                changed.insert(place.clone());
            }
            named.insert(place.clone());
            known.insert(place, told);
        }
        known.retain(|place, told| {
            let stays = named.contains(place) || told.is_good(now);
            if !stays {
                changed.insert(place.clone());
            }
            stays
        });
        changed
    }

    /// Forgets what a driver told: of which devices.
    pub fn forget(&mut self, driver: &str) -> BTreeSet<DeviceId> {
        let known = self.0.remove(driver).unwrap_or_default();
        known.into_keys().collect()
    }

    /// How a device is, and what its driver says to that.
    #[must_use]
    pub fn for_container(
        &self,
        driver: &str,
        pool: &str,
        device: &str,
        now: Instant,
    ) -> (&'static str, Option<String>) {
        let place = (pool.to_owned(), device.to_owned());
        let told = self.0.get(driver).and_then(|known| known.get(&place));
        let Some(told) = told.filter(|told| told.is_good(now)) else {
            return ("Unknown", None);
        };
        let word = match told.health {
            api::HealthStatus::Unknown => "Unknown",
            api::HealthStatus::Healthy => "Healthy",
            api::HealthStatus::Unhealthy => "Unhealthy",
        };
        let message = Some(told.message.clone());
        (word, message.filter(|message| !message.is_empty()))
    }
}

/// Not longer than a status can hold, and whole characters only.
fn shortened(mut message: String) -> String {
    if message.len() > LONGEST {
        let end = message.floor_char_boundary(LONGEST - 3);
        message.truncate(end);
        message.push_str("...");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(device: &str, health: api::HealthStatus, seconds: i64) -> api::DeviceHealth {
        api::DeviceHealth {
            device: Some(api::DeviceIdentifier {
                pool_name: "p".to_owned(),
                device_name: device.to_owned(),
            }),
            health: health.into(),
            health_check_timeout_seconds: seconds,
            message: String::new(),
        }
    }

    fn place(device: &str) -> DeviceId {
        ("p".to_owned(), device.to_owned())
    }

    #[test]
    fn a_device_is_as_it_was_told_for_as_long_as_that_is_good() {
        use api::HealthStatus::{Healthy, Unhealthy};
        let (mut health, begin) = (DeviceHealth::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let both = vec![told("a", Healthy, 0), told("b", Unhealthy, 100)];
        let changed = health.take("d", both.clone(), begin);
        assert_eq!(changed, [place("a"), place("b")].into());
        assert!(health.take("d", both, begin).is_empty(), "nothing changed");
        let is =
            |health: &DeviceHealth, device: &str, at| health.for_container("d", "p", device, at).0;
        assert_eq!(is(&health, "a", after(30)), "Healthy");
        assert_eq!(is(&health, "a", after(31)), "Unknown");
        assert_eq!(is(&health, "b", after(100)), "Unhealthy");
        assert_eq!(is(&health, "c", begin), "Unknown");
        assert_eq!(
            health.for_container("e", "p", "a", begin).0,
            "Unknown",
            "another driver's"
        );
        // one is not told of any more
        let changed = health.take("d", vec![told("b", Unhealthy, 100)], after(10));
        assert!(changed.is_empty(), "what was told of it is still good");
        let changed = health.take("d", vec![told("b", Healthy, -1)], after(40));
        assert_eq!(changed, [place("a"), place("b")].into());
        assert_eq!(is(&health, "b", after(70)), "Healthy");
        assert_eq!(is(&health, "b", after(71)), "Unknown");
        assert_eq!(health.forget("d"), [place("b")].into());
        assert_eq!(is(&health, "b", after(41)), "Unknown");
    }

    #[test]
    fn messages_are_cut_to_what_a_status_can_hold_between_characters() {
        assert_eq!(shortened("short".to_owned()), "short");
        assert_eq!(shortened("x".repeat(LONGEST)).len(), LONGEST);
        let cut = shortened("ä".repeat(LONGEST));
        assert!(
            cut.len() <= LONGEST && cut.ends_with("ä..."),
            "{}",
            cut.len()
        );
    }
}
