use std::sync::Arc;

use node_agent_cri::observed::ObservedSandbox;

use super::*;

const NOW: i64 = 1_700_000_000;

fn pod(spec: &str) -> Pod {
    serde_json::from_str(&format!(
        r#"{{"metadata":{{"name":"web","namespace":"default","uid":"u"}},"spec":{spec}}}"#
    ))
    .unwrap()
}

/// A container that is there: name, state, exit code, seconds since it ended.
fn record(
    name: &str,
    state: ContainerState,
    exit_code: i32,
    ago: i64,
) -> Arc<observed::ObservedContainer> {
    let mut container = observed::ObservedContainer::from_status(
        &node_agent_cri::api::ContainerStatus {
            id: format!("{name}-id"),
            labels: [(observed::key::CONTAINER_NAME.to_owned(), name.to_owned())].into(),
            exit_code,
            created_at: 1,
            started_at: 1,
            finished_at: (NOW - ago) * 1_000_000_000,
            ..Default::default()
        },
        "s0",
    )
    .unwrap();
    container.state = state;
    Arc::new(container)
}

fn observed(containers: Vec<Arc<observed::ObservedContainer>>) -> ObservedPod {
    ObservedPod {
        sandboxes: vec![ObservedSandbox {
            id: "s0".into(),
            ready: true,
            ips: vec!["10.0.0.1".into()],
            ..ObservedSandbox::default()
        }],
        containers,
    }
}

fn mounted() -> PodMemory {
    PodMemory {
        volumes_ready: true,
        ..PodMemory::default()
    }
}

fn step(spec: &str, observed: &ObservedPod, memory: &PodMemory) -> PlanStep {
    next(&PlanInput {
        pod: &pod(spec),
        aim: PodGoal::Run,
        observed,
        memory,
        now: Timestamp::from_second(NOW).unwrap(),
    })
}

fn starts(step: &PlanStep) -> Vec<&str> {
    step.actions
        .iter()
        .filter_map(|a| match a {
            PodAction::Start { name } => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

const TWO: &str = r#"{"containers":[{"name":"a"},{"name":"b"}]}"#;

#[test]
fn new_pod_gets_volumes_then_a_sandbox_then_its_containers() {
    let none = ObservedPod::default();
    assert_eq!(
        step(TWO, &none, &PodMemory::default()).actions,
        [PodAction::MountVolumes]
    );
    assert_eq!(
        step(TWO, &none, &mounted()).actions,
        [PodAction::CreateSandbox { attempt: 0 }]
    );
    assert_eq!(
        starts(&step(TWO, &observed(vec![]), &mounted())),
        ["a", "b"]
    );
}

#[test]
fn running_pod_is_left_alone() {
    let all = observed(vec![
        record("a", ContainerState::Running, 0, 0),
        record("b", ContainerState::Running, 0, 0),
    ]);
    assert_eq!(step(TWO, &all, &mounted()), PlanStep::default());
}

#[test]
fn restart_policy_decides_over_what_ended() {
    let cases = [
        ("Always", 0, true),
        ("Always", 1, true),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Never", 0, false),
        ("Never", 1, false),
    ];
    for (policy, code, again) in cases {
        let spec = format!(r#"{{"restartPolicy":"{policy}","containers":[{{"name":"a"}}]}}"#);
        let ended = observed(vec![record("a", ContainerState::Exited, code, 1)]);
        let step = step(&spec, &ended, &mounted());
        assert_eq!(starts(&step) == ["a"], again, "{policy} {code}");
        let kills = step
            .actions
            .iter()
            .any(|a| matches!(a, PodAction::KillPod { .. }));
        assert_eq!(kills, !again, "{policy} {code}");
    }
}

#[test]
fn container_in_back_off_waits_and_says_so() {
    let ended = observed(vec![record("a", ContainerState::Exited, 1, 3)]);
    let spec = r#"{"containers":[{"name":"a"}]}"#;
    let mut memory = mounted();
    let mut backoff = Backoff::restarts();
    backoff.note(Timestamp::from_second(NOW - 5).unwrap());
    let key = (
        "a".to_owned(),
        definition_hash(&pod(spec).spec.containers[0]),
    );
    memory.restarts.insert(key, backoff);
    let step = step(spec, &ended, &memory);
    assert_eq!(step.actions, []);
    assert_eq!(step.waiting["a"].reason, "CrashLoopBackOff");
    assert_eq!(
        step.waiting["a"].message,
        "back-off 10s restarting failed container=a pod=web_default(u)"
    );
    assert_eq!(step.wake, Some(Timestamp::from_second(NOW + 7).unwrap()));
}

const INIT: &str = r#"{"restartPolicy":"Never","initContainers":[{"name":"i1"},
    {"name":"side","restartPolicy":"Always"},{"name":"i2"}],"containers":[{"name":"a"}]}"#;

#[test]
fn init_containers_run_one_after_the_other_and_sidecars_stay() {
    let exited = |name, code| record(name, ContainerState::Exited, code, 1);
    let running = |name| record(name, ContainerState::Running, 0, 0);
    let mut memory = mounted();
    assert_eq!(starts(&step(INIT, &observed(vec![]), &memory)), ["i1"]);
    assert_eq!(
        step(INIT, &observed(vec![running("i1")]), &memory).actions,
        []
    );
    assert_eq!(
        starts(&step(INIT, &observed(vec![exited("i1", 0)]), &memory)),
        ["side"]
    );
    let beside = vec![running("side"), exited("i1", 0)];
    assert_eq!(step(INIT, &observed(beside.clone()), &memory).actions, []);
    memory.started.insert("side-id".into(), true);
    assert_eq!(
        starts(&step(INIT, &observed(beside.clone()), &memory)),
        ["i2"]
    );
    let mut all = beside;
    all.insert(0, exited("i2", 0));
    assert_eq!(starts(&step(INIT, &observed(all.clone()), &memory)), ["a"]);
    all.insert(0, exited("a", 0));
    assert_eq!(
        step(INIT, &observed(all), &memory).actions,
        [PodAction::KillPod { grace: 30 }]
    );
    let failed = observed(vec![exited("i1", 1)]);
    assert_eq!(
        step(INIT, &failed, &memory).actions,
        [PodAction::KillPod { grace: 30 }]
    );
}

/// A pod whose containers were granted a CPU each.
fn granted(spec: &str) -> String {
    let mut spec: serde_json::Value = serde_json::from_str(spec).unwrap();
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().unwrap() {
            container["resources"] = serde_json::json!({"requests": {"cpu": "1"}});
        }
    }
    spec.to_string()
}

/// What is in force of all of these: half of that.
fn half(mut memory: PodMemory, names: &[&str]) -> PodMemory {
    let held: ResourceRequirements =
        serde_json::from_str(r#"{"requests":{"cpu":"500m"}}"#).unwrap();
    for name in names {
        memory.in_force.insert(format!("{name}-id"), held.clone());
    }
    memory
}

#[test]
fn containers_are_resized_while_the_pod_initialises() {
    let spec = granted(INIT);
    let exited = |name, code| record(name, ContainerState::Exited, code, 1);
    let running = |name| record(name, ContainerState::Running, 0, 0);
    let all = ["i1", "side", "i2", "a"];
    let first = observed(vec![running("i1")]);
    let memory = half(mounted(), &all);
    assert_eq!(step(&spec, &first, &memory).actions, [PodAction::Resize]);
    // what does not run gets what is granted when it starts
    let (none, ended) = (observed(vec![]), observed(vec![exited("i1", 0)]));
    assert_eq!(starts(&step(&spec, &none, &memory)), ["i1"]);
    assert_eq!(starts(&step(&spec, &ended, &memory)), ["side"]);
    assert_eq!(step(&spec, &ended, &memory).actions.len(), 1);
    // the sidecar beside the second
    let mut memory = half(mounted(), &["side"]);
    memory.started.insert("side-id".into(), true);
    let second = observed(vec![running("i2"), running("side"), exited("i1", 0)]);
    assert_eq!(step(&spec, &second, &memory).actions, [PodAction::Resize]);
    assert_eq!(step(INIT, &second, &mounted()).actions, []);
    // one that failed is tried again later
    memory.resize_retry = Some(Wait::new(
        Timestamp::from_second(NOW).unwrap(),
        Duration::from_secs(5),
    ));
    let waits = step(&spec, &second, &memory);
    assert_eq!(waits.actions, []);
    assert_eq!(waits.wake, Some(Timestamp::from_second(NOW + 5).unwrap()));
}

#[test]
fn an_init_container_that_is_ended_for_its_size_begins_again_whatever_the_policy() {
    let mut spec: serde_json::Value = serde_json::from_str(&granted(INIT)).unwrap();
    spec["initContainers"][0]["resizePolicy"] =
        serde_json::json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let spec = spec.to_string();
    let mut memory = half(mounted(), &["i1"]);
    let runs = observed(vec![record("i1", ContainerState::Running, 0, 0)]);
    assert_eq!(
        step(&spec, &runs, &memory).actions,
        [PodAction::Kill {
            id: "i1-id".into(),
            name: "i1".into(),
            message: "Container i1 resize requires restart".into(),
            probe: None,
            again: true,
        }]
    );
    memory.again.insert("i1-id".into());
    let ended = observed(vec![record("i1", ContainerState::Exited, 137, 1)]);
    assert_eq!(starts(&step(&spec, &ended, &memory)), ["i1"]);
    assert_eq!(step(&spec, &ended, &memory).actions.len(), 1);
}

#[test]
fn a_pod_gets_what_it_is_granted_as_a_whole_when_no_container_is_to_be_ended_for_it() {
    let limited = |cpu: &str| ResourceRequirements {
        limits: [("cpu".to_owned(), cpu.to_owned())].into(),
        ..ResourceRequirements::default()
    };
    let spec = |policy: serde_json::Value| {
        serde_json::json!({"resources": limited("2"), "containers": [
            {"name": "a", "resizePolicy": policy},
            {"name": "b", "resources": limited("1")}]})
        .to_string()
    };
    let anew = serde_json::json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let (keeps, restarts) = (spec(serde_json::json!([])), spec(anew));
    let running = |name| record(name, ContainerState::Running, 0, 0);
    let all = observed(vec![running("a"), running("b")]);
    let mut memory = mounted();
    // nothing is known of what is in force
    assert_eq!(step(&keeps, &all, &memory).actions, []);
    memory.pod_in_force = Some(limited("1"));
    memory.in_force.insert("a-id".into(), limited("1"));
    memory.in_force.insert("b-id".into(), limited("1"));
    assert_eq!(step(&keeps, &all, &memory).actions, [PodAction::Resize]);
    let is_resizing =
        |all: &ObservedPod, memory: &PodMemory| is_resizing(&pod(&restarts), all, memory);
    let ended = step(&restarts, &all, &memory).actions;
    assert!(
        matches!(&ended[..], [PodAction::Kill { id, again: true, .. }] if id == "a-id"),
        "{ended:?}"
    );
    assert!(is_resizing(&all, &memory));
    // ended for it: under way until it runs again and the pod is limited anew
    memory.again.insert("a-id".into());
    let all = observed(vec![
        record("a", ContainerState::Exited, 137, 0),
        running("b"),
    ]);
    let both = step(&restarts, &all, &memory).actions;
    let start = PodAction::Start { name: "a".into() };
    assert_eq!(both, [start.clone(), PodAction::Resize]);
    memory.pod_in_force = Some(limited("2"));
    assert!(is_resizing(&all, &memory));
    assert_eq!(step(&restarts, &all, &memory).actions, [start]);
    memory.in_force.insert("a-id".into(), limited("2"));
    let all = observed(vec![running("a"), running("b")]);
    assert!(!is_resizing(&all, &memory));
    assert_eq!(step(&restarts, &all, &memory).actions, []);
}

#[test]
fn failed_liveness_ends_the_container_and_nothing_else() {
    let all = observed(vec![
        record("a", ContainerState::Running, 0, 0),
        record("b", ContainerState::Running, 0, 0),
    ]);
    let mut memory = mounted();
    memory.verdicts.insert("a-id".into(), ProbeVerdict::Dead);
    assert_eq!(
        step(TWO, &all, &memory).actions,
        [PodAction::Kill {
            id: "a-id".into(),
            name: "a".into(),
            message: "Container a failed liveness probe, will be restarted".into(),
            probe: Some(ProbeVerdict::Dead),
            again: false,
        }]
    );
}

#[test]
fn dead_sandbox_is_replaced_only_while_there_is_something_to_run() {
    let mut all = observed(vec![record("a", ContainerState::Exited, 0, 1)]);
    all.sandboxes[0].ready = false;
    let always = r#"{"containers":[{"name":"a"}]}"#;
    assert_eq!(
        step(always, &all, &mounted()).actions,
        [PodAction::CreateSandbox { attempt: 1 }]
    );
    let never = r#"{"restartPolicy":"Never","containers":[{"name":"a"}]}"#;
    assert!(step(never, &all, &mounted()).finished);
}

#[test]
fn ending_kills_until_all_is_still() {
    let pod = pod(TWO);
    let end = |observed: &ObservedPod| {
        next(&PlanInput {
            pod: &pod,
            aim: PodGoal::End { grace: 5 },
            observed,
            memory: &PodMemory::default(),
            now: Timestamp::from_second(NOW).unwrap(),
        })
    };
    let running = observed(vec![record("a", ContainerState::Running, 0, 0)]);
    assert_eq!(end(&running).actions, [PodAction::KillPod { grace: 5 }]);
    let mut still = observed(vec![record("a", ContainerState::Exited, 0, 0)]);
    still.sandboxes[0].ready = false;
    assert!(end(&still).finished);
    assert!(end(&ObservedPod::default()).finished);
}

const RESET: &str = r#"{"restartPolicy":"Never","initContainers":[{"name":"i"}],
    "containers":[{"name":"a"},{"name":"b","restartPolicy":"Never","restartPolicyRules":[
        {"action":"Restart","exitCodes":{"operator":"In","values":[7]}},
        {"action":"RestartAllContainers","exitCodes":{"operator":"NotIn","values":[0]}}]}]}"#;

#[test]
fn all_begin_anew_when_the_first_rule_that_matches_says_so_and_the_asker_goes_last() {
    let with = |code| {
        observed(vec![
            record("i", ContainerState::Exited, 0, 50),
            record("a", ContainerState::Running, 0, 0),
            record("b", ContainerState::Exited, code, 5),
        ])
    };
    let one = |name: &str, runs| (format!("{name}-id"), runs);
    assert_eq!(
        step(RESET, &with(1), &mounted()).actions,
        [PodAction::Reset {
            containers: vec![one("a", true), one("i", false), one("b", false)]
        }]
    );
    // an earlier rule matches: only this one
    assert_eq!(starts(&step(RESET, &with(7), &mounted())), ["b"]);
    assert!(step(RESET, &with(0), &mounted()).actions.is_empty());
}

#[test]
fn rules_without_a_policy_of_the_containers_own_do_not_count() {
    let spec = RESET.replace(r#""name":"b","restartPolicy":"Never""#, r#""name":"b""#);
    let there = observed(vec![
        record("i", ContainerState::Exited, 0, 50),
        record("a", ContainerState::Running, 0, 0),
        record("b", ContainerState::Exited, 1, 5),
    ]);
    assert!(step(&spec, &there, &mounted()).actions.is_empty());
}
