//! Tests the commands that the driver runs for lvm2. It cannot show that lvm2 executes them as
//! expected.

use std::sync::Arc;

use super::*;
use crate::steps::TraceSteps;
use crate::testing::{snapshot, volume};
use crate::tool::fake::FakeRunner;

const LVS: &str = r#"{"report":[{"lv":[
 {"lv_name":"orlop-v-a","lv_size":"1073741824","lv_tags":"orlop.csi.volume","data_percent":"","metadata_percent":""},
 {"lv_name":"orlop-s-s","lv_size":"1073741824","lv_tags":"orlop.csi.snapshot","data_percent":"1.50","metadata_percent":""},
 {"lv_name":"orlop-v-half","lv_size":"4194304","lv_tags":"orlop.csi.partial,orlop.csi.volume","data_percent":"","metadata_percent":""},
 {"lv_name":"root","lv_size":"4194304","lv_tags":"","data_percent":"","metadata_percent":""}]}]}"#;

const VGS: &str = r#"{"report":[{"vg":[{"vg_size":"10737418240","vg_free":"5368709120","vg_extent_size":"4194304"}]}]}"#;

fn backend() -> (Arc<FakeRunner>, LvmBackend, tempfile::TempDir) {
    let tools = Arc::new(FakeRunner::default());
    tools.answer("lvs ", LVS);
    tools.answer("vgs ", VGS);
    let class = ClassConfig {
        volume_group: Some("vg0".to_owned()),
        ..crate::testing::class(BackendKind::Lvm)
    };
    let environment = Environment {
        tools: tools.clone(),
        steps: Arc::new(TraceSteps),
    };
    let mut backend = LvmBackend::open(&class, environment).unwrap();
    let devices = tempfile::tempdir().unwrap();
    backend.devices = devices.path().to_owned();
    tools.dump();
    (tools, backend, devices)
}

#[test]
fn only_complete_volumes_with_our_tags_are_ours() {
    let (_, backend, _folder) = backend();
    let inventory = backend.list().unwrap();
    assert_eq!(inventory.volumes, ["a".to_owned()].into());
    assert_eq!(inventory.snapshots, ["s".to_owned()].into());
    let space = backend.space(&[]).unwrap();
    assert_eq!((space.available, space.total), (5 << 30, 10 << 30));
}

#[test]
fn a_snapshot_has_room_for_all_of_its_volume() {
    let (tools, backend, _folder) = backend();
    let source = volume("a", 1 << 30);
    backend
        .snapshot(&source, &snapshot("new", "a"), true)
        .unwrap();
    let commands = tools.dump();
    let last = commands.lines().last().unwrap();
    assert_eq!(
        last,
        "lvcreate --yes --snapshot --permission rw --addtag orlop.csi.snapshot --extents 261 \
         --name orlop-s-new vg0/orlop-v-a"
    );
}

#[test]
fn what_exists_is_not_made_again_and_what_is_gone_not_removed() {
    let (tools, backend, _folder) = backend();
    backend.create(&volume("a", 1 << 30), None).unwrap();
    backend
        .snapshot(&volume("a", 1 << 30), &snapshot("s", "a"), false)
        .unwrap();
    backend.delete_snapshot("gone").unwrap();
    backend.expand(&volume("a", 1 << 30), 1 << 30).unwrap();
    let commands = tools.dump();
    assert!(
        commands.lines().all(|line| line.starts_with("lvs ")),
        "{commands}"
    );
}

#[test]
fn an_interrupted_creation_is_begun_again() {
    let (tools, backend, _folder) = backend();
    // The fake makes no device, so that zeroing it fails.
    assert!(backend.create(&volume("half", 4 << 20), None).is_err());
    let commands = tools.dump();
    assert!(
        commands.contains("lvremove --yes vg0/orlop-v-half\nlvcreate "),
        "{commands}"
    );
    assert!(!commands.contains("--deltag"), "{commands}");
}
