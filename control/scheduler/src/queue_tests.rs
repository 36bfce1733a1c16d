//! Tests the order in which pods leave the queue.

use serde_json::json;

use super::*;
use crate::event::Subject;

fn pod(name: &str, priority: i32) -> Arc<Pod> {
    let pod = json!({"metadata": {"name": name, "uid": name}, "spec": {"priority": priority}});
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn put(queue: &mut Queue, pod: &Arc<Pod>, now: Instant) {
    queue.put(pod, now, |_, _| true);
}

fn popped(queue: &mut Queue, now: Instant) -> String {
    let names = std::iter::from_fn(|| queue.pop(now)).map(|pod| pod.metadata.name.to_string());
    names.collect::<Vec<_>>().join(" ")
}

/// Waits for one kind of event.
fn rejecters(wake: Wake) -> Rejecters {
    Rejecters { plugins: 1, wake }
}

fn happens(queue: &mut Queue, wake: Wake, now: Instant) {
    let event = Event {
        wake,
        subject: Subject::Other,
    };
    queue.wake(&event, now, |_, _| true);
}

fn after(now: Instant, seconds: u64) -> Instant {
    now + Duration::from_secs(seconds)
}

#[test]
fn higher_priority_goes_first_then_the_older() {
    let now = Instant::now();
    let mut queue = Queue::default();
    for (name, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5)] {
        put(&mut queue, &pod(name, priority), now);
    }
    assert_eq!(popped(&mut queue, now), "b d a c");
}

#[test]
fn a_waiting_pod_is_woken_only_by_what_may_help() {
    let now = Instant::now();
    let mut queue = Queue::default();
    put(&mut queue, &pod("a", 0), now);
    queue.pop(now).unwrap();
    queue.wait(&pod("a", 0).key(), rejecters(Wake::NODE_TAINTS), now);
    happens(&mut queue, Wake::POD_REMOVED, now);
    let skipped = Event {
        wake: Wake::NODE_TAINTS,
        subject: Subject::Other,
    };
    queue.wake(&skipped, now, |_, _| false);
    assert_eq!(popped(&mut queue, after(now, 60)), "");
    happens(&mut queue, Wake::NODE_TAINTS, after(now, 60));
    assert_eq!(popped(&mut queue, after(now, 60)), "a");
}

#[test]
fn a_pod_that_backs_off_is_handed_out_early_only_when_no_other_is_due() {
    let now = Instant::now();
    let mut queue = Queue::default();
    put(&mut queue, &pod("a", 9), now);
    queue.pop(now).unwrap();
    queue.wait(&pod("a", 9).key(), rejecters(Wake::POD_ADDED), now);
    happens(&mut queue, Wake::POD_ADDED, now);
    put(&mut queue, &pod("b", 0), now);
    assert_eq!(
        queue.pending(),
        PendingPods {
            active: 1,
            backoff: 1,
            ..PendingPods::default()
        }
    );
    assert_eq!(popped(&mut queue, now), "b a");
}

#[test]
fn a_pod_whose_binding_failed_sits_its_back_off_out() {
    let now = Instant::now();
    let mut queue = Queue::default();
    let a = pod("a", 0);
    put(&mut queue, &a, now);
    for seconds in [1, 2, 4] {
        let now = now + Duration::from_secs(10 * seconds);
        queue.pop(now);
        queue.fail(&a.key(), now);
        assert_eq!(queue.next_time(), Some(after(now, seconds)));
        assert_eq!(
            popped(&mut queue, after(now, seconds) - Duration::from_millis(1)),
            ""
        );
        assert_eq!(popped(&mut queue, after(now, seconds)), "a");
    }
}

#[test]
fn the_back_off_doubles_up_to_ten_seconds() {
    let backoff = Backoff::default();
    let seconds: Vec<u64> = (0..8).map(|it| backoff.after(it).as_secs()).collect();
    assert_eq!(seconds, [0, 1, 2, 4, 8, 10, 10, 10]);
    assert_eq!(backoff.after(u32::MAX).as_secs(), 10);
}

#[test]
fn a_pod_that_waits_long_is_tried_again() {
    let now = Instant::now();
    let mut queue = Queue::default();
    put(&mut queue, &pod("a", 0), now);
    queue.pop(now).unwrap();
    queue.wait(&pod("a", 0).key(), Rejecters::default(), now);
    assert_eq!(popped(&mut queue, after(now, 299)), "");
    assert_eq!(popped(&mut queue, after(now, 300)), "a");
}

#[test]
fn a_gated_pod_is_counted_and_handed_out_once_it_is_free() {
    let now = Instant::now();
    let mut queue = Queue::default();
    let mut gated = (*pod("a", 0)).clone();
    gated.gated = true;
    put(&mut queue, &Arc::new(gated), now);
    assert_eq!(popped(&mut queue, after(now, 600)), "");
    assert_eq!(queue.pending().gated, 1);
    put(&mut queue, &pod("a", 0), now);
    assert_eq!(popped(&mut queue, now), "a");
}

#[test]
fn a_held_pod_is_handed_out_after_its_release_if_something_happened_meanwhile() {
    let now = Instant::now();
    let mut queue = Queue::default();
    let a = pod("a", 0);
    put(&mut queue, &a, now);
    queue.pop(now).unwrap();
    queue.wait(&a.key(), rejecters(Wake::POD_REMOVED), now);
    queue.hold(&a.key());
    happens(&mut queue, Wake::POD_REMOVED, now);
    assert_eq!(popped(&mut queue, after(now, 20)), "");
    queue.release(&a.key(), false, after(now, 20));
    assert_eq!(popped(&mut queue, after(now, 20)), "a");
    queue.wait(&a.key(), rejecters(Wake::POD_REMOVED), after(now, 20));
    queue.hold(&a.key());
    queue.release(&a.key(), false, after(now, 40));
    assert_eq!(popped(&mut queue, after(now, 40)), "");
}

#[test]
fn a_change_of_the_pod_itself_wakes_it_if_a_plugin_says_so() {
    let now = Instant::now();
    let mut queue = Queue::default();
    put(&mut queue, &pod("a", 0), now);
    queue.pop(now).unwrap();
    queue.wait(&pod("a", 0).key(), Rejecters::default(), now);
    queue.put(&pod("a", 0), now, |_, _| false);
    assert_eq!(popped(&mut queue, now), "");
    queue.put(&pod("a", 0), now, |event, _| {
        matches!(event.subject, Subject::Itself { .. })
    });
    assert_eq!(popped(&mut queue, now), "a");
}

#[test]
fn a_removed_pod_is_not_handed_out_and_one_made_again_is() {
    let now = Instant::now();
    let mut queue = Queue::default();
    put(&mut queue, &pod("a", 0), now);
    put(&mut queue, &pod("b", 0), now);
    queue.remove(&pod("a", 0).key());
    assert_eq!(popped(&mut queue, now), "b");
    let mut again = (*pod("b", 0)).clone();
    again.metadata.uid = "another".into();
    put(&mut queue, &Arc::new(again), now);
    assert_eq!(popped(&mut queue, now), "b");
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.pending(), PendingPods::default());
}

#[test]
fn rejections_are_counted_until_the_pod_is_tried_again_or_goes() {
    let now = Instant::now();
    let mut queue = Queue::default();
    let counted = |queue: &Queue| {
        let all = queue.rejected().filter(|(.., count)| *count > 0);
        let mut all: Vec<_> = all.map(|(plugin, _, count)| (plugin, count)).collect();
        all.sort_unstable();
        all
    };
    for name in ["a", "b"] {
        put(&mut queue, &pod(name, 0), now);
        queue.pop(now).unwrap();
        let key = pod(name, 0).key();
        queue.wait(&key, rejecters(Wake::NODE_TAINTS), now);
        queue.reject(&key, ["NodeAffinity", "TaintToleration"]);
    }
    assert_eq!(
        counted(&queue),
        [("NodeAffinity", 2), ("TaintToleration", 2)]
    );
    happens(&mut queue, Wake::NODE_TAINTS, now);
    assert_eq!(popped(&mut queue, after(now, 60)), "a b");
    assert_eq!(counted(&queue), []);
    queue.reject(&pod("a", 0).key(), ["NodeAffinity"]);
    queue.remove(&pod("a", 0).key());
    assert_eq!(counted(&queue), []);
}
