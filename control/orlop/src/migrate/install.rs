//! Plans the files of a datapath installation beside kube-proxy. Pure.

use std::path::{Path, PathBuf};

/// The unit's name.
pub const UNIT: &str = "orlop-datapath.service";
/// The directory of units.
pub const UNITS: &str = "/etc/systemd/system";
/// The path of the agent's options.
pub const CONFIG: &str = "/etc/orlop/datapath.yaml";

/// The source of the agent's kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The one that was given.
    Given,
    /// The node's own, of its kubelet.
    Kubelet,
}

/// Kubeconfigs of kubelets that are looked for, in this order: kubeadm's, k3s's, RKE2's. With
/// kube-proxy's kubeconfig the agent may not set the condition that `orlop migrate` follows.
const KUBELETS: [&str; 3] = [
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
];
/// Kubeconfigs of administrators that are looked for, in this order.
const ADMINISTRATORS: [&str; 3] = [
    "/etc/kubernetes/admin.conf",
    "/etc/rancher/k3s/k3s.yaml",
    "/etc/rancher/rke2/rke2.yaml",
];

/// The installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// This program.
    pub program: PathBuf,
    /// The agent's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The agent's identity.
    pub identity: Identity,
    /// The Node's name, where it is not the host's.
    pub node_name: Option<String>,
    /// The directory of pinned programs and maps.
    pub pin_dir: PathBuf,
    /// The cgroup whose processes see Services, where it is not the root.
    pub cgroup: Option<PathBuf>,
}

/// Chooses the agent's kubeconfig.
pub fn kubeconfig(
    given: Option<&Path>,
    exists: impl Fn(&Path) -> bool,
) -> Option<(PathBuf, Identity)> {
    if let Some(path) = given {
        return Some((path.to_owned(), Identity::Given));
    }
    first(&KUBELETS, exists).map(|path| (path, Identity::Kubelet))
}

/// Chooses the administrator's kubeconfig, who lets nodes read EndpointSlices.
pub fn admin_kubeconfig(given: Option<&Path>, exists: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    match given {
        Some(path) => exists(path).then(|| path.to_owned()),
        None => first(&ADMINISTRATORS, exists),
    }
}

fn first(known: &[&str], exists: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut known = known.iter().map(Path::new);
    known.find(|path| exists(path)).map(Path::to_owned)
}

/// Names the kubeconfigs that are looked for.
pub fn looked_for() -> String {
    KUBELETS.join(", ")
}

/// The binding by which nodes may read what kube-proxy reads; the rest they may anyway.
pub fn binding() -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "orlop-datapath"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:node-proxier",
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Group",
            "name": "system:nodes",
        }],
    })
}

/// The command that makes the [`binding`].
pub const BIND: &str = "kubectl create clusterrolebinding orlop-datapath \
                        --clusterrole=system:node-proxier --group=system:nodes";

impl Installation {
    /// The file of options.
    pub fn config(&self) -> String {
        let mut text = String::from(
            "# Written by `orlop node-agent install --datapath-only`. All options: `orlop config \
             node-agent`.\napiVersion: orlop.dev/v1alpha1\nkind: NodeAgentConfiguration\n",
        );
        let mut line = |key: &str, value: &str| {
            // JSON is YAML, whatever a path holds.
            let value = serde_json::Value::from(value);
            text.push_str(&format!("{key}: {value}\n"));
        };
        line("kubeconfig", &self.kubeconfig.display().to_string());
        line("pinDir", &self.pin_dir.display().to_string());
        if let Some(name) = &self.node_name {
            line("nodeName", name);
        }
        if let Some(cgroup) = &self.cgroup {
            line("cgroup", &cgroup.display().to_string());
        }
        text.push_str("datapathOnly: true\nwaitForPorts: true\n");
        text
    }

    /// How the agent is started.
    pub fn command(&self, config: &Path) -> String {
        format!(
            "{} node-agent --config {}",
            self.program.display(),
            config.display()
        )
    }

    /// The unit of systemd.
    pub fn unit(&self, config: &Path) -> String {
        format!(
            "[Unit]\n\
             Description=Orlop datapath: Kubernetes Services in kube-proxy's place\n\
             Documentation=https://kubernetes.io/docs/reference/networking/virtual-ips/\n\
             After=network-online.target\n\
             Wants=network-online.target\n\
             \n\
             [Service]\n\
             Type=notify\n\
             ExecStart={}\n\
             Restart=always\n\
             RestartSec=2\n\
             LimitNOFILE=1048576\n\
             LimitMEMLOCK=infinity\n\
             KillMode=process\n\
             NoNewPrivileges=yes\n\
             \n\
             [Install]\n\
             WantedBy=multi-user.target\n",
            self.command(config)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation() -> Installation {
        Installation {
            program: "/usr/bin/orlop".into(),
            kubeconfig: "/etc/kubernetes/kubelet.conf".into(),
            identity: Identity::Kubelet,
            node_name: Some("n1".to_owned()),
            pin_dir: "/sys/fs/bpf/orlop".into(),
            cgroup: None,
        }
    }

    #[test]
    fn the_given_kubeconfig_wins_then_kubelets_are_looked_for() {
        let all = |_: &Path| true;
        let found = kubeconfig(Some(Path::new("/x")), all).unwrap();
        assert_eq!(found, ("/x".into(), Identity::Given));
        let of_kubeadm = ("/etc/kubernetes/kubelet.conf".into(), Identity::Kubelet);
        assert_eq!(kubeconfig(None, all), Some(of_kubeadm));
        let k3s = |path: &Path| path.starts_with("/var/lib/rancher/k3s");
        let (path, identity) = kubeconfig(None, k3s).unwrap();
        assert!(path.ends_with("kubelet.kubeconfig"), "{}", path.display());
        assert_eq!(identity, Identity::Kubelet);
        assert_eq!(kubeconfig(None, |_| false), None);
        assert!(looked_for().contains("kubelet.conf"));
    }

    #[test]
    fn an_administrator_is_looked_for_where_distributions_put_one() {
        let k3s = |path: &Path| path.starts_with("/etc/rancher/k3s");
        let of_k3s = Some("/etc/rancher/k3s/k3s.yaml".into());
        assert_eq!(admin_kubeconfig(None, k3s), of_k3s);
        let given = Path::new("/etc/rancher/k3s/other.yaml");
        assert_eq!(admin_kubeconfig(Some(given), k3s), Some(given.to_owned()));
        assert_eq!(admin_kubeconfig(Some(Path::new("/x")), k3s), None);
    }

    #[test]
    fn the_options_are_those_of_an_agent_beside_kube_proxy() {
        let text = installation().config();
        for line in [
            "kubeconfig: \"/etc/kubernetes/kubelet.conf\"",
            "nodeName: \"n1\"",
            "datapathOnly: true",
            "waitForPorts: true",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        assert!(!text.contains("cgroup"));
    }

    #[test]
    fn the_unit_starts_this_program_with_these_options() {
        let unit = installation().unit(Path::new(CONFIG));
        let start = "ExecStart=/usr/bin/orlop node-agent --config /etc/orlop/datapath.yaml\n";
        assert!(unit.contains(start), "{unit}");
        // Programs and maps outlive the process.
        assert!(unit.contains("KillMode=process\n"));
    }

    #[test]
    fn nodes_get_what_kube_proxy_may_and_no_more() {
        let it = binding();
        assert_eq!(it["roleRef"]["name"], "system:node-proxier");
        assert_eq!(it["subjects"][0]["name"], "system:nodes");
    }
}
