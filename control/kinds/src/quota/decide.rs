//! Computes what a request is charged, and whether quotas allow it.

use control_types::value::Value;

use super::amount::Usage;
use super::limits::{self, Limits};
use super::measure::{Classes, Request};
use super::scopes;
use super::tracked::{FREE, measure, tracks, usage};
use crate::admission::Refusal;
use crate::tree::Read as _;

/// The charge of a request on one quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The name of the quota.
    pub quota: String,
    /// The increase over the former usage.
    pub more: Usage,
    /// Whether it is taken even where it is not there: it was taken already, and
    /// this only tells.
    pub is_fact: bool,
    /// Usage that was counted because the quota's status lacks it. It is stored with
    /// the charge.
    pub counted: Usage,
}

/// The reason of a rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unpaid {
    /// A quota refuses it.
    Refused(Refusal),
    /// No quota covers a scope that it is in, and one must. For kube-apiserver this is
    /// no refusal but a failure.
    Uncovered(String),
}

impl From<Refusal> for Unpaid {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

impl Request<'_> {
    /// Whether quotas may have a say, without looking at them.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        if FREE.contains(&(self.group, self.plural)) {
            return false;
        }
        match measure(self.group, self.plural) {
            Some(measure) => (measure.handles)(self),
            None => self.subresource.is_empty() && self.old.is_none(),
        }
    }
}

/// Computes the charge of a request on each quota of its namespace; a quota must cover
/// what `limits` name.
///
/// # Errors
/// Why a quota rejects the request before or because of the amount; or the limited
/// resources without a quota.
pub fn assess(
    quotas: &[Value],
    request: &Request<'_>,
    limits: &Limits,
    classes: Classes<'_>,
    now: jiff::Timestamp,
) -> Result<Vec<Charge>, Unpaid> {
    if !request.is_measured() {
        return Ok(Vec::new());
    }
    let (group, plural) = (request.group, request.plural);
    let mut concerned = Vec::new();
    let mut covered: Vec<&str> = Vec::new();
    for quota in quotas {
        let name = quota.at("metadata").text("name");
        let status = quota.at("status");
        let limited: Vec<&str> = status
            .entries("hard")
            .map(|(name, _)| name)
            .filter(|name| tracks(group, plural, name, classes))
            .collect();
        if limited.is_empty() || !scopes::matches(quota, group, plural, request.new) {
            continue;
        }
        if let Some(measure) = measure(group, plural) {
            (measure.constraints)(&limited, request.new)
                .map_err(|why| Refusal::from(format!("failed quota: {name}: {why}")))?;
        }
        let used = status.at("used");
        if limited.iter().any(|name| !used.has(name)) {
            let mut limited = limited;
            limited.sort_unstable();
            let limited = limited.join(",");
            return Err(Unpaid::Refused(
                format!("status unknown for quota: {name}, resources: {limited}").into(),
            ));
        }
        covered.extend(limited);
        concerned.push(quota);
    }
    if concerned.is_empty() && limits.is_empty() {
        return Ok(Vec::new());
    }
    let takes = usage(group, plural, request.new, classes, now);
    let negative = takes.negative();
    if !negative.is_empty() {
        let negative = negative.join(",");
        return Err(Unpaid::Refused(
            format!("quota usage is negative for resource(s): {negative}").into(),
        ));
    }
    let had = request
        .old
        .map(|old| (old, usage(group, plural, old, classes, now)));
    let more_than_had = |quota: Option<&Value>| match &had {
        // Amounts that the quota already counted are not charged again.
        Some((old, had))
            if quota.is_none_or(|quota| scopes::matches(quota, group, plural, old)) =>
        {
            takes.more_than(had)
        }
        _ => takes.clone().without_zeros(),
    };
    let mut owed: Vec<(&Value, Usage)> = concerned
        .iter()
        .map(|quota| (*quota, more_than_had(Some(quota))))
        .collect();
    owed.retain(|(_, more)| !more.is_empty());
    let takes_nothing = match concerned.as_slice() {
        [] => more_than_had(None).is_empty(),
        _ => owed.is_empty(),
    };
    if takes_nothing {
        return Ok(Vec::new());
    }
    let mut names = limits.names(group, plural, &takes);
    names.retain(|name| !covered.contains(&name.as_str()));
    if !names.is_empty() {
        let names = names.join(",");
        return Err(Unpaid::Refused(
            format!("insufficient quota to consume: {names}").into(),
        ));
    }
    let mut open = limits.scopes(group, plural, request.new);
    if !open.is_empty() {
        let met = |quota| scopes::met(quota, group, plural, request.new);
        let met: Vec<String> = quotas.iter().flat_map(met).collect();
        open.retain(|scope| !met.iter().any(|name| name == scope.text("scopeName")));
    }
    if !open.is_empty() {
        return Err(Unpaid::Uncovered(format!(
            "insufficient quota to match these scopes: {}",
            limits::show(&open)
        )));
    }
    let mut charges = Vec::new();
    for (quota, more) in owed {
        let charge = Charge {
            quota: quota.at("metadata").text("name").to_owned(),
            more,
            is_fact: request.subresource == "status",
            counted: Usage::default(),
        };
        if pay(quota, &charge)?.is_some() {
            charges.push(charge);
        }
    }
    Ok(charges)
}

/// The usage (`status.used`) of a quota when a charge is paid; none: it is about
/// nothing that this quota limits.
///
/// # Errors
/// Why it is too much.
pub fn pay(quota: &Value, charge: &Charge) -> Result<Option<Value>, Refusal> {
    let status = quota.at("status");
    let hard = Usage::from_list(status.at("hard"));
    let used = Usage::from_list(status.at("used"));
    let mut asked = charge.more.clone();
    asked.retain(|name| hard.get(name).is_some());
    if asked.is_empty() {
        return Ok(None);
    }
    let mut sum = used.clone();
    sum.add_all(&asked);
    if !charge.is_fact {
        let mut touched = sum.clone();
        touched.retain(|name| asked.get(name).is_some());
        let beyond = touched.beyond(&hard);
        if !beyond.is_empty() {
            return Err(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                quota.at("metadata").text("name"),
                asked.show(&beyond),
                used.show(&beyond),
                hard.show(&beyond)
            )
            .into());
        }
    }
    Ok(Some(sum.to_value()))
}
