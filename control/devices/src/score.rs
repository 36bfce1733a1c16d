//! Scores of prioritized lists.

use crate::api::{
    AllocationResult, ExactDeviceRequest, FIRST_AVAILABLE_MAX_SIZE, ResourceClaimSpec,
};

/// The score of an alternative of a prioritized list.
pub(crate) fn alternative_score(position: usize) -> i64 {
    i64::try_from(FIRST_AVAILABLE_MAX_SIZE.saturating_sub(position)).unwrap_or(0)
}

/// The score of prioritized lists in a claim that has its allocation.
#[must_use]
pub fn allocation_score(spec: &ResourceClaimSpec, allocation: &AllocationResult) -> i64 {
    let chosen = |request: &str, alternative: &ExactDeviceRequest| {
        let mut results = allocation.devices.results.iter();
        results.any(|result| {
            result.request.split_once('/') == Some((request, alternative.name.as_str()))
        })
    };
    let lists = spec
        .devices
        .requests
        .iter()
        .filter(|request| request.exactly.is_none());
    lists
        .flat_map(|request| {
            let alternatives = request.first_available.iter().enumerate();
            alternatives.filter(|(_, alternative)| chosen(&request.name, alternative))
        })
        .map(|(position, _)| alternative_score(position))
        .sum()
}
