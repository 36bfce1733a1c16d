//! `AlwaysPullImages`: every image is pulled again, so that a pod's own credentials
//! decide whether it may use an image that is already on the node.

use std::collections::BTreeSet;

use control_types::status::quote;
use control_types::value::Value;

use super::refusal::Refusal;
use crate::tree::{Read, Write};

const ALWAYS: &str = "Always";
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Makes every container and image volume pull its image, unless an update (`old`)
/// brings no new image.
pub fn always_pull(pod: &mut Value, old: Option<&Value>) {
    if old.is_some_and(|old| !has_new_image(pod, old)) {
        return;
    }
    let spec = pod.make("spec");
    for list in LISTS {
        for container in spec.items_mut(list) {
            container.put("imagePullPolicy", ALWAYS);
        }
    }
    for volume in spec.items_mut("volumes") {
        if let Some(image) = volume.there("image") {
            image.put("pullPolicy", ALWAYS);
        }
    }
}

/// Rejects a pull policy that was weakened after admission.
///
/// # Errors
/// The first such container or volume.
pub fn check_always_pull(pod: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    if old.is_some_and(|old| !has_new_image(pod, old)) {
        return Ok(());
    }
    let refused = |field: String, found: &str| {
        let found = quote(found);
        Err(format!("{field}: Unsupported value: {found}: supported values: \"{ALWAYS}\"").into())
    };
    let spec = pod.at("spec");
    for list in LISTS {
        for (at, container) in spec.items(list).iter().enumerate() {
            let policy = container.text("imagePullPolicy");
            if policy != ALWAYS {
                return refused(format!("spec.{list}[{at}].imagePullPolicy"), policy);
            }
        }
    }
    for (at, volume) in spec.items("volumes").iter().enumerate() {
        let policy = volume.at("image").text("pullPolicy");
        if volume.has("image") && policy != ALWAYS {
            return refused(format!("spec.volumes[{at}].image.pullPolicy"), policy);
        }
    }
    Ok(())
}

fn images(pod: &Value) -> BTreeSet<&str> {
    let spec = pod.at("spec");
    let all = LISTS.iter().flat_map(|list| spec.items(list));
    all.map(|container| container.text("image")).collect()
}

fn has_new_image(pod: &Value, old: &Value) -> bool {
    !images(pod).is_subset(&images(old))
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn all_images_are_pulled_but_those_of_an_update_that_brings_none() {
        let mut pod = value!({"spec": {
            "initContainers": [{"image": "a", "imagePullPolicy": "Never"}],
            "containers": [{"image": "b"}],
            "volumes": [{"name": "v", "image": {"reference": "c"}}, {"name": "e", "emptyDir": {}}]
        }});
        let old = pod.clone();
        assert_eq!(
            check_always_pull(&pod, None).expect_err("never").as_ref(),
            "spec.initContainers[0].imagePullPolicy: Unsupported value: \"Never\": supported values: \"Always\""
        );
        always_pull(&mut pod, Some(&old));
        assert_eq!(pod, old);
        always_pull(&mut pod, None);
        check_always_pull(&pod, None).expect("all of them");
        assert!(!pod.at("spec").items("volumes")[1].has("image"));
        let mut other = old.clone();
        other.make("spec").items_mut("containers")[0].put("image", "d");
        assert!(check_always_pull(&other, Some(&old)).is_err());
        check_always_pull(&old, Some(&old)).expect("nothing is new");
    }
}
