//! Checks before an upgrade, as a pure function of gathered facts.

use serde::{Deserialize, Serialize};

/// Facts about a binary (`orlop upgrade facts`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Program {
    /// Version of Orlop.
    pub version: String,
    /// Version of Kubernetes whose API it serves, such as `1.36`.
    pub kubernetes: String,
    /// The first and the last format of the embedded store that it reads.
    pub store_formats: (u64, u64),
}

/// An API that clients use and that a release of Kubernetes removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeprecatedApi {
    /// `RESOURCE.VERSION.GROUP`.
    pub name: String,
    /// The release, such as `1.38`; empty if none is known.
    pub removed_in: String,
}

/// The input of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeFacts {
    /// The installed program.
    pub current: Program,
    /// The one to be installed.
    pub new: Program,
    /// Nodes with the versions of their kubelets; `None` if the cluster did not answer.
    pub nodes: Option<Vec<(String, String)>>,
    /// Deprecated APIs that were used since the server started; `None` if unknown.
    pub deprecated: Option<Vec<DeprecatedApi>>,
    /// Free bytes where the store and the binary are, and bytes that are needed.
    pub disk: (u64, u64),
    /// The replaced program.
    pub part: UpgradePart,
    /// The Kubernetes version of the server that answered; `None` if none was asked.
    pub serves: Option<String>,
}

/// The program that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradePart {
    /// A server.
    Server {
        /// Whether a backup is made first.
        makes_backup: bool,
    },
    /// The agent of a node.
    Agent,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeVerdict {
    /// As it should be.
    Fine,
    /// Information only.
    Note,
    /// Hinders the upgrade.
    Refused,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The checked subject.
    pub name: &'static str,
    /// How it ended.
    pub verdict: UpgradeVerdict,
    /// The result, and what to do.
    pub text: String,
}

/// The kubelets that a server of minor release `n` serves: `n-3` to `n`.
/// Source: Kubernetes' version skew policy.
const OLDEST_NODE: u32 = 3;

fn check(name: &'static str, verdict: UpgradeVerdict, text: impl Into<String>) -> Check {
    Check {
        name,
        verdict,
        text: text.into(),
    }
}

/// The minor release of `1.36`, `v1.36.2` or `v1.36.0-orlop`.
fn minor(version: &str) -> Option<u32> {
    let rest = version.trim_start_matches('v').strip_prefix("1.")?;
    let end = rest
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

/// Looks at everything.
pub fn checks(facts: &UpgradeFacts) -> Vec<Check> {
    match facts.part {
        UpgradePart::Server { makes_backup } => vec![
            release(facts),
            nodes(facts),
            removals(facts),
            store(facts),
            disk(facts),
            backup(makes_backup),
        ],
        UpgradePart::Agent => vec![agent(facts), disk(facts)],
    }
}

/// Checks the skew: a server supports agents of its own release and of the three before,
/// never newer ones.
fn agent(facts: &UpgradeFacts) -> Check {
    let name = "release";
    let (from, to) = (&facts.current, &facts.new);
    let text = format!(
        "{} (Kubernetes {}) to {} (Kubernetes {})",
        from.version, from.kubernetes, to.version, to.kubernetes
    );
    let refused = |why: &str| check(name, UpgradeVerdict::Refused, format!("{text}: {why}"));
    let (Some(old), Some(new)) = (minor(&from.kubernetes), minor(&to.kubernetes)) else {
        return refused("unknown version of Kubernetes");
    };
    if new < old {
        return refused("this goes back, use `orlop upgrade rollback`");
    }
    let Some(serves) = &facts.serves else {
        return check(
            name,
            UpgradeVerdict::Note,
            format!("{text}; the server was not asked for its release"),
        );
    };
    match minor(serves) {
        Some(server) if new > server => refused(&format!(
            "the server serves nodes of 1.{server} at most: upgrade all servers first"
        )),
        Some(server) if server - new > OLDEST_NODE => refused(&format!(
            "the server serves nodes from 1.{} on",
            server - OLDEST_NODE
        )),
        Some(_) => check(name, UpgradeVerdict::Fine, text),
        None => refused("the server has an unknown version of Kubernetes"),
    }
}

/// Nodes that a server of an older release does not serve.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server of {kubernetes} serves no newer nodes: roll back first {nodes}")]
pub struct NewerNodes {
    kubernetes: String,
    nodes: String,
}

/// A server that is not of the program's release.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server that answers is of {serves}: upgrade all servers to {kubernetes} first")]
pub struct OtherRelease {
    serves: String,
    kubernetes: String,
}

/// Whether a server of this program may serve the nodes again.
///
/// # Errors
/// The nodes that are newer.
pub fn may_go_back(to: &Program, nodes: &[(String, String)]) -> Result<(), NewerNodes> {
    let newer: Vec<&str> = nodes
        .iter()
        .filter(|(_, version)| minor(version) > minor(&to.kubernetes))
        .map(|(node, _)| &**node)
        .collect();
    if newer.is_empty() {
        return Ok(());
    }
    Err(NewerNodes {
        kubernetes: to.kubernetes.clone(),
        nodes: newer.join(", "),
    })
}

/// Checks that the cluster runs the release of `program`, so that the previous release
/// need not read what is written from now on.
///
/// # Errors
/// The release of the server that answered.
pub fn may_finish(program: &Program, serves: Option<&str>) -> Result<(), OtherRelease> {
    let serves = serves.unwrap_or("an unknown version");
    if minor(serves) == minor(&program.kubernetes) {
        return Ok(());
    }
    Err(OtherRelease {
        serves: serves.to_owned(),
        kubernetes: program.kubernetes.clone(),
    })
}

/// Whether nothing hinders the upgrade.
pub fn is_possible(checks: &[Check]) -> bool {
    checks
        .iter()
        .all(|check| check.verdict != UpgradeVerdict::Refused)
}

fn release(facts: &UpgradeFacts) -> Check {
    let name = "release";
    let (from, to) = (&facts.current, &facts.new);
    let text = format!(
        "{} (Kubernetes {}) to {} (Kubernetes {})",
        from.version, from.kubernetes, to.version, to.kubernetes
    );
    let (Some(old), Some(new)) = (minor(&from.kubernetes), minor(&to.kubernetes)) else {
        return check(
            name,
            UpgradeVerdict::Refused,
            format!("{text}: unknown version of Kubernetes"),
        );
    };
    if new < old {
        return check(
            name,
            UpgradeVerdict::Refused,
            format!("{text}: this goes back, use `orlop upgrade rollback`"),
        );
    }
    if new > old + 1 {
        let between = old + 1;
        return check(
            name,
            UpgradeVerdict::Refused,
            format!("{text}: upgrade to Kubernetes 1.{between} first"),
        );
    }
    check(name, UpgradeVerdict::Fine, text)
}

fn nodes(facts: &UpgradeFacts) -> Check {
    let name = "nodes";
    let Some(nodes) = &facts.nodes else {
        return check(
            name,
            UpgradeVerdict::Note,
            "the cluster was not asked for its nodes",
        );
    };
    let Some(server) = minor(&facts.new.kubernetes) else {
        return check(
            name,
            UpgradeVerdict::Refused,
            "unknown version of Kubernetes",
        );
    };
    let is_served = |version: &str| {
        minor(version).is_some_and(|node| node <= server && server - node <= OLDEST_NODE)
    };
    let outside: Vec<String> = nodes
        .iter()
        .filter(|(_, version)| !is_served(version))
        .map(|(node, version)| format!("{node} ({version})"))
        .collect();
    let oldest = server.saturating_sub(OLDEST_NODE);
    if outside.is_empty() {
        let text = format!("{} nodes, all within 1.{oldest} to 1.{server}", nodes.len());
        return check(name, UpgradeVerdict::Fine, text);
    }
    let text = format!(
        "a server of 1.{server} serves nodes of 1.{oldest} to 1.{server}: upgrade first {}",
        outside.join(", ")
    );
    check(name, UpgradeVerdict::Refused, text)
}

fn removals(facts: &UpgradeFacts) -> Check {
    let name = "removed APIs";
    let Some(used) = &facts.deprecated else {
        return check(
            name,
            UpgradeVerdict::Note,
            "the server was not asked which deprecated APIs are used",
        );
    };
    let new = minor(&facts.new.kubernetes).unwrap_or(u32::MAX);
    let is_removed = |api: &&DeprecatedApi| minor(&api.removed_in).is_some_and(|at| at <= new);
    let names = |apis: &mut dyn Iterator<Item = &DeprecatedApi>| {
        apis.map(|api| api.name.clone())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let removed = names(&mut used.iter().filter(is_removed));
    if !removed.is_empty() {
        let text = format!("clients use what 1.{new} does not serve: change them first: {removed}");
        return check(name, UpgradeVerdict::Refused, text);
    }
    if used.is_empty() {
        return check(
            name,
            UpgradeVerdict::Fine,
            "no deprecated API was used since the server started",
        );
    }
    let text = format!("deprecated, still served: {}", names(&mut used.iter()));
    check(name, UpgradeVerdict::Note, text)
}

fn store(facts: &UpgradeFacts) -> Check {
    let name = "store format";
    let (_, old) = facts.current.store_formats;
    let (first, last) = facts.new.store_formats;
    if !(first..=last).contains(&old) {
        let text =
            format!("the store may have format {old}, the new binary reads {first} to {last}");
        return check(name, UpgradeVerdict::Refused, text);
    }
    if last > old {
        let text =
            format!("the new binary may write format {last}: a rollback then needs the backup");
        return check(name, UpgradeVerdict::Note, text);
    }
    check(name, UpgradeVerdict::Fine, format!("{old}, read by both"))
}

fn disk(facts: &UpgradeFacts) -> Check {
    let (free, needed) = facts.disk;
    let text = format!("{} MiB free, {} MiB needed", free >> 20, needed >> 20);
    let verdict = if free < needed {
        UpgradeVerdict::Refused
    } else {
        UpgradeVerdict::Fine
    };
    check("disk space", verdict, text)
}

fn backup(makes_backup: bool) -> Check {
    let name = "backup";
    if makes_backup {
        return check(
            name,
            UpgradeVerdict::Fine,
            "one is made before anything changes",
        );
    }
    check(
        name,
        UpgradeVerdict::Note,
        "none is made: give --backup-to to `orlop upgrade apply`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(kubernetes: &str, formats: (u64, u64)) -> Program {
        Program {
            version: "0.2.0".to_owned(),
            kubernetes: kubernetes.to_owned(),
            store_formats: formats,
        }
    }

    fn facts() -> UpgradeFacts {
        UpgradeFacts {
            current: program("1.36", (1, 2)),
            new: program("1.37", (1, 2)),
            nodes: Some(vec![
                ("a".to_owned(), "v1.36.2".to_owned()),
                ("b".to_owned(), "v1.34.0-orlop".to_owned()),
            ]),
            deprecated: Some(Vec::new()),
            disk: (1 << 30, 1 << 20),
            part: UpgradePart::Server { makes_backup: true },
            serves: Some("v1.36.1".to_owned()),
        }
    }

    fn refused(facts: &UpgradeFacts) -> Vec<&'static str> {
        let found = checks(facts);
        assert_eq!(
            found
                .iter()
                .any(|one| one.verdict == UpgradeVerdict::Refused),
            !is_possible(&found)
        );
        let refused = found
            .iter()
            .filter(|one| one.verdict == UpgradeVerdict::Refused);
        refused.map(|one| one.name).collect()
    }

    #[test]
    fn one_release_ahead_is_possible() {
        let facts = facts();
        assert!(
            checks(&facts)
                .iter()
                .all(|one| one.verdict == UpgradeVerdict::Fine),
            "{facts:?}"
        );
    }

    #[test]
    fn releases_are_neither_skipped_nor_gone_back() {
        for (to, possible) in [
            ("1.35", false),
            ("1.36", true),
            ("1.37", true),
            ("1.38", false),
        ] {
            let facts = UpgradeFacts {
                new: program(to, (1, 2)),
                ..facts()
            };
            assert_eq!(!refused(&facts).contains(&"release"), possible, "{to}");
        }
    }

    #[test]
    fn nodes_are_at_most_three_releases_behind_and_never_ahead() {
        for (node, possible) in [
            ("v1.33.9", false),
            ("v1.34.0", true),
            ("v1.37.1", true),
            ("v1.38.0", false),
            ("", false),
        ] {
            let nodes = Some(vec![("n".to_owned(), node.to_owned())]);
            let facts = UpgradeFacts { nodes, ..facts() };
            assert_eq!(refused(&facts).is_empty(), possible, "{node}");
        }
    }

    #[test]
    fn removed_apis_unknown_formats_and_full_disks_hinder() {
        let api = |removed_in: &str| DeprecatedApi {
            name: "endpoints.v1".to_owned(),
            removed_in: removed_in.to_owned(),
        };
        let with = |removed_in| UpgradeFacts {
            deprecated: Some(vec![api(removed_in)]),
            ..facts()
        };
        assert_eq!(refused(&with("1.37")), ["removed APIs"]);
        assert!(refused(&with("1.38")).is_empty());
        assert!(refused(&with("")).is_empty());
        assert_eq!(
            refused(&UpgradeFacts {
                new: program("1.37", (3, 4)),
                ..facts()
            }),
            ["store format"]
        );
        assert!(
            refused(&UpgradeFacts {
                new: program("1.37", (2, 3)),
                ..facts()
            })
            .is_empty()
        );
        assert_eq!(
            refused(&UpgradeFacts {
                disk: (1, 2),
                ..facts()
            }),
            ["disk space"]
        );
    }

    #[test]
    fn an_agent_is_never_newer_than_its_server() {
        for (server, possible) in [
            ("v1.36.4", false),
            ("v1.37.0-orlop", true),
            ("v1.40.0", true),
            ("v1.41.0", false),
            ("nonsense", false),
        ] {
            let facts = UpgradeFacts {
                part: UpgradePart::Agent,
                serves: Some(server.to_owned()),
                // Of a server's upgrade these would be refused.
                nodes: Some(vec![("n".to_owned(), "v1.20.0".to_owned())]),
                ..facts()
            };
            assert_eq!(refused(&facts).is_empty(), possible, "{server}");
        }
        let back = UpgradeFacts {
            part: UpgradePart::Agent,
            new: program("1.35", (1, 2)),
            ..facts()
        };
        assert_eq!(refused(&back), ["release"]);
    }

    #[test]
    fn the_way_back_is_open_until_nodes_are_newer() {
        let nodes = |versions: &[&str]| {
            let named = |(at, version): (usize, &&str)| (format!("n{at}"), (*version).to_owned());
            versions.iter().enumerate().map(named).collect::<Vec<_>>()
        };
        let (old, new) = (program("1.36", (1, 2)), program("1.37", (1, 2)));
        assert_eq!(may_go_back(&old, &nodes(&["v1.36.9", "v1.34.0"])), Ok(()));
        let refused = may_go_back(&old, &nodes(&["v1.36.0", "v1.37.0"]));
        assert!(refused.is_err_and(|why| why.nodes == "n1"));
        assert_eq!(may_finish(&new, Some("v1.37.2")), Ok(()));
        assert!(may_finish(&new, Some("v1.36.0")).is_err());
        assert!(may_finish(&new, None).is_err());
    }
}
