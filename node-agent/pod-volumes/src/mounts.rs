//! What the runtime mounts into containers, and the devices that it gives them,
//! for the sake of the pod's volumes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use node_agent_cri::api;
use node_agent_cri::api::MountPropagation;
use node_agent_files::{atomic_file, create_dirs};
use node_agent_objects::argument_expansion::{Variable, expand_strictly};
use node_agent_objects::pod::{Container, Pod};
use node_agent_objects::volume::{Volume, VolumeSource};

use super::{Error, PodVolumes, io_error, make, subpath};

impl PodVolumes {
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
                    .map_err(|error| refused(error.to_string()))?
            };
            let container_path = if wanted.mount_path.starts_with('/') {
                wanted.mount_path.clone()
            } else {
                format!("/{}", wanted.mount_path)
            };
            if let VolumeSource::Image(image) = &volume.source {
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
            } else if matches!(&volume.source, VolumeSource::HostPath(h) if h.r#type.as_deref().unwrap_or("").is_empty())
                && !host_path.exists()
            {
                // what container runtimes do not make themselves
                create_dirs(&host_path, 0o755).map_err(io_error("cannot make", &host_path))?;
            }
            let readonly = wanted.read_only
                || self.bound.get(&volume.name).is_some_and(|b| b.read_only)
                || matches!(&volume.source, VolumeSource::Csi(csi) if csi.read_only)
                || matches!(
                    volume.source,
                    VolumeSource::ConfigMap(_)
                        | VolumeSource::Secret(_)
                        | VolumeSource::Projected(_)
                        | VolumeSource::DownwardApi(_)
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
        let path = self.hosts_path();
        make(&self.pod_dir)?;
        // the same file for all containers, and those that run have it mounted: any of them
        // may have made it as long as a file can be
        if !node_agent_files::has_content(&path, content.as_bytes()) {
            atomic_file::overwrite(&path, content).map_err(io_error("cannot write", &path))?;
            // containers of any user read it
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
                .map_err(io_error("cannot open", &path))?;
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
            make(parent)?;
            // of containers that are not shown any more
            for old in (0..restarts.saturating_sub(1)).rev() {
                if fs::remove_file(parent.join(old.to_string())).is_err() {
                    break;
                }
            }
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
        self.termination_dir(container).join(restarts.to_string())
    }

    /// Where the last words of a container and of those before it are.
    #[must_use]
    pub fn termination_dir(&self, container: &str) -> PathBuf {
        self.pod_dir.join("containers").join(container)
    }

    /// The pod's `hosts` file, which its containers may write.
    #[must_use]
    pub fn hosts_path(&self) -> PathBuf {
        self.pod_dir.join("etc-hosts")
    }
}
