//! Costs of functions' overloads.

use super::bounds::Estimate;
use super::part::EstimatedPart;
use crate::functions::Overload;
use crate::types::Type;

/// Returns the cost of one overload by itself, and the size of its result.
pub fn of_overload(
    function: &str,
    overload: &Overload,
    target: Option<&EstimatedPart>,
    args: &[EstimatedPart],
) -> (Estimate, Option<Estimate>) {
    let fixed = |cost: u64| (Estimate::fixed(cost), None);
    let unknown = EstimatedPart::default();
    let target_or = |place: usize| args.get(place).unwrap_or(&unknown);
    let receiver = target.unwrap_or(&unknown);
    let first = target_or(0).size();
    let parameter = |place: usize| overload.parameters.get(place);
    let is_text = |of: Option<&Type>| matches!(of, Some(Type::String | Type::Bytes));
    let look = |size: Estimate| (size.looked(), None);
    match function {
        "check" => fixed(350_000),
        "fieldSelector" | "labelSelector" => {
            let requirements = first.times(0.5).times(50.0);
            (
                Estimate::fixed(10).add(first.looked()).add(requirements),
                None,
            )
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match &receiver.of {
            Some(Type::List(items)) => {
                let mut each = Estimate::fixed(1);
                if is_text(Some(items)) {
                    // only its position in the schema tells the length of an item
                    each = each.add(receiver.item.unwrap_or(Estimate::UNKNOWN).looked());
                }
                (receiver.size().multiply(each), None)
            }
            _ => look(receiver.size()),
        },
        "url" | "jsonpatch.escapeKey" => (first.looked(), Some(first)),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            (receiver.size().looked(), Some(receiver.size()))
        }
        "replace" => (
            receiver.size().times(0.2),
            Some(replaced(receiver.size(), first, target_or(1).size())),
        ),
        "split" => {
            let most = target_or(1)
                .number
                .map_or(receiver.size().max, |n| n as u64);
            (
                receiver.size().times(0.2),
                Some(Estimate { min: 0, max: most }),
            )
        }
        "join" => {
            let list = receiver.size();
            let item = receiver.item.unwrap_or(Estimate::UNKNOWN);
            let mut size = list.multiply(item);
            if !args.is_empty() {
                size = size.add(first.multiply(Estimate {
                    min: list.min.saturating_sub(1),
                    max: list.max.saturating_sub(1),
                }));
            }
            (size.looked(), Some(size))
        }
        "find" | "findAll" => {
            let text = receiver.size();
            let cost = text
                .add(Estimate::fixed(1))
                .looked()
                .multiply(first.times(0.25));
            (
                cost,
                Some(Estimate {
                    min: 0,
                    max: text.max,
                }),
            )
        }
        "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            look(first)
        }
        "ip" if target.is_none() => look(first),
        "ip.isCanonical" => (first.times(0.2), None),
        "containsIP" | "containsCIDR" => {
            let bytes = Estimate { min: 4, max: 16 };
            let mut cost = bytes.add(bytes).looked();
            if function == "containsCIDR" {
                cost = cost.add(bytes.looked()).add(Estimate::fixed(1));
            }
            if matches!(parameter(1), Some(Type::String)) {
                cost = cost.add(first.looked());
            }
            (cost, None)
        }
        "validate" => (first.looked().times(128.0 * 0.25), None),
        "slice" => {
            let start = target_or(0).number.map_or(0, |n| n.max(0) as u64);
            let end = target_or(1)
                .number
                .map_or(receiver.size().max, |n| n.max(0) as u64);
            allocated(1.0, Estimate::fixed(end.wrapping_sub(start)))
        }
        "lists.range" => {
            let size = target_or(0).number.map_or(u64::MAX, |n| n.max(0) as u64);
            allocated(1.0, Estimate::fixed(size))
        }
        "reverse" => allocated(1.0, receiver.size()),
        "flatten" => {
            let depth = match args.first() {
                None => 1,
                Some(depth) => depth.number.map_or(u64::MAX, |n| n.max(0) as u64),
            };
            allocated(depth as f64, receiver.size())
        }
        "distinct" => allocated(2.0, receiver.size().multiply(receiver.size())),
        "sort" => {
            let text = matches!(&receiver.of, Some(Type::List(items)) if is_text(Some(items)));
            let factor = if text { 2.1 } else { 2.0 };
            allocated(factor, receiver.size().multiply(receiver.size()))
        }
        "sets.contains" | "sets.intersects" | "sets.equivalent" => {
            let times = if function == "sets.equivalent" {
                2.0
            } else {
                1.0
            };
            let cost = first.multiply(target_or(1).size()).times(times);
            (cost.add(Estimate::fixed(1)), None)
        }
        "_==_"
            if matches!(target_or(0).of, Some(Type::Opaque(_)))
                && target_or(0).of == target_or(1).of =>
        {
            match &target_or(0).of {
                Some(Type::Opaque("kubernetes.NamedFormat")) => {
                    (Estimate { min: 1, max: 64 }.looked(), None)
                }
                _ => fixed(1),
            }
        }
        "format" => look(receiver.size()),
        "bytes" if matches!(parameter(0), Some(Type::String)) => (
            first.looked(),
            Some(Estimate {
                min: first.min,
                max: first.max.saturating_mul(4),
            }),
        ),
        "string" if matches!(parameter(0), Some(Type::Bytes)) => (
            first.looked(),
            Some(Estimate {
                min: first.min / 4,
                max: first.max,
            }),
        ),
        "strings.quote" => (
            first.looked(),
            Some(Estimate {
                min: first.min.saturating_add(2),
                max: first.max.saturating_mul(2).saturating_add(2),
            }),
        ),
        "startsWith" | "endsWith" => look(first),
        "@in" if matches!(parameter(1), Some(Type::List(_))) => (target_or(1).size(), None),
        "matches" if target.is_some() => {
            let text = receiver.size().add(Estimate::fixed(1)).looked();
            (text.multiply(first.times(0.25)), None)
        }
        "contains" => (receiver.size().looked().multiply(first.looked()), None),
        "_+_" if is_text(parameter(0)) => {
            let size = first.add(target_or(1).size());
            (size.looked(), Some(size))
        }
        "_+_" if matches!(parameter(0), Some(Type::List(_))) => {
            (Estimate::fixed(1), Some(first.add(target_or(1).size())))
        }
        "_==_" | "_!=_" => (compared(first, target_or(1).size()), None),
        _ => fixed(1),
    }
}

/// Comparing two texts, or whatever has a size.
pub fn compared(a: Estimate, b: Estimate) -> Estimate {
    let max = a.max.min(b.max);
    Estimate {
        min: u64::from(max > 0),
        max,
    }
    .looked()
}

fn allocated(factor: f64, size: Estimate) -> (Estimate, Option<Estimate>) {
    (size.times(factor).add(Estimate::fixed(11)), Some(size))
}

/// Returns the bounds of a string's length after `replace`.
fn replaced(text: Estimate, old: Estimate, new: Estimate) -> Estimate {
    let (most_times, most_kept) = if old.min == 0 {
        // an empty separator matches between all characters, and around
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (text.max.div_ceil(old.min), 0)
    };
    let (least_times, least_kept) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (text.min.div_ceil(old.max), 0)
    };
    Estimate {
        min: least_times
            .saturating_mul(new.min)
            .saturating_add(least_kept),
        max: most_times.saturating_mul(new.max).saturating_add(most_kept),
    }
}
