//! `orlop policy import`: Calico's and Cilium's policies as Kubernetes' own.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use control_client::{Client, Discard, Patch, Resource, Selection, resources};
use control_import::policy::Settings;
use control_import::{MalformedObject, Report, calico, cilium};
use ipnet::IpNet;
use serde_json::Value;

use super::policy::{CLUSTER_NETWORK_POLICIES, NETWORK_POLICIES, manifests};
use crate::{error::Error, kubeconfig::Kubeconfig};

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop policy import --from calico                  print what the cluster's policies become
  orlop policy import --from cilium -f policies/     convert files, without a cluster
  orlop policy import --from calico --apply          write them into the cluster
  orlop policy import --from cilium --pod-cidr 10.244.0.0/16 > policies.yaml
  orlop policy test expectations.yaml --objects policies.yaml";

/// Under which name objects are applied.
const MANAGER: &str = "orlop-policy-import";

/// Source and output.
#[derive(Args)]
pub struct Import {
    /// The project whose policies are converted.
    #[arg(long, value_enum)]
    from: Source,
    /// File or folder of manifests (*.yaml, *.yml, *.json); may be repeated. Without it, policies
    /// are read from the cluster.
    #[arg(short = 'f', long = "file", value_name = "DIR|FILE")]
    files: Vec<PathBuf>,
    /// Write the objects to the cluster instead of printing them. Nothing is written if
    /// something cannot be converted, unless --lossy is given.
    #[arg(long)]
    apply: bool,
    /// Also convert policies with unsupported parts, without those parts. They are still
    /// named; if a rule that denies is lost, more is allowed than before.
    #[arg(long)]
    lossy: bool,
    /// Write cluster-wide policies into each namespace that exists now, where no
    /// ClusterNetworkPolicy can say the same.
    #[arg(long)]
    expand_namespaces: bool,
    /// Range from which pods have their addresses; may be repeated. For Cilium, whose ranges do
    /// not match pods. Nodes' spec.podCIDRs unless given.
    #[arg(long = "pod-cidr", value_name = "CIDR")]
    pod_ranges: Vec<IpNet>,
    /// Range from which nodes have their addresses; may be repeated. For Cilium. Nodes' own
    /// addresses unless given.
    #[arg(long = "node-cidr", value_name = "CIDR")]
    node_ranges: Vec<IpNet>,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
}

/// A project with its own policies.
#[derive(Clone, Copy, ValueEnum)]
enum Source {
    /// NetworkPolicy, GlobalNetworkPolicy, Tier and network sets of Calico.
    Calico,
    /// CiliumNetworkPolicy, CiliumClusterwideNetworkPolicy and CiliumCIDRGroup.
    Cilium,
}

const fn calico_v3(plural: &'static str, kind: &'static str, namespaced: bool) -> Resource {
    if namespaced {
        Resource::namespaced("projectcalico.org", "v3", plural, kind)
    } else {
        Resource::cluster("projectcalico.org", "v3", plural, kind)
    }
}

const fn calico_v1(plural: &'static str, kind: &'static str, namespaced: bool) -> Resource {
    if namespaced {
        Resource::namespaced("crd.projectcalico.org", "v1", plural, kind)
    } else {
        Resource::cluster("crd.projectcalico.org", "v1", plural, kind)
    }
}

/// Plural, kind, and whether it is namespaced.
const CALICO_KINDS: [(&str, &str, bool); 6] = [
    ("tiers", "Tier", false),
    ("networksets", "NetworkSet", true),
    ("globalnetworksets", "GlobalNetworkSet", false),
    ("networkpolicies", "NetworkPolicy", true),
    ("globalnetworkpolicies", "GlobalNetworkPolicy", false),
    ("hostendpoints", "HostEndpoint", false),
];

const CILIUM_KINDS: [Resource; 4] = [
    Resource::namespaced(
        "cilium.io",
        "v2",
        "ciliumnetworkpolicies",
        "CiliumNetworkPolicy",
    ),
    Resource::cluster(
        "cilium.io",
        "v2",
        "ciliumclusterwidenetworkpolicies",
        "CiliumClusterwideNetworkPolicy",
    ),
    Resource::cluster("cilium.io", "v2", "ciliumcidrgroups", "CiliumCIDRGroup"),
    Resource::cluster(
        "cilium.io",
        "v2alpha1",
        "ciliumcidrgroups",
        "CiliumCIDRGroup",
    ),
];

impl Import {
    /// Converts policies, and prints or applies them.
    ///
    /// # Errors
    /// Unreadable input, and, after everything else was printed, what was not converted.
    pub async fn run(&self) -> Result<(), Error> {
        let mut documents = Vec::new();
        for path in &self.files {
            manifests(path, true, &mut documents)?;
        }
        let needs_cluster = self.files.is_empty() || self.apply || self.kubeconfig.is_given();
        let client = if needs_cluster {
            Some(self.kubeconfig.client(MANAGER).await?)
        } else {
            None
        };
        if let Some(client) = &client {
            surroundings(client, &mut documents).await?;
            if self.files.is_empty() {
                self.policies(client, &mut documents).await?;
            }
        }
        let report = self.convert(&control_import::flatten(documents))?;
        show_remarks(&report);
        if !self.apply {
            print!("{}", yaml(&report.objects)?);
        } else if report.is_complete() || self.lossy {
            if let Some(client) = &client {
                apply(client, &report.objects).await?;
            }
        } else {
            return Err(Error::Policy(format!(
                "{} parts cannot be converted, so nothing is applied: change or remove them, or \
                 use --lossy",
                report.refused.len()
            )));
        }
        if report.is_complete() || self.lossy {
            return Ok(());
        }
        Err(Error::Policy(format!(
            "{} parts were not converted; see above",
            report.refused.len()
        )))
    }

    fn convert(&self, objects: &[Value]) -> Result<Report, Error> {
        let settings = Settings {
            lossy: self.lossy,
            expand_namespaces: self.expand_namespaces,
            pod_ranges: self.pod_ranges.clone(),
            node_ranges: self.node_ranges.clone(),
        };
        let converted: Result<Report, MalformedObject> = match self.from {
            Source::Calico => calico::convert(objects, &settings),
            Source::Cilium => cilium::convert(objects, &settings),
        };
        converted.map_err(|error| Error::Policy(error.to_string()))
    }

    /// The policies of a cluster.
    async fn policies(&self, client: &Client, documents: &mut Vec<Value>) -> Result<(), Error> {
        let before = documents.len();
        match self.from {
            Source::Calico => {
                // Where both are served, they are the same objects.
                let has_v3 = client
                    .serves(&calico_v3(
                        "globalnetworkpolicies",
                        "GlobalNetworkPolicy",
                        false,
                    ))
                    .await
                    .map_err(Error::Client)?;
                let resource = if has_v3 { calico_v3 } else { calico_v1 };
                for (plural, kind, namespaced) in CALICO_KINDS {
                    list(client, &resource(plural, kind, namespaced), documents).await?;
                }
            }
            Source::Cilium => {
                for resource in &CILIUM_KINDS {
                    list(client, resource, documents).await?;
                }
            }
        }
        if documents.len() == before {
            return Err(Error::Policy(
                "the cluster has none of these policies: give files by -f, or another --from"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// Namespaces, nodes and the policies that stay.
async fn surroundings(client: &Client, documents: &mut Vec<Value>) -> Result<(), Error> {
    for resource in [&resources::NAMESPACES, &resources::NODES, &NETWORK_POLICIES] {
        list(client, resource, documents).await?;
    }
    Ok(())
}

/// All objects of a kind; none where the cluster does not know it.
async fn list(
    client: &Client,
    resource: &Resource,
    documents: &mut Vec<Value>,
) -> Result<(), Error> {
    let list = match client.list::<Value>(resource, &Selection::all()).await {
        Ok(list) => list,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(Error::Client(error)),
    };
    for mut item in list.items {
        item["apiVersion"] = resource.api_version().into();
        item["kind"] = resource.kind.as_ref().into();
        documents.push(item);
    }
    Ok(())
}

/// Writes unsupported parts, and notes, to standard error.
pub fn show_remarks(report: &Report) {
    for note in &report.notes {
        eprintln!("note: {note}");
    }
    for refused in &report.refused {
        eprintln!("not converted: {refused}");
    }
}

/// Objects as YAML documents.
///
/// # Errors
/// None that is known; that of the writer.
pub fn yaml(objects: &[Value]) -> Result<String, Error> {
    let mut text = String::new();
    for object in objects {
        let one = serde_saphyr::to_string(object)
            .map_err(|error| Error::Policy(format!("cannot write YAML: {error}")))?;
        text.push_str("---\n");
        text.push_str(&one);
        if !one.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

async fn apply(client: &Client, objects: &[Value]) -> Result<(), Error> {
    let is_cluster = |it: &Value| it["kind"] == "ClusterNetworkPolicy";
    if objects.iter().any(is_cluster)
        && !client
            .serves(&CLUSTER_NETWORK_POLICIES)
            .await
            .map_err(Error::Client)?
    {
        return Err(Error::Policy(
            "the cluster has no ClusterNetworkPolicy: run `orlop policy crd | kubectl apply -f -`"
                .to_owned(),
        ));
    }
    for object in objects {
        let resource = if is_cluster(object) {
            &CLUSTER_NETWORK_POLICIES
        } else {
            &NETWORK_POLICIES
        };
        let text = |pointer: &str| {
            let value = object.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let patch = Patch::Apply {
            body: object,
            manager: MANAGER,
            force: true,
        };
        client
            .patch::<Discard>(resource, &namespace, &name, "", patch)
            .await
            .map_err(Error::Client)?;
        println!("applied {}", control_import::ObjectId::from_object(object));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(folder: &std::path::Path, text: &str, lossy: bool) -> (Import, Vec<Value>) {
        let file = folder.join("policies.yaml");
        std::fs::write(&file, text).unwrap();
        let mut documents = Vec::new();
        manifests(&file, true, &mut documents).unwrap();
        let import = Import {
            from: Source::Calico,
            files: vec![file],
            apply: false,
            lossy,
            expand_namespaces: false,
            pod_ranges: Vec::new(),
            node_ranges: Vec::new(),
            kubeconfig: Kubeconfig::default(),
        };
        (import, documents)
    }

    const POLICIES: &str = "
apiVersion: projectcalico.org/v3
kind: NetworkPolicyList
items:
- metadata: {name: web, namespace: 'no'}
  spec: {selector: \"app == '1'\", ingress: [{action: Allow, protocol: TCP, destination: {ports: [80]}}]}
- metadata: {name: http, namespace: 'no'}
  spec: {selector: all(), ingress: [{action: Allow, http: {methods: [GET]}}]}
";

    #[test]
    fn printed_yaml_reads_back_as_the_same_objects() {
        let folder = tempfile::tempdir().unwrap();
        let (import, documents) = import(folder.path(), POLICIES, false);
        let report = import.convert(&control_import::flatten(documents)).unwrap();
        assert_eq!((report.objects.len(), report.refused.len()), (1, 1));
        let text = yaml(&report.objects).unwrap();
        let file = folder.path().join("out.yaml");
        std::fs::write(&file, text).unwrap();
        let mut again = Vec::new();
        manifests(&file, true, &mut again).unwrap();
        assert_eq!(again, report.objects);
    }

    #[test]
    fn what_is_not_converted_ends_in_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let (strict, _) = import(folder.path(), POLICIES, false);
        let error = runtime.block_on(strict.run()).unwrap_err();
        assert_eq!(error.to_string(), "1 parts were not converted; see above");
        let (lossy, _) = import(folder.path(), POLICIES, true);
        runtime.block_on(lossy.run()).unwrap();
    }
}
