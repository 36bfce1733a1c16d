//! Signs approved requests: client certificates with the cluster's authority, kubelets'
//! serving certificates with an authority of their own.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_client::{Client, Queue};
use control_pki::{Authority, CertificateRequest, Usage};

use super::{CLIENT, KUBELET_CLIENT, KUBELET_SERVING, add_condition, change, kubelet};
use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::CertificateSigningRequest;
use crate::work::{self, Outcome};

/// The shortest life of a certificate: twice what clocks may differ by.
const SHORTEST: Duration = Duration::from_secs(600);

/// Signs approved requests.
pub const CONTROLLER: Controller = Controller {
    name: "certificatesigningrequest-signing-controller",
    service_account: "certificate-controller",
    start: |ctx| {
        let Some(authority) = ctx.config.authority.clone() else {
            let shutdown = ctx.shutdown.clone();
            return Box::pin(async move { shutdown.cancelled().await });
        };
        let this = Arc::new(CertificateSigner {
            client: ctx.client.clone(),
            requests: ctx.certificate_requests(),
            authority,
            kubelet_authority: ctx.config.kubelet_authority.clone(),
            longest: ctx.config.certificate_life,
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.requests.on_change(move |change| {
            if let Some(request) = &change.current
                && request.has("Approved")
            {
                listener.queue.add(Key::from_meta(&request.metadata));
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.requests.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("csr-signing", 2, &shutdown, work).await;
        })
    },
};

struct CertificateSigner {
    client: Client,
    requests: Arc<KindCache<CertificateSigningRequest>>,
    authority: Arc<Authority>,
    kubelet_authority: Option<Arc<Authority>>,
    longest: Duration,
    queue: Queue<Key>,
}

/// The decision on an approved request.
#[derive(Debug, PartialEq, Eq)]
enum SigningDecision {
    /// It is not ours, not approved, or done.
    Leave,
    /// It is not what its signer signs, for this reason.
    Fail(&'static str),
    /// It is signed for this use and time.
    Sign(Usage, Duration),
}

fn decide(
    request: &CertificateSigningRequest,
    asked: &CertificateRequest,
    longest: Duration,
) -> SigningDecision {
    if !request.has("Approved")
        || request.has("Denied")
        || request.has("Failed")
        || !request.status.certificate.is_empty()
    {
        return SigningDecision::Leave;
    }
    let usage = match request.spec.signer_name.as_str() {
        CLIENT | KUBELET_CLIENT => Usage::Client,
        KUBELET_SERVING => Usage::Server,
        _ => return SigningDecision::Leave,
    };
    if let Some(fault) = kubelet::fault(request, asked) {
        return SigningDecision::Fail(fault);
    }
    let wanted = request.spec.expiration_seconds;
    let life = wanted.map_or(longest, |seconds| {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        Duration::from_secs(seconds).max(SHORTEST).min(longest)
    });
    SigningDecision::Sign(usage, life)
}

impl CertificateSigner {
    /// Returns the authority that signs certificates for `usage`, if there is one. The
    /// cluster's own authority never signs a serving certificate on request: clients accept
    /// it for the API server.
    fn authority(&self, usage: Usage) -> Option<&Authority> {
        match usage {
            Usage::Client => Some(&self.authority),
            Usage::Server | Usage::Both => self.kubelet_authority.as_deref(),
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(request) = self.requests.by_key(&key) else {
            return Ok(None);
        };
        let fail = async |why: &str| {
            tracing::warn!(request = %key, why, "certificate not signed");
            change(&self.client, &request, "status", |object| {
                add_condition(object, "Failed", "SignerValidationFailure", why);
            })
            .await
            .map(|()| None)
        };
        let Some(asked) = request.read() else {
            return Ok(None);
        };
        match decide(&request, &asked, self.longest) {
            SigningDecision::Leave => Ok(None),
            SigningDecision::Fail(why) => fail(why).await,
            SigningDecision::Sign(usage, life) => {
                let Some(authority) = self.authority(usage) else {
                    return Ok(None);
                };
                match authority.sign(&asked, usage, life) {
                    // Trying again would not help.
                    Err(error) => fail(&error.to_string()).await,
                    Ok(pem) => {
                        change(&self.client, &request, "status", |object| {
                            object["status"]["certificate"] = STANDARD.encode(&pem).into();
                        })
                        .await?;
                        tracing::info!(request = %key, subject = %asked.cn, "certificate signed");
                        Ok(None)
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use control_pki::Request;
    use serde_json::{Value, json};

    use super::*;
    use crate::Config;
    use crate::fake_api::FakeApi;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

    fn request(signer: &str, seconds: Value, status: Value) -> CertificateSigningRequest {
        serde_json::from_value(
            json!({"spec": {"signerName": signer, "expirationSeconds": seconds,
            "usages": ["digital signature", "client auth"]}, "status": status}),
        )
        .expect("a request")
    }

    fn run(request: &CertificateSigningRequest) -> SigningDecision {
        let asked = Request::new("system:node:n1", &["system:nodes"], &[]).expect("a request");
        let asked = CertificateRequest::parse(asked.request_pem.as_bytes()).expect("read");
        decide(request, &asked, YEAR)
    }

    #[test]
    fn only_what_is_approved_and_not_done_is_signed() {
        let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
        let sign = |status| run(&request(KUBELET_CLIENT, Value::Null, status));
        assert_eq!(sign(json!({})), SigningDecision::Leave);
        assert_eq!(
            sign(approved.clone()),
            SigningDecision::Sign(Usage::Client, YEAR)
        );
        let failed = json!({"conditions": [{"type": "Approved", "status": "True"},
            {"type": "Failed", "status": "True"}]});
        assert_eq!(sign(failed), SigningDecision::Leave);
        let mut done = approved.clone();
        done["certificate"] = "QQ==".into();
        assert_eq!(sign(done), SigningDecision::Leave);
        let foreign = request("example.com/signer", Value::Null, approved.clone());
        assert_eq!(run(&foreign), SigningDecision::Leave);
        let wrong = request(KUBELET_SERVING, Value::Null, approved);
        assert!(matches!(run(&wrong), SigningDecision::Fail(_)));
    }

    #[test]
    fn a_shorter_life_is_granted_and_a_longer_one_is_not() {
        let life = |seconds: i64| {
            let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
            match run(&request(KUBELET_CLIENT, seconds.into(), approved)) {
                SigningDecision::Sign(_, life) => life.as_secs(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(life(3600), 3600);
        assert_eq!(life(1), 600);
        assert_eq!(life(i64::from(i32::MAX)), YEAR.as_secs());
    }

    /// Runs the controller with an approved request for a kubelet's serving certificate.
    /// Returns the certificate.
    async fn serving_certificate(
        authority: &Arc<Authority>,
        kubelet_authority: Option<&Arc<Authority>>,
    ) -> Option<String> {
        const REQUEST: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/r";
        let sans = ["n1".to_owned()];
        let request = Request::new("system:node:n1", &["system:nodes"], &sans).expect("made");
        let api = FakeApi::new();
        api.put(
            REQUEST,
            json!({"spec": {"signerName": KUBELET_SERVING, "username": "system:node:n1",
                "request": STANDARD.encode(&request.request_pem),
                "usages": ["digital signature", "server auth"]},
                "status": {"conditions": [{"type": "Approved", "status": "True"}]}}),
        );
        let config = Config {
            authority: Some(Arc::clone(authority)),
            kubelet_authority: kubelet_authority.cloned(),
            ..Config::default()
        };
        let _running = api.run(&CONTROLLER, config);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let request = api.object(REQUEST).expect("stored");
        let certificate = request["status"]["certificate"].as_str()?;
        let pem = STANDARD.decode(certificate).expect("base64");
        Some(String::from_utf8(pem).expect("PEM"))
    }

    #[tokio::test(start_paused = true)]
    async fn cluster_authority_never_signs_a_serving_certificate() {
        let authority = |name: &str| Arc::new(Authority::create(name).expect("an authority"));
        let (cluster, kubelets) = (authority("cluster"), authority("kubelets"));
        let certificate = serving_certificate(&cluster, Some(&kubelets)).await;
        let certificate = certificate.expect("signed");
        let by = |authority: &Authority| {
            control_pki::is_signed_by(&certificate, authority.certificate_pem()).expect("read")
        };
        assert!(by(&kubelets) && !by(&cluster));
        assert_eq!(serving_certificate(&cluster, None).await, None);
    }
}
