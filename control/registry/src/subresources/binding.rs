//! `pods/binding`: the scheduler's word.

use std::sync::Arc;

use control_admission::{Attributes, Operation, RequestOptions};
use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, registry, time, value};

use crate::context::Context;
use crate::reply::{self, Answer};
use crate::served_resource::ServedResource;
use crate::verbs::create::check_namespace;
use crate::write::Decision;
use control_request::body::Body;
use control_request::negotiate::Format;
use control_request::options::WriteOptions;
use control_request::plain_error;
use control_strategy::ObjectSchema;
use control_strategy::decode::{self, ExpectedKind};

/// Binds the pod of the path to a node.
///
/// # Errors
/// 404, 409 when the pod is bound or going.
///
/// `through` is the resource that was asked: pods or, in the older form, bindings.
pub async fn bind(
    context: &Context,
    served: &Arc<ServedResource>,
    through: &Arc<ServedResource>,
    body: Body,
) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let options = WriteOptions::parse(context.query(), "CreateOptions", false)?;
    let schema = registry::schema_of("", "v1", "Binding").ok_or_else(Status::unknown_path)?;
    let expected = ExpectedKind {
        group: "",
        version: "v1",
        kind: "Binding",
        form: ObjectSchema::Typed(schema),
    };
    let headers = &context.parts.headers;
    let mut binding = decode::object(headers, body, expected, options.field_validation)
        .await?
        .object;
    context.tell_sent_as(expected.form, &binding);
    let asked = match context.info.subresource.as_str() {
        "" => meta::name(&binding).to_owned(),
        _ => context.info.name.clone(),
    };
    let subresource = &context.info.subresource;
    let attributes = Attributes {
        name: &asked,
        options: RequestOptions::Create(&options),
        dry_run: options.dry_run,
        ..context.admission(&through.version, Operation::Create, expected, subresource)
    };
    let admission = &context.registry.admission;
    admission.admit(&attributes, &mut binding, None).await?;
    let given = meta::name(&binding).to_owned();
    // Bindings themselves name the pod only in the body.
    let name = if context.info.subresource.is_empty() {
        check_namespace(context, served, &mut binding)?;
        given.as_str()
    } else {
        context.info.name.as_str()
    };
    if given != name {
        return Err(Status::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    let kind = binding.str_at(&["target", "kind"]).unwrap_or_default();
    let node = binding
        .str_at(&["target", "name"])
        .unwrap_or_default()
        .to_owned();
    // The first error of its validation, as stock has it: no Status of its own.
    if !kind.is_empty() && kind != "Node" {
        return Err(plain_error(format!(
            "target.kind: Unsupported value: {}: supported values: \"Node\", \"<empty>\"",
            control_types::status::quote(kind)
        )));
    }
    if node.is_empty() {
        return Err(plain_error("target.name: Required value"));
    }
    let validated = admission.validate_dynamic(&attributes, Some(&binding), None);
    validated.await?;
    let key = served.key(&context.info.namespace, name);
    let uid = meta::uid(&binding).to_owned();
    context
        .registry
        .modify(served, &key, options.dry_run, None, |current| {
            let mut pod = current.ok_or_else(|| served.not_found(&key))?.object;
            assign(&mut pod, &binding, &node, &uid, name)?;
            Ok(Decision::Put(pod))
        })
        .await?;
    let answer = value!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201
    });
    Ok(reply::value(201, &answer, format))
}

/// The pure part: the pod is given to the node.
fn assign(
    pod: &mut Value,
    binding: &Value,
    node: &str,
    uid: &str,
    name: &str,
) -> Result<(), Status> {
    let conflict = |why: &str| Status::conflict("", "pods/binding", name, why);
    if !uid.is_empty() && uid != meta::uid(pod) {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            meta::namespace(pod),
            meta::uid(pod)
        );
        return Err(Status::conflict("", "pods", name, &why));
    }
    if meta::is_deleting(pod) {
        return Err(conflict(&format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        )));
    }
    let present = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
    if !present.is_empty() {
        let shown = control_types::status::quote(present);
        return Err(conflict(&format!(
            "pod {name} is already assigned to node {shown}"
        )));
    }
    if !pod.items_at(&["spec", "schedulingGates"]).is_empty() {
        return Err(conflict(&format!(
            "pod {name} has non-empty .spec.schedulingGates"
        )));
    }
    pod.set_path(&["spec", "nodeName"], node);
    for (key, value) in meta::annotations(binding) {
        meta::set_annotation(pod, key, value);
    }
    for (key, value) in meta::labels(binding) {
        meta::set_label(pod, key, value);
    }
    let at = time::format(jiff::Timestamp::now());
    let condition = value!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": (at)
    });
    let conditions = pod
        .make_object()
        .object_mut("status")
        .get_or_insert_with("conditions", || Value::Array(Vec::new()))
        .make_array();
    conditions.retain(|condition| condition.str_at(&["type"]) != Some("PodScheduled"));
    conditions.push(condition);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_bound_once() {
        let mut pod = value!({"metadata": {"name": "p", "uid": "u"}, "spec": {}});
        let binding = value!({"target": {"name": "n"}});
        assert!(assign(&mut pod, &binding, "n", "u", "p").is_ok());
        assert_eq!(pod.str_at(&["spec", "nodeName"]), Some("n"));
        assert_eq!(pod.items_at(&["status", "conditions"]).len(), 1);
        let again = assign(&mut pod, &binding, "m", "", "p").expect_err("bound");
        assert_eq!((again.code, &*again.reason), (409, "Conflict"));
    }
}
