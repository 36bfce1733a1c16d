//! `PriorityLevelConfiguration`: how many requests run at a time, and what
//! happens to those beyond.

use control_types::value;
use control_types::value::Value;

use super::flow_schema::check_status;
use crate::Kind;
use crate::error::{Errors, Path};
use crate::generic::{self, DEFAULT};
use crate::rules::{collect, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};

const QUEUES: i64 = 10_000_000;
/// Hash bits from which a request's queues are dealt.
const ENTROPY: f64 = 60.0;

pub(crate) static KIND: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    kind: "PriorityLevelConfiguration",
    namespaced: Some(false),
    default,
    prepare_create: generic::first_generation_no_status,
    prepare_status_update: generic::update_status_keep_metadata,
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update: |new, _| collect(|errors| check(new, errors)),
    validate_status_update: |new, _| check_status(new),
    allow_unconditional_update: true,
    columns: columns::PRIORITY_LEVEL_CONFIGURATION,
    row,
    ..DEFAULT
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    if let Some(exempt) = spec.there("exempt") {
        exempt.absent("nominalConcurrencyShares", 0_i64);
        exempt.absent("lendablePercent", 0_i64);
    }
    let Some(limited) = spec.there("limited") else {
        return;
    };
    limited.absent("nominalConcurrencyShares", 30_i64);
    limited.absent("lendablePercent", 0_i64);
    if let Some(response) = limited.there("limitResponse")
        && let Some(queuing) = response.there("queuing")
    {
        queuing.zero("queues", 64);
        queuing.zero("handSize", 8);
        queuing.zero("queueLengthLimit", 50);
    }
}

fn check_shares(owner: &Value, at: &Path<'_>, errors: &mut Errors) {
    let shares = owner.num("nominalConcurrencyShares");
    if shares < 0 {
        let why = "must be a non-negative integer";
        errors.invalid(&at.child("nominalConcurrencyShares"), shares, why);
    }
}

fn check_lendable(owner: &Value, at: &Path<'_>, errors: &mut Errors) {
    let percent = owner.num("lendablePercent");
    if !(0..=100).contains(&percent) {
        let why = "must be between 0 and 100, inclusive";
        errors.invalid(&at.child("lendablePercent"), percent, why);
    }
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let of = spec.text("type");
    let is_exempt = object.at("metadata").text("name") == "exempt";
    if is_exempt != (of == "Exempt") {
        errors.invalid(
            &at.child("type"),
            of,
            "must be 'Exempt' if and only if `name` is 'exempt'",
        );
    }
    let (exempt_at, limited_at) = (at.child("exempt"), at.child("limited"));
    match of {
        "Exempt" => {
            if spec.has("limited") {
                errors.forbidden(&limited_at, "must be nil if the type is not Limited");
            }
            if spec.has("exempt") {
                check_shares(spec.at("exempt"), &exempt_at, errors);
                check_lendable(spec.at("exempt"), &exempt_at, errors);
            }
        }
        "Limited" => {
            if spec.has("exempt") {
                errors.forbidden(&exempt_at, "must be nil if the type is Limited");
            }
            if spec.has("limited") {
                check_limited(spec.at("limited"), &limited_at, errors);
            } else {
                errors.required(&limited_at, "must not be empty when type is Limited");
            }
        }
        "" => errors.required(&at.child("type"), ""),
        other => errors.not_supported(&at.child("type"), other, &["Exempt", "Limited"]),
    }
    check_mandatory(object.at("metadata").text("name"), spec, &at, errors);
}

/// The two levels that must be there are as the server makes them; only how much the
/// exempt one lends may change.
fn check_mandatory(name: &str, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    match name {
        "exempt" => {
            let mut rest = spec.clone();
            rest.drop_field("exempt");
            if rest != value!({"type": "Exempt"}) {
                let why =
                    "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value";
                errors.invalid(at, spec.clone(), why);
            }
        }
        "catch-all" => {
            let fixed = value!({
                "type": "Limited",
                "limited": {
                    "nominalConcurrencyShares": 5,
                    "lendablePercent": 0,
                    "limitResponse": {"type": "Reject"}
                }
            });
            if *spec != fixed {
                let why = "spec of 'catch-all' must equal the fixed value";
                errors.invalid(at, spec.clone(), why);
            }
        }
        _ => {}
    }
}

fn check_limited(limited: &Value, at: &Path<'_>, errors: &mut Errors) {
    check_shares(limited, at, errors);
    let response = limited.at("limitResponse");
    let response_at = at.child("limitResponse");
    let queuing_at = response_at.child("queuing");
    match response.text("type") {
        "Reject" => {
            if response.has("queuing") {
                errors.forbidden(
                    &queuing_at,
                    "must be nil if limited.limitResponse.type is not Limited",
                );
            }
        }
        "Queue" if response.has("queuing") => {
            check_queuing(response.at("queuing"), &queuing_at, errors);
        }
        "Queue" => errors.required(
            &queuing_at,
            "must not be empty if limited.limitResponse.type is Limited",
        ),
        "" => errors.required(&response_at.child("type"), ""),
        other => errors.not_supported(&response_at.child("type"), other, &["Queue", "Reject"]),
    }
    check_lendable(limited, at, errors);
    let borrow = limited.num("borrowingLimitPercent");
    if borrow < 0 {
        let why = "if specified, must be a non-negative integer";
        errors.invalid(&at.child("borrowingLimitPercent"), borrow, why);
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "the numbers are below 2^53, and bits are counted in whole ones"
)]
fn check_queuing(queuing: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (queues, hand) = (queuing.num("queues"), queuing.num("handSize"));
    let length = queuing.num("queueLengthLimit");
    if length <= 0 {
        errors.invalid(&at.child("queueLengthLimit"), length, "must be positive");
    }
    if queues <= 0 {
        errors.invalid(&at.child("queues"), queues, "must be positive");
    } else if queues > QUEUES {
        let why = format!("must not be greater than {QUEUES}");
        errors.invalid(&at.child("queues"), queues, why);
    }
    let hand_at = at.child("handSize");
    if hand <= 0 {
        errors.invalid(&hand_at, hand, "must be positive");
    } else if hand > queues {
        let why = format!("should not be greater than queues ({queues})");
        errors.invalid(&hand_at, hand, why);
    } else if ((queues as f64).log2() * hand as f64).ceil() > ENTROPY {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {ENTROPY}"
        );
        errors.invalid(&hand_at, hand, why);
    }
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    let limited = spec.at("limited");
    let queuing = limited.at("limitResponse").at("queuing");
    let number = |owner: &Value, field: &str| match owner {
        Value::Null => Value::from("<none>"),
        owner => owner.num(field).into(),
    };
    vec![
        name(object),
        spec.text("type").into(),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, spec: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        check_mandatory(name, spec, &Path::new("spec"), &mut errors);
        let errors = errors.into_vec().into_iter();
        errors.map(|error| error.detail).collect()
    }

    #[test]
    fn of_the_mandatory_levels_only_what_the_exempt_one_lends_may_change() {
        let lends = value!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 7}});
        assert_eq!(told("exempt", &lends), Vec::<String>::new());
        let limited = value!({"type": "Exempt", "limited": {}});
        assert_eq!(
            told("exempt", &limited),
            ["spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"]
        );
        let mut fixed = value!({
            "type": "Limited",
            "limited": {
                "limitResponse": {"type": "Reject"},
                "lendablePercent": 0, "nominalConcurrencyShares": 5
            }
        });
        assert_eq!(told("catch-all", &fixed), Vec::<String>::new());
        fixed.set_path(&["limited", "nominalConcurrencyShares"], 6_i64);
        assert_eq!(
            told("catch-all", &fixed),
            ["spec of 'catch-all' must equal the fixed value"]
        );
        assert_eq!(told("other", &fixed), Vec::<String>::new());
    }
}
