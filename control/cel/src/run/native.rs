//! The functions behind the names that expressions call.

use super::authorizer;
use super::convert;
use super::error::Error;
use super::node::Meter;
use super::value::Val;
use super::{format, lists, operators, optionals, strings, time};
use crate::kube;

/// A function: gets its arguments, the receiver first.
pub(crate) type Native = for<'a> fn(&mut Meter, &[Val<'a>]) -> Result<Val<'a>, Error>;

/// The function called `name`, as a method or not. It looks at the types of its
/// arguments itself: many are known only then.
pub(crate) fn find(name: &str, method: bool) -> Option<Native> {
    let native: Native = match name {
        "_==_" => operators::is_equal,
        "_!=_" => operators::is_unequal,
        "_<_" => operators::less,
        "_<=_" => operators::less_equal,
        "_>_" => operators::greater,
        "_>=_" => operators::greater_equal,
        "_+_" => operators::add,
        "_-_" => operators::subtract,
        "_*_" => operators::multiply,
        "_/_" => operators::divide,
        "_%_" => operators::remainder,
        "-_" => operators::negate,
        "!_" => operators::not,
        "@in" => operators::within,
        "size" => lists::size,
        "type" => convert::type_of::call,
        "dyn" => convert::dyn_value,
        "bool" => convert::bool::call,
        "bytes" => convert::bytes::call,
        "double" => convert::double::call,
        "int" => convert::int::call,
        "uint" => convert::uint::call,
        "string" => convert::string::call,
        "duration" => convert::duration::call,
        "timestamp" => convert::timestamp::call,
        "matches" => strings::matches,
        "contains" => strings::contains,
        "startsWith" => strings::starts_with,
        "endsWith" => strings::ends_with,
        "getFullYear" => time::full_year,
        "getMonth" => time::month,
        "getDayOfYear" => time::day_of_year,
        "getDayOfMonth" => time::day_of_month,
        "getDate" => time::date,
        "getDayOfWeek" => time::day_of_week,
        "getHours" => time::hours,
        "getMinutes" => time::minutes,
        "getSeconds" => time::seconds,
        "getMilliseconds" => time::milliseconds,
        "charAt" => strings::char_at,
        "indexOf" => strings::index_of,
        "lastIndexOf" => strings::last_index_of,
        "lowerAscii" => strings::lower_ascii,
        "upperAscii" => strings::upper_ascii,
        "replace" => strings::replace,
        "split" => strings::split,
        "substring" => strings::substring,
        "trim" => strings::trim,
        "format" => format::format,
        "join" => strings::join,
        "strings.quote" => strings::quote,
        "find" => strings::find,
        "findAll" => strings::find_all,
        "isSorted" => lists::is_sorted,
        "sum" => lists::sum,
        "min" => lists::min,
        "max" => lists::max,
        "slice" => lists::slice,
        "flatten" => lists::flatten,
        "sort" => lists::sort,
        "distinct" => lists::distinct,
        "reverse" => lists::reverse,
        "lists.range" => lists::range,
        "first" => lists::first,
        "last" => lists::last,
        "sets.contains" => lists::sets_contains,
        "sets.equivalent" => lists::sets_equivalent,
        "sets.intersects" => lists::sets_intersects,
        "optional.of" => optionals::optional_of,
        "optional.ofNonZeroValue" => optionals::of_non_zero,
        "optional.none" => optionals::none,
        "optional.unwrap" | "unwrapOpt" => optionals::unwrap,
        "hasValue" => optionals::has_value,
        "value" => optionals::value,
        _ => return kube::find(name, method).or_else(|| authorizer::find(name)),
    };
    Some(native)
}
