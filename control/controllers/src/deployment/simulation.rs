//! A small cluster in memory: one Deployment, its ReplicaSets, their pods, and
//! a node that makes pods ready. Everything that the controllers decide is
//! applied as the API server would; nothing else happens. It cannot show what
//! follows from events that come late, or from writes that fail.

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::annotations::REVISION;
use super::arithmetic::RolloutBounds;
use super::decide::{DeploymentAction, DeploymentSnapshot, decide};
use crate::replicaset;
use crate::views::{Deployment, Pod, ReplicaSet, Template};

/// A Deployment named `web` with image `a`.
pub(super) fn deployment(replicas: i32, spec: Value) -> Deployment {
    let mut value = json!({
        "metadata": {"name":"web","namespace":"d","uid":"web","generation":1},
        "spec": {"replicas":replicas,"selector":{"matchLabels":{"app":"web"}},"template":template("a"),
            "progressDeadlineSeconds":600,"revisionHistoryLimit":10,
            "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}}}});
    for (key, part) in spec.as_object().into_iter().flatten() {
        value["spec"][key] = part.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn template(image: &str) -> Value {
    json!({"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":image}]}})
}

pub(super) struct World {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    pods: Vec<Pod>,
    broken: Vec<String>,
    now: Timestamp,
    serial: u32,
}

impl World {
    pub(super) fn new(deployment: &Deployment) -> Self {
        Self {
            deployment: deployment.clone(),
            sets: Vec::new(),
            pods: Vec::new(),
            broken: Vec::new(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            serial: 0,
        }
    }

    pub(super) fn sets(&self) -> &[ReplicaSet] {
        &self.sets
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut Deployment)) {
        change(&mut self.deployment);
        self.deployment.metadata.generation += 1;
    }

    pub(super) fn set_image(&mut self, image: &str) {
        let template = Template::from_value(&template(image));
        self.change(|d| d.spec.template = template);
    }

    pub(super) fn scale(&mut self, replicas: i32) {
        self.change(|d| d.spec.replicas = Some(replicas));
    }

    /// Pods of this image never become ready.
    pub(super) fn break_image(&mut self, image: &str) {
        self.broken.push(image.to_owned());
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now = Timestamp::from_second(self.now.as_second() + seconds).unwrap();
    }

    pub(super) fn annotation(&self, alias: &str, key: &str) -> Option<String> {
        self.sets
            .iter()
            .find(|set| self.alias(set) == alias)
            .and_then(|set| set.metadata.annotations.get(key).map(ToOwned::to_owned))
    }

    fn image(set: &ReplicaSet) -> String {
        let template = set.spec.template.to_value();
        template["spec"]["containers"][0]["image"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Sets are printed by image, so that hashes do not matter.
    fn alias(&self, set: &ReplicaSet) -> String {
        format!("web-{}", Self::image(set).to_uppercase())
    }

    fn alias_of(&self, name: &str) -> String {
        self.sets
            .iter()
            .find(|set| set.metadata.name == name)
            .map_or_else(|| name.to_owned(), |set| self.alias(set))
    }

    fn decide(&self) -> Vec<DeploymentAction> {
        let sets: Vec<_> = self.sets.iter().cloned().map(Arc::new).collect();
        let pods: Vec<_> = self.pods.iter().cloned().map(Arc::new).collect();
        decide(&DeploymentSnapshot {
            deployment: &self.deployment,
            sets: &sets,
            pods: &pods,
            now: self.now,
        })
    }

    /// Returns what the controller would do now.
    pub(super) fn look(&mut self) -> String {
        let mut text = String::new();
        for action in self.decide() {
            match action {
                DeploymentAction::CreateSet(new) => {
                    let image = new.template["spec"]["containers"][0]["image"]
                        .as_str()
                        .unwrap();
                    writeln!(
                        text,
                        "create web-{} {} revision {}",
                        image.to_uppercase(),
                        new.replicas,
                        new.annotations[REVISION]
                    )
                }
                DeploymentAction::ChangeSet(change) => match change.scale {
                    Some((from, to)) => {
                        writeln!(text, "scale {} {from}->{to}", self.alias_of(&change.name))
                    }
                    None => writeln!(text, "annotate {}", self.alias_of(&change.name)),
                },
                DeploymentAction::DeleteSet { name, .. } => {
                    writeln!(text, "delete {}", self.alias_of(&name))
                }
                DeploymentAction::Status { status, revision } => {
                    let conditions: Vec<_> = status
                        .conditions
                        .iter()
                        .map(|c| format!(" {}={}/{}", c.r#type, c.status, c.reason))
                        .collect();
                    writeln!(
                        text,
                        "status {}/{}/{}/{} unavailable {}{}{}",
                        status.replicas,
                        status.updated_replicas,
                        status.ready_replicas,
                        status.available_replicas,
                        status.unavailable_replicas,
                        conditions.concat(),
                        revision.map_or(String::new(), |r| format!(" revision {r}")),
                    )
                }
                DeploymentAction::Wake(after) => writeln!(text, "wake {}s", after.as_secs()),
            }
            .unwrap();
        }
        text
    }

    pub(super) fn print(&self) -> String {
        let mut sets: Vec<_> = self.sets.iter().collect();
        sets.sort_by_key(|set| self.alias(set));
        let mut text = String::new();
        for set in sets {
            let pods = self.pods_of(set);
            writeln!(
                text,
                "{} rev {}: {} wanted, {} pods, {} ready",
                self.alias(set),
                set.metadata.annotations.get(REVISION).unwrap_or("?"),
                set.replicas(),
                pods.iter().filter(|p| p.is_active()).count(),
                pods.iter()
                    .filter(|p| p.is_active() && p.is_ready())
                    .count(),
            )
            .unwrap();
        }
        let s = &self.deployment.status;
        let conditions: Vec<_> = s
            .conditions
            .iter()
            .map(|c| format!(" {}={}/{}", c.r#type, c.status, c.reason))
            .collect();
        writeln!(
            text,
            "status {}/{}/{}/{}{}",
            s.replicas,
            s.updated_replicas,
            s.ready_replicas,
            s.available_replicas,
            conditions.concat()
        )
        .unwrap();
        text
    }

    fn pods_of(&self, set: &ReplicaSet) -> Vec<&Pod> {
        self.pods
            .iter()
            .filter(|pod| {
                pod.metadata
                    .controller()
                    .is_some_and(|o| o.uid == set.metadata.uid)
            })
            .collect()
    }

    /// Returns the number of templates with remaining pods.
    pub(super) fn live_templates(&self) -> usize {
        self.sets
            .iter()
            .filter(|set| !self.pods_of(set).is_empty())
            .count()
    }

    fn run_deployment(&mut self) -> bool {
        let actions = self.decide();
        let mut changed = false;
        for action in actions {
            changed |= !matches!(action, DeploymentAction::Wake(_));
            self.apply(action);
        }
        changed
    }

    fn apply(&mut self, action: DeploymentAction) {
        match action {
            DeploymentAction::CreateSet(new) => {
                self.serial += 1;
                let created =
                    Timestamp::from_second(self.now.as_second() + i64::from(self.serial)).unwrap();
                let set = serde_json::from_value(json!({
                    "metadata": {"name":new.name,"namespace":"d","uid":format!("set-{}", self.serial),"generation":1,
                        "creationTimestamp":created,"annotations":new.annotations,
                        "ownerReferences":[{"kind":"Deployment","name":"web","uid":"web","controller":true}]},
                    "spec": {"replicas":new.replicas,"selector":new.selector,"template":new.template,
                        "minReadySeconds":new.min_ready_seconds}}));
                self.sets.push(set.unwrap());
            }
            DeploymentAction::ChangeSet(change) => {
                let set = self
                    .sets
                    .iter_mut()
                    .find(|s| s.metadata.name == change.name)
                    .unwrap();
                if let Some((from, to)) = change.scale {
                    assert_eq!(set.replicas(), from);
                    set.spec.replicas = Some(to);
                    set.metadata.generation += 1;
                }
                let mut annotations: std::collections::BTreeMap<String, String> = set
                    .metadata
                    .annotations
                    .iter()
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .collect();
                annotations.extend(
                    change
                        .annotations
                        .iter()
                        .map(|(k, v)| (k.to_string(), v.to_string())),
                );
                set.metadata.annotations = annotations.into_iter().collect();
                if let Some(seconds) = change.min_ready_seconds {
                    set.spec.min_ready_seconds = seconds;
                }
            }
            DeploymentAction::DeleteSet { name, .. } => {
                self.sets.retain(|set| set.metadata.name != name);
            }
            DeploymentAction::Status { status, revision } => {
                self.deployment.status = status;
                if let Some(revision) = revision {
                    self.deployment.metadata.annotations =
                        [(REVISION, revision.as_str())].into_iter().collect();
                }
            }
            DeploymentAction::Wake(_) => {}
        }
    }

    fn run_set(&mut self, at: usize) -> bool {
        let set = self.sets[at].clone();
        let pods: Vec<_> = self
            .pods_of(&set)
            .into_iter()
            .cloned()
            .map(Arc::new)
            .collect();
        let actions = replicaset::decide(&replicaset::ReplicaSetSnapshot {
            set: &set,
            pods: &pods,
            related: &pods,
            leaving: &std::collections::HashSet::new(),
            settled: true,
            reports_terminating: true,
            now: self.now,
        });
        let changed = !actions.is_empty();
        for action in actions {
            match action {
                replicaset::ReplicaSetAction::Create(count) => {
                    for _ in 0..count {
                        self.serial += 1;
                        let name = format!("pod-{}", self.serial);
                        let pod = json!({"metadata":{"name":name,"namespace":"d","uid":name,
                            "labels":set.spec.template.labels,"creationTimestamp":self.now,
                            "ownerReferences":[{"kind":"ReplicaSet","name":set.metadata.name,"uid":set.metadata.uid,"controller":true}]}});
                        self.pods.push(serde_json::from_value(pod).unwrap());
                    }
                }
                replicaset::ReplicaSetAction::Delete(victims) => {
                    for victim in victims {
                        let pod = self
                            .pods
                            .iter_mut()
                            .find(|p| p.metadata.uid == victim.metadata.uid)
                            .unwrap();
                        pod.metadata.deletion_timestamp = Some(self.now);
                    }
                }
                replicaset::ReplicaSetAction::Status(status) => self.sets[at].status = status,
                replicaset::ReplicaSetAction::Wake(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
        changed
    }

    /// A pod becomes ready or, if it is being deleted, goes.
    fn run_pod(&mut self, at: usize) -> bool {
        let pod = &self.pods[at];
        if pod.metadata.is_terminating() {
            self.pods.remove(at);
            return true;
        }
        let owner = pod.metadata.controller().unwrap().uid.clone();
        let image = self
            .sets
            .iter()
            .find(|set| set.metadata.uid == owner)
            .map(Self::image)
            .unwrap_or_default();
        if pod.is_ready() || self.broken.contains(&image) {
            return false;
        }
        let status = json!({"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":self.now}]});
        self.pods[at].status = serde_json::from_value(status).unwrap();
        true
    }

    /// One round of everything, in order.
    pub(super) fn step(&mut self) -> bool {
        let mut changed = self.run_deployment();
        for at in 0..self.sets.len() {
            changed |= self.run_set(at);
        }
        for at in (0..self.pods.len()).rev() {
            changed |= self.run_pod(at);
        }
        changed
    }

    /// Rounds until nothing changes.
    pub(super) fn settle(&mut self) {
        for _ in 0..500 {
            if !self.step() {
                return;
            }
        }
        panic!("does not settle:\n{}\n{}", self.print(), self.look());
    }

    fn available(&self) -> i32 {
        let count = self
            .pods
            .iter()
            .filter(|p| {
                p.is_active() && p.is_available(self.deployment.spec.min_ready_seconds, self.now)
            })
            .count();
        i32::try_from(count).unwrap()
    }

    fn wanted(&self) -> i32 {
        self.sets.iter().map(ReplicaSet::replicas).sum()
    }
}

/// A possible next step, chosen by the test.
#[derive(Debug, Clone)]
enum Move {
    Deployment,
    Set(usize),
    Pod(usize),
    Image(char),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => Just(Move::Deployment),
        4 => (0usize..8).prop_map(Move::Set),
        6 => (0usize..40).prop_map(Move::Pod),
        1 => prop::char::range('a', 'd').prop_map(Move::Image),
    ];
    prop::collection::vec(one, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// However events interleave and however often the template changes, a
    /// rollout of a healthy Deployment never falls below its availability, never
    /// asks for more pods than its surge, and ends where it should.
    #[test]
    fn rollouts_keep_their_bounds_and_converge(
        replicas in 0i32..12,
        surge in 0i32..4,
        unavailable in 0i32..4,
        moves in moves(),
    ) {
        prop_assume!(surge + unavailable > 0);
        let strategy = json!({"strategy":{"type":"RollingUpdate","rollingUpdate":{
            "maxSurge":surge,"maxUnavailable":unavailable}}});
        let mut world = World::new(&deployment(replicas, strategy));
        world.settle();
        let bounds = RolloutBounds::for_deployment(&world.deployment);
        for step in moves {
            match step {
                Move::Deployment => { world.run_deployment(); }
                Move::Set(at) if at < world.sets.len() => { world.run_set(at); }
                Move::Pod(at) if at < world.pods.len() => { world.run_pod(at); }
                Move::Image(image) => world.set_image(&image.to_string()),
                Move::Set(_) | Move::Pod(_) => {}
            }
            prop_assert!(world.available() >= replicas - bounds.max_unavailable, "{}", world.print());
            prop_assert!(world.wanted() <= replicas + bounds.max_surge, "{}", world.print());
        }
        world.settle();
        prop_assert_eq!(world.available(), replicas);
        let status = &world.deployment.status;
        prop_assert_eq!((status.replicas, status.updated_replicas), (replicas, replicas));
        prop_assert_eq!(status.observed_generation, world.deployment.metadata.generation);
        let newest = world.sets.iter().filter(|s| s.replicas() > 0).collect::<Vec<_>>();
        prop_assert!(newest.len() <= 1);
        prop_assert!(newest.iter().all(|s| s.spec.template.digest == world.deployment.spec.template.digest));
    }

    /// Any sizes of any sets converge in bounded steps.
    #[test]
    fn any_state_converges(
        sizes in prop::collection::vec(0i32..9, 1..5),
        replicas in 0i32..12,
        recreate in any::<bool>(),
    ) {
        let spec = if recreate { json!({"strategy":{"type":"Recreate"}}) } else { json!({}) };
        let mut world = World::new(&deployment(1, spec));
        for (at, size) in sizes.iter().enumerate() {
            let image = char::from(b'a' + u8::try_from(at).unwrap()).to_string();
            world.set_image(&image);
            world.settle();
            world.sets.last_mut().unwrap().spec.replicas = Some(*size);
            world.sets.last_mut().unwrap().metadata.generation += 1;
        }
        for (set, size) in world.sets.iter_mut().zip(&sizes) {
            set.spec.replicas = Some(*size);
        }
        world.scale(replicas);
        world.settle();
        prop_assert_eq!(world.available(), replicas);
        prop_assert_eq!(world.deployment.status.updated_replicas, replicas);
    }
}
