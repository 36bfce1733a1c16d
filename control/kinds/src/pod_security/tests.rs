//! Compares verdicts with those of a stock server (1.36.3) for pods under each level and version:
//! `answers.jsonl` has one line per pod, with the reasons and their levels.

use control_types::value;

use super::*;

fn parse(text: &str) -> LevelVersion {
    let (level, version) = text.split_once(':').expect("a level and a version");
    let labels = [
        ("pod-security.kubernetes.io/enforce", level),
        ("pod-security.kubernetes.io/enforce-version", version),
    ];
    let label = |key: &str| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    let (policy, errors) = Policy::from_labels(label);
    assert_eq!(errors, []);
    policy.enforce
}

#[test]
fn pods_are_judged_as_stock_judges_them() {
    let (mut judged, mut refused) = (0, 0);
    for line in include_str!("answers.jsonl").lines() {
        let recorded = Value::from_slice(line.as_bytes()).expect("JSON");
        let mut object = recorded.at("pod").clone();
        let kind = crate::find_kind("", "Pod");
        (kind.default)(&mut object);
        (kind.prepare_create)(&mut object);
        let pod = Pod::within(&object, &[]).expect("a spec");
        for (answer, levels) in recorded.entries("answers") {
            let Value::Array(levels) = levels else {
                panic!("levels of {answer}");
            };
            for level in levels {
                let found = evaluate(parse(level.as_text()), pod);
                let told = details(&found);
                assert_eq!(
                    told,
                    answer,
                    "{} of {}",
                    level.as_text(),
                    recorded.at("pod")
                );
                judged += 1;
                refused += usize::from(!found.is_empty());
            }
        }
    }
    assert_eq!((judged, refused > 1500), (64 * 46, true));
}

#[test]
fn nothing_is_forbidden_to_the_privileged() {
    let object = value!({"spec": {"hostNetwork": true, "hostPID": true}});
    let pod = Pod::within(&object, &[]).expect("a spec");
    assert_eq!(evaluate(parse("privileged:latest"), pod), []);
    assert_ne!(evaluate(parse("baseline:v1.0"), pod), []);
}

fn policy<'a>(labels: &[(&'a str, &'a str)]) -> (String, Vec<String>) {
    let find = |key: &str| {
        let short = key.strip_prefix("pod-security.kubernetes.io/");
        let found = labels.iter().find(|(label, _)| Some(*label) == short);
        found.map(|(_, value)| *value)
    };
    let (policy, errors) = Policy::from_labels(find);
    let modes = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
    let told = |error: &LabelError<'_>| error.to_field_error().to_string();
    (modes, errors.iter().map(told).collect())
}

#[test]
fn labels_make_a_policy() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "privileged:latest privileged:latest privileged:latest"),
        // Enforcement also warns, in the same version, unless set otherwise.
        (
            &[("enforce", "baseline"), ("enforce-version", "v1.20")],
            "baseline:v1.20 privileged:latest baseline:v1.20",
        ),
        (
            &[("enforce", "baseline"), ("warn-version", "v1.2")],
            "baseline:latest privileged:latest baseline:v1.2",
        ),
        (
            &[("enforce", "restricted"), ("warn", "privileged")],
            "restricted:latest privileged:latest privileged:latest",
        ),
        (
            &[("audit", "restricted"), ("audit-version", "v1.0")],
            "privileged:latest restricted:v1.0 privileged:latest",
        ),
    ];
    for (labels, modes) in cases {
        assert_eq!(policy(labels), ((*modes).to_owned(), vec![]), "{labels:?}");
    }
}

#[test]
fn labels_that_say_nothing_are_the_strictest_to_enforce_and_silent_otherwise() {
    let (modes, errors) = policy(&[("enforce", "x"), ("audit", "x"), ("warn", "")]);
    assert_eq!(
        modes,
        "restricted:latest privileged:latest privileged:latest"
    );
    let must = "must be one of privileged, baseline, restricted";
    assert_eq!(
        errors,
        [
            format!(
                "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"x\": {must}"
            ),
            format!(
                "metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: \"x\": {must}"
            ),
            format!(
                "metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"\": {must}"
            ),
        ]
    );
    for version in [
        "1.2",
        "v1.02",
        "v1.",
        "v2.0",
        "v1.99999999999999999999",
        "Latest",
        "v1.+1",
    ] {
        let (_, errors) = policy(&[("enforce-version", version)]);
        assert_eq!(errors.len(), 1, "{version}");
    }
}

#[test]
fn a_change_of_labels_is_stricter_by_level_or_another_version() {
    let policy = |text| Policy {
        enforce: parse(text),
        ..Policy::OPEN
    };
    let stricter = |old, new| policy(new).is_stricter_than(&policy(old));
    assert!(stricter("privileged:latest", "baseline:latest"));
    assert!(stricter("baseline:v1.0", "baseline:v1.1"));
    assert!(stricter("restricted:v1.1", "baseline:v1.0"));
    assert!(!stricter("restricted:v1.0", "baseline:v1.0"));
    assert!(!stricter("baseline:v1.0", "privileged:v1.3"));
    assert!(!stricter("baseline:v1.0", "baseline:v1.0"));
}

#[test]
fn only_images_and_new_containers_matter_in_an_update() {
    let pod = value!({"spec": {"containers": [{"name": "a", "image": "x"}], "hostNetwork": true}});
    let mut other = pod.clone();
    other.remove_path(&["spec", "hostNetwork"]);
    assert!(!is_significant(&other, &pod));
    let changed = [
        value!({"spec": {"containers": [{"name": "a", "image": "y"}]}}),
        value!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]}}),
        value!({"spec": {
            "containers": [{"name": "a", "image": "x"}],
            "ephemeralContainers": [{"name": "e", "image": "x"}]
        }}),
    ];
    for new in changed {
        assert!(is_significant(&new, &pod));
    }
}
