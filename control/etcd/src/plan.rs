//! Decisions about a cluster of members, as pure functions.

use crate::Error;

/// A member as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberView {
    /// Its number.
    pub id: u64,
    /// Its name; empty until it has started for the first time.
    pub name: String,
    /// Its addresses for other members.
    pub peer_urls: Vec<String>,
    /// Its addresses for clients; empty until it has started for the first time.
    pub client_urls: Vec<String>,
    /// Whether it is a learner without a vote.
    pub is_learner: bool,
    /// Its own report; `None` if it did not answer.
    pub status: Option<MemberStatus>,
}

/// A member's report about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberStatus {
    /// The member that it takes for the leader; 0 for none.
    pub leader: u64,
    /// Whether it is a learner, by its own report.
    pub is_learner: bool,
    /// Its version.
    pub version: String,
    /// Bytes of its database file.
    pub db_size: u64,
    /// The number of bytes in use.
    pub db_in_use: u64,
    /// Its errors, such as `memberID:1 alarm:NOSPACE`.
    pub errors: Vec<String>,
}

/// When a database is worth being defragmented.
#[derive(Clone, Copy, Debug)]
pub struct Defragmentation {
    /// Bytes that it would free at least.
    pub least_bytes: u64,
    /// The part of the file that it would free at least, in percent.
    pub least_percent: u64,
}

impl Default for Defragmentation {
    fn default() -> Self {
        Self {
            least_bytes: 64 << 20,
            least_percent: 50,
        }
    }
}

// === impl MemberView ===

impl MemberView {
    /// Whether it answers and knows a leader.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.status
            .as_ref()
            .is_some_and(|status| status.leader != 0)
    }

    /// Whether it is the leader by its own word.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.status
            .as_ref()
            .is_some_and(|status| status.leader == self.id)
    }

    /// Returns its name, or its number while it has none.
    #[must_use]
    pub fn label(&self) -> String {
        if self.name.is_empty() {
            format!("{:x}", self.id)
        } else {
            self.name.clone()
        }
    }
}

/// Returns members in the order of defragmentation: the leader last, since it is blocked
/// meanwhile.
#[must_use]
pub fn defragmentation_order(members: &[MemberView]) -> Vec<&MemberView> {
    let mut order: Vec<_> = members.iter().filter(|one| one.status.is_some()).collect();
    order.sort_by_key(|member| (member.is_leader(), member.id));
    order
}

/// Returns the one member to be defragmented now, if any: only while all voting members are
/// healthy, so that one may be away.
#[must_use]
pub fn next_defragmentation(
    members: &[MemberView],
    policy: Defragmentation,
) -> Option<&MemberView> {
    let all_healthy = members
        .iter()
        .filter(|member| !member.is_learner)
        .all(MemberView::is_healthy);
    if !all_healthy {
        return None;
    }
    defragmentation_order(members).into_iter().find(|member| {
        member.status.as_ref().is_some_and(|status| {
            let free = status.db_size.saturating_sub(status.db_in_use);
            free >= policy.least_bytes && free * 100 >= status.db_size * policy.least_percent
        })
    })
}

/// Finds a member by its name, or by its number in hexadecimal.
///
/// # Errors
/// [`Error::NoMember`], naming the existing ones.
pub fn find<'a>(members: &'a [MemberView], wanted: &str) -> Result<&'a MemberView, Error> {
    members
        .iter()
        .find(|member| member.name == wanted && !wanted.is_empty())
        .or_else(|| {
            let id = u64::from_str_radix(wanted.trim_start_matches("0x"), 16).ok()?;
            members.iter().find(|member| member.id == id)
        })
        .ok_or_else(|| Error::NoMember {
            name: wanted.to_owned(),
            known: members
                .iter()
                .map(MemberView::label)
                .collect::<Vec<_>>()
                .join(", "),
        })
}

/// Checks that a majority of the members that are left would answer.
///
/// # Errors
/// [`Error::QuorumAtRisk`].
pub fn check_removal(members: &[MemberView], id: u64) -> Result<(), Error> {
    let voters = members.iter().filter(|one| !one.is_learner);
    let left: Vec<_> = voters.filter(|one| one.id != id).collect();
    let healthy = left.iter().filter(|one| one.is_healthy()).count();
    let needed = left.len() / 2 + 1;
    if healthy >= needed {
        return Ok(());
    }
    let name = members
        .iter()
        .find(|one| one.id == id)
        .map_or_else(|| format!("{id:x}"), MemberView::label);
    Err(Error::QuorumAtRisk {
        name,
        healthy,
        needed,
    })
}

/// What to do so that a machine's member is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is to be added as a learner.
    Add,
    /// It was added before and has not started since.
    Resume(u64),
}

/// Decides how a new member with this name and peer URL comes into the cluster.
///
/// # Errors
/// [`Error::Taken`] if a member that has started has the name or the URL.
pub fn admission(members: &[MemberView], name: &str, peer_url: &str) -> Result<Admission, Error> {
    for member in members {
        let same_url = member.peer_urls.iter().any(|url| url == peer_url);
        // etcd gives a name only to a member that has started.
        if same_url && member.name.is_empty() {
            return Ok(Admission::Resume(member.id));
        }
        if same_url || member.name == name {
            return Err(Error::Taken {
                name: member.label(),
                url: member.peer_urls.join(","),
            });
        }
    }
    Ok(Admission::Add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(id: u64, leader: u64) -> MemberView {
        MemberView {
            id,
            name: format!("server-{id}"),
            peer_urls: vec![format!("https://10.0.0.{id}:2380")],
            client_urls: vec![format!("https://10.0.0.{id}:2379")],
            is_learner: false,
            status: Some(MemberStatus {
                leader,
                db_size: 100 << 20,
                db_in_use: 10 << 20,
                ..MemberStatus::default()
            }),
        }
    }

    #[test]
    fn the_leader_is_defragmented_last_and_one_at_a_time() {
        let mut members = vec![member(1, 1), member(2, 1), member(3, 1)];
        let order: Vec<u64> = defragmentation_order(&members)
            .iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(order, [2, 3, 1]);
        let next = |members: &[MemberView]| {
            next_defragmentation(members, Defragmentation::default()).map(|one| one.id)
        };
        assert_eq!(next(&members), Some(2));
        for at in [1, 2] {
            members[at].status.as_mut().expect("one").db_size = 10 << 20;
        }
        assert_eq!(next(&members), Some(1));
        members[0].status.as_mut().expect("one").db_size = 70 << 20;
        assert_eq!(next(&members), None, "too little to gain");
    }

    #[test]
    fn nothing_is_defragmented_while_a_member_is_away() {
        let mut members = vec![member(1, 1), member(2, 1), member(3, 1)];
        members[2].status = None;
        assert_eq!(
            next_defragmentation(&members, Defragmentation::default()),
            None
        );
        members[2].is_learner = true;
        assert!(next_defragmentation(&members, Defragmentation::default()).is_some());
    }

    #[test]
    fn a_removal_that_would_cost_the_majority_is_refused() {
        let mut members = vec![member(1, 1), member(2, 1), member(3, 1)];
        assert!(check_removal(&members, 3).is_ok());
        members[2].status = None;
        assert!(check_removal(&members, 3).is_ok(), "the dead one");
        let error = check_removal(&members, 1).unwrap_err().to_string();
        assert!(
            error.contains("`server-1`") && error.contains("only 1 of 2"),
            "{error}"
        );
        assert!(check_removal(&members[..1], 1).is_err(), "the last one");
    }

    #[test]
    fn a_member_that_was_added_and_never_started_is_taken_up_again() {
        let mut members = vec![member(1, 1), member(2, 1)];
        let url = "https://10.0.0.3:2380";
        assert_eq!(
            admission(&members, "server-3", url).ok(),
            Some(Admission::Add)
        );
        let mut added = member(3, 1);
        added.name = String::new();
        members.push(added);
        assert_eq!(
            admission(&members, "server-3", url).ok(),
            Some(Admission::Resume(3))
        );
        members[2].name = "server-3".to_owned();
        let error = admission(&members, "server-3", url)
            .unwrap_err()
            .to_string();
        assert!(error.contains("replace server-3"), "{error}");
        let other = admission(&members, "server-2", "https://10.0.0.9:2380");
        assert!(other.is_err(), "the name is taken");
    }

    #[test]
    fn members_are_found_by_name_or_number() {
        let members = vec![member(1, 1), member(0xab, 1)];
        assert_eq!(find(&members, "server-1").expect("found").id, 1);
        assert_eq!(find(&members, "ab").expect("found").id, 0xab);
        let error = find(&members, "x").unwrap_err().to_string();
        assert!(error.contains("server-1, server-171"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn what_may_be_removed_leaves_a_majority(
            all in prop::collection::vec((any::<bool>(), any::<bool>()), 1..7),
            removed in 0usize..7,
        ) {
            let members: Vec<_> = (1..).zip(&all).map(|(id, (is_learner, answers))| {
                let mut member = member(id, 1);
                member.is_learner = *is_learner;
                if !answers { member.status = None; }
                member
            }).collect();
            let removed = (removed % members.len()) as u64 + 1;
            if check_removal(&members, removed).is_ok() {
                let left: Vec<_> = members
                    .iter()
                    .filter(|one| !one.is_learner && one.id != removed)
                    .collect();
                let healthy = left.iter().filter(|one| one.is_healthy()).count();
                prop_assert!(healthy * 2 > left.len());
            }
        }
    }
}
