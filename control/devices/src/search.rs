//! The search for devices on one node: depth first, with backtracking.
//!
//! Claims, requests and the devices of a request are settled one after the other; for
//! each, devices are tried in order, and the first complete solution is taken. Devices of
//! one request are tried in ascending order only, since their order makes no difference.

mod choice;
mod dead_ends;
mod eligible;

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use control_types::quantity::Quantity;

use crate::allocated::{AllocatedDevices, PoolUse};
use crate::api::{ALLOCATION_RESULTS_MAX_SIZE, Device, ExactDeviceRequest};
use crate::capacity::ConsumedCapacity;
use crate::claim::Claim;
use crate::constraint::{Constraint, RequestName};
use crate::effort::Effort;
use crate::error::AllocationError;
use crate::features::Features;
use crate::inventory::Slice;
use crate::plan::{AlternativePlan, ClaimPlan, RequestPlan, request_of};
use crate::pools::{AvailableCounters, Node, Pool, PoolState};
use crate::result::{FoundAllocation, FoundClaim};
use crate::selector::SelectorCache;

/// After so many steps it is worth asking whether any request is hopeless.
const STEPS_BEFORE_DOUBT: u64 = 512;

/// A device that may be chosen.
struct Candidate<'a> {
    pool: usize,
    slice: &'a Arc<Slice>,
    index: usize,
    device: &'a Device,
}

/// The state of one way to satisfy a request.
#[derive(Default)]
struct Progress {
    /// Devices that it needs.
    count: usize,
    /// Those devices, if all are requested.
    all: Vec<usize>,
    /// Whether candidates match the selectors, as far as they were evaluated.
    selectable: Vec<Option<bool>>,
}

/// A device that a request needs.
#[derive(Clone, Copy, Default)]
struct Position {
    claim: usize,
    request: usize,
    alternative: usize,
    /// Its number within the request.
    device: usize,
    /// The first candidate that is tried: those before it were tried with the device before.
    start: usize,
}

/// A decision that waits until everything after it is settled.
enum Frame {
    /// The end of a claim.
    Claim,
    /// A list of alternatives, of which one is being tried.
    List {
        at: Position,
        /// Whether all alternatives so far needed too many devices.
        too_many: bool,
    },
    /// A chosen device.
    Device {
        at: Position,
        candidate: usize,
        undo: Undo,
        /// Whether another may be tried instead.
        others: bool,
    },
}

/// The next step of the search.
enum Next {
    Settle(Position, bool),
    Settled(Result<bool, Stop>),
}

/// The reason why the search backtracks further than one step.
enum Stop {
    /// A claim would have too many devices.
    TooMany,
    /// There is no solution.
    Hopeless,
    TimedOut,
    Error(AllocationError),
}

/// Counters that devices chosen so far consume.
struct ConsumedCounters {
    available: Arc<AvailableCounters>,
    consumed: Vec<Quantity>,
}

/// The changes of choosing a device.
#[derive(Default)]
struct Undo {
    counters: bool,
    constraints: usize,
    marked: bool,
    share: Option<(ConsumedCapacity, bool)>,
    result: bool,
}

pub(crate) struct Search<'a> {
    claims: &'a [Claim],
    plans: &'a [ClaimPlan],
    pools: &'a [Pool],
    in_use: Vec<Option<&'a PoolUse>>,
    candidates: Vec<Candidate<'a>>,
    /// Candidates of each pool.
    ranges: Vec<Range<usize>>,
    node: &'a dyn Node,
    features: Features,
    selectors: &'a mut SelectorCache,
    effort: &'a mut Effort,
    steps: u64,
    may_doubt: bool,
    /// Whether it takes so long that looking for dead ends pays.
    doubts: bool,
    progress: Vec<Vec<Vec<Progress>>>,
    constraints: Vec<Vec<Constraint<'a>>>,
    counters: Vec<Option<ConsumedCounters>>,
    /// Claims that candidates are chosen for, unless claims share them.
    chosen: FxHashMap<usize, SmallVec<[usize; 1]>>,
    /// The consumed amounts of shared candidates.
    shared: FxHashMap<usize, ConsumedCapacity>,
    found: Vec<FoundClaim>,
}

// === impl Position ===

impl Position {
    /// The next device of the same request.
    const fn following(self, start: usize) -> Self {
        Self {
            device: self.device + 1,
            start,
            ..self
        }
    }
}

// === impl Search ===

impl<'a> Search<'a> {
    #[allow(
        clippy::too_many_arguments,
        reason = "each argument is a separate borrow of one struct"
    )]
    pub(crate) fn new(
        claims: &'a [Claim],
        plans: &'a [ClaimPlan],
        pools: &'a [Pool],
        counters: Vec<Option<Arc<AvailableCounters>>>,
        allocated: &'a AllocatedDevices,
        node: &'a dyn Node,
        features: Features,
        selectors: &'a mut SelectorCache,
        effort: &'a mut Effort,
    ) -> Self {
        let mut candidates = Vec::new();
        let mut ranges = Vec::new();
        for (number, pool) in pools.iter().enumerate() {
            let start = candidates.len();
            if pool.state == PoolState::Usable {
                for slice in &pool.slices {
                    let devices = slice.spec.devices.iter().enumerate();
                    candidates.extend(devices.map(|(index, device)| Candidate {
                        pool: number,
                        slice,
                        index,
                        device,
                    }));
                }
            }
            ranges.push(start..candidates.len());
        }
        let counters = counters.into_iter().map(|available| {
            available.map(|available| ConsumedCounters {
                consumed: vec![Quantity::ZERO; available.values.len()],
                available,
            })
        });
        let fails_on_constraints = claims.iter().zip(plans).any(|(claim, plan)| {
            let mut alternatives = plan.requests.iter().flat_map(|one| &one.alternatives);
            !claim.spec.devices.constraints.is_empty()
                && alternatives.any(|alternative| alternative.count.is_none())
        });
        Self {
            steps: effort.steps_per_node.min(effort.steps),
            in_use: pools.iter().map(|pool| allocated.pool(&pool.id)).collect(),
            counters: counters.collect(),
            candidates,
            ranges,
            claims,
            plans,
            pools,
            node,
            features,
            selectors,
            effort,
            // If all devices are requested and a constraint forbids them, that is an
            // error. An early end of the search must not hide it.
            may_doubt: !fails_on_constraints,
            doubts: false,
            progress: Vec::new(),
            constraints: Vec::new(),
            chosen: FxHashMap::default(),
            shared: FxHashMap::default(),
            found: Vec::new(),
        }
    }

    pub(crate) fn run(mut self) -> Result<Option<Arc<FoundAllocation>>, AllocationError> {
        let outcome = match self.look_over() {
            Ok(()) => self.settle(Position::default()),
            Err(stop) => Err(stop),
        };
        match outcome {
            Ok(true) => Ok(Some(Arc::new(FoundAllocation { claims: self.found }))),
            Err(Stop::Error(error)) => Err(error),
            Err(Stop::TimedOut) => Err(timed_out(self.node)),
            Ok(false) | Err(Stop::TooMany | Stop::Hopeless) => {
                let invalid = |pool: &Pool| pool.state == PoolState::Invalid;
                if self.pools.iter().any(invalid) {
                    return Err(AllocationError::InvalidPools);
                }
                Ok(None)
            }
        }
    }

    /// Finds out how many devices requests need.
    fn look_over(&mut self) -> Result<(), Stop> {
        for (number, (claim, plan)) in self.claims.iter().zip(self.plans).enumerate() {
            self.progress.push(Vec::new());
            let mut least: usize = 0;
            for (position, request) in plan.requests.iter().enumerate() {
                if let Some(error) = &request.error {
                    return Err(Stop::Error(error.clone()));
                }
                let least_of_request = self.look_over_request(number, position, request)?;
                least = least.saturating_add(least_of_request);
            }
            if least > ALLOCATION_RESULTS_MAX_SIZE {
                return Err(Stop::Error(AllocationError::TooManyDevices {
                    claim: claim.reference(),
                    devices: least,
                }));
            }
            if let Some(index) = plan.empty_constraint {
                return Err(Stop::Error(AllocationError::EmptyConstraint {
                    claim: claim.reference(),
                    index,
                }));
            }
            let constraints = claim.spec.devices.constraints.iter();
            self.constraints
                .push(constraints.filter_map(Constraint::new).collect());
            self.found.push(FoundClaim {
                devices: Vec::new(),
                chosen: vec![None; plan.requests.len()],
            });
        }
        Ok(())
    }

    fn look_over_request(
        &mut self,
        claim: usize,
        request: usize,
        plan: &'a RequestPlan,
    ) -> Result<usize, Stop> {
        if let Some(progress) = self.progress.get_mut(claim) {
            progress.push(Vec::new());
        }
        let mut least = usize::MAX;
        for (number, alternative) in plan.alternatives.iter().enumerate() {
            if let Some(error) = &alternative.error {
                return Err(Stop::Error(error.clone()));
            }
            let at = Position {
                claim,
                request,
                alternative: number,
                ..Position::default()
            };
            if let Some(progress) = self.progress.get_mut(claim)
                && let Some(progress) = progress.get_mut(request)
            {
                progress.push(Progress {
                    count: alternative.count.unwrap_or(0),
                    ..Progress::default()
                });
            }
            if alternative.count.is_none() {
                let all = self.all_devices(at, alternative)?;
                if let Some(progress) = self.progress_mut(at) {
                    progress.count = all.len();
                    progress.all = all;
                }
            }
            let count = self.progress(at).map_or(0, |progress| progress.count);
            least = least.min(count);
        }
        Ok(least)
    }

    /// The candidates that a request for all devices is about, in use or not.
    fn all_devices(&mut self, at: Position, plan: &'a AlternativePlan) -> Result<Vec<usize>, Stop> {
        let mut all = Vec::new();
        for (number, pool) in self.pools.iter().enumerate() {
            let state = match pool.state {
                PoolState::Usable => {
                    for candidate in self.ranges.get(number).cloned().unwrap_or_default() {
                        if self.is_selectable(at, plan, candidate)?
                            && self.has_capacity(at, candidate)
                        {
                            all.push(candidate);
                        }
                    }
                    continue;
                }
                PoolState::Incomplete => "being updated",
                PoolState::Invalid => "invalid",
            };
            return Err(Stop::Error(AllocationError::UnknownDevices {
                claim: self.reference(at.claim),
                request: self.short_name(at).into(),
                pool: format!("{}/{}", pool.id.driver, pool.id.pool),
                state,
            }));
        }
        Ok(all)
    }

    /// Settles the device at a position, and all that follow; whether there is a solution.
    ///
    /// The frames are on the heap: there may be as many as a pod's claims have devices.
    fn settle(&mut self, first: Position) -> Result<bool, Stop> {
        let mut frames: Vec<Frame> = Vec::new();
        let mut next = Next::Settle(first, false);
        loop {
            next = match next {
                Next::Settle(at, chosen) => self.enter(at, chosen, &mut frames),
                Next::Settled(settled) => match frames.pop() {
                    Some(frame) => self.resume(frame, settled, &mut frames),
                    None => return settled,
                },
            };
        }
    }

    /// Begins with a position. `chosen` says that an alternative of its request is.
    fn enter(&mut self, at: Position, chosen: bool, frames: &mut Vec<Frame>) -> Next {
        if let Err(stop) = self.step() {
            return Next::Settled(Err(stop));
        }
        let Some(plan) = self.plans.get(at.claim) else {
            return Next::Settled(Ok(true));
        };
        let Some(request) = plan.requests.get(at.request) else {
            frames.push(Frame::Claim);
            let next = Position {
                claim: at.claim + 1,
                ..Position::default()
            };
            return Next::Settle(next, false);
        };
        if request.is_list && !chosen {
            frames.push(Frame::List { at, too_many: true });
            return Next::Settle(at, true);
        }
        let Some(alternative) = request.alternatives.get(at.alternative) else {
            return Next::Settled(Ok(false));
        };
        let all = alternative.count.is_none();
        let count = self.progress(at).map_or(0, |progress| progress.count);
        if all && count == 0 {
            return Next::Settled(Ok(false));
        }
        if at.device >= count {
            let next = Position {
                claim: at.claim,
                request: at.request + 1,
                ..Position::default()
            };
            return Next::Settle(next, false);
        }
        let settled = self.found.get(at.claim);
        let settled = settled.map_or(0, |found| found.devices.len());
        if settled + count - at.device > ALLOCATION_RESULTS_MAX_SIZE {
            return Next::Settled(Err(Stop::TooMany));
        }
        if !all {
            if self.doubts && !self.has_enough(at, alternative, count - at.device) {
                return Next::Settled(Ok(false));
            }
            return self.try_from(at, alternative, at.start, frames);
        }
        let candidates = self.progress(at).map(|progress| &progress.all);
        let Some(candidate) = candidates.and_then(|all| all.get(at.device)).copied() else {
            return Next::Settled(Ok(false));
        };
        match self.choose(at, alternative, candidate, true) {
            Ok(Some(undo)) => {
                frames.push(Frame::Device {
                    at,
                    candidate,
                    undo,
                    others: false,
                });
                Next::Settle(at.following(0), true)
            }
            Ok(None) => Next::Settled(Ok(false)),
            Err(stop) => Next::Settled(Err(stop)),
        }
    }

    /// Goes on where a frame waits for what follows it.
    fn resume(
        &mut self,
        frame: Frame,
        settled: Result<bool, Stop>,
        frames: &mut Vec<Frame>,
    ) -> Next {
        match (frame, settled) {
            // With other devices for earlier claims, an alternative with fewer devices may be
            // possible here.
            (Frame::Claim, Err(Stop::TooMany)) => Next::Settled(Ok(false)),
            (Frame::Claim | Frame::Device { .. }, Ok(true)) => Next::Settled(Ok(true)),
            (Frame::Claim, settled) => Next::Settled(settled),
            (Frame::List { at, .. }, Ok(true)) => {
                if let Some(found) = self.found.get_mut(at.claim)
                    && let Some(chosen) = found.chosen.get_mut(at.request)
                {
                    *chosen = Some(at.alternative);
                }
                Next::Settled(Ok(true))
            }
            (Frame::List { at, too_many }, settled @ (Ok(false) | Err(Stop::TooMany))) => {
                // another alternative may need fewer devices
                let too_many = too_many && settled.is_err();
                let at = Position {
                    alternative: at.alternative + 1,
                    ..at
                };
                if self.alternative(at).is_none() {
                    let settled = if too_many {
                        Err(Stop::TooMany)
                    } else {
                        Ok(false)
                    };
                    return Next::Settled(settled);
                }
                frames.push(Frame::List { at, too_many });
                Next::Settle(at, true)
            }
            (Frame::List { .. }, settled) => Next::Settled(settled),
            (
                Frame::Device {
                    at,
                    candidate,
                    undo,
                    others,
                },
                settled,
            ) => {
                self.undo(at, candidate, undo);
                match (settled, self.alternative(at)) {
                    (Ok(false), Some(alternative)) if others => {
                        self.try_from(at, alternative, candidate + 1, frames)
                    }
                    (settled, _) => Next::Settled(settled),
                }
            }
        }
    }

    /// Chooses the first candidate from `start` on that can be had.
    fn try_from(
        &mut self,
        at: Position,
        plan: &'a AlternativePlan,
        start: usize,
        frames: &mut Vec<Frame>,
    ) -> Next {
        for candidate in start..self.candidates.len() {
            let chosen = match self.is_eligible(at, plan, candidate) {
                Ok(true) => self.choose(at, plan, candidate, false),
                Ok(false) => continue,
                Err(stop) => Err(stop),
            };
            match chosen {
                Ok(None) => {}
                Ok(Some(undo)) => {
                    frames.push(Frame::Device {
                        at,
                        candidate,
                        undo,
                        others: true,
                    });
                    return Next::Settle(at.following(candidate + 1), true);
                }
                Err(stop) => return Next::Settled(Err(stop)),
            }
        }
        Next::Settled(Ok(false))
    }

    fn alternative(&self, at: Position) -> Option<&'a AlternativePlan> {
        let request = self.plans.get(at.claim)?.requests.get(at.request)?;
        request.alternatives.get(at.alternative)
    }

    /// Counts a step.
    fn step(&mut self) -> Result<(), Stop> {
        if self.steps == 0 || self.effort.is_spent() {
            return Err(Stop::TimedOut);
        }
        self.steps -= 1;
        self.effort.steps -= 1;
        let taken = self.effort.steps_per_node.saturating_sub(self.steps);
        if taken > STEPS_BEFORE_DOUBT && self.may_doubt && !self.doubts {
            self.doubts = true;
            if self.is_hopeless()? {
                return Err(Stop::Hopeless);
            }
        }
        Ok(())
    }

    fn progress(&self, at: Position) -> Option<&Progress> {
        self.progress
            .get(at.claim)?
            .get(at.request)?
            .get(at.alternative)
    }

    fn progress_mut(&mut self, at: Position) -> Option<&mut Progress> {
        self.progress
            .get_mut(at.claim)?
            .get_mut(at.request)?
            .get_mut(at.alternative)
    }

    fn request(&self, at: Position) -> Option<&'a ExactDeviceRequest> {
        let claim = self.claims.get(at.claim)?;
        request_of(&claim.spec, at.request, at.alternative)
    }

    fn request_name(&self, at: Position) -> RequestName<'a> {
        let claim = self.claims.get(at.claim);
        let request = claim.and_then(|claim| claim.spec.devices.requests.get(at.request));
        let list = request.map(|request| &request.first_available);
        RequestName {
            request: request.map_or("", |request| &request.name),
            alternative: list
                .and_then(|list| list.get(at.alternative))
                .map(|alternative| alternative.name.as_str()),
        }
    }

    /// The name of the alternative, or else of the request.
    fn short_name(&self, at: Position) -> &'a str {
        let name = self.request_name(at);
        name.alternative.unwrap_or(name.request)
    }

    fn reference(&self, claim: usize) -> String {
        let claim = self.claims.get(claim);
        claim.map(Claim::reference).unwrap_or_default()
    }
}

pub(crate) fn timed_out(node: &dyn Node) -> AllocationError {
    AllocationError::TimedOut {
        node: node.name().into(),
    }
}
