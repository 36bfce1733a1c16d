//! Updates of a pod that are evaluated again.

use control_types::value::Value;

use crate::tree::Read as _;

/// Returns whether an update of a pod may introduce what was not evaluated when it was
/// created: another image, or another container.
#[must_use]
pub fn is_significant(new: &Value, old: &Value) -> bool {
    let (new, old) = (new.at("spec"), old.at("spec"));
    let image = |container: &Value, other: &Value| container.text("image") != other.text("image");
    for list in ["containers", "initContainers"] {
        let (new, old) = (new.items(list), old.items(list));
        if new.len() != old.len() || new.iter().zip(old).any(|(new, old)| image(new, old)) {
            return true;
        }
    }
    let olds = old.items("ephemeralContainers");
    new.items("ephemeralContainers").iter().any(|new| {
        let same_name = |old: &&Value| old.text("name") == new.text("name");
        olds.iter()
            .find(same_name)
            .is_none_or(|old| image(new, old))
    })
}
