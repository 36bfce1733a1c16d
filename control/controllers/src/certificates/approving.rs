//! Approves what nodes' agents ask for: client certificates where access
//! control lets them have one (`certificatesigningrequests/nodeclient` and
//! `selfnodeclient`, as kube-controller-manager does), and serving certificates
//! for names and addresses that a source other than the node confirms ([`super::serving`]),
//! which upstream leaves to people. Everything else is left to people here as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Queue, View};
use control_pki::CertificateRequest;
use serde_json::{Value, json};

use super::serving::{Limits, ServingVerdict, judge};
use super::{KUBELET_CLIENT, KUBELET_SERVING, add_condition, change, kubelet};
use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{CertificateSigningRequest, Node, Text, seconds_now};
use crate::work::{self, Outcome};

/// When to look again at what lacks its Node or the Node's addresses.
const AGAIN: Duration = Duration::from_millis(500);
/// For how long that is worth it, in seconds.
const PATIENCE: i64 = 600;

/// Approves requests of nodes' agents.
pub const CONTROLLER: Controller = Controller {
    name: "certificatesigningrequest-approving-controller",
    service_account: "certificate-controller",
    start: |ctx| {
        let this = Arc::new(Approver {
            client: ctx.client.clone(),
            requests: ctx.certificate_requests(),
            nodes: ctx.nodes(),
            recorder: ctx.recorder("certificate-controller"),
            limits: Limits::from_config(&ctx.config),
            approves_serving: ctx.config.kubelet_authority.is_some(),
            reported: Mutex::default(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.requests.on_change(move |change| {
            if let Some(request) = &change.current
                && !request.is_decided()
            {
                listener.queue.add(Key::from_meta(&request.metadata));
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.requests.ready().await;
            this.nodes.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("csr-approving", 2, &shutdown, work).await;
        })
    },
};

struct Approver {
    client: Client,
    requests: Arc<KindCache<CertificateSigningRequest>>,
    nodes: Arc<KindCache<Node>>,
    recorder: Recorder,
    limits: Limits,
    /// Whether serving certificates are approved. Not beside another API server, which lets
    /// nodes write the annotations that confirm their names.
    approves_serving: bool,
    /// Requests that an event was emitted for.
    reported: Mutex<BTreeSet<Key>>,
    queue: Queue<Key>,
}

/// The decision on a certificate signing request.
#[derive(Debug, PartialEq, Eq)]
enum ApprovalDecision {
    /// It is for others to decide.
    Leave,
    /// Its Node does not exist yet.
    Wait,
    /// One of its names or addresses is not confirmed; the text says which.
    Unvouched(String),
    /// It is denied, for this reason.
    Deny(String),
    /// It is approved, for this reason.
    Approve(&'static str),
    /// It is approved if the requester may create the first or the second of
    /// these subresources, for the reason beside it.
    Ask(&'static [(&'static str, &'static str)]),
}

const OWN: (&str, &str) = (
    "selfnodeclient",
    "Auto approving self kubelet client certificate after SubjectAccessReview.",
);
const OTHER: (&str, &str) = (
    "nodeclient",
    "Auto approving kubelet client certificate after SubjectAccessReview.",
);
const SERVING: &str =
    "Auto approving kubelet serving certificate for names and addresses vouched for.";

/// Decides by the request, the requester's Node, and all Nodes.
fn decide(
    request: &CertificateSigningRequest,
    asked: &CertificateRequest,
    node: Option<&Node>,
    nodes: &[Arc<Node>],
    limits: &Limits,
) -> ApprovalDecision {
    if request.is_decided() || !request.status.certificate.is_empty() {
        return ApprovalDecision::Leave;
    }
    if kubelet::fault(request, asked).is_some() {
        return ApprovalDecision::Leave;
    }
    let spec = &request.spec;
    match spec.signer_name.as_str() {
        KUBELET_CLIENT if spec.username == asked.cn => ApprovalDecision::Ask(&[OWN, OTHER]),
        KUBELET_CLIENT => ApprovalDecision::Ask(&[OTHER]),
        KUBELET_SERVING => {
            let is_node = spec.groups.iter().any(|group| group == "system:nodes");
            if !is_node || spec.username != asked.cn {
                return ApprovalDecision::Leave;
            }
            let Some(node) = node else {
                return ApprovalDecision::Wait;
            };
            match judge(asked, node, nodes, limits) {
                ServingVerdict::Vouched => ApprovalDecision::Approve(SERVING),
                ServingVerdict::Unvouched(why) => ApprovalDecision::Unvouched(why),
                ServingVerdict::Forbidden(why) => ApprovalDecision::Deny(why),
            }
        }
        _ => ApprovalDecision::Leave,
    }
}

impl Approver {
    async fn sync(&self, key: Key) -> Outcome {
        let Some(request) = self.requests.by_key(&key) else {
            return Ok(None);
        };
        let Some(asked) = request.read() else {
            return Ok(None);
        };
        if request.spec.signer_name == KUBELET_SERVING && !self.approves_serving {
            return Ok(None);
        }
        let name = request.spec.username.strip_prefix("system:node:");
        let node = name.and_then(|name| self.nodes.get("", name));
        let nodes = match request.spec.signer_name.as_str() {
            KUBELET_SERVING => self.nodes.all(),
            _ => Vec::new(),
        };
        let decision = decide(&request, &asked, node.as_deref(), &nodes, &self.limits);
        let reason = match decision {
            ApprovalDecision::Leave => None,
            ApprovalDecision::Wait => return Ok(self.again(&request)),
            ApprovalDecision::Unvouched(why) => {
                if let Some(node) = node {
                    self.report(&key, &node, &why);
                }
                return Ok(self.again(&request));
            }
            ApprovalDecision::Deny(why) => {
                change(&self.client, &request, "approval", |object| {
                    add_condition(object, "Denied", "AutoDenied", &why);
                })
                .await?;
                tracing::warn!(request = %key, user = %request.spec.username, why, "certificate denied");
                if let Some(node) = node {
                    self.report(&key, &node, &why);
                }
                return Ok(None);
            }
            ApprovalDecision::Approve(reason) => Some(reason),
            ApprovalDecision::Ask(ways) => {
                let mut found = None;
                for (subresource, reason) in ways {
                    if self.may(&request, subresource).await? {
                        found = Some(*reason);
                        break;
                    }
                }
                found
            }
        };
        let Some(reason) = reason else {
            tracing::debug!(request = %key, "request left to administrators");
            return Ok(None);
        };
        change(&self.client, &request, "approval", |object| {
            add_condition(object, "Approved", "AutoApproved", reason);
        })
        .await?;
        tracing::info!(request = %key, user = %request.spec.username, "certificate approved");
        Ok(None)
    }

    /// Returns when to look again at a request that waits.
    fn again(&self, request: &CertificateSigningRequest) -> Option<Duration> {
        let made = request.metadata.creation_timestamp;
        let age = made.map_or(0, |made| seconds_now().as_second() - made.as_second());
        (age < PATIENCE).then_some(AGAIN)
    }

    /// Emits one event per request on its Node.
    fn report(&self, key: &Key, node: &Node, why: &str) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if !reported.insert(key.clone()) {
            return;
        }
        reported.retain(|key| self.requests.by_key(key).is_some());
        let about = ObjectReference::to_object(&Node::RESOURCE, &node.metadata);
        let message = format!("Serving certificate not approved: {why}");
        self.recorder
            .warning(&about, "ServingCertificateNotApproved", message);
    }

    /// Asks access control about who sent the request.
    async fn may(
        &self,
        request: &CertificateSigningRequest,
        subresource: &str,
    ) -> Result<bool, control_client::Error> {
        let spec = &request.spec;
        let extra: &BTreeMap<String, Vec<Text>> = &spec.extra;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": spec.username, "uid": spec.uid, "groups": spec.groups, "extra": extra,
                "resourceAttributes": {
                    "group": "certificates.k8s.io", "version": "*", "verb": "create",
                    "resource": "certificatesigningrequests", "subresource": subresource,
                },
            },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer: Value = self
            .client
            .request(http::Method::POST, path, Some(&review))
            .await?;
        Ok(answer["status"]["allowed"] == true)
    }
}

#[cfg(test)]
mod tests {
    use control_pki::Request;

    use super::*;

    const NODE: &str = "system:node:n1";

    fn asked(cn: &str, sans: &[&str]) -> CertificateRequest {
        let sans: Vec<_> = sans.iter().map(ToString::to_string).collect();
        let request = Request::new(cn, &["system:nodes"], &sans).expect("a request");
        CertificateRequest::parse(request.request_pem.as_bytes()).expect("read")
    }

    fn request(signer: &str, user: &str, group: &str) -> CertificateSigningRequest {
        let usage = if signer == KUBELET_SERVING {
            "server auth"
        } else {
            "client auth"
        };
        let spec = json!({"signerName": signer, "usages": ["digital signature", usage],
            "username": user, "groups": [group]});
        serde_json::from_value(json!({"spec": spec})).expect("a request")
    }

    fn node() -> Node {
        let annotations = json!({"orlop.dev/joined-from": "10.0.0.1",
            "orlop.dev/serving-names": "host-1"});
        serde_json::from_value(json!({"metadata": {"name": "n1", "annotations": annotations}}))
            .expect("a node")
    }

    fn decide(
        request: &CertificateSigningRequest,
        asked: &CertificateRequest,
        node: Option<&Node>,
    ) -> ApprovalDecision {
        super::decide(request, asked, node, &[], &Limits::default())
    }

    #[test]
    fn clients_are_approved_by_access_control_only() {
        let asked = asked(NODE, &[]);
        let new = request(
            KUBELET_CLIENT,
            "system:bootstrap:abcdef",
            "system:bootstrappers",
        );
        assert_eq!(decide(&new, &asked, None), ApprovalDecision::Ask(&[OTHER]));
        let renewal = request(KUBELET_CLIENT, NODE, "system:nodes");
        assert_eq!(
            decide(&renewal, &asked, None),
            ApprovalDecision::Ask(&[OWN, OTHER])
        );
        let person = request(super::super::CLIENT, "ann", "ops");
        assert_eq!(decide(&person, &asked, None), ApprovalDecision::Leave);
    }

    #[test]
    fn a_node_gets_a_serving_certificate_for_what_is_its_own_only() {
        let (node, own) = (node(), request(KUBELET_SERVING, NODE, "system:nodes"));
        let ask = |request, sans: &[&str]| decide(request, &asked(NODE, sans), Some(&node));
        assert_eq!(
            ask(&own, &["10.0.0.1", "n1", "HOST-1"]),
            ApprovalDecision::Approve(SERVING)
        );
        for foreign in ["10.0.0.2", "n2", "fd00::1"] {
            let decision = ask(&own, &["10.0.0.1", foreign]);
            assert!(
                matches!(decision, ApprovalDecision::Unvouched(_)),
                "{foreign}"
            );
        }
        let decision = ask(&own, &["10.0.0.1", "kubernetes.default.svc"]);
        assert!(
            matches!(decision, ApprovalDecision::Deny(_)),
            "{decision:?}"
        );
        assert_eq!(
            decide(&own, &asked(NODE, &["n1"]), None),
            ApprovalDecision::Wait
        );
        let other = request(KUBELET_SERVING, "system:node:n2", "system:nodes");
        assert_eq!(
            ask(&other, &["n1"]),
            ApprovalDecision::Leave,
            "in another node's name"
        );
        let outsider = request(KUBELET_SERVING, NODE, "system:authenticated");
        assert_eq!(
            ask(&outsider, &["n1"]),
            ApprovalDecision::Leave,
            "not in the group of nodes"
        );
    }

    #[test]
    fn what_is_decided_stays() {
        let mut request = request(KUBELET_SERVING, NODE, "system:nodes");
        request.status.conditions =
            serde_json::from_value(json!([{"type": "Denied", "status": "True"}]))
                .expect("conditions");
        assert_eq!(
            decide(&request, &asked(NODE, &["n1"]), Some(&node())),
            ApprovalDecision::Leave
        );
    }
}
