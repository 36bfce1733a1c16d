//! `CSIDriver`: the capabilities of a storage driver.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, immutable, meta, names, one_of};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "storage.k8s.io",
    kind: "CSIDriver",
    namespaced: Some(false),
    default,
    prepare_create: |object| drop_limit_scaling(object, None),
    prepare_update: |new, old| {
        drop_limit_scaling(new, Some(old));
        generic::raise_generation_on(new, old, &["spec"]);
    },
    validate_create: |object| {
        collect(|errors| {
            meta::validate(object, Some(false), names::subdomain_name, errors);
            check(object, errors);
        })
    },
    validate_update,
    warnings,
    columns: columns::CSI_DRIVER,
    row,
    ..PLAIN
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    spec.absent("attachRequired", true);
    spec.absent("podInfoOnMount", false);
    spec.absent("storageCapacity", false);
    spec.absent("fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec.items("volumeLifecycleModes").is_empty() {
        spec.put(
            "volumeLifecycleModes",
            Value::Array(vec!["Persistent".into()]),
        );
    }
    spec.absent("requiresRepublish", false);
    spec.absent("seLinuxMount", false);
}

/// Scaling by volume limits is off in 1.36: its field is dropped unless it was there.
fn drop_limit_scaling(new: &mut Value, old: Option<&Value>) {
    let field = "preventPodSchedulingIfMissing";
    if !old.is_some_and(|old| old.at("spec").has(field)) {
        new.make("spec").drop_field(field);
    }
}

fn check(object: &Value, errors: &mut Errors) {
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    one_of(
        spec.text("fsGroupPolicy"),
        &["File", "None", "ReadWriteOnceWithFSType"],
        &at.child("fsGroupPolicy"),
        errors,
    );
    let all = at.child("tokenRequests");
    let requests = spec.items("tokenRequests");
    for (i, request) in requests.iter().enumerate() {
        let at = all.index(i);
        let audience = request.text("audience");
        if requests
            .iter()
            .take(i)
            .any(|r| r.text("audience") == audience)
        {
            errors.duplicate(&at.child("audience"), audience);
            continue;
        }
        let at = at.child("expirationSeconds");
        match request.int("expirationSeconds") {
            Some(seconds) if seconds < 600 => errors.invalid(
                &at,
                seconds,
                "may not specify a duration less than 10 minutes",
            ),
            Some(seconds) if seconds > 1 << 32 => errors.invalid(
                &at,
                seconds,
                "may not specify a duration larger than 2^32 seconds",
            ),
            _ => {}
        }
    }
    for mode in spec.items("volumeLifecycleModes").iter().map(Read::as_text) {
        let modes = &["Persistent", "Ephemeral"];
        one_of(mode, modes, &at.child("volumeLifecycleModes"), errors);
    }
    let period = "nodeAllocatableUpdatePeriodSeconds";
    if let Some(seconds) = spec.int(period).filter(|s| *s < 10) {
        errors.invalid(
            &at.child(period),
            seconds,
            "must be greater than or equal to 10 seconds",
        );
    }
    let in_secrets = "serviceAccountTokenInSecrets";
    if spec.has(in_secrets) && requests.is_empty() {
        errors.invalid(
            &at.child(in_secrets),
            spec.flag(in_secrets),
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        );
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        check(new, errors);
        for (field, said) in [
            ("attachRequired", "spec.attachedRequired"),
            ("volumeLifecycleModes", "spec.volumeLifecycleModes"),
        ] {
            let of = |object: &Value| object.at("spec").at(field).clone();
            immutable(&of(new), &of(old), &Path::new(said), errors);
        }
    })
}

fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let requests = |object: &Value| object.at("spec").at("tokenRequests").clone();
    let changed = old.is_none_or(|old| !same(&requests(old), &requests(new)));
    let spec = new.at("spec");
    if changed
        && !spec.items("tokenRequests").is_empty()
        && !spec.has("serviceAccountTokenInSecrets")
    {
        return vec![
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
                .to_owned(),
        ];
    }
    Vec::new()
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    let join = |list: &str, field: &str| {
        let text = |item: &Value| match field {
            "" => item.as_text().to_owned(),
            field => item.text(field).to_owned(),
        };
        spec.items(list)
            .iter()
            .map(text)
            .collect::<Vec<_>>()
            .join(",")
    };
    let modes = match join("volumeLifecycleModes", "") {
        none if none.is_empty() => "<none>".to_owned(),
        modes => modes,
    };
    let tokens = if spec.has("tokenRequests") {
        join("tokenRequests", "audience")
    } else {
        "<unset>".to_owned()
    };
    vec![
        name(object),
        spec.truth("attachRequired").unwrap_or(true).into(),
        spec.flag("podInfoOnMount").into(),
        spec.flag("storageCapacity").into(),
        tokens.into(),
        spec.flag("requiresRepublish").into(),
        modes.into(),
        age(object, now),
    ]
}
