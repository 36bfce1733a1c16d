//! `orlop up`: a whole cluster of this one machine, in one process. Others may
//! join it.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use clap::Args;
use control_access::{NODES, User};
use control_client::{Client, resources};
use control_pki::{Spec, write_public};
use serde_json::Value;

use super::{node_agent::Node, server};
use crate::{api, error::Error, join, run, table};

/// Examples in the help.
pub const EXAMPLES: &str = "\
It needs root, a kernel with type information (BTF), cgroup v2 and containerd, and checks this
first. The administrator's kubeconfig is /etc/orlop/admin.kubeconfig unless --write-kubeconfig names
another place. It runs until it is stopped; pods and services go on working then, and the next start takes
them over.";

/// The path of the administrator's kubeconfig.
pub(super) const KUBECONFIG: &str = "/etc/orlop/admin.kubeconfig";

/// How often the node is looked at until it is ready.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The server and this machine as a node.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub api: api::Options,
    /// Folder of the node's credentials; made if missing.
    #[arg(long, default_value = "/var/lib/orlop/agent", value_name = "FOLDER")]
    agent_dir: PathBuf,
    #[command(flatten)]
    load_balancer: server::LoadBalancer,
    /// KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) of the scheduler.
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    #[command(flatten)]
    node: Node,
}

/// Runs until a signal. Datapath and pods keep working afterwards.
///
/// # Errors
/// Missing requirements of this machine, an unusable folder, store, certificate or
/// address; a part that ended.
pub async fn run(mut options: Options) -> Result<(), Error> {
    let shutdown = run::shutdown_on_signals()?;
    let name = options.node.name()?;
    let folder = join::Folder::new(&options.agent_dir);
    let mut agent = options.node.complete(Some(folder.serving()))?;
    node_agent::check(&agent, &shutdown)
        .await
        .map_err(Error::NodeAgent)?;
    agent.node_ips = options.node.addresses()?;
    agent.volumes = options.node.local_volumes()?;
    options.api.requests.admission.deny_external_ips();
    let kubeconfig = options
        .api
        .write_kubeconfig
        .get_or_insert_with(|| KUBECONFIG.into())
        .clone();
    let options = server::Options {
        cluster_dns: agent.cluster_dns.first().copied(),
        cluster_cidr: options.node.cluster_cidr(),
        api: options.api,
        load_balancer: options.load_balancer,
        scheduler_config: options.scheduler_config,
        cloud: server::Cloud::default(),
        local_volumes: server::ServerVolumes {
            no_local_volumes: !options.node.has_local_volumes(),
        },
        election: crate::election::Options::default(),
        backups: crate::backups::ScheduledBackup::default(),
    };
    let more = |api: &api::Api, until| {
        let prepared = serving(&folder, api, &name, &agent.node_ips);
        let client = api.client(User::named(join::user(&name), [NODES]));
        let server = api.url.clone();
        async move {
            prepared?;
            let mut node = pin!(node_agent::run(client.clone(), agent, until));
            tokio::select! {
                done = &mut node => return done.map_err(Error::NodeAgent),
                found = ready_node(&client, &name) => {
                    println!("{}\n{}", node_table(&found), welcome(&server, &name, &kubeconfig));
                }
            }
            node.await.map_err(Error::NodeAgent)
        }
    };
    Box::pin(server::serve_with(options, more, shutdown)).await
}

/// Keeps the node's serving certificate, which the authority of kubelets in this process
/// signs.
fn serving(
    folder: &join::Folder,
    api: &api::Api,
    name: &str,
    addresses: &[std::net::IpAddr],
) -> Result<(), Error> {
    folder.prepare().map_err(Error::Join)?;
    let names = addresses.iter().map(ToString::to_string);
    let names = names.chain([name.to_owned()]);
    let mut spec = Spec::server(&join::user(name), names);
    spec.orgs = vec![NODES.to_owned()];
    api.kubelet_signer
        .keep(folder.path(), "serving", &spec)
        .map_err(Error::Pki)?;
    write_public(&folder.file("ca.crt"), api.authority.as_bytes()).map_err(Error::Pki)
}

/// Returns the Node once it is ready.
async fn ready_node(client: &Client, name: &str) -> Value {
    loop {
        if let Ok(node) = client.get::<Value>(&resources::NODES, "", name).await
            && is_ready(&node)
        {
            return node;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}

fn node_table(node: &Value) -> String {
    let text = |pointer: &str| {
        let value = node.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or("-").to_owned()
    };
    let row = [
        text("/metadata/name"),
        "Ready".to_owned(),
        text("/status/addresses/0/address"),
        text("/spec/podCIDR"),
        text("/status/nodeInfo/kubeletVersion"),
        text("/status/nodeInfo/containerRuntimeVersion"),
    ];
    let head = ["NODE", "STATUS", "ADDRESS", "PODS", "VERSION", "RUNTIME"];
    table::table(head, &[row])
}

fn welcome(server: &str, node: &str, kubeconfig: &Path) -> String {
    let kubeconfig = kubeconfig.display();
    format!(
        "The cluster is up: API server {server}, node {node}.\n\
         Use it:   kubectl --kubeconfig {kubeconfig} get nodes\n\
         Add one:  run `orlop token create --kubeconfig {kubeconfig}` here, and on the other \
         machine the line that it prints\n\
         See it:   orlop status\n\
         End it:   orlop down --yes"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_learn_how_to_use_it_and_how_to_join() {
        let text = welcome("https://10.0.0.1:6443", "n1", Path::new(KUBECONFIG));
        assert!(text.contains("kubectl --kubeconfig /etc/orlop/admin.kubeconfig"));
        assert!(text.contains("orlop token create"));
        assert!(text.contains("orlop down"));
        assert_eq!(text.lines().count(), 5, "{text}");
    }

    #[test]
    fn a_node_has_a_row_once_it_is_ready() {
        let mut node = json!({
            "metadata": {"name": "n1"},
            "spec": {"podCIDR": "10.244.0.0/24"},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "False"}],
                "nodeInfo": {"kubeletVersion": "v1.36.0", "containerRuntimeVersion": "containerd://1.6"},
            },
        });
        assert!(!is_ready(&node));
        node["status"]["conditions"][0]["status"] = json!("True");
        assert!(is_ready(&node));
        let expected = "NODE  STATUS  ADDRESS   PODS           VERSION  RUNTIME\n\
                        n1    Ready   10.0.0.1  10.244.0.0/24  v1.36.0  containerd://1.6\n";
        assert_eq!(node_table(&node), expected);
    }
}
