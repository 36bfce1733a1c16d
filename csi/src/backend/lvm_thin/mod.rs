//! Logical volumes of a thin pool: space is allocated on write, and copies share common
//! blocks.
//!
//! Blocks of a pool are zeroed when they are allocated (`lvcreate --zero y`, lvm2's
//! default for pools), so that no volume shows earlier data.

use std::path::PathBuf;

use crate::backend::lvm::report::{self, PARTIAL_TAG, SNAPSHOT_TAG, VOLUME_TAG};
use crate::backend::lvm::{LvmBackend, snapshot_name, volume_name};
use crate::backend::{
    Attachment, Backend, CopySource, Environment, Features, Inventory, Space, Usage, unsupported,
};
use crate::catalog::record::{SnapshotRecord, VolumeRecord};
use crate::config::{BackendKind, ClassConfig, Wipe};
use crate::error::{Error, Result};
use crate::request::size::{self, Bounds};
use crate::steps::Step;
use crate::tool::Invocation;

/// Fill of a pool from which on no volume is created, in percent.
const FULL_PERCENT: f64 = 95.0;

/// Thin volumes of one pool.
pub struct LvmThinBackend {
    lvm: LvmBackend,
    pool: String,
    overcommit: f64,
}

impl LvmThinBackend {
    /// Opens the pool of a class.
    ///
    /// # Errors
    /// When lvm2 is not installed or there is no such pool.
    pub fn open(class: &ClassConfig, environment: Environment) -> Result<Self> {
        let mut lvm = LvmBackend::open(class, environment)?;
        // Blocks return to the pool, which zeroes them on allocation.
        lvm.wipe = class.wipe.unwrap_or(Wipe::None);
        let pool = class.thin_pool.clone().unwrap_or_default();
        if lvm.find(&pool)?.is_none() {
            return Err(Error::invalid(
                "thinPool",
                pool,
                "must be a thin pool of `volumeGroup`",
            ));
        }
        Ok(Self {
            lvm,
            pool,
            overcommit: class.overcommit.unwrap_or(1.0),
        })
    }

    fn pool(&self) -> Result<report::LogicalVolume> {
        self.lvm.find(&self.pool)?.ok_or_else(|| {
            Error::invalid(
                "thinPool",
                &self.pool,
                "must be a thin pool of `volumeGroup`",
            )
        })
    }

    /// Makes a thin snapshot, writable and not skipped at activation.
    fn copy(&self, from: &str, name: &str, tag: &str, id: &str) -> Result<()> {
        let create = Invocation::new("lvcreate")
            .args(["--yes", "--snapshot", "--setactivationskip", "n"])
            .args(["--addtag", tag, "--addtag", PARTIAL_TAG, "--name", name])
            .arg(self.lvm.path(from));
        self.lvm.run("copying", &create, id)?;
        self.lvm.environment.steps.reached(Step::PartialMade, id);
        Ok(())
    }
}

impl Backend for LvmThinBackend {
    fn features(&self) -> Features {
        Features {
            devices: true,
            snapshots: true,
            clones: true,
            live_copies: true,
            groups: true,
            expansion: true,
            changed_blocks: false,
            enforced_size: true,
        }
    }

    fn bounds(&self) -> Bounds {
        self.lvm.bounds()
    }

    fn create(&self, volume: &VolumeRecord, source: Option<CopySource<'_>>) -> Result<()> {
        let (id, name) = (&volume.id, volume_name(&volume.id));
        if self.lvm.is_complete(&name, id)? {
            return Ok(());
        }
        if let Some(source) = source {
            let from = match source {
                CopySource::Snapshot(record) => snapshot_name(&record.id),
                CopySource::Volume { record, .. } => volume_name(&record.id),
            };
            self.copy(&from, &name, VOLUME_TAG, id)?;
            if source.bytes() < volume.bytes {
                self.lvm.extend(id, volume.bytes)?;
            }
        } else {
            let create = Invocation::new("lvcreate")
                .args(["--yes", "--type", "thin", "--thinpool", &self.pool])
                .args(["--addtag", VOLUME_TAG, "--addtag", PARTIAL_TAG])
                .args([
                    "--virtualsize",
                    &format!("{}b", volume.bytes),
                    "--name",
                    &name,
                ])
                .arg(&self.lvm.group);
            self.lvm.run("creating", &create, id)?;
            self.lvm.environment.steps.reached(Step::PartialMade, id);
        }
        self.lvm.complete(&name, id)
    }

    fn delete(&self, volume: &VolumeRecord) -> Result<()> {
        self.lvm
            .remove(&volume_name(&volume.id), &volume.id, self.lvm.wipe)
    }

    fn expand(&self, volume: &VolumeRecord, bytes: u64) -> Result<()> {
        self.lvm.extend(&volume.id, bytes)
    }

    fn snapshot(
        &self,
        volume: &VolumeRecord,
        snapshot: &SnapshotRecord,
        _live: bool,
    ) -> Result<()> {
        let name = snapshot_name(&snapshot.id);
        if self.lvm.is_complete(&name, &snapshot.id)? {
            return Ok(());
        }
        self.copy(&volume_name(&volume.id), &name, SNAPSHOT_TAG, &snapshot.id)?;
        self.lvm.complete(&name, &snapshot.id)
    }

    fn delete_snapshot(&self, id: &str) -> Result<()> {
        self.lvm.remove(&snapshot_name(id), id, Wipe::None)
    }

    fn list(&self) -> Result<Inventory> {
        self.lvm.inventory()
    }

    fn usage(&self, volume: &VolumeRecord) -> Result<Usage> {
        let found = self.lvm.find(&volume_name(&volume.id))?.ok_or_else(|| {
            let what = "find it in its volume group";
            unsupported(
                &self.lvm.class,
                BackendKind::LvmThin,
                what,
                "run `lvs` and restore it",
            )
        })?;
        Ok(Usage {
            bytes: found.bytes(),
            used: found.used(),
        })
    }

    fn location(&self, volume: &VolumeRecord) -> PathBuf {
        self.lvm.location(volume)
    }

    fn space(&self, volumes: &[VolumeRecord]) -> Result<Space> {
        let pool = self.pool()?;
        let all = report::volumes(&*self.lvm.environment.tools, &self.lvm.group)?;
        let (promised, used) = volumes
            .iter()
            .fold((0_u64, 0_u64), |(all_bytes, taken), it| {
                let name = volume_name(&it.id);
                let found = all.iter().find(|volume| volume.name == name);
                (
                    all_bytes + it.bytes,
                    taken + found.map_or(0, report::LogicalVolume::used),
                )
            });
        let (total, taken) = (pool.bytes(), pool.used());
        // A pool that is nearly full, or whose metadata is, takes no volume more.
        let fill = [pool.data_percent(), pool.metadata_percent()];
        let available = if fill
            .iter()
            .flatten()
            .any(|percent| *percent >= FULL_PERCENT)
        {
            0
        } else {
            let free = total.saturating_sub(taken);
            size::available(free, total, promised, used, self.overcommit)
        };
        Ok(Space {
            available,
            largest: available,
            total,
            used: taken,
        })
    }

    fn attach(&self, volume: &VolumeRecord, _read_only: bool) -> Result<Attachment> {
        self.lvm.activate(volume)
    }

    fn attached(&self, volume: &VolumeRecord) -> Result<Option<Attachment>> {
        self.lvm.attached(volume)
    }

    fn detach(&self, volume: &VolumeRecord) -> Result<()> {
        self.lvm.detach(volume)
    }
}

#[cfg(test)]
mod tests {
    //! Commands that are given to lvm2. What this cannot show is that lvm2 does
    //! what they say.

    use std::sync::Arc;

    use super::*;
    use crate::steps::TraceSteps;
    use crate::testing::{snapshot, volume};
    use crate::tool::fake::FakeRunner;

    fn lvs(pool_percent: &str) -> String {
        format!(
            r#"{{"report":[{{"lv":[
 {{"lv_name":"pool","lv_size":"10737418240","lv_tags":"","data_percent":"{pool_percent}","metadata_percent":"5.00"}},
 {{"lv_name":"orlop-v-a","lv_size":"1073741824","lv_tags":"orlop.csi.volume","data_percent":"50.00","metadata_percent":""}}]}}]}}"#
        )
    }

    const VGS: &str =
        r#"{"report":[{"vg":[{"vg_size":"0","vg_free":"0","vg_extent_size":"4194304"}]}]}"#;

    fn backend(pool_percent: &str) -> (Arc<FakeRunner>, LvmThinBackend) {
        let tools = Arc::new(FakeRunner::default());
        tools.answer("lvs ", &lvs(pool_percent));
        tools.answer("vgs ", VGS);
        let class = ClassConfig {
            volume_group: Some("vg0".to_owned()),
            thin_pool: Some("pool".to_owned()),
            ..crate::testing::class(BackendKind::LvmThin)
        };
        let environment = Environment {
            tools: tools.clone(),
            steps: Arc::new(TraceSteps),
        };
        let backend = LvmThinBackend::open(&class, environment).unwrap();
        tools.dump();
        (tools, backend)
    }

    fn changes(tools: &FakeRunner) -> String {
        let dump = tools.dump();
        let changes: Vec<&str> = dump.lines().filter(|it| !it.starts_with("lvs ")).collect();
        changes.join("\n")
    }

    #[test]
    fn a_volume_is_complete_when_its_tag_is_off() {
        let (tools, backend) = backend("10.00");
        backend.create(&volume("new", 1 << 30), None).unwrap();
        assert_eq!(
            changes(&tools),
            "lvcreate --yes --type thin --thinpool pool --addtag orlop.csi.volume --addtag \
             orlop.csi.partial --virtualsize 1073741824b --name orlop-v-new vg0\n\
             lvchange --yes --deltag orlop.csi.partial vg0/orlop-v-new"
        );
    }

    #[test]
    fn a_copy_into_a_larger_volume_is_extended() {
        let (tools, backend) = backend("10.00");
        let source = snapshot("s", "a");
        backend
            .create(&volume("new", 2 << 30), Some(CopySource::Snapshot(&source)))
            .unwrap();
        let changes = changes(&tools);
        assert!(
            changes.contains("--name orlop-v-new vg0/orlop-s-s\nlvextend"),
            "{changes}"
        );
    }

    #[test]
    fn a_pool_that_is_nearly_full_takes_no_volume() {
        let volumes = [volume("a", 1 << 30)];
        let (_, roomy) = backend("10.00");
        let space = roomy.space(&volumes).unwrap();
        // Nine of ten are free, half a gibibyte is promised and not written.
        assert_eq!(space.available, (9 << 30) - (1 << 29));
        let (_, full) = backend("96.00");
        assert_eq!(full.space(&volumes).unwrap().available, 0);
    }
}
