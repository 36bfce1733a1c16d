//! The variables of a container.

use std::collections::BTreeMap;
use std::sync::Arc;

use control_client::Object;
use node_agent_informers::Service;
use node_agent_objects::argument_expansion::{ArgumentBudget, ArgumentsTooLong, Variable, expand};
use node_agent_objects::fields;
use node_agent_objects::fields::PodFacts;
use node_agent_objects::pod::{Container, EnvVar, FileKeyRef, Pod};
use node_agent_objects::source::{DataError, DataKind, ObjectData, ObjectReader};
use node_agent_pod_volumes::PodVolumes;
use rustc_hash::FxHashMap;

use super::env_file::{self, EnvFile};

/// Why a container's environment cannot be built.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// An object that a variable needs.
    #[error(transparent)]
    Data(DataError),
    /// An object lacks the key.
    #[error("couldn't find key {key} in {} {namespace}/{name}", .kind.kind())]
    Key {
        /// Which kind of object.
        kind: DataKind,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// A value is no text.
    #[error("value of `{variable}` is not valid UTF-8")]
    Text {
        /// The variable.
        variable: String,
    },
    /// A file of variables is in no volume of the pod's own.
    #[error("cannot find the volume {0:?} referenced by FileKeyRef")]
    Volume(String),
    /// A file of variables is not there, or is none.
    #[error("couldn't parse env file: {0}")]
    File(Arc<env_file::Error>),
    /// A file lacks the variable, or has it without a value.
    #[error("environment variable key {key:?} not found in file {path:?}")]
    FileKey {
        /// Its name there.
        key: String,
        /// The file.
        path: std::path::PathBuf,
    },
    /// A reference to a field that does not exist.
    #[error("unsupported fieldPath: {0}")]
    Field(String),
    /// A reference to a resource that does not exist.
    #[error("unsupported container resource: {0}")]
    Resource(String),
    /// More than any program can be started with.
    #[error("variable `{variable}`")]
    TooLong {
        /// The variable that is too much.
        variable: String,
        /// What is too long.
        source: ArgumentsTooLong,
    },
    /// A source that this agent does not know.
    #[error("variable `{0}` has a source that this node does not support")]
    Source(String),
}

/// The objects that environment variables refer to.
#[derive(Clone, Copy)]
pub struct VariableSources<'a> {
    /// The container's pod.
    pub pod: &'a Pod,
    /// What only the node knows of it.
    pub facts: &'a PodFacts,
    /// The API.
    pub objects: &'a dyn ObjectReader,
    /// The pod's volumes, which are there.
    pub volumes: &'a PodVolumes,
}

impl std::fmt::Debug for VariableSources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("pod", &self.pod.name())
            .finish_non_exhaustive()
    }
}

/// All variables of `container`.
///
/// # Errors
/// When an object is missing that is not optional, or a reference is wrong.
pub async fn variables(
    sources: VariableSources<'_>,
    container: &Container,
) -> Result<Vec<Variable>, Error> {
    let VariableSources { pod, objects, .. } = sources;
    let mut known = Variables::default();
    let mut files = EnvFileCache::default();
    let services = service_variables(
        &objects.services(pod.namespace()),
        pod.namespace(),
        pod.spec.enable_service_links.unwrap_or(true),
    );

    for from in &container.env_from {
        let (kind, reference) = match (&from.config_map_ref, &from.secret_ref) {
            (Some(reference), _) => (DataKind::ConfigMap, reference),
            (None, Some(reference)) => (DataKind::Secret, reference),
            (None, None) => continue,
        };
        let optional = reference.optional.unwrap_or(false);
        let Some(data) = fetch(pod, objects, kind, &reference.name, optional).await? else {
            continue;
        };
        for (key, value) in &data.entries {
            let name = format!("{}{key}", from.prefix);
            if !is_name(&name) {
                continue;
            }
            let value = String::from_utf8(value.clone()).map_err(|_| Error::Text {
                variable: name.clone(),
            })?;
            known.set(name, value)?;
        }
    }
    for variable in &container.env {
        let found = match file_of(variable) {
            Some(reference) => files.value(sources, variable, reference).await?,
            None => value(sources, container, variable, &known, &services).await?,
        };
        if let Some(value) = found {
            known.set(variable.name.clone(), value)?;
        }
    }
    for (name, value) in services {
        if known.get(&name).is_none() {
            known.set(name, value)?;
        }
    }
    Ok(known.all.into_iter().flatten().collect())
}

/// The variables so far; a later value replaces an earlier one in its place.
#[derive(Default)]
struct Variables {
    all: Vec<Option<Variable>>,
    /// By name: where it is.
    places: FxHashMap<String, usize>,
    room: ArgumentBudget,
}

impl Variables {
    fn get(&self, name: &str) -> Option<&str> {
        let place = *self.places.get(name)?;
        let (_, value) = self.all.get(place)?.as_ref()?;
        Some(value)
    }

    fn set(&mut self, name: String, value: String) -> Result<(), Error> {
        let taken = self.room.take(name.len() + value.len());
        taken.map_err(|source| Error::TooLong {
            variable: name.clone(),
            source,
        })?;
        let before = self.places.insert(name.clone(), self.all.len());
        if let Some(before) = before.and_then(|place| self.all.get_mut(place)) {
            *before = None;
        }
        self.all.push(Some((name, value)));
        Ok(())
    }
}

/// The env files of a container, each read once however many variables refer to it.
#[derive(Default)]
struct EnvFileCache {
    read: FxHashMap<(String, String), Result<Arc<EnvFile>, Arc<env_file::Error>>>,
}

impl EnvFileCache {
    /// The value that a file has for `variable`. A key without a value is no key,
    /// and a file that cannot be read fails even what is optional: as the kubelet
    /// of 1.36 takes both.
    async fn value(
        &mut self,
        sources: VariableSources<'_>,
        variable: &EnvVar,
        reference: &FileKeyRef,
    ) -> Result<Option<String>, Error> {
        let VariableSources { pod, volumes, .. } = sources;
        let name = &reference.volume_name;
        let own = volumes.of_its_own(pod, name);
        let root = own.ok_or_else(|| Error::Volume(name.clone()))?;
        let place = (name.clone(), reference.path.clone());
        let file = match self.read.get(&place) {
            Some(read) => read.clone(),
            None => {
                let read = env_file::read(&root, &reference.path).await;
                let read = read.map(Arc::new).map_err(Arc::new);
                self.read.insert(place, read.clone());
                read
            }
        };
        let found = file.and_then(|file| file.value(&reference.key).map(<[u8]>::to_vec));
        match found.map_err(Error::File)? {
            value if !value.is_empty() => {
                String::from_utf8(value).map(Some).map_err(|_| Error::Text {
                    variable: variable.name.clone(),
                })
            }
            _ if reference.optional == Some(true) => Ok(None),
            _ => Err(Error::FileKey {
                key: reference.key.clone(),
                path: root.join(&reference.path),
            }),
        }
    }
}

fn file_of(variable: &EnvVar) -> Option<&FileKeyRef> {
    variable.value_from.as_ref()?.file_key_ref.as_ref()
}

async fn value(
    sources: VariableSources<'_>,
    container: &Container,
    variable: &EnvVar,
    known: &Variables,
    services: &BTreeMap<String, String>,
) -> Result<Option<String>, Error> {
    let VariableSources {
        pod,
        facts,
        objects,
        ..
    } = sources;
    let Some(from) = &variable.value_from else {
        let known = |name: &str| known.get(name);
        let value = expand(&variable.value, |name| {
            known(name).or_else(|| services.get(name).map(String::as_str))
        });
        return value.map(Some).map_err(|source| Error::TooLong {
            variable: variable.name.clone(),
            source,
        });
    };
    if let Some(reference) = &from.field_ref {
        return fields::field(pod, facts, &reference.field_path)
            .map(Some)
            .ok_or_else(|| Error::Field(reference.field_path.clone()));
    }
    if let Some(reference) = &from.resource_field_ref {
        let of = if reference.container_name.is_empty() {
            Some(container)
        } else {
            pod.spec.container(&reference.container_name)
        };
        return of
            .and_then(|c| fields::resource(c, facts, reference))
            .map(Some)
            .ok_or_else(|| Error::Resource(reference.resource.clone()));
    }
    let (kind, reference) = match (&from.config_map_key_ref, &from.secret_key_ref) {
        (Some(reference), _) => (DataKind::ConfigMap, reference),
        (None, Some(reference)) => (DataKind::Secret, reference),
        (None, None) => return Err(Error::Source(variable.name.clone())),
    };
    let optional = reference.optional.unwrap_or(false);
    let Some(data) = fetch(pod, objects, kind, &reference.name, optional).await? else {
        return Ok(None);
    };
    match data.entries.get(&reference.key) {
        Some(value) => String::from_utf8(value.clone())
            .map(Some)
            .map_err(|_| Error::Text {
                variable: variable.name.clone(),
            }),
        None if optional => Ok(None),
        None => Err(Error::Key {
            kind,
            namespace: pod.namespace().to_owned(),
            name: reference.name.clone(),
            key: reference.key.clone(),
        }),
    }
}

async fn fetch(
    pod: &Pod,
    objects: &dyn ObjectReader,
    kind: DataKind,
    name: &str,
    optional: bool,
) -> Result<Option<Arc<ObjectData>>, Error> {
    match objects.data(kind, pod.namespace(), name).await {
        Ok(data) => Ok(Some(data)),
        Err(DataError::NotFound { .. }) if optional => Ok(None),
        Err(error) => Err(Error::Data(error)),
    }
}

/// Whether text can be a variable's name: printable ASCII without `=`.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| (' '..='~').contains(&c) && c != '=')
}

/// The variables that tell a pod of services, in two notations: that of
/// Kubernetes and that of linked containers.
#[must_use]
pub fn service_variables(
    services: &[Arc<Service>],
    namespace: &str,
    links: bool,
) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for service in services {
        let Some(ip) = service.cluster_ip() else {
            continue;
        };
        let is_master = service.namespace() == "default" && service.name() == "kubernetes";
        let linked = links && service.namespace() == namespace;
        if !is_master && !linked {
            continue;
        }
        let Some(first) = service.ports().first() else {
            continue;
        };
        let name = service.name().to_uppercase().replace('-', "_");
        // a service of the pod's own namespace goes before the cluster's
        let mut put = |key: String, value: String| {
            if linked || !variables.contains_key(&key) {
                variables.insert(key, value);
            }
        };
        put(format!("{name}_SERVICE_HOST"), ip.to_owned());
        put(format!("{name}_SERVICE_PORT"), first.port.to_string());
        for port in service.ports() {
            if !port.name.is_empty() {
                let port_name = port.name.to_uppercase().replace('-', "_");
                put(
                    format!("{name}_SERVICE_PORT_{port_name}"),
                    port.port.to_string(),
                );
            }
        }
        let host = if ip.contains(':') {
            format!("[{ip}]")
        } else {
            ip.to_owned()
        };
        for (index, port) in service.ports().iter().enumerate() {
            let protocol = port.protocol.to_string();
            let lower = protocol.to_lowercase();
            let url = format!("{lower}://{host}:{}", port.port);
            if index == 0 {
                put(format!("{name}_PORT"), url.clone());
            }
            let prefix = format!("{name}_PORT_{}_{protocol}", port.port);
            put(prefix.clone(), url);
            put(format!("{prefix}_PROTO"), lower);
            put(format!("{prefix}_PORT"), port.port.to_string());
            put(format!("{prefix}_ADDR"), ip.to_owned());
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_objects::fake::FakeObjects;

    async fn environment(objects: &FakeObjects, container: &str) -> Result<Vec<Variable>, Error> {
        let pod: Pod = serde_json::from_str(&format!(
            r#"{{"metadata":{{"name":"web","namespace":"default"}},"spec":{{"containers":[{container}]}}}}"#
        ))
        .unwrap();
        let facts = PodFacts {
            pod_ips: vec!["10.0.0.1".into()],
            ..PodFacts::default()
        };
        let root = tempfile::tempdir().unwrap();
        let sources = VariableSources {
            pod: &pod,
            facts: &facts,
            objects,
            volumes: &PodVolumes::new(root.path(), "u"),
        };
        variables(sources, &pod.spec.containers[0]).await
    }

    /// A pod with the volumes `config`, which is its own, and `host`.
    struct WithFile {
        root: tempfile::TempDir,
        pod: Pod,
    }

    impl WithFile {
        fn new(content: &[u8], env: &str) -> Self {
            let pod: Pod = serde_json::from_str(&format!(
                r#"{{"metadata":{{"name":"web","namespace":"default","uid":"u"}},"spec":{{
                    "volumes":[{{"name":"config","emptyDir":{{}}}},{{"name":"host","hostPath":{{"path":"/"}}}}],
                    "containers":[{{"name":"c","env":[{env}]}}]}}}}"#
            ))
            .unwrap();
            let root = tempfile::tempdir().unwrap();
            let made = Self { root, pod };
            std::fs::create_dir_all(made.volume()).unwrap();
            std::fs::write(made.volume().join("config.env"), content).unwrap();
            made
        }

        fn volume(&self) -> std::path::PathBuf {
            let volumes = PodVolumes::new(self.root.path(), "u");
            volumes.path(&self.pod.spec.volumes[0]).unwrap()
        }

        async fn variables(&self) -> Result<Vec<Variable>, String> {
            let sources = VariableSources {
                pod: &self.pod,
                facts: &PodFacts::default(),
                objects: &FakeObjects::default(),
                volumes: &PodVolumes::new(self.root.path(), "u"),
            };
            let made = variables(sources, &self.pod.spec.containers[0]).await;
            made.map_err(|error| error.to_string())
        }
    }

    fn of_file(name: &str, volume: &str, path: &str, key: &str, optional: bool) -> String {
        format!(
            r#"{{"name":"{name}","valueFrom":{{"fileKeyRef":{{"volumeName":"{volume}","path":"{path}","key":"{key}","optional":{optional}}}}}}}"#
        )
    }

    #[tokio::test]
    async fn variables_come_from_files_that_containers_wrote() {
        let env = [
            of_file("A", "config", "config.env", "FIRST", false),
            of_file("B", "config", "./config.env", "SECOND", false),
            of_file("C", "config", "config.env", "THIRD", true),
            r#"{"name":"D","value":"$(A)+$(B)"}"#.to_owned(),
        ];
        let found = WithFile::new(b"FIRST='1'\nSECOND='zwei # $(A)'\n", &env.join(","))
            .variables()
            .await
            .unwrap();
        let expected = [("A", "1"), ("B", "zwei # $(A)"), ("D", "1+zwei # $(A)")];
        let found: Vec<_> = found.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn files_that_lack_a_variable_say_so() {
        let wrong = |volume: &'static str, path: &'static str, key: &'static str, optional| async move {
            let content: &[u8] = b"A='1'\nEMPTY=''\nRAW='\xff'\nwhat is this";
            let with = WithFile::new(content, &of_file("X", volume, path, key, optional));
            let root = with.volume().display().to_string();
            with.variables()
                .await
                .map_err(|e| e.replace(&root, "VOLUME"))
        };
        let refused = [
            (
                ("config", "config.env", "EMPTY", false),
                r#"environment variable key "EMPTY" not found in file "VOLUME/config.env""#,
            ),
            (
                ("config", "config.env", "RAW", false),
                "value of `X` is not valid UTF-8",
            ),
            (
                ("config", "config.env", "LATER", true),
                "couldn't parse env file: line 4: no `=`",
            ),
            (
                ("config", "none.env", "A", true),
                "couldn't parse env file: cannot open it: No such file or directory (os error 2)",
            ),
            (
                ("config", "", "A", false),
                "couldn't parse env file: no regular file",
            ),
            (
                ("gone", "config.env", "A", true),
                r#"cannot find the volume "gone" referenced by FileKeyRef"#,
            ),
            (
                ("host", "etc/passwd", "root", false),
                r#"cannot find the volume "host" referenced by FileKeyRef"#,
            ),
        ];
        for ((volume, path, key, optional), why) in refused {
            let found = wrong(volume, path, key, optional).await;
            assert_eq!(found, Err(why.to_owned()), "{volume} {path} {key}");
        }
        let found = wrong("config", "config.env", "EMPTY", true).await;
        assert_eq!(found, Ok(Vec::new()));
    }

    #[tokio::test]
    async fn ten_thousand_variables_of_a_large_file_read_it_once() {
        let mut content = "# nothing in this line\n".repeat(200_000);
        content.push_str("LAST='x'\n");
        let env =
            (0..10_000).map(|n| of_file(&format!("V{n}"), "config", "config.env", "LAST", false));
        let env: Vec<String> = env.collect();
        let with = WithFile::new(content.as_bytes(), &env.join(","));
        let before = std::time::Instant::now();
        assert_eq!(with.variables().await.unwrap().len(), 10_000);
        // once is some hundredths of a second, ten thousand times were minutes
        assert!(before.elapsed() < std::time::Duration::from_secs(20));
    }

    #[tokio::test]
    async fn later_variables_see_earlier_ones_and_win() {
        let objects = FakeObjects::default();
        objects.put(
            DataKind::ConfigMap,
            "base",
            &[("A", "from-map"), ("B", "b"), ("no=name", "x")],
        );
        let env = environment(
            &objects,
            r#"{"name":"c","envFrom":[{"prefix":"P_","configMapRef":{"name":"base"}}],
                "env":[{"name":"X","value":"1"},{"name":"P_A","value":"own"},
                       {"name":"Y","value":"$(X)-$(P_B)-$(Z)"},{"name":"Z","value":"late"},
                       {"name":"IP","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}}]}"#,
        )
        .await
        .unwrap();
        let expected = [
            ("P_B", "b"),
            ("X", "1"),
            ("P_A", "own"),
            ("Y", "1-b-$(Z)"),
            ("Z", "late"),
            ("IP", "10.0.0.1"),
        ];
        let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(env, expected);
    }

    #[tokio::test]
    async fn ten_thousand_variables_are_made_and_what_no_program_can_have_is_not() {
        let objects = FakeObjects::default();
        let keys: Vec<String> = (0..10_000).map(|n| format!("K{n:05}")).collect();
        let entries: Vec<(&str, &str)> = keys.iter().map(|k| (k.as_str(), "v")).collect();
        objects.put(DataKind::ConfigMap, "many", &entries);
        // all of them from a map, and all of them again, each with the one before
        let own = keys
            .windows(2)
            .map(|two| format!(r#"{{"name":"{}","value":"$({})+"}}"#, two[1], two[0]));
        let own: Vec<String> = own.take(1000).collect();
        let again = keys.iter().skip(1001);
        let again = again.map(|key| format!(r#"{{"name":"{key}","value":"w"}}"#));
        let own: Vec<String> = own.into_iter().chain(again).collect();
        let container = format!(
            r#"{{"name":"c","envFrom":[{{"configMapRef":{{"name":"many"}}}}],"env":[{}]}}"#,
            own.join(",")
        );
        let found = environment(&objects, &container).await.unwrap();
        assert_eq!(found.len(), 10_000);
        assert_eq!(found[0], ("K00000".to_owned(), "v".to_owned()));
        assert_eq!(found[1000].1, format!("v{}", "+".repeat(1000)));
        assert_eq!(found[9999], ("K09999".to_owned(), "w".to_owned()));

        // forty lines that mean a terabyte
        let double = (1..40).map(|n| {
            let before = n - 1;
            format!(r#"{{"name":"A{n}","value":"$(A{before})$(A{before})"}}"#)
        });
        let double: Vec<String> = double.collect();
        let container = format!(
            r#"{{"name":"c","env":[{{"name":"A0","value":"xxxx"}},{}]}}"#,
            double.join(",")
        );
        let error = environment(&objects, &container).await.unwrap_err();
        assert!(error.to_string().starts_with("variable `A15`"), "{error}");

        // one large value in each of a hundred variables
        let large = "x".repeat(100_000);
        objects.put(DataKind::ConfigMap, "large", &[("k", large.as_str())]);
        let each = (0..100).map(|n| {
            format!(
                r#"{{"name":"L{n}","valueFrom":{{"configMapKeyRef":{{"name":"large","key":"k"}}}}}}"#
            )
        });
        let each: Vec<String> = each.collect();
        let container = format!(r#"{{"name":"c","env":[{}]}}"#, each.join(","));
        let error = environment(&objects, &container).await.unwrap_err();
        assert!(error.to_string().starts_with("variable `L62`"), "{error}");
    }

    #[tokio::test]
    async fn missing_objects_fail_unless_optional() {
        let objects = FakeObjects::default();
        objects.put(DataKind::Secret, "s", &[("k", "v")]);
        let one = |reference: &str| {
            format!(r#"{{"name":"c","env":[{{"name":"A","valueFrom":{{{reference}}}}}]}}"#)
        };
        let error = environment(
            &objects,
            &one(r#""configMapKeyRef":{"name":"gone","key":"k"}"#),
        )
        .await
        .unwrap_err();
        assert_eq!(error.to_string(), "configmap \"gone\" not found");
        let error = environment(
            &objects,
            &one(r#""secretKeyRef":{"name":"s","key":"other"}"#),
        )
        .await
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "couldn't find key other in Secret default/s"
        );
        let env = environment(
            &objects,
            &one(r#""secretKeyRef":{"name":"s","key":"other","optional":true}"#),
        )
        .await
        .unwrap();
        assert!(env.is_empty());
    }

    #[test]
    fn services_come_as_variables() {
        let service: Service = serde_json::from_str(
            r#"{"metadata":{"name":"my-db","namespace":"default"},
                "spec":{"clusterIP":"10.96.0.7","ports":[{"name":"sql","port":5432,"protocol":"TCP"}]}}"#,
        )
        .unwrap();
        let services = [Arc::new(service)];
        let variables = service_variables(&services, "default", true);
        assert_eq!(variables["MY_DB_SERVICE_HOST"], "10.96.0.7");
        assert_eq!(variables["MY_DB_SERVICE_PORT_SQL"], "5432");
        assert_eq!(variables["MY_DB_PORT_5432_TCP"], "tcp://10.96.0.7:5432");
        assert_eq!(variables["MY_DB_PORT_5432_TCP_ADDR"], "10.96.0.7");
        assert!(service_variables(&services, "other", true).is_empty());
        assert!(service_variables(&services, "default", false).is_empty());
    }
}
