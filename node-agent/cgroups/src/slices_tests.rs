//! Slices over a systemd of the test's own, without a bus between. What this cannot show:
//! what systemd does with a property, and with the files of a group.

use super::*;
use crate::fake::{LONG, Systemd};

#[test]
fn limits_are_properties_of_either_version() {
    let limits = SliceLimits {
        shares: Some(1024),
        quota: Some(Some(50_000)),
        memory: Some(Some(4096)),
        tasks: Some(Some(0)),
        protected: Some(("memory.min", 7)),
    };
    let of = |limits: SliceLimits, version| -> Vec<(&str, u64)> {
        limits.properties(version).into_iter().collect()
    };
    assert_eq!(
        of(limits, CgroupVersion::Two),
        [
            ("CPUQuotaPerSecUSec", 500_000),
            ("CPUWeight", 39),
            ("MemoryMax", 4096),
            ("MemoryMin", 7),
            ("TasksMax", 1)
        ]
    );
    assert_eq!(
        of(limits, CgroupVersion::One),
        [
            ("CPUQuotaPerSecUSec", 500_000),
            ("CPUShares", 1024),
            ("MemoryLimit", 4096),
            ("TasksMax", 1)
        ]
    );
    let open = SliceLimits {
        quota: Some(None),
        memory: Some(None),
        tasks: Some(None),
        ..SliceLimits::default()
    };
    for version in [CgroupVersion::One, CgroupVersion::Two] {
        let all = open.properties(version);
        assert!(all.len() == 3 && all.values().all(|value| *value == u64::MAX));
        assert!(SliceLimits::default().properties(version).is_empty());
    }
    for (quota, expected) in [(1000, 1000), (1001, 2000), (150_100, 151_000), (0, 0)] {
        assert_eq!(whole_percents(quota), expected);
    }
}

#[tokio::test]
async fn a_slice_is_made_limited_and_removed() {
    let systemd = Systemd::default();
    let (slices, _other_end) = systemd.slices(LONG).await;
    let unit = "kubepods-podu.slice";
    slices
        .make((unit, "kubepods.slice"), CgroupVersion::Two)
        .await
        .unwrap();
    for (name, value) in [
        ("Wants", "[\"kubepods.slice\"]"),
        ("DefaultDependencies", "false"),
        ("CPUAccounting", "true"),
        ("MemoryAccounting", "true"),
        ("TasksAccounting", "true"),
        ("IOAccounting", "true"),
    ] {
        assert_eq!(
            systemd.property(unit, name).as_deref(),
            Some(value),
            "{name}"
        );
    }
    // it may be another's, or from before a restart
    slices
        .make((unit, "kubepods.slice"), CgroupVersion::Two)
        .await
        .unwrap();
    let set = |shares| {
        let limits = SliceLimits {
            shares: Some(shares),
            memory: Some(Some(4096)),
            ..SliceLimits::default()
        };
        slices.set(unit, limits.properties(CgroupVersion::Two))
    };
    for shares in [1024, 1024, 2] {
        set(shares).await.unwrap();
    }
    slices.remove(unit).await.unwrap();
    slices.remove(unit).await.unwrap();
    assert_eq!(
        systemd.calls(),
        [
            "start kubepods-podu.slice",
            "start kubepods-podu.slice",
            "set kubepods-podu.slice CPUWeight=39 MemoryMax=4096",
            "set kubepods-podu.slice CPUWeight=1",
            "stop kubepods-podu.slice",
            "stop kubepods-podu.slice"
        ]
    );
    // a slice that is made anew knows nothing
    slices
        .make((unit, "kubepods.slice"), CgroupVersion::One)
        .await
        .unwrap();
    assert!(systemd.property(unit, "BlockIOAccounting").is_some());
    let anew = "set kubepods-podu.slice CPUWeight=1 MemoryMax=4096";
    set(2).await.unwrap();
    assert_eq!(systemd.calls()[1], anew);
    systemd.forget_units();
    slices
        .make((unit, "kubepods.slice"), CgroupVersion::One)
        .await
        .unwrap();
    set(2).await.unwrap();
    assert_eq!(systemd.calls()[1], anew);
}

#[tokio::test]
async fn what_systemd_does_not_do_is_said_with_its_unit() {
    let systemd = Systemd::default();
    let (slices, other_end) = systemd.slices(LONG).await;
    systemd.end_jobs(Some("failed"));
    let failed = slices
        .make(("a.slice", "-.slice"), CgroupVersion::Two)
        .await
        .unwrap_err();
    let text = failed.to_string();
    assert!(matches!(failed, Error::Job { .. }), "{text}");
    assert!(
        text.contains("`a.slice`") && text.contains("failed"),
        "{text}"
    );
    let failed = slices.remove("a.slice").await.unwrap_err();
    assert!(matches!(failed, Error::Job { .. }), "{failed}");
    assert_eq!(
        systemd.calls(),
        ["start a.slice", "stop a.slice", "reset a.slice"]
    );
    let weight = [("CPUWeight", 1)].into();
    let refused = slices.set("none.slice", weight).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");

    other_end.close().await.unwrap();
    let away = slices
        .make(("b.slice", "-.slice"), CgroupVersion::Two)
        .await
        .unwrap_err();
    let text = away.to_string();
    assert!(matches!(away, Error::Away { .. }), "{text}");
    assert!(text.contains("cgroupDriver"), "{text}");
}

#[tokio::test]
async fn a_systemd_that_hangs_holds_nobody() {
    let systemd = Systemd::default();
    systemd.end_jobs(None);
    let (slices, _other_end) = systemd.slices(Duration::from_millis(200)).await;
    let hung = slices
        .make(("a.slice", "-.slice"), CgroupVersion::Two)
        .await
        .unwrap_err();
    assert!(matches!(hung, Error::Hung { .. }), "{hung}");
}
