//! Static pods: manifests in a folder of the node that run whatever the API
//! says, and their images in the API (mirror pods).
//!
//! ```text
//! folder ──parse──▶ pods ──▶ a worker each, as for any pod
//!                    └─plan─▶ mirror pods: made, and deleted when outdated
//! ```
//!
//! Names, annotations and the identity are the kubelet's; manifests get the
//! API's defaults that the agent reads, since no API server has seen them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use node_agent_files::read_to_string;
use node_agent_objects::error_chain;
use node_agent_objects::pod::Pod;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

/// How often the folder is looked at for files that changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Annotation of a static pod: where it comes from.
const SOURCE: &str = "kubernetes.io/config.source";
/// Annotation of a static pod and its mirror: identity of the manifest.
const HASH: &str = "kubernetes.io/config.hash";
/// Annotation of a mirror pod: the hash of what it mirrors.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod read from a manifest file.
#[derive(Clone, Debug)]
pub struct StaticPod {
    /// The pod as the agent runs it.
    pub pod: Arc<Pod>,
    /// The same as the API shall have it, but for its owner.
    pub mirror: Value,
}

/// All static pods by uid.
pub type StaticPods = BTreeMap<String, StaticPod>;

/// Why a manifest is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is no pod.
    #[error("`{}` is no manifest of a pod: {message}", path.display())]
    Form {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

/// Reads a manifest.
///
/// # Errors
/// When it is no pod, or one that needs the API.
pub fn parse(text: &str, path: &Path, node: &str) -> Result<StaticPod, Error> {
    let wrong = |message: String| Error::Form {
        path: path.to_owned(),
        message,
    };
    let mut value: Value = serde_saphyr::from_str(text).map_err(|e| wrong(e.to_string()))?;
    if value["kind"] != "Pod" || value["apiVersion"] != "v1" {
        return Err(wrong("apiVersion must be `v1` and kind `Pod`".to_owned()));
    }
    let hash = identity(node, path, text);
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(wrong("metadata.name is missing".to_owned()));
    }
    let name = format!("{name}-{}", node.to_lowercase());
    let namespace = match value["metadata"]["namespace"].as_str() {
        None | Some("") => "default".to_owned(),
        Some(namespace) => namespace.to_owned(),
    };
    let mut metadata = value["metadata"].as_object().cloned().unwrap_or_default();
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("namespace".to_owned(), namespace.into());
    metadata.remove("uid");
    metadata.remove("generateName");
    let mut annotations = metadata
        .get("annotations")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    annotations.insert(SOURCE.to_owned(), "file".into());
    annotations.insert(HASH.to_owned(), hash.clone().into());
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    value["metadata"] = Value::Object(metadata);
    let Some(spec) = value["spec"].as_object_mut() else {
        return Err(wrong("spec is missing".to_owned()));
    };
    default(spec, node);
    if let Some(what) = needs_api(spec) {
        return Err(wrong(format!(
            "a static pod cannot use {what}: it is there before the API is"
        )));
    }
    let mut mirror = value.clone();
    mirror["metadata"]["annotations"][MIRROR] = hash.clone().into();
    value["metadata"]["uid"] = hash.into();
    let pod: Pod = serde_json::from_value(value).map_err(|e| wrong(e.to_string()))?;
    if pod.spec.containers.is_empty() {
        return Err(wrong("spec.containers is empty".to_owned()));
    }
    Ok(StaticPod {
        pod: Arc::new(pod),
        mirror,
    })
}

/// 128 bits of FNV-1a over node, file and content, in hexadecimal: the same
/// manifest at the same place keeps its identity over restarts.
fn identity(node: &str, path: &Path, text: &str) -> String {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let place = path.to_string_lossy();
    let parts = [node.as_bytes(), place.as_bytes(), text.as_bytes()];
    for byte in parts.into_iter().flat_map(|part| part.iter().chain(&[0])) {
        hash = (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    format!("{hash:032x}")
}

/// The defaults of the API that the agent reads.
fn default(spec: &mut Map<String, Value>, node: &str) {
    let mut set = |key: &str, value: Value| {
        spec.entry(key).or_insert(value);
    };
    set("restartPolicy", "Always".into());
    set("dnsPolicy", "ClusterFirst".into());
    set("terminationGracePeriodSeconds", 30.into());
    set("enableServiceLinks", true.into());
    spec.insert("nodeName".to_owned(), node.into());
    let everything = json!({"operator": "Exists", "effect": "NoExecute"});
    match spec.get_mut("tolerations").and_then(Value::as_array_mut) {
        Some(list) if !list.contains(&everything) => list.push(everything),
        Some(_) => {}
        None => {
            spec.insert("tolerations".to_owned(), json!([everything]));
        }
    }
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                default_container(container);
            }
        }
    }
}

fn default_container(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or("");
    let tag = image.rsplit('/').next().unwrap_or(image);
    let latest = !image.contains('@') && (!tag.contains(':') || tag.ends_with(":latest"));
    let policy = if latest { "Always" } else { "IfNotPresent" };
    let mut set = |key: &str, value: &str| {
        container.entry(key).or_insert_with(|| value.into());
    };
    set("imagePullPolicy", policy);
    set("terminationMessagePath", "/dev/termination-log");
    set("terminationMessagePolicy", "File");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) {
            for (key, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                probe.entry(key).or_insert_with(|| value.into());
            }
        }
    }
    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.entry("protocol").or_insert_with(|| "TCP".into());
        }
    }
}

/// What of a specification needs the API.
fn needs_api(spec: &Map<String, Value>) -> Option<&'static str> {
    let account = spec.get("serviceAccountName").and_then(Value::as_str);
    if account.is_some_and(|name| !name.is_empty()) {
        return Some("a service account");
    }
    if spec.get("resourceClaims").is_some() {
        return Some("claims of devices");
    }
    let volumes = spec.get("volumes").and_then(Value::as_array);
    for volume in volumes.into_iter().flatten() {
        for (key, what) in [
            ("configMap", "config maps"),
            ("secret", "secrets"),
            ("projected", "projected volumes"),
            ("persistentVolumeClaim", "persistent volume claims"),
        ] {
            if volume.get(key).is_some() {
                return Some(what);
            }
        }
    }
    None
}

/// The next step for a mirror pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorStep {
    /// It is made, for the static pod with this uid.
    Create(String),
    /// It is deleted at once: namespace, name and uid.
    Delete(String, String, String),
}

/// Brings mirror pods to what static pods there are; `mirrors` are those that
/// the API has.
#[must_use]
pub fn plan(statics: &StaticPods, mirrors: &[Arc<Pod>]) -> Vec<MirrorStep> {
    let mut steps = Vec::new();
    let fits = |mirror: &Pod, one: &StaticPod| {
        mirror.name() == one.pod.name()
            && mirror.namespace() == one.pod.namespace()
            && mirror.metadata.annotations.get(MIRROR) == Some(one.pod.uid())
            && !mirror.is_deleting()
    };
    for mirror in mirrors {
        if !statics.values().any(|one| fits(mirror, one)) {
            steps.push(MirrorStep::Delete(
                mirror.namespace().to_owned(),
                mirror.name().to_owned(),
                mirror.uid().to_owned(),
            ));
        }
    }
    for (uid, one) in statics {
        if !mirrors.iter().any(|mirror| fits(mirror, one)) {
            steps.push(MirrorStep::Create(uid.clone()));
        }
    }
    steps
}

/// Reads the folder. What is no pod is told and left out.
#[must_use]
pub fn read(folder: &Path, node: &str) -> StaticPods {
    fingerprints(folder)
        .keys()
        .filter_map(|path| load(path, node))
        .map(|one| (one.pod.uid().to_owned(), one))
        .collect()
}

/// Reads the folder again and again, into `out`.
pub async fn watch(
    folder: PathBuf,
    node: String,
    every: Duration,
    out: &watch::Sender<StaticPods>,
) {
    let mut prints = None;
    let mut looked = std::time::Instant::now();
    loop {
        let now = fingerprints(&folder);
        if prints.as_ref() != Some(&now) || looked.elapsed() >= every {
            looked = std::time::Instant::now();
            let found = read(&folder, &node);
            prints = Some(now);
            out.send_if_modified(|old| {
                let changed = !old.keys().eq(found.keys());
                if changed {
                    *old = found;
                }
                changed
            });
        }
        tokio::time::sleep(LOOK_EVERY).await;
        if out.is_closed() {
            return;
        }
    }
}

fn fingerprints(folder: &Path) -> BTreeMap<PathBuf, (u64, Option<std::time::SystemTime>)> {
    // a single file may be given as well
    if folder.is_file() {
        let meta = fs::metadata(folder).ok();
        let print = meta.map_or((0, None), |m| (m.len(), m.modified().ok()));
        return [(folder.to_owned(), print)].into();
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter(|e| !e.file_name().to_string_lossy().starts_with('.'))
        .filter_map(|e| {
            let meta = fs::metadata(e.path()).ok()?;
            meta.is_file()
                .then(|| (e.path(), (meta.len(), meta.modified().ok())))
        })
        .collect()
}

/// Longest manifest that is read, as the kubelet limits it.
const MANIFEST_MOST: u64 = 10 << 20;

fn load(path: &Path, node: &str) -> Option<StaticPod> {
    let read = read_to_string(path, MANIFEST_MOST)
        .map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })
        .and_then(|text| parse(&text, path, node));
    match read {
        Ok(one) => Some(one),
        Err(error) => {
            let error = error_chain(&error);
            tracing::warn!(path = %path.display(), error, "static pod is invalid");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd, namespace: kube-system}\n\
        spec:\n  containers:\n  - {name: a, image: 'r:5000/etcd', livenessProbe: {exec: {command: [x]}}}\n";

    fn one(text: &str) -> StaticPod {
        parse(text, Path::new("/m/etcd.yaml"), "Node-1").unwrap()
    }

    #[test]
    fn a_manifest_becomes_a_pod_with_the_apis_defaults() {
        let made = one(TEXT);
        assert_eq!(made.pod.name(), "etcd-node-1");
        assert_eq!(made.pod.spec.node_name, "Node-1");
        assert!(made.pod.is_static() && !made.pod.is_mirror());
        let container = &made.pod.spec.containers[0];
        assert_eq!(container.image_pull_policy, "Always");
        assert_eq!(container.termination_message_path, "/dev/termination-log");
        assert_eq!(
            container.liveness_probe.as_ref().unwrap().failure_threshold,
            3
        );
        let mirror: Pod = serde_json::from_value(made.mirror.clone()).unwrap();
        assert!(mirror.is_mirror());
        assert_eq!(made.pod.uid(), one(TEXT).pod.uid(), "the same each time");
        assert_ne!(
            made.pod.uid(),
            one(&TEXT.replace("etcd:", "x:").replace("5000", "6000"))
                .pod
                .uid()
        );
    }

    #[test]
    fn what_is_no_pod_or_needs_the_api_is_refused() {
        let refused = |text: &str| parse(text, Path::new("/m/x"), "n").unwrap_err().to_string();
        assert!(refused("kind: Service\napiVersion: v1\n").contains("kind `Pod`"));
        assert!(refused(&TEXT.replace("name: etcd, ", "")).contains("metadata.name"));
        let with = |extra: &str| format!("{TEXT}  {extra}\n");
        assert!(
            refused(&with("volumes: [{name: v, secret: {secretName: s}}]")).contains("secrets")
        );
        assert!(refused(&with("serviceAccountName: x")).contains("service account"));
        assert!(refused("{").contains("/m/x"));
    }

    #[test]
    fn mirrors_follow_their_manifests() {
        let made = one(TEXT);
        let statics: StaticPods = [(made.pod.uid().to_owned(), made.clone())].into();
        let mut value = made.mirror;
        value["metadata"]["uid"] = "m".into();
        let mirror: Arc<Pod> = Arc::new(serde_json::from_value(value.clone()).unwrap());
        let create = || MirrorStep::Create(made.pod.uid().to_owned());
        let delete = || MirrorStep::Delete("kube-system".into(), "etcd-node-1".into(), "m".into());
        assert_eq!(plan(&statics, &[]), [create()]);
        assert_eq!(plan(&statics, std::slice::from_ref(&mirror)), []);
        assert_eq!(plan(&StaticPods::new(), &[mirror]), [delete()]);
        value["metadata"]["annotations"][MIRROR] = "old".into();
        let old = Arc::new(serde_json::from_value(value).unwrap());
        assert_eq!(plan(&statics, &[old]), [delete(), create()]);
    }
}
