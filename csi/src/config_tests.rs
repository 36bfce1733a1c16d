use super::*;

fn parse(classes: &str) -> Result<Config, ConfigError> {
    Config::parse(&format!(
        "apiVersion: orlop.dev/v1alpha1\nkind: VolumeConfiguration\nclasses:\n{classes}"
    ))
}

fn refusal(classes: &str) -> String {
    parse(classes).unwrap_err().to_string()
}

#[test]
fn a_class_of_each_backend_is_understood() {
    let config = parse(
        "- {name: fast, backend: file, path: /data, provisioning: thick, filesystem: xfs, wipe: discard}
- {name: snap, backend: btrfs, path: /btrfs}
- {name: vg, backend: lvm, volumeGroup: vg0, wipe: zero, encryption: luks2}
- {name: thin, backend: lvm-thin, volumeGroup: vg0, thinPool: pool, overcommit: 2}
- {name: folders, backend: xfs-quota, path: /xfs, allowUnenforcedSize: true}
- {name: disks, backend: raw, devices: [/dev/sdb, /dev/sdc1]}
",
    )
    .unwrap();
    let kinds: Vec<&str> = config.classes.iter().map(|it| it.backend.name()).collect();
    assert_eq!(
        kinds,
        ["file", "btrfs", "lvm", "lvm-thin", "xfs-quota", "raw"]
    );
    assert_eq!(config.classes[0].state_dir(), Path::new("/data/.orlop-csi"));
    assert_eq!(
        config.classes[2].state_dir(),
        Path::new("/var/lib/orlop/csi/vg")
    );
    assert_eq!(config.classes[3].overcommit, Some(2.0));
}

#[test]
fn another_version_or_kind_is_refused() {
    let text = "apiVersion: v1\nkind: VolumeConfiguration\nclasses: []\n";
    let error = Config::parse(text).unwrap_err().to_string();
    assert_eq!(error, "`apiVersion` is `v1`: must be `orlop.dev/v1alpha1`");
    let text = "apiVersion: orlop.dev/v1alpha1\nkind: Pod\nclasses: []\n";
    let error = Config::parse(text).unwrap_err().to_string();
    assert_eq!(error, "`kind` is `Pod`: must be `VolumeConfiguration`");
}

#[test]
fn a_configuration_without_classes_is_refused() {
    let text = "apiVersion: orlop.dev/v1alpha1\nkind: VolumeConfiguration\n";
    assert!(matches!(Config::parse(text), Err(ConfigError::NoClass)));
}

#[test]
fn a_missing_field_is_named_with_its_class() {
    assert_eq!(
        refusal("- {name: fast, backend: file}"),
        "class `fast`: `path` is required by backend `file`"
    );
    assert_eq!(
        refusal("- {name: thin, backend: lvm-thin, volumeGroup: vg}"),
        "class `thin`: `thinPool` is required by backend `lvm-thin`"
    );
}

#[test]
fn a_field_without_meaning_is_refused_rather_than_ignored() {
    assert_eq!(
        refusal("- {name: b, backend: btrfs, path: /b, encryption: luks2}"),
        "class `b`: `encryption` has no meaning for backend `btrfs`: remove it"
    );
    let unknown = refusal("- {name: b, backend: btrfs, path: /b, quota: 5}");
    assert!(unknown.contains("quota"), "{unknown}");
}

#[test]
fn values_are_checked() {
    for (class, part) in [
        (
            "- {name: F, backend: file, path: /d}",
            "`classes[].name` is `F`",
        ),
        ("- {name: f, backend: file, path: d}", "`path` is `d`"),
        (
            "- {name: f, backend: file, path: /a/../b}",
            "`path` is `/a/../b`",
        ),
        (
            "- {name: f, backend: file, path: '/a b'}",
            "`path` is `/a b`",
        ),
        (
            "- {name: f, backend: file, path: /d, overcommit: 0.5}",
            "`overcommit` is `0.5`",
        ),
        (
            "- {name: f, backend: file, path: /d, wipe: zero}",
            "`wipe` is `zero`",
        ),
        (
            "- {name: l, backend: lvm, volumeGroup: --yes}",
            "`volumeGroup` is `--yes`",
        ),
        (
            "- {name: k, backend: file, path: /d, kmsEndpoint: 'unix:///run/kms.sock'}",
            "set `encryption: luks2`",
        ),
        (
            "- {name: k, backend: file, path: /d, encryption: luks2, kmsEndpoint: /run/kms.sock}",
            "`kmsEndpoint` is `/run/kms.sock`",
        ),
        (
            "- {name: k, backend: file, path: /d, encryption: luks2, kmsEndpoint: 'unix://kms.sock'}",
            "`kmsEndpoint` is `unix://kms.sock`",
        ),
        (
            "- {name: r, backend: raw, devices: []}",
            "`devices` is `[]`",
        ),
        (
            "- {name: f, backend: file, path: /d}\n- {name: f, backend: file, path: /e}",
            "two entries named `f`",
        ),
    ] {
        let error = refusal(class);
        assert!(error.contains(part), "{class}: {error}");
    }
}
