//! `RuntimeClass`: pods get what their runtime class costs.

use control_kinds::admission as rules;
use control_types::status::{Status, quote};
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, Change, done, wait};
use crate::attributes::Attributes;

/// The plugin.
#[derive(Debug)]
pub struct RuntimeClass;

impl Admission for RuntimeClass {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        if name_of_class(object).is_none() {
            return done(Ok(()));
        }
        wait(async move {
            if let Some(class) = class(attributes, object).await? {
                rules::apply_runtime_class(object, &class)
                    .map_err(|why| attributes.refuse(object, &why))?;
            }
            Ok(())
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        let pod = change.new;
        let check = move |class: Option<&Value>| {
            rules::check_runtime_class(pod, class).map_err(|why| attributes.refuse(pod, &why))
        };
        if name_of_class(pod).is_none() {
            return done(check(None));
        }
        wait(async move { check(class(attributes, pod).await?.as_ref()) })
    }
}

fn name_of_class(pod: &Value) -> Option<&str> {
    pod.str_at(&["spec", "runtimeClassName"])
}

/// Returns the runtime class that a pod names, if it names one.
async fn class(attributes: &Attributes<'_>, pod: &Value) -> Result<Option<Value>, Status> {
    let Some(name) = name_of_class(pod) else {
        return Ok(None);
    };
    let cluster = attributes.cluster;
    match cluster.find("node.k8s.io", "runtimeclasses", name).await? {
        Some(class) => Ok(Some(class.value()?)),
        None => {
            let why = format!("pod rejected: RuntimeClass {} not found", quote(name));
            Err(attributes.refuse(pod, &why))
        }
    }
}
