//! A driver in the test's own process, without a socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi::backend::Environment;
use csi::catalog::record::{Origin, VolumeRecord};
use csi::config::Config;
use csi::driver::Driver;
use csi::driver::volumes::NewVolume;
use csi::error::Result;
use csi::request::access::Access;
use csi::request::size::Range;
use csi::steps::{StepObserver, TraceSteps};
use csi::tool::SystemRunner;
use csi_api::{AccessMode, BlockVolume, Mode, MountVolume, VolumeCapability};

pub const GIB: u64 = 1 << 30;
pub const MIB: u64 = 1 << 20;

/// The text of a configuration with one class.
pub fn configuration(class: &str) -> String {
    format!(
        "apiVersion: orlop.dev/v1alpha1\nkind: VolumeConfiguration\nclasses:\n- {{name: local, {class}}}\n"
    )
}

/// Opens a driver of one class.
pub fn open(class: &str) -> Driver {
    open_observed(class, Arc::new(TraceSteps))
}

/// The same, with somebody who is called between steps.
pub fn open_observed(class: &str, steps: Arc<dyn StepObserver>) -> Driver {
    let config = Config::parse(&configuration(class)).expect("configuration");
    let environment = Environment {
        tools: Arc::new(SystemRunner),
        steps,
    };
    Driver::open(&config, "node-1", environment).expect("driver")
}

/// Use as a file system; the empty name is the default one.
pub fn mount(fs_type: &str) -> Access {
    mount_as(fs_type, Mode::SingleNodeWriter, &[])
}

pub fn mount_as(fs_type: &str, mode: Mode, options: &[&str]) -> Access {
    let capability = VolumeCapability {
        block: None,
        mount: Some(MountVolume {
            fs_type: fs_type.to_owned(),
            mount_flags: options.iter().map(|it| (*it).to_owned()).collect(),
            volume_mount_group: String::new(),
        }),
        access_mode: Some(AccessMode { mode: mode.into() }),
    };
    Access::parse(&capability).expect("access")
}

/// Use as a device.
pub fn block() -> Access {
    let mode = Mode::SingleNodeWriter.into();
    let capability = VolumeCapability {
        block: Some(BlockVolume {}),
        mount: None,
        access_mode: Some(AccessMode { mode }),
    };
    Access::parse(&capability).expect("access")
}

pub fn new(name: &str, bytes: u64, access: Access, origin: Option<Origin>) -> NewVolume {
    NewVolume {
        name: name.to_owned(),
        range: Range {
            required: bytes,
            limit: 0,
        },
        access: vec![access],
        class: None,
        origin,
        mutable: BTreeMap::new(),
        ephemeral: None,
    }
}

pub fn create(driver: &Driver, name: &str, bytes: u64, access: Access) -> VolumeRecord {
    driver
        .create_volume(&new(name, bytes, access, None))
        .expect("volume")
        .1
}

/// Where a volume of a name is staged and published.
pub struct Places {
    pub staging: PathBuf,
    pub target: PathBuf,
}

pub fn places(folder: &Path, name: &str) -> Places {
    let staging = folder.join(format!("{name}.staging"));
    std::fs::create_dir_all(&staging).expect("staging");
    let target = folder.join(format!("{name}.target"));
    Places { staging, target }
}

/// Stages and publishes a volume.
pub fn publish(driver: &Driver, id: &str, places: &Places, access: &Access) {
    driver
        .stage(id, &places.staging, access, &BTreeMap::new())
        .expect("stage");
    driver
        .publish(id, &places.staging, &places.target, access, false)
        .expect("publish");
}

/// Takes a volume away.
pub fn unpublish(driver: &Driver, id: &str, places: &Places) {
    unless_busy("unpublish", || driver.unpublish(id, &places.target));
    unless_busy("unstage", || driver.unstage(id, &places.staging));
}

/// Does something, again while something is busy: the child that another test forks has all
/// open files, those on a volume too, until it begins its program.
pub fn unless_busy<T>(what: &str, operation: impl Fn() -> Result<T>) -> T {
    for _ in 0..50 {
        match operation() {
            Ok(done) => return done,
            Err(error) if error.chain().contains("busy") => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            Err(error) => panic!("{what}: {}", error.chain()),
        }
    }
    panic!("{what}: it stays busy");
}
