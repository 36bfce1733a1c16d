//! Formats of texts (`format` in a schema), as Kubernetes checks them.

use crate::rules::{ip, names};

/// Whether a format is one that is checked.
pub(super) fn is_known(format: &str) -> bool {
    !format.is_empty()
        && !matches!(
            format,
            // Formats of numbers.
            "int32" | "int64" | "float" | "double"
        )
}

/// Whether a text has a format.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "ipv4" => text.contains('.') && ip::parse_sloppy(text).is_some(),
        "ipv6" => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => ip::parse_cidr_sloppy(text).is_some(),
        "mac" => mac(text),
        "uuid" => uuid(text, None),
        "uuid3" => uuid(text, Some('3')),
        "uuid4" => uuid(text, Some('4')) && variant(text),
        "uuid5" => uuid(text, Some('5')) && variant(text),
        "date" => date(text),
        "datetime" => date_time(text),
        "duration" => duration(text),
        "email" => email(text),
        "hostname" => hostname(text),
        "uri" => uri(text),
        "byte" => base64(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
        }
        "rgbcolor" => rgb(text),
        "ssn" => ssn(text),
        "creditcard" => credit_card(text),
        "isbn10" => isbn10(text),
        "isbn13" => isbn13(text),
        "isbn" => isbn10(text) || isbn13(text),
        "k8sshortname" => names::dns_label(text).is_empty(),
        "k8slongname" => names::dns_subdomain(text).is_empty(),
        // Passwords and unknown formats.
        _ => true,
    }
}

fn mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts
                .iter()
                .all(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

/// The digits of a uuid; dashes may be left out, each by itself.
fn uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some(group) = rest.get(..length) else {
            return false;
        };
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        if at == 2 && version.is_some_and(|version| !group.starts_with(version)) {
            return false;
        }
        rest = &rest[length..];
    }
    rest.is_empty()
}

fn variant(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    digits
        .chars()
        .nth(16)
        .is_some_and(|c| matches!(c.to_ascii_lowercase(), '8' | '9' | 'a' | 'b'))
}

fn date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Checks RFC 3339, with a few liberties (which do not include `2006-01-02 15:04:05`).
fn date_time(text: &str) -> bool {
    let Some((day, time)) = text.split_once(['T', 't']) else {
        return false;
    };
    if !date(day) {
        return false;
    }
    let (clock, zone) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, ""),
    };
    let mut parts = clock.splitn(2, '.');
    let whole = parts.next().unwrap_or_default();
    let fraction = parts.next();
    let fields: Vec<&str> = whole.split(':').collect();
    let within = |text: &str, max: u32| {
        text.len() == 2 && text.parse::<u32>().is_ok_and(|number| number <= max)
    };
    let clock_ok = match fields.as_slice() {
        [hours, minutes, seconds] => {
            within(hours, 23) && within(minutes, 59) && within(seconds, 59)
        }
        _ => false,
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let zone_ok = match zone {
        "Z" | "z" | "" => true,
        offset => match offset[1..].split_once(':') {
            Some((hours, minutes)) => within(hours, 23) && within(minutes, 59),
            None => false,
        },
    };
    clock_ok && zone_ok && fraction.is_none_or(digits)
}

/// Go's durations, and Scala's (`22 ns`, `1 day`).
fn duration(text: &str) -> bool {
    go_duration(text) || scala_duration(text)
}

fn go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let fine = number.bytes().any(|b| b.is_ascii_digit()) && number.matches('.').count() <= 1;
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"]
            .into_iter()
            .find(|unit| {
                after.strip_prefix(*unit).is_some_and(|next| {
                    next.is_empty() || next.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                })
            });
        match unit {
            Some(unit) if fine => rest = &after[unit.len()..],
            _ => return false,
        }
    }
    true
}

fn scala_duration(text: &str) -> bool {
    const UNITS: &[&str] = &[
        "ns",
        "nano",
        "nanos",
        "nanosecond",
        "nanoseconds",
        "us",
        "µs",
        "micro",
        "micros",
        "microsecond",
        "microseconds",
        "ms",
        "milli",
        "millis",
        "millisecond",
        "milliseconds",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "mins",
        "minute",
        "minutes",
        "h",
        "hr",
        "hrs",
        "hour",
        "hours",
        "d",
        "day",
        "days",
        "w",
        "wk",
        "wks",
        "week",
        "weeks",
    ];
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    !number.is_empty() && UNITS.contains(&unit.trim_start())
}

/// An address as mail writes it, perhaps with a name before it.
fn email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(rest) => match rest.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atom = |text: &str| {
        !text.is_empty()
            && text.split('.').all(|part| {
                !part.is_empty()
                    && part.chars().all(|c| {
                        c.is_ascii_alphanumeric()
                            || "!#$%&'*+-/=?^_`{|}~".contains(c)
                            || !c.is_ascii()
                    })
            })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (atom(local) || quoted) && (atom(domain) || (domain.starts_with('[') && domain.ends_with(']')))
}

/// A name whose last label ends with two letters, as names of domains do.
fn hostname(text: &str) -> bool {
    let mut last = text.chars().rev();
    let letters = last.by_ref().take(2).filter(|c| c.is_alphabetic()).count();
    letters == 2
        && last.next().is_some()
        && text.len() <= 255
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_alphanumeric() || c == '-')
        })
}

/// A URI as a request names it: with a scheme, or a path from the root.
fn uri(text: &str) -> bool {
    if text.bytes().any(|b| b < 0x20 || b == 0x7f) || text.is_empty() {
        return false;
    }
    if !percents(text) {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let scheme_ok = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !scheme_ok || rest.is_empty() {
        return scheme_ok && !rest.is_empty();
    }
    let Some(after) = rest.strip_prefix("//") else {
        return true;
    };
    let host = after.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if host.contains(' ') || host.contains(['<', '>', '"', '\\', '^', '`', '{', '|', '}']) {
        return false;
    }
    match host.rsplit_once(':') {
        Some((_, port)) if !host.ends_with(']') => port.bytes().all(|b| b.is_ascii_digit()),
        _ => true,
    }
}

fn percents(text: &str) -> bool {
    let path = text.split('?').next().unwrap_or_default().as_bytes();
    path.iter().enumerate().all(|(at, byte)| {
        *byte != b'%'
            || path
                .get(at + 1..at + 3)
                .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

fn base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && digits
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

fn rgb(text: &str) -> bool {
    let inside = text
        .strip_prefix("rgb(")
        .and_then(|rest| rest.strip_suffix(')'));
    let Some(inside) = inside else { return false };
    let parts: Vec<&str> = inside.split(',').map(str::trim).collect();
    parts.len() == 3
        && parts
            .iter()
            .all(|part| part.parse::<u8>().is_ok() && (part.len() == 1 || !part.starts_with('0')))
}

fn ssn(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    let shapes = [
        "000000000",
        "000-00-0000",
        "000 00 0000",
        "000-000000",
        "00000-0000",
        "000 000000",
        "00000 0000",
        "000-00 0000",
        "000 00-0000",
    ];
    digits.len() == 9 && shapes.contains(&shape.as_str())
}

fn credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    if !(13..=16).contains(&digits.len()) {
        return false;
    }
    let head = |count: usize| {
        digits[..count]
            .iter()
            .fold(0, |all, digit| all * 10 + digit)
    };
    let known = match digits.len() {
        13 => digits[0] == 4,
        14 => (300..=305).contains(&head(3)) || matches!(head(2), 36 | 38),
        15 => matches!(head(2), 34 | 37) || matches!(head(4), 2131 | 1800),
        _ => {
            digits[0] == 4
                || (51..=55).contains(&head(2))
                || head(4) == 6011
                || head(2) == 65
                || head(2) == 35
        }
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match (at % 2, digit * 2) {
            (0, _) => *digit,
            (_, twice) if twice > 9 => twice - 9,
            (_, twice) => twice,
        })
        .sum();
    known && sum.is_multiple_of(10)
}

fn isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (at, digit) in digits.iter().enumerate() {
        let weight = u32::try_from(at + 1).unwrap_or_default();
        match (digit.to_digit(10), at) {
            (Some(digit), _) => sum += weight * digit,
            (None, 9) if *digit == 'X' => sum += 100,
            _ => return false,
        }
    }
    sum % 11 == 0
}

fn isbn13(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    if digits.len() != 13 {
        return false;
    }
    let mut sum = 0;
    for (at, digit) in digits.iter().enumerate() {
        match digit.to_digit(10) {
            Some(digit) => sum += if at % 2 == 0 { digit } else { 3 * digit },
            None => return false,
        }
    }
    sum % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_take_what_kubernetes_takes() {
        for (format, good, bad) in [
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("mac", "00:00:5e:00:53:01", "00:00:5e:00:53"),
            ("uuid", "7d444840-9dc0-11d1-b245-5ffdce74fad2", "7d444840"),
            (
                "uuid4",
                "7d444840-9dc0-41d1-b245-5ffdce74fad2",
                "7d444840-9dc0-11d1-b245-5ffdce74fad2",
            ),
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2014-12-15T19:30:20.000Z", "2014-12-15 19:30"),
            ("duration", "1h30m", "1 fortnight"),
            ("duration", "22 ns", "h"),
            ("email", "a@b.c", "a.b.c"),
            ("hostname", "a-b.example.com", "a_b"),
            ("hostname", "localhost", "a.b"),
            ("uri", "https://a.b/c?d", "a b"),
            ("byte", "aGVsbG8=", "a"),
            ("hexcolor", "#fff", "#ffff"),
            ("rgbcolor", "rgb(255,0,1)", "rgb(256,0,1)"),
            ("isbn10", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("creditcard", "4111-1111-1111-1111", "4111-1111-1111-1112"),
            ("ssn", "111-11-1111", "111-11-111"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a.b", "A.b"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ] {
            assert!(fits(format, good), "{format} {good}");
            assert!(!fits(format, bad), "{format} {bad}");
        }
        assert!(fits("password", "anything"));
    }
}
