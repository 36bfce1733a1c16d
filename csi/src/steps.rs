//! The points between which an operation of the driver changes something.
//!
//! The process may end after each of them: the state on disk must be such that a restart
//! and a repeated request lead to the same result as without the crash. Tests end the
//! process at every one of them.

/// A point in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The intent is in the journal; nothing else has changed.
    IntentWritten,
    /// The backend has begun a volume or snapshot under a temporary name.
    PartialMade,
    /// The backend has a complete volume or snapshot.
    ArtifactMade,
    /// The backend has grown a volume.
    ArtifactGrown,
    /// The backend has removed a volume or snapshot.
    ArtifactRemoved,
    /// The record is written or removed.
    RecordWritten,
    /// The journal is empty again; the caller has no answer yet.
    IntentRemoved,
    /// The volume's device exists.
    DeviceAttached,
    /// The record contains the volume's future contents.
    ContentRecorded,
    /// The file system is made and not yet recorded.
    FilesystemMade,
    /// The volume is mounted at its staging path.
    Staged,
    /// The target exists and nothing is mounted on it.
    TargetMade,
    /// The volume is mounted at its target.
    Published,
    /// The target is unmounted and still exists.
    TargetUnmounted,
    /// The target is removed.
    TargetRemoved,
    /// The staging path is unmounted; the device is still attached.
    StagingUnmounted,
    /// The device is detached.
    DeviceDetached,
    /// The file system is frozen for snapshots of a group.
    Frozen,
    /// The file system of a mounted volume fills its grown device.
    FilesystemGrown,
}

impl Step {
    /// All points.
    pub const ALL: [Self; 19] = [
        Self::IntentWritten,
        Self::PartialMade,
        Self::ArtifactMade,
        Self::ArtifactGrown,
        Self::ArtifactRemoved,
        Self::RecordWritten,
        Self::IntentRemoved,
        Self::DeviceAttached,
        Self::ContentRecorded,
        Self::FilesystemMade,
        Self::Staged,
        Self::TargetMade,
        Self::Published,
        Self::TargetUnmounted,
        Self::TargetRemoved,
        Self::StagingUnmounted,
        Self::DeviceDetached,
        Self::Frozen,
        Self::FilesystemGrown,
    ];
}

/// Called at each point that an operation reaches.
pub trait StepObserver: Send + Sync {
    /// The operation on an object has reached a point.
    fn reached(&self, step: Step, id: &str);
}

/// Logs the points.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceSteps;

impl StepObserver for TraceSteps {
    fn reached(&self, step: Step, id: &str) {
        tracing::trace!(?step, id, "step");
    }
}
