//! `scale`: how many replicas, seen alike for all kinds that have some.

use std::sync::Arc;

use control_kinds::Scale;
use control_types::status::{Cause, Status};
use control_types::value::Value;
use control_types::{labels, meta, registry, value};

use crate::context::Context;
use crate::managed::{self, Endpoint};
use crate::reply::{self, Answer};
use crate::served_resource::ServedResource;
use crate::verbs::create::Managers;
use crate::verbs::patch;
use crate::verbs::patches::Patch;
use crate::verbs::update::{Change, View, check_name};
use control_request::body::Body;
use control_request::negotiate::Format;
use control_request::options::WriteOptions;
use control_strategy::ObjectSchema;
use control_strategy::decode::{self, ExpectedKind};

fn paths(served: &ServedResource) -> Result<Scale, Status> {
    served.kind.scale().ok_or_else(Status::unknown_path)
}

fn expected() -> Result<ExpectedKind<'static>, Status> {
    let schema = registry::schema_of("autoscaling", "v1", "Scale");
    let schema = schema.ok_or_else(Status::unknown_path)?;
    Ok(ExpectedKind {
        group: "autoscaling",
        version: "v1",
        kind: "Scale",
        form: ObjectSchema::Typed(schema),
    })
}

/// The scale of an object.
fn scale_of(object: &Value, paths: Scale) -> Value {
    let mut metadata = Value::object();
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = object.path(&["metadata", field]) {
            metadata.insert(field, value.clone());
        }
    }
    let selector = paths
        .selector
        .and_then(|path| object.path(path))
        .map(|selector| {
            // Custom kinds keep it as it is shown.
            if let Value::String(text) = selector {
                return text.to_string();
            }
            let parsed = match selector.as_object() {
                Some(map)
                    if !map.contains_key("matchLabels")
                        && !map.contains_key("matchExpressions") =>
                {
                    let pairs = map
                        .iter()
                        .filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)));
                    labels::Selector::from_map(pairs)
                }
                _ => labels::Selector::from_object(Some(selector)).unwrap_or_default(),
            };
            parsed.to_string()
        });
    let mut spec = Value::object();
    if let Some(replicas) = object
        .i64_at(paths.spec_replicas)
        .filter(|replicas| *replicas != 0)
    {
        spec.insert("replicas", replicas);
    }
    let mut status =
        value!({"replicas": (object.i64_at(paths.status_replicas).unwrap_or_default())});
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status.insert("selector", selector);
    }
    value!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": (metadata), "spec": (spec), "status": (status)
    })
}

/// Answers the scale.
///
/// # Errors
/// 404.
pub async fn get(context: &Context, served: &Arc<ServedResource>) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let paths = paths(served)?;
    let key = served.key(&context.info.namespace, &context.info.name);
    let object = context.registry.get(served, &key).await?;
    let object = served.in_version(&context.registry, object).await?;
    let object = served.tree(&object)?;
    if served.resource.is_custom() && object.path(paths.spec_replicas).is_none() {
        let path = paths.spec_replicas.join(".");
        let why = format!("the spec replicas field \".{path}\" does not exist");
        return Err(Status::internal(why));
    }
    answer(scale_of(&object, paths), format)
}

fn answer(scale: Value, format: Format) -> Answer {
    reply::acceptable_for_scale(format)?;
    let shaped = reply::shaped(scale, &(&control_kinds::SCALE).into(), format);
    Ok(reply::value(200, &shaped, format))
}

/// Replaces the scale.
///
/// # Errors
/// Whatever forbids the change.
pub async fn update(context: &Context, served: &Arc<ServedResource>, body: Body) -> Answer {
    let options = WriteOptions::parse(context.query(), "UpdateOptions", false)?;
    let headers = &context.parts.headers;
    let expected = expected()?;
    let mut scale = decode::object(headers, body, expected, options.field_validation)
        .await?
        .object;
    context.tell_sent_as(expected.form, &scale);
    check_name(context, served, &mut scale)?;
    change(context, served, &options, Managers::Writer, |_| {
        Ok(scale.clone())
    })
    .await
}

/// Patches the scale.
///
/// # Errors
/// Whatever forbids the change.
pub async fn patch(context: &Context, served: &Arc<ServedResource>, body: Body) -> Answer {
    let media = patch::media(context);
    let options = WriteOptions::parse(context.query(), "PatchOptions", media == patch::APPLY)?;
    let bytes = decode::read(body).await?;
    let expected = expected()?;
    if media == patch::APPLY {
        let config = patch::read_config(&bytes)?;
        let endpoint = Endpoint::own_kind(&context.registry, expected, "scale");
        let force = options.force.unwrap_or_default();
        return change(context, served, &options, Managers::Given, |old| {
            let tree = endpoint.apply(Some(old), &config.tree, &options.field_manager, force)?;
            config.judge(context, options.field_validation)?;
            patch::decode_applied(tree, &config.tree, expected)
        })
        .await;
    }
    if served.resource.is_custom() {
        patch::no_strategic(&media)?;
    }
    let patch = Patch::read(&media, &bytes, options.field_validation)?;
    change(context, served, &options, Managers::Writer, |old| {
        let decoded = patch.apply(old, expected, options.field_validation)?;
        Ok(decoded.object)
    })
    .await
}

async fn change(
    context: &Context,
    served: &Arc<ServedResource>,
    options: &WriteOptions,
    managers: Managers,
    make: impl Fn(&Value) -> Result<Value, Status>,
) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let view = ScaleView {
        served,
        paths: paths(served)?,
        expected: expected()?,
    };
    let key = served.key(&context.info.namespace, &context.info.name);
    let change = Change {
        context,
        served,
        subresource: "",
        options,
        writer: None,
        view: Some(&view),
    };
    let writer = managed::manager_of(context, options);
    let endpoint = Endpoint::own_kind(&context.registry, view.expected, "scale");
    let object = change
        .store(&key, |live| {
            let mut scale = make(live)?;
            if managers == Managers::Writer {
                endpoint.write(Some(live), &mut scale, &writer);
            }
            Ok(scale)
        })
        .await?;
    answer(scale_of(&object, view.paths), format)
}

/// The scale of the objects of a resource.
struct ScaleView<'a> {
    served: &'a ServedResource,
    paths: Scale,
    expected: ExpectedKind<'a>,
}

impl ScaleView<'_> {
    fn owners(&self, object: &Value) -> Result<control_fields::Scale, Status> {
        let group = self.served.resource.group;
        control_fields::Scale::from_parent(object, &self.served.api_version, |version| {
            (meta::split_api_version(version).0 == group).then_some(self.paths.spec_replicas)
        })
        .map_err(Status::internal)
    }
}

impl View for ScaleView<'_> {
    fn subresource(&self) -> &'static str {
        "scale"
    }

    fn kind(&self) -> ExpectedKind<'_> {
        self.expected
    }

    fn of(&self, object: &Value) -> Value {
        scale_of(object, self.paths)
    }

    fn with_owners(&self, object: &Value) -> Result<Value, Status> {
        let mut live = self.of(object);
        if let Some(list) = self.owners(object)?.to_scale() {
            meta::metadata_mut(&mut live).insert("managedFields", list);
        }
        Ok(live)
    }

    fn put(&self, scale: &Value, object: &Value) -> Result<Value, Status> {
        let replicas = scale.i64_at(&["spec", "replicas"]).unwrap_or_default();
        // Custom kinds say themselves what is wrong with it.
        if replicas < 0 && !self.served.resource.is_custom() {
            let cause = Cause {
                reason: "FieldValueInvalid".into(),
                message: format!("Invalid value: {replicas}: must be greater than or equal to 0"),
                field: "spec.replicas".into(),
            };
            let name = meta::name(object);
            return Err(Status::invalid("autoscaling", "Scale", name, vec![cause]));
        }
        let mut new = object.clone();
        new.set_path(self.paths.spec_replicas, replicas);
        let list = self
            .owners(object)?
            .to_parent(scale.path(&["metadata", "managedFields"]))
            .map_err(Status::internal)?;
        match list {
            Some(list) => meta::metadata_mut(&mut new).insert("managedFields", list),
            None => meta::metadata_mut(&mut new).remove("managedFields"),
        };
        let version = meta::resource_version(scale);
        if !version.is_empty() {
            meta::set_resource_version(&mut new, version);
        }
        // The scale of another object of this name is no longer asked for.
        if !meta::uid(scale).is_empty() {
            meta::set_uid(&mut new, meta::uid(scale));
        }
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_shows_replicas_and_selector() {
        let paths = control_kinds::find_kind("apps", "Deployment").scale;
        let paths = paths.unwrap_or(Scale {
            spec_replicas: &["spec", "replicas"],
            status_replicas: &["status", "replicas"],
            selector: Some(&["spec", "selector"]),
        });
        let object = value!({
            "metadata": {"name": "d", "labels": {"x": "y"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}},
            "status": {"replicas": 2}
        });
        let scale = scale_of(&object, paths);
        assert_eq!(scale.path(&["metadata"]), Some(&value!({"name": "d"})));
        assert_eq!(scale.path(&["spec"]), Some(&value!({"replicas": 3})));
        assert_eq!(
            scale.path(&["status"]),
            Some(&value!({"replicas": 2, "selector": "a=b"}))
        );
    }
}
