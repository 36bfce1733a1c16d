//! Reads and writes the EndpointSlices of one manager.
//!
//! Both Services and user-written Endpoints have slices. The desired slices are computed
//! differently; the writes are the same.

use std::sync::Arc;
use std::time::Duration;

use control_client::{Client, DeleteOptions, Error, Metadata, Patch, View};
use serde_json::Value;

use super::slices::decide::{MANAGED_BY, SERVICE_NAME};
use crate::context::Context;
use crate::expectations::{Expectations, FORGOTTEN_AFTER};
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::EndpointSlice;
use crate::work;
use crate::written::OwnWrites;

/// Reconciles the slices of one manager, by Service.
pub(super) struct SliceReconciler {
    pub slices: Arc<KindCache<EndpointSlice>>,
    pub expectations: Expectations<Key>,
    client: Client,
    written: OwnWrites,
    manager: &'static str,
}

impl SliceReconciler {
    /// Returns a reconciler for slices with this managed-by label.
    pub fn new(ctx: &Context, manager: &'static str) -> Self {
        Self {
            slices: ctx.slices(),
            expectations: Expectations::default(),
            client: ctx.client.clone(),
            written: OwnWrites::default(),
            manager,
        }
    }

    /// The Service that a slice is of, if the slice is this manager's.
    pub fn service_of(&self, slice: &EndpointSlice) -> Option<Key> {
        let labels = &slice.metadata.labels;
        (labels.get(MANAGED_BY) == Some(self.manager))
            .then(|| labels.get(SERVICE_NAME))
            .flatten()
            .map(|name| Key::new(slice.metadata.namespace.clone(), name))
    }

    /// Returns the slices of a Service; `Err` is the longest wait until the cache shows
    /// the last write.
    pub fn current(&self, key: &Key) -> Result<Vec<Arc<EndpointSlice>>, Duration> {
        if !self.expectations.settled(key) {
            return Err(FORGOTTEN_AFTER);
        }
        let slices: Vec<_> = self
            .slices
            .namespace(&key.namespace)
            .into_iter()
            .filter(|slice| self.service_of(slice).is_some_and(|of| of == *key))
            .collect();
        let behind = slices.iter().find_map(|slice| {
            let shown = &slice.metadata;
            self.written.behind(&Key::from_meta(shown), Some(shown))
        });
        behind.map_or(Ok(slices), Err)
    }

    /// Creates a slice; a namespace that ends needs none.
    pub async fn create(&self, key: &Key, body: &Value) -> Result<(), Error> {
        self.expectations.expect_creations(key, 1);
        let created = self
            .client
            .create::<Metadata>(&EndpointSlice::RESOURCE, &key.namespace, body)
            .await;
        match created {
            Ok(_) => Ok(()),
            Err(error) => {
                self.expectations.created(key);
                if error.is_namespace_terminating() {
                    return Ok(());
                }
                Err(error)
            }
        }
    }

    /// Patches a slice by RFC 7386.
    pub async fn patch(&self, key: &Key, name: &str, patch: &Value) -> Result<(), Error> {
        let resource = &EndpointSlice::RESOURCE;
        let written: Metadata = self
            .client
            .patch(resource, &key.namespace, name, "", Patch::Merge(patch))
            .await?;
        self.written.note(&written.metadata);
        Ok(())
    }

    /// Deletes a slice.
    pub async fn delete(&self, key: &Key, name: &str, uid: &str) -> Result<(), Error> {
        let options = DeleteOptions::of_uid(uid);
        let deleted = self
            .client
            .delete(&EndpointSlice::RESOURCE, &key.namespace, name, &options)
            .await;
        work::unless_gone(deleted)
    }
}
