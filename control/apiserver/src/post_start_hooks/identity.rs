//! This server's name, for everybody to see which API servers there are: a
//! Lease in kube-system (KEP-1965); and the end of the Leases of servers that
//! are gone.

use std::time::Duration;

use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, time, value};
use futures::FutureExt;
use sha2::{Digest, Sha256};

use super::PostStartHook;
use super::context::HookContext;
use crate::features::Feature;
use control_registry::own;

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("identity", Duration::from_secs(10), |context| {
        run(context).boxed()
    });

pub(super) static COLLECTION: PostStartHook =
    PostStartHook::new("identities of others", LASTS, |context| {
        collect(context).boxed()
    });

const GROUP: &str = "coordination.k8s.io";
const LABEL: &str = "apiserver.kubernetes.io/identity";
const KIND: &str = "kube-apiserver";
/// How long a Lease is good for.
const LASTS: Duration = Duration::from_secs(3600);

/// The name of the server on a host: the same after every start.
fn name_of(host: &str) -> String {
    /// RFC 4648 base32, in lower case.
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    // Host and program, each with its length before it.
    let mut hash = Sha256::new();
    for part in [host, KIND] {
        hash.update(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let mut name = String::from("apiserver-");
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in &digest[..16] {
        bits = (bits << 8) | u32::from(*byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            name.push(char::from(LETTERS[(bits >> held) as usize & 31]));
        }
        bits &= (1 << held) - 1;
    }
    if held > 0 {
        name.push(char::from(LETTERS[(bits << (5 - held)) as usize & 31]));
    }
    name
}

async fn run(context: &HookContext) -> Result<(), Status> {
    if !context.gates.enabled(Feature::APIServerIdentity) {
        return Ok(());
    }
    let host = host();
    let name = name_of(&host);
    let address = context.address;
    let object = value!({
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {
            "name": (name.as_str()),
            "namespace": "kube-system",
            "labels": {LABEL: KIND, "kubernetes.io/hostname": (host.as_str())},
            "annotations": {"kubernetes.io/peer-advertise-address": (address.to_string())}
        },
        "spec": {
            "holderIdentity": (format!("{name}_{}", context.instance)),
            "leaseDurationSeconds": (LASTS.as_secs()),
            "renewTime": (time::now_micro().as_str())
        }
    });
    own::ensure(
        context,
        (GROUP, "leases"),
        own::OWN,
        object,
        |stored, wanted| {
            for member in ["labels", "annotations"] {
                let wanted = wanted.path(&["metadata", member]).cloned();
                stored.set_path(&["metadata", member], wanted.unwrap_or_default());
            }
            stored.insert("spec", wanted.get("spec").cloned().unwrap_or_default());
            true
        },
    )
    .await
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "localhost".into(), |name| name.trim().to_lowercase())
}

async fn collect(context: &HookContext) -> Result<(), Status> {
    let served = context.resource(GROUP, "leases")?;
    let state = served.cache()?.state();
    let now = jiff::Timestamp::now();
    for object in state.objects.prefixed("kube-system/") {
        if object.label(LABEL) != Some(KIND) {
            continue;
        }
        let lease = object.value().map_err(Status::internal)?;
        if has_ended(&lease, now) {
            let key = served.key(meta::namespace(&lease), meta::name(&lease));
            own::delete(context, served, &key).await?;
        }
    }
    Ok(())
}

/// Whether a Lease was not renewed in time; one that does not say when it ends
/// has ended.
fn has_ended(lease: &Value, now: jiff::Timestamp) -> bool {
    let renewed = lease.str_at(&["spec", "renewTime"]).and_then(time::parse);
    let seconds = lease.i64_at(&["spec", "leaseDurationSeconds"]);
    let (Some(renewed), Some(seconds)) = (renewed, seconds) else {
        return true;
    };
    renewed
        .checked_add(jiff::SignedDuration::from_secs(seconds))
        .is_ok_and(|end| end < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_follows_from_the_host_alone() {
        assert_eq!(name_of("vm"), "apiserver-wlv32tlttr4jl3gtroqexyxapa");
    }

    #[test]
    fn leases_end_when_they_are_not_renewed() {
        let lease = value!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 60}});
        let at = |text: &str| time::parse(text).expect("a time");
        assert!(!has_ended(&lease, at("2026-01-01T00:01:00Z")));
        assert!(has_ended(&lease, at("2026-01-01T00:01:01Z")));
        assert!(has_ended(&value!({"spec": {}}), at("2026-01-01T00:00:00Z")));
    }
}
