//! Aggregated ClusterRoles: a role whose `aggregationRule` selects others holds the rules
//! of all of them.

use std::sync::Arc;

use control_client::{Client, Discard, Patch, Queue, View};
use serde_json::{Value, json};

use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::ClusterRole;
use crate::work::{self, Outcome};

/// Keeps the rules of aggregated roles what their parts make them.
pub const CONTROLLER: Controller = Controller {
    name: "clusterrole-aggregation-controller",
    service_account: "clusterrole-aggregation-controller",
    start: |ctx| {
        let this = Arc::new(Aggregator {
            client: ctx.client.clone(),
            roles: ctx.cluster_roles(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        // Any role may be a part, or may have ceased to be one.
        this.roles.on_change(move |_| {
            for role in listener.roles.all() {
                if role.is_aggregated() {
                    listener.queue.add(Key::from_meta(&role.metadata));
                }
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.roles.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue
                .run("clusterrole-aggregation", 1, &shutdown, work)
                .await;
        })
    },
};

struct Aggregator {
    client: Client,
    roles: Arc<KindCache<ClusterRole>>,
    queue: Queue<Key>,
}

/// Returns the rules that a role should hold, if they differ from its own: those of the
/// selected roles by name, selector after selector, each rule once.
fn decide(role: &ClusterRole, all: &[Arc<ClusterRole>]) -> Option<Vec<Value>> {
    let selectors = &role.aggregation_rule.as_ref()?.cluster_role_selectors;
    let mut parts: Vec<&ClusterRole> = all
        .iter()
        .map(Arc::as_ref)
        .filter(|part| part.metadata.name != role.metadata.name)
        .collect();
    parts.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors {
        for part in &parts {
            if !selector.matches(|key| part.metadata.labels.get(key)) {
                continue;
            }
            for rule in part.rules.iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    (role.rules.as_deref().unwrap_or_default() != rules).then_some(rules)
}

impl Aggregator {
    async fn sync(&self, key: Key) -> Outcome {
        let Some(role) = self.roles.by_key(&key) else {
            return Ok(None);
        };
        let Some(rules) = decide(&role, &self.roles.all()) else {
            return Ok(None);
        };
        let patch = json!({
            "metadata": {"resourceVersion": role.metadata.resource_version},
            "rules": rules
        });
        let result = self
            .client
            .patch::<Discard>(
                &ClusterRole::RESOURCE,
                "",
                &key.name,
                "",
                Patch::Merge(&patch),
            )
            .await;
        match result {
            Err(error) if error.is_not_found() => Ok(None),
            other => other.map(|_| None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(value: Value) -> Arc<ClusterRole> {
        Arc::new(serde_json::from_value(value).expect("a role"))
    }

    #[test]
    fn an_aggregated_role_holds_the_rules_of_its_parts_and_no_others() {
        let part = |name: &str, label: &str, verb: &str| {
            role(
                json!({"metadata": {"name": name, "labels": {label: "true"}}, "rules": [{"verbs": [verb]}]}),
            )
        };
        let all = [
            part("b", "view", "list"),
            part("a", "view", "get"),
            part("c", "view", "get"),
            part("d", "edit", "update"),
            role(json!({
                "metadata": {"name": "all", "labels": {"view": "true"}},
                "rules": [{"verbs": ["own"]}],
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"view": "true"}}]}
            })),
        ];
        let rules = decide(&all[4], &all).expect("other rules");
        assert_eq!(
            rules,
            [json!({"verbs": ["get"]}), json!({"verbs": ["list"]})]
        );
        let settled = ClusterRole {
            rules: Some(rules),
            ..(*all[4]).clone()
        };
        assert_eq!(decide(&settled, &all), None);
        assert_eq!(decide(&all[0], &all), None, "not an aggregated one");
    }
}
