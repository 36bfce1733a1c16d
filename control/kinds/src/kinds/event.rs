//! Event: what happened to an object. One storage, two groups that differ in
//! names of fields: `v1` (older) and `events.k8s.io/v1`.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, immutable, labels, meta, names};
use crate::table::{Timestamp, columns, since};
use crate::tree::{Read, same};
use crate::{Field, FieldError, Kind};

const ACTION_LIMIT: usize = 128;
const NOTE_LIMIT: usize = 1024;

/// How a group calls the fields whose names differ.
struct EventFieldNames {
    about: &'static str,
    note: &'static str,
    controller: &'static str,
    source: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    /// Field of errors about the controller.
    controller_field: &'static str,
    /// Whether the group holds its clients to the newer rules.
    strict: bool,
}

static CORE: EventFieldNames = EventFieldNames {
    about: "involvedObject",
    note: "message",
    controller: "reportingComponent",
    source: "source",
    first: "firstTimestamp",
    last: "lastTimestamp",
    count: "count",
    controller_field: "reportingComponent",
    strict: false,
};
static NEW: EventFieldNames = EventFieldNames {
    about: "regarding",
    note: "note",
    controller: "reportingController",
    source: "deprecatedSource",
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    count: "deprecatedCount",
    controller_field: "reportingController",
    strict: true,
};

pub(crate) static CORE_EVENT: Kind = Kind {
    group: "",
    kind: "Event",
    namespaced: Some(true),
    validate_create: |object| create(object, &CORE),
    validate_update: |new, old| update(new, old, &CORE),
    selectable: &[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ],
    selectable_fields,
    columns: columns::EVENT,
    row: |object, now| row(object, now, &CORE),
    allow_create_on_update: true,
    allow_unconditional_update: true,
    ..PLAIN
};

pub(crate) static NEW_EVENT: Kind = Kind {
    group: "events.k8s.io",
    validate_create: |object| create(object, &NEW),
    validate_update: |new, old| update(new, old, &NEW),
    selectable: &[
        "reason",
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reportingController",
        "type",
    ],
    selectable_as: &[
        ("regarding.kind", "involvedObject.kind"),
        ("regarding.namespace", "involvedObject.namespace"),
        ("regarding.name", "involvedObject.name"),
        ("regarding.uid", "involvedObject.uid"),
        ("regarding.apiVersion", "involvedObject.apiVersion"),
        (
            "regarding.resourceVersion",
            "involvedObject.resourceVersion",
        ),
        ("regarding.fieldPath", "involvedObject.fieldPath"),
        ("reportingController", "reportingComponent"),
    ],
    row: |object, now| row(object, now, &NEW),
    kind: "Event",
    namespaced: Some(true),
    columns: columns::EVENT,
    allow_create_on_update: true,
    allow_unconditional_update: true,
    ..PLAIN
};

fn create(object: &Value, names: &EventFieldNames) -> Vec<FieldError> {
    collect(|errors| {
        older_rules(object, names, errors);
        if !names.strict {
            return;
        }
        meta::validate(object, Some(true), names::subdomain_name, errors);
        check_series(object, errors);
        if !object.has("eventTime") {
            errors.required(&Path::new("eventTime"), "");
        }
        let kind = object.text("type");
        if !matches!(kind, "Normal" | "Warning") {
            errors.invalid(&Path::new("type"), "", format!("has invalid value: {kind}"));
        }
        let source = object.at(names.source);
        for (field, set) in [
            ("firstTimestamp", object.has(names.first)),
            ("lastTimestamp", object.has(names.last)),
            ("count", object.num(names.count) != 0),
            (
                "source",
                !source.text("component").is_empty() || !source.text("host").is_empty(),
            ),
        ] {
            if set {
                errors.invalid(&Path::new(field), "", "needs to be unset");
            }
        }
    })
}

fn update(new: &Value, old: &Value, names: &EventFieldNames) -> Vec<FieldError> {
    collect(|errors| {
        older_rules(new, names, errors);
        if !names.strict {
            return;
        }
        meta::update(new, old, errors);
        if !same(new.at("series"), old.at("series")) {
            check_series(new, errors);
        }
        for (field, said) in [
            (names.about, "involvedObject"),
            ("reason", "reason"),
            (names.note, "message"),
            (names.source, "source"),
            (names.first, "firstTimestamp"),
            (names.last, "lastTimestamp"),
            (names.count, "count"),
            ("reason", "reason"),
            ("type", "type"),
            ("eventTime", "eventTime"),
            ("action", "action"),
            ("related", "related"),
            (names.controller, "reportingController"),
            ("reportingInstance", "reportingInstance"),
        ] {
            immutable(new.at(field), old.at(field), &Path::new(said), errors);
        }
    })
}

fn check_series(object: &Value, errors: &mut Errors) {
    if !object.has("series") {
        return;
    }
    let series = object.at("series");
    if series.num("count") < 2 {
        errors.invalid(&Path::new("series.count"), "", "should be at least 2");
    }
    if !series.has("lastObservedTime") {
        errors.required(&Path::new("series.lastObservedTime"), "");
    }
}

/// Checks the rules for events of both groups.
fn older_rules(object: &Value, names: &EventFieldNames, errors: &mut Errors) {
    let own = object.at("metadata").text("namespace");
    let about = object.at(names.about).text("namespace");
    let mismatch = |errors: &mut Errors| {
        errors.invalid(
            &Path::new("involvedObject.namespace"),
            about,
            "does not match event.namespace",
        );
    };
    if object.has("eventTime") {
        if about.is_empty() && !matches!(own, "default" | "kube-system") {
            mismatch(errors);
        }
        let controller = object.text(names.controller);
        let at = Path::new(names.controller_field);
        if controller.is_empty() {
            errors.required(&at, "");
        }
        labels::label_key(controller, &at, errors);
        for (field, said, limit, required) in [
            ("reportingInstance", "reportingInstance", ACTION_LIMIT, true),
            ("action", "action", ACTION_LIMIT, true),
            ("reason", "reason", ACTION_LIMIT, true),
            (names.note, "message", NOTE_LIMIT, false),
        ] {
            let text = object.text(field);
            let at = Path::new(said);
            if required && text.is_empty() {
                errors.required(&at, "");
            }
            if text.len() > limit {
                errors.invalid(&at, "", format!("can have at most {limit} characters"));
            }
        }
    } else if about.is_empty() {
        if !matches!(own, "" | "default") {
            mismatch(errors);
        }
    } else if about != own {
        mismatch(errors);
    }
    errors.invalid_each(&Path::new("namespace"), own, names::dns_subdomain(own));
}

/// The stored form is that of the core group.
fn selectable_fields(object: &Value) -> Vec<Field> {
    let about = object.at("involvedObject");
    let component = object.at("source").text("component");
    let controller = object.text("reportingComponent");
    let source = if component.is_empty() {
        controller
    } else {
        component
    };
    let own = |text: &str| text.to_owned();
    vec![
        ("involvedObject.kind", own(about.text("kind"))),
        ("involvedObject.namespace", own(about.text("namespace"))),
        ("involvedObject.name", own(about.text("name"))),
        ("involvedObject.uid", own(about.text("uid"))),
        ("involvedObject.apiVersion", own(about.text("apiVersion"))),
        (
            "involvedObject.resourceVersion",
            own(about.text("resourceVersion")),
        ),
        ("involvedObject.fieldPath", own(about.text("fieldPath"))),
        ("reason", own(object.text("reason"))),
        ("reportingComponent", own(controller)),
        ("source", own(source)),
        ("type", own(object.text("type"))),
    ]
}

fn row(object: &Value, now: Timestamp, names: &EventFieldNames) -> Vec<Value> {
    let first = if object.has(names.first) {
        since(object.text(names.first), now)
    } else {
        since(object.text("eventTime"), now)
    };
    let series = object.at("series");
    let (last, count) = if !series.is_null() {
        (
            since(series.text("lastObservedTime"), now),
            series.num("count"),
        )
    } else if object.has(names.last) {
        (
            since(object.text(names.last), now),
            object.num(names.count).max(1),
        )
    } else {
        (first.clone(), object.num(names.count).max(1))
    };
    let about = object.at(names.about);
    let kind = about.text("kind").to_lowercase();
    let target = match about.text("name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = object.at(names.source);
    let or = |a: &str, b: &str| {
        if a.is_empty() {
            b.to_owned()
        } else {
            a.to_owned()
        }
    };
    let component = or(source.text("component"), object.text(names.controller));
    let instance = or(source.text("host"), object.text("reportingInstance"));
    let source = if instance.is_empty() {
        component
    } else {
        format!("{component}, {instance}")
    };
    vec![
        last.into(),
        object.text("type").into(),
        object.text("reason").into(),
        target.into(),
        about.text("fieldPath").into(),
        source.into(),
        object.text(names.note).trim().into(),
        first.into(),
        count.into(),
        object.at("metadata").text("name").into(),
    ]
}
