//! A request as expressions see it: an `admission.k8s.io/v1 AdmissionRequest`
//! without its objects.

use control_kinds::policies::Question;
use control_strategy::ServedVersion;
use control_types::value;
use control_types::value::Value;

use crate::attributes::Attributes;

/// The variable `request`. `matched`: the resource as which it was matched.
#[must_use]
pub fn request(attributes: &Attributes<'_>, matched: &ServedVersion) -> Value {
    let resource = |served: &ServedVersion| {
        let of = served.resource;
        value!({"group": (of.group), "version": (of.version), "resource": (of.plural)})
    };
    let own = attributes.kind;
    let kind = matched.expected_of(attributes.subresource);
    let user = &attributes.context.user;
    let mut who = Value::object();
    let texts = |list: &[String]| -> Value {
        let items: Vec<Value> = list.iter().map(|text| text.as_str().into()).collect();
        Value::Array(items)
    };
    if !user.name.is_empty() {
        who.insert("username", user.name.as_str());
    }
    if !user.uid.is_empty() {
        who.insert("uid", user.uid.as_str());
    }
    if !user.groups.is_empty() {
        who.insert("groups", texts(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra = Value::object();
        for (key, values) in &user.extra {
            extra.insert(key.as_str(), texts(values));
        }
        who.insert("extra", extra);
    }
    let mut request = value!({
        "uid": "",
        "kind": {"group": (kind.group), "version": (kind.version), "kind": (kind.kind)},
        "resource": (resource(matched)),
        "requestKind": {"group": (own.group), "version": (own.version), "kind": (own.kind)},
        "requestResource": (resource(attributes.served)),
        "operation": (attributes.operation.as_str()),
        "userInfo": (who),
        "object": null,
        "oldObject": null,
        "dryRun": (attributes.dry_run),
        "options": (attributes.options_value())
    });
    for (field, text) in [
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", attributes.name),
        ("namespace", attributes.namespace),
    ] {
        if !text.is_empty() {
            request.insert(field, text);
        }
    }
    request
}

/// What `authorizer.requestResource` is about.
#[must_use]
pub fn question(attributes: &Attributes<'_>) -> Question {
    let resource = attributes.served.resource;
    Question {
        group: resource.group.to_owned(),
        resource: resource.plural.to_owned(),
        subresource: attributes.subresource.to_owned(),
        namespace: attributes.namespace.to_owned(),
        name: attributes.name.to_owned(),
        ..Question::default()
    }
}
