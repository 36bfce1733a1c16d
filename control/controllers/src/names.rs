//! The names of controllers in `--controllers`: those of kube-controller-manager.

/// Older names that kube-controller-manager accepts.
const ALIASES: &[(&str, &str)] = &[
    ("attachdetach", "persistentvolume-attach-detach-controller"),
    ("bootstrapsigner", "bootstrap-signer-controller"),
    (
        "clusterrole-aggregation",
        "clusterrole-aggregation-controller",
    ),
    ("cronjob", "cronjob-controller"),
    (
        "csrapproving",
        "certificatesigningrequest-approving-controller",
    ),
    ("csrcleaner", "certificatesigningrequest-cleaner-controller"),
    ("csrsigning", "certificatesigningrequest-signing-controller"),
    ("daemonset", "daemonset-controller"),
    ("deployment", "deployment-controller"),
    ("disruption", "disruption-controller"),
    ("endpoint", "endpoints-controller"),
    ("endpointslice", "endpointslice-controller"),
    (
        "endpointslicemirroring",
        "endpointslice-mirroring-controller",
    ),
    ("ephemeral-volume", "ephemeral-volume-controller"),
    ("garbagecollector", "garbage-collector-controller"),
    (
        "horizontalpodautoscaling",
        "horizontal-pod-autoscaler-controller",
    ),
    ("job", "job-controller"),
    (
        "legacy-service-account-token-cleaner",
        "legacy-serviceaccount-token-cleaner-controller",
    ),
    ("namespace", "namespace-controller"),
    ("nodeipam", "node-ipam-controller"),
    ("nodelifecycle", "node-lifecycle-controller"),
    (
        "persistentvolume-binder",
        "persistentvolume-binder-controller",
    ),
    (
        "persistentvolume-expander",
        "persistentvolume-expander-controller",
    ),
    ("podgc", "pod-garbage-collector-controller"),
    ("pv-protection", "persistentvolume-protection-controller"),
    (
        "pvc-protection",
        "persistentvolumeclaim-protection-controller",
    ),
    ("replicaset", "replicaset-controller"),
    ("replicationcontroller", "replicationcontroller-controller"),
    ("resource-claim-controller", "resourceclaim-controller"),
    ("resourcequota", "resourcequota-controller"),
    (
        "root-ca-cert-publisher",
        "root-ca-certificate-publisher-controller",
    ),
    ("service", "service-lb-controller"),
    ("cloud-node-lifecycle", "cloud-node-lifecycle-controller"),
    ("route", "node-route-controller"),
    ("serviceaccount", "serviceaccount-controller"),
    ("serviceaccount-token", "serviceaccount-token-controller"),
    ("statefulset", "statefulset-controller"),
    (
        "storage-version-gc",
        "storageversion-garbage-collector-controller",
    ),
    ("svm", "storage-version-migrator-controller"),
    ("tokencleaner", "token-cleaner-controller"),
    ("ttl", "ttl-controller"),
    ("ttl-after-finished", "ttl-after-finished-controller"),
];

/// Controllers of kube-controller-manager that may be named and do nothing here: those of
/// a cloud, which its own controller manager runs, and those of alpha features.
const WITHOUT_WORK: &[&str] = &[
    "cloud-node-lifecycle-controller",
    "node-route-controller",
    "podgroup-protection-controller",
    "resourcepoolstatusrequest-controller",
    "service-lb-controller",
];

/// Controllers that `*` does not select.
const OFF_BY_DEFAULT: &[&str] = &["selinux-warning-controller"];

/// The present name of a controller.
fn canonical(name: &str) -> &str {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    alias.map_or(name, |(_, name)| name)
}

/// Whether a list can name it: a controller of `known` or one without work here, with or
/// without the sign that excludes it.
pub fn is_known(entry: &str, mut known: impl Iterator<Item = &'static str>) -> bool {
    let name = canonical(entry.strip_prefix('-').unwrap_or(entry));
    entry == "*" || WITHOUT_WORK.contains(&name) || known.any(|one| one == name)
}

/// Whether a list selects a controller: the first entry that names it decides, then `*`.
pub fn selects(list: &[String], name: &str) -> bool {
    let named = list.iter().find_map(|entry| {
        let excluded = entry.strip_prefix('-');
        let entry = excluded.unwrap_or(entry);
        (canonical(entry) == name).then_some(excluded.is_none())
    });
    named
        .unwrap_or_else(|| list.iter().any(|entry| entry == "*") && !OFF_BY_DEFAULT.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CONTROLLERS;

    fn selected(list: &[&str], name: &str) -> bool {
        let list: Vec<String> = list.iter().map(ToString::to_string).collect();
        selects(&list, name)
    }

    #[test]
    fn aliases_name_controllers() {
        let known = || CONTROLLERS.iter().map(|controller| controller.name);
        for (alias, name) in ALIASES {
            assert!(is_known(alias, known()), "{alias}");
            assert!(is_known(&format!("-{name}"), known()), "{name}");
        }
        assert!(!is_known("deploy", known()));
        assert!(!is_known("-*", known()));
    }

    #[test]
    fn first_entry_that_names_a_controller_decides() {
        let name = "deployment-controller";
        assert!(selected(&["*"], name));
        assert!(!selected(&["*", "-deployment"], name));
        assert!(selected(&["deployment", "-deployment-controller"], name));
        assert!(!selected(&["job"], name));
    }

    #[test]
    fn controllers_that_are_off_by_default_must_be_named() {
        let name = "selinux-warning-controller";
        assert!(!selected(&["*"], name));
        assert!(selected(&["*", name], name));
    }
}
