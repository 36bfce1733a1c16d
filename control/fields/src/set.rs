//! A set of paths: a trie whose nodes are ordered as `fieldsV1` lists them.

use control_types::value::Key;

use crate::element::{Element, Path};
use crate::schema::Schema;

/// A set of paths. A path in the set does not imply its parents or children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    pub(crate) nodes: Vec<PathNode>,
}

/// The children of one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathNode {
    pub element: Element,
    /// Whether the path that ends here is in the set.
    pub member: bool,
    pub children: Set,
}

impl Set {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Whether no path is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes
            .iter()
            .all(|node| !node.member && node.children.is_empty())
    }

    /// Number of paths.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| usize::from(node.member) + node.children.len())
            .sum()
    }

    fn place(&self, element: &Element) -> Result<usize, usize> {
        self.nodes
            .binary_search_by(|node| node.element.cmp(element))
    }

    fn node_mut(&mut self, element: &Element) -> &mut PathNode {
        let at = match self.place(element) {
            Ok(at) => at,
            Err(at) => {
                let node = PathNode {
                    element: element.clone(),
                    member: false,
                    children: Self::new(),
                };
                self.nodes.insert(at, node);
                at
            }
        };
        &mut self.nodes[at]
    }

    /// Adds a path; the empty one, which means the whole object, is not kept.
    pub fn insert(&mut self, path: &[Element]) {
        if let [first, rest @ ..] = path {
            let node = self.node_mut(first);
            match rest {
                [] => node.member = true,
                rest => node.children.insert(rest),
            }
        }
    }

    /// Whether a path is in the set.
    #[must_use]
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.member(last),
            [first, rest @ ..] => self
                .children(first)
                .is_some_and(|children| children.has(rest)),
        }
    }

    /// Whether the path of this one element is in the set.
    #[must_use]
    pub fn member(&self, element: &Element) -> bool {
        self.place(element).is_ok_and(|at| self.nodes[at].member)
    }

    /// The set of what follows this element; nothing when nothing does.
    #[must_use]
    pub fn children(&self, element: &Element) -> Option<&Set> {
        let node = &self.nodes[self.place(element).ok()?];
        (!node.children.is_empty()).then_some(&node.children)
    }

    /// Returns the union.
    #[must_use]
    pub fn union(&self, other: &Set) -> Set {
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        zip(self, other, |left, right| {
            nodes.push(match (left, right) {
                (Some(left), Some(right)) => PathNode {
                    element: left.element.clone(),
                    member: left.member || right.member,
                    children: left.children.union(&right.children),
                },
                (Some(one), None) | (None, Some(one)) => one.clone(),
                (None, None) => return,
            });
        });
        Set { nodes }
    }

    /// Adds all paths of another set.
    pub fn extend(&mut self, other: Set) {
        if self.nodes.is_empty() {
            self.nodes = other.nodes;
            return;
        }
        for node in other.nodes {
            match self.place(&node.element) {
                Ok(at) => {
                    let own = &mut self.nodes[at];
                    own.member |= node.member;
                    own.children.extend(node.children);
                }
                Err(at) => self.nodes.insert(at, node),
            }
        }
    }

    /// Returns the intersection.
    #[must_use]
    pub fn intersection(&self, other: &Set) -> Set {
        let mut nodes = Vec::new();
        zip(self, other, |left, right| {
            if let (Some(left), Some(right)) = (left, right) {
                push(&mut nodes, left, left.member && right.member, || {
                    left.children.intersection(&right.children)
                });
            }
        });
        Set { nodes }
    }

    /// Returns the difference. Paths below a removed one stay.
    #[must_use]
    pub fn difference(&self, other: &Set) -> Set {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        zip(self, other, |left, right| match (left, right) {
            (Some(left), None) => nodes.push(left.clone()),
            (Some(left), Some(right)) => {
                push(&mut nodes, left, left.member && !right.member, || {
                    left.children.difference(&right.children)
                });
            }
            _ => {}
        });
        Set { nodes }
    }

    /// Returns the difference without everything below removed paths.
    #[must_use]
    pub fn recursive_difference(&self, other: &Set) -> Set {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        zip(self, other, |left, right| match (left, right) {
            (Some(left), None) => nodes.push(left.clone()),
            (Some(left), Some(right)) if !right.member => {
                push(&mut nodes, left, left.member, || {
                    left.children.recursive_difference(&right.children)
                });
            }
            _ => {}
        });
        Set { nodes }
    }

    /// Removes the paths of `other`; with everything below them, if `below`.
    pub fn subtract(&mut self, other: &Set, below: bool) {
        if other.nodes.is_empty() {
            return;
        }
        self.nodes.retain_mut(|node| {
            let Ok(at) = other.place(&node.element) else {
                return true;
            };
            let gone = &other.nodes[at];
            if gone.member && below {
                return false;
            }
            node.member &= !gone.member;
            node.children.subtract(&gone.children, below);
            node.member || !node.children.nodes.is_empty()
        });
    }

    /// Whether the two have a path in common.
    #[must_use]
    pub fn overlaps(&self, other: &Set) -> bool {
        let (mut i, mut j) = (0, 0);
        while let (Some(left), Some(right)) = (self.nodes.get(i), other.nodes.get(j)) {
            match left.element.cmp(&right.element) {
                std::cmp::Ordering::Less => i += 1,
                std::cmp::Ordering::Greater => j += 1,
                std::cmp::Ordering::Equal => {
                    if left.member && right.member || left.children.overlaps(&right.children) {
                        return true;
                    }
                    i += 1;
                    j += 1;
                }
            }
        }
        false
    }

    /// The set with the fields of structs that lead to its paths: of `a.b.c`, `a`
    /// is added when it is a field of a struct, and `a.b` is not when `a` is a map.
    #[must_use]
    pub fn with_named_fields(&self, schema: Option<Schema<'_>>) -> Set {
        let atom = schema.map(Schema::atom);
        let nodes = self
            .nodes
            .iter()
            .map(|node| {
                let map = atom.as_ref().and_then(|atom| atom.map.as_ref());
                let list = atom.as_ref().and_then(|atom| atom.list.as_ref());
                let (named, below) = match (&node.element, map, list) {
                    (Element::Field(name), Some(map), _) => {
                        let field = map.field(name);
                        (field.is_some(), field.or(map.element))
                    }
                    (Element::Key(_), _, Some(list)) => (false, Some(list.item)),
                    _ => (false, None),
                };
                PathNode {
                    element: node.element.clone(),
                    member: node.member || named && !node.children.nodes.is_empty(),
                    children: node.children.with_named_fields(below),
                }
            })
            .collect();
        Set { nodes }
    }

    /// Returns all paths, those of one level before those below it.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Element>, out: &mut Vec<Path>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            out.push(Path(path));
        }
        for node in &self.nodes {
            prefix.push(node.element.clone());
            node.children.collect(prefix, out);
            prefix.pop();
        }
    }

    /// Adds a node at the end; [`Set::sort`] brings it to its place.
    pub(crate) fn push(&mut self, element: Element, member: bool, children: Set) {
        self.nodes.push(PathNode {
            element,
            member,
            children,
        });
    }

    /// Sorts the nodes of this level after [`Set::push`], and merges those of one
    /// element.
    pub(crate) fn sort(&mut self) {
        if self.nodes.is_sorted_by(|a, b| a.element < b.element) {
            return;
        }
        self.nodes.sort_by(|a, b| a.element.cmp(&b.element));
        self.nodes.dedup_by(|later, first| {
            let equal = later.element == first.element;
            if equal {
                first.member |= later.member;
                first.children.extend(std::mem::take(&mut later.children));
            }
            equal
        });
    }
}

/// The set of these paths of fields.
impl FromIterator<&'static [&'static str]> for Set {
    fn from_iter<I: IntoIterator<Item = &'static [&'static str]>>(paths: I) -> Self {
        let mut set = Set::new();
        for path in paths {
            let path: Vec<_> = path
                .iter()
                .map(|name| Element::Field(Key::new(name)))
                .collect();
            set.insert(&path);
        }
        set
    }
}

impl FromIterator<Path> for Set {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Set::new();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }
}

fn push(nodes: &mut Vec<PathNode>, of: &PathNode, member: bool, children: impl FnOnce() -> Set) {
    let children = children();
    if member || !children.nodes.is_empty() {
        nodes.push(PathNode {
            element: of.element.clone(),
            member,
            children,
        });
    }
}

fn zip<'a>(
    left: &'a Set,
    right: &'a Set,
    mut each: impl FnMut(Option<&'a PathNode>, Option<&'a PathNode>),
) {
    let (mut i, mut j) = (0, 0);
    loop {
        match (left.nodes.get(i), right.nodes.get(j)) {
            (Some(a), Some(b)) => match a.element.cmp(&b.element) {
                std::cmp::Ordering::Less => {
                    each(Some(a), None);
                    i += 1;
                }
                std::cmp::Ordering::Greater => {
                    each(None, Some(b));
                    j += 1;
                }
                std::cmp::Ordering::Equal => {
                    each(Some(a), Some(b));
                    i += 1;
                    j += 1;
                }
            },
            (Some(a), None) => {
                each(Some(a), None);
                i += 1;
            }
            (None, Some(b)) => {
                each(None, Some(b));
                j += 1;
            }
            (None, None) => return,
        }
    }
}
