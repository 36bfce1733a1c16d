//! What the runtime is told of a pod's sandbox and containers: pure functions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::definition::definition_hash;
use super::dns;
use rustc_hash::FxHashMap;

use node_agent_cri::api::{
    Capability, ContainerConfig, ContainerMetadata, Device, ImageSpec, Int64Value, KeyValue,
    LinuxContainerConfig, LinuxContainerSecurityContext, LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext, Mount, NamespaceMode, NamespaceOption, PodSandboxConfig,
    PodSandboxMetadata, PortMapping, ProfileType, Protocol, SeLinuxOption, SecurityProfile,
};
use node_agent_cri::observed::key;
use node_agent_cri::{api, origin};
use node_agent_objects::argument_expansion::{ArgumentBudget, ArgumentsTooLong, Variable, expand};
use node_agent_objects::pod::{
    Container, Pod, PodSecurityContext, PodSecurityProfile, PodSpec, SeLinuxOptions,
    SecurityContext,
};
use node_agent_pod_registry::{log_directory, log_path};
use node_agent_pod_resources::qos;
use node_agent_pod_resources::resize::Capacity;
use node_agent_resource_managers::ContainerBinding;

use super::limits;

/// What is the same for all pods of the node.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The node's name.
    pub name: String,
    /// The node's addresses, the primary first.
    pub host_ips: Vec<String>,
    /// What the node has for pods, for the downward API.
    pub allocatable: BTreeMap<String, String>,
    /// The same of CPU and memory, as numbers.
    pub room: Capacity,
    /// What pods get for name resolution.
    pub dns: dns::NodeDns,
    /// The runtime's name, such as `containerd`.
    pub runtime_name: String,
    /// The agent's own folder: `/var/lib/kubelet`.
    pub root: PathBuf,
    /// Where pods' logs are: `/var/log/pods`.
    pub log_root: PathBuf,
    /// Where localhost seccomp profiles are.
    pub seccomp_root: PathBuf,
    /// Control group under which all pods' are.
    pub cgroups: node_agent_cgroups::CgroupLayout,
    /// How containers are limited.
    pub rules: limits::LimitRules,
    /// The cluster's domain.
    pub cluster_domain: String,
    /// Whether containers that say nothing get the runtime's seccomp profile.
    pub seccomp_default: bool,
}

/// The pod's sandbox.
#[must_use]
pub fn sandbox(
    pod: &Pod,
    attempt: u32,
    node: &NodeFacts,
    dns: api::DnsConfig,
    users: Option<&api::UserNamespace>,
    most: qos::PodLimits,
) -> PodSandboxConfig {
    let spec = &pod.spec;
    let (hostname, _) = dns::names(pod, &node.cluster_domain);
    let security = spec.security_context.clone().unwrap_or_default();
    let mut labels: BTreeMap<String, String> = pod
        .metadata
        .labels
        .iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
    labels.extend(pod_labels(pod));
    labels.insert(origin::LABEL.to_owned(), origin::LABEL_VALUE.to_owned());
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            namespace: pod.namespace().to_owned(),
            attempt,
        }),
        hostname: if spec.host_network {
            String::new()
        } else {
            hostname
        },
        log_directory: log_directory(&node.log_root, pod).display().to_string(),
        dns_config: Some(dns),
        port_mappings: ports(spec),
        labels,
        annotations: pod
            .metadata
            .annotations
            .iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect(),
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent: node.cgroups.pod(qos::class(spec), pod.uid()),
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces(spec, "", users)),
                selinux_options: security.se_linux_options.as_ref().map(selinux),
                run_as_user: security.run_as_user.map(|value| Int64Value { value }),
                run_as_group: security
                    .run_as_user
                    .and(security.run_as_group)
                    .map(|value| Int64Value { value }),
                supplemental_groups: groups(&security),
                supplemental_groups_policy: groups_policy(&security),
                privileged: spec.all_containers().any(privileged),
                seccomp: Some(SecurityProfile {
                    profile_type: ProfileType::RuntimeDefault.into(),
                    localhost_ref: String::new(),
                }),
                ..LinuxSandboxSecurityContext::default()
            }),
            sysctls: security
                .sysctls
                .iter()
                .map(|s| (s.name.replace('/', "."), s.value.clone()))
                .collect(),
            overhead: limits::overhead(spec),
            resources: Some(limits::sandbox(most)),
        }),
    }
}

/// Inputs of a container's runtime configuration besides its spec.
#[derive(Clone, Debug, Default)]
pub struct ContainerContext {
    /// How often it was started before.
    pub restarts: u32,
    /// The image, by the reference that the runtime knows it under.
    pub image: String,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// Its mounts.
    pub mounts: Vec<Mount>,
    /// Its devices.
    pub devices: Vec<Device>,
    /// Devices that the runtime makes by their names.
    pub cdi_devices: Vec<api::CdiDevice>,
    /// Annotations for the runtime.
    pub annotations: BTreeMap<String, String>,
    /// Groups that it gets for its volumes' sake.
    pub groups: Vec<i64>,
    /// The ids that the pod has for its own, if it does.
    pub users: Option<api::UserNamespace>,
    /// Who the image runs as, when a number and the pod does not say.
    pub image_user: Option<i64>,
    /// Id of the container whose processes it shall see.
    pub target: String,
    /// CPUs and NUMA nodes that it is bound to.
    pub binding: ContainerBinding,
}

/// One container.
///
/// # Errors
/// When its command is longer than any can be.
pub fn container(
    pod: &Pod,
    container: &Container,
    node: &NodeFacts,
    ingredients: ContainerContext,
) -> Result<ContainerConfig, ArgumentsTooLong> {
    let spec = &pod.spec;
    let variables = ingredients.variables.iter();
    let variables: FxHashMap<&str, &str> = variables
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let mut room = ArgumentBudget::default();
    let mut expand_all = |list: &[String]| -> Result<Vec<String>, ArgumentsTooLong> {
        let mut all = Vec::with_capacity(list.len());
        for text in list {
            let text = expand(text, |name| variables.get(name).copied())?;
            room.take(text.len())?;
            all.push(text);
        }
        Ok(all)
    };
    let command = expand_all(&container.command)?;
    let args = expand_all(&container.args)?;
    let mut labels: BTreeMap<String, String> = pod_labels(pod).collect();
    labels.insert(key::CONTAINER_NAME.to_owned(), container.name.clone());
    let mut annotations = BTreeMap::from([
        (key::CONTAINER_HASH.to_owned(), definition_hash(container)),
        (
            key::RESTART_COUNT.to_owned(),
            ingredients.restarts.to_string(),
        ),
        (
            key::MESSAGE_PATH.to_owned(),
            container.termination_message_path.clone(),
        ),
        (
            key::MESSAGE_POLICY.to_owned(),
            container.termination_message_policy.clone(),
        ),
        (
            key::GRACE_PERIOD.to_owned(),
            spec.grace_period().to_string(),
        ),
    ]);
    if !container.ports.is_empty() {
        let ports: Vec<_> = container
            .ports
            .iter()
            .map(|p| serde_json::json!({"name": p.name, "hostPort": p.host_port, "containerPort": p.container_port, "protocol": p.protocol}))
            .collect();
        annotations.insert(
            key::PORTS.to_owned(),
            serde_json::Value::from(ports).to_string(),
        );
    }
    Ok(ContainerConfig {
        metadata: Some(ContainerMetadata {
            name: container.name.clone(),
            attempt: ingredients.restarts,
        }),
        image: Some(ImageSpec {
            image: ingredients.image,
            user_specified_image: container.image.clone(),
            ..ImageSpec::default()
        }),
        command,
        args,
        working_dir: container.working_dir.clone(),
        envs: ingredients
            .variables
            .into_iter()
            .map(|(key, value)| KeyValue { key, value })
            .collect(),
        mounts: ingredients.mounts,
        devices: ingredients.devices,
        cdi_devices: ingredients.cdi_devices,
        labels,
        annotations: annotations
            .into_iter()
            .chain(ingredients.annotations)
            .collect(),
        log_path: log_path(&container.name, ingredients.restarts),
        stdin: container.stdin,
        stdin_once: container.stdin_once,
        tty: container.tty,
        linux: Some(LinuxContainerConfig {
            resources: Some(limits::container(
                pod,
                container,
                &node.rules,
                &ingredients.binding,
            )),
            security_context: Some(security(
                spec,
                container,
                node,
                ingredients.image_user,
                &ingredients.target,
                &ingredients.groups,
                ingredients.users.as_ref(),
            )),
        }),
        stop_signal: container
            .lifecycle
            .as_ref()
            .and_then(|l| l.stop_signal.as_deref())
            .map_or(0, signal),
    })
}

fn pod_labels(pod: &Pod) -> impl Iterator<Item = (String, String)> {
    [
        (key::POD_NAME, pod.name()),
        (key::POD_NAMESPACE, pod.namespace()),
        (key::POD_UID, pod.uid()),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
}

fn ports(spec: &PodSpec) -> Vec<PortMapping> {
    if spec.host_network {
        return Vec::new();
    }
    spec.init_containers
        .iter()
        .filter(|c| c.is_sidecar())
        .chain(&spec.containers)
        .flat_map(|c| &c.ports)
        .map(|port| PortMapping {
            protocol: match port.protocol.as_str() {
                "UDP" => Protocol::Udp,
                "SCTP" => Protocol::Sctp,
                _ => Protocol::Tcp,
            }
            .into(),
            container_port: port.container_port,
            host_port: port.host_port,
            host_ip: port.host_ip.clone(),
        })
        .collect()
}

fn namespaces(spec: &PodSpec, target: &str, users: Option<&api::UserNamespace>) -> NamespaceOption {
    let host = |on: bool, otherwise: NamespaceMode| {
        if on { NamespaceMode::Node } else { otherwise }
    };
    let pid = if !target.is_empty() {
        NamespaceMode::Target
    } else if spec.share_process_namespace == Some(true) {
        NamespaceMode::Pod
    } else {
        NamespaceMode::Container
    };
    NamespaceOption {
        network: host(spec.host_network, NamespaceMode::Pod).into(),
        pid: host(spec.host_pid, pid).into(),
        ipc: host(spec.host_ipc, NamespaceMode::Pod).into(),
        target_id: target.to_owned(),
        userns_options: users.cloned(),
    }
}

fn privileged(container: &Container) -> bool {
    container
        .security_context
        .as_ref()
        .is_some_and(|s| s.privileged == Some(true))
}

fn groups(security: &PodSecurityContext) -> Vec<i64> {
    security
        .fs_group
        .into_iter()
        .chain(security.supplemental_groups.iter().copied())
        .collect()
}

fn groups_policy(security: &PodSecurityContext) -> i32 {
    i32::from(security.supplemental_groups_policy.as_deref() == Some("Strict"))
}

fn selinux(options: &SeLinuxOptions) -> SeLinuxOption {
    SeLinuxOption {
        user: options.user.clone(),
        role: options.role.clone(),
        r#type: options.r#type.clone(),
        level: options.level.clone(),
    }
}

fn profile(profile: &PodSecurityProfile, root: &Path) -> SecurityProfile {
    let (kind, localhost_ref) = match profile.r#type.as_str() {
        "RuntimeDefault" => (ProfileType::RuntimeDefault, String::new()),
        "Localhost" => (
            ProfileType::Localhost,
            profile
                .localhost_profile
                .as_deref()
                .map(|name| root.join(name).display().to_string())
                .unwrap_or_default(),
        ),
        _ => (ProfileType::Unconfined, String::new()),
    };
    SecurityProfile {
        profile_type: kind.into(),
        localhost_ref,
    }
}

fn security(
    spec: &PodSpec,
    container: &Container,
    node: &NodeFacts,
    image_user: Option<i64>,
    target: &str,
    more_groups: &[i64],
    users: Option<&api::UserNamespace>,
) -> LinuxContainerSecurityContext {
    let none = SecurityContext::default();
    let own = container.security_context.as_ref().unwrap_or(&none);
    let no_pod = PodSecurityContext::default();
    let pod = spec.security_context.as_ref().unwrap_or(&no_pod);
    let privileged = own.privileged == Some(true);
    let user = own.run_as_user.or(pod.run_as_user).or(image_user);
    let unmasked = privileged || own.proc_mount.as_deref() == Some("Unmasked");
    let paths = |list: &[&str]| list.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
    LinuxContainerSecurityContext {
        capabilities: own.capabilities.as_ref().map(|c| Capability {
            add_capabilities: c.add.clone(),
            drop_capabilities: c.drop.clone(),
        }),
        privileged,
        namespace_options: Some(namespaces(spec, target, users)),
        selinux_options: own
            .se_linux_options
            .as_ref()
            .or(pod.se_linux_options.as_ref())
            .map(selinux),
        run_as_user: user.map(|value| Int64Value { value }),
        run_as_group: user
            .and(own.run_as_group.or(pod.run_as_group))
            .map(|value| Int64Value { value }),
        readonly_rootfs: own.read_only_root_filesystem == Some(true),
        supplemental_groups: groups(pod)
            .into_iter()
            .chain(more_groups.iter().copied())
            .collect(),
        supplemental_groups_policy: groups_policy(pod),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        masked_paths: if unmasked { Vec::new() } else { paths(&MASKED) },
        readonly_paths: if unmasked {
            Vec::new()
        } else {
            paths(&READ_ONLY)
        },
        seccomp: Some(
            own.seccomp_profile
                .as_ref()
                .or(pod.seccomp_profile.as_ref())
                .filter(|_| !privileged)
                .map_or_else(
                    || SecurityProfile {
                        profile_type: if node.seccomp_default && !privileged {
                            ProfileType::RuntimeDefault
                        } else {
                            ProfileType::Unconfined
                        }
                        .into(),
                        localhost_ref: String::new(),
                    },
                    |p| profile(p, &node.seccomp_root),
                ),
        ),
        apparmor: own
            .app_armor_profile
            .as_ref()
            .or(pod.app_armor_profile.as_ref())
            .map(|p| SecurityProfile {
                localhost_ref: p.localhost_profile.clone().unwrap_or_default(),
                ..profile(p, Path::new(""))
            }),
        ..LinuxContainerSecurityContext::default()
    }
}

/// Parts of /proc that no container sees: what all runtimes mask.
const MASKED: [&str; 9] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
];

/// Parts of /proc that no container writes.
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// The number of a signal in the CRI, which counts alphabetically.
fn signal(name: &str) -> i32 {
    const NAMES: [&str; 36] = [
        "",
        "SIGABRT",
        "SIGALRM",
        "SIGBUS",
        "SIGCHLD",
        "SIGCLD",
        "SIGCONT",
        "SIGFPE",
        "SIGHUP",
        "SIGILL",
        "SIGINT",
        "SIGIO",
        "SIGIOT",
        "SIGKILL",
        "SIGPIPE",
        "SIGPOLL",
        "SIGPROF",
        "SIGPWR",
        "SIGQUIT",
        "SIGSEGV",
        "SIGSTKFLT",
        "SIGSTOP",
        "SIGSYS",
        "SIGTERM",
        "SIGTRAP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGUSR1",
        "SIGUSR2",
        "SIGVTALRM",
        "SIGWINCH",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGRTMIN",
    ];
    NAMES
        .iter()
        .position(|n| *n == name)
        .and_then(|at| i32::try_from(at).ok())
        .unwrap_or(0)
}

/// Whether the user that a container would run as breaks `runAsNonRoot`; the
/// reason, as the kubelet words it.
#[must_use]
pub fn non_root_violation(
    pod: &Pod,
    container: &Container,
    image_uid: Option<i64>,
    image_user: &str,
) -> Option<String> {
    let own = container.security_context.as_ref();
    let of_pod = pod.spec.security_context.as_ref();
    let required = own
        .and_then(|s| s.run_as_non_root)
        .or_else(|| of_pod.and_then(|s| s.run_as_non_root))
        .unwrap_or(false);
    if !required {
        return None;
    }
    let described = format!(
        "(pod: \"{}\", container: {})",
        super::next::describe(pod),
        container.name
    );
    let user = own
        .and_then(|s| s.run_as_user)
        .or_else(|| of_pod.and_then(|s| s.run_as_user));
    match (user, image_uid) {
        (Some(0), _) => Some(format!(
            "container's runAsUser breaks non-root policy {described}"
        )),
        (Some(_), _) => None,
        (None, Some(0)) => Some(format!(
            "container has runAsNonRoot and image will run as root {described}"
        )),
        (None, Some(_)) => None,
        (None, None) if image_user.is_empty() => Some(format!(
            "container has runAsNonRoot and image will run as root {described}"
        )),
        (None, None) => Some(format!(
            "container has runAsNonRoot and image has non-numeric user ({image_user}), cannot verify user is non-root {described}"
        )),
    }
}
