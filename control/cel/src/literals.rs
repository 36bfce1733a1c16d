//! Checks literals beyond their types: `'%d'.format([…])`.

use crate::ast::{Expr, Kind, Literal};
use crate::types::Type;

/// Returns the problem of formatting these items with this text, and its position: an
/// item, or the call as a whole.
pub(crate) fn check_format<'e>(
    text: &str,
    items: &'e [(Expr, bool)],
    type_of: &dyn Fn(&Expr) -> Type,
) -> Option<(Option<&'e Expr>, String)> {
    let whole = |message: String| Some((None, message));
    let mut chars = text.chars().peekable();
    let mut used = 0;
    while let Some(c) = chars.next() {
        if c != '%' || chars.next_if_eq(&'%').is_some() {
            continue;
        }
        let index = used;
        used += 1;
        let Some(&next) = chars.peek() else {
            return whole("unexpected end of string".into());
        };
        let Some((item, _)) = items.get(index) else {
            return whole(format!("index {index} out of range"));
        };
        let clause = if next == '.' {
            chars.next();
            let mut digits = 0;
            while chars.next_if(char::is_ascii_digit).is_some() {
                digits += 1;
            }
            if digits == 0 && chars.peek().is_some() {
                return whole("could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \"\": invalid syntax".into());
            }
            match chars.next() {
                Some(clause) => clause,
                None => {
                    return whole("could not parse formatting clause: error while parsing precision: could not find end of precision specifier".into());
                }
            }
        } else {
            chars.next();
            next
        };
        let wrong = match clause {
            's' => shown(item, type_of),
            'd' => one_of(
                item,
                type_of,
                "decimal clause can only be used on integers",
                &[Type::Int, Type::Uint],
            ),
            'f' => one_of(
                item,
                type_of,
                "fixed-point clause can only be used on doubles",
                &[Type::Double, Type::String],
            ),
            'e' => one_of(
                item,
                type_of,
                "scientific clause can only be used on doubles",
                &[Type::Double, Type::String],
            ),
            'b' => one_of(
                item,
                type_of,
                "only integers and bools can be formatted as binary",
                &[Type::Int, Type::Uint, Type::Bool],
            ),
            'x' | 'X' => one_of(
                item,
                type_of,
                "only integers, byte buffers, and strings can be formatted as hex",
                &[Type::Int, Type::Uint, Type::String, Type::Bytes],
            ),
            'o' => one_of(
                item,
                type_of,
                "octal clause can only be used on integers",
                &[Type::Int, Type::Uint],
            ),
            other => {
                return whole(format!(
                    "could not parse formatting clause: unrecognized formatting clause \"{other}\""
                ));
            }
        };
        if let Some((at, why)) = wrong {
            return Some((Some(at), format!("error during formatting: {why}")));
        }
    }
    if items.len() > used {
        return whole(format!(
            "too many arguments supplied to string.format (expected {used}, got {})",
            items.len()
        ));
    }
    None
}

fn one_of<'e>(
    item: &'e Expr,
    type_of: &dyn Fn(&Expr) -> Type,
    why: &str,
    wanted: &[Type],
) -> Option<(&'e Expr, String)> {
    let of = type_of(item);
    let fits = of.is_open() || wanted.contains(&of);
    (!fits).then(|| (item, format!("{why}, was given {}", name(&of))))
}

/// Whether `%s` can show an item, and all that is written down in it.
fn shown<'e>(item: &'e Expr, type_of: &dyn Fn(&Expr) -> Type) -> Option<(&'e Expr, String)> {
    const WHY: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
    let of = type_of(item);
    let fits = of.is_open()
        || matches!(
            of,
            Type::List(_)
                | Type::Map(..)
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::Bool
                | Type::String
                | Type::Timestamp
                | Type::Bytes
                | Type::Duration
                | Type::Type(_)
                | Type::Null
        );
    if !fits {
        return Some((item, format!("{WHY}, was given {}", name(&of))));
    }
    match &item.kind {
        Kind::List(items) => items.iter().find_map(|(item, _)| shown(item, type_of)),
        Kind::Map(entries) => entries
            .iter()
            .find_map(|(key, value, _)| shown(key, type_of).or_else(|| shown(value, type_of))),
        _ => None,
    }
}

/// Returns the name of a type without its parameters.
fn name(of: &Type) -> String {
    match of {
        Type::List(_) => "list".into(),
        Type::Map(..) => "map".into(),
        Type::Optional(_) => "optional_type".into(),
        Type::Type(_) => "type".into(),
        Type::Null => "null_type".into(),
        other => other.to_string(),
    }
}

/// The text of a literal.
pub(crate) fn text(expression: &Expr) -> Option<&str> {
    match &expression.kind {
        Kind::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}
