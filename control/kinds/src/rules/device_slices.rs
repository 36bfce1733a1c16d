//! Devices as their drivers publish them: in resource slices, and in the
//! allocation and the status of claims.

use control_types::value::Value;

use super::devices::{self, identifier};
use super::{conditions, labels, names, one_of, placement, quantity, resources, volumes};
use crate::error::{Errors, Path};
use crate::tree::{Read, same};

const DEVICES: usize = 128;
/// As long as devices have taints, counters or lists, there may be fewer.
const ADVANCED_DEVICES: usize = 64;
const COUNTER_SETS: usize = 8;
const COUNTERS: usize = 32;
const CONSUMPTIONS: usize = 2;
const ATTRIBUTES: usize = 32;
const TEXT: usize = 64;
const TAINTS: usize = 16;
const OPTIONS: usize = 10;
const BINDING: usize = 4;
/// A domain, a slash and a name.
const KEY: usize = 96;
const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

/// `spec` of a resource slice.
pub(crate) fn spec(spec: &Value, old: Option<&Value>, at: &Path<'_>, errors: &mut Errors) {
    volumes::csi_driver(spec.text("driver"), &at.child("driver"), errors);
    pool(spec.at("pool"), &at.child("pool"), errors);
    where_they_are(spec, at, errors);
    if spec.has("sharedCounters") && spec.has("devices") {
        errors.invalid(
            at,
            "",
            "only one of `sharedCounters` or `devices` is allowed",
        );
    }
    let list = spec.items("devices");
    let lists = |device: &Value| {
        device.entries("attributes").any(|(_, attribute)| {
            ["bools", "ints", "strings", "versions"]
                .iter()
                .any(|f| attribute.has(f))
        })
    };
    let advanced = list.iter().any(|device| {
        !device.items("taints").is_empty()
            || !device.items("consumesCounters").is_empty()
            || lists(device)
    });
    let most = if advanced { ADVANCED_DEVICES } else { DEVICES };
    let each = spec.flag("perDeviceNodeSelection");
    set(
        list,
        most,
        |d| d.text("name"),
        &at.child("devices"),
        errors,
        |device, at, errors| {
            let then = old.and_then(|old| {
                let mut known = old.items("devices").iter();
                known.find(|known| known.text("name") == device.text("name"))
            });
            check(device, then, each, at, errors);
        },
    );
    let sets = spec.items("sharedCounters");
    let all = at.child("sharedCounters");
    set(
        sets,
        COUNTER_SETS,
        |s| s.text("name"),
        &all,
        errors,
        |one, at, errors| {
            required_label(one.text("name"), &at.child("name"), errors);
            counters(one, at, errors);
        },
    );
}

/// A list whose items differ in `key`.
pub(crate) fn set<'a>(
    list: &'a [Value],
    most: usize,
    key: impl Fn(&'a Value) -> &'a str,
    all: &Path<'_>,
    errors: &mut Errors,
    mut check: impl FnMut(&'a Value, &Path<'_>, &mut Errors),
) {
    if list.len() > most {
        errors.too_many(all, list.len(), most);
        return;
    }
    for (i, item) in list.iter().enumerate() {
        check(item, &all.index(i), errors);
    }
    for (i, item) in list.iter().enumerate() {
        let name = key(item);
        if list.iter().take(i).any(|other| key(other) == name) {
            errors.duplicate(&all.index(i), name);
        }
    }
}

fn required_label(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(at, "");
    } else {
        errors.invalid_each(at, name, names::dns_label(name));
    }
}

/// Names of pools are paths of subdomains.
pub(crate) fn pool_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    const LONGEST: usize = 253;
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    if name.len() > LONGEST {
        errors.too_long(at, LONGEST);
    }
    for part in name.split('/') {
        errors.invalid_each(at, part, names::dns_subdomain(part));
    }
}

fn pool(pool: &Value, at: &Path<'_>, errors: &mut Errors) {
    pool_name(pool.text("name"), &at.child("name"), errors);
    let count = pool.num("resourceSliceCount");
    if count <= 0 {
        errors.invalid(
            &at.child("resourceSliceCount"),
            count,
            "must be greater than zero",
        );
    }
    if pool.num("generation") < 0 {
        errors.invalid(
            &at.child("generation"),
            pool.num("generation"),
            "must be greater than or equal to zero",
        );
    }
}

fn where_they_are(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut chosen: Vec<&str> = Vec::new();
    if spec.has("nodeName") {
        let (name, at) = (spec.text("nodeName"), at.child("nodeName"));
        if name.is_empty() {
            errors.invalid(
                &at,
                name,
                "must be either unset or set to a non-empty string",
            );
        } else {
            chosen.push("`nodeName`");
            errors.invalid_each(&at, name, names::dns_subdomain(name));
        }
    }
    if spec.has("nodeSelector") {
        chosen.push("`nodeSelector`");
        let (selector, at) = (spec.at("nodeSelector"), at.child("nodeSelector"));
        placement::node_selector(selector, true, &at, errors);
        if selector.items("nodeSelectorTerms").len() != 1 {
            errors.invalid(
                &at.child("nodeSelectorTerms"),
                selector.at("nodeSelectorTerms").clone(),
                "must have exactly one node selector term",
            );
        }
    }
    for (field, shown) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        match spec.truth(field) {
            Some(true) => chosen.push(shown),
            Some(false) => errors.invalid(
                &at.child(field),
                false,
                "must be either unset or set to true",
            ),
            None => {}
        }
    }
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match chosen.len() {
        0 => errors.required(at, ONE),
        1 => {}
        _ => errors.invalid(
            at,
            format!("{{{}}}", chosen.join(", ")),
            format!("{ONE}, but multiple fields are set"),
        ),
    }
}

fn check(device: &Value, old: Option<&Value>, each: bool, at: &Path<'_>, errors: &mut Errors) {
    let name = device.text("name");
    errors.invalid_each(&at.child("name"), name, names::dns_label(name));
    let count = device.size("attributes") + device.size("capacity");
    if count > ATTRIBUTES {
        errors.invalid(
            at,
            i64::try_from(count).unwrap_or(i64::MAX),
            format!("the total number of attributes and capacities must not exceed {ATTRIBUTES}"),
        );
    }
    let all = at.child("attributes");
    for (key, value) in device.entries("attributes") {
        qualified(key, &all, errors);
        attribute(value, &all.key(&shortened(key)), errors);
    }
    let all = at.child("capacity");
    let shared = device.flag("allowMultipleAllocations");
    for (key, value) in device.entries("capacity") {
        qualified(key, &all, errors);
        let here = all.key(&shortened(key)).to_string();
        let policy_at = format!("{here}.requestPolicy");
        let policy_at = Path::new(&policy_at);
        if value.has("requestPolicy") {
            if shared {
                policy(value, &policy_at, errors);
            } else {
                errors.forbidden(&policy_at, "allowMultipleAllocations must be true");
            }
        }
    }
    if old.is_none_or(|old| !same(old.at("taints"), device.at("taints"))) {
        taints(device.items("taints"), &at.child("taints"), errors);
    }
    let all = at.child("consumesCounters");
    let list = device.items("consumesCounters");
    set(
        list,
        CONSUMPTIONS,
        |c| c.text("counterSet"),
        &all,
        errors,
        |one, at, errors| {
            required_label(one.text("counterSet"), &at.child("counterSet"), errors);
            counters(one, at, errors);
        },
    );
    place(device, each, at, errors);
    binding(device, at, errors);
}

fn shortened(key: &str) -> String {
    if key.len() <= KEY {
        return key.to_owned();
    }
    let rest = KEY - 3;
    let head = key.get(..rest.div_ceil(2)).unwrap_or(key);
    let tail = key.get(key.len() - rest / 2..).unwrap_or("");
    format!("{head}...{tail}")
}

/// A name in the manner of C, perhaps with a driver's domain.
pub(crate) fn qualified(name: &str, at: &Path<'_>, errors: &mut Errors) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [id] => identifier(id, at, errors),
        [domain, id] => {
            if domain.is_empty() {
                errors.invalid(at, "", "the domain must not be empty");
            } else {
                volumes::csi_driver(domain, at, errors);
            }
            if id.is_empty() {
                errors.invalid(at, "", "the name must not be empty");
            } else {
                identifier(id, at, errors);
            }
        }
        _ => {}
    }
}

fn attribute(value: &Value, at: &Path<'_>, errors: &mut Errors) {
    let text = |text: &str, at: &Path<'_>, errors: &mut Errors| {
        if text.len() > TEXT {
            errors.too_long(at, TEXT);
        }
    };
    let version = |text: &str, at: &Path<'_>, errors: &mut Errors| {
        if !is_version(text) {
            errors.invalid(
                at,
                text,
                "must be a string compatible with semver.org spec 2.0.0",
            );
        }
        if text.len() > TEXT {
            errors.too_long(at, TEXT);
        }
    };
    let fields = value.as_object().map_or(0, control_types::Map::len);
    if value.has("string") {
        text(value.text("string"), &at.child("string"), errors);
    }
    if value.has("version") {
        version(value.text("version"), &at.child("version"), errors);
    }
    for (i, item) in value.items("strings").iter().enumerate() {
        text(item.as_text(), &at.child("strings").index(i), errors);
    }
    for (i, item) in value.items("versions").iter().enumerate() {
        version(item.as_text(), &at.child("versions").index(i), errors);
    }
    match fields {
        0 => errors.invalid(at, "", "exactly one value must be specified"),
        1 => {}
        _ => errors.invalid(at, value.clone(), "exactly one value must be specified"),
    }
}

/// Whether a text is a version by semver.org 2.0.0.
fn is_version(text: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let (rest, build) = match text.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (text, None),
    };
    let (core, pre) = match rest.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (rest, None),
    };
    let parts: Vec<&str> = core.split('.').collect();
    parts.len() == 3
        && parts.iter().all(|part| number(part))
        && pre.is_none_or(|pre| {
            pre.split('.').all(|part| {
                word(part) && (!part.bytes().all(|b| b.is_ascii_digit()) || number(part))
            })
        })
        && build.is_none_or(|build| build.split('.').all(word))
}

/// Validates the request policy of a shared capacity (KEP 5075).
fn policy(capacity: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (most, policy) = (capacity.at("value"), capacity.at("requestPolicy"));
    let values = policy.items("validValues");
    let range = policy.at("validRange");
    if !values.is_empty() && !range.is_null() {
        errors.forbidden(at, "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time");
        return;
    }
    let default = policy.at("default");
    if !values.is_empty() {
        if default.is_null() {
            errors.required(&at.child("default"), "required when validValues is defined");
        } else {
            options(values, default, most, &at.child("validValues"), errors);
        }
    } else if !range.is_null() {
        if default.is_null() {
            errors.required(&at.child("default"), "required when validRange is defined");
        } else {
            bounds(range, default, most, &at.child("validRange"), errors);
        }
    }
}

fn options(values: &[Value], default: &Value, most: &Value, at: &Path<'_>, errors: &mut Errors) {
    let of = quantity::to_nanos;
    for (i, pair) in values.windows(2).enumerate() {
        if of(&pair[0]) > of(&pair[1]) {
            errors.invalid(
                &at.index(i + 1),
                resources::shown(&pair[1]),
                "values must be sorted in ascending order",
            );
        }
    }
    if values.len() > OPTIONS {
        errors.too_many(at, values.len(), OPTIONS);
    } else {
        for (i, value) in values.iter().enumerate() {
            if of(value) > of(most) {
                errors.invalid(
                    &at.index(i),
                    resources::shown(value),
                    format!(
                        "option is larger than capacity value: {}",
                        resources::shown(most)
                    ),
                );
            }
        }
        for (i, value) in values.iter().enumerate() {
            if values
                .iter()
                .take(i)
                .any(|other| whole(other) == whole(value))
            {
                errors.duplicate(&at.index(i), whole(value).to_string());
            }
        }
    }
    if !values.iter().any(|value| of(value) == of(default)) || values.len() > OPTIONS {
        errors.invalid(
            at,
            resources::shown(default),
            "default value is not valid according to the requestPolicy",
        );
    }
}

/// A quantity as a whole number, rounded up.
fn whole(value: &Value) -> i128 {
    const ONE: i128 = 1_000_000_000;
    let nanos = quantity::to_nanos(value);
    nanos.div_euclid(ONE) + i128::from(nanos.rem_euclid(ONE) != 0)
}

fn bounds(range: &Value, default: &Value, most: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (of, shown) = (quantity::to_nanos, resources::shown);
    let (min, max, step) = (range.at("min"), range.at("max"), range.at("step"));
    if min.is_null() {
        errors.required(&at.child("min"), "required when validRange is defined");
        return;
    }
    let min_at = at.child("min");
    if of(min) > of(most) {
        errors.invalid(
            &min_at,
            shown(min),
            format!("min is larger than capacity value: {}", shown(most)),
        );
    }
    if of(default) < of(min) {
        errors.invalid(
            &min_at,
            shown(default),
            format!("default is less than min: {}", shown(min)),
        );
    }
    let max_at = at.child("max");
    if !max.is_null() {
        if of(min) > of(max) {
            errors.invalid(
                &max_at,
                shown(min),
                format!("min is larger than max: {}", shown(max)),
            );
        }
        if of(max) > of(most) {
            errors.invalid(
                &max_at,
                shown(max),
                format!("max is larger than capacity value: {}", shown(most)),
            );
        }
        if of(default) > of(max) {
            errors.invalid(
                &max_at,
                shown(default),
                format!("default is more than max: {}", shown(max)),
            );
        }
    }
    if step.is_null() {
        return;
    }
    let step_at = at.child("step");
    if of(min).saturating_add(of(step)) > of(most) {
        errors.invalid(
            &step_at,
            shown(step),
            format!("one step is larger than capacity value: {}", shown(most)),
        );
    }
    for value in [default, max] {
        let apart = whole(value) - whole(min);
        if !value.is_null() && whole(step) != 0 && apart % whole(step) != 0 {
            errors.invalid(
                &step_at,
                shown(value),
                format!(
                    "value is not a multiple of a given step ({}) from ({})",
                    shown(step),
                    shown(min)
                ),
            );
        }
    }
}

fn taints(list: &[Value], all: &Path<'_>, errors: &mut Errors) {
    if list.len() > TAINTS {
        errors.too_many(all, list.len(), TAINTS);
        return;
    }
    for (i, taint) in list.iter().enumerate() {
        let at = all.index(i);
        labels::label_key(taint.text("key"), &at.child("key"), errors);
        let value = taint.text("value");
        if !value.is_empty() {
            errors.invalid_each(&at.child("value"), value, names::label_value(value));
        }
        match taint.text("effect") {
            "" => errors.required(&at.child("effect"), ""),
            effect => one_of(effect, EFFECTS, &at.child("effect"), errors),
        }
    }
}

fn counters(owner: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("counters");
    match owner.size("counters") {
        0 => errors.required(&at, ""),
        count if count > COUNTERS => errors.too_many(&at, count, COUNTERS),
        _ => {
            for (name, _) in owner.entries("counters") {
                errors.invalid_each(&at, name, names::dns_label(name));
            }
        }
    }
}

/// Validates the placement of one device, if each device specifies its own.
fn place(device: &Value, each: bool, at: &Path<'_>, errors: &mut Errors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let fields = ["nodeName", "nodeSelector", "allNodes"];
    if !each {
        if fields.iter().any(|field| device.has(field)) {
            errors.invalid(at, Value::Null, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec");
        }
        return;
    }
    let mut chosen: Vec<&str> = Vec::new();
    if device.has("nodeName") {
        let (name, at) = (device.text("nodeName"), at.child("nodeName"));
        if name.is_empty() {
            errors.invalid(&at, name, "must not be empty");
        } else {
            chosen.push("`nodeName`");
            errors.invalid_each(&at, name, names::dns_subdomain(name));
        }
    }
    if device.has("nodeSelector") {
        chosen.push("`nodeSelector`");
        let at = at.child("nodeSelector");
        placement::node_selector(device.at("nodeSelector"), true, &at, errors);
    }
    match device.truth("allNodes") {
        Some(true) => chosen.push("`allNodes`"),
        Some(false) => errors.invalid(
            &at.child("allNodes"),
            false,
            "must be either unset or set to true",
        ),
        None => {}
    }
    match chosen.len() {
        0 => errors.required(at, ONE),
        1 => {}
        _ => errors.invalid(at, format!("{{{}}}", chosen.join(", ")), ONE),
    }
}

/// Conditions that a pod's binding waits for.
fn binding(owner: &Value, at: &Path<'_>, errors: &mut Errors) {
    for field in ["bindingConditions", "bindingFailureConditions"] {
        let (list, all) = (owner.items(field), at.child(field));
        if list.len() > BINDING {
            errors.too_many(&all, list.len(), BINDING);
            continue;
        }
        for (i, name) in list.iter().map(Read::as_text).enumerate() {
            labels::label_key(name, &all.index(i), errors);
        }
    }
    let first = owner.items("bindingConditions");
    for field in ["bindingConditions", "bindingFailureConditions"] {
        let (list, all) = (owner.items(field), at.child(field));
        for (i, name) in list.iter().enumerate() {
            if list.iter().take(i).any(|other| other == name) {
                errors.duplicate(&all.index(i), name.clone());
            }
            if field == "bindingFailureConditions" && first.contains(name) {
                errors.invalid(
                    &all.index(i),
                    name.clone(),
                    "bindingFailureConditions must not overlap with bindingConditions",
                );
            }
        }
    }
    let any = |field: &str| !owner.items(field).is_empty();
    if any("bindingConditions") && !any("bindingFailureConditions") {
        errors.invalid(
            &at.child("bindingFailureConditions"),
            owner.at("bindingFailureConditions").clone(),
            "bindingFailureConditions are required to use bindingConditions",
        );
    }
    if any("bindingFailureConditions") && !any("bindingConditions") {
        errors.invalid(
            &at.child("bindingConditions"),
            owner.at("bindingConditions").clone(),
            "bindingConditions are required to use bindingFailureConditions",
        );
    }
}

fn driver_pool_device(owner: &Value, at: &Path<'_>, errors: &mut Errors) {
    volumes::csi_driver(owner.text("driver"), &at.child("driver"), errors);
    pool_name(owner.text("pool"), &at.child("pool"), errors);
    let device = owner.text("device");
    errors.invalid_each(&at.child("device"), device, names::dns_label(device));
}

/// Validates an allocation; `known` are the names of the claim's requests.
pub(crate) fn allocation(allocation: &Value, known: &[String], at: &Path<'_>, errors: &mut Errors) {
    let devices_at = at.child("devices");
    let all = devices_at.child("results");
    let results = allocation.at("devices").items("results");
    if results.len() > 32 {
        errors.too_many(&all, results.len(), 32);
    } else {
        for (i, result) in results.iter().enumerate() {
            let at = all.index(i);
            devices::request_name(result.text("request"), known, &at.child("request"), errors);
            driver_pool_device(result, &at, errors);
            binding(result, &at, errors);
        }
    }
    let all = devices_at.child("config");
    let list = allocation.at("devices").items("config");
    if list.len() > 64 {
        errors.too_many(&all, list.len(), 64);
    } else {
        for (i, config) in list.iter().enumerate() {
            let at = all.index(i);
            match config.text("source") {
                "" => errors.required(&at.child("source"), ""),
                source => one_of(
                    source,
                    &["FromClaim", "FromClass"],
                    &at.child("source"),
                    errors,
                ),
            }
            devices::check_names(config, known, &at, errors);
            devices::configuration(config, &at, errors);
        }
    }
    if allocation.has("nodeSelector") {
        let at = at.child("nodeSelector");
        placement::node_selector(allocation.at("nodeSelector"), true, &at, errors);
    }
}

/// Validates the drivers' reports about the devices of a claim.
pub(crate) fn statuses(status: &Value, at: &Path<'_>, errors: &mut Errors) {
    let id = |owner: &Value| {
        let mut id = ["driver", "pool", "device"]
            .map(|field| owner.text(field))
            .join("/");
        if owner.has("shareID") {
            id.push('/');
            id.push_str(owner.text("shareID"));
        }
        id
    };
    let given = status.at("allocation").at("devices").items("results");
    let list = status.items("devices");
    let all = at.child("devices");
    for (i, device) in list.iter().enumerate() {
        let at = all.index(i);
        driver_pool_device(device, &at, errors);
        if !given.iter().any(|result| id(result) == id(device)) {
            errors.invalid(&at, id(device), "must be an allocated device in the claim");
        }
        let found = device.items("conditions");
        if found.len() > 8 {
            errors.too_many(&at.child("conditions"), found.len(), 8);
        }
        conditions::all(found, &at.child("conditions"), errors);
        if device.has("data") && device.at("data").as_object().is_none() {
            errors.invalid(
                &at.child("data"),
                "<value omitted>",
                "must be a valid JSON object",
            );
        }
        let (network, at) = (device.at("networkData"), at.child("networkData"));
        for (field, most) in [("interfaceName", 256), ("hardwareAddress", 128)] {
            if network.text(field).len() > most {
                errors.too_long(&at.child(field), most);
            }
        }
        let ips = at.child("ips");
        set(
            network.items("ips"),
            16,
            Read::as_text,
            &ips,
            errors,
            |ip, at, errors| {
                super::ip::interface_address(ip.as_text(), at, errors);
            },
        );
    }
    for (i, device) in list.iter().enumerate() {
        if list.iter().take(i).any(|other| id(other) == id(device)) {
            errors.duplicate(&all.index(i), id(device));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_follow_semver() {
        for right in ["1.2.3", "0.0.0", "1.2.3-rc.1", "1.2.3-0a+b.01"] {
            assert!(is_version(right), "{right}");
        }
        for wrong in ["1.2", "01.2.3", "1.2.3-01", "1.2.3-", "1.2.3+", "v1.2.3"] {
            assert!(!is_version(wrong), "{wrong}");
        }
    }
}
