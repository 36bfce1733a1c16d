//! The known state of a Service.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::compile::{CompiledService, Datagrams, View, sets};
use crate::pods::PodState;
use crate::problem::Reason;
use crate::service::ServiceState;
use crate::slice::SliceState;

/// The identifiers of an object's sets.
pub(super) type Ids = SmallVec<[u32; 2]>;

/// A Service and its slices; either may be known before the other.
#[derive(Debug, Default)]
pub(super) struct KnownService {
    pub(super) service: Option<Arc<ServiceState>>,
    /// By name, sorted.
    pub(super) slices: SmallVec<[(Box<str>, Arc<SliceState>); 1]>,
    pub(super) sets: Ids,
    pub(super) datagrams: Vec<Datagrams>,
    pub(super) problems: Vec<Reason>,
}

#[derive(Debug)]
pub(super) struct KnownPod {
    pub(super) state: PodState,
    pub(super) sets: Ids,
}

// === impl Known ===

impl KnownService {
    pub(super) fn compile(&self, prefix: &str, view: &View) -> CompiledService {
        let slices = self.slices.iter().map(|(_, slice)| &**slice);
        self.service
            .as_ref()
            .map(|service| sets(prefix, service, slices, view))
            .unwrap_or_default()
    }

    /// Puts a slice there or takes it away; false if that changes nothing.
    pub(super) fn put_slice(&mut self, name: &str, state: Option<Arc<SliceState>>) -> bool {
        let place = self
            .slices
            .binary_search_by(|(other, _)| (**other).cmp(name));
        match (place, state) {
            (Err(_), None) => false,
            (Err(place), Some(state)) => {
                self.slices.insert(place, (name.into(), state));
                true
            }
            (Ok(place), None) => {
                self.slices.remove(place);
                true
            }
            (Ok(place), Some(state)) => match self.slices.get_mut(place) {
                Some((_, former)) if *former != state => {
                    *former = state;
                    true
                }
                _ => false,
            },
        }
    }
}
