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
mod host_path;
mod local;
mod ownership;
pub mod payload;
mod subpath;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::cri::api::{self, MountPropagation};
use crate::csi::{self, Drivers, plan::Wish};
use crate::objects::claim::{Csi, SecretReference};
use crate::objects::follow::Key;
use crate::objects::pod::{Container, Pod};
use crate::objects::source::{DataError, DataKind, Objects};
use crate::objects::volume::{EmptyDir, Inline, Source, Volume};
use crate::pod::env::Variable;
use crate::pod::expand::expand_strictly;
use crate::pod::fields::Facts;
use crate::pod::quantity;

use claim::{Bound, Place};
pub use payload::Tokens;

/// Why a volume could not be made.
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
    Token(String),
    /// A path of the node.
    #[error("{0}")]
    HostPath(String),
    /// The claim, or the volume that it is bound to.
    #[error("{0}")]
    Claim(String),
    /// The driver of the volume.
    #[error(transparent)]
    Driver(#[from] csi::Error),
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
    #[error("{what} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The volume that failed, and why.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume \"{volume}\" : {error}")]
pub struct Failed {
    /// Its name.
    pub volume: String,
    /// Why.
    pub error: Error,
}

/// One pod's volumes on this node.
#[derive(Debug)]
pub struct Volumes {
    root: PathBuf,
    pod_dir: PathBuf,
    /// By the volume's name: what its claim stands for.
    bound: BTreeMap<String, Bound>,
    /// Volumes of drivers that live with the pod and are there.
    inline: BTreeSet<String>,
    /// By name: where those two are.
    places: Arc<BTreeMap<String, PathBuf>>,
}

/// What volumes are made with.
#[derive(Clone, Copy)]
pub struct Mounting<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What the downward API tells.
    pub facts: &'a Facts,
    /// The API.
    pub objects: &'a dyn Objects,
    /// Drivers.
    pub drivers: &'a Drivers,
    /// Is told what the user should know: an event's reason and message.
    pub warn: &'a (dyn Fn(&str, String) + Sync),
    /// The same for good news.
    pub tell: &'a (dyn Fn(&str, String) + Sync),
}

impl std::fmt::Debug for Mounting<'_> {
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

impl Volumes {
    /// The volumes of the pod with this uid, below the agent's folder.
    #[must_use]
    pub fn new(root: &Path, uid: &str) -> Self {
        Self {
            root: root.to_owned(),
            pod_dir: root.join("pods").join(uid),
            bound: BTreeMap::new(),
            inline: BTreeSet::new(),
            places: Arc::default(),
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
            Source::EmptyDir(_) => "empty-dir",
            Source::ConfigMap(_) => "configmap",
            Source::Secret(_) => "secret",
            Source::Projected(_) => "projected",
            Source::DownwardApi(_) => "downward-api",
            Source::HostPath(host) => return Some(PathBuf::from(&host.path)),
            Source::Claim(_) | Source::Ephemeral => {
                let bound = self.bound.get(&volume.name)?;
                return match &bound.place {
                    Place::HostPath(host) => Some(PathBuf::from(&host.path)),
                    Place::Local(path) if bound.block => Some(PathBuf::from(path)),
                    Place::Local(_) => Some(self.local(bound)),
                    Place::Csi(_) => Some(csi::plan::target(&self.pod_dir, &bound.name)),
                };
            }
            Source::Csi(_) => return Some(csi::plan::target(&self.pod_dir, &volume.name)),
            Source::Image(_) | Source::Unsupported(_) => return None,
        };
        Some(
            self.pod_dir
                .join("volumes")
                .join(format!("kubernetes.io~{kind}"))
                .join(&volume.name),
        )
    }

    /// Makes all volumes that are not there, and brings those current that
    /// are made of API objects.
    ///
    /// # Errors
    /// The first volume that could not be made.
    pub async fn mount(&mut self, with: Mounting<'_>, tokens: &mut Tokens) -> Result<(), Failed> {
        for volume in &with.pod.spec.volumes {
            let made = if claim::name(with.pod, volume).is_some() {
                self.mount_claim(volume, with).await
            } else if let Source::Csi(inline) = &volume.source {
                self.publish_inline(volume, inline, with).await
            } else {
                self.mount_one(volume, with, tokens).await
            };
            made.map_err(|error| Failed {
                volume: volume.name.clone(),
                error,
            })?;
        }
        Ok(())
    }

    async fn mount_one(
        &self,
        volume: &Volume,
        with: Mounting<'_>,
        tokens: &mut Tokens,
    ) -> Result<(), Error> {
        let Mounting {
            pod,
            facts,
            objects,
            ..
        } = with;
        let group = group(pod);
        let Some(path) = self.path(volume) else {
            return match &volume.source {
                Source::Unsupported(kind) => Err(Error::Unsupported(kind.clone())),
                _ => Ok(()),
            };
        };
        match &volume.source {
            Source::EmptyDir(empty) => empty_dir(&path, empty, group),
            Source::HostPath(host) => host_path::check(&path, host.r#type.as_deref().unwrap_or("")),
            source => {
                // asked for first: a volume that cannot be filled is not made
                let files = payload::collect(pod, source, facts, objects, tokens).await?;
                fs::create_dir_all(&path).map_err(io_error("cannot make", &path))?;
                if !matches!(source, Source::ConfigMap(_)) {
                    tmpfs(&path, None)?;
                }
                atomic::write(&path, &files, group).map_err(io_error("cannot fill", &path))?;
                if let Some(group) = group {
                    chown(&path, None, Some(group)).map_err(io_error("cannot give", &path))?;
                }
                fs::set_permissions(&path, fs::Permissions::from_mode(0o777))
                    .map_err(io_error("cannot open", &path))
            }
        }
    }

    /// Finds out what a claim stands for, and brings that to the pod.
    async fn mount_claim(&mut self, volume: &Volume, with: Mounting<'_>) -> Result<(), Error> {
        if let Some(bound) = self.bound.get(&volume.name) {
            self.grow(volume, bound, with).await;
            return Ok(());
        }
        let (pod, objects) = (with.pod, with.objects);
        let name = claim::name(pod, volume).unwrap_or_default();
        let refused = |why: String| {
            Error::Claim(format!(
                "error processing PVC {}/{name}: {why}",
                pod.namespace()
            ))
        };
        let claim = objects
            .claim(pod.namespace(), &name)
            .await
            .map_err(refused)?;
        claim::check(pod, volume, &claim).map_err(refused)?;
        let found = objects
            .persistent_volume(&claim.spec.volume_name)
            .await
            .map_err(refused)?;
        let bound = claim::resolve(pod, volume, &claim, &found).map_err(refused)?;
        match &bound.place {
            Place::HostPath(host) => {
                let path = Path::new(&host.path);
                host_path::check(path, host.r#type.as_deref().unwrap_or(""))?;
            }
            Place::Local(path) if bound.block => {
                host_path::check(Path::new(path), "BlockDevice")?;
            }
            Place::Local(path) => {
                let target = self.local(&bound);
                local::mount(&self.root, Path::new(path), &target, &bound, with).await?;
            }
            Place::Csi(_) if bound.block => {
                return Err(Error::Unsupported("csi of volumeMode Block".to_owned()));
            }
            Place::Csi(csi) => {
                self.publish(&wish(&bound, csi), with).await?;
                self.grow(volume, &bound, with).await;
            }
        }
        self.bound.insert(volume.name.clone(), bound);
        self.note(volume);
        Ok(())
    }

    /// Has a driver's file system take what its volume has become. That it
    /// cannot is told, and no reason for the pod not to run.
    async fn grow(&self, volume: &Volume, bound: &Bound, with: Mounting<'_>) {
        let Place::Csi(csi) = &bound.place else {
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
                objects.patch_claim(pod.namespace(), &name, &patch).await
            }
            Err(error) => Err(error.to_string()),
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

    /// Has a driver make a volume for the pod.
    async fn publish(&self, wish: &Wish, with: Mounting<'_>) -> Result<(), Error> {
        let group = group(with.pod);
        let made = with
            .drivers
            .publish(with.pod, &self.pod_dir, wish, group, with.objects)
            .await?;
        match group {
            Some(group) if made.gives_files => local::give(&made.path, group, with).await,
            _ => Ok(()),
        }
    }

    /// The same for a volume that lives with the pod; once.
    async fn publish_inline(
        &mut self,
        volume: &Volume,
        inline: &Inline,
        with: Mounting<'_>,
    ) -> Result<(), Error> {
        if self.inline.contains(&volume.name) {
            return Ok(());
        }
        let secret = inline.node_publish_secret_ref.as_ref();
        let wish = Wish {
            name: volume.name.clone(),
            source: Csi {
                driver: inline.driver.clone(),
                fs_type: inline.fs_type.clone(),
                volume_attributes: inline.volume_attributes.clone(),
                node_publish_secret_ref: secret.map(|secret| SecretReference {
                    namespace: with.pod.namespace().to_owned(),
                    name: secret.name.clone(),
                }),
                ..Csi::default()
            },
            inline: true,
            access_modes: Vec::new(),
            options: Vec::new(),
            read_only: inline.read_only,
        };
        self.publish(&wish, with).await?;
        self.inline.insert(volume.name.clone());
        self.note(volume);
        Ok(())
    }

    /// Where a local volume is mounted for the pod.
    fn local(&self, bound: &Bound) -> PathBuf {
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

    /// Groups that containers get for the sake of their volumes.
    #[must_use]
    pub fn groups(&self) -> Vec<i64> {
        self.bound.values().filter_map(|b| b.group).collect()
    }

    /// What a container gets for its `volumeDevices`.
    ///
    /// # Errors
    /// When a volume is not there, or is no device.
    pub fn container_devices(
        &self,
        pod: &Pod,
        container: &Container,
    ) -> Result<Vec<api::Device>, Error> {
        let mut devices = Vec::with_capacity(container.volume_devices.len());
        for wanted in &container.volume_devices {
            let missing = || Error::Missing(wanted.name.clone());
            let volume = pod.spec.volumes.iter().find(|v| v.name == wanted.name);
            let volume = volume.ok_or_else(missing)?;
            let bound = self.bound.get(&volume.name).filter(|b| b.block);
            let bound = bound.ok_or_else(missing)?;
            let path = self.path(volume).ok_or_else(missing)?;
            devices.push(api::Device {
                container_path: wanted.device_path.clone(),
                host_path: path.display().to_string(),
                permissions: if bound.read_only { "r" } else { "mrw" }.to_owned(),
            });
        }
        Ok(devices)
    }

    /// The objects that the pod's volumes are made of.
    #[must_use]
    pub fn objects(pod: &Pod) -> BTreeSet<Key> {
        let mut keys = BTreeSet::new();
        let mut add = |kind, name: &str| {
            keys.insert((kind, pod.namespace().to_owned(), name.to_owned()));
        };
        for volume in &pod.spec.volumes {
            match &volume.source {
                Source::ConfigMap(map) => add(DataKind::ConfigMap, &map.name),
                Source::Secret(secret) => add(DataKind::Secret, &secret.secret_name),
                Source::Projected(projected) => {
                    for source in &projected.sources {
                        if let Some(map) = &source.config_map {
                            add(DataKind::ConfigMap, &map.name);
                        }
                        if let Some(secret) = &source.secret {
                            add(DataKind::Secret, &secret.name);
                        }
                    }
                }
                _ => {}
            }
        }
        keys
    }

    /// Whether any volume changes when API objects do. Those of claims grow.
    #[must_use]
    pub fn is_live(pod: &Pod) -> bool {
        pod.spec.volumes.iter().any(|volume| {
            matches!(
                volume.source,
                Source::ConfigMap(_)
                    | Source::Secret(_)
                    | Source::Projected(_)
                    | Source::DownwardApi(_)
                    | Source::Claim(_)
                    | Source::Ephemeral
            )
        })
    }

    /// What the runtime mounts into a container for its `volumeMounts`.
    ///
    /// # Errors
    /// When a volume does not exist, or a part of one cannot be had.
    pub fn container_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        variables: &[Variable],
    ) -> Result<Vec<api::Mount>, Error> {
        let by_name: BTreeMap<&str, &Volume> = pod
            .spec
            .volumes
            .iter()
            .map(|v| (v.name.as_str(), v))
            .collect();
        let mut mounts = Vec::with_capacity(container.volume_mounts.len() + 3);
        for (index, wanted) in container.volume_mounts.iter().enumerate() {
            let volume = by_name
                .get(wanted.name.as_str())
                .ok_or_else(|| Error::Missing(wanted.name.clone()))?;
            let refused = |message: String| Error::SubPath {
                volume: wanted.name.clone(),
                container: container.name.clone(),
                message,
            };
            let sub = if wanted.sub_path_expr.is_empty() {
                wanted.sub_path.clone()
            } else {
                let lookup = |name: &str| {
                    variables
                        .iter()
                        .find(|(n, _)| n == name)
                        .map(|(_, value)| value.as_str())
                };
                expand_strictly(&wanted.sub_path_expr, lookup)
                    .map_err(|name| refused(format!("no environment variable `{name}`")))?
            };
            let container_path = if wanted.mount_path.starts_with('/') {
                wanted.mount_path.clone()
            } else {
                format!("/{}", wanted.mount_path)
            };
            if let Source::Image(image) = &volume.source {
                mounts.push(api::Mount {
                    container_path,
                    readonly: true,
                    image: Some(api::ImageSpec {
                        image: image.reference.clone(),
                        user_specified_image: image.reference.clone(),
                        ..api::ImageSpec::default()
                    }),
                    image_sub_path: sub,
                    ..api::Mount::default()
                });
                continue;
            }
            let Some(mut host_path) = self.path(volume) else {
                return Err(Error::Missing(wanted.name.clone()));
            };
            if !sub.is_empty() {
                let part = subpath::open(&host_path, &sub).map_err(|e| refused(e.to_string()))?;
                let target = self
                    .pod_dir
                    .join("volume-subpaths")
                    .join(&volume.name)
                    .join(&container.name)
                    .join(index.to_string());
                subpath::bind(&part, &target).map_err(|e| refused(e.to_string()))?;
                host_path = target;
            } else if matches!(&volume.source, Source::HostPath(h) if h.r#type.as_deref().unwrap_or("").is_empty())
                && !host_path.exists()
            {
                // what container runtimes do not make themselves
                fs::create_dir_all(&host_path).map_err(io_error("cannot make", &host_path))?;
            }
            let readonly = wanted.read_only
                || self.bound.get(&volume.name).is_some_and(|b| b.read_only)
                || matches!(&volume.source, Source::Csi(csi) if csi.read_only)
                || matches!(
                    volume.source,
                    Source::ConfigMap(_)
                        | Source::Secret(_)
                        | Source::Projected(_)
                        | Source::DownwardApi(_)
                );
            mounts.push(api::Mount {
                container_path,
                host_path: host_path.display().to_string(),
                readonly,
                recursive_read_only: wanted.recursive_read_only.as_deref() == Some("Enabled"),
                propagation: match wanted.mount_propagation.as_deref() {
                    Some("HostToContainer") => MountPropagation::HostToContainer,
                    Some("Bidirectional") => MountPropagation::Bidirectional,
                    _ => MountPropagation::Private,
                }
                .into(),
                ..api::Mount::default()
            });
        }
        Ok(mounts)
    }

    /// Writes the pod's `hosts` file; the mount of it into a container.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn hosts(&self, content: &str) -> Result<api::Mount, Error> {
        let path = self.pod_dir.join("etc-hosts");
        fs::create_dir_all(&self.pod_dir).map_err(io_error("cannot make", &self.pod_dir))?;
        // the same file for all containers: what one of them wrote stays
        if fs::read(&path).ok().as_deref() != Some(content.as_bytes()) {
            fs::write(&path, content).map_err(io_error("cannot write", &path))?;
        }
        Ok(api::Mount {
            container_path: "/etc/hosts".to_owned(),
            host_path: path.display().to_string(),
            ..api::Mount::default()
        })
    }

    /// Makes the file that a container writes its last words to; the mount.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn termination_log(
        &self,
        container: &str,
        restarts: u32,
        at: &str,
    ) -> Result<api::Mount, Error> {
        let path = self.termination_path(container, restarts);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io_error("cannot make", parent))?;
        }
        fs::write(&path, "").map_err(io_error("cannot write", &path))?;
        // any user of the container may write it
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))
            .map_err(io_error("cannot open", &path))?;
        Ok(api::Mount {
            container_path: at.to_owned(),
            host_path: path.display().to_string(),
            ..api::Mount::default()
        })
    }

    /// The file that a container writes its last words to.
    #[must_use]
    pub fn termination_path(&self, container: &str, restarts: u32) -> PathBuf {
        self.pod_dir
            .join("containers")
            .join(container)
            .join(restarts.to_string())
    }

    /// Removes all that the pod has on this node. Nothing of it may run.
    ///
    /// # Errors
    /// When something is still in use; call it again later.
    pub fn remove(&self) -> io::Result<()> {
        if !self.pod_dir.exists() {
            return Ok(());
        }
        let text = fs::read_to_string("/proc/self/mountinfo")?;
        let mut below = mounts_below(&text, &self.pod_dir);
        // innermost first
        below.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
        for path in below {
            match unmount(&path, UnmountFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(_) => unmount(&path, UnmountFlags::DETACH)?,
            }
        }
        // what is mounted still may be somebody's data: it is not touched
        let text = fs::read_to_string("/proc/self/mountinfo")?;
        if let Some(path) = mounts_below(&text, &self.pod_dir).first() {
            let path = path.display();
            return Err(io::Error::other(format!("`{path}` is still mounted")));
        }
        remove_tree(&self.pod_dir, fs::metadata(&self.root)?.dev())
    }
}

/// What a driver is asked for, for a claim.
fn wish(bound: &Bound, csi: &Csi) -> Wish {
    Wish {
        name: bound.name.clone(),
        source: csi.clone(),
        inline: false,
        access_modes: bound.access_modes.clone(),
        options: bound.options.clone(),
        read_only: bound.read_only,
    }
}

/// The group that the pod's volumes shall be of.
fn group(pod: &Pod) -> Option<u32> {
    let security = pod.spec.security_context.as_ref()?;
    u32::try_from(security.fs_group?).ok()
}

/// Removes a folder, without ever leaving the file system it is on: what is
/// still mounted below it is not ours to delete.
fn remove_tree(path: &Path, device: u64) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            if meta.dev() != device {
                return Err(io::Error::other(format!(
                    "`{}` is still mounted",
                    entry.path().display()
                )));
            }
            remove_tree(&entry.path(), device)?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(path)
}

/// The mount points in a `mountinfo` that are below `root`.
fn mounts_below(text: &str, root: &Path) -> Vec<PathBuf> {
    text.lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|field| PathBuf::from(unescape(field)))
        .filter(|path| path.starts_with(root) && path != root)
        .collect()
}

/// `\040` and the like, as mountinfo writes them.
fn unescape(field: &str) -> String {
    let mut out = Vec::with_capacity(field.len());
    let bytes = field.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = bytes
            .get(at + 1..at + 4)
            .filter(|_| byte == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code {
            out.push(code);
            at += 4;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn empty_dir(path: &Path, empty: &EmptyDir, group: Option<u32>) -> Result<(), Error> {
    let fresh = !path.exists();
    if !fresh {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(io_error("cannot make", path))?;
    match empty.medium.as_str() {
        "" => {}
        "Memory" => {
            let size = empty.size_limit.as_deref().and_then(quantity::whole);
            if let Err(error) = tmpfs(path, size) {
                let _ = fs::remove_dir(path);
                return Err(error);
            }
        }
        other => {
            let _ = fs::remove_dir(path);
            return Err(Error::Unsupported(format!("emptyDir of medium {other}")));
        }
    }
    let mode = if group.is_some() { 0o2777 } else { 0o777 };
    if group.is_some() {
        chown(path, None, group).map_err(io_error("cannot give", path))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(io_error("cannot open", path))
}

/// Mounts memory at `path`, unless a mount is there already.
fn tmpfs(path: &Path, size: Option<i64>) -> Result<(), Error> {
    let device = |p: &Path| fs::metadata(p).map(|m| m.dev());
    let parent = path.parent().unwrap_or(path);
    let own = device(path).map_err(io_error("cannot read", path))?;
    if own != device(parent).map_err(io_error("cannot read", parent))? {
        return Ok(());
    }
    let options = match size.filter(|s| *s > 0) {
        Some(size) => format!("size={size}"),
        None => String::new(),
    };
    let options = std::ffi::CString::new(options).unwrap_or_default();
    mount(
        "tmpfs",
        path,
        "tmpfs",
        MountFlags::empty(),
        options.as_c_str(),
    )
    .map_err(|e| io_error("cannot mount memory at", path)(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_below_a_folder_are_found_whatever_their_names() {
        let text = "36 35 98:0 / /var/lib/x rw - ext4 /dev/sda rw\n\
                    37 36 0:50 / /var/lib/x/pods/u/volumes/a\\040b rw - tmpfs tmpfs rw\n\
                    38 36 0:51 / /var/lib/xy rw - tmpfs tmpfs rw\n\
                    nonsense\n";
        assert_eq!(
            mounts_below(text, Path::new("/var/lib/x")),
            [PathBuf::from("/var/lib/x/pods/u/volumes/a b")]
        );
    }

    #[test]
    fn removing_takes_all_but_what_others_mounted() {
        let root = tempfile::tempdir().unwrap();
        let volumes = Volumes::new(root.path(), "u-1");
        let target = tempfile::tempdir().unwrap();
        fs::write(target.path().join("kept"), "").unwrap();
        let dir = volumes
            .pod_dir()
            .join("volumes/kubernetes.io~empty-dir/tmp");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("file"), "").unwrap();
        std::os::unix::fs::symlink(target.path(), dir.join("link")).unwrap();
        volumes.remove().unwrap();
        assert!(!volumes.pod_dir().exists());
        assert!(target.path().join("kept").exists());
        volumes.remove().unwrap();
    }

    /// Mounts need root; without it there is nothing to be seen.
    #[tokio::test]
    async fn a_claim_brings_a_folder_of_the_node_to_the_pod_and_leaves_it_there() {
        if !rustix::process::getuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("kept"), "x").unwrap();
        let objects = crate::objects::source::fake::FakeObjects::default();
        objects.claims.lock().unwrap().push((
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "c", "namespace": "default", "uid": "c1"},
                "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}))
            .unwrap(),
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "pv", "annotations": {"pv.beta.kubernetes.io/gid": "77"}},
                "spec": {"claimRef": {"uid": "c1"}, "local": {"path": data.path()}}}))
            .unwrap(),
        ));
        let pod = |policy: &str| -> Pod {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "web", "namespace": "default", "uid": "u"},
                "spec": {
                    "securityContext": {"fsGroup": 4242, "fsGroupChangePolicy": policy},
                    "containers": [{"name": "c", "volumeMounts": [
                        {"name": "v", "mountPath": "/d"}]}],
                    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}))
            .unwrap()
        };
        let told = std::sync::Mutex::new(Vec::new());
        let mut mounted = Vec::new();
        for (uid, policy) in [("u1", "Always"), ("u2", "OnRootMismatch")] {
            let pod = pod(policy);
            let mut volumes = Volumes::new(root.path(), uid);
            let with = Mounting {
                pod: &pod,
                facts: &Facts::default(),
                objects: &objects,
                drivers: &Drivers::default(),
                warn: &|reason, _| told.lock().unwrap().push(reason.to_owned()),
                tell: &|_, _| {},
            };
            for _ in 0..2 {
                let made = volumes.mount(with, &mut Tokens::default()).await;
                made.unwrap();
            }
            assert_eq!(volumes.groups(), [77]);
            let mounts = volumes.container_mounts(&pod, &pod.spec.containers[0], &[]);
            let path = PathBuf::from(&mounts.unwrap()[0].host_path);
            assert_eq!(fs::metadata(path.join("kept")).unwrap().gid(), 4242);
            mounted.push(volumes);
        }
        assert!(told.lock().unwrap().is_empty());
        for volumes in &mounted {
            volumes.remove().unwrap();
            assert!(!volumes.pod_dir().exists());
        }
        assert!(data.path().join("kept").exists());
    }
}
