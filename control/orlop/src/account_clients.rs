//! Clients of the controllers' service accounts, by tokens that are kept valid
//! (`--use-service-account-credentials`).

use std::{collections::BTreeMap, time::Duration};

use control_client::{Backoff, BearerToken, Client, Discard, Error as ClientError, resources};
use futures::future::join_all;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "kube-system";
/// The requested lifetime of tokens in seconds; the server may choose another one.
const LIFE: u32 = 3600;
/// How long after a failed attempt another one is made, at first and at most.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The client of an account, by the account's name.
pub type ByAccount = Box<dyn Fn(&'static str) -> Client + Send + Sync>;

/// Gets a token for each account that a controller acts as, and keeps them valid until
/// `shutdown`; waits for the first ones. `None` when the shutdown comes first.
pub async fn open(
    own: &Client,
    anonymous: &Client,
    shutdown: &CancellationToken,
) -> Option<ByAccount> {
    let mut names: Vec<&'static str> = control_controllers::CONTROLLERS
        .iter()
        .map(|controller| controller.service_account)
        .filter(|account| !account.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    let opening = join_all(names.into_iter().map(|name| async move {
        let (token, renew_in) = first(own, name).await;
        (name, token, renew_in)
    }));
    let opened = shutdown.run_until_cancelled(opening).await?;
    let mut clients = BTreeMap::new();
    for (name, token, renew_in) in opened {
        let client = anonymous.clone().bearing(token.clone()).named(name);
        let client = client.updating_through(own);
        clients.insert(name, client);
        let own = own.clone();
        control_supervise::task("service-account-token")
            .detail(name)
            .until(shutdown)
            .spawn_restarting(move || keep(own.clone(), name, token.clone(), renew_in));
    }
    let own = own.clone();
    Some(Box::new(move |name| {
        clients.get(name).cloned().unwrap_or_else(|| own.clone())
    }))
}

/// The first token of an account, and when it has to be renewed.
async fn first(own: &Client, name: &'static str) -> (BearerToken, Duration) {
    let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
    loop {
        match ask(own, name).await {
            Ok(given) => match BearerToken::new(&given.token) {
                Ok(token) => return (token, given.renew_in),
                Err(error) => {
                    tracing::warn!(account = name, %error, "failed to use a service account token");
                }
            },
            Err(error) => {
                let error = error.chain();
                tracing::warn!(account = name, error, "no token of the service account yet");
            }
        }
        tokio::time::sleep(backoff.after_failure()).await;
    }
}

/// Renews a token in time, and when the server refuses it. Never ends.
async fn keep(own: Client, name: &'static str, token: BearerToken, renew_in: Duration) {
    let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
    let mut wait = renew_in;
    loop {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = token.refused() => {
                // One after the other, should all be refused.
                tokio::time::sleep(backoff.after_failure()).await;
            }
        }
        wait = match ask(&own, name).await {
            Ok(given) => {
                if let Err(error) = token.replace(&given.token) {
                    tracing::warn!(account = name, %error, "failed to use a service account token");
                }
                backoff.reset();
                given.renew_in
            }
            Err(error) => {
                let error = error.chain();
                tracing::warn!(
                    account = name,
                    error,
                    "failed to renew the service account token"
                );
                backoff.after_failure()
            }
        };
    }
}

/// A token, and after which time it has to be renewed.
struct GivenToken {
    token: String,
    renew_in: Duration,
}

/// Asks for a token; makes the account where it is missing.
async fn ask(own: &Client, name: &str) -> Result<GivenToken, ClientError> {
    match request(own, name).await {
        Err(error) if error.is_not_found() => {}
        answered => return answered,
    }
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NAMESPACE},
    });
    let created: Result<Discard, _> = own
        .create(&resources::SERVICE_ACCOUNTS, NAMESPACE, &account)
        .await;
    match created {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => request(own, name).await,
    }
}

async fn request(own: &Client, name: &str) -> Result<GivenToken, ClientError> {
    #[derive(Deserialize)]
    struct Answer {
        status: Status,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        token: String,
        expiration_timestamp: Timestamp,
    }
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": LIFE},
    });
    let answer: Answer = own
        .create_subresource(
            &resources::SERVICE_ACCOUNTS,
            NAMESPACE,
            name,
            "token",
            &body,
        )
        .await?;
    let life = answer
        .status
        .expiration_timestamp
        .duration_since(Timestamp::now());
    // A clock that is ahead would ask without end.
    let life = Duration::try_from(life).unwrap_or_default();
    Ok(GivenToken {
        token: answer.status.token,
        renew_in: life.mul_f64(0.8).max(LONGEST_RETRY),
    })
}

#[cfg(test)]
mod tests;
