//! Costs of calls: the figures of cel-go's cost tracker and of the estimators of
//! Kubernetes' libraries. Each examined character costs a tenth.

use super::value::Val;

/// How the cost of a call follows from its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The same always.
    Fixed(u64),
    /// A look over the first argument, so many times.
    Traverse(u64),
    /// A look over the result, so many times.
    Result(u64),
    /// The smaller of two.
    Compare,
    /// Equality: of values of the libraries it costs 1.
    Equal,
    /// Both together.
    Append,
    /// The second: every item may have to be looked at.
    Items,
    /// Each character by each part of a pattern.
    Pattern,
    /// Each character by each of the other.
    Contains,
    /// All items, and the text in them.
    Deep,
    /// A list as large as the result is made.
    Allocate,
    /// A list is flattened to a depth.
    Flatten,
    /// All items by all items.
    SelfCompare,
    /// All items of one list by all of the other, so many times.
    Sets(u64),
    /// A selector is parsed.
    Selector,
    /// An address within a network; the flag: given as text.
    Address(bool),
    /// A network within a network; the flag: given as text.
    Network(bool),
    /// Text is matched against a named format.
    Format,
}

/// A tenth of a size, rounded up.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

/// A quarter of a size, rounded up: a part of a pattern has some four characters.
fn quarter(size: u64) -> u64 {
    size.div_ceil(4)
}

/// Returns the cost of a call.
pub(crate) fn of_call(rule: Rule, args: &[Val<'_>], result: Option<&Val<'_>>) -> u64 {
    let size = |at: usize| args.get(at).map_or(1, Val::size);
    match rule {
        Rule::Fixed(cost) => cost,
        Rule::Traverse(times) => tenth(size(0).saturating_mul(times)),
        Rule::Result(times) => tenth(result.map_or(1, Val::size).saturating_mul(times)),
        Rule::Equal
            if matches!(
                args.first(),
                Some(
                    Val::Quantity(_)
                        | Val::Ip(_)
                        | Val::Cidr(..)
                        | Val::Format(_)
                        | Val::Url(_)
                        | Val::Semver(_)
                        | Val::Check(_)
                )
            ) =>
        {
            1
        }
        Rule::Compare | Rule::Equal => tenth(size(0).min(size(1))),
        Rule::Append => tenth(size(0).saturating_add(size(1))),
        Rule::Items => size(1),
        Rule::Pattern => tenth(size(0) + 1).saturating_mul(quarter(size(1))),
        Rule::Contains => tenth(size(0)).saturating_mul(tenth(size(1))),
        Rule::Deep => args.first().map_or(0, traversal),
        Rule::Allocate => result.map_or(1, Val::size).saturating_add(11),
        Rule::Flatten => {
            let depth = match args.get(1) {
                Some(Val::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                _ => 1,
            };
            size(0).saturating_mul(depth).saturating_add(11)
        }
        Rule::SelfCompare => match args.first() {
            Some(Val::List(list)) => {
                let square = size(0).saturating_mul(size(0));
                let text = matches!(list.get(0), Some(Ok(Val::Text(_) | Val::Bytes(_))));
                let more = if text { square / 10 } else { 0 };
                square.saturating_mul(2).saturating_add(more + 11)
            }
            _ => 1,
        },
        Rule::Sets(times) => size(0)
            .saturating_mul(size(1))
            .saturating_mul(times)
            .saturating_add(1),
        Rule::Selector => {
            let length = size(1);
            // a requirement has at least two characters, and costs a list and a struct
            10 + tenth(length) + length.div_ceil(2).saturating_mul(50)
        }
        Rule::Address(text) => tenth(2 * size(0)) + if text { tenth(size(1)) } else { 0 },
        Rule::Network(text) => {
            tenth(2 * size(0)) + tenth(size(0)) + 1 + if text { tenth(size(1)) } else { 0 }
        }
        Rule::Format => match args {
            [Val::Format(format), _] => {
                tenth(size(1) + 1).saturating_mul(quarter(format.regex_size))
            }
            _ => 1,
        },
    }
}

/// Returns the cost of sorting this many items.
pub(crate) fn sort(items: usize) -> u64 {
    let items = items as u64;
    items.saturating_mul(items).saturating_mul(2) + 11
}

/// A look over a value and all that is in it; text is rounded down.
fn traversal(value: &Val<'_>) -> u64 {
    match value {
        Val::Text(text) => text.len() as u64 / 10,
        Val::Bytes(bytes) => bytes.len() as u64 / 10,
        Val::List(list) => list
            .to_vec()
            .map_or(1, |items| items.iter().map(traversal).sum()),
        Val::Map(map) => map.pairs().map_or(1, |pairs| {
            pairs
                .iter()
                .map(|(key, value)| traversal(key) + traversal(value))
                .sum()
        }),
        _ => 1,
    }
}
