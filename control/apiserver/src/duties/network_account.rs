//! The service account as which agents read what network policy needs: where the
//! control plane is ours. Beside stock controllers an administrator makes it.

use std::time::Duration;

use control_access::NETWORK_ACCOUNT;
use control_types::status::Status;
use control_types::value;
use futures::FutureExt;

use super::{Duty, SETTLE, own};
use crate::api::Api;

pub(super) static DUTY: Duty = Duty {
    name: "network account",
    follows: &[("", "serviceaccounts")],
    every: Duration::from_secs(3600),
    settle: SETTLE,
    run: |api| run(api).boxed(),
    stop: None,
};

async fn run(api: &Api) -> Result<(), Status> {
    if !api.config.whole {
        return Ok(());
    }
    let (namespace, name) = NETWORK_ACCOUNT;
    let account = value!({
        "kind": "ServiceAccount",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace}
    });
    let resource = ("", "serviceaccounts");
    own::ensure(api, resource, own::OWN, account, |_, _| false).await
}
