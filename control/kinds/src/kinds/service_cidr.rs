//! `ServiceCIDR`: a range from which services get their addresses.

use control_types::internal;
use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, ip, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::Read;
use crate::{FieldError, Kind};

const AT: Path<'static> = Path::new("spec.cidrs");

pub(crate) static KIND: Kind = Kind {
    group: "networking.k8s.io",
    kind: "ServiceCIDR",
    namespaced: Some(false),
    prepare_create: generic::no_status,
    prepare_update: generic::keep_status,
    prepare_status_update: generic::update_status_keep_metadata,
    validate_create: |object| {
        collect(|errors| {
            meta::validate(object, Some(false), names::subdomain_name, errors);
            check(object, errors);
        })
    },
    validate_update,
    columns: columns::SERVICE_CIDR,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    let ranges = object.at("spec").items("cidrs");
    if ranges.is_empty() {
        errors.required(&AT, "at least one CIDR required");
        return;
    }
    if ranges.len() > 2 {
        let why = "may only hold up to 2 values";
        let shown = internal::form("networking.ServiceCIDRSpec", object.at("spec"));
        errors.invalid(&AT, shown, why);
        return;
    }
    for (i, range) in ranges.iter().enumerate() {
        ip::canonical_cidr(range.as_text(), &AT.index(i), errors);
    }
    if let [a, b] = ranges {
        let family =
            |range: &Value| ip::parse_cidr_sloppy(range.as_text()).map(|net| net.addr().is_ipv4());
        if family(a).is_some() && family(a) == family(b) {
            errors.invalid(
                &AT,
                object.at("spec").at("cidrs").clone(),
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
            );
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    const FIXED: &str = "field is immutable";
    collect(|errors| {
        meta::update(new, old, errors);
        let (ranges, before) = (new.at("spec").items("cidrs"), old.at("spec").items("cidrs"));
        // a second family may be added, nothing else changes
        if ranges.len() == before.len() || (before.len() == 1 && ranges.len() == 2) {
            for (i, (range, was)) in ranges.iter().zip(before).enumerate() {
                if range != was {
                    errors.invalid(&AT.index(i), range.clone(), FIXED);
                }
            }
            if ranges.len() != before.len() {
                check(new, errors);
            }
        } else {
            errors.invalid(&AT, new.at("spec").at("cidrs").clone(), FIXED);
        }
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let ranges: Vec<&str> = object
        .at("spec")
        .items("cidrs")
        .iter()
        .map(Read::as_text)
        .collect();
    vec![name(object), ranges.join(",").into(), age(object, now)]
}
