use super::*;

const LOG: &str = "\
2026-01-01T00:00:00.000000001Z stdout F one
2026-01-01T00:00:01.000000001Z stderr F two
2026-01-01T00:00:02.000000001Z stdout P thr
2026-01-01T00:00:02.500000001Z stdout F ee
2026-01-01T00:00:03.000000001Z stdout F 
broken
";

fn read(wanted: LogOptions) -> String {
    let mut filter = LogFilter::new(wanted);
    let mut out = Vec::new();
    for line in LOG.as_bytes().split_inclusive(|b| *b == b'\n') {
        filter.take(line, &mut out);
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn partial_lines_are_joined_and_broken_ones_left_out() {
    assert_eq!(read(LogOptions::default()), "one\ntwo\nthree\n\n");
}

#[test]
fn times_stand_once_before_each_line() {
    let text = read(LogOptions {
        timestamps: true,
        ..LogOptions::default()
    });
    assert!(
        text.contains("2026-01-01T00:00:02.000000001Z three\n"),
        "{text}"
    );
    assert_eq!(text.matches("2026").count(), 4);
}

#[test]
fn streams_times_and_limits_choose() {
    let stderr = LogOptions {
        stream: Some("stderr".into()),
        ..LogOptions::default()
    };
    assert_eq!(read(stderr), "two\n");
    let since = LogOptions {
        since: Some("2026-01-01T00:00:02Z".parse().unwrap()),
        ..LogOptions::default()
    };
    assert_eq!(read(since), "three\n\n");
    let limit = LogOptions {
        limit: Some(6),
        ..LogOptions::default()
    };
    assert_eq!(read(limit), "one\ntw");
}

#[test]
fn queries_are_understood() {
    let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
    let wanted = LogOptions::parse(
        Some("follow=true&tailLines=5&sinceSeconds=60&limitBytes=9"),
        now,
    )
    .unwrap();
    assert!(wanted.follow && !wanted.previous);
    assert_eq!((wanted.tail, wanted.limit), (Some(5), Some(9)));
    assert_eq!(wanted.since.unwrap().to_string(), "2026-01-01T00:00:00Z");
    assert!(LogOptions::parse(Some("tailLines=-1"), now).is_err());
    assert!(LogOptions::parse(Some("sinceTime=yesterday"), now).is_err());
}

proptest::proptest! {
    #[test]
    fn no_line_makes_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80)) {
        let mut out = Vec::new();
        LogFilter::new(LogOptions { timestamps: true, ..LogOptions::default() }).take(&bytes, &mut out);
    }
}

#[test]
fn the_log_meant_is_of_what_runs_or_ran_last() {
    use node_agent_objects::status::{
        ContainerRunning, ContainerStateFields, ContainerStatus, ContainerTerminated,
    };

    let running = || ContainerStateFields {
        running: Some(ContainerRunning::default()),
        ..ContainerStateFields::default()
    };
    let ended = |id: &str| ContainerStateFields {
        terminated: Some(ContainerTerminated {
            container_id: id.to_owned(),
            ..ContainerTerminated::default()
        }),
        ..ContainerStateFields::default()
    };
    let waiting = |reason| ContainerStateFields::waiting(reason, "");
    let status = |state, last_state, container_id: &str| PodStatus {
        container_statuses: vec![ContainerStatus {
            name: "c".to_owned(),
            state,
            last_state,
            container_id: container_id.to_owned(),
            ..ContainerStatus::default()
        }],
        ..PodStatus::default()
    };
    let none = ContainerStateFields::default;
    for (status, now, before) in [
        (
            status(running(), none(), "containerd://2"),
            Ok("2"),
            Err("previous terminated container \"c\" in pod \"p\" not found"),
        ),
        (
            status(running(), ended("containerd://1"), "containerd://2"),
            Ok("2"),
            Ok("1"),
        ),
        (
            status(ended("containerd://2"), none(), "containerd://2"),
            Ok("2"),
            Err("previous terminated container \"c\" in pod \"p\" not found"),
        ),
        (
            status(waiting("CrashLoopBackOff"), ended("containerd://2"), ""),
            Ok("2"),
            Ok("2"),
        ),
        (
            status(waiting("ContainerCreating"), none(), ""),
            Err("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
            Err("previous terminated container \"c\" in pod \"p\" not found"),
        ),
        (
            status(waiting("ImagePullBackOff"), none(), ""),
            Err(
                "container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image",
            ),
            Err("previous terminated container \"c\" in pod \"p\" not found"),
        ),
        (
            PodStatus::default(),
            Err("container \"c\" in pod \"p\" is not available"),
            Err("container \"c\" in pod \"p\" is not available"),
        ),
    ] {
        let owned = |said: Result<&'static str, &'static str>| said.map_err(str::to_owned);
        let said = |previous| meant(&status, "p", "c", previous).map_err(|it| it.to_string());
        assert_eq!(said(false), owned(now));
        assert_eq!(said(true), owned(before));
    }
}
