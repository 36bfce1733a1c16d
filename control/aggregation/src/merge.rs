//! Groups of other servers among those of this one, in discovery.
//!
//! Groups stand in the order of their priority, then by name; versions of a group
//! likewise, the newer before the older. The order among this server's own groups
//! stays as it is.

use control_types::value::{Map, Value};
use control_types::{meta, object};

use crate::aggregator::Snapshot;
use crate::discover;
use crate::registration::local_priority;
use crate::remote::Order;

/// Which document groups are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `APIGroup`: names of versions.
    Names,
    /// `APIGroupDiscovery`: versions with their resources.
    Whole,
}

/// Puts the groups of other servers among `items`.
pub fn merge(items: &mut Vec<Value>, others: &Snapshot, form: Form) {
    let local: Vec<String> = items
        .iter()
        .map(|item| form.name(item).to_owned())
        .collect();
    let priority = |group: &str| {
        let own = local.iter().any(|name| name == group);
        let own = own.then(|| local_priority(group, None).0);
        let theirs = others.of_group(group).iter().map(|one| one.group_priority);
        theirs.chain(own).max().unwrap_or_default()
    };
    let mut groups: Vec<&str> = others.remotes.keys().map(String::as_str).collect();
    groups.retain(|group| !group.is_empty());
    groups.sort_unstable();
    for group in groups {
        let own = items.iter().position(|item| form.name(item) == group);
        let own = own.map(|at| items.remove(at));
        let joined = join(group, own, others, form);
        let place = (-priority(group), group);
        let at = items
            .iter()
            .position(|item| place < (-priority(form.name(item)), form.name(item)));
        items.insert(at.unwrap_or(items.len()), joined);
    }
}

/// A group with the versions that other servers have of it; `own`: as this
/// server has it, if it does.
pub fn join(group: &str, own: Option<Value>, others: &Snapshot, form: Form) -> Value {
    let remotes = others.of_group(group);
    let mut versions: Vec<(i64, String, Value)> = Vec::new();
    for one in own.iter().flat_map(|own| own.items_at(&["versions"])) {
        let version = one.str_at(&["version"]).unwrap_or_default();
        if remotes.iter().all(|remote| remote.version != version) {
            let priority = local_priority(group, Some(version)).1;
            versions.push((priority, version.to_owned(), one.clone()));
        }
    }
    for remote in remotes {
        let entry = match form {
            Form::Names => Value::Object(object!({
                "groupVersion": (meta::join_api_version(group, &remote.version)),
                "version": (remote.version.as_str())
            })),
            Form::Whole => discover::entry(remote),
        };
        versions.push((remote.version_priority, remote.version.clone(), entry));
    }
    versions.sort_by(|a, b| {
        let order = |one: &(i64, String, Value)| (one.0, one.1.clone());
        let ((a, left), (b, right)) = (order(a), order(b));
        let (left, right) = (left.as_str(), right.as_str());
        Order {
            priority: a,
            version: left,
        }
        .cmp(&Order {
            priority: b,
            version: right,
        })
    });
    let first = versions.first().map(|(.., entry)| entry.clone());
    let versions: Value = versions.into_iter().map(|(.., entry)| entry).collect();
    let mut item = Map::new();
    match form {
        Form::Names => {
            item.insert("name", group);
            item.insert("versions", versions);
            item.insert("preferredVersion", first.unwrap_or_default());
        }
        Form::Whole => {
            item.insert("metadata", object!({"name": group}));
            item.insert("versions", versions);
        }
    }
    Value::Object(item)
}

impl Form {
    fn name(self, item: &Value) -> &str {
        match self {
            Self::Names => item.str_at(&["name"]),
            Self::Whole => item.str_at(&["metadata", "name"]),
        }
        .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use control_types::value;

    use super::*;
    use crate::remote::Remote;
    use control_proxy::egress::Egress;

    fn others(all: &[(&str, &str, i64, i64)]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (group, version, group_priority, version_priority) in all {
            let service = value!({"metadata": {"name": (format!("{version}.{group}"))}, "spec": {
                "group": (*group), "version": (*version),
                "groupPriorityMinimum": (*group_priority), "versionPriority": (*version_priority),
                "service": {"namespace": "n", "name": "s"}
            }});
            snapshot
                .remotes
                .entry((*group).to_owned())
                .or_default()
                .push(Arc::new(Remote::new(&service, None, &Egress::default())));
        }
        snapshot
    }

    fn group(name: &str, versions: &[&str]) -> Value {
        let entries: Value = versions
            .iter()
            .map(|version| value!({"groupVersion": (format!("{name}/{version}")), "version": (*version)}))
            .collect();
        let preferred = entries.as_array().and_then(|all| all.first()).cloned();
        value!({"name": name, "versions": entries, "preferredVersion": preferred})
    }

    #[test]
    fn groups_stand_where_their_priority_puts_them() {
        let mut items = vec![
            group("apiregistration.k8s.io", &["v1"]),
            group("apps", &["v1"]),
            group("storage.k8s.io", &["v1"]),
            group("b.example", &["v1"]),
        ];
        let others = others(&[
            ("first.example", "v1", 19_000, 1),
            ("a.example", "v1", 1000, 1),
            ("z.example", "v1", 100, 1),
            ("b.example", "v2", 1000, 200),
        ]);
        merge(&mut items, &others, Form::Names);
        let names: Vec<_> = items.iter().map(|item| Form::Names.name(item)).collect();
        assert_eq!(
            names,
            [
                "apiregistration.k8s.io",
                "first.example",
                "apps",
                "storage.k8s.io",
                "a.example",
                "b.example",
                "z.example"
            ]
        );
        // A group that both have has the versions of both.
        assert_eq!(items[5], group("b.example", &["v2", "v1"]));
    }

    #[test]
    fn what_nothing_is_known_of_is_stale() {
        let mut items = Vec::new();
        merge(
            &mut items,
            &others(&[("a.example", "v1", 1000, 1)]),
            Form::Whole,
        );
        let expected = value!({
            "metadata": {"name": "a.example"},
            "versions": [{"version": "v1", "freshness": "Stale"}]
        });
        assert_eq!(items, [expected]);
    }
}
