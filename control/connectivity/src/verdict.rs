//! Whether an outcome is the expected one, and if not, why.

use std::{collections::BTreeSet, net::IpAddr};

use crate::operation::{Expectation, ExpectedServers, Failure, Outcome};

/// Reason why an outcome is not the expected one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The operation failed.
    #[error("{0}")]
    Failed(String),
    /// There is an answer where none is allowed.
    #[error("it is answered, and must not be")]
    Answered,
    /// A name resolves that must not exist.
    #[error("the name does not exist, yet resolves to {}", joined(.0))]
    Exists(Vec<IpAddr>),
    /// A name resolves to other addresses.
    #[error("resolves to {}, expected {}", joined(found), joined(wanted))]
    Addresses {
        /// The addresses of the name.
        found: Vec<IpAddr>,
        /// The expected addresses.
        wanted: Vec<IpAddr>,
    },
    /// The outcome is of another kind.
    #[error("{outcome} does not answer {expectation}")]
    Kind {
        /// The outcome.
        outcome: String,
        /// The expectation.
        expectation: String,
    },
    /// Another server answers.
    #[error("`{found}` answers, expected {}", wanted.join(" or "))]
    Server {
        /// The server.
        found: String,
        /// The expected servers.
        wanted: Vec<String>,
    },
    /// A server never answers.
    #[error("`{0}` never answers")]
    Silent(String),
    /// Several servers answer connections that one must get.
    #[error("{} answer, expected one server for all connections", .0.join(" and "))]
    Spread(Vec<String>),
    /// The server sees other addresses than the client's.
    #[error("the server sees {} instead of the client's address", joined(.0))]
    Source(Vec<IpAddr>),
}

/// Compares an outcome with an expectation.
///
/// # Errors
/// [`Mismatch`].
pub fn judge(expectation: &Expectation, outcome: &Outcome) -> Result<(), Mismatch> {
    match (expectation, outcome) {
        (Expectation::NoAnswer, Outcome::Failed { failure, detail }) => match failure {
            Failure::Refused | Failure::TimedOut | Failure::Unreachable => Ok(()),
            _ => Err(Mismatch::Failed(detail.clone())),
        },
        (Expectation::NoAnswer, _) => Err(Mismatch::Answered),
        (
            Expectation::NoSuchName,
            Outcome::Failed {
                failure: Failure::NoSuchName,
                ..
            },
        )
        | (Expectation::Success, Outcome::Answered { .. } | Outcome::Done { .. }) => Ok(()),
        (Expectation::Success, Outcome::Resolved { addresses }) if !addresses.is_empty() => Ok(()),
        (Expectation::NoSuchName, Outcome::Resolved { addresses }) => {
            Err(Mismatch::Exists(addresses.clone()))
        }
        (_, Outcome::Failed { detail, .. }) => Err(Mismatch::Failed(detail.clone())),
        (Expectation::Addresses { addresses }, Outcome::Resolved { addresses: found }) => {
            let wanted: BTreeSet<_> = addresses.iter().collect();
            let resolved: BTreeSet<_> = found.iter().collect();
            if wanted == resolved {
                Ok(())
            } else {
                Err(Mismatch::Addresses {
                    found: found.clone(),
                    wanted: addresses.clone(),
                })
            }
        }
        (
            Expectation::Servers(wanted),
            Outcome::Answered {
                servers,
                translated,
            },
        ) => {
            let names: BTreeSet<&str> = servers.keys().map(String::as_str).collect();
            wanted.judge(&names, translated)
        }
        (expectation, outcome) => Err(Mismatch::Kind {
            outcome: format!("{outcome:?}"),
            expectation: format!("{expectation:?}"),
        }),
    }
}

impl ExpectedServers {
    fn judge(&self, names: &BTreeSet<&str>, translated: &[IpAddr]) -> Result<(), Mismatch> {
        let allowed = |name: &str| self.among.is_empty() || self.among.iter().any(|it| it == name);
        if let Some(other) = names.iter().find(|name| !allowed(name)) {
            return Err(Mismatch::Server {
                found: (*other).to_owned(),
                wanted: self.among.clone(),
            });
        }
        if self.each
            && let Some(missing) = self.among.iter().find(|it| !names.contains(it.as_str()))
        {
            return Err(Mismatch::Silent(missing.clone()));
        }
        if self.same && names.len() > 1 {
            let names = names.iter().map(|name| (*name).to_owned());
            return Err(Mismatch::Spread(names.collect()));
        }
        if self.source_kept && !translated.is_empty() {
            return Err(Mismatch::Source(translated.to_vec()));
        }
        Ok(())
    }
}

fn joined(addresses: &[IpAddr]) -> String {
    if addresses.is_empty() {
        return "no address".to_owned();
    }
    let words: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(names: &[&str], translated: &[&str]) -> Outcome {
        Outcome::Answered {
            servers: names.iter().map(|name| ((*name).to_owned(), 1)).collect(),
            translated: translated.iter().map(|it| it.parse().unwrap()).collect(),
        }
    }

    fn failed(failure: Failure) -> Outcome {
        Outcome::Failed {
            failure,
            detail: "timed out".to_owned(),
        }
    }

    #[test]
    fn each_expected_server_answers_and_no_other() {
        let wanted = ExpectedServers::each(["a", "b"]).into();
        assert_eq!(judge(&wanted, &answered(&["a", "b"], &[])), Ok(()));
        let missing = judge(&wanted, &answered(&["a"], &[])).unwrap_err();
        assert_eq!(missing.to_string(), "`b` never answers");
        let other = judge(&wanted, &answered(&["a", "b", "c"], &[])).unwrap_err();
        assert_eq!(other.to_string(), "`c` answers, expected a or b");
    }

    #[test]
    fn affinity_is_one_server_and_a_kept_source_is_the_clients() {
        let one = ExpectedServers::among(["a", "b"]).by_one().into();
        assert_eq!(judge(&one, &answered(&["b"], &[])), Ok(()));
        assert!(judge(&one, &answered(&["a", "b"], &[])).is_err());
        let kept = ExpectedServers::among(["a"]).source_kept().into();
        assert_eq!(judge(&kept, &answered(&["a"], &[])), Ok(()));
        let why = judge(&kept, &answered(&["a"], &["10.0.0.1"])).unwrap_err();
        assert!(why.to_string().contains("10.0.0.1"), "{why}");
    }

    #[test]
    fn a_denied_connection_is_refused_or_silent_but_not_unresolved() {
        let denied = Expectation::NoAnswer;
        for good in [Failure::Refused, Failure::TimedOut, Failure::Unreachable] {
            assert_eq!(judge(&denied, &failed(good)), Ok(()));
        }
        for bad in [Failure::NoSuchName, Failure::NameServer, Failure::Other] {
            assert!(judge(&denied, &failed(bad)).is_err(), "{bad:?}");
        }
        assert!(judge(&denied, &answered(&["a"], &[])).is_err());
        assert!(judge(&denied, &Outcome::Done { bytes: 1 }).is_err());
    }

    #[test]
    fn names_have_exactly_their_addresses() {
        let addresses = |list: &[&str]| list.iter().map(|it| it.parse().unwrap()).collect();
        let resolved = |list: &[&str]| Outcome::Resolved {
            addresses: addresses(list),
        };
        let wanted = Expectation::Addresses {
            addresses: addresses(&["10.0.0.1", "10.0.0.2"]),
        };
        assert_eq!(judge(&wanted, &resolved(&["10.0.0.2", "10.0.0.1"])), Ok(()));
        assert!(judge(&wanted, &resolved(&["10.0.0.2"])).is_err());
        assert!(judge(&wanted, &resolved(&[])).is_err());
        assert!(judge(&Expectation::Success, &resolved(&[])).is_err());
        assert!(judge(&Expectation::NoSuchName, &resolved(&["10.0.0.1"])).is_err());
        let missing = failed(Failure::NoSuchName);
        assert_eq!(judge(&Expectation::NoSuchName, &missing), Ok(()));
        assert!(judge(&Expectation::NoSuchName, &failed(Failure::TimedOut)).is_err());
    }

    #[test]
    fn what_fails_says_its_own_reason() {
        let why = judge(&Expectation::Success, &failed(Failure::TimedOut)).unwrap_err();
        assert_eq!(why.to_string(), "timed out");
    }
}
