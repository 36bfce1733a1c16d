//! Requests for devices: in claims, and in the templates of claims.

use std::sync::{Arc, LazyLock};

use control_cel::{Schema, Type};
use control_types::value::Value;

use super::{labels, names, one_of, volumes};
use crate::error::{Errors, Path};
use crate::tree::{Read, Write};

const REQUESTS: usize = 32;
const ALTERNATIVES: usize = 8;
const EXPRESSION: usize = 10 * 1024;

/// The cost limit of a device expression.
const COST: u64 = 1_000_000;
/// How large a device is at most, which bounds what expressions cost.
static LARGEST_DEVICE: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    const ENTRIES: i64 = 32;
    // domains of 63 characters at most, names within them of 32
    let maps = |value: Arc<Schema>| Schema::map(Schema::map(value, ENTRIES, 32), ENTRIES, 63);
    Schema::object([
        ("driver", Schema::text(63)),
        ("attributes", maps(Schema::any(64))),
        ("capacity", maps(Schema::text(0))),
        ("allowMultipleAllocations", Schema::any(1)),
    ])
});

/// Sets the defaults of `spec.devices`.
pub(crate) fn default_claim(spec: &mut Value) {
    let Some(devices) = spec.there("devices") else {
        return;
    };
    let fill = |request: &mut Value| {
        request.blank("allocationMode", "ExactCount");
        if request.text("allocationMode") == "ExactCount" {
            request.zero("count", 1);
        }
        for toleration in request.items_mut("tolerations") {
            toleration.blank("operator", "Equal");
        }
    };
    for request in devices.items_mut("requests") {
        if let Some(exactly) = request.there("exactly") {
            fill(exactly);
        }
        for alternative in request.items_mut("firstAvailable") {
            fill(alternative);
        }
    }
}

fn at_most(list: &[Value], most: usize, at: &Path<'_>, errors: &mut Errors) {
    if list.len() > most {
        errors.too_many(at, list.len(), most);
    }
}

/// `spec` of a claim.
pub(crate) fn claim(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("devices");
    let devices = spec.at("devices");
    let requests = devices.items("requests");
    let all = at.child("requests");
    at_most(requests, REQUESTS, &all, errors);
    let known = request_names(devices);
    for (i, request) in requests.iter().enumerate() {
        let at = all.index(i);
        let name = request.text("name");
        errors.invalid_each(&at.child("name"), name, names::dns_label(name));
        if requests
            .iter()
            .take(i)
            .any(|other| other.text("name") == name)
        {
            errors.duplicate(&at, name);
        }
        check_request(request, &at, errors);
    }
    let all = at.child("constraints");
    at_most(devices.items("constraints"), REQUESTS, &all, errors);
    for (i, constraint) in devices.items("constraints").iter().enumerate() {
        let at = all.index(i);
        check_names(constraint, &known, &at, errors);
        let attribute = ["matchAttribute", "distinctAttribute"]
            .into_iter()
            .find(|field| constraint.has(field));
        match attribute {
            Some(field) => qualified(constraint.text(field), &at.child(field), errors),
            None => errors.required(
                &at,
                "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
            ),
        }
    }
    let all = at.child("config");
    at_most(devices.items("config"), REQUESTS, &all, errors);
    for (i, config) in devices.items("config").iter().enumerate() {
        check_names(config, &known, &all.index(i), errors);
        configuration(config, &all.index(i), errors);
    }
}

fn check_request(request: &Value, at: &Path<'_>, errors: &mut Errors) {
    let alternatives = request.items("firstAvailable");
    match (request.has("exactly"), !alternatives.is_empty()) {
        (false, false) => errors.required(
            at,
            "exactly one of `exactly` or `firstAvailable` is required",
        ),
        (true, true) => errors.invalid(
            at,
            Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (true, false) => check_device(request.at("exactly"), &at.child("exactly"), errors),
        (false, true) => {
            let all = at.child("firstAvailable");
            at_most(alternatives, ALTERNATIVES, &all, errors);
            for (i, one) in alternatives.iter().enumerate() {
                let at = all.index(i);
                let name = one.text("name");
                errors.invalid_each(&at.child("name"), name, names::dns_label(name));
                if alternatives
                    .iter()
                    .take(i)
                    .any(|other| other.text("name") == name)
                {
                    errors.duplicate(&at, name);
                }
                check_device(one, &at, errors);
            }
        }
    }
}

fn check_device(request: &Value, at: &Path<'_>, errors: &mut Errors) {
    let class = request.text("deviceClassName");
    let class_at = at.child("deviceClassName");
    if class.is_empty() {
        errors.required(&class_at, "");
    } else {
        errors.invalid_each(&class_at, class, names::dns_subdomain(class));
    }
    selectors(request.items("selectors"), &at.child("selectors"), errors);
    let count = request.num("count");
    match request.text("allocationMode") {
        "All" if count != 0 => errors.invalid(
            &at.child("count"),
            count,
            "must not be specified when allocationMode is 'All'",
        ),
        "ExactCount" if count <= 0 => {
            errors.invalid(&at.child("count"), count, "must be greater than zero");
        }
        mode => one_of(
            mode,
            &["All", "ExactCount"],
            &at.child("allocationMode"),
            errors,
        ),
    }
    let all = at.child("tolerations");
    for (i, toleration) in request.items("tolerations").iter().enumerate() {
        check_toleration(toleration, &all.index(i), errors);
    }
}

fn check_toleration(toleration: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (key, operator) = (toleration.text("key"), toleration.text("operator"));
    if !key.is_empty() {
        labels::label_key(key, &at.child("key"), errors);
    }
    match operator {
        "Exists" => {
            let value = toleration.text("value");
            if !value.is_empty() {
                errors.invalid(
                    &at.child("value"),
                    value,
                    "must be empty for operator `Exists`",
                );
            }
        }
        "Equal" => {
            let value = toleration.text("value");
            errors.invalid_each(&at.child("value"), value, names::label_value(value));
        }
        "" => errors.required(&at.child("operator"), ""),
        other => errors.not_supported(&at.child("operator"), other, &["Equal", "Exists"]),
    }
    let effect = toleration.text("effect");
    if !effect.is_empty() {
        let known = &["NoExecute", "NoSchedule", "None"];
        one_of(effect, known, &at.child("effect"), errors);
    }
}

/// Expressions that devices must satisfy.
pub(crate) fn selectors(list: &[Value], all: &Path<'_>, errors: &mut Errors) {
    at_most(list, REQUESTS, all, errors);
    for (i, selector) in list.iter().enumerate() {
        let at = all.index(i);
        let at = at.child("cel");
        if !selector.has("cel") {
            errors.required(&at, "");
            continue;
        }
        let expression = selector.at("cel").text("expression");
        let at = at.child("expression");
        if expression.len() > EXPRESSION {
            errors.too_long(&at, EXPRESSION);
            continue;
        }
        let env = control_devices::environment();
        match control_cel::check(expression, env) {
            Ok(Type::Bool | Type::Dyn) => {
                let cost = control_cel::estimate(expression, env, &LARGEST_DEVICE);
                if cost.is_ok_and(|cost| cost.max > COST) {
                    errors.forbidden(&at, "too complex, exceeds cost limit");
                }
            }
            Ok(of) => {
                let of = of.declared_name();
                let why = format!("must evaluate to bool or the unknown type, not {of}");
                errors.invalid(&at, expression, why);
            }
            Err(issues) => {
                errors.invalid(&at, expression, format!("compilation failed: {issues}"));
            }
        }
    }
}

pub(crate) fn check_names(owner: &Value, known: &[String], at: &Path<'_>, errors: &mut Errors) {
    let all = at.child("requests");
    let list = owner.items("requests");
    super::device_slices::set(
        list,
        REQUESTS,
        Read::as_text,
        &all,
        errors,
        |name, at, errors| {
            request_name(name.as_text(), known, at, errors);
        },
    );
}

/// The name of a request, or of an alternative within one.
pub(crate) fn request_name(name: &str, known: &[String], at: &Path<'_>, errors: &mut Errors) {
    const WHY: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    if name.split('/').count() > 2 {
        errors.invalid(at, name, WHY);
        return;
    }
    for part in name.split('/') {
        errors.invalid_each(at, part, names::dns_label(part));
    }
    if !known.iter().any(|one| one == name) {
        errors.invalid(at, name, WHY);
    }
}

/// The names that the requests of a claim's `devices` have.
pub(crate) fn request_names(devices: &Value) -> Vec<String> {
    let mut known = Vec::new();
    for request in devices.items("requests") {
        let name = request.text("name");
        known.push(name.to_owned());
        for alternative in request.items("firstAvailable") {
            known.push(format!("{name}/{}", alternative.text("name")));
        }
    }
    known
}

/// Validates the configuration for a driver, which is opaque to the cluster.
pub(crate) fn configuration(config: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("opaque");
    if !config.has("opaque") {
        errors.required(&at, "");
        return;
    }
    let opaque = config.at("opaque");
    let driver = opaque.text("driver");
    if driver.is_empty() {
        errors.required(&at.child("driver"), "");
    } else {
        volumes::csi_driver(driver, &at.child("driver"), errors);
    }
    match opaque.at("parameters") {
        Value::Null => errors.required(&at.child("parameters"), ""),
        Value::Object(_) => {}
        _ => errors.invalid(
            &at.child("parameters"),
            "<value omitted>",
            "must be a valid JSON object",
        ),
    }
}

/// A name with a domain.
fn qualified(name: &str, at: &Path<'_>, errors: &mut Errors) {
    super::device_slices::qualified(name, at, errors);
    if !name.contains('/') {
        errors.invalid(
            at,
            name,
            "a fully qualified name must be a domain and a name separated by a slash",
        );
    }
}

/// A name in the manner of C.
pub(crate) fn identifier(id: &str, at: &Path<'_>, errors: &mut Errors) {
    let mut bytes = id.bytes();
    let right = bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !right {
        errors.invalid(
            at,
            id,
            names::regex_message(
                "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
                "[A-Za-z_][A-Za-z0-9_]*",
                &["my_name", "MY_NAME", "MyName"],
            ),
        );
    }
    if id.len() > 32 {
        errors.too_long(at, 32);
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    /// As kube-apiserver 1.36.3 answered.
    #[test]
    fn selectors_may_cost_only_so_much() {
        for (expression, too_much) in [
            ("device.attributes['d'].x.matches('a.*b')", false),
            (
                "device.attributes.all(d, device.attributes[d].all(k, k != ''))",
                false,
            ),
            (
                "device.attributes.all(d, device.attributes.all(e, device.attributes[d].all(k, device.attributes[e].all(l, k != l))))",
                true,
            ),
            (
                "device.attributes.all(d, device.attributes[d].all(k, device.attributes[d].all(l, device.attributes[d].all(m, k != l))))",
                true,
            ),
        ] {
            let mut errors = Errors::new();
            let list = [value!({"cel": {"expression": (expression)}})];
            selectors(&list, &Path::new("s"), &mut errors);
            let details: Vec<_> = errors.iter().map(|error| error.detail.as_str()).collect();
            let wanted: &[&str] = if too_much {
                &["too complex, exceeds cost limit"]
            } else {
                &[]
            };
            assert_eq!(details, wanted, "{expression}");
        }
    }
}
