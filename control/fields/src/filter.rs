//! Fields that a strategy resets: changes there have no owner.

use crate::element::Element;
use crate::set::Set;

/// Keeps a part of a set.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Everything except these paths and their children.
    Exclude(Set),
    /// Only the prefixes given by these paths, and the paths to them. The step `*` stands
    /// for any.
    Include(&'static [&'static [&'static str]]),
}

impl Filter {
    /// The part that is kept.
    #[must_use]
    pub fn apply(&self, set: Set) -> Set {
        match self {
            Self::Exclude(gone) => {
                let mut set = set;
                set.subtract(gone, true);
                set
            }
            Self::Include(paths) => include(set, paths, 0),
        }
    }
}

/// Keeps what the paths, `depth` steps of which are consumed, begin or lead to.
fn include(mut set: Set, paths: &[&'static [&'static str]], depth: usize) -> Set {
    if paths.iter().any(|path| path.len() <= depth) {
        return set;
    }
    set.nodes.retain_mut(|node| {
        let matching: Vec<_> = paths
            .iter()
            .copied()
            .filter(|path| match &node.element {
                _ if path[depth] == "*" => true,
                Element::Field(field) => field.as_str() == path[depth],
                _ => false,
            })
            .collect();
        if matching.is_empty() {
            return false;
        }
        node.children = include(std::mem::take(&mut node.children), &matching, depth + 1);
        node.member || !node.children.is_empty()
    });
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use control_types::value;

    #[test]
    fn only_what_the_paths_begin_is_left() {
        let set = Set::from_fields(&value!({
            "f:metadata": {"f:labels": {}},
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:resources": {"f:limits": {}}}}, "f:nodeName": {}}
        }))
        .unwrap();
        let filter = Filter::Include(&[&["spec", "containers", "*", "resources"]]);
        assert_eq!(
            filter.apply(set.clone()).to_fields(),
            value!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:resources": {"f:limits": {}}}}}})
        );
        let spec: &[&str] = &["spec"];
        let filter = Filter::Exclude([spec].into_iter().collect());
        assert_eq!(
            filter.apply(set).to_fields(),
            value!({"f:metadata": {"f:labels": {}}})
        );
    }
}
