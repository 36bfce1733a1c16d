//! A flow as people read it, and which of them are asked for. What the node
//! answers and what commands print is the same.

use std::{fmt, net::IpAddr, str::FromStr};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Why a request for flows is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowQueryError {
    /// A verdict that does not exist.
    #[error("`{0}` is no verdict: write forwarded, dropped or refused")]
    Verdict(String),
    /// A time that is no number.
    #[error("`{0}` is no number of seconds")]
    Seconds(String),
    /// How many flows is no number.
    #[error("`{0}` is no number of flows")]
    Last(String),
    /// A parameter of a newer version.
    #[error("`{0}` is not known here")]
    Unknown(String),
}

/// The verdict on a flow, or on one packet of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flow {
    /// When.
    pub time: Timestamp,
    /// The node whose programs decided.
    pub node: String,
    /// What became of it.
    pub verdict: FlowVerdict,
    /// At which end; none: policy has no say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// `TCP`, `UDP`, …
    pub protocol: String,
    /// Who began it.
    pub source: FlowEnd,
    /// Who was to get it: who serves, where it was for a service.
    pub destination: FlowEnd,
    /// What was asked for, where it is another than the destination: a service,
    /// by its name or its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Why: a word of docs/reference/counters.md.
    pub reason: String,
    /// The object whose rule decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Its rule, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The device, by its name, or its index where it is gone; `node`: any of the
    /// node's own, by the host firewall.
    pub interface: String,
    /// For how many it stands: flows that are allowed are sampled.
    pub weight: u32,
}

/// One end of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowEnd {
    /// Its address.
    pub address: IpAddr,
    /// Its port; 0 where there are none.
    pub port: u16,
    /// The pod, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The node, where it is one's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// The verdict on a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowVerdict {
    /// It went on.
    Forwarded,
    /// It vanished.
    Dropped,
    /// Its sender was told that nobody serves.
    Refused,
}

/// The end of the flow at which the verdict was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The receiver's.
    Ingress,
    /// The sender's.
    Egress,
}

/// Selects flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowFilter {
    /// Those of this pod (`namespace/name`), or of a namespace's pods
    /// (`namespace/`).
    pub pod: Option<String>,
    /// With this end.
    pub verdict: Option<FlowVerdict>,
    /// Not older than that.
    pub since: Option<SignedDuration>,
}

// === impl Flow ===

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verdict,
            protocol,
            source,
            destination,
            ..
        } = self;
        write!(f, "{verdict} {protocol} {source} to {destination}")?;
        if let Some(service) = &self.service {
            write!(f, " of {service}")?;
        }
        write!(f, ": {}", self.why())
    }
}

impl Flow {
    /// The rule that decided, or the reason.
    #[must_use]
    pub fn why(&self) -> &str {
        self.rule.as_deref().unwrap_or(&self.reason)
    }
}

impl fmt::Display for FlowEnd {
    /// By its name, else by its address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pod, &self.node) {
            (Some(pod), _) => f.write_str(pod)?,
            (None, Some(node)) => write!(f, "node/{node}")?,
            (None, None) if self.address.is_ipv6() && self.port != 0 => {
                write!(f, "[{}]", self.address)?;
            }
            (None, None) => write!(f, "{}", self.address)?,
        }
        match self.port {
            0 => Ok(()),
            port => write!(f, ":{port}"),
        }
    }
}

impl FlowVerdict {
    /// As it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::Dropped => "dropped",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for FlowVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for FlowVerdict {
    type Err = FlowQueryError;

    fn from_str(text: &str) -> Result<Self, FlowQueryError> {
        [Self::Forwarded, Self::Dropped, Self::Refused]
            .into_iter()
            .find(|it| it.word() == text)
            .ok_or_else(|| FlowQueryError::Verdict(text.to_owned()))
    }
}

impl Direction {
    /// As it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

// === impl Filter ===

impl FlowFilter {
    /// Is it one of them, now?
    #[must_use]
    pub fn takes(&self, flow: &Flow, now: Timestamp) -> bool {
        let is_of = |party: &FlowEnd, wanted: &str| {
            party.pod.as_deref().is_some_and(|pod| {
                pod == wanted || (wanted.ends_with('/') && pod.starts_with(wanted))
            })
        };
        let pod = self.pod.as_deref();
        pod.is_none_or(|it| is_of(&flow.source, it) || is_of(&flow.destination, it))
            && self.verdict.is_none_or(|it| it == flow.verdict)
            && self
                .since
                .is_none_or(|it| now.duration_since(flow.time) <= it)
    }

    /// As the query of a request.
    #[must_use]
    pub fn query(&self) -> Vec<(&'static str, String)> {
        let mut query = Vec::new();
        if let Some(pod) = &self.pod {
            query.push(("pod", pod.clone()));
        }
        if let Some(verdict) = self.verdict {
            query.push(("verdict", verdict.to_string()));
        }
        if let Some(since) = self.since {
            query.push(("sinceSeconds", since.as_secs().to_string()));
        }
        query
    }

    /// Takes a pair of a request's query; false: it is none of a filter's.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn take(&mut self, name: &str, value: &str) -> Result<bool, FlowQueryError> {
        match name {
            "pod" => self.pod = Some(value.to_owned()),
            "verdict" => self.verdict = Some(value.parse()?),
            "sinceSeconds" => {
                let seconds = value
                    .parse()
                    .map_err(|_| FlowQueryError::Seconds(value.to_owned()))?;
                self.since = Some(SignedDuration::from_secs(seconds));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn party(address: &str, port: u16, pod: Option<&str>) -> FlowEnd {
        FlowEnd {
            address: address.parse().expect("an address"),
            port,
            pod: pod.map(str::to_owned),
            node: None,
        }
    }

    pub fn flow(second: i64, verdict: FlowVerdict) -> Flow {
        Flow {
            time: Timestamp::from_second(second).expect("a time"),
            node: "n1".to_owned(),
            verdict,
            direction: Some(Direction::Ingress),
            protocol: "TCP".to_owned(),
            source: party("10.0.0.1", 40_000, Some("shop/web")),
            destination: party("10.0.0.2", 5432, Some("shop/db-0")),
            service: None,
            reason: "dropped_policy_ingress".to_owned(),
            policy: None,
            rule: None,
            interface: "orl1".to_owned(),
            weight: 1,
        }
    }

    #[test]
    fn flows_are_told_by_names_and_else_by_addresses() {
        let mut it = flow(0, FlowVerdict::Dropped);
        let text = "dropped TCP shop/web:40000 to shop/db-0:5432: dropped_policy_ingress";
        assert_eq!(it.to_string(), text);
        it.source = party("fd00::1", 7, None);
        it.destination = party("192.0.2.1", 0, None);
        it.service = Some("shop/web".to_owned());
        it.rule = Some("NetworkPolicy shop/p ingress[0]".to_owned());
        let text =
            "dropped TCP [fd00::1]:7 to 192.0.2.1 of shop/web: NetworkPolicy shop/p ingress[0]";
        assert_eq!(it.to_string(), text);
        it.destination.node = Some("n1".to_owned());
        assert_eq!(it.destination.to_string(), "node/n1");
    }

    #[test]
    fn what_is_sent_is_what_is_read() {
        for verdict in [
            FlowVerdict::Forwarded,
            FlowVerdict::Dropped,
            FlowVerdict::Refused,
        ] {
            let it = Flow {
                direction: None,
                policy: Some("p".to_owned()),
                ..flow(1_700_000_000, verdict)
            };
            let text = serde_json::to_string(&it).expect("JSON");
            assert_eq!(serde_json::from_str::<Flow>(&text).expect("a flow"), it);
            assert!(
                text.contains(&format!("\"verdict\":\"{verdict}\"")),
                "{text}"
            );
            assert!(!text.contains("null"), "{text}");
        }
    }

    #[test]
    fn filters_take_either_end_a_namespace_a_verdict_and_what_is_young() {
        let now = Timestamp::from_second(100).expect("a time");
        let it = flow(90, FlowVerdict::Dropped);
        let with = |pairs: &[(&str, &str)]| {
            let mut filter = FlowFilter::default();
            for (name, value) in pairs {
                assert_eq!(filter.take(name, value), Ok(true), "{name}");
            }
            let mut again = FlowFilter::default();
            for (name, value) in filter.query() {
                assert_eq!(again.take(name, &value), Ok(true));
            }
            assert_eq!(again, filter);
            filter.takes(&it, now)
        };
        assert!(with(&[]));
        assert!(with(&[("pod", "shop/web")]) && with(&[("pod", "shop/db-0")]));
        assert!(with(&[("pod", "shop/")]));
        assert!(!with(&[("pod", "shop/db")]) && !with(&[("pod", "sho")]));
        assert!(with(&[("verdict", "dropped")]) && !with(&[("verdict", "forwarded")]));
        assert!(with(&[("sinceSeconds", "10")]) && !with(&[("sinceSeconds", "9")]));
        let mut filter = FlowFilter::default();
        assert_eq!(filter.take("follow", "true"), Ok(false));
        assert!(filter.take("verdict", "lost").is_err());
        assert!(filter.take("sinceSeconds", "soon").is_err());
    }
}
