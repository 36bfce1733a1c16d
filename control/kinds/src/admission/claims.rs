//! `PersistentVolumeClaimResize`: a claim grows only if it is bound and its class
//! lets volumes grow.

use control_types::quantity::Quantity;
use control_types::value::Value;

use super::refusal::Refusal;
use crate::tree::Read;

/// The class that a claim names and that decides whether it may grow; `None` when
/// the update does not make it grow.
///
/// # Errors
/// When it grows without being bound.
pub fn growing_claim_class<'a>(new: &'a Value, old: &'a Value) -> Result<Option<&'a str>, Refusal> {
    let size = |claim: &Value| {
        let size = claim.dig(&["spec", "resources", "requests", "storage"]);
        Quantity::parse(size.as_text()).ok()
    };
    let grows = match (size(new), size(old)) {
        (Some(new), Some(old)) => new > old,
        (Some(_), None) => true,
        _ => false,
    };
    if !grows {
        return Ok(None);
    }
    if old.at("status").text("phase") != "Bound" {
        return Err("Only bound persistent volume claims can be expanded".into());
    }
    let (class, before) = (class_of(new), class_of(old));
    if class.is_empty() || class != before {
        return Err(no_growth());
    }
    Ok(Some(class))
}

/// Whether the class lets its claims grow.
///
/// # Errors
/// When it does not, or does not exist.
pub fn check_growth(class: Option<&Value>) -> Result<(), Refusal> {
    let lets = class.is_some_and(|class| class.flag("allowVolumeExpansion"));
    lets.then_some(()).ok_or_else(no_growth)
}

fn class_of(claim: &Value) -> &str {
    let annotations = claim.at("metadata").at("annotations");
    let legacy = "volume.beta.kubernetes.io/storage-class";
    if annotations.has(legacy) {
        return annotations.text(legacy);
    }
    claim.at("spec").text("storageClassName")
}

fn no_growth() -> Refusal {
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize".into()
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn claim(size: &str, phase: &str, class: &str) -> Value {
        value!({
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase}
        })
    }

    #[test]
    fn a_bound_claim_grows_if_its_class_lets_it() {
        let old = claim("1Gi", "Bound", "fast");
        let grown = claim("2Gi", "Bound", "fast");
        assert_eq!(growing_claim_class(&grown, &old), Ok(Some("fast")));
        assert_eq!(growing_claim_class(&old, &grown), Ok(None));
        assert_eq!(
            growing_claim_class(&old, &claim("1024Mi", "Bound", "fast")),
            Ok(None)
        );
        let pending = claim("1Gi", "Pending", "fast");
        assert!(
            growing_claim_class(&grown, &pending)
                .is_err_and(|why| why.as_ref().starts_with("Only bound"))
        );
        assert!(growing_claim_class(&grown, &claim("1Gi", "Bound", "")).is_err());
        assert_eq!(
            check_growth(Some(&value!({"allowVolumeExpansion": true}))),
            Ok(())
        );
        assert!(check_growth(Some(&value!({}))).is_err() && check_growth(None).is_err());
    }
}
