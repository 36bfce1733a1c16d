//! Tests PodGroups in the loop, against the fake API.

use jiff::Timestamp;

use super::*;
use crate::gangs::Verdict;
use crate::reserve::Reservation;
use crate::run::gang::condition;

fn on() -> Config {
    let features = Features {
        generic_workload: true,
        gang_scheduling: true,
    };
    Config::for_names(["default-scheduler".to_owned()], features)
}

fn group(name: &str, min_count: u32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "2"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}}
    })
}

/// A pod of a PodGroup that needs so many CPUs; nodes have 64.
fn member(name: &str, group: &str, cpu: u32) -> Value {
    pod(
        name,
        json!({"schedulingGroup": {"podGroupName": group}, "containers": [
            {"resources": {"requests": {"cpu": cpu}}}]}),
    )
}

fn api(nodes: &[&str], groups: Vec<Value>, pods: Vec<Value>) -> Arc<Api> {
    let nodes = nodes.iter().map(|name| node(name)).collect();
    let api = Api::with([("nodes", nodes), ("podgroups", groups), ("pods", pods)]);
    *api.serves_groups.lock().unwrap() = true;
    api
}

impl Api {
    /// Tells of an object that is new, or newer.
    fn tell_new(&self, plural: &'static str, kind: &str, mut object: Value, version: u32) {
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        self.tell(plural, kind, &object);
    }

    fn names_bound(&self) -> Vec<String> {
        let mut names = self.bindings.lock().unwrap().clone();
        names.sort();
        names
    }

    /// Status, reason and message that were last written of a PodGroup.
    fn group_condition(&self, group: &str) -> Option<(String, String, String)> {
        let conditions = self.group_conditions.lock().unwrap();
        let mut of_group = conditions.iter().rev().filter(|(name, _)| name == group);
        let (_, condition) = of_group.next()?;
        assert_eq!(condition["type"], "PodGroupScheduled");
        let text = |field: &str| condition[field].as_str().expect("a text").to_owned();
        Some((text("status"), text("reason"), text("message")))
    }
}

#[test]
fn pods_of_a_gang_wait_in_silence_until_there_are_enough_and_are_bound_together() {
    in_virtual_time(|| async {
        let api = api(&["a"], vec![], vec![member("x", "g", 1)]);
        api.scheduled_by(on(), async || {
            after(5).await;
            api.tell_new("podgroups", "ADDED", group("g", 3), 11);
            after(5).await;
            api.tell_new("pods", "ADDED", member("y", "g", 1), 12);
            after(5).await;
            assert_eq!((api.bound(), api.condition("x")), (0, None));
            assert_eq!(api.group_condition("g"), None);
            api.tell_new("pods", "ADDED", member("z", "g", 1), 13);
            after(1).await;
            assert_eq!(api.names_bound(), ["x", "y", "z"]);
            let scheduled = ("True".to_owned(), "Scheduled".to_owned(), String::new());
            assert_eq!(api.group_condition("g"), Some(scheduled));
        })
        .await;
    });
}

#[test]
fn a_gang_that_does_not_fit_holds_nothing_and_is_bound_when_there_is_room() {
    in_virtual_time(|| async {
        let members = ["x", "y", "z"].map(|name| member(name, "g", 32));
        let api = api(&["a"], vec![group("g", 3)], members.to_vec());
        api.scheduled_by(on(), async || {
            after(5).await;
            assert_eq!(api.bound(), 0);
            let message = |pod: &str| {
                let condition = api.condition(pod).expect("a condition");
                assert_eq!(condition["reason"], "Unschedulable");
                condition["message"].as_str().expect("a message").to_owned()
            };
            let waits = "pod group is unschedulable, waiting for minCount pods from a gang to \
                         be scheduled, one or more plugins asked to wait and no plugin \
                         rejected pod";
            assert_eq!(message("x"), waits);
            assert_eq!(message("y"), waits);
            assert!(
                message("z").starts_with("0/1 nodes are available: 1 Insufficient cpu."),
                "{}",
                message("z")
            );
            let (status, reason, said) = api.group_condition("g").expect("a condition");
            assert_eq!(
                (status.as_str(), reason.as_str()),
                ("False", "Unschedulable")
            );
            assert_eq!(said, "pod group is unschedulable");
            // The resources that it would need are free for others.
            api.tell_new(
                "pods",
                "ADDED",
                pod(
                    "other",
                    json!({"containers": [
                {"resources": {"requests": {"cpu": 64}}}]}),
                ),
                11,
            );
            after(1).await;
            assert_eq!(api.names_bound(), ["other"]);
            api.tell_new("nodes", "ADDED", node("b"), 12);
            api.tell_new("nodes", "ADDED", node("c"), 13);
            after(11).await;
            assert_eq!(api.names_bound(), ["other", "x", "y", "z"]);
            let (status, ..) = api.group_condition("g").expect("a condition");
            assert_eq!(status, "True");
        })
        .await;
    });
}

#[test]
fn an_unschedulable_gang_is_tried_after_its_back_off_and_not_all_the_time() {
    in_virtual_time(|| async {
        let members = ["x", "y"].map(|name| member(name, "g", 64));
        let api = api(&["a"], vec![group("g", 2)], members.to_vec());
        api.scheduled_by(on(), async || {
            after(60).await;
            let events = api.events.lock().unwrap();
            let told = events
                .iter()
                .filter(|it| it["reason"] == "FailedScheduling");
            let told = told.filter(|it| it["regarding"]["name"] == "x").count();
            // Back-offs of 1, 2, 4, 8 and then 10 seconds; equal events are counted, not sent.
            assert!((1..=9).contains(&told), "{told} events");
            assert_eq!(api.bound(), 0);
        })
        .await;
    });
}

#[test]
fn of_two_gangs_that_do_not_fit_together_one_is_bound_and_then_the_other() {
    in_virtual_time(|| async {
        let mut pods = Vec::new();
        for at in 0..3 {
            pods.push(member(&format!("o{at}"), "one", 32));
            pods.push(member(&format!("p{at}"), "other", 32));
        }
        let groups = vec![group("one", 3), group("other", 3)];
        let api = api(&["a", "b"], groups, pods.clone());
        api.scheduled_by(on(), async || {
            after(20).await;
            let first = api.names_bound();
            let won = if first[0] == "o0" { "o" } else { "p" };
            assert_eq!(
                first,
                (0..3).map(|at| format!("{won}{at}")).collect::<Vec<_>>()
            );
            let winners = pods.iter().filter(|it| {
                it["metadata"]["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with(won))
            });
            for (version, pod) in (20..).zip(winners) {
                api.tell_new("pods", "DELETED", pod.clone(), version);
            }
            after(20).await;
            assert_eq!(api.bound(), 6);
        })
        .await;
    });
}

#[test]
fn a_gang_that_loses_a_waiting_pod_is_not_bound_before_there_is_another() {
    in_virtual_time(|| async {
        let members = ["x", "y", "z"].map(|name| member(name, "g", 64));
        let api = api(&["a", "b"], vec![group("g", 3)], members.to_vec());
        api.scheduled_by(on(), async || {
            after(5).await;
            assert_eq!(api.bound(), 0);
            api.tell_new("pods", "DELETED", member("z", "g", 64), 11);
            api.tell_new("nodes", "ADDED", node("c"), 12);
            after(60).await;
            assert_eq!(api.bound(), 0);
            api.tell_new("pods", "ADDED", member("new", "g", 64), 13);
            after(11).await;
            assert_eq!(api.names_bound(), ["new", "x", "y"]);
        })
        .await;
    });
}

#[test]
fn pods_of_two_schedulers_are_no_group() {
    in_virtual_time(|| async {
        let mut config = on();
        config.profiles.push(Arc::new(Profile {
            scheduler_name: "second".to_owned(),
            ..Profile::with_features(config.features)
        }));
        let mut other = member("y", "g", 1);
        other["spec"]["schedulerName"] = json!("second");
        let pods = vec![member("x", "g", 1), other];
        let api = api(&["a"], vec![group("g", 2)], pods);
        api.scheduled_by(config, async || {
            after(5).await;
            assert_eq!(api.bound(), 0);
            let condition = api.condition("x").expect("a condition");
            assert_eq!(condition["reason"], "SchedulerError");
            let message = condition["message"].as_str().expect("a message");
            assert!(
                message.starts_with("all pods in a single pod group should have the same"),
                "{message}"
            );
        })
        .await;
    });
}

#[test]
fn a_gang_takes_the_room_of_less_important_pods_as_a_whole() {
    in_virtual_time(|| async {
        let low = |name: &str, node: &str| {
            let mut low = member(name, "", 64);
            low["spec"] = json!({"nodeName": node, "schedulerName": "default-scheduler",
                "containers": low["spec"]["containers"]});
            low
        };
        let members = ["x", "y"].map(|name| {
            let mut member = member(name, "g", 64);
            member["spec"]["priority"] = json!(5);
            member
        });
        let mut pods = members.to_vec();
        pods.push(low("low", "a"));
        let api = api(&["a"], vec![group("g", 2)], pods);
        api.scheduled_by(on(), async || {
            after(5).await;
            // Without a second node the room would be made in vain.
            assert!(api.deletions.lock().unwrap().is_empty());
            api.tell_new("nodes", "ADDED", node("b"), 11);
            // It is tried again after back-offs of 1, 2, 4, 8 and 10 seconds.
            after(4).await;
            assert_eq!(*api.deletions.lock().unwrap(), ["low"]);
            assert_eq!(api.bound(), 0);
            let (status, _, message) = api.group_condition("g").expect("a condition");
            assert_eq!(status, "False");
            assert_eq!(
                message,
                "pod group is unschedulable, pod group is waiting for preemption to complete"
            );
            let nominated = [api.nominated("x"), api.nominated("y")];
            assert!(nominated.contains(&json!("a")), "{nominated:?}");
            assert!(nominated.contains(&json!("b")), "{nominated:?}");
            api.tell_new("pods", "DELETED", low("low", "a"), 12);
            after(11).await;
            assert_eq!(api.names_bound(), ["x", "y"]);
        })
        .await;
    });
}

#[test]
fn where_pod_groups_are_not_served_or_the_feature_is_off_pods_are_placed_one_by_one() {
    for (is_on, is_served) in [(true, false), (false, true)] {
        in_virtual_time(move || async move {
            let api = api(&["a"], vec![group("g", 3)], vec![member("x", "g", 1)]);
            *api.serves_groups.lock().unwrap() = is_served;
            let config = if is_on { on() } else { Config::default() };
            api.scheduled_by(config, async || {
                after(5).await;
                assert_eq!(api.names_bound(), ["x"]);
                assert_eq!(api.group_condition("g"), None);
            })
            .await;
        });
    }
}

/// A scheduler that has seen everything, before it places pods.
async fn scheduler(api: &Arc<Api>) -> Scheduler {
    let client = api.client();
    let config = on();
    let watches = Watches {
        nodes: reflect(&client, Selection::all()),
        pods: reflect(&client, Selection::all()),
        namespaces: reflect(&client, Selection::all()),
        objects: CatalogReflectors::start(&client),
        pod_groups: gang::watch(&client, config.features).await,
    };
    watches.nodes.synced().await;
    watches.pods.synced().await;
    watches
        .pod_groups
        .as_ref()
        .expect("PodGroups")
        .synced()
        .await;
    let mut scheduler = Scheduler::new(client, &config, watches);
    scheduler.take_in();
    scheduler
}

/// A gang of `x`, which has a node, and `y`, which has scheduling gates.
async fn half_permitted() -> (Arc<Api>, Scheduler) {
    let mut gated = member("y", "g", 1);
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    let pods = vec![member("x", "g", 64), gated];
    let api = api(&["a", "b"], vec![group("g", 2)], pods);
    let mut scheduler = scheduler(&api).await;
    let x = scheduler.queue.pop(now()).expect("a pod");
    assert_eq!(x.metadata.name, "x");
    scheduler.bind(
        x,
        "a".to_owned(),
        Reservation::default(),
        Instant::now(),
        None,
    );
    (api, scheduler)
}

#[test]
fn a_pod_that_has_a_node_gives_it_back_when_the_others_take_too_long() {
    in_virtual_time(|| async {
        let (api, scheduler) = half_permitted().await;
        let shutdown = CancellationToken::new();
        let running = scheduler.run(&shutdown);
        let look = async {
            after(299).await;
            assert_eq!((api.bound(), api.condition("x")), (0, None));
            assert_eq!(api.nominated("x"), json!("a"));
            tokio::time::sleep(Duration::from_millis(1500)).await;
            let condition = api.condition("x").expect("a condition");
            assert_eq!(condition["reason"], "Unschedulable");
            let message = "0/1 nodes are available: 1 rejected due to timeout after waiting \
                           5m0s at plugin GangScheduling.";
            assert_eq!(condition["message"], message);
            // Its resources are free.
            let large = json!({"containers": [{"resources": {"requests": {"cpu": 64}}}],
                "nodeSelector": {"kubernetes.io/hostname": "a"}});
            api.tell_new("pods", "ADDED", pod("large", large), 11);
            after(1).await;
            assert_eq!(api.names_bound(), ["large"]);
            shutdown.cancel();
        };
        tokio::join!(running, look);
    });
}

#[test]
fn a_pod_that_has_a_node_is_bound_with_the_one_that_completes_its_gang() {
    in_virtual_time(|| async {
        let (api, scheduler) = half_permitted().await;
        let shutdown = CancellationToken::new();
        let running = scheduler.run(&shutdown);
        let look = async {
            after(60).await;
            assert_eq!(api.bound(), 0);
            api.tell_new("pods", "MODIFIED", member("y", "g", 1), 11);
            after(1).await;
            assert_eq!(api.names_bound(), ["x", "y"]);
            shutdown.cancel();
        };
        tokio::join!(running, look);
    });
}

#[test]
fn a_pod_that_is_deleted_while_it_waits_for_its_gang_leaves_its_node_at_once() {
    in_virtual_time(|| async {
        let (api, scheduler) = half_permitted().await;
        let shutdown = CancellationToken::new();
        let running = scheduler.run(&shutdown);
        let look = async {
            after(60).await;
            api.tell_new("pods", "DELETED", member("x", "g", 64), 11);
            let large = json!({"containers": [{"resources": {"requests": {"cpu": 64}}}],
                "nodeSelector": {"kubernetes.io/hostname": "a"}});
            api.tell_new("pods", "ADDED", pod("large", large), 12);
            after(1).await;
            assert_eq!(api.names_bound(), ["large"]);
            after(300).await;
            assert_eq!(api.condition("x"), None);
            shutdown.cancel();
        };
        tokio::join!(running, look);
    });
}

#[test]
fn a_group_that_was_scheduled_stays_so() {
    let mut raw = group("g", 2);
    raw["metadata"]["generation"] = json!(1);
    let now = Timestamp::UNIX_EPOCH;
    let read = |raw: &Value| serde_json::from_value(raw.clone()).expect("a group");
    let failed = Verdict::Unschedulable;
    let first = condition(&read(&raw), &failed, now);
    let expected = json!({
        "type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable",
        "message": "pod group is unschedulable", "observedGeneration": 1,
        "lastTransitionTime": "1970-01-01T00:00:00Z"
    });
    assert_eq!(first, Some(expected.clone()));
    raw["status"] = json!({"conditions": [expected]});
    assert_eq!(condition(&read(&raw), &failed, now), None);
    let waits = condition(&read(&raw), &Verdict::WaitsForPreemption, now).expect("news");
    assert_eq!(waits.get("lastTransitionTime"), None);
    let scheduled = condition(&read(&raw), &Verdict::Scheduled, now).expect("news");
    assert_eq!(scheduled["status"], "True");
    raw["status"] = json!({"conditions": [scheduled]});
    assert_eq!(condition(&read(&raw), &failed, now), None);
    assert_eq!(condition(&read(&raw), &Verdict::Scheduled, now), None);
}
