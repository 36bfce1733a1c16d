//! Expectations: a file of flows that are to be allowed or denied, checked
//! against objects, live or out of manifests.
//!
//! ```yaml
//! apiVersion: orlop.dev/v1alpha1
//! kind: PolicyTest
//! flows:
//! - {from: shop/app=web, to: shop/db-0, port: 5432, expect: allow}
//! - {from: 192.0.2.1, to: [shop/web, node/n1], port: 53/UDP, expect: deny}
//! matrix:
//! - port: 80
//!   allow: {shop/web: [shop/db-0], shop/db-0: []}   # all else among these is denied
//! ```
//!
//! An end is a pod (`namespace/name`; a workload's name stands for its pods),
//! pods by labels (`namespace/key=value,…`), `namespace/*`, a node
//! (`node/name`) or an address. A port is `number/PROTOCOL`, TCP if it is not
//! said; or `icmp`.

mod change;
mod objects;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ebpf_abi::Protocol;
use serde::Deserialize;
use serde_json::Value;

use crate::compiler::{Compiler, Config, End, Explanation, Side};
use crate::labels::Labels;
use crate::policy::protocol;

pub use change::{Change, changes};
pub use objects::Objects;

/// Error that prevents a check.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// A document that is not what its kind says.
    Document {
        /// Its kind and name.
        what: String,
        /// The problem.
        why: String,
    },
    /// An unknown end.
    End(String),
    /// An invalid port.
    Port(String),
    /// There are no expectations.
    Nothing,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document { what, why } => write!(f, "cannot read {what}: {why}"),
            Self::End(text) => write!(
                f,
                "`{text}` is no pod, workload, node or address here: name it as namespace/name, \
                 namespace/key=value, node/name or an address"
            ),
            Self::Port(text) => {
                write!(
                    f,
                    "`{text}` is no port: write 80, 53/UDP, 9000/SCTP or icmp"
                )
            }
            Self::Nothing => f.write_str("no PolicyTest with flows or a matrix is given"),
        }
    }
}

/// A `PolicyTest`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyTest {
    /// `orlop.dev/v1alpha1`.
    pub api_version: String,
    /// `PolicyTest`.
    pub kind: String,
    /// For people.
    #[serde(default)]
    pub description: String,
    /// Single flows.
    #[serde(default)]
    pub flows: Vec<ExpectedFlows>,
    /// All flows among some ends.
    #[serde(default)]
    pub matrix: Vec<Matrix>,
}

/// Flows with one expectation.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ExpectedFlows {
    /// The client.
    pub from: OneOrMany,
    /// The server.
    pub to: OneOrMany,
    /// Destination ports.
    pub port: OneOrMany,
    /// The expected verdict.
    pub expect: ExpectedVerdict,
}

/// All flows between the named ends.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Destination ports.
    pub port: OneOrMany,
    /// The ends that each may reach; those named here that are not in its list, it may
    /// not.
    pub allow: BTreeMap<String, Vec<String>>,
}

/// The expected verdict.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ExpectedVerdict {
    /// Allowed at both ends.
    Allow,
    /// Denied at one at least.
    Deny,
}

/// A text, a number, or several.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(untagged)]
pub enum OneOrMany {
    /// A number.
    Number(u64),
    /// A text.
    One(String),
    /// Several.
    Many(Vec<OneOrMany>),
}

impl OneOrMany {
    fn texts(&self) -> Vec<String> {
        match self {
            Self::Number(it) => vec![it.to_string()],
            Self::One(it) => vec![it.clone()],
            Self::Many(all) => all.iter().flat_map(Self::texts).collect(),
        }
    }
}

/// A flow with its expected and actual verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedFlow {
    /// Destination port, as it was written.
    pub port: String,
    /// The expected verdict.
    pub expected: ExpectedVerdict,
    /// The actual verdict.
    pub explanation: Explanation,
}

impl CheckedFlow {
    /// Returns whether it is as expected.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.explanation.allow == (self.expected == ExpectedVerdict::Allow)
    }

    /// Returns the reason: the side that denies, or both.
    #[must_use]
    pub fn why(&self) -> String {
        let sides = [&self.explanation.egress, &self.explanation.ingress];
        let denies = |side: &&Side| !side.decided.allow;
        let sides = sides.into_iter().flatten();
        let chosen: Vec<String> = if self.explanation.allow {
            sides.map(ToString::to_string).collect()
        } else {
            sides.filter(denies).map(ToString::to_string).collect()
        };
        if chosen.is_empty() {
            "no policy of the cluster has a say".to_owned()
        } else {
            chosen.join("; ")
        }
    }
}

/// Checks all expectations over objects.
///
/// # Errors
/// An invalid end or port, or no expectations at all.
pub fn check(objects: &Objects, tests: &[PolicyTest]) -> Result<Vec<CheckedFlow>, Error> {
    let mut compiler = Compiler::new(Config::default());
    objects.apply_to(&mut compiler);
    compiler.sync();
    let mut checked = Vec::new();
    for test in tests {
        for flow in &test.flows {
            for port in flow.port.texts() {
                for from in flow.from.texts() {
                    for to in flow.to.texts() {
                        let (from, to) = (ends(objects, &from)?, ends(objects, &to)?);
                        for (from, to) in from.iter().flat_map(|a| to.iter().map(move |b| (a, b))) {
                            flow_of(&compiler, from, to, &port, flow.expect, &mut checked)?;
                        }
                    }
                }
            }
        }
        for matrix in &test.matrix {
            let mut all: Vec<&String> = matrix.allow.keys().collect();
            all.extend(matrix.allow.values().flatten());
            all.sort();
            all.dedup();
            for port in matrix.port.texts() {
                for (from, reached) in &matrix.allow {
                    for to in &all {
                        for a in ends(objects, from)? {
                            for b in ends(objects, to)? {
                                let expected = if reached.contains(to) || a == b {
                                    ExpectedVerdict::Allow
                                } else {
                                    ExpectedVerdict::Deny
                                };
                                flow_of(&compiler, &a, &b, &port, expected, &mut checked)?;
                            }
                        }
                    }
                }
            }
        }
    }
    if checked.is_empty() {
        return Err(Error::Nothing);
    }
    Ok(checked)
}

fn flow_of(
    compiler: &Compiler,
    from: &End,
    to: &End,
    port: &str,
    expected: ExpectedVerdict,
    checked: &mut Vec<CheckedFlow>,
) -> Result<(), Error> {
    let (protocol, number) = port_of(port)?;
    // Each family decides for itself.
    for a in compiler.addresses(from) {
        for b in compiler.addresses(to) {
            if a.is_ipv4() == b.is_ipv4() {
                checked.push(CheckedFlow {
                    port: port.to_owned(),
                    expected,
                    explanation: compiler.explain(a, b, protocol, number),
                });
            }
        }
    }
    Ok(())
}

fn port_of(text: &str) -> Result<(Protocol, u16), Error> {
    let wrong = || Error::Port(text.to_owned());
    if text.eq_ignore_ascii_case("icmp") {
        return Ok((Protocol(1), 0));
    }
    let (number, name) = text.split_once('/').unwrap_or((text, "TCP"));
    let protocol = protocol(Some(&name.to_ascii_uppercase())).ok_or_else(wrong)?;
    Ok((protocol, number.parse().map_err(|_| wrong())?))
}

fn ends(objects: &Objects, text: &str) -> Result<Vec<End>, Error> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(vec![End::Outside(address)]);
    }
    let wrong = || Error::End(text.to_owned());
    let (namespace, what) = text.split_once('/').ok_or_else(wrong)?;
    if namespace == "node" && objects.nodes.contains_key(what) {
        return Ok(vec![End::Node(what.to_owned())]);
    }
    let wanted: Vec<&str> = what.split(',').collect();
    let by_labels = what.contains('=');
    let mut found: Vec<End> = Vec::new();
    for ((of, name), pod) in &objects.pods {
        let is_it = if by_labels {
            let labels = Labels::new(&pod.metadata.labels);
            wanted
                .iter()
                .all(|it| labels.pairs().any(|pair| pair == *it))
        } else {
            what == "*" || name == what || objects.is_controlled_by(of, name, what)
        };
        if of == namespace && is_it {
            found.push(if pod.spec.host_network {
                End::Node(pod.spec.node_name.clone())
            } else {
                End::Pod {
                    namespace: of.clone(),
                    name: name.clone(),
                }
            });
        }
    }
    if found.is_empty() {
        return Err(wrong());
    }
    Ok(found)
}

/// Reads documents: objects, and expectations.
///
/// # Errors
/// A document that is not what its kind says.
pub fn read(documents: Vec<Value>) -> Result<(Objects, Vec<PolicyTest>), Error> {
    let mut objects = Objects::default();
    let mut tests = Vec::new();
    for document in documents {
        objects.add(document, &mut tests)?;
    }
    objects.complete();
    Ok((objects, tests))
}
