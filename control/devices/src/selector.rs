//! Expressions that devices must satisfy: compiled once, evaluated per device, with the
//! results remembered.

use std::sync::{Arc, LazyLock};

use control_cel::{Bindings, Budget, Env, Object, Program, Text, Type, Val};
use rustc_hash::FxHashMap;

use crate::api::{Attribute, Device, NamedObject};
use crate::features::Features;

/// Expressions that stay compiled.
const PROGRAMS: usize = 256;
/// Results that are remembered.
const RESULTS: usize = 1 << 20;

/// The type of `device` in selectors.
static DEVICE: Object = Object {
    name: "kubernetes.DRADevice",
    fields: &[
        ("driver", || Type::String),
        ("attributes", || Type::map(Type::map(Type::Dyn))),
        ("capacity", || {
            Type::map(Type::map(Type::Opaque("kubernetes.Quantity")))
        }),
        ("allowMultipleAllocations", || Type::Bool),
    ],
};

static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    Env::new()
        .with("device", Type::Object(&DEVICE))
        .with_bindings()
});

/// Returns the environment of device selectors: `device`, and parts bound with
/// `cel.bind`.
#[must_use]
pub fn environment() -> &'static Env {
    &ENVIRONMENT
}

/// Error of a selector. The message is kube-scheduler's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// It is no expression, or not one about devices.
    #[error("CEL compile error: {0}")]
    Compile(String),
    /// Its evaluation fails for a device.
    #[error("CEL runtime error: {0}")]
    Runtime(String),
}

/// Error for an attribute that expressions cannot read.
#[derive(Debug, thiserror::Error)]
enum AttributeError {
    #[error("parse semantic version: {0}")]
    Version(control_cel::Error),
    #[error("unsupported attribute value")]
    Unsupported,
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub(crate) struct CompiledSelector {
    /// Its identity in the cache.
    id: u32,
    program: Arc<Program>,
}

/// Compiled expressions and their results, for one task. Bounded.
#[derive(Debug, Default)]
pub struct SelectorCache {
    programs: FxHashMap<String, (CompiledSelector, u64)>,
    uses: u64,
    next_id: u32,
    results: FxHashMap<(u64, u32, u32), bool>,
}

// === impl SelectorCache ===

impl SelectorCache {
    /// Compiles an expression, unless that was done before.
    pub(crate) fn compile(&mut self, expression: &str) -> Result<CompiledSelector, SelectorError> {
        self.uses += 1;
        if let Some((known, used)) = self.programs.get_mut(expression) {
            *used = self.uses;
            return Ok(known.clone());
        }
        let program = control_cel::compile(expression, environment())
            .map_err(|issues| SelectorError::Compile(format!("compilation failed: {issues}")))?;
        match program.type_of() {
            Type::Bool | Type::Dyn => {}
            other => {
                return Err(SelectorError::Compile(format!(
                    "must evaluate to bool or the unknown type, not {}",
                    other.declared_name()
                )));
            }
        }
        if self.programs.len() >= PROGRAMS
            && let Some(oldest) = self.programs.iter().min_by_key(|(_, (_, used))| *used)
        {
            let oldest = oldest.0.clone();
            self.programs.remove(&oldest);
        }
        self.next_id = self.next_id.wrapping_add(1);
        if self.next_id == 0 {
            self.results.clear();
        }
        let compiled = CompiledSelector {
            id: self.next_id,
            program: Arc::new(program),
        };
        self.programs
            .insert(expression.to_owned(), (compiled.clone(), self.uses));
        Ok(compiled)
    }

    /// Returns whether a device satisfies an expression. `slice` and `index` identify the
    /// device. The cost of the evaluation is charged to `budget`.
    pub(crate) fn matches(
        &mut self,
        compiled: &CompiledSelector,
        (slice, index): (u64, u32),
        driver: &str,
        device: &Device,
        features: &Features,
        budget: &mut u64,
    ) -> Result<bool, SelectorError> {
        let key = (slice, index, compiled.id);
        if let Some(known) = self.results.get(&key) {
            return Ok(*known);
        }
        let mut cost = Budget::per_call();
        let result = evaluate(&compiled.program, driver, device, features, &mut cost);
        let spent = Budget::CALL.saturating_sub(cost.left);
        *budget = budget.saturating_sub(spent.max(1));
        let matches = result?;
        if self.results.len() >= RESULTS {
            self.results.clear();
        }
        self.results.insert(key, matches);
        Ok(matches)
    }
}

fn evaluate(
    program: &Program,
    driver: &str,
    device: &Device,
    features: &Features,
    budget: &mut Budget,
) -> Result<bool, SelectorError> {
    let device = value(driver, device, features)?;
    let bindings = Bindings::new().with("device", device);
    let result = program
        .evaluate(&bindings, budget)
        .map_err(|error| SelectorError::Runtime(error.to_string()))?;
    result
        .as_bool()
        .ok_or_else(|| SelectorError::Runtime(not_a_truth_value(&result)))
}

fn not_a_truth_value(result: &Val<'_>) -> String {
    let name = result.type_name();
    let why = match name {
        "string" => "unsupported native conversion from string to 'bool'".to_owned(),
        "double" => "type conversion error from Double to 'bool'".to_owned(),
        "uint" => "unsupported type conversion from 'uint' to bool".to_owned(),
        "int" => "unsupported type conversion from 'int' to bool".to_owned(),
        "null_type" => "type conversion error from 'null_type' to 'bool'".to_owned(),
        "list" => "type conversion error from list to 'bool'".to_owned(),
        other => format!("type conversion error from '{other}' to 'bool'"),
    };
    format!("CEL result of type {name} could not be converted to bool: {why}")
}

/// A device as expressions see it.
fn value<'a>(
    driver: &'a str,
    device: &'a Device,
    features: &Features,
) -> Result<Val<'a>, SelectorError> {
    let attributes = by_domain(driver, &device.attributes, |name, attribute| {
        attribute_value(attribute, features)
            .map_err(|error| SelectorError::Runtime(format!("attribute {name}: {error}")))
    })?;
    let capacity = by_domain(driver, &device.capacity, |_, capacity| {
        Ok(Val::quantity(capacity.value.clone()))
    })?;
    let shared = device.allow_multiple_allocations == Some(true);
    Ok(Val::map([
        (Text::Ref("driver"), Val::Text(Text::Ref(driver))),
        (Text::Ref("attributes"), attributes),
        (Text::Ref("capacity"), capacity),
        (Text::Ref("allowMultipleAllocations"), Val::Bool(shared)),
    ]))
}

/// Values by domain and name; names without a domain are in the driver's.
fn by_domain<'a, T>(
    driver: &'a str,
    named: &'a NamedObject<T>,
    value: impl Fn(&str, &'a T) -> Result<Val<'a>, SelectorError>,
) -> Result<Val<'a>, SelectorError> {
    let mut domains: Vec<(&'a str, Vec<(Text<'a>, Val<'a>)>)> = Vec::new();
    for (name, of) in named {
        let of = value(name, of)?;
        let (domain, name) = name.split_once('/').unwrap_or((driver, name));
        let entry = (Text::Ref(name), of);
        match domains.iter_mut().find(|(known, _)| *known == domain) {
            Some((_, entries)) => entries.push(entry),
            None => domains.push((domain, vec![entry])),
        }
    }
    let domains = domains.into_iter();
    Ok(Val::defaulting_map(domains.map(|(domain, entries)| {
        (Text::Ref(domain), Val::map(entries))
    })))
}

fn attribute_value<'a>(
    attribute: &'a Attribute,
    features: &Features,
) -> Result<Val<'a>, AttributeError> {
    let version = |text: &str| Val::semver(text).map_err(AttributeError::Version);
    let lists = features.list_type_attributes;
    Ok(match attribute {
        Attribute::Int(number) => Val::Int(*number),
        Attribute::Bool(truth) => Val::Bool(*truth),
        Attribute::Text(text) => Val::Text(Text::Ref(text)),
        Attribute::Version(text) => version(text)?,
        Attribute::Ints(numbers) if lists => {
            Val::list(numbers.iter().map(|number| Val::Int(*number)).collect())
        }
        Attribute::Bools(truths) if lists => {
            Val::list(truths.iter().map(|truth| Val::Bool(*truth)).collect())
        }
        Attribute::Texts(texts) if lists => {
            let texts = texts.iter();
            Val::list(texts.map(|text| Val::Text(Text::Ref(text))).collect())
        }
        Attribute::Versions(versions) if lists => Val::list(
            versions
                .iter()
                .map(|text| version(text))
                .collect::<Result<_, _>>()?,
        ),
        _ => return Err(AttributeError::Unsupported),
    })
}

#[cfg(test)]
#[path = "selector_tests.rs"]
mod tests;
