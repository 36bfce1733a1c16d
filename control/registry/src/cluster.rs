//! What admission sees of the server ([`control_admission::Cluster`]).

use std::sync::Arc;

use control_access::Attributes;
use control_admission::{Authorizer, Lister, QuotaUpdate, ResourceMapper, Writer};
use control_kinds::policies::Decision;
use control_proxy::ServiceLister;
use control_strategy::{ObjectCache, ServedVersion};
use control_types::status::Status;
use control_types::value::Value;
use control_types::{coerce, registry, value};
use control_watch_cache::storage;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::authorizer::Verdict;
use crate::managed::{self, Endpoint};
use crate::own;
use crate::registry::Registry;
use crate::served_resource::ServedResource;
use crate::write;

impl Lister for Registry {
    fn cache(&self, group: &str, plural: &str) -> Option<&dyn ObjectCache> {
        let cache = self.resource(group, plural).ok()?.cache.as_deref()?;
        Some(cache)
    }

    fn catch_up(&self) -> BoxFuture<'_, Result<(), Status>> {
        self.storage.catch_up().boxed()
    }
}

impl ResourceMapper for Registry {
    fn resource_of_path(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<Arc<ServedVersion>> {
        let served = self.served(group, version, plural)?;
        Some(Arc::clone(&served.version))
    }

    fn resource_of_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Option<Arc<ServedVersion>> {
        let served = self.of_kind(group, version, kind)?;
        Some(Arc::clone(&served.version))
    }

    fn equivalents(&self, served: &ServedVersion) -> Vec<Arc<ServedVersion>> {
        let resource = served.resource;
        if resource.is_custom() {
            let definitions = self.definitions.now();
            let versions = definitions.resources(resource.group);
            return versions
                .filter(|other| other.resource.plural == resource.plural)
                .map(|other| Arc::clone(&other.version))
                .collect();
        }
        let prefix = storage::prefix_of(resource);
        registry::resources()
            .iter()
            .filter(|other| other.plural == resource.plural && storage::prefix_of(other) == prefix)
            .filter_map(|other| self.resource_of_path(other.group, other.version, other.plural))
            .collect()
    }

    fn objects(&self, served: &ServedVersion) -> Option<Arc<dyn ObjectCache>> {
        let cache = self.served_as(served).ok()?.cache.clone()?;
        Some(cache)
    }

    fn convert<'a>(
        &'a self,
        object: &'a mut Value,
        from: &'a ServedVersion,
        to: &'a ServedVersion,
    ) -> BoxFuture<'a, Result<(), Status>> {
        async move {
            if from.api_version == to.api_version {
                return Ok(());
            }
            // A webhook converts from any version to any other.
            if !from.is_stored_form() && !from.is_converted_by_webhook() {
                crate::convert::to_storage(self, object, &*self.served_as(from)?).await?;
            }
            if !to.is_stored_form() || to.is_converted_by_webhook() {
                crate::convert::to_version(self, object, &*self.served_as(to)?).await?;
            }
            Ok(())
        }
        .boxed()
    }
}

impl Authorizer for Registry {
    fn denial(&self, attributes: &Attributes) -> Option<String> {
        match self.authorizer.authorize(attributes) {
            Verdict::Allow => None,
            Verdict::Deny(reason) => Some(reason),
        }
    }

    fn explain(&self, attributes: &Attributes) -> Decision {
        let access = &self.authorizer;
        // Only where no other server is asked is the reason known at once.
        let explained = match access.ask(attributes) {
            None => access.explain(attributes).now_or_never(),
            Some(_) => None,
        };
        match explained {
            Some(decision) => Decision {
                allowed: decision.allowed,
                reason: decision.reason,
                error: decision.error,
            },
            None => {
                let denial = self.denial(attributes);
                Decision {
                    allowed: denial.is_none(),
                    reason: denial.unwrap_or_default(),
                    error: None,
                }
            }
        }
    }
}

impl Writer for Registry {
    fn create_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Status>> {
        let object = value!({
            "kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": (name), "labels": {"kubernetes.io/metadata.name": (name)}}
        });
        own::ensure(self, ("", "namespaces"), own::OWN, object, |_, _| false).boxed()
    }

    fn update_quota<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        update: QuotaUpdate<'a>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        async move {
            let quotas = self.resource("", "resourcequotas")?;
            let key = quotas.key(namespace, name);
            let decide = |current: Option<write::Current>| {
                let Some(current) = current else {
                    // It is gone, and limits nothing any more.
                    return Ok(write::Decision::Keep(Value::Null));
                };
                let mut old = current.object;
                let Some(mut new) = update(&old)? else {
                    return Ok(write::Decision::Keep(old));
                };
                coerce::complete(&mut old, quotas.resource.schema);
                coerce::complete(&mut new, quotas.resource.schema);
                let endpoint = Endpoint::for_resource(self, quotas, "status");
                endpoint.write(Some(&old), &mut new, managed::OWN);
                coerce::complete(&mut new, quotas.resource.schema);
                Ok(write::Decision::Put(new))
            };
            self.modify(quotas, &key, false, None, decide)
                .await
                .map(drop)
        }
        .boxed()
    }
}

impl Registry {
    /// Returns the resource of a version that was served a moment ago.
    ///
    /// # Errors
    /// 404 when it is not any more.
    fn served_as(&self, version: &ServedVersion) -> Result<Arc<ServedResource>, Status> {
        let resource = version.resource;
        self.served(resource.group, resource.version, resource.plural)
            .ok_or_else(Status::unknown_path)
    }
}

impl ServiceLister for Registry {
    fn service(&self, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
        self.storage.service(namespace, name)
    }

    fn endpoint_slices(&self, namespace: &str, service: &str) -> Result<Vec<Value>, Status> {
        self.storage.endpoint_slices(namespace, service)
    }
}
