//! `orlop up`: a whole cluster of this one machine, in one process. Others may
//! join it.

use std::path::{Path, PathBuf};

use clap::Args;
use control_access::{NODES, User};
use control_pki::{Spec, write_public};

use super::{node_agent::Node, server};
use crate::{api, error::Error, join, run};

/// Examples in the help.
pub const EXAMPLES: &str = "\
It needs root, a kernel with type information (BTF), cgroup v2 and containerd, and checks this
first. The administrator's kubeconfig is /etc/orlop/admin.kubeconfig unless --write-kubeconfig names
another place. It runs until it is stopped; pods and services go on working then, and the next start takes
them over.";

/// The path of the administrator's kubeconfig.
const KUBECONFIG: &str = "/etc/orlop/admin.kubeconfig";

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
            println!("{}", welcome(&server, &name, &kubeconfig));
            node_agent::run(client, agent, until)
                .await
                .map_err(Error::NodeAgent)
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

fn welcome(server: &str, node: &str, kubeconfig: &Path) -> String {
    let kubeconfig = kubeconfig.display();
    format!(
        "The cluster is up: API server {server}, node {node}.\n\
         Use it:   kubectl --kubeconfig {kubeconfig} get nodes\n\
         Add one:  run `orlop token create --kubeconfig {kubeconfig}` here, and on the other \
         machine the line that it prints"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_learn_how_to_use_it_and_how_to_join() {
        let text = welcome("https://10.0.0.1:6443", "n1", Path::new(KUBECONFIG));
        assert!(text.contains("kubectl --kubeconfig /etc/orlop/admin.kubeconfig"));
        assert!(text.contains("orlop token create"));
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}
