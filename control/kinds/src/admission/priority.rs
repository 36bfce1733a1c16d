//! `Priority`: a pod's number and preemption policy follow from its class.

use control_types::value::Value;

use super::refusal::Refusal;
use crate::tree::{Read, Write};

/// The priority fields of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// Name of the class; empty if there is none.
    pub class: String,
    /// The number; the greater goes first.
    pub value: i64,
    /// `PreemptLowerPriority` or `Never`; `None` if the class does not set it.
    pub preemption: Option<String>,
}

impl Priority {
    /// Returns the priority of a `PriorityClass`.
    #[must_use]
    pub fn from_class(class: &Value) -> Self {
        let preemption = class.text("preemptionPolicy");
        Self {
            class: class.at("metadata").text("name").to_owned(),
            value: class.num("value"),
            preemption: Some(preemption.to_owned()).filter(|text| !text.is_empty()),
        }
    }

    /// Returns the priority of a pod without a class if no class is the default.
    #[must_use]
    pub fn without_class() -> Self {
        Self {
            preemption: Some("PreemptLowerPriority".to_owned()),
            ..Self::default()
        }
    }
}

/// Returns the default class of pods. If there are several, the one with the lowest value
/// applies, so that a race of two administrators is harmless.
pub fn global_default<'a>(classes: impl Iterator<Item = &'a Value>) -> Option<&'a Value> {
    classes
        .filter(|class| class.flag("globalDefault"))
        .min_by_key(|class| class.num("value"))
}

/// Sets priority, class and preemption policy of a new pod.
///
/// # Errors
/// When the pod names another number or policy than its class gives.
pub fn assign_priority(pod: &mut Value, priority: &Priority) -> Result<(), Refusal> {
    let spec = pod.make("spec");
    if !priority.class.is_empty() {
        spec.put("priorityClassName", priority.class.as_str());
    }
    if let Some(given) = spec
        .int("priority")
        .filter(|given| *given != priority.value)
    {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
            priority.value
        )
        .into());
    }
    spec.put("priority", priority.value);
    if let Some(policy) = &priority.preemption {
        let given = spec.text("preemptionPolicy");
        if spec.has("preemptionPolicy") && given != policy {
            return Err(format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            )
            .into());
        }
        spec.put("preemptionPolicy", policy.as_str());
    }
    Ok(())
}

/// A client that does not know the two fields must not erase them.
pub fn keep_priority(new: &mut Value, old: &Value) {
    let Some(spec) = new.there("spec") else {
        return;
    };
    for field in ["priority", "preemptionPolicy"] {
        if !spec.has(field) && old.at("spec").has(field) {
            spec.take_from(old.at("spec"), field);
        }
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_pod_gets_the_number_of_its_class() {
        let class = value!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"});
        let mut pod = value!({"spec": {"priorityClassName": "high"}});
        assert_eq!(
            assign_priority(&mut pod, &Priority::from_class(&class)),
            Ok(())
        );
        assert_eq!(
            pod,
            value!({"spec": {"priorityClassName": "high", "priority": 7, "preemptionPolicy": "Never"}})
        );
    }

    #[test]
    fn a_pod_may_not_choose_its_own_number() {
        let mut pod = value!({"spec": {"priority": 7}});
        let refused = assign_priority(&mut pod, &Priority::without_class());
        assert!(refused.is_err_and(|why| {
            why.as_ref()
                .starts_with("the integer value of priority (7)")
        }));
    }

    #[test]
    fn the_least_of_two_defaults_holds() {
        let classes = [
            value!({"metadata": {"name": "b"}, "value": 2, "globalDefault": true}),
            value!({"metadata": {"name": "a"}, "value": 1, "globalDefault": true}),
            value!({"metadata": {"name": "c"}, "value": 0}),
        ];
        let found = global_default(classes.iter()).map(Priority::from_class);
        assert_eq!(found.map(|p| p.class).as_deref(), Some("a"));
    }
}
