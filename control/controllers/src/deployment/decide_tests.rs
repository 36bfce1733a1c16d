use super::*;
use crate::deployment::simulation::{World, deployment};
use serde_json::json;

#[test]
fn new_deployment_gets_its_first_set() {
    let mut world = World::new(&deployment(3, json!({})));
    assert_eq!(
        world.look(),
        "create web-A 3 revision 1\n\
         status 0/0/0/0 unavailable 3 Progressing=True/NewReplicaSetCreated Available=False/MinimumReplicasUnavailable revision 1\n"
    );
    world.settle();
    assert_eq!(
        world.print(),
        "web-A rev 1: 3 wanted, 3 pods, 3 ready\n\
         status 3/3/3/3 Available=True/MinimumReplicasAvailable Progressing=True/NewReplicaSetAvailable\n"
    );
}

#[test]
fn changed_template_rolls_and_undo_rolls_back_to_the_same_set() {
    let mut world = World::new(&deployment(3, json!({})));
    world.settle();
    world.set_image("b");
    world.settle();
    assert_eq!(
        world.print(),
        "web-A rev 1: 0 wanted, 0 pods, 0 ready\nweb-B rev 2: 3 wanted, 3 pods, 3 ready\n\
         status 3/3/3/3 Available=True/MinimumReplicasAvailable Progressing=True/NewReplicaSetAvailable\n"
    );
    world.set_image("a");
    world.settle();
    assert_eq!(
        world.print(),
        "web-A rev 3: 3 wanted, 3 pods, 3 ready\nweb-B rev 2: 0 wanted, 0 pods, 0 ready\n\
         status 3/3/3/3 Available=True/MinimumReplicasAvailable Progressing=True/NewReplicaSetAvailable\n"
    );
    assert_eq!(
        world.annotation("web-A", annotations::HISTORY),
        Some("1".into())
    );
}

#[test]
fn first_step_of_a_rollout_grows_within_surge_and_shrinks_within_unavailability() {
    let strategy = json!({"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":3,"maxUnavailable":2}}});
    let mut world = World::new(&deployment(10, strategy));
    world.settle();
    world.set_image("b");
    assert_eq!(
        world.look(),
        "create web-B 3 revision 2\n\
         scale web-A 10->8\n\
         status 10/0/10/10 unavailable 1 Available=True/MinimumReplicasAvailable Progressing=True/NewReplicaSetCreated revision 2\n"
    );
}

#[test]
fn broken_rollout_stops_and_its_deadline_passes() {
    let mut world = World::new(&deployment(4, json!({"progressDeadlineSeconds":60})));
    world.settle();
    world.break_image("bad");
    world.set_image("bad");
    world.settle();
    let text = world.print();
    assert!(
        text.contains("web-A rev 1: 3 wanted, 3 pods, 3 ready"),
        "{text}"
    );
    assert!(
        text.contains("web-BAD rev 2: 2 wanted, 2 pods, 0 ready"),
        "{text}"
    );
    assert!(
        text.contains("Progressing=True/ReplicaSetUpdated"),
        "{text}"
    );
    assert_eq!(world.look(), "wake 61s\n");
    world.pass(61);
    world.settle();
    assert!(
        world
            .print()
            .contains("Progressing=False/ProgressDeadlineExceeded"),
        "{}",
        world.print()
    );
    // undo removes the broken pods at once
    world.set_image("a");
    world.settle();
    assert!(
        world
            .print()
            .starts_with("web-A rev 3: 4 wanted, 4 pods, 4 ready\nweb-BAD rev 2: 0")
    );
}

#[test]
fn scaling_during_a_rollout_keeps_the_proportions() {
    let strategy = json!({"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":3,"maxUnavailable":2}}});
    let mut world = World::new(&deployment(10, strategy));
    world.settle();
    world.break_image("bad");
    world.set_image("bad");
    world.settle();
    let text = world.print();
    assert!(
        text.starts_with("web-A rev 1: 8 wanted, 8 pods, 8 ready\nweb-BAD rev 2: 5 wanted"),
        "{text}"
    );
    world.scale(30);
    world.settle();
    let text = world.print();
    // 33 pods in all, as 8 to 5
    assert!(
        text.starts_with("web-A rev 1: 20 wanted, 20 pods, 20 ready\nweb-BAD rev 2: 13 wanted"),
        "{text}"
    );
}

#[test]
fn paused_deployment_scales_but_does_not_roll() {
    let mut world = World::new(&deployment(2, json!({})));
    world.settle();
    world.change(|d| d.spec.paused = true);
    world.set_image("b");
    world.scale(4);
    world.settle();
    assert_eq!(
        world.print(),
        "web-A rev 1: 4 wanted, 4 pods, 4 ready\n\
         status 4/0/4/4 Progressing=Unknown/DeploymentPaused Available=True/MinimumReplicasAvailable\n"
    );
    world.change(|d| d.spec.paused = false);
    world.settle();
    assert!(
        world
            .print()
            .contains("web-B rev 2: 4 wanted, 4 pods, 4 ready"),
        "{}",
        world.print()
    );
}

#[test]
fn recreate_never_has_two_templates_at_once() {
    let mut world = World::new(&deployment(3, json!({"strategy":{"type":"Recreate"}})));
    world.settle();
    world.set_image("b");
    for _ in 0..200 {
        world.step();
        let kinds = world.live_templates();
        assert!(kinds <= 1, "{kinds} templates at once\n{}", world.print());
    }
    assert!(
        world
            .print()
            .contains("web-B rev 2: 3 wanted, 3 pods, 3 ready"),
        "{}",
        world.print()
    );
}

#[test]
fn history_keeps_as_many_sets_as_wanted() {
    let mut world = World::new(&deployment(1, json!({"revisionHistoryLimit":2})));
    for image in ["a", "b", "c", "d", "e"] {
        world.set_image(image);
        world.settle();
    }
    let text = world.print();
    assert_eq!(text.matches(" rev ").count(), 3, "{text}");
    assert!(
        text.contains("web-E rev 5")
            && text.contains("web-D rev 4")
            && text.contains("web-C rev 3"),
        "{text}"
    );
}

#[test]
fn deployment_being_deleted_only_reports() {
    let mut world = World::new(&deployment(3, json!({})));
    world.settle();
    world.change(|d| d.metadata.deletion_timestamp = "2026-01-01T00:00:00Z".parse().ok());
    world.set_image("b");
    assert!(!world.look().contains("create"));
}

#[test]
fn template_with_other_hash_label_is_the_same_template() {
    let mut world = World::new(&deployment(1, json!({})));
    world.settle();
    assert_eq!(world.look(), "");
    let labels = &world.sets()[0].spec.template.labels;
    assert!(
        labels
            .get("pod-template-hash")
            .is_some_and(|hash| !hash.is_empty())
    );
}

#[test]
fn name_of_a_set_fits() {
    assert_eq!(set_name("web", "abc"), "web-abc");
    assert_eq!(set_name(&"x".repeat(253), "abcdefghij").len(), 253);
}
