//! `Priority`: pods get the number of their priority class, and at most one class is the
//! default.

use std::sync::LazyLock;

use control_kinds::admission as rules;
use control_types::meta;
use control_types::status::Status;
use control_types::value::{Pick, Value};

use crate::admission::{Admission, AdmissionResult, Change, done, wait};
use crate::attributes::Attributes;

const GROUP: &str = "scheduling.k8s.io";

/// What a pod takes from its priority class.
static CLASS: LazyLock<Pick> = LazyLock::new(|| {
    Pick::from_paths([
        "metadata.name",
        "value",
        "globalDefault",
        "preemptionPolicy",
    ])
});

/// The plugin.
#[derive(Debug)]
pub struct Priority;

impl Admission for Priority {
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        if !attributes.is_for("", "pods") {
            return done(Ok(()));
        }
        if let Some(old) = old {
            rules::keep_priority(object, old);
            return done(Ok(()));
        }
        let name = object.str_at(&["spec", "priorityClassName"]);
        match name.unwrap_or_default() {
            "" => done(default(attributes).and_then(|class| assign(attributes, object, &class))),
            name => {
                let name = name.to_owned();
                wait(async move {
                    let class = named(attributes, object, &name).await?;
                    assign(attributes, object, &class)
                })
            }
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        if !attributes.is_for(GROUP, "priorityclasses") {
            return done(Ok(()));
        }
        done(check_default(attributes, change))
    }
}

fn assign(
    attributes: &Attributes<'_>,
    pod: &mut Value,
    priority: &rules::Priority,
) -> Result<(), Status> {
    rules::assign_priority(pod, priority).map_err(|why| attributes.refuse(pod, &why))
}

/// Returns the priority of pods that name no class. Asked with every pod, and mostly no class
/// is the default.
fn default(attributes: &Attributes<'_>) -> Result<rules::Priority, Status> {
    let cache = attributes.cluster.cache(GROUP, "priorityclasses");
    let (_, classes) = cache.ok_or_else(Status::unknown_path)?.list("");
    let parts = classes.iter().map(|class| class.pick(&CLASS));
    let classes: Vec<Value> = parts.collect::<Result<_, _>>()?;
    let default = rules::global_default(classes.iter());
    Ok(default.map_or_else(rules::Priority::without_class, rules::Priority::from_class))
}

/// Returns the priority of a class.
async fn named(
    attributes: &Attributes<'_>,
    pod: &Value,
    name: &str,
) -> Result<rules::Priority, Status> {
    let found = attributes.cluster.find(GROUP, "priorityclasses", name);
    match found.await? {
        Some(class) => Ok(rules::Priority::from_class(&class.value()?)),
        None => {
            let why = format!("no PriorityClass with name {name} was found");
            Err(attributes.refuse(pod, &why))
        }
    }
}

/// Of all priority classes one at most is the default.
fn check_default(attributes: &Attributes<'_>, change: Change<'_>) -> Result<(), Status> {
    let class = change.new;
    if class.bool_at(&["globalDefault"]) != Some(true) {
        return Ok(());
    }
    let classes = attributes.cluster.list(GROUP, "priorityclasses", "")?;
    match rules::global_default(classes.iter()).map(meta::name) {
        Some(other) if change.old.is_none() || other != meta::name(class) => {
            let why = format!(
                "PriorityClass {other} is already marked as default. Only one default can exist"
            );
            Err(attributes.refuse(class, &why))
        }
        _ => Ok(()),
    }
}
