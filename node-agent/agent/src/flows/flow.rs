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
#[path = "flow_tests.rs"]
pub(super) mod tests;
