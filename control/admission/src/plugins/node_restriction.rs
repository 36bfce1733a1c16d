//! `NodeRestriction`: what agents of nodes may write beyond what they may ask for.
//! Who is no agent passes without a look.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_access::Attributes as AccessAttributes;
use control_kinds::admission as rules;
use control_pki::CertificateRequest;
use control_types::status::{Status, quote};
use control_types::value::Value;
use control_types::{error_chain, meta};

use control_request::peer::ClientAddr;

use crate::admission::{Admission, AdmissionResult, Change, done, wait};
use crate::attributes::Attributes;
use crate::operation::Operation;

const CERTIFICATES: &str = "certificates.k8s.io";
/// Where the leases of nodes are.
const LEASES: &str = "kube-node-lease";
/// Signers whose certificates make an agent.
const SIGNERS: &[&str] = &[
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];

/// The plugin, with the addresses that no node may report.
#[derive(Debug)]
pub struct NodeRestriction(pub rules::ReservedAddresses);

impl Admission for NodeRestriction {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        let Some(node) = attributes.context.user.node() else {
            return done(Ok(()));
        };
        if attributes.is_for("", "pods") && attributes.subresource == "eviction" {
            return wait(check_eviction(attributes, node));
        }
        done(self.admit_now(attributes, node, object, old))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        let Some(node) = attributes.context.user.node() else {
            return done(Ok(()));
        };
        done(match (attributes.operation, change.old) {
            (Operation::Delete, _) => check_deletion(attributes, node, change.new),
            (_, Some(old)) => self.check(attributes, node, change.new, Some(old)),
            // New objects were looked at before others changed them.
            (_, None) => Ok(()),
        })
    }
}

impl NodeRestriction {
    /// Looks at a new object, and at an agent's write of a Node.
    fn admit_now(
        &self,
        attributes: &Attributes<'_>,
        node: &str,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if attributes.is_for("", "nodes") {
            admit_node(attributes, node, new, old)?;
        }
        if old.is_some() {
            return Ok(());
        }
        if attributes.is_for("", "serviceaccounts") && attributes.subresource == "token" {
            return check_token(attributes, node, new);
        }
        self.check(attributes, node, new, None)
    }

    /// Looks at a new object (`old` absent) or an update.
    ///
    /// # Errors
    /// 403, and 404 for a pod of a node that does not exist.
    fn check(
        &self,
        attributes: &Attributes<'_>,
        node: &str,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let (cluster, subresource) = (attributes.cluster, attributes.subresource);
        let refused = |why: rules::Refusal| attributes.refuse(new, &why);
        let resource = attributes.served.resource;
        let decided = match (resource.group, resource.plural) {
            ("", "pods") => return self.check_pod(attributes, node, new, old),
            ("", "nodes") => {
                own_node(node, meta::name(new))
                    .and_then(|()| rules::node_writes_node(node, new, old))
                    .map_err(refused)?;
                return self.check_node_addresses(attributes, new, old);
            }
            ("", "persistentvolumeclaims") => match (subresource, old) {
                ("status", Some(old)) => claim_status(attributes, node, new, old),
                ("", Some(old)) => rules::node_gives_claim_back(node, new, old),
                _ => Err("may only update PVC status".into()),
            },
            ("", "persistentvolumes") => volume(attributes, node, new, old),
            ("storage.k8s.io", "csistoragecapacities") => old
                .map_or(Ok(()), |old| rules::node_publishes_capacity(node, old))
                .and_then(|()| rules::node_publishes_capacity(node, new)),
            (CERTIFICATES, "podcertificaterequests") => {
                Err("PodCertificateRequest feature gate is disabled".into())
            }
            (CERTIFICATES, "certificatesigningrequests") if old.is_none() => request(node, new),
            ("resource.k8s.io", "resourceslices") if old.is_none() => {
                let present = cluster.list(resource.group, resource.plural, "")?;
                of_node(node, new, "create")
                    .and_then(|()| rules::node_publishes_slice(node, new, &present))
            }
            (group, plural) => own(node, group, plural, meta::namespace(new), meta::name(new)),
        };
        decided.map_err(refused)
    }

    /// Checks the addresses that an agent reports of its Node.
    fn check_node_addresses(
        &self,
        attributes: &Attributes<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if !rules::reports_new_addresses(new, old) {
            return Ok(());
        }
        let others = addresses_of_nodes(attributes)?;
        rules::node_reports_addresses(new, old, &others, &self.0)
            .map_err(|why| attributes.refuse(new, &why))
    }

    /// Checks the addresses that an agent reports of its pod.
    fn check_pod_addresses(
        &self,
        attributes: &Attributes<'_>,
        node: &str,
        new: &Value,
        old: &Value,
    ) -> Result<(), rules::Refusal> {
        if !rules::adds_pod_addresses(new, old) {
            return Ok(());
        }
        let own = attributes.cluster.object("", "nodes", node);
        let own = own.as_ref().map(rules::NodeAddresses::from_node);
        let own = own.unwrap_or_else(|| rules::NodeAddresses {
            name: node.to_owned(),
            ..rules::NodeAddresses::default()
        });
        let others = || addresses_of_nodes(attributes).unwrap_or_default();
        rules::node_reports_pod_addresses(&own, new, old, others, &self.0)
    }

    fn check_pod(
        &self,
        attributes: &Attributes<'_>,
        node: &str,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let decided = match (attributes.subresource, old) {
            ("", None) => {
                let uid = attributes.cluster.object("", "nodes", node);
                let uid = uid.as_ref().map(meta::uid);
                rules::node_makes_pod(node, uid.unwrap_or_default(), new)
            }
            ("", Some(_)) => Err(format!(
                "unexpected operation \"UPDATE\", node {} can only create and delete mirror pods",
                quote(node)
            )
            .into()),
            ("status", Some(old)) => rules::node_reports_pod(node, new, old)
                .and_then(|()| self.check_pod_addresses(attributes, node, new, old)),
            (other, _) => Err(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                quote(other)
            )
            .into()),
        };
        decided.map_err(|why| attributes.refuse(new, &why))
    }
}

/// Checks an agent's write of its own Node against what the control plane gave the node, and
/// records the address from which the agent registered ([`rules::JOINED_FROM`]).
///
/// # Errors
/// 403.
fn admit_node(
    attributes: &Attributes<'_>,
    node: &str,
    new: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if meta::name(new) != node {
        // `check` refuses it.
        return Ok(());
    }
    let peer = attributes.context.parts.extensions.get::<ClientAddr>();
    let peer: Option<IpAddr> = peer.map(|ClientAddr(address)| address.ip());
    let joined_from = rules::joined_from(new, peer);
    rules::node_keeps_its_bounds(node, new, old, &joined_from)
        .map_err(|why| attributes.refuse(new, &why))?;
    if !joined_from.is_empty() && meta::annotation(new, rules::JOINED_FROM).is_none() {
        new.set_path(
            &["metadata", "annotations", rules::JOINED_FROM],
            joined_from,
        );
    }
    Ok(())
}

fn addresses_of_nodes(attributes: &Attributes<'_>) -> Result<Vec<rules::NodeAddresses>, Status> {
    let nodes = attributes.cluster.list("", "nodes", "")?;
    Ok(nodes.iter().map(rules::NodeAddresses::from_node).collect())
}

/// Looks at a deletion.
///
/// # Errors
/// 403.
fn check_deletion(attributes: &Attributes<'_>, node: &str, object: &Value) -> Result<(), Status> {
    let name = meta::name(object);
    let resource = attributes.served.resource;
    let decided = match (resource.group, resource.plural) {
        ("", "pods") => rules::node_ends_pod(node, "delete", object),
        ("", "nodes") => own_node(node, name),
        ("", "persistentvolumeclaims") => Err("may only update PVC status".into()),
        ("", "persistentvolumes") => rules::node_deletes_volume(node, object),
        ("storage.k8s.io", "csistoragecapacities") => rules::node_publishes_capacity(node, object),
        ("resource.k8s.io", "resourceslices") => of_node(node, object, "delete"),
        (group, plural) => own(node, group, plural, meta::namespace(object), name),
    };
    decided.map_err(|why| attributes.refuse(object, &why))
}

/// Looks at an eviction of a pod; whether there is the pod is for others to say.
///
/// # Errors
/// 403.
async fn check_eviction(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    let info = &attributes.context.info;
    let key = attributes.served.key(&info.namespace, &info.name);
    attributes.cluster.catch_up().await?;
    match attributes.cluster.object("", "pods", &key) {
        Some(pod) => {
            rules::node_ends_pod(node, "evict", &pod).map_err(|why| attributes.refuse(&pod, &why))
        }
        None => Ok(()),
    }
}

/// Looks at a request for the token of a service account: it must be bound to a pod
/// of the node, and for an audience that the pod asks for.
///
/// # Errors
/// 403, and 404 for a pod that does not exist.
fn check_token(attributes: &Attributes<'_>, node: &str, request: &Value) -> Result<(), Status> {
    let (context, cluster) = (attributes.context, attributes.cluster);
    let (namespace, account) = (&*context.info.namespace, &*context.info.name);
    let refused = |why: &str| {
        let resource = attributes.served.resource;
        Err(Status::forbidden(
            resource.group,
            resource.plural,
            account,
            why,
        ))
    };
    let bound = |field| {
        let text = request.str_at(&["spec", "boundObjectRef", field]);
        text.unwrap_or_default()
    };
    if (bound("apiVersion"), bound("kind")) != ("v1", "Pod") || bound("name").is_empty() {
        return refused("node requested token not bound to a pod");
    }
    let uid = bound("uid");
    if uid.is_empty() {
        return refused("node requested token with a pod binding without a uid");
    }
    let key = format!("{namespace}/{}", bound("name"));
    let Some(pod) = cluster.object("", "pods", &key) else {
        return Err(Status::not_found("", "pods", bound("name")));
    };
    if uid != meta::uid(&pod) {
        return refused(&format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        ));
    }
    if pod.str_at(&["spec", "nodeName"]) != Some(node) {
        return refused("node requested token bound to a pod scheduled on a different node");
    }
    let audience = match request.items_at(&["spec", "audiences"]) {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return refused("node may only request 0 or 1 audiences"),
    };
    if asks_for(attributes, &pod, audience) {
        return Ok(());
    }
    let denial = cluster.denial(&AccessAttributes {
        user: context.user.clone(),
        verb: "request-serviceaccounts-token-audience".into(),
        namespace: namespace.to_owned(),
        version: "v1".into(),
        resource: audience.to_owned(),
        name: account.to_owned(),
        is_resource_request: true,
        ..AccessAttributes::default()
    });
    if denial.is_none() {
        return Ok(());
    }
    refused(&format!(
        "audience {} not found in pod spec volume, {} is not authorized to request tokens for this audience",
        quote(audience),
        context.user.name
    ))
}

/// Whether a volume of a pod comes with a token for an audience: by itself, or by
/// the driver that mounts it.
fn asks_for(attributes: &Attributes<'_>, pod: &Value, audience: &str) -> bool {
    let cluster = attributes.cluster;
    let namespace = meta::namespace(pod);
    let driver_of_claim = |claim: &str| {
        let key = format!("{namespace}/{claim}");
        let claim = cluster.object("", "persistentvolumeclaims", &key)?;
        let volume = claim.str_at(&["spec", "volumeName"])?;
        let volume = cluster.object("", "persistentvolumes", volume)?;
        let driver = volume.str_at(&["spec", "csi", "driver"])?;
        Some(driver.to_owned())
    };
    pod.items_at(&["spec", "volumes"]).iter().any(|volume| {
        let own = volume
            .items_at(&["projected", "sources"])
            .iter()
            .any(|source| {
                let token = source.get("serviceAccountToken");
                token.is_some_and(|token| {
                    token.str_at(&["audience"]).unwrap_or_default() == audience
                })
            });
        let name = volume.str_at(&["name"]).unwrap_or_default();
        let driver = if volume.get("ephemeral").is_some() {
            driver_of_claim(&format!("{}-{name}", meta::name(pod)))
        } else if let Some(claim) = volume.str_at(&["persistentVolumeClaim", "claimName"]) {
            driver_of_claim(claim)
        } else {
            volume.str_at(&["csi", "driver"]).map(ToOwned::to_owned)
        };
        let driver = driver.and_then(|name| cluster.object("storage.k8s.io", "csidrivers", &name));
        own || driver.is_some_and(|driver| {
            let tokens = driver.items_at(&["spec", "tokenRequests"]).iter();
            let mut audiences = tokens.map(|token| token.str_at(&["audience"]).unwrap_or_default());
            audiences.any(|of_driver| of_driver == audience)
        })
    })
}

/// Checks an agent's write of a volume.
fn volume(
    attributes: &Attributes<'_>,
    node: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), rules::Refusal> {
    match (attributes.subresource, old) {
        ("", Some(old)) => rules::node_changes_volume(node, new, old),
        ("", None) => {
            let part = |field| new.str_at(&["spec", "claimRef", field]).unwrap_or_default();
            let key = format!("{}/{}", part("namespace"), part("name"));
            let claim = attributes
                .cluster
                .object("", "persistentvolumeclaims", &key);
            rules::node_makes_volume(node, new, claim.as_ref())
        }
        _ => Err("may not update the status of volumes".into()),
    }
}

/// Checks an agent's report of a claim, whose volume must be on the node, or a pod of the
/// node must use it. A right to report claims that is not the node authorizer's does not
/// tell them apart.
fn claim_status(
    attributes: &Attributes<'_>,
    node: &str,
    new: &Value,
    old: &Value,
) -> Result<(), rules::Refusal> {
    let cluster = attributes.cluster;
    let volume = old.str_at(&["spec", "volumeName"]).unwrap_or_default();
    let volume = cluster.object("", "persistentvolumes", volume);
    if volume.is_some_and(|volume| rules::is_volume_of_node(node, &volume)) {
        return rules::node_reports_volume_of_claim(node, new, old);
    }
    let (namespace, name) = (meta::namespace(old), meta::name(old));
    let uses = |pod: &Value| {
        let mut volumes = pod.items_at(&["spec", "volumes"]).iter();
        pod.str_at(&["spec", "nodeName"]) == Some(node)
            && volumes.any(|volume| {
                let named = volume.str_at(&["persistentVolumeClaim", "claimName"]);
                let own = volume.str_at(&["name"]).unwrap_or_default();
                let is_ephemeral = volume.get("ephemeral").is_some();
                named == Some(name) || is_ephemeral && format!("{}-{own}", meta::name(pod)) == name
            })
    };
    let pods = cluster.list("", "pods", namespace).unwrap_or_default();
    if !pods.iter().any(uses) {
        return Err(format!(
            "node {} can only report claims of its pods and volumes",
            quote(node)
        )
        .into());
    }
    rules::node_reports_claim(node, new, old)
}

fn own_node(node: &str, name: &str) -> Result<(), rules::Refusal> {
    if name == node {
        return Ok(());
    }
    Err(format!(
        "node {} is not allowed to modify node {}",
        quote(node),
        quote(name)
    )
    .into())
}

/// What has the name of the node it is about.
fn own(
    node: &str,
    group: &str,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Result<(), rules::Refusal> {
    let why = match (group, plural) {
        ("coordination.k8s.io", "leases") if namespace != LEASES => {
            let leases = quote(LEASES);
            return Err(format!("can only access leases in the {leases} system namespace").into());
        }
        ("coordination.k8s.io", "leases") => {
            "can only access node lease with the same name as the requesting node"
        }
        ("storage.k8s.io", "csinodes") => {
            "can only access CSINode with the same name as the requesting node"
        }
        _ => return Ok(()),
    };
    if name == node {
        Ok(())
    } else {
        Err(why.into())
    }
}

fn of_node(node: &str, slice: &Value, verb: &str) -> Result<(), rules::Refusal> {
    if slice.str_at(&["spec", "nodeName"]) == Some(node) {
        return Ok(());
    }
    Err(
        format!("can only {verb} ResourceSlice with the same NodeName as the requesting node")
            .into(),
    )
}

/// A request for a certificate that makes an agent must be for this one.
fn request(node: &str, request: &Value) -> Result<(), rules::Refusal> {
    let signer = request.str_at(&["spec", "signerName"]).unwrap_or_default();
    if !SIGNERS.contains(&signer) {
        return Ok(());
    }
    let text = request.str_at(&["spec", "request"]).unwrap_or_default();
    let asked = STANDARD
        .decode(text)
        .map_err(|error| error.to_string())
        .and_then(|pem| CertificateRequest::parse(&pem).map_err(|error| error_chain(&error)))
        .map_err(|why| format!("unable to parse csr: {why}"))?;
    let wanted = format!("system:node:{node}");
    if asked.cn == wanted {
        return Ok(());
    }
    Err(format!("can only create a node CSR with CN={wanted}").into())
}
