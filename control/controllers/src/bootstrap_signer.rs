//! Signs the kubeconfig in `kube-public/cluster-info`, which a joining machine reads
//! first, with each bootstrap token that may sign, so that the holder of a token
//! (`kubeadm join`) can verify the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use control_client::{Client, Discard, Queue, resources};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{BootstrapToken, ClusterInfo, seconds_now};
use crate::work::{self, Outcome};

const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";
/// The key of the signed content.
const KUBECONFIG: &str = "kubeconfig";
/// Prefix of the keys of signatures; the token's id follows.
const SIGNATURE: &str = "jws-kubeconfig-";

/// Signs the cluster's information.
pub const CONTROLLER: Controller = Controller {
    name: "bootstrap-signer-controller",
    service_account: "bootstrap-signer",
    start: |ctx| {
        let this = Arc::new(ClusterInfoSigner {
            client: ctx.client.clone(),
            tokens: ctx.bootstrap_tokens(),
            info: ctx.cluster_info(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.info
            .on_change(move |_| listener.queue.add(Key::new(NAMESPACE, NAME)));
        let listener = Arc::clone(&this);
        this.tokens
            .on_change(move |_| listener.queue.add(Key::new(NAMESPACE, NAME)));
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.info.ready().await;
            this.tokens.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue
                .run("bootstrap_signer_queue", 1, &shutdown, work)
                .await;
        })
    },
};

/// The signatures that `info` should have, by key; `None` when it has them or there is
/// nothing to sign.
fn signatures(
    info: &BTreeMap<String, String>,
    tokens: &[Arc<BootstrapToken>],
    now: Timestamp,
) -> Option<BTreeMap<String, String>> {
    let content = info.get(KUBECONFIG)?;
    let mut wanted = BTreeMap::new();
    for (id, secret) in tokens.iter().filter_map(|token| token.signing(now)) {
        let signature = detached_signature(content, &id, &secret);
        wanted
            .entry(format!("{SIGNATURE}{id}"))
            .or_insert(signature);
    }
    let has = info.iter().filter(|(key, _)| key.starts_with(SIGNATURE));
    (!has.eq(wanted.iter())).then_some(wanted)
}

/// A JWS of `content` by HMAC with SHA-256, without the content (RFC 7515, appendix F).
fn detached_signature(content: &str, id: &str, secret: &str) -> String {
    let header = json!({"alg": "HS256", "kid": id}).to_string();
    let header = URL_SAFE_NO_PAD.encode(header);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, signed.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag))
}

struct ClusterInfoSigner {
    client: Client,
    tokens: Arc<KindCache<BootstrapToken>>,
    info: Arc<KindCache<ClusterInfo>>,
    queue: Queue<Key>,
}

impl ClusterInfoSigner {
    async fn sync(&self, key: Key) -> Outcome {
        let Some(info) = self.info.by_key(&key) else {
            return Ok(None);
        };
        let Some(wanted) = signatures(&info.data, &self.tokens.all(), seconds_now()) else {
            return Ok(None);
        };
        // The whole object is replaced, since the role grants that alone.
        let fresh = self
            .client
            .get::<Value>(&resources::CONFIG_MAPS, NAMESPACE, NAME)
            .await;
        let mut fresh = match fresh {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        if fresh.pointer("/data/kubeconfig").and_then(Value::as_str)
            != info.data.get(KUBECONFIG).map(String::as_str)
        {
            // its event is on the way
            return Ok(None);
        }
        replace(&mut fresh, wanted);
        let written = self
            .client
            .update::<Discard>(&resources::CONFIG_MAPS, NAMESPACE, NAME, &fresh)
            .await;
        work::unless_gone(written)?;
        Ok(None)
    }
}

/// Puts signatures in the place of those that are there.
fn replace(object: &mut Value, signatures: BTreeMap<String, String>) {
    let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) else {
        return;
    };
    let old: BTreeSet<String> = data
        .keys()
        .filter(|key| key.starts_with(SIGNATURE))
        .cloned()
        .collect();
    for key in old {
        data.remove(&key);
    }
    data.extend(
        signatures
            .into_iter()
            .map(|(key, value)| (key, value.into())),
    );
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use control_client::Meta;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn token(name: &str, data: &[(&str, &str)]) -> Arc<BootstrapToken> {
        let data = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value)));
        Arc::new(BootstrapToken {
            metadata: Meta {
                name: name.into(),
                ..Meta::default()
            },
            data: data.collect(),
        })
    }

    const GOOD: [(&str, &str); 3] = [
        ("token-id", "abcdef"),
        ("token-secret", "0123456789abcdef"),
        ("usage-bootstrap-signing", "true"),
    ];

    #[test]
    fn signatures_equal_those_of_client_go() {
        // of k8s.io/cluster-bootstrap/token/jws
        let content = "Hello from the other side. I must have called a thousand times.";
        let secret = "my voice is my passcode";
        assert_eq!(
            detached_signature(content, "joshua", secret),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
        );
        assert_eq!(
            detached_signature("", "joshua", secret),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk"
        );
    }

    #[test]
    fn only_tokens_that_may_sign_do() {
        let signs = |name: &str, data: &[(&str, &str)]| token(name, data).signing(now()).is_some();
        assert!(signs("bootstrap-token-abcdef", &GOOD));
        assert!(!signs("bootstrap-token-other", &GOOD));
        assert!(!signs("other-abcdef", &GOOD));
        assert!(!signs("bootstrap-token-abcdef", &GOOD[..2]));
        assert!(!signs("bootstrap-token-abcdef", &GOOD[1..]));
        let until = |time: &'static str| {
            let mut data = GOOD.to_vec();
            data.push(("expiration", time));
            signs("bootstrap-token-abcdef", &data)
        };
        assert!(until("2026-01-01T00:00:01Z"));
        assert!(!until("2025-12-31T23:59:59Z"));
        assert!(!until("tomorrow"));
    }

    #[test]
    fn signatures_follow_the_tokens_and_the_content() {
        let tokens = [token("bootstrap-token-abcdef", &GOOD)];
        let mut info: BTreeMap<String, String> = [(KUBECONFIG.to_owned(), "a".to_owned())].into();
        let wanted = signatures(&info, &tokens, now()).unwrap();
        assert_eq!(wanted.keys().collect::<Vec<_>>(), ["jws-kubeconfig-abcdef"]);
        info.extend(wanted.clone());
        assert_eq!(signatures(&info, &tokens, now()), None);
        info.insert(KUBECONFIG.into(), "b".into());
        assert!(signatures(&info, &tokens, now()).is_some());
        assert_eq!(signatures(&info, &[], now()), Some(BTreeMap::new()));
        info.remove(KUBECONFIG);
        assert_eq!(signatures(&info, &tokens, now()), None);
        let mut object = json!({"data": {"kubeconfig": "a", "jws-kubeconfig-gone": "x", "y": "z"}});
        replace(&mut object, wanted);
        let keys: Vec<_> = object["data"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["jws-kubeconfig-abcdef", "kubeconfig", "y"]);
    }
}
