//! Where each rule goes.
//!
//! Orlop decides in the order Admin (first match), NetworkPolicies (additive, what none allows is
//! denied), Baseline (first match, only where no NetworkPolicy selects). So:
//!
//! - In the tier of Kubernetes' NetworkPolicies, what allows becomes a NetworkPolicy. The end of
//!   the tier, which denies, is what a NetworkPolicy that selects a pod does anyway.
//! - A denial there is needed only where a later rule may allow the same. It becomes a rule of
//!   tier Admin, and with it the rules before it that may allow what it denies.
//! - ClusterNetworkPolicies cannot match addresses outside the cluster on ingress. A rule that
//!   would have to is refused.
//! - A cluster-wide policy cannot be a NetworkPolicy, unless it selects namespaces by name. For
//!   egress, its rules go to tier Admin and the end of the tier to Baseline.
//!
//! A policy is emitted as a whole or not at all, unless losses are wanted. If one that denies is
//! left out, so is each later one that may allow the same.

use std::collections::{BTreeMap, BTreeSet};

use super::emit::{ClusterTier, Emission, cluster_rules};
use super::{
    Action, Direction, ListedPeers, NativePolicy, Peers, Port, Ports, Rule, Settings, Stage,
    Surroundings, Tier,
};
use crate::labels::{Conjunction, Requirements};
use crate::{ObjectId, Remark, Report};

const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// A policy by its tier's and its own position.
type Position = (usize, usize);

/// Converts policies; `prefix` begins the names of all objects.
#[must_use]
pub fn arrange(
    tiers: &[Tier],
    surroundings: &Surroundings,
    settings: &Settings,
    prefix: &str,
) -> Report {
    let mut arrangement = Arrangement {
        tiers,
        surroundings,
        settings,
        left_out: BTreeSet::new(),
        lost: BTreeSet::new(),
        refused: BTreeSet::new(),
        notes: BTreeSet::new(),
    };
    arrangement.note_losses();
    // Each round leaves more out; without changes, everything that is left can be
    // expressed.
    let emission = loop {
        let before = (arrangement.left_out.len(), arrangement.lost.len());
        let mut emission = Emission::new(prefix);
        for direction in DIRECTIONS {
            arrangement.place(direction, &mut emission);
        }
        if !settings.lossy {
            arrangement.withhold();
        }
        if before == (arrangement.left_out.len(), arrangement.lost.len()) {
            break emission;
        }
    };
    let Arrangement {
        mut refused, notes, ..
    } = arrangement;
    let objects = emission.objects(&mut refused);
    Report {
        objects,
        notes: notes
            .into_iter()
            .chain(surroundings.notes.clone())
            .collect(),
        refused: refused.into_iter().collect(),
    }
}

struct Arrangement<'a> {
    tiers: &'a [Tier],
    surroundings: &'a Surroundings,
    settings: &'a Settings,
    left_out: BTreeSet<Position>,
    /// Rules that are left out of policies that are emitted: position, direction and index.
    lost: BTreeSet<(Position, Direction, usize)>,
    refused: BTreeSet<Remark>,
    notes: BTreeSet<Remark>,
}

/// The origin of an entry.
#[derive(Clone, Copy)]
enum Origin<'a> {
    Rule(Position, usize),
    /// The end of a tier, for pods that a policy selects.
    End(Position),
    Native(&'a NativePolicy),
}

/// One rule for one conjunction of pods, in the order of evaluation.
struct Entry<'a> {
    origin: Origin<'a>,
    tier: usize,
    stage: Stage,
    /// Whether the end of the tier decides about traffic that no rule of the policy
    /// matches.
    selects: bool,
    action: Action,
    subject: Conjunction,
    peers: &'a Peers,
    ports: &'a Ports,
}

impl Entry<'_> {
    fn position(&self) -> Option<Position> {
        match self.origin {
            Origin::Rule(position, _) | Origin::End(position) => Some(position),
            Origin::Native(_) => None,
        }
    }

    /// Whether some flow may match both.
    fn overlaps(&self, other: &Self) -> bool {
        self.subject.overlaps(&other.subject)
            && peers_overlap(self.peers, other.peers)
            && ports_overlap(self.ports, other.ports)
    }
}

fn peers_overlap(left: &Peers, right: &Peers) -> bool {
    let (Peers::Listed(a), Peers::Listed(b)) = (left, right) else {
        let nobody = |it: &Peers| matches!(it, Peers::Listed(it) if it.is_empty());
        return !nobody(left) && !nobody(right);
    };
    let pods = a
        .pods
        .iter()
        .any(|one| b.pods.iter().any(|other| one.overlaps(other)));
    let blocks = a
        .blocks
        .iter()
        .any(|one| b.blocks.iter().any(|other| one.overlaps(other)));
    // Pods and nodes have addresses.
    let mixed =
        |a: &ListedPeers, b: &ListedPeers| !a.blocks.is_empty() && (!b.pods.is_empty() || b.nodes);
    pods || blocks || mixed(a, b) || mixed(b, a) || (a.nodes && b.nodes)
}

fn ports_overlap(left: &Ports, right: &Ports) -> bool {
    let (Ports::Listed(a), Ports::Listed(b)) = (left, right) else {
        let nothing = |it: &Ports| matches!(it, Ports::Listed(it) if it.is_empty());
        return !nothing(left) && !nothing(right);
    };
    a.iter().any(|one| {
        b.iter().any(|other| match (one, other) {
            (Port::Range(p, first, last), Port::Range(q, start, end)) => {
                p == q && first <= end && start <= last
            }
            (Port::Range(p, ..) | Port::Named(p, _), Port::Range(q, ..) | Port::Named(q, _)) => {
                p == q
            }
        })
    })
}

const ALL_PORTS: Ports = Ports::All;
const ALL_PEERS: Peers = Peers::Anybody;

impl<'a> Arrangement<'a> {
    fn refuse(&mut self, position: Position, place: &str, text: String) {
        let object = self.policy(position).id.clone();
        self.refused.insert(Remark {
            object,
            place: place.to_owned(),
            text,
        });
    }

    fn policy(&self, (tier, policy): Position) -> &'a super::Policy {
        &self.tiers[tier].policies[policy]
    }

    fn positions(&self) -> Vec<Position> {
        let tiers = self.tiers.iter().enumerate();
        tiers
            .flat_map(|(tier, it)| (0..it.policies.len()).map(move |policy| (tier, policy)))
            .collect()
    }

    /// Names what could not even be read into rules.
    fn note_losses(&mut self) {
        for position in self.positions() {
            let policy = self.policy(position);
            for (place, text) in &policy.losses {
                self.refuse(position, place, text.clone());
                self.leave_out(position);
            }
            for direction in DIRECTIONS {
                let rules = policy.side(direction).map(|side| side.rules.as_slice());
                for (index, rule) in rules.unwrap_or_default().iter().enumerate() {
                    for text in &rule.losses {
                        self.refuse(position, &rule.place, text.clone());
                        self.lose(position, direction, index);
                    }
                }
            }
        }
    }

    /// An object is left out as a whole, also where several policies were read from it.
    fn leave_out(&mut self, position: Position) {
        let id = &self.policy(position).id;
        let same = self.positions();
        let same = same.into_iter().filter(|it| self.policy(*it).id == *id);
        let same: Vec<Position> = same.collect();
        self.left_out.extend(same);
    }

    /// A rule cannot be converted: neither can its policy, unless losses are wanted.
    fn lose(&mut self, position: Position, direction: Direction, rule: usize) {
        if self.settings.lossy {
            self.lost.insert((position, direction, rule));
        } else {
            self.leave_out(position);
        }
    }

    /// Conjunctions of the namespaces that exist, for those that do not select by name.
    fn expanded(&self, subject: &[Conjunction]) -> Vec<Conjunction> {
        let mut all = BTreeSet::new();
        for one in subject {
            if one.names().is_some() || !self.settings.expand_namespaces {
                all.insert(one.clone());
                continue;
            }
            let namespaces = self.surroundings.namespaces.iter();
            for (name, _) in namespaces.filter(|(_, labels)| one.namespace.matches(labels)) {
                all.insert(Conjunction {
                    namespace: Requirements::namespace(name),
                    pod: one.pod.clone(),
                });
            }
        }
        all.into_iter().collect()
    }

    /// All rules of a direction in the order of evaluation, those that are left out included.
    fn sequence(&self, direction: Direction) -> Vec<Entry<'a>> {
        let mut all = Vec::new();
        let mut natives_are_in = false;
        for (tier_index, tier) in self.tiers.iter().enumerate() {
            let native = |native: &'a NativePolicy| Entry {
                origin: Origin::Native(native),
                tier: tier_index,
                stage: tier.stage,
                selects: true,
                action: Action::Allow,
                subject: native.subject.clone(),
                peers: &ALL_PEERS,
                ports: &ALL_PORTS,
            };
            let natives = self.surroundings.natives.iter();
            let natives = || {
                let all = natives.clone().filter(|it| it.applies_to(direction));
                all.map(native).collect::<Vec<_>>()
            };
            for (index, policy) in tier.policies.iter().enumerate() {
                if tier.stage == Stage::Default && policy.after_native && !natives_are_in {
                    all.extend(natives());
                    natives_are_in = true;
                }
                let position = (tier_index, index);
                let Some(side) = policy.side(direction) else {
                    continue;
                };
                for (number, rule) in side.rules.iter().enumerate() {
                    let subject = rule.subject.as_ref().unwrap_or(&policy.subject);
                    for one in self.expanded(subject) {
                        all.push(Entry {
                            origin: Origin::Rule(position, number),
                            tier: tier_index,
                            stage: tier.stage,
                            selects: side.selects,
                            action: rule.action,
                            subject: one,
                            peers: &rule.peers,
                            ports: &rule.ports,
                        });
                    }
                }
            }
            if tier.stage == Stage::Default && !natives_are_in {
                all.extend(natives());
                natives_are_in = true;
            }
            if !tier.denies_at_end {
                continue;
            }
            for (index, policy) in tier.policies.iter().enumerate() {
                let side = policy.side(direction).filter(|side| side.selects);
                let Some(side) = side.filter(|side| !is_final(side.rules.last())) else {
                    continue;
                };
                let position = (tier_index, index);
                for one in self.expanded(&policy.subject) {
                    all.push(Entry {
                        origin: Origin::End(position),
                        tier: tier_index,
                        stage: tier.stage,
                        selects: side.selects,
                        action: Action::Deny,
                        subject: one,
                        peers: &ALL_PEERS,
                        ports: &ALL_PORTS,
                    });
                }
            }
        }
        all
    }

    fn is_left_out(&self, direction: Direction, entry: &Entry<'_>) -> bool {
        match entry.origin {
            Origin::Rule(position, index) => {
                self.left_out.contains(&position)
                    || self.lost.contains(&(position, direction, index))
            }
            Origin::End(position) => self.left_out.contains(&position),
            Origin::Native(_) => false,
        }
    }

    /// Returns whether a denial has an effect: a later rule may allow the same, or
    /// nothing else denies it. The end of a tier that a NetworkPolicy implies has none.
    fn is_needed(entry: &Entry<'_>, later: &[&Entry<'_>]) -> bool {
        if entry.action != Action::Deny {
            return false;
        }
        match (entry.stage, entry.origin) {
            (Stage::Default, Origin::End(_)) => false,
            (Stage::Default, _) => {
                !entry.selects
                    || later.iter().any(|it| {
                        it.action != Action::Deny && it.tier == entry.tier && entry.overlaps(it)
                    })
            }
            (Stage::Before | Stage::After, _) => true,
        }
    }

    /// Decides where the rules of a direction go, and refuses those that go nowhere.
    fn place(&mut self, direction: Direction, emission: &mut Emission) {
        let sequence = self.sequence(direction);
        let present: Vec<&Entry<'_>> = sequence
            .iter()
            .filter(|entry| !self.is_left_out(direction, entry))
            .collect();
        let needed: Vec<bool> = present
            .iter()
            .enumerate()
            .map(|(at, entry)| Self::is_needed(entry, &present[at + 1..]))
            .collect();
        let mut in_admin = vec![false; present.len()];
        for (at, entry) in present.iter().enumerate() {
            let is_open = entry.subject.names().is_none();
            let decides_first = || {
                let mut later = present.iter().zip(&needed).skip(at + 1);
                later.find(|(it, needed)| {
                    **needed && it.stage == Stage::Default && entry.overlaps(it)
                })
            };
            in_admin[at] = match (entry.stage, entry.origin, entry.action) {
                (Stage::After, ..) | (Stage::Default, Origin::End(_), _) => false,
                (Stage::Before, ..) => true,
                (Stage::Default, Origin::Native(native), _) => {
                    if let Some((denial, _)) = decides_first()
                        && let Some(position) = denial.position()
                    {
                        let text = format!(
                            "{} is evaluated before a rule that denies, which Orlop cannot do: \
                             give the policy an order below 1000, if it may deny what that one \
                             allows",
                            native.id
                        );
                        self.refuse(position, "order", text);
                        self.leave_out(position);
                    }
                    false
                }
                (Stage::Default, Origin::Rule(..), Action::Deny) => needed[at],
                (Stage::Default, Origin::Rule(..), _) => {
                    let only_there = matches!(entry.peers, Peers::Listed(it) if it.nodes);
                    let is_outward = is_open && direction == Direction::Egress;
                    only_there || is_outward || !entry.selects || decides_first().is_some()
                }
            };
        }
        for (at, entry) in present.iter().enumerate() {
            let cluster_tier = match entry.stage {
                Stage::After => Some(ClusterTier::Baseline),
                Stage::Before | Stage::Default => in_admin[at].then_some(ClusterTier::Admin),
            };
            if let Some(cluster_tier) = cluster_tier {
                let later = present.iter().zip(&in_admin).skip(at + 1);
                let shadowed = later.filter(|(it, admin)| {
                    it.tier != entry.tier
                        && (**admin || it.stage == Stage::After)
                        && entry.subject.overlaps(&it.subject)
                });
                self.place_in_cluster(
                    direction,
                    entry,
                    cluster_tier,
                    shadowed.count() > 0,
                    emission,
                );
            } else {
                self.place_in_namespace(direction, entry, emission);
            }
        }
        self.place_selections(direction, emission);
    }

    /// A rule of a ClusterNetworkPolicy.
    fn place_in_cluster(
        &mut self,
        direction: Direction,
        entry: &Entry<'_>,
        cluster_tier: ClusterTier,
        is_followed: bool,
        emission: &mut Emission,
    ) {
        let Some(position) = entry.position() else {
            return;
        };
        let (place, index) = match entry.origin {
            Origin::Rule(_, index) => {
                let rules = self.policy(position).side(direction);
                let place = rules.and_then(|side| side.rules.get(index));
                (place.map_or_else(String::new, |it| it.place.clone()), index)
            }
            Origin::End(_) | Origin::Native(_) => ("end of the tier".to_owned(), usize::MAX),
        };
        if entry.action == Action::Pass && is_followed {
            let text = "Pass leads to another tier, but Orlop's tier Admin has no tier after it \
                        except NetworkPolicies: merge the tiers, or write the rules that follow \
                        into this one";
            self.refuse(position, &place, text.to_owned());
            self.lose(position, direction, index);
            return;
        }
        match cluster_rules(direction, entry.action, entry.peers, entry.ports) {
            Ok(rules) => {
                let policy = self.policy(position);
                // The end of a tier comes after all its policies.
                let last = matches!(entry.origin, Origin::End(_));
                let order = (entry.tier, last, position.1);
                let name = if last {
                    format!("{}.end", policy.name)
                } else {
                    policy.name.clone()
                };
                emission.add_cluster(
                    cluster_tier,
                    order,
                    (&policy.id, &name),
                    &entry.subject,
                    direction,
                    rules,
                );
            }
            Err(why) => {
                let what = match entry.action {
                    Action::Allow => "allows before a later rule denies",
                    Action::Deny => "denies before a later rule allows",
                    Action::Pass => "passes on",
                };
                let text = match (entry.stage, entry.origin) {
                    (_, Origin::End(_)) => format!(
                        "the tier denies what no rule matches, and {why}: set the tier's \
                         defaultAction to Pass, or move the policy to the default tier"
                    ),
                    (Stage::Default, _) if self.settings.lossy && entry.action == Action::Deny => {
                        format!("it {what}, and {why}; without it, what follows is wider")
                    }
                    (Stage::Default, _)
                        if entry.subject.names().is_none() && entry.action == Action::Allow =>
                    {
                        format!(
                            "it is cluster-wide, and {why}: use --expand-namespaces, or select \
                         namespaces by name"
                        )
                    }
                    _ => format!(
                        "it {what}, and {why}: put what allows first, or into policies \
                                  of its own"
                    ),
                };
                self.refuse(position, &place, text);
                if let Origin::End(_) = entry.origin {
                    self.leave_out(position);
                } else {
                    self.lose(position, direction, index);
                }
            }
        }
    }

    /// A rule of a NetworkPolicy.
    fn place_in_namespace(
        &mut self,
        direction: Direction,
        entry: &Entry<'_>,
        emission: &mut Emission,
    ) {
        let Origin::Rule(position, _) = entry.origin else {
            return;
        };
        if entry.action == Action::Deny {
            let policy = self.policy(position);
            if !policy.after_native {
                self.notes.insert(Remark {
                    object: policy.id.clone(),
                    place: String::new(),
                    text: "denies by selecting its pods, since nothing allows what it denies; \
                           NetworkPolicies that are written later can"
                        .to_owned(),
                });
            }
            return;
        }
        // An open subject is refused where its selection is placed.
        for namespace in entry.subject.names().into_iter().flatten() {
            let policy = self.policy(position);
            emission.add_namespaced(
                (&policy.id, &policy.name),
                (namespace, &entry.subject.pod),
                direction,
                Some((entry.peers, entry.ports)),
            );
        }
    }

    /// Denies traffic of selected pods unless it is allowed.
    fn place_selections(&mut self, direction: Direction, emission: &mut Emission) {
        for position in self.positions() {
            let tier = &self.tiers[position.0];
            let policy = self.policy(position);
            let selects = policy.side(direction).is_some_and(|side| side.selects);
            if self.left_out.contains(&position) || tier.stage != Stage::Default || !selects {
                continue;
            }
            if !tier.denies_at_end {
                let text = "its tier passes on what no rule matches, but a NetworkPolicy denies \
                            it: set the tier's defaultAction to Deny";
                self.refuse(position, "tier", text.to_owned());
                self.leave_out(position);
                continue;
            }
            let was_open = policy.subject.iter().any(|it| it.names().is_none());
            if was_open && self.settings.expand_namespaces {
                self.notes.insert(Remark {
                    object: policy.id.clone(),
                    place: "namespaceSelector".to_owned(),
                    text: "is written into each namespace that exists now; import it again when \
                           namespaces are created or their labels change"
                        .to_owned(),
                });
            }
            for one in self.expanded(&policy.subject) {
                if let Some(names) = one.names() {
                    for namespace in names {
                        emission.add_namespaced(
                            (&policy.id, &policy.name),
                            (namespace, &one.pod),
                            direction,
                            None,
                        );
                    }
                } else if direction == Direction::Egress {
                    let rules = cluster_rules(direction, Action::Deny, &ALL_PEERS, &ALL_PORTS);
                    emission.add_cluster(
                        ClusterTier::Baseline,
                        (position.0, true, position.1),
                        (&policy.id, &format!("{}.end", policy.name)),
                        &one,
                        direction,
                        rules.unwrap_or_default(),
                    );
                } else {
                    let text = "it is cluster-wide and denies addresses outside the cluster on \
                                ingress, which a ClusterNetworkPolicy cannot match: use \
                                --expand-namespaces, or select namespaces by name";
                    self.refuse(position, "types", text.to_owned());
                    self.leave_out(position);
                    break;
                }
            }
        }
    }

    /// Leaves out what would allow something that a policy which is left out denies.
    fn withhold(&mut self) {
        for direction in DIRECTIONS {
            let sequence = self.sequence(direction);
            let mut withheld: BTreeMap<Position, ObjectId> = BTreeMap::new();
            for (at, denial) in sequence.iter().enumerate() {
                let (Action::Deny, Some(position)) = (denial.action, denial.position()) else {
                    continue;
                };
                if !self.left_out.contains(&position) {
                    continue;
                }
                for allowed in &sequence[at + 1..] {
                    let Some(other) = allowed.position() else {
                        continue;
                    };
                    if allowed.action != Action::Deny
                        && other != position
                        && !self.left_out.contains(&other)
                        && denial.overlaps(allowed)
                    {
                        withheld
                            .entry(other)
                            .or_insert_with(|| self.policy(position).id.clone());
                    }
                }
            }
            for (position, denying) in withheld {
                let text = format!(
                    "it allows what {denying} denies before, which cannot be converted: alone it \
                     would allow more"
                );
                self.refuse(position, "", text);
                self.leave_out(position);
            }
        }
    }
}

/// Whether a rule matches everything, so that nothing after it counts.
fn is_final(rule: Option<&Rule>) -> bool {
    rule.is_some_and(|rule| {
        rule.peers == Peers::Anybody
            && rule.ports == Ports::All
            && rule.subject.is_none()
            && rule.losses.is_empty()
    })
}
