//! Priority levels as they are configured.

use control_types::meta;
use control_types::value::Value;
use serde::Deserialize;

use crate::Dealer;

/// How much of a level's seats one request may hold at most.
const LARGEST_PART: f64 = 0.15;

/// Error for an unusable object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` cannot be used: {why}")]
pub struct SpecError {
    /// The object's name.
    pub name: String,
    /// The problem.
    pub why: String,
}

/// How many queues a level has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueingSettings {
    /// Queues.
    pub queues: usize,
    /// The number of them in which a flow may wait.
    pub hand: usize,
    /// How many requests wait in one.
    pub length: usize,
}

/// The treatment of a request that finds no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// All find one.
    Exempt,
    /// It is refused.
    Reject,
    /// It waits.
    Queue(QueueingSettings),
}

/// A priority level as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelSpec {
    /// Its name.
    pub name: String,
    /// Its uid, which responses contain.
    pub uid: String,
    /// Its share of the server's seats, in proportion to the others'.
    pub shares: u32,
    /// How much of its seats it lends, in percent.
    pub lendable: u32,
    /// How much it borrows at most, in percent of its seats; `None` for no limit.
    pub borrowing: Option<u32>,
    /// The treatment of requests that find no seat.
    pub discipline: Discipline,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LevelFields {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    limited: Option<LimitedLevel>,
    #[serde(default)]
    exempt: Option<Shares>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LimitedLevel {
    nominal_concurrency_shares: Option<u32>,
    lendable_percent: Option<u32>,
    borrowing_limit_percent: Option<u32>,
    limit_response: Response,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Shares {
    nominal_concurrency_shares: Option<u32>,
    lendable_percent: Option<u32>,
}

#[derive(Deserialize)]
struct Response {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    queuing: Option<Queues>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queues {
    queues: Option<u32>,
    hand_size: Option<u32>,
    queue_length_limit: Option<u32>,
}

// === impl LevelSpec ===

impl LevelSpec {
    /// Reads a stored object.
    ///
    /// # Errors
    /// When its spec contradicts itself or is not of the shape of
    /// `flowcontrol.apiserver.k8s.io/v1`.
    pub fn read(object: &Value) -> Result<Self, SpecError> {
        let name = meta::name(object).to_owned();
        let wrong = |why: String| SpecError {
            name: name.clone(),
            why,
        };
        let spec = object.get("spec").cloned().unwrap_or_else(Value::object);
        let spec: LevelFields =
            control_types::value::from_value(&spec).map_err(|error| wrong(error.to_string()))?;
        let uid = meta::uid(object).to_owned();
        match (spec.kind.as_str(), spec.limited) {
            ("Exempt", _) => {
                let exempt = spec.exempt.unwrap_or_default();
                Ok(Self {
                    uid,
                    shares: exempt.nominal_concurrency_shares.unwrap_or(0),
                    lendable: exempt.lendable_percent.unwrap_or(0).min(100),
                    borrowing: None,
                    discipline: Discipline::Exempt,
                    name,
                })
            }
            ("Limited", Some(limited)) => Ok(Self {
                uid,
                shares: limited.nominal_concurrency_shares.unwrap_or(30),
                lendable: limited.lendable_percent.unwrap_or(0).min(100),
                borrowing: limited.borrowing_limit_percent,
                discipline: discipline(&limited.limit_response)
                    .map_err(|error| wrong(error.to_string()))?,
                name,
            }),
            (kind, _) => Err(wrong(format!("its type `{kind}` has no settings"))),
        }
    }

    /// The maximum number of seats of one request, given the level's nominal seats;
    /// `None` where requests do not wait for others.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a number of seats"
    )]
    pub fn widest(&self, nominal: usize) -> Option<u32> {
        let Discipline::Queue(queueing) = self.discipline else {
            return None;
        };
        let part = (nominal as f64 * LARGEST_PART).ceil();
        let hand = (nominal / queueing.hand.max(1)) as f64;
        Some(part.min(hand).max(1.0) as u32)
    }
}

/// Error for a limit response that cannot be applied.
#[derive(Debug, thiserror::Error)]
enum DisciplineError {
    #[error("hands of {hand} cannot be dealt from {queues} queues")]
    Hand { hand: usize, queues: usize },
    #[error("its limit response `Queue` says nothing of queues")]
    NoQueues,
    #[error("its limit response `{0}` is not known")]
    Unknown(String),
}

fn discipline(response: &Response) -> Result<Discipline, DisciplineError> {
    match (response.kind.as_str(), &response.queuing) {
        ("Reject", _) => Ok(Discipline::Reject),
        ("Queue", Some(queuing)) => {
            let number = |given: Option<u32>, usual| {
                usize::try_from(given.unwrap_or(usual)).unwrap_or(usize::MAX)
            };
            let queueing = QueueingSettings {
                queues: number(queuing.queues, 64),
                hand: number(queuing.hand_size, 8),
                length: number(queuing.queue_length_limit, 50),
            };
            Dealer::new(queueing.queues, queueing.hand)
                .map(|_| Discipline::Queue(queueing))
                .ok_or(DisciplineError::Hand {
                    hand: queueing.hand,
                    queues: queueing.queues,
                })
        }
        ("Queue", None) => Err(DisciplineError::NoQueues),
        (kind, _) => Err(DisciplineError::Unknown(kind.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn levels_are_read_with_their_usual_values() {
        let read = |spec: Value| {
            LevelSpec::read(&value!({"metadata": {"name": "x", "uid": "u"}, "spec": (spec)}))
        };
        let queued = read(value!({
            "type": "Limited",
            "limited": {"lendablePercent": 33, "limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50}}}
        }))
        .expect("a level");
        assert_eq!(
            (queued.shares, queued.lendable, queued.borrowing),
            (30, 33, None)
        );
        assert_eq!(queued.widest(73), Some(11));
        assert_eq!(queued.widest(3), Some(1));
        let exempt = read(value!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 5}}))
            .expect("a level");
        assert_eq!((exempt.shares, exempt.discipline), (5, Discipline::Exempt));
        for broken in [
            value!({"type": "Limited"}),
            value!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue"}}}),
            value!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 6}}}}),
            value!({"type": 7}),
        ] {
            let error = read(broken).expect_err("refused");
            assert!(
                error.to_string().starts_with("`x` cannot be used"),
                "{error}"
            );
        }
    }
}
