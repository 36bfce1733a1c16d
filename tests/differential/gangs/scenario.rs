//! What happens in a scenario, and when to look.

/// Something that happens.
#[derive(Clone, Copy)]
pub enum Step {
    /// A node comes, with so many CPUs.
    Node(&'static str, u32),
    /// A PodGroup comes. `None`: its policy is `basic`; else how many pods it needs.
    Group(&'static str, Option<u32>),
    /// A pod comes.
    Pod(PodStep),
    /// The scheduling gates of a pod go.
    Ungate(&'static str),
    /// A pod is deleted.
    Delete(&'static str),
    /// All pods are deleted that are on a node.
    DeleteBound,
    /// What became of all is compared, once nothing changes any more.
    Look,
}

/// A pod that comes.
#[derive(Clone, Copy)]
pub struct PodStep {
    /// Its name.
    pub name: &'static str,
    /// Its PodGroup; empty: none.
    pub group: &'static str,
    /// How many CPUs it requests.
    pub cpu: u32,
    /// Whether it is important.
    pub is_important: bool,
    /// Whether it has a scheduling gate.
    pub is_gated: bool,
    /// The only node that it may run on; empty: any.
    pub only_on: &'static str,
}

/// A scenario.
pub struct Scenario {
    /// What it is about.
    pub name: &'static str,
    /// What happens.
    pub steps: Vec<Step>,
}

use Step::{Delete, DeleteBound, Group, Look, Node, Ungate};

const fn pod(name: &'static str, group: &'static str, cpu: u32) -> PodStep {
    PodStep {
        name,
        group,
        cpu,
        is_important: false,
        is_gated: false,
        only_on: "",
    }
}

const fn of(name: &'static str, group: &'static str, cpu: u32) -> Step {
    Step::Pod(pod(name, group, cpu))
}

const fn important(name: &'static str, group: &'static str, cpu: u32) -> Step {
    let mut pod = pod(name, group, cpu);
    pod.is_important = true;
    Step::Pod(pod)
}

const fn gated(name: &'static str, group: &'static str, cpu: u32) -> Step {
    let mut pod = pod(name, group, cpu);
    pod.is_gated = true;
    Step::Pod(pod)
}

const fn only_on(name: &'static str, group: &'static str, node: &'static str) -> Step {
    let mut pod = pod(name, group, 1);
    pod.only_on = node;
    Step::Pod(pod)
}

/// All scenarios. Groups mostly come after their pods, so that these are decided about at once.
#[rustfmt::skip]
pub fn all() -> Vec<Scenario> {
    let scenario = |name, steps: &[Step]| Scenario { name, steps: steps.to_vec() };
    vec![
        scenario("a gang that fits", &[
            Node("a", 2), Node("b", 2),
            of("x", "g", 1), of("y", "g", 1), of("z", "g", 1), Group("g", Some(3)), Look,
        ]),
        scenario("too few pods, and then enough", &[
            Node("a", 4), Group("g", Some(3)), of("x", "g", 1), of("y", "g", 1), Look,
            of("z", "g", 1), Look,
        ]),
        scenario("a gang without room, and then with", &[
            Node("a", 2),
            of("x", "g", 1), of("y", "g", 1), of("z", "g", 1), Group("g", Some(3)), Look,
            Node("b", 1), Look,
        ]),
        scenario("more pods than are needed", &[
            Node("a", 2),
            of("x", "g", 1), of("y", "g", 1), of("z", "g", 1), Group("g", Some(2)), Look,
            of("w", "g", 1), Look,
            Node("b", 2), Look,
        ]),
        scenario("two gangs, and room for one", &[
            Node("a", 2), Node("b", 2),
            of("o1", "one", 1), of("o2", "one", 1), of("o3", "one", 1),
            of("p1", "two", 1), of("p2", "two", 1), of("p3", "two", 1),
            Group("one", Some(3)), Group("two", Some(3)), Look,
            DeleteBound, Look,
        ]),
        scenario("a basic group", &[
            Node("a", 2),
            of("x", "g", 1), of("y", "g", 1), of("z", "g", 1), Group("g", None), Look,
        ]),
        scenario("a group that does not exist", &[
            Node("a", 4), of("x", "later", 1), of("y", "", 1), Look,
            Group("later", Some(1)), Look,
        ]),
        scenario("a pod with a scheduling gate", &[
            Node("a", 4), of("x", "g", 1), of("y", "g", 1), gated("z", "g", 1),
            Group("g", Some(3)), Look,
            Ungate("z"), Look,
        ]),
        scenario("a pod that is deleted while it waits", &[
            Node("a", 2),
            of("x", "g", 1), of("y", "g", 1), of("z", "g", 1), Group("g", Some(3)), Look,
            Delete("z"), Node("b", 2), Look,
            of("w", "g", 1), Look,
        ]),
        scenario("a gang that loses a pod on a node", &[
            Node("a", 4),
            of("x", "g", 1), of("y", "g", 1), of("z", "g", 1), Group("g", Some(3)), Look,
            Delete("y"), Look,
            of("w", "g", 1), Look,
        ]),
        scenario("all pods of a gang gone, and one anew", &[
            Node("a", 4), of("x", "g", 1), of("y", "g", 1), Group("g", Some(2)), Look,
            DeleteBound, Look,
            of("w", "g", 1), Look,
        ]),
        scenario("a gang between others", &[
            Node("a", 3), of("s", "", 1), Look,
            of("x", "g", 1), of("y", "g", 1), of("z", "g", 1), Group("g", Some(3)), Look,
            of("t", "", 1), Look,
            Delete("s"), Look,
        ]),
        scenario("more important pods of a gang", &[
            Node("a", 2), of("x", "g", 1), important("y", "g", 2), Group("g", Some(1)), Look,
        ]),
        scenario("pods of a gang with nodes of their own", &[
            Node("a", 2), Node("b", 2),
            only_on("x", "g", "a"), only_on("y", "g", "none"), only_on("z", "g", "b"),
            Group("g", Some(2)), Look,
        ]),
        scenario("pods of a gang that may not run anywhere", &[
            Node("a", 2), only_on("x", "g", "none"), only_on("y", "g", "none"),
            Group("g", Some(2)), Look,
        ]),
        scenario("no nodes", &[
            of("x", "g", 1), of("y", "g", 1), Group("g", Some(2)), Look,
            Node("a", 2), Look,
        ]),
        scenario("a gang in the place of a less important pod", &[
            Node("a", 2), of("low", "", 2), Look,
            important("x", "g", 1), important("y", "g", 1), Group("g", Some(2)), Look,
        ]),
        scenario("a gang in the place of less important pods on two nodes", &[
            Node("a", 2), of("low1", "", 2), Look,
            Node("b", 2), of("low2", "", 2), Look,
            important("x", "g", 2), important("y", "g", 2), Group("g", Some(2)), Look,
        ]),
        scenario("a gang in the place of another one", &[
            Node("a", 2), of("x", "low", 1), of("y", "low", 1), Group("low", Some(2)), Look,
            important("p", "high", 2), Group("high", Some(1)), Look,
        ]),
    ]
}
