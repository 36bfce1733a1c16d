//! Volumes that drivers make: the node's side of the Container Storage
//! Interface.
//!
//! ```text
//! <root>/plugins_registry/*.sock                      drivers make themselves known
//! <root>/plugins/kubernetes.io/csi/<driver>/<hash>/   staged, once a node
//! <root>/pods/<uid>/volumes/kubernetes.io~csi/<name>/ published, once a pod
//!   mount/          the volume
//!   vol_data.json   how to take it back
//! ```
//!
//! Devices have places of their own (`block`).
//!
//! Nothing else is kept: what was published is found on disk, whoever
//! published it. A volume is unstaged when no pod's folder names it any more.

mod allocatable;
mod block;
mod disk_list;
pub mod plan;
mod register;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control_client::{Client as Api, Resource, resources};
use csi_api::{self as api, Capability};
use node_agent_cri::RuntimeClient as Socket;
use node_agent_files::{DIRECTORY_MODE, create_dirs, read_to_string};
use node_agent_objects::claim::SecretReference;
use node_agent_objects::pod::Pod;
use node_agent_objects::source::{ObjectReader, Secret, TokenSpec};
use node_agent_plugins::KeyedMutex;
use node_agent_plugins::api::Empty;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;

use disk_list::DiskList;
use plan::{DriverObject, DriverSpec, VolumeData, VolumePaths, VolumeRequest};

/// How long a driver may take for one call.
const PATIENCE: Duration = Duration::from_secs(120);

const CSI_DRIVERS: Resource = Resource::cluster("storage.k8s.io", "v1", "csidrivers", "CSIDriver");

const ATTACHMENTS: Resource = Resource::cluster(
    "storage.k8s.io",
    "v1",
    "volumeattachments",
    "VolumeAttachment",
);

/// The file beside a published volume.
const DATA: &str = "vol_data.json";

/// Why a volume cannot be published or unpublished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver is not there (yet).
    #[error("driver name {0} not found in the list of registered CSI drivers")]
    Driver(String),
    /// The driver refuses.
    #[error("rpc error: {0}")]
    Call(node_agent_cri::RuntimeError),
    /// `CSINode` could not be changed.
    #[error("{0}")]
    Count(node_agent_plugins::RegistrationError),
    /// It has to wait for somebody.
    #[error("{0}")]
    Waiting(String),
    /// The node holds as many volumes of the driver as it can.
    #[error("{0}")]
    Full(String),
    /// It cannot be.
    #[error("{0}")]
    Refused(String),
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

/// In the kubelet's words (`operation_generator.go`).
const IN_USE: &str =
    "volume uses the ReadWriteOncePod access mode and is already in use by another pod";

fn failed<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io {
        what,
        path: path.to_owned(),
        source,
    }
}

/// A CSI driver that is registered on this node.
#[derive(Clone, Debug)]
pub struct CsiDriver {
    socket: Socket,
    can: Arc<[Capability]>,
}

/// The path of a published volume, and the steps left to finish it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedVolume {
    /// The volume.
    pub path: PathBuf,
    /// Whether its files are to be given to the pod's group.
    pub gives_files: bool,
    /// Whether the driver wants to publish it again from time to time.
    pub again: bool,
}

/// The CSI drivers registered on this node.
#[derive(Default)]
pub struct CsiDrivers {
    api: Option<Api>,
    node: String,
    root: PathBuf,
    all: Mutex<BTreeMap<String, CsiDriver>>,
    /// By driver and handle: taken while a volume is staged or unstaged.
    turns: KeyedMutex<(String, String)>,
    /// Names of the volumes in use.
    used: DiskList,
    /// Told when a driver makes itself known, or is gone.
    known: Notify,
    /// By driver: when it was last asked because a volume found no room.
    asked: Mutex<BTreeMap<String, Instant>>,
}

impl CsiDrivers {
    /// None yet, on the node of that name, with the agent's folder.
    #[must_use]
    pub fn new(api: Api, node: &str, root: &Path) -> Self {
        Self {
            api: Some(api),
            node: node.to_owned(),
            root: root.to_owned(),
            ..Self::default()
        }
    }

    fn find(&self, name: &str) -> Result<CsiDriver, Error> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(name)
            .cloned()
            .ok_or_else(|| Error::Driver(name.to_owned()))
    }

    fn put(&self, name: &str, driver: Option<CsiDriver>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        match driver {
            Some(driver) => all.insert(name.to_owned(), driver),
            None => all.remove(name),
        };
    }

    fn api(&self) -> Result<&Api, Error> {
        let none = || Error::Waiting("there is no API server to ask".to_owned());
        self.api.as_ref().ok_or_else(none)
    }

    /// Brings a volume to a pod, whose folder is `pod_dir`; does nothing that
    /// was done before. One that is there is published `again` without being
    /// staged.
    ///
    /// # Errors
    /// When it cannot be had now; ask again later.
    pub async fn publish(
        &self,
        pod: &Pod,
        pod_dir: &Path,
        wish: &VolumeRequest,
        group: Option<u32>,
        objects: &dyn ObjectReader,
        again: bool,
    ) -> Result<PublishedVolume, Error> {
        let name = wish.source.driver.as_str();
        let driver = self.find(name)?;
        let spec = self.spec(name).await?;
        if !spec.allows(wish.inline) {
            let kind = if wish.inline {
                "Ephemeral"
            } else {
                "Persistent"
            };
            return Err(Error::Refused(format!(
                "volume mode \"{kind}\" not supported by driver {name} (only supports {:?})",
                spec.volume_lifecycle_modes
            )));
        }
        let handle = if wish.inline {
            plan::inline_handle(pod.uid(), &wish.name)
        } else {
            wish.source.volume_handle.clone()
        };
        let attachment = plan::attachment(&handle, name, &self.node);
        let publish_context = if wish.inline || spec.attach_required == Some(false) {
            BTreeMap::new()
        } else {
            self.attached(name, &spec, &attachment, &handle).await?
        };
        let _turn = self.turns.take((name.to_owned(), handle.clone())).await;
        let capability = plan::capability(wish, &driver.can, group);
        let staged = !wish.inline && driver.can.contains(&Capability::StageUnstageVolume);
        let VolumePaths {
            staging,
            target,
            data: noted,
        } = if wish.block {
            VolumePaths::of_device(&self.root, pod_dir, &wish.name)
        } else {
            VolumePaths::of_files(&self.root, pod_dir, name, &handle, &wish.name)
        };
        if wish.access_modes == ["ReadWriteOncePod"]
            && self.is_published_elsewhere((name, &handle), &target, wish.block)
        {
            // The scheduler sees to that, too, but not for a pod with a nodeName.
            return Err(Error::Refused(IN_USE.to_owned()));
        }
        if staged && !again {
            create_dirs(&staging, DIRECTORY_MODE).map_err(failed("cannot make", &staging))?;
            let data = VolumeData {
                driver_name: name.to_owned(),
                volume_handle: handle.clone(),
                ..VolumeData::default()
            };
            if !wish.block {
                save(staging.parent().unwrap_or(&staging), &data)?;
            }
            let secrets = self
                .secrets(wish.source.node_stage_secret_ref.as_ref())
                .await?;
            let made = driver
                .call::<_, Empty>(
                    "csi.v1.Node/NodeStageVolume",
                    api::NodeStageVolumeRequest {
                        volume_id: handle.clone(),
                        publish_context: publish_context.clone(),
                        staging_target_path: staging.display().to_string(),
                        volume_capability: Some(capability.clone()),
                        secrets,
                        volume_context: wish.source.volume_attributes.clone(),
                    },
                )
                .await;
            self.heed(name, &spec, made).await?;
        }
        let folder = target.parent().unwrap_or(&target);
        // the driver makes the last part
        create_dirs(folder, DIRECTORY_MODE).map_err(failed("cannot make", folder))?;
        let mut secrets = self
            .secrets(wish.source.node_publish_secret_ref.as_ref())
            .await?;
        let mut context = wish.source.volume_attributes.clone();
        if spec.pod_info_on_mount {
            context.extend(plan::pod_info(pod, wish.inline));
        }
        let tokens = tokens(pod, &spec, objects).await?;
        if spec.service_account_token_in_secrets {
            secrets.extend(tokens);
        } else {
            context.extend(tokens);
        }
        let kind = if wish.inline {
            "Ephemeral"
        } else {
            "Persistent"
        };
        let data = VolumeData {
            driver_name: name.to_owned(),
            volume_handle: handle.clone(),
            spec_vol_id: wish.name.clone(),
            node_name: self.node.clone(),
            attachment_id: attachment,
            volume_lifecycle_mode: kind.to_owned(),
        };
        save(&noted, &data)?;
        self.used.changed();
        if wish.block {
            block::link(pod_dir, &wish.name, &target)?;
        }
        let made = driver
            .call::<_, Empty>(
                "csi.v1.Node/NodePublishVolume",
                api::NodePublishVolumeRequest {
                    volume_id: handle,
                    publish_context,
                    staging_target_path: if staged {
                        staging.display().to_string()
                    } else {
                        String::new()
                    },
                    target_path: target.display().to_string(),
                    volume_capability: Some(capability),
                    readonly: wish.read_only,
                    secrets,
                    volume_context: context,
                },
            )
            .await;
        self.heed(name, &spec, made).await?;
        Ok(PublishedVolume {
            gives_files: plan::gives_files(wish, &spec, &driver.can),
            again: spec.requires_republish,
            path: target,
        })
    }

    /// Has a published volume's file system take all of the volume, which is
    /// `bytes` large now; whether the driver does that.
    ///
    /// # Errors
    /// When the driver cannot do it now.
    pub async fn expand(
        &self,
        pod_dir: &Path,
        wish: &VolumeRequest,
        bytes: i64,
    ) -> Result<bool, Error> {
        let (name, handle) = (&wish.source.driver, &wish.source.volume_handle);
        let driver = self.find(name)?;
        if !driver.can.contains(&Capability::ExpandVolume) {
            return Ok(false);
        }
        let _turn = self.turns.take((name.clone(), handle.clone())).await;
        let staging = plan::staging(&self.root, name, handle);
        let secrets = self
            .secrets(wish.source.node_expand_secret_ref.as_ref())
            .await?;
        driver
            .call::<_, Empty>(
                "csi.v1.Node/NodeExpandVolume",
                api::NodeExpandVolumeRequest {
                    volume_id: handle.clone(),
                    volume_path: plan::target(pod_dir, &wish.name).display().to_string(),
                    capacity_range: Some(api::CapacityRange {
                        required_bytes: bytes,
                        limit_bytes: 0,
                    }),
                    staging_target_path: if staging.exists() {
                        staging.display().to_string()
                    } else {
                        String::new()
                    },
                    volume_capability: Some(plan::capability(wish, &driver.can, None)),
                    secrets,
                },
            )
            .await?;
        Ok(true)
    }

    /// Takes back all that drivers made for the pod whose folder this is.
    ///
    /// # Errors
    /// When a driver is not there or refuses; call it again later.
    pub async fn release(&self, pod_dir: &Path) -> Result<(), Error> {
        let _changing = self.used.changing();
        for folder in folders(&plan::volumes(pod_dir)) {
            let target = folder.join("mount");
            let Some(data) = load(&folder) else {
                // without it nobody knows whose the volume is; an empty folder
                // is what a publishing leaves that never began
                if target.exists() {
                    return Err(Error::Refused(format!(
                        "`{}` is missing: unmount the volume beside it by hand",
                        folder.join(DATA).display()
                    )));
                }
                let _ = fs::remove_dir(&folder);
                continue;
            };
            let (name, handle) = (&data.driver_name, &data.volume_handle);
            let driver = self.find(name)?;
            let _turn = self.turns.take((name.clone(), handle.clone())).await;
            driver
                .call::<_, Empty>(
                    "csi.v1.Node/NodeUnpublishVolume",
                    api::NodeUnpublishVolumeRequest {
                        volume_id: handle.clone(),
                        target_path: target.display().to_string(),
                    },
                )
                .await?;
            // only if it is empty and nothing is mounted there: what is in it
            // would be data
            for path in [&target, &folder.join(DATA), &folder] {
                let removed = if path.ends_with(DATA) {
                    fs::remove_file(path)
                } else {
                    fs::remove_dir(path)
                };
                match removed {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(failed("cannot remove", path)(error));
                    }
                    _ => {}
                }
            }
            self.unstage(&driver, name, handle).await?;
        }
        self.release_devices(pod_dir).await
    }

    /// Unstages a volume that no pod uses any more.
    async fn unstage(&self, driver: &CsiDriver, name: &str, handle: &str) -> Result<(), Error> {
        let staging = plan::staging(&self.root, name, handle);
        if !staging.exists() || self.uses(name, handle) > 0 {
            return Ok(());
        }
        driver
            .call::<_, Empty>(
                "csi.v1.Node/NodeUnstageVolume",
                api::NodeUnstageVolumeRequest {
                    volume_id: handle.to_owned(),
                    staging_target_path: staging.display().to_string(),
                },
            )
            .await?;
        let folder = staging.parent().unwrap_or(&staging);
        match fs::remove_dir(&staging) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("cannot remove", &staging)(error));
            }
            _ => {}
        }
        let _ = fs::remove_file(folder.join(DATA));
        let _ = fs::remove_dir(folder);
        Ok(())
    }

    /// How many pods have the volume in their folders.
    fn uses(&self, driver: &str, handle: &str) -> usize {
        self.published()
            .filter(|data| data.driver_name == driver && data.volume_handle == handle)
            .count()
    }

    /// Whether a volume is published at another place than this.
    fn is_published_elsewhere(
        &self,
        (driver, handle): (&str, &str),
        target: &Path,
        block: bool,
    ) -> bool {
        if block {
            return block::is_published_beside(target);
        }
        let pods = folders(&self.root.join("pods")).into_iter();
        let volumes = pods.flat_map(|pod| folders(&plan::volumes(&pod)));
        let mut others = volumes.filter(|folder| target.parent() != Some(folder.as_path()));
        others.any(|folder| {
            load(&folder)
                .is_some_and(|data| data.driver_name == driver && data.volume_handle == handle)
        })
    }

    /// All volumes that are published on this node.
    fn published(&self) -> impl Iterator<Item = VolumeData> + use<> {
        folders(&self.root.join("pods"))
            .into_iter()
            .flat_map(|pod| folders(&plan::volumes(&pod)))
            .filter_map(|folder| load(&folder))
            .chain(block::published(&self.root))
    }

    /// Names of the volumes in use, as `status.volumesInUse` has them: they are
    /// not detached from the node while they are listed.
    #[must_use]
    pub fn in_use(&self) -> Vec<String> {
        self.used.get(|| {
            let found = self.published();
            let mut names: Vec<String> = found
                .filter(|data| data.volume_lifecycle_mode != "Ephemeral")
                .map(|data| {
                    format!(
                        "kubernetes.io/csi/{}^{}",
                        data.driver_name, data.volume_handle
                    )
                })
                .collect();
            names.sort();
            names.dedup();
            names
        })
    }

    async fn spec(&self, name: &str) -> Result<DriverSpec, Error> {
        match self
            .api()?
            .get::<DriverObject>(&CSI_DRIVERS, "", name)
            .await
        {
            Ok(object) => Ok(object.spec),
            Err(error) if error.is_not_found() => Ok(DriverSpec::default()),
            Err(error) => Err(Error::Waiting(format!(
                "cannot read CSIDriver {name}: {}",
                error.chain()
            ))),
        }
    }

    /// What the attaching of a volume found out; waits for nothing. A driver that says
    /// that the node is full is asked how many volumes it can hold now, if it wants to be
    /// asked at all.
    async fn attached(
        &self,
        driver: &str,
        spec: &DriverSpec,
        name: &str,
        handle: &str,
    ) -> Result<BTreeMap<String, String>, Error> {
        #[derive(Deserialize)]
        struct Attachment {
            #[serde(default)]
            status: Status,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Status {
            attached: bool,
            attachment_metadata: BTreeMap<String, String>,
            attach_error: Option<AttachError>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct AttachError {
            message: String,
            error_code: Option<i32>,
        }
        let found = self.api()?.get::<Attachment>(&ATTACHMENTS, "", name).await;
        let status = found
            .map_err(|e| {
                Error::Waiting(format!(
                    "volume {handle} is not attached yet: {}",
                    e.chain()
                ))
            })?
            .status;
        if status.attached {
            return Ok(status.attachment_metadata);
        }
        let full = status.attach_error.as_ref().and_then(|e| e.error_code)
            == Some(tonic::Code::ResourceExhausted as i32);
        let why = status.attach_error.map(|e| format!(": {}", e.message));
        let said = format!(
            "volume {handle} has GET error for volume attachment {name}: not attached yet{}",
            why.unwrap_or_default()
        );
        if full && self.found_full(driver, spec).await {
            return Err(Error::Full(said));
        }
        Err(Error::Waiting(said))
    }

    async fn secrets(
        &self,
        reference: Option<&SecretReference>,
    ) -> Result<BTreeMap<String, String>, Error> {
        let Some(SecretReference { namespace, name }) = reference else {
            return Ok(BTreeMap::new());
        };
        let secret = self
            .api()?
            .get::<Secret>(&resources::SECRETS, namespace, name)
            .await
            .map_err(|e| {
                Error::Waiting(format!(
                    "cannot read secret {namespace}/{name}: {}",
                    e.chain()
                ))
            })?;
        let data = node_agent_objects::source::ObjectData::from(secret);
        Ok(data
            .entries
            .into_iter()
            .map(|(key, value)| (key, String::from_utf8_lossy(&value).into_owned()))
            .collect())
    }
}

impl CsiDriver {
    async fn call<Q, A>(&self, method: &'static str, request: Q) -> Result<A, Error>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        self.socket
            .unary(method, request, Some(PATIENCE))
            .await
            .map_err(Error::Call)
    }
}

/// The tokens of the pod's account that a driver wants.
async fn tokens(
    pod: &Pod,
    spec: &DriverSpec,
    objects: &dyn ObjectReader,
) -> Result<BTreeMap<String, String>, Error> {
    if spec.token_requests.is_empty() {
        return Ok(BTreeMap::new());
    }
    let account = match pod.spec.service_account_name.as_str() {
        "" => "default",
        name => name,
    };
    let mut all = serde_json::Map::new();
    for wanted in &spec.token_requests {
        let token = objects
            .token(TokenSpec {
                namespace: pod.namespace(),
                account,
                pod: (pod.name(), pod.uid()),
                audience: &wanted.audience,
                seconds: wanted.expiration_seconds.unwrap_or(3600),
            })
            .await
            .map_err(|e| Error::Waiting(format!("failed to fetch token: {e}")))?;
        let expires = node_agent_objects::times::rfc3339(token.expires);
        let value = json!({"token": token.token, "expirationTimestamp": expires});
        all.insert(wanted.audience.clone(), value);
    }
    let text = serde_json::Value::Object(all).to_string();
    let key = "csi.storage.k8s.io/serviceAccount.tokens".to_owned();
    Ok(BTreeMap::from([(key, text)]))
}

/// The folders in a folder.
fn folders(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Longest note of a volume that is read.
const DATA_MOST: u64 = 1 << 20;

fn load(folder: &Path) -> Option<VolumeData> {
    let text = read_to_string(&folder.join(DATA), DATA_MOST).ok()?;
    let data: VolumeData = serde_json::from_str(&text).ok()?;
    (!data.driver_name.is_empty() && !data.volume_handle.is_empty()).then_some(data)
}

/// Writes what is needed to take a volume back: as a whole or not at all, and
/// before there is a volume.
fn save(folder: &Path, data: &VolumeData) -> Result<(), Error> {
    let path = folder.join(DATA);
    let text = serde_json::to_string(data).unwrap_or_default();
    node_agent_files::atomic_file::write(&path, &text).map_err(failed("cannot write", &path))
}

#[cfg(test)]
mod tests;
