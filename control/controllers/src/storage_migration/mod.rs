//! Storage version migration (KEP-4192): every object of a resource is rewritten, so that
//! it is stored in the current version and under the current encryption key.
//!
//! Objects are written by an empty apply with uid and revision. A conflict is not a
//! failure: the concurrent change has rewritten the object.

mod decide;

use std::sync::Arc;
use std::time::Duration;

use control_client::{
    Client, Discard, Error, Metadata, Patch, Queue, Reflector, Resource, Selection, time,
};
use futures::{StreamExt as _, stream};
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use self::decide::{GroupResource, MIGRATIONS, Migration, MigrationStep, NewCondition, decide};
use crate::key::Key;
use crate::views::seconds_now;
use crate::work::{self, Outcome};
use crate::{Controller, custom, optional};

/// Migrates stored objects.
pub const CONTROLLER: Controller = Controller {
    name: NAME,
    service_account: NAME,
    start: |ctx| {
        let (client, reader) = (ctx.client.clone(), ctx.reader().clone());
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            let queue: Queue<Key> = work::queue();
            let changed = queue.clone();
            let stop = shutdown.clone();
            optional::follow(
                &reader,
                &[MIGRATIONS],
                &shutdown,
                move |change: &control_client::Change<Migration>| {
                    if let Some(migration) = change.latest() {
                        changed.add(key(&migration.spec.resource));
                    }
                },
                move |migrations, _| async move {
                    let this = Arc::new(Migrator { client, migrations });
                    let work = work::call(&this, |this, key| async move { this.sync(key).await });
                    queue.run("storage_version_migrator", 5, &stop, work).await;
                },
            )
            .await;
        })
    },
};

const NAME: &str = "storage-version-migrator-controller";
/// The field manager of conditions of custom resource definitions.
const RUNNER: &str = "migration-runner-controller";

/// A namespace that cannot exist: its lists are empty and carry the latest revision.
const NO_NAMESPACE: &str = "%40fake:svm_ns%21";
/// The verbs that a resource needs to be migrated.
const VERBS: [&str; 3] = ["update", "patch", "list"];
/// How long a new migration waits for discovery to show its resource, in seconds.
const DISCOVERY_TIME: i64 = 60;
/// How long until discovery is read again.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(5);
/// Objects that are written at the same time.
const AT_ONCE: usize = 16;

fn key(resource: &GroupResource) -> Key {
    Key::new(resource.group.clone(), resource.resource.clone())
}

/// A resource as discovery describes it.
struct DiscoveredResource {
    resource: Resource,
    verbs: Vec<String>,
}

struct Migrator {
    client: Client,
    migrations: Reflector<Migration>,
}

impl Migrator {
    /// Performs the next step of a resource's migrations. Each step changes one of them,
    /// and its event requeues the key.
    async fn sync(&self, key: Key) -> Outcome {
        let resource = GroupResource {
            group: key.namespace.clone(),
            resource: key.name.clone(),
        };
        let all = self.migrations.cache().snapshot();
        let of_resource = all.iter().filter(|it| it.spec.resource == resource);
        match decide(of_resource.cloned().collect()) {
            None => Ok(None),
            Some(MigrationStep::Finish(migration)) => self.finish(&migration).await,
            Some(MigrationStep::Start(migration)) => self.start(&migration).await,
            Some(MigrationStep::FixRevision(migration)) => self.fix_revision(&migration).await,
            Some(MigrationStep::Migrate(migration)) => self.migrate(&migration).await,
        }
    }

    async fn start(&self, migration: &Migration) -> Outcome {
        let name = migration.metadata.name.as_str();
        self.change_definition(&migration.spec.resource, |definition, now| {
            decide::definition_migrating(definition, name, now)
        })
        .await?;
        self.add(migration, NewCondition::running()).await
    }

    async fn finish(&self, migration: &Migration) -> Outcome {
        let succeeded = migration.has_succeeded();
        self.change_definition(&migration.spec.resource, |definition, now| {
            decide::definition_migrated(definition, succeeded, now)
        })
        .await?;
        self.write_status(migration, decide::end_running).await
    }

    async fn fix_revision(&self, migration: &Migration) -> Outcome {
        let resource = &migration.spec.resource;
        let Some(found) = self.discover(resource).await? else {
            return self
                .unknown(migration, "resource does not exist in discovery")
                .await;
        };
        if !VERBS
            .iter()
            .all(|verb| found.verbs.iter().any(|v| v == verb))
        {
            let Resource {
                group,
                version,
                plural,
                ..
            } = &found.resource;
            let message = format!(
                "resource \"{group}/{version}, Resource={plural}\" does not support discovery operations: [{}]",
                VERBS.join(" ")
            );
            return self.add(migration, NewCondition::failed(message)).await;
        }
        let mut path = base_path(&found.resource);
        if found.resource.namespaced {
            path.push_str(&format!("/namespaces/{NO_NAMESPACE}"));
        }
        path.push_str(&format!("/{}?limit=1", found.resource.plural));
        let list: Value = self
            .client
            .request(Method::GET, &path, None::<&Value>)
            .await?;
        let revision = list["metadata"]["resourceVersion"].as_str();
        let revision = revision.unwrap_or_default().to_owned();
        if let Err(why) = revision.parse::<u64>() {
            let Resource {
                group,
                version,
                plural,
                ..
            } = &found.resource;
            let message = format!(
                "latest resourceVersion for {group}/{version}, Resource={plural} is not valid: {why}"
            );
            return self.add(migration, NewCondition::failed(message)).await;
        }
        self.write_status(migration, |object, _| {
            object["status"]["resourceVersion"] = revision.into();
        })
        .await
    }

    async fn migrate(&self, migration: &Migration) -> Outcome {
        let Some(found) = self.discover(&migration.spec.resource).await? else {
            let why = "migration encountered unhandled error: unable to obtain GVR from discovery";
            return self.unknown(migration, why).await;
        };
        let resource = &found.resource;
        let listed = self
            .client
            .list::<Metadata>(resource, &Selection::all().metadata_only())
            .await?;
        let until: Option<u64> = migration.status.resource_version.parse().ok();
        // Revisions of some servers cannot be compared: all of their objects are written.
        let is_newer = |meta: &control_client::Meta| {
            let (revision, until) = (meta.revision(), until);
            revision
                .zip(until)
                .is_some_and(|(revision, until)| revision > until)
        };
        let old = listed
            .items
            .into_iter()
            .filter(|object| !is_newer(&object.metadata));
        let mut writes = stream::iter(old)
            .map(|object| self.rewrite(resource, object))
            .buffer_unordered(AT_ONCE);
        while let Some(written) = writes.next().await {
            match written {
                Ok(()) => {}
                Err(error) if is_retriable(&error) => return Err(error),
                Err(error) => {
                    let message =
                        format!("migration encountered unhandled error: {}", error.chain());
                    return self.add(migration, NewCondition::failed(message)).await;
                }
            }
        }
        self.add(migration, NewCondition::succeeded()).await
    }

    async fn rewrite(&self, resource: &Resource, object: Metadata) -> Result<(), Error> {
        let meta = &object.metadata;
        let body = json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind,
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        });
        let apply = Patch::Apply {
            body: &body,
            manager: NAME,
            force: false,
        };
        let written = self
            .client
            .patch::<Discard>(resource, &meta.namespace, &meta.name, "", apply)
            .await;
        match written {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// Handles a resource that is not served: discovery may not list a new one yet.
    async fn unknown(&self, migration: &Migration, why: &str) -> Outcome {
        let made = migration.metadata.creation_timestamp;
        let age = made.map(|made| seconds_now().as_second() - made.as_second());
        if age.is_some_and(|seconds| seconds < DISCOVERY_TIME) {
            return Ok(Some(DISCOVERY_PAUSE));
        }
        let failed = NewCondition::failed(why.to_owned());
        self.add(migration, failed).await
    }

    async fn add(&self, migration: &Migration, condition: NewCondition) -> Outcome {
        self.write_status(migration, |object, now| condition.add_to(object, now))
            .await
    }

    /// Changes the status of a migration as it is in the cache. The role grants `update` of
    /// the status and `list`, and no `get`.
    async fn write_status(
        &self,
        migration: &Migration,
        change: impl FnOnce(&mut Value, &str),
    ) -> Outcome {
        let meta = &migration.metadata;
        let selection = Selection::all().fields(format!("metadata.name={}", meta.name));
        let found = self.client.list::<Value>(&MIGRATIONS, &selection).await?;
        let is_same = |object: &&Value| {
            object["metadata"]["uid"] == meta.uid.as_str()
                && object["metadata"]["resourceVersion"] == meta.resource_version.as_str()
        };
        let Some(mut object) = found.items.iter().find(is_same).cloned() else {
            // its event is on the way
            return Ok(None);
        };
        object["apiVersion"] = MIGRATIONS.api_version().into();
        object["kind"] = MIGRATIONS.kind.as_ref().into();
        change(&mut object, &time::seconds(Timestamp::now()));
        let written = self
            .client
            .update_status::<Discard>(&MIGRATIONS, "", &meta.name, &object)
            .await;
        work::unless_gone(written).map(|()| None)
    }

    /// Applies a status to the definition of a custom resource, if it is one.
    async fn change_definition(
        &self,
        resource: &GroupResource,
        status: impl FnOnce(&Value, &str) -> Value,
    ) -> Result<(), Error> {
        let name = format!("{}.{}", resource.resource, resource.group);
        let definitions = custom::DEFINITIONS;
        let definition = match self.client.get::<Value>(&definitions, "", &name).await {
            Ok(definition) => definition,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        let body = json!({
            "apiVersion": definitions.api_version(),
            "kind": definitions.kind,
            "metadata": {"name": name,
                "resourceVersion": definition["metadata"]["resourceVersion"]},
            "status": status(&definition, &time::seconds(Timestamp::now())),
        });
        let apply = Patch::Apply {
            body: &body,
            manager: RUNNER,
            force: true,
        };
        let written = self
            .client
            .patch_status::<Discard>(&definitions, "", &name, apply)
            .await;
        work::unless_gone(written)
    }

    /// Finds a resource in the version that its group prefers, or the next that has it.
    async fn discover(&self, wanted: &GroupResource) -> Result<Option<DiscoveredResource>, Error> {
        let mut versions = Vec::new();
        if wanted.group.is_empty() {
            versions.push("v1".to_owned());
        } else {
            let path = format!("/apis/{}", wanted.group);
            let group = self
                .client
                .request::<DiscoveryGroup>(Method::GET, &path, None::<&Value>);
            match group.await {
                Ok(group) => {
                    versions.push(group.preferred_version.version);
                    versions.extend(group.versions.into_iter().map(|it| it.version));
                }
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        for version in versions {
            let mut resource = Resource {
                group: wanted.group.to_string().into(),
                version: version.into(),
                plural: wanted.resource.to_string().into(),
                kind: "".into(),
                namespaced: false,
            };
            let path = base_path(&resource);
            let list =
                self.client
                    .request::<DiscoveryResourceList>(Method::GET, &path, None::<&Value>);
            let list = match list.await {
                Ok(list) => list,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            };
            let mut all = list.resources.into_iter();
            if let Some(found) = all.find(|one| one.name == wanted.resource.as_str()) {
                resource.kind = found.kind.into();
                resource.namespaced = found.namespaced;
                return Ok(Some(DiscoveredResource {
                    resource,
                    verbs: found.verbs,
                }));
            }
        }
        Ok(None)
    }
}

/// `metav1.APIGroup`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DiscoveryGroup {
    versions: Vec<GroupVersion>,
    preferred_version: GroupVersion,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GroupVersion {
    version: String,
}

/// `metav1.APIResourceList`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DiscoveryResourceList {
    resources: Vec<NamedResource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedResource {
    name: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
}

/// The path under which the resources of a version are.
fn base_path(resource: &Resource) -> String {
    let prefix = if resource.group.is_empty() {
        "api"
    } else {
        "apis"
    };
    format!("/{prefix}/{}", resource.api_version())
}

/// Whether the same request may succeed later.
fn is_retriable(error: &Error) -> bool {
    error.is_unreachable()
        || match error {
            Error::TooManyRequests(_) | Error::ServerTimeout(_) | Error::NoAnswer { .. } => true,
            other => other.status().is_some_and(|status| status.code >= 500),
        }
}

#[cfg(test)]
mod tests;
