//! Which API servers are alive: each keeps a key in the store that would vanish
//! with it, where stock API servers keep theirs.

use std::net::IpAddr;
use std::time::Duration;

use control_store::{Precondition, Range, Write};
use control_types::status::Status;
use control_types::value;

use super::context::HookContext;
use control_registry::store_error;

/// Where the keys are; the last part is an address.
const PREFIX: &str = "/registry/masterleases/";
/// How long a key outlives its server.
const LASTS: Duration = Duration::from_secs(15);

/// Says that this server is alive.
pub(super) async fn announce(context: &HookContext) -> Result<(), Status> {
    let address = context.address.ip().to_string();
    let object = value!({
        "kind": "Endpoints",
        "apiVersion": "v1",
        "metadata": {},
        "subsets": [{"addresses": [{"ip": (address.as_str())}]}]
    });
    let write = Write::Put {
        value: control_strategy::protobuf::tree(&object)?.into(),
        ttl: Some(LASTS),
    };
    put(context, &address, write).await
}

/// Says that this server is gone.
pub(super) async fn withdraw(context: &HookContext) -> Result<(), Status> {
    let address = context.address.ip().to_string();
    put(context, &address, Write::Delete).await
}

async fn put(context: &HookContext, address: &str, write: Write) -> Result<(), Status> {
    let key = format!("{PREFIX}{address}").into();
    let written = context.store().write(key, Precondition::Any, write).await;
    written.map(drop).map_err(|error| store_error(&error))
}

/// The addresses of all servers that are alive, sorted as text.
pub(super) async fn alive(context: &HookContext) -> Result<Vec<IpAddr>, Status> {
    let page = context.store().range(Range::prefix(PREFIX)).await;
    let page = page.map_err(|error| store_error(&error))?;
    let mut all: Vec<IpAddr> = page
        .kvs
        .iter()
        .filter_map(|kv| std::str::from_utf8(&kv.key).ok())
        .filter_map(|key| key.strip_prefix(PREFIX)?.parse().ok())
        .collect();
    all.sort_by_key(ToString::to_string);
    all.dedup();
    Ok(all)
}
