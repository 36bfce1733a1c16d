//! Since when the use of long-lived service account tokens is noted (KEP-2799):
//! controllers that clean them up wait a year from then.

use std::time::Duration;

use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use futures::FutureExt;

use super::PostStartHook;
use control_registry::{Registry, own};

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("token tracking", Duration::from_secs(3600), |context| {
        run(context).boxed()
    });

/// How a day is written.
const DAY: &str = "%Y-%m-%d";

async fn run(registry: &Registry) -> Result<(), Status> {
    let today = jiff::Timestamp::now().strftime(DAY).to_string();
    let object = value!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "name": "kube-apiserver-legacy-service-account-token-tracking",
            "namespace": "kube-system"
        },
        "data": {"since": (today.as_str())}
    });
    own::ensure(
        registry,
        ("", "configmaps"),
        own::OWN,
        object,
        |stored, _| mend(stored, &today),
    )
    .await
}

/// A day that cannot be read, or lies ahead, is set anew.
fn mend(stored: &mut Value, today: &str) -> bool {
    let since = stored.str_at(&["data", "since"]).unwrap_or_default();
    let valid = since.parse::<jiff::civil::Date>().is_ok() && since <= today;
    if !valid {
        stored.set_path(&["data", "since"], today);
    }
    !valid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_in_the_past_stays() {
        let map = |since: &str| value!({"data": {"since": since}});
        assert!(!mend(&mut map("2020-02-29"), "2026-01-01"));
        for wrong in ["", "yesterday", "2026-01-02", "2021-02-29"] {
            let mut stored = map(wrong);
            assert!(mend(&mut stored, "2026-01-01"), "{wrong}");
            assert_eq!(stored, map("2026-01-01"));
        }
    }
}
