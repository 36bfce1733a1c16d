//! Fills Secrets of type `kubernetes.io/service-account-token` with a token of the
//! service account that they name, and removes them with it (KEP-2799: such Secrets are
//! no longer created automatically).

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_client::{
    Client, DeleteOptions, Discard, Meta, Preconditions, Queue, Resource, Selection, View,
};
use control_client::{Reflector, reflect, resources};
use control_types::error_chain;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::token_signer::TokenSigner;
use crate::views::ServiceAccount;
use crate::work::{self, Outcome};

const ACCOUNT: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

/// Maintains the tokens in these Secrets. Acts as the controller manager itself, as in
/// Kubernetes.
pub const CONTROLLER: Controller = Controller {
    name: "serviceaccount-token-controller",
    service_account: "",
    start: |ctx| {
        let shutdown = ctx.shutdown.clone();
        let Some(signer) = ctx.config.token_signer.clone() else {
            return Box::pin(async move { shutdown.cancelled().await });
        };
        let selection = Selection::all().fields("type=kubernetes.io/service-account-token");
        let this = Arc::new(Tokens {
            client: ctx.client.clone(),
            signer,
            authority: ctx.config.root_ca_pem.clone().unwrap_or_default(),
            secrets: reflect(&ctx.client, selection),
            accounts: ctx.service_accounts(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.accounts.on_change(move |change| {
            // The creation or deletion of an account affects its Secrets.
            let uid = |account: &Option<Arc<ServiceAccount>>| {
                account.as_ref().map(|it| it.metadata.uid.clone())
            };
            if uid(&change.previous) == uid(&change.current) {
                return;
            }
            let Some(account) = change.latest() else {
                return;
            };
            let (namespace, name) = (&account.metadata.namespace, &account.metadata.name);
            for secret in listener.secrets.cache().snapshot().namespace(namespace) {
                if secret.account() == Some(name.as_str()) {
                    listener.queue.add(Key::from_meta(&secret.metadata));
                }
            }
        });
        Box::pin(async move {
            this.accounts.ready().await;
            let mut changes = this.secrets.changes();
            let told = async {
                while let Some(change) = changes.recv().await {
                    if let Some(secret) = &change.current {
                        this.queue.add(Key::from_meta(&secret.metadata));
                    }
                }
            };
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            tokio::select! {
                () = told => {}
                () = this.queue.run("serviceaccount-token", 2, &shutdown, work) => {}
            }
        })
    },
};

/// A Secret for a service account token.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct AccountTokenSecret {
    metadata: Meta,
    data: Option<BTreeMap<String, String>>,
}

impl View for AccountTokenSecret {
    const RESOURCE: Resource = resources::SECRETS;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl AccountTokenSecret {
    fn annotation(&self, wanted: &str) -> Option<&str> {
        self.metadata.annotations.get(wanted)
    }

    /// The account that it names.
    fn account(&self) -> Option<&str> {
        self.annotation(ACCOUNT).filter(|name| !name.is_empty())
    }

    fn holds(&self, key: &str) -> &str {
        let data = self.data.as_ref().and_then(|data| data.get(key));
        data.map_or("", String::as_str)
    }
}

struct Tokens {
    client: Client,
    signer: TokenSigner,
    authority: String,
    secrets: Reflector<AccountTokenSecret>,
    accounts: Arc<KindCache<ServiceAccount>>,
    queue: Queue<Key>,
}

/// The next write to a Secret.
#[derive(Debug, PartialEq, Eq)]
enum TokenAction {
    Nothing,
    /// Its account does not exist, or is another of the same name.
    Delete,
    /// These entries are missing or wrong.
    Fill {
        authority: bool,
        namespace: bool,
        token: bool,
    },
}

/// Decides what a Secret needs, given the uid of the account that it names.
fn decide(secret: &AccountTokenSecret, account: Option<&str>, authority: &str) -> TokenAction {
    if secret.account().is_none() || secret.metadata.is_terminating() {
        return TokenAction::Nothing;
    }
    let wanted = secret.annotation(UID).filter(|uid| !uid.is_empty());
    let Some(uid) = account.filter(|uid| wanted.is_none_or(|wanted| wanted == *uid)) else {
        return TokenAction::Delete;
    };
    debug_assert!(!uid.is_empty());
    let authority = !authority.is_empty() && secret.holds("ca.crt") != STANDARD.encode(authority);
    let namespace = secret.holds("namespace").is_empty();
    let token = secret.holds("token").is_empty();
    if authority || namespace || token {
        return TokenAction::Fill {
            authority,
            namespace,
            token,
        };
    }
    TokenAction::Nothing
}

impl Tokens {
    async fn sync(&self, key: Key) -> Outcome {
        let cache = self.secrets.cache();
        let Some(secret) = cache.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let Some(account) = secret.account() else {
            return Ok(None);
        };
        let cached = self.accounts.get(&key.namespace, account);
        let cached = cached.map(|account| account.metadata.uid.to_string());
        if decide(&secret, cached.as_deref(), &self.authority) == TokenAction::Nothing {
            return Ok(None);
        }
        // The cache may lag behind a deletion or creation of the account, so nothing is
        // deleted or signed without reading it from the server.
        let uid = self.live_uid(&key.namespace, account).await?;
        match decide(&secret, uid.as_deref(), &self.authority) {
            TokenAction::Nothing => Ok(None),
            TokenAction::Delete => {
                // for the Secret as it was judged
                let options = DeleteOptions {
                    preconditions: Some(Preconditions {
                        uid: Some(secret.metadata.uid.to_string()),
                        resource_version: Some(secret.metadata.resource_version.to_string()),
                    }),
                    ..DeleteOptions::default()
                };
                let deleted = self
                    .client
                    .delete(&resources::SECRETS, &key.namespace, &key.name, &options)
                    .await;
                match deleted {
                    Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
                    _ => Ok(None),
                }
            }
            TokenAction::Fill {
                authority,
                namespace,
                token,
            } => {
                let missing = [
                    ("ca.crt", authority),
                    ("namespace", namespace),
                    ("token", token),
                ];
                self.fill(&key, &secret, uid.as_deref().unwrap_or_default(), &missing)
                    .await
            }
        }
    }

    /// Reads the uid of an account from the API server.
    async fn live_uid(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<String>, control_client::Error> {
        let found: Result<ServiceAccount, _> = self
            .client
            .get(&resources::SERVICE_ACCOUNTS, namespace, name)
            .await;
        match found {
            Ok(account) => Ok(Some(account.metadata.uid.to_string())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the missing entries into the current Secret; does nothing if it is no
    /// longer the Secret that was judged.
    async fn fill(
        &self,
        key: &Key,
        seen: &AccountTokenSecret,
        uid: &str,
        missing: &[(&str, bool)],
    ) -> Outcome {
        let (namespace, account) = (&*key.namespace, seen.account().unwrap_or_default());
        let mut now: Value = match self
            .client
            .get(&resources::SECRETS, namespace, &key.name)
            .await
        {
            Ok(now) => now,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        if now["metadata"]["resourceVersion"] != json!(seen.metadata.resource_version.as_str()) {
            // The watch delivers the change to us, too.
            return Ok(None);
        }
        for (entry, _) in missing.iter().filter(|(_, is)| *is) {
            let text = match *entry {
                "ca.crt" => self.authority.clone(),
                "namespace" => namespace.to_owned(),
                _ => match (self.signer.0)(namespace, account, uid, &key.name) {
                    Ok(token) => token,
                    Err(error) => {
                        let error = error_chain(&error);
                        tracing::error!(%key, error, "failed to sign a token");
                        return Ok(None);
                    }
                },
            };
            now["data"][*entry] = json!(STANDARD.encode(text));
        }
        now["metadata"]["annotations"][UID] = json!(uid);
        let written = self
            .client
            .update::<Discard>(&resources::SECRETS, namespace, &key.name, &now)
            .await;
        match written {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::fake_api::FakeApi;

    fn secret(annotations: Value, data: Value) -> AccountTokenSecret {
        let secret = json!({"metadata": {"name": "s", "annotations": annotations}, "data": data});
        serde_json::from_value(secret).expect("a secret")
    }

    #[test]
    fn a_secret_is_filled_for_its_account_and_goes_with_it() {
        let named = json!({ACCOUNT: "robot"});
        let empty = secret(named.clone(), Value::Null);
        let all = TokenAction::Fill {
            authority: true,
            namespace: true,
            token: true,
        };
        assert_eq!(decide(&empty, Some("u1"), "pem"), all);
        assert_eq!(decide(&empty, None, "pem"), TokenAction::Delete);
        let full = json!({"token": "eA==", "namespace": "YQ==", "ca.crt": STANDARD.encode("pem")});
        assert_eq!(
            decide(&secret(named.clone(), full.clone()), Some("u1"), "pem"),
            TokenAction::Nothing
        );
        assert_eq!(
            decide(&secret(named, full.clone()), Some("u1"), "new"),
            TokenAction::Fill {
                authority: true,
                namespace: false,
                token: false
            }
        );
        let of_other = secret(json!({ACCOUNT: "robot", UID: "u0"}), full.clone());
        assert_eq!(decide(&of_other, Some("u1"), "pem"), TokenAction::Delete);
        assert_eq!(
            decide(&secret(json!({}), full), None, "pem"),
            TokenAction::Nothing
        );
    }

    const SECRET: &str = "/api/v1/namespaces/n/secrets/s";
    const ROBOT: &str = "/api/v1/namespaces/n/serviceaccounts/robot";

    /// Runs the controller against a server whose watches show the account with
    /// the uid `old`, while there is one with the uid `new`.
    async fn with_stale_account(secret: Value) -> (FakeApi, tokio::task::JoinSet<()>) {
        let api = FakeApi::new();
        api.put(ROBOT, json!({"metadata": {"uid": "old"}}));
        api.put(SECRET, secret);
        let config = Config {
            token_signer: Some(TokenSigner(Arc::new(|_, _, uid, _| Ok(uid.to_owned())))),
            ..Config::default()
        };
        api.answer_with(|request| {
            let live = request.method == http::Method::GET && request.path == ROBOT;
            live.then(|| (200, json!({"metadata": {"name": "robot", "uid": "new"}})))
        });
        let running = api.run(&CONTROLLER, config);
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        (api, running)
    }

    #[tokio::test(start_paused = true)]
    async fn secret_of_an_account_that_was_made_again_is_not_removed_by_a_stale_cache() {
        let secret = json!({"metadata": {"annotations": {ACCOUNT: "robot", UID: "new"}},
            "type": "kubernetes.io/service-account-token",
            "data": {"token": "eA==", "namespace": "YQ=="}});
        let (api, _running) = with_stale_account(secret).await;
        assert!(api.object(SECRET).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn token_is_signed_for_the_account_that_there_is() {
        let secret = json!({"metadata": {"annotations": {ACCOUNT: "robot"}}});
        let (api, _running) = with_stale_account(secret).await;
        let secret = api.object(SECRET).expect("still there");
        assert_eq!(secret["metadata"]["annotations"][UID], "new");
        assert_eq!(secret["data"]["token"], STANDARD.encode("new"));
    }

    #[tokio::test(start_paused = true)]
    async fn secret_of_an_account_that_is_gone_is_removed() {
        let api = FakeApi::new();
        api.put(ROBOT, json!({"metadata": {"uid": "u"}}));
        api.put(
            SECRET,
            json!({"metadata": {"annotations": {ACCOUNT: "robot", UID: "u"}},
            "data": {"token": "eA==", "namespace": "YQ=="}}),
        );
        let config = Config {
            token_signer: Some(TokenSigner(Arc::new(
                |_, _, _, _| -> Result<String, control_pki::Error> { unreachable!("not asked") },
            ))),
            ..Config::default()
        };
        let _running = api.run(&CONTROLLER, config);
        let second = std::time::Duration::from_secs(1);
        tokio::time::sleep(second).await;
        assert!(api.object(SECRET).is_some());
        api.remove(ROBOT);
        tokio::time::sleep(second).await;
        assert_eq!(api.object(SECRET), None);
    }
}
