//! Searches devices for the claims of one pod, node by node (the plugin's Filter).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use compact_str::{CompactString, ToCompactString};
use control_devices::api::{
    AllocationResult, DeviceClaim, DeviceClassSpec, NodeSelector, ResourceClaimSpec,
};
use control_devices::{
    AllocationError, Allocator, Claim, ContainerResourceRequest, Effort, FoundAllocation, Node,
    SelectorCache, allocation_score, extended_requests,
};
use rustc_hash::FxHashMap;

use super::extended::{ExtendedResources, MissingResources};
use super::state::Work;
use crate::bits::Bits;
use crate::plugins::RejectedNodes;
use crate::selector::NodeTerm;
use crate::snapshot::Snapshot;
use crate::view::ResourceClaim;

/// Searches for the devices of one pod.
#[derive(Default)]
pub(super) struct Searches<'a> {
    variants: Vec<Variant<'a>>,
    effort: Effort,
    /// Fitting nodes with their choices.
    choices: FxHashMap<usize, Choice>,
    /// Allocated claims, by position, that are of no use on some node.
    pub unavailable: BTreeSet<usize>,
    /// The problem with claims, classes or pools.
    pub error: Option<String>,
    selected: RefCell<FxHashMap<*const NodeSelector, Bits>>,
}

/// Claims to be allocated. They differ between nodes where devices satisfy extended resources.
struct Variant<'a> {
    /// Extended resources that devices are to satisfy.
    resources: Vec<CompactString>,
    /// The claim for those, and which of its requests serves which container.
    extended: Option<(Arc<ResourceClaimSpec>, Vec<ContainerResourceRequest>)>,
    allocator: Allocator<'a>,
}

/// The devices that were found for a node.
struct Choice {
    variant: usize,
    found: Arc<FoundAllocation>,
}

/// A node of the snapshot, as the allocator sees it.
struct PlacedNode<'a> {
    snapshot: &'a Snapshot,
    place: usize,
    selected: &'a RefCell<FxHashMap<*const NodeSelector, Bits>>,
}

/// The reason why a node does not fit.
enum Unfit {
    Because(CompactString),
    /// No node does.
    Error(String),
    /// It was not looked at: enough was done for the pod.
    Skipped,
}

// === impl Searches ===

impl Searches<'_> {
    /// Returns the allocations of unallocated claims for the node at `place`.
    pub(super) fn allocations(
        &self,
        place: usize,
        node: &str,
    ) -> Result<Vec<AllocationResult>, AllocationError> {
        let Some(choice) = self.choices.get(&place) else {
            return Ok(Vec::new());
        };
        let Some(variant) = self.variants.get(choice.variant) else {
            return Ok(Vec::new());
        };
        let mut share_id = || uuid::Uuid::new_v4().to_compact_string();
        variant
            .allocator
            .results(&choice.found, node, &mut share_id)
    }

    /// The claim to be made for extended resources on the node at `place`.
    pub(super) fn extended(
        &self,
        place: usize,
        work: &Work<'_>,
    ) -> Option<(Arc<ResourceClaim>, Vec<ContainerResourceRequest>)> {
        let choice = self.choices.get(&place)?;
        let (spec, mappings) = self.variants.get(choice.variant)?.extended.as_ref()?;
        let claim = ResourceClaim {
            spec: Arc::clone(spec),
            ..ExtendedResources::claim(work.pod)
        };
        Some((Arc::new(claim), mappings.clone()))
    }
}

// === impl Work ===

impl<'a> Work<'a> {
    /// Takes the nodes out of `nodes` on which the claims cannot be allocated or used.
    pub(super) fn filter(
        &self,
        snapshot: &Snapshot,
        nodes: &mut Bits,
        rejected: &mut RejectedNodes,
    ) {
        let mut searches = self.found.borrow_mut();
        let selectors = &self.assumed.selectors;
        let mut selectors = selectors.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reasons: Vec<(CompactString, Bits)> = Vec::new();
        let mut fitting = Bits::new();
        for place in nodes.clone().iter() {
            match self.check(&mut searches, snapshot, place, &mut selectors) {
                Ok(()) => {
                    fitting.insert(place);
                }
                Err(Unfit::Skipped) => {}
                Err(Unfit::Because(reason)) => {
                    match reasons.iter_mut().find(|(known, _)| *known == reason) {
                        Some((_, places)) => {
                            places.insert(place);
                        }
                        None => reasons.push((reason, [place].into_iter().collect())),
                    }
                }
                Err(Unfit::Error(error)) => {
                    let all = std::mem::take(nodes);
                    rejected.add(&all, error.clone(), false);
                    searches.error = Some(error);
                    return;
                }
            }
        }
        for (reason, places) in reasons {
            rejected.add(&places, reason.into_string(), false);
        }
        *nodes = fitting;
    }

    fn check(
        &self,
        searches: &mut Searches<'a>,
        snapshot: &Snapshot,
        place: usize,
        selectors: &mut SelectorCache,
    ) -> Result<(), Unfit> {
        let because = |reason: &'static str| Unfit::Because(CompactString::const_new(reason));
        let mut resources = Vec::new();
        if let Some(extended) = &self.extended {
            if extended.stale.is_some() {
                return Err(because("cannot schedule extended resource claim"));
            }
            match extended.lacking(snapshot, place) {
                MissingResources::Unfit => return Err(because("cannot fit resource")),
                MissingResources::ByDevices(lacking) => resources = lacking,
            }
        }
        let mut is_available = true;
        for (index, state) in self.claims.iter().enumerate() {
            if state.claim.status.allocation.is_some() && !state.is_available_on(place) {
                searches.unavailable.insert(index);
                is_available = false;
            }
        }
        let is_allocated = |claim: &ResourceClaim| claim.status.allocation.is_some();
        let has_all = self.claims.iter().all(|state| is_allocated(&state.claim));
        let mut choice = None;
        if !has_all || !resources.is_empty() {
            let variant = self.variant(searches, resources, selectors);
            let found = self.search(searches, variant, snapshot, place, selectors)?;
            choice = Some(Choice { variant, found });
        }
        if !is_available {
            return Err(because("resourceclaim not available on the node"));
        }
        if let Some(choice) = choice {
            searches.choices.insert(place, choice);
        }
        Ok(())
    }

    fn search(
        &self,
        searches: &mut Searches<'a>,
        variant: usize,
        snapshot: &Snapshot,
        place: usize,
        selectors: &mut SelectorCache,
    ) -> Result<Arc<FoundAllocation>, Unfit> {
        let Searches {
            variants,
            effort,
            choices,
            selected,
            ..
        } = searches;
        let Some(variant) = variants.get_mut(variant) else {
            return Err(Unfit::Skipped);
        };
        let node = PlacedNode {
            snapshot,
            place,
            selected,
        };
        if effort.is_spent() && !choices.is_empty() {
            return Err(Unfit::Skipped);
        }
        match variant.allocator.allocate(&node, selectors, effort) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(Unfit::Because(CompactString::const_new(
                "cannot allocate all claims",
            ))),
            Err(AllocationError::TimedOut { .. }) if !choices.is_empty() && effort.is_spent() => {
                Err(Unfit::Skipped)
            }
            Err(error) if error.is_of_node() => Err(Unfit::Because(error.to_compact_string())),
            Err(error) => Err(Unfit::Error(error.to_string())),
        }
    }

    /// The position of the variant in which devices are to satisfy these resources.
    fn variant(
        &self,
        searches: &mut Searches<'a>,
        resources: Vec<CompactString>,
        selectors: &mut SelectorCache,
    ) -> usize {
        let variants = &mut searches.variants;
        let mut known = variants.iter();
        if let Some(known) = known.position(|variant| variant.resources == resources) {
            return known;
        }
        let unallocated = self.claims.iter().map(|state| &state.claim);
        let unallocated = unallocated.filter(|claim| claim.status.allocation.is_none());
        let mut claims: Vec<Claim> = unallocated
            .map(|claim| Claim {
                namespace: claim.metadata.namespace.clone(),
                name: claim.metadata.name.clone(),
                spec: Arc::clone(&claim.spec),
            })
            .collect();
        let mut extended = None;
        if !resources.is_empty() {
            let (requests, mappings) =
                extended_requests(&self.pod.containers, &resources, &self.assumed.classes);
            let spec = Arc::new(ResourceClaimSpec {
                devices: DeviceClaim {
                    requests,
                    ..DeviceClaim::default()
                },
            });
            claims.push(Claim {
                namespace: self.pod.metadata.namespace.clone(),
                name: CompactString::const_new("<extended-resources>"),
                spec: Arc::clone(&spec),
            });
            extended = Some((spec, mappings));
        }
        let classes = |name: &str| -> Option<Arc<DeviceClassSpec>> {
            let class = self.catalog.device_classes.get("", name)?;
            Some(Arc::clone(&class.spec))
        };
        let allocator = Allocator::new(
            &self.assumed.inventory,
            &self.assumed.allocated,
            self.assumed.features,
            claims,
            &classes,
            selectors,
        );
        variants.push(Variant {
            resources,
            extended,
            allocator,
        });
        variants.len() - 1
    }

    /// The score of prioritized lists on the node at `place`.
    pub(super) fn score(&self, place: usize) -> i64 {
        let searches = self.found.borrow();
        let Some(choice) = searches.choices.get(&place) else {
            return 0;
        };
        let allocated = self.claims.iter().filter_map(|state| {
            let allocation = state.claim.status.allocation.as_ref()?;
            Some(allocation_score(&state.claim.spec, allocation))
        });
        choice.found.score() + allocated.sum::<i64>()
    }
}

// === impl PlacedNode ===

impl Node for PlacedNode<'_> {
    fn name(&self) -> &str {
        self.snapshot.name(self.place)
    }

    fn matches(&self, selector: &NodeSelector) -> bool {
        // Matched for all nodes at once. The slices outlive the search, so the address
        // identifies the selector.
        let mut selected = self.selected.borrow_mut();
        let nodes = selected.entry(std::ptr::from_ref(selector));
        let nodes = nodes.or_insert_with(|| {
            let mut nodes = Bits::new();
            for term in &selector.node_selector_terms {
                nodes.union(&self.snapshot.matching_term(&NodeTerm::from(term)));
            }
            nodes
        });
        nodes.contains(self.place)
    }
}
