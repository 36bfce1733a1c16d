//! Decides the next step of a resource's migrations, and their conditions.

use std::sync::Arc;

use control_client::{Meta, Resource, View};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::views::{Condition, Text, null_as_default};

/// StorageVersionMigration, in the version that 1.36 serves behind its gate.
pub const MIGRATIONS: Resource = Resource::cluster(
    "storagemigration.k8s.io",
    "v1beta1",
    "storageversionmigrations",
    "StorageVersionMigration",
);

/// A StorageVersionMigration.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Migration {
    /// Name and age.
    pub metadata: Meta,
    /// The objects to migrate.
    pub spec: MigrationSpec,
    /// How far it is.
    #[serde(deserialize_with = "null_as_default")]
    pub status: MigrationStatus,
}

/// The objects to migrate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MigrationSpec {
    /// The resource.
    pub resource: GroupResource,
}

/// A resource in any version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct GroupResource {
    /// Its group; empty for the core group.
    #[serde(deserialize_with = "null_as_default")]
    pub group: Text,
    /// Its plural name.
    pub resource: Text,
}

/// How far a migration is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationStatus {
    /// `Running`, `Succeeded`, `Failed`.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
    /// Objects that are newer than this need no migration.
    pub resource_version: Text,
}

impl View for Migration {
    const RESOURCE: Resource = MIGRATIONS;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Migration {
    fn is(&self, condition: &str) -> bool {
        let found = Condition::find(&self.status.conditions, condition);
        found.is_some_and(|condition| condition.status == "True")
    }

    /// Whether it succeeded.
    pub fn has_succeeded(&self) -> bool {
        self.is("Succeeded")
    }

    fn has_ended(&self) -> bool {
        self.has_succeeded() || self.is("Failed")
    }
}

/// The next step for the migrations of a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum MigrationStep {
    /// A migration that ended still counts as running: the definition of a custom resource
    /// and the condition are to be changed.
    Finish(Arc<Migration>),
    /// No migration runs, and this is the oldest that waits.
    Start(Arc<Migration>),
    /// It runs, and the revision up to which objects are migrated is not fixed.
    FixRevision(Arc<Migration>),
    /// It runs.
    Migrate(Arc<Migration>),
}

/// Returns the next step of the migrations of one resource, of which one runs at a time.
pub fn decide(mut migrations: Vec<Arc<Migration>>) -> Option<MigrationStep> {
    migrations.retain(|migration| !migration.metadata.is_terminating());
    migrations.sort_by(|a, b| {
        let age = |one: &Migration| one.metadata.creation_timestamp;
        age(a)
            .cmp(&age(b))
            .then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
    let running = |one: &&Arc<Migration>| one.is("Running");
    let ended = migrations.iter().filter(running).find(|it| it.has_ended());
    if let Some(ended) = ended {
        return Some(MigrationStep::Finish(Arc::clone(ended)));
    }
    if let Some(running) = migrations.iter().find(running) {
        let running = Arc::clone(running);
        return Some(if running.status.resource_version.is_empty() {
            MigrationStep::FixRevision(running)
        } else {
            MigrationStep::Migrate(running)
        });
    }
    let waiting = migrations.into_iter().find(|it| !it.has_ended());
    waiting.map(MigrationStep::Start)
}

/// A condition that becomes true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCondition {
    /// `Running`, `Succeeded` or `Failed`.
    pub kind: &'static str,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl NewCondition {
    /// It runs.
    pub fn running() -> Self {
        Self {
            kind: "Running",
            reason: "MigrationRunning",
            message: "The migration is running".to_owned(),
        }
    }

    /// All objects are migrated.
    pub const fn succeeded() -> Self {
        Self {
            kind: "Succeeded",
            reason: "StorageVersionMigrationSucceeded",
            message: String::new(),
        }
    }

    /// The migration has failed.
    pub const fn failed(message: String) -> Self {
        Self {
            kind: "Failed",
            reason: "StorageVersionMigrationFailed",
            message,
        }
    }

    /// Adds it to a migration; one that is there already stays.
    pub fn add_to(&self, migration: &mut Value, now: &str) {
        let conditions = &mut migration["status"]["conditions"];
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        let Some(conditions) = conditions.as_array_mut() else {
            return;
        };
        let known = |one: &Value| one["type"] == self.kind && one["status"] != "Unknown";
        if !conditions.iter().any(known) {
            conditions.push(json!({
                "type": self.kind, "status": "True", "lastTransitionTime": now,
                "reason": self.reason, "message": self.message,
            }));
        }
    }
}

/// Marks a migration as no longer running.
pub fn end_running(migration: &mut Value, now: &str) {
    let generation = migration["metadata"]["generation"].clone();
    let conditions = migration["status"]["conditions"].as_array_mut();
    let mut conditions = conditions.into_iter().flatten();
    if let Some(running) = conditions.find(|one| one["type"] == "Running") {
        running["status"] = "False".into();
        running["reason"] = "MigrationCompleted".into();
        running["message"] = "Migration completed".into();
        running["lastTransitionTime"] = now.into();
        if generation.is_i64() {
            running["observedGeneration"] = generation;
        }
    }
}

/// The status to be applied to the definition of a custom resource whose migration begins.
pub fn definition_migrating(definition: &Value, migration: &str, now: &str) -> Value {
    let message = format!("Migration {migration} is running");
    json!({"conditions": [condition(definition, true, "MigrationRunning", &message, now)]})
}

/// The status to be applied to the definition of a custom resource whose migration ended.
/// All objects are stored in the current storage version when the definition did not change
/// since the migration began.
pub fn definition_migrated(definition: &Value, succeeded: bool, now: &str) -> Value {
    let conditions = definition["status"]["conditions"].as_array();
    let migrating = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == STORAGE_MIGRATING);
    let unchanged = migrating
        .is_some_and(|one| one["observedGeneration"] == definition["metadata"]["generation"]);
    let (reason, message) = match (succeeded, unchanged) {
        (true, true) => (
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated",
        ),
        (true, false) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
        ),
        (false, _) => ("MigrationFailed", "The migration has failed"),
    };
    let mut status = json!({"conditions": [condition(definition, false, reason, message, now)]});
    let versions = definition["spec"]["versions"].as_array();
    let stored = versions
        .into_iter()
        .flatten()
        .find(|one| one["storage"] == true);
    if unchanged && let Some(stored) = stored {
        status["storedVersions"] = json!([stored["name"]]);
    }
    status
}

const STORAGE_MIGRATING: &str = "StorageMigrating";

fn condition(definition: &Value, holds: bool, reason: &str, message: &str, now: &str) -> Value {
    json!({
        "type": STORAGE_MIGRATING, "status": if holds { "True" } else { "False" },
        "lastTransitionTime": now, "reason": reason, "message": message,
        "observedGeneration": definition["metadata"]["generation"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn migration(name: &str, second: u32, conditions: &[&str], revision: &str) -> Arc<Migration> {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|kind| json!({"type": kind, "status": "True"}))
            .collect();
        let migration = json!({
            "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")},
            "spec": {"resource": {"group": "", "resource": "secrets"}},
            "status": {"conditions": conditions, "resourceVersion": revision},
        });
        Arc::new(serde_json::from_value(migration).unwrap())
    }

    fn next(migrations: &[Arc<Migration>]) -> (&'static str, String) {
        match decide(migrations.to_vec()) {
            None => ("nothing", String::new()),
            Some(MigrationStep::Finish(it)) => ("finish", it.metadata.name.to_string()),
            Some(MigrationStep::Start(it)) => ("start", it.metadata.name.to_string()),
            Some(MigrationStep::FixRevision(it)) => ("fix revision", it.metadata.name.to_string()),
            Some(MigrationStep::Migrate(it)) => ("migrate", it.metadata.name.to_string()),
        }
    }

    #[test]
    fn one_migration_of_a_resource_runs_at_a_time_the_oldest_first() {
        let (a, b) = (migration("a", 2, &[], ""), migration("b", 1, &[], ""));
        assert_eq!(next(&[a, b]), ("start", "b".to_owned()));
        let running = migration("c", 3, &["Running"], "");
        let waiting = migration("a", 2, &[], "");
        assert_eq!(
            next(&[waiting.clone(), running]),
            ("fix revision", "c".to_owned())
        );
        let running = migration("c", 3, &["Running"], "7");
        assert_eq!(next(&[waiting, running]), ("migrate", "c".to_owned()));
    }

    #[test]
    fn migration_that_ended_is_finished_before_the_next_begins() {
        for end in ["Succeeded", "Failed"] {
            let ended = migration("c", 1, &["Running", end], "7");
            let waiting = migration("a", 2, &[], "");
            assert_eq!(next(&[waiting, ended]), ("finish", "c".to_owned()));
            assert_eq!(next(&[migration("c", 1, &[end], "7")]).0, "nothing");
        }
    }

    #[test]
    fn conditions_are_added_once_and_running_ends_in_place() {
        let mut migration = json!({"metadata": {"generation": 1}});
        NewCondition::running().add_to(&mut migration, NOW);
        NewCondition::succeeded().add_to(&mut migration, NOW);
        NewCondition::running().add_to(&mut migration, "later");
        end_running(&mut migration, "later");
        let conditions = &migration["status"]["conditions"];
        assert_eq!(conditions.as_array().unwrap().len(), 2);
        assert_eq!(conditions[0]["status"], "False");
        assert_eq!(conditions[0]["reason"], "MigrationCompleted");
        assert_eq!(conditions[0]["observedGeneration"], 1);
        assert_eq!(conditions[1]["lastTransitionTime"], NOW);
    }

    #[test]
    fn stored_versions_change_only_while_the_definition_did_not() {
        let mut definition = json!({"metadata": {"generation": 4}, "spec": {"versions": [
            {"name": "v1", "storage": false}, {"name": "v2", "storage": true}]}});
        definition["status"] = definition_migrating(&definition, "m", NOW);
        let done = definition_migrated(&definition, true, NOW);
        assert_eq!(done["storedVersions"], json!(["v2"]));
        assert_eq!(done["conditions"][0]["status"], "False");
        definition["metadata"]["generation"] = 5.into();
        let done = definition_migrated(&definition, true, NOW);
        assert_eq!(done["storedVersions"], Value::Null);
        let failed = definition_migrated(&definition, false, NOW);
        assert_eq!(failed["conditions"][0]["reason"], "MigrationFailed");
    }
}
