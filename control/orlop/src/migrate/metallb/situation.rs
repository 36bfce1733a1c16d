//! The input of the plan: MetalLB's objects, Services, nodes.

use std::collections::{BTreeMap, BTreeSet};

use control_client::{Resource, Selection, resources};
use control_import::metallb::service::{self, ServedService};
use control_import::metallb::takeover::{PARKED, Situation, parked_addresses};
use control_import::{ObjectId, metallb};
use serde_json::Value;

use super::record::TakeoverRecord;
use super::{KINDS, Takeover, stopped};
use crate::commands::policy_import::show_remarks;
use crate::error::Error;

impl Takeover {
    pub(super) async fn list(
        &self,
        resource: &Resource,
        selection: &Selection,
    ) -> Result<Vec<Value>, Error> {
        let list = match self.client.list::<Value>(resource, selection).await {
            Ok(list) => list.items,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(Error::Client(error)),
        };
        Ok(list
            .into_iter()
            .map(|mut item| {
                item["apiVersion"] = resource.api_version().into();
                item["kind"] = resource.kind.as_ref().into();
                item
            })
            .collect())
    }

    pub(super) fn own_namespace(&self) -> Selection {
        Selection {
            namespace: Some(self.options.namespace.clone()),
            ..Selection::all()
        }
    }

    /// All that the plan follows from, and MetalLB's objects as they were at first.
    pub(super) async fn situation(
        &self,
        record: Option<&TakeoverRecord>,
    ) -> Result<(Situation, Vec<Value>), Error> {
        let mut objects = Vec::new();
        for resource in &KINDS {
            objects.extend(self.list(resource, &self.own_namespace()).await?);
        }
        let is_parked = |it: &&Value| is_pool(it) && ObjectId::from_object(it).name == PARKED;
        let taken = objects.iter().filter(is_parked).flat_map(parked_addresses);
        let taken = taken.collect();
        if let Some(record) = record {
            objects.retain(|it| !is_pool(it) && !is_advertisement(it));
            objects.extend(record.pools.iter().chain(&record.advertisements).cloned());
        }
        if !objects.iter().any(is_pool) {
            return Err(stopped(format!(
                "there is no IPAddressPool in namespace {}: name MetalLB's by --namespace",
                self.options.namespace
            )));
        }
        let report = metallb::convert(&objects, self.options.lossy)
            .map_err(|error| stopped(error.to_string()))?;
        show_remarks(&report);
        let pools = service::pools(&report.objects).map_err(|it| stopped(it.to_string()))?;
        let services = self.list(&resources::SERVICES, &Selection::all()).await?;
        let namespaces = self.list(&resources::NAMESPACES, &Selection::all()).await?;
        let (services, refused) = service::served(&services, &namespaces, &pools);
        for remark in &refused {
            eprintln!("not taken over: {remark}");
        }
        if !refused.is_empty() || !(report.is_complete() || self.options.lossy) {
            return Err(stopped(
                "nothing is done, since some of it cannot be taken over; see above",
            ));
        }
        let nodes = self.list(&resources::NODES, &Selection::all()).await?;
        let labels = |it: &Value| {
            let all = it["metadata"]["labels"].as_object().into_iter().flatten();
            all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect::<BTreeMap<_, _>>()
        };
        let nodes = nodes
            .iter()
            .map(|it| (ObjectId::from_object(it).name, labels(it)));
        let situation = Situation {
            objects: report.objects,
            nodes: nodes.collect(),
            endpoints: self.endpoints(&services).await?,
            services,
            taken,
        };
        Ok((situation, objects))
    }

    /// The nodes with ready endpoints of Services that are announced from there only.
    async fn endpoints(
        &self,
        services: &[ServedService],
    ) -> Result<BTreeMap<(String, String), BTreeSet<String>>, Error> {
        let mut all: BTreeMap<(String, String), BTreeSet<String>> = services
            .iter()
            .filter(|it| it.is_local)
            .map(|it| ((it.namespace.clone(), it.name.clone()), BTreeSet::new()))
            .collect();
        if all.is_empty() {
            return Ok(all);
        }
        for slice in self
            .list(&resources::ENDPOINT_SLICES, &Selection::all())
            .await?
        {
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let meta = &slice["metadata"];
            let service = text(&meta["labels"]["kubernetes.io/service-name"]);
            let Some(nodes) = all.get_mut(&(text(&meta["namespace"]), service)) else {
                continue;
            };
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                let ready = endpoint["conditions"]["ready"].as_bool().unwrap_or(true);
                if let Some(node) = endpoint["nodeName"].as_str().filter(|_| ready) {
                    nodes.insert(node.to_owned());
                }
            }
        }
        Ok(all)
    }
}

pub(super) fn is_pool(object: &Value) -> bool {
    object["kind"] == "IPAddressPool"
}

pub(super) fn is_advertisement(object: &Value) -> bool {
    object["kind"] == "L2Advertisement" || object["kind"] == "BGPAdvertisement"
}
