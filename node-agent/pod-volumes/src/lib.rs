//! The volumes of pods: made before containers start, kept current while they
//! run, removed after them.
//!
//! ```text
//! <root>/pods/<uid>/
//!   volumes/kubernetes.io~<kind>/<volume>/
//!   volume-subpaths/<volume>/<container>/<index>
//!   containers/<container>/<number>          termination message
//!   etc-hosts
//! ```

pub mod atomic;
pub mod claim;
mod empty_dir;
pub mod growth;
mod host_path;
mod local;
mod mounts;
mod ownership;
pub mod payload;
mod removal;
mod subpath;
mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use node_agent_cri::origin;
use node_agent_csi_client::CsiDrivers;
use node_agent_csi_client::plan::VolumeRequest;
use node_agent_files::{DIRECTORY_MODE, create_dirs};
use node_agent_kubelet_metrics::PodMetrics;
use node_agent_objects::claim::{CsiVolume, SecretReference};
use node_agent_objects::error_chain;
use node_agent_objects::fields::PodFacts;
use node_agent_objects::follow::{FollowedKind, ObjectRef};
use node_agent_objects::pod::Pod;
use node_agent_objects::source::{DataError, DataKind, ObjectReader, ReadError};
use node_agent_objects::volume::{InlineCsiSource, Volume, VolumeSource};
use node_agent_pod_resources::hugepages;

use claim::{BoundClaim, DataLocation};
pub use payload::TokenCache;

/// Why a volume cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An object that it is made of.
    #[error(transparent)]
    Data(DataError),
    /// An object lacks a key.
    #[error("{kind} references non-existent {} key: {key}", if *.kind == "secret" { "secret" } else { "config" })]
    Key {
        /// `configmap` or `secret`.
        kind: &'static str,
        /// The key.
        key: String,
    },
    /// A reference to a field that does not exist.
    #[error("unsupported fieldPath: {0}")]
    Field(String),
    /// A projection of a kind that this agent does not know.
    #[error("a projected source of this kind is not supported by this node")]
    Projection,
    /// The token that it holds.
    #[error("failed to fetch token: {0}")]
    Token(ReadError),
    /// The trust anchors that it holds.
    #[error("unable to fetch cluster trust bundles: {0}")]
    Trust(String),
    /// A path of the node.
    #[error("{0}")]
    HostPath(String),
    /// The claim, or the volume that it is bound to.
    #[error("error processing PVC {namespace}/{name}")]
    Claim {
        /// The claim's namespace.
        namespace: String,
        /// The claim's name.
        name: String,
        /// Why the pod cannot use it.
        source: claim::ClaimError,
    },
    /// The path of a local volume.
    #[error("path \"{}\" does not exist", path.display())]
    NoLocalPath {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path of a local volume is a file.
    #[error("path \"{}\" is not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// The driver of the volume.
    #[error(transparent)]
    Driver(#[from] node_agent_csi_client::Error),
    /// The medium of an `emptyDir`.
    #[error(transparent)]
    Medium(#[from] hugepages::MediumError),
    /// A volume of a kind that this agent does not mount.
    #[error(
        "volumes of kind `{0}` are not supported by this node; use persistentVolumeClaim, ephemeral, csi, emptyDir, configMap, secret, projected, downwardAPI, hostPath or image"
    )]
    Unsupported(String),
    /// A mount names a volume that the pod does not have.
    #[error("volume \"{0}\" does not exist")]
    Missing(String),
    /// A part of a volume.
    #[error(
        "failed to prepare subPath for volumeMount \"{volume}\" of container \"{container}\": {message}"
    )]
    SubPath {
        /// The volume.
        volume: String,
        /// The container.
        container: String,
        /// Why.
        message: String,
    },
    /// The file system.
    #[error("{what} `{}`", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The volume that failed, and its error.
#[derive(Debug, thiserror::Error)]
// With its cause after ": ", it is the kubelet's text.
#[error("MountVolume.SetUp failed for volume \"{volume}\" ")]
pub struct VolumeFailure {
    /// Its name.
    pub volume: String,
    /// Why.
    #[source]
    pub error: Error,
}

/// The volumes of one pod on this node.
#[derive(Debug)]
pub struct PodVolumes {
    root: PathBuf,
    pod_dir: PathBuf,
    /// By the volume's name: what its claim stands for.
    bound: BTreeMap<String, BoundClaim>,
    /// Volumes of drivers that live with the pod and are there.
    inline: BTreeSet<String>,
    /// Volumes that their drivers want to publish again from time to time.
    again: BTreeSet<String>,
    /// By name: where those two are.
    places: Arc<BTreeMap<String, PathBuf>>,
    /// By name: what was seen of the files of volumes made of API objects.
    seen: BTreeMap<String, atomic::PayloadStamp>,
}

/// The inputs of mounting a pod's volumes.
#[derive(Clone, Copy)]
pub struct MountContext<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What the downward API tells.
    pub facts: &'a PodFacts,
    /// The API.
    pub objects: &'a dyn ObjectReader,
    /// Drivers.
    pub drivers: &'a CsiDrivers,
    /// Is told what the user should know: an event's reason and message.
    pub warn: &'a (dyn Fn(&str, String) + Sync),
    /// The same for good news.
    pub tell: &'a (dyn Fn(&str, String) + Sync),
    /// What is measured.
    pub metrics: &'a PodMetrics,
}

impl std::fmt::Debug for MountContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mounting")
            .field("pod", &self.pod.name())
            .finish_non_exhaustive()
    }
}

fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io {
        what,
        path: path.to_owned(),
        source,
    }
}

/// Makes a directory and its missing parents, which only the agent and the runtime enter:
/// what is for containers is opened to them apart, and reached by a mount.
fn make(path: &Path) -> Result<(), Error> {
    create_dirs(path, DIRECTORY_MODE).map_err(io_error("cannot make", path))
}

impl PodVolumes {
    /// The volumes of the pod with this uid, below the agent's folder.
    #[must_use]
    pub fn new(root: &Path, uid: &str) -> Self {
        Self {
            root: root.to_owned(),
            pod_dir: root.join("pods").join(uid),
            bound: BTreeMap::new(),
            inline: BTreeSet::new(),
            again: BTreeSet::new(),
            places: Arc::default(),
            seen: BTreeMap::new(),
        }
    }

    /// The pod's own folder.
    #[must_use]
    pub fn pod_dir(&self) -> &Path {
        &self.pod_dir
    }

    /// Where a volume is on the node; `None` for one without a place.
    #[must_use]
    pub fn path(&self, volume: &Volume) -> Option<PathBuf> {
        let kind = match &volume.source {
            VolumeSource::EmptyDir(_) => "empty-dir",
            VolumeSource::ConfigMap(_) => "configmap",
            VolumeSource::Secret(_) => "secret",
            VolumeSource::Projected(_) => "projected",
            VolumeSource::DownwardApi(_) => "downward-api",
            VolumeSource::HostPath(host) => return Some(PathBuf::from(&host.path)),
            VolumeSource::Claim(_) | VolumeSource::Ephemeral => {
                let bound = self.bound.get(&volume.name)?;
                return match &bound.place {
                    DataLocation::HostPath(host) => Some(PathBuf::from(&host.path)),
                    DataLocation::Local(path) if bound.block => Some(PathBuf::from(path)),
                    DataLocation::Local(_) => Some(self.local(bound)),
                    DataLocation::Csi(_) if bound.block => {
                        let (root, name) = (&self.root, &bound.name);
                        Some(
                            node_agent_csi_client::plan::VolumePaths::of_device(
                                root,
                                &self.pod_dir,
                                name,
                            )
                            .target,
                        )
                    }
                    DataLocation::Csi(_) => Some(node_agent_csi_client::plan::target(
                        &self.pod_dir,
                        &bound.name,
                    )),
                };
            }
            VolumeSource::Csi(_) => {
                return Some(node_agent_csi_client::plan::target(
                    &self.pod_dir,
                    &volume.name,
                ));
            }
            VolumeSource::Image(_) | VolumeSource::Unsupported(_) => return None,
        };
        Some(
            self.pod_dir
                .join("volumes")
                .join(format!("kubernetes.io~{kind}"))
                .join(&volume.name),
        )
    }

    /// Where the volume of that name is, if it is the pod's own (`emptyDir`): all that
    /// is in it came from its containers.
    #[must_use]
    pub fn of_its_own(&self, pod: &Pod, name: &str) -> Option<PathBuf> {
        let mut all = pod.spec.volumes.iter();
        let volume = all.find(|volume| volume.name == name)?;
        matches!(volume.source, VolumeSource::EmptyDir(_)).then(|| self.path(volume))?
    }

    /// Makes all volumes that containers have and that are not there, and brings those
    /// current that are made of API objects.
    ///
    /// # Errors
    /// The first volume that could not be made.
    pub async fn mount(
        &mut self,
        with: MountContext<'_>,
        tokens: &mut TokenCache,
    ) -> Result<(), VolumeFailure> {
        let marked = make(&self.pod_dir).and_then(|()| {
            let path = self.pod_dir.as_path();
            origin::mark(path).map_err(io_error("cannot mark as its own", path))
        });
        marked.map_err(|error| VolumeFailure {
            volume: String::new(),
            error,
        })?;
        for volume in with.pod.spec.used_volumes() {
            let begun = Instant::now();
            let made = if claim::name(with.pod, volume).is_some() {
                self.mount_claim(volume, with).await
            } else if let VolumeSource::Csi(inline) = &volume.source {
                self.publish_inline(volume, inline, with).await
            } else {
                self.mount_one(volume, with, tokens).await
            };
            let plugin = self.plugin(volume);
            with.metrics
                .volume_mounted(&plugin, made.is_err(), begun.elapsed());
            made.map_err(|error| VolumeFailure {
                volume: volume.name.clone(),
                error,
            })?;
        }
        Ok(())
    }

    /// The volume's plugin, as the kubelet's metrics name it.
    fn plugin(&self, volume: &Volume) -> String {
        let kind = match &volume.source {
            VolumeSource::EmptyDir(_) => "empty-dir",
            VolumeSource::ConfigMap(_) => "configmap",
            VolumeSource::Secret(_) => "secret",
            VolumeSource::Projected(_) => "projected",
            VolumeSource::DownwardApi(_) => "downward-api",
            VolumeSource::HostPath(_) => "host-path",
            VolumeSource::Image(_) => "image",
            VolumeSource::Csi(inline) => return format!("kubernetes.io/csi:{}", inline.driver),
            VolumeSource::Claim(_) | VolumeSource::Ephemeral => {
                match self.bound.get(&volume.name).map(|bound| &bound.place) {
                    Some(DataLocation::Csi(csi)) => {
                        return format!("kubernetes.io/csi:{}", csi.driver);
                    }
                    Some(DataLocation::HostPath(_)) => "host-path",
                    Some(DataLocation::Local(_)) => "local-volume",
                    None => "unknown",
                }
            }
            VolumeSource::Unsupported(_) => "unknown",
        };
        format!("kubernetes.io/{kind}")
    }

    async fn mount_one(
        &mut self,
        volume: &Volume,
        with: MountContext<'_>,
        tokens: &mut TokenCache,
    ) -> Result<(), Error> {
        let MountContext {
            pod,
            facts,
            objects,
            ..
        } = with;
        let group = group(pod);
        let Some(path) = self.path(volume) else {
            return match &volume.source {
                VolumeSource::Unsupported(kind) => Err(Error::Unsupported(kind.clone())),
                _ => Ok(()),
            };
        };
        match &volume.source {
            VolumeSource::EmptyDir(empty) => empty_dir::make(&path, empty, group, &pod.spec),
            VolumeSource::HostPath(host) => {
                host_path::check(&path, host.r#type.as_deref().unwrap_or(""))
            }
            source => {
                // asked for first: a volume that cannot be filled is not made
                let files = payload::collect(pod, source, facts, objects, tokens).await?;
                make(&path)?;
                if !matches!(source, VolumeSource::ConfigMap(_)) {
                    empty_dir::tmpfs(&path, None)?;
                }
                let mut seen = self.seen.remove(&volume.name);
                let written = atomic::write(&path, &files, group, &mut seen);
                self.seen
                    .extend(seen.map(|seen| (volume.name.clone(), seen)));
                written.map_err(io_error("cannot fill", &path))?;
                atomic::open_to_containers(&path, group).map_err(io_error("cannot open", &path))
            }
        }
    }

    /// Finds out what a claim stands for, and brings that to the pod.
    async fn mount_claim(&mut self, volume: &Volume, with: MountContext<'_>) -> Result<(), Error> {
        if let Some(bound) = self.bound.get(&volume.name) {
            if let (DataLocation::Csi(csi), true) =
                (&bound.place, self.again.contains(&volume.name))
            {
                self.publish(&wish(bound, csi), with, true).await?;
            }
            self.grow(volume, bound, with).await;
            return Ok(());
        }
        let (pod, objects) = (with.pod, with.objects);
        let name = claim::name(pod, volume).unwrap_or_default();
        let refused = |source| Error::Claim {
            namespace: pod.namespace().to_owned(),
            name: name.clone(),
            source,
        };
        let claim = objects
            .claim(pod.namespace(), &name)
            .await
            .map_err(|error| refused(claim::ClaimError::Read(error)))?;
        claim::check(pod, volume, &claim).map_err(refused)?;
        let found = objects
            .persistent_volume(&claim.spec.volume_name)
            .await
            .map_err(|error| refused(claim::ClaimError::Read(error)))?;
        let bound = claim::resolve(pod, volume, &claim, &found).map_err(refused)?;
        match &bound.place {
            DataLocation::HostPath(host) => {
                let path = Path::new(&host.path);
                host_path::check(path, host.r#type.as_deref().unwrap_or(""))?;
            }
            DataLocation::Local(path) if bound.block => {
                host_path::check(Path::new(path), "BlockDevice")?;
            }
            DataLocation::Local(path) => {
                let target = self.local(&bound);
                local::mount(&self.root, Path::new(path), &target, &bound, with).await?;
            }
            DataLocation::Csi(csi) => {
                if self.publish(&wish(&bound, csi), with, false).await? {
                    self.again.insert(volume.name.clone());
                }
                self.grow(volume, &bound, with).await;
            }
        }
        self.bound.insert(volume.name.clone(), bound);
        self.note(volume);
        Ok(())
    }

    /// Has a driver's file system take what its volume has become. That it
    /// cannot is told, and no reason for the pod not to run.
    async fn grow(&self, volume: &Volume, bound: &BoundClaim, with: MountContext<'_>) {
        let DataLocation::Csi(csi) = &bound.place else {
            return;
        };
        if bound.read_only || bound.block {
            return;
        }
        let (pod, objects) = (with.pod, with.objects);
        let name = claim::name(pod, volume).unwrap_or_default();
        let Ok(claim) = objects.claim(pod.namespace(), &name).await else {
            return;
        };
        let Ok(found) = objects.persistent_volume(&bound.name).await else {
            return;
        };
        let Some((bytes, size)) = claim::growth(&claim, &found) else {
            return;
        };
        let done = with
            .drivers
            .expand(&self.pod_dir, &wish(bound, csi), bytes)
            .await;
        let told = match done {
            Ok(false) => return,
            Ok(true) => {
                let patch = claim::grown(&claim, &size);
                let patched = objects.patch_claim(pod.namespace(), &name, &patch).await;
                patched.map_err(|error| error.to_string())
            }
            Err(error) => Err(error_chain(&error)),
        };
        let volume = &bound.name;
        match told {
            Ok(()) => (with.tell)(
                "FileSystemResizeSuccessful",
                format!("MountVolume.NodeExpandVolume succeeded for volume \"{volume}\" "),
            ),
            Err(error) => (with.warn)(
                "VolumeResizeFailed",
                format!("NodeExpandVolume failed for volume \"{volume}\" : {error}"),
            ),
        }
    }

    /// Has a driver make a volume for the pod, or refresh it; whether it wants
    /// to do so again.
    async fn publish(
        &self,
        wish: &VolumeRequest,
        with: MountContext<'_>,
        again: bool,
    ) -> Result<bool, Error> {
        let group = group(with.pod);
        let made = with
            .drivers
            .publish(with.pod, &self.pod_dir, wish, group, with.objects, again)
            .await?;
        if let Some(group) = group.filter(|_| made.gives_files && !again) {
            local::give_to_group(&made.path, group, with).await?;
        }
        Ok(made.again)
    }

    /// The same for a volume that lives with the pod; once.
    async fn publish_inline(
        &mut self,
        volume: &Volume,
        inline: &InlineCsiSource,
        with: MountContext<'_>,
    ) -> Result<(), Error> {
        let there = self.inline.contains(&volume.name);
        if there && !self.again.contains(&volume.name) {
            return Ok(());
        }
        let secret = inline.node_publish_secret_ref.as_ref();
        let wish = VolumeRequest {
            name: volume.name.clone(),
            source: CsiVolume {
                driver: inline.driver.clone(),
                fs_type: inline.fs_type.clone(),
                volume_attributes: inline.volume_attributes.clone(),
                node_publish_secret_ref: secret.map(|secret| SecretReference {
                    namespace: with.pod.namespace().to_owned(),
                    name: secret.name.clone(),
                }),
                ..CsiVolume::default()
            },
            inline: true,
            access_modes: Vec::new(),
            options: Vec::new(),
            read_only: inline.read_only,
            block: false,
        };
        if self.publish(&wish, with, there).await? {
            self.again.insert(volume.name.clone());
        }
        self.inline.insert(volume.name.clone());
        self.note(volume);
        Ok(())
    }

    /// Where a local volume is mounted for the pod.
    fn local(&self, bound: &BoundClaim) -> PathBuf {
        self.pod_dir
            .join("volumes")
            .join("kubernetes.io~local-volume")
            .join(&bound.name)
    }

    fn note(&mut self, volume: &Volume) {
        if let Some(path) = self.path(volume) {
            Arc::make_mut(&mut self.places).insert(volume.name.clone(), path);
        }
    }

    /// By the volume's name: where volumes are that are not the pod's own.
    #[must_use]
    pub fn places(&self) -> Arc<BTreeMap<String, PathBuf>> {
        self.places.clone()
    }

    /// The objects that the pod's volumes are made of.
    #[must_use]
    pub fn objects(pod: &Pod) -> BTreeSet<ObjectRef> {
        let mut keys = BTreeSet::new();
        let mut add = |kind, name: &str| {
            let kind = FollowedKind::Data(kind);
            keys.insert((kind, pod.namespace().to_owned(), name.to_owned()));
        };
        let mut trusts = false;
        for volume in &pod.spec.volumes {
            match &volume.source {
                VolumeSource::ConfigMap(map) => add(DataKind::ConfigMap, &map.name),
                VolumeSource::Secret(secret) => add(DataKind::Secret, &secret.secret_name),
                VolumeSource::Projected(projected) => {
                    for source in &projected.sources {
                        if let Some(map) = &source.config_map {
                            add(DataKind::ConfigMap, &map.name);
                        }
                        if let Some(secret) = &source.secret {
                            add(DataKind::Secret, &secret.name);
                        }
                        trusts |= source.cluster_trust_bundle.is_some();
                    }
                }
                _ => {}
            }
        }
        if trusts {
            keys.insert((FollowedKind::TrustBundles, String::new(), String::new()));
        }
        keys
    }

    /// Whether any volume changes when API objects do. Those of claims grow, and
    /// drivers may want to publish theirs again.
    #[must_use]
    pub fn is_live(pod: &Pod) -> bool {
        pod.spec.volumes.iter().any(|volume| {
            matches!(
                volume.source,
                VolumeSource::ConfigMap(_)
                    | VolumeSource::Secret(_)
                    | VolumeSource::Projected(_)
                    | VolumeSource::DownwardApi(_)
                    | VolumeSource::Claim(_)
                    | VolumeSource::Ephemeral
                    | VolumeSource::Csi(_)
            )
        })
    }
}

/// What a driver is asked for, for a claim.
fn wish(bound: &BoundClaim, csi: &CsiVolume) -> VolumeRequest {
    VolumeRequest {
        name: bound.name.clone(),
        source: csi.clone(),
        inline: false,
        access_modes: bound.access_modes.clone(),
        options: bound.options.clone(),
        read_only: bound.read_only,
        block: bound.block,
    }
}

/// The group that the pod's volumes shall be of.
fn group(pod: &Pod) -> Option<u32> {
    let security = pod.spec.security_context.as_ref()?;
    u32::try_from(security.fs_group?).ok()
}

#[cfg(test)]
mod tests;
