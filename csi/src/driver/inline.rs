//! Inline volumes of pods: created when they are published, deleted when they
//! are unpublished (`volumeLifecycleModes: [Ephemeral]`).

use std::collections::BTreeMap;
use std::path::Path;

use super::{Driver, optional};
use crate::error::{Error, Result};
use crate::ids::{for_name, of_volume_handle};
use crate::request::access::{Access, AccessKind};
use crate::request::io_limits;
use crate::request::size::{DEFAULT_BYTES, Range};
use crate::steps::Step;

use super::volumes::NewVolume;

/// Key by which a kubelet says that a volume is inline.
pub const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";

/// The prefix of keys that are not the driver's.
const KUBERNETES: &str = "csi.storage.k8s.io/";

/// Whether a volume context describes an inline volume.
#[must_use]
pub fn is_inline(context: &BTreeMap<String, String>) -> bool {
    context.get(EPHEMERAL).is_some_and(|value| value == "true")
}

impl Driver {
    /// Creates an inline volume and publishes it at a path. The volume is known by
    /// [`of_volume_handle`] of its handle.
    ///
    /// # Errors
    /// When an attribute is unknown, or the volume cannot be made.
    pub fn publish_inline(
        &self,
        handle: &str,
        target: &Path,
        access: &Access,
        context: &BTreeMap<String, String>,
        secrets: &BTreeMap<String, String>,
    ) -> Result<()> {
        let AccessKind::Mount { fs_type, options } = &access.kind else {
            let expected = "inline volumes are file systems";
            return Err(Error::invalid(
                "volume_capability.access_type",
                "block",
                expected,
            ));
        };
        let id = &of_volume_handle(handle.to_owned());
        if for_name(handle) != *id {
            let expected = "lower-case letters, digits and `-`, as kubelets make them";
            return Err(Error::invalid("volume_id", handle, expected));
        }
        let mut class = None;
        let mut bytes = DEFAULT_BYTES;
        for (key, value) in context
            .iter()
            .filter(|(key, _)| !key.starts_with(KUBERNETES))
        {
            match key.as_str() {
                "class" => class = Some(value.clone()),
                "size" => bytes = io_limits::parse_bytes("volume_context[size]", value)?,
                _ => {
                    let expected = "inline volumes have the attributes `class` and `size`";
                    return Err(Error::invalid("volume_context", key, expected));
                }
            }
        }
        if optional(self.volume(id))?.is_none_or(|(_, record)| record.ephemeral.is_none()) {
            self.create_volume(&NewVolume {
                name: handle.to_owned(),
                range: Range {
                    required: bytes,
                    limit: 0,
                },
                access: vec![access.clone()],
                class,
                origin: None,
                mutable: BTreeMap::new(),
                ephemeral: Some(target.to_owned()),
            })?;
        }
        let _held = self.busy.change("volume", id)?;
        let (store, record) = self.volume(id)?;
        if record.ephemeral.as_deref() != Some(target) {
            return Err(Error::Precondition {
                id: id.to_owned(),
                reason: "it belongs to another pod, or is not an inline volume".to_owned(),
            });
        }
        match std::fs::create_dir(target) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::io("create", target)(error));
            }
            _ => {}
        }
        self.environment.steps.reached(Step::TargetMade, id);
        self.mount(&store, record, target, *fs_type, options, secrets)?;
        self.environment.steps.reached(Step::Published, id);
        Ok(())
    }
}
