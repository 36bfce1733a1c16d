//! Classes of ports: ports that no rule distinguishes share one.
//!
//! A class is the signature of the ranges that contain a port. Class 0 is that of ports
//! in no range, and of protocols without ports. There may be 65 535 classes; each takes a
//! range of its own, so policies name fewer.
//!
//! The cost of an added or removed range depends only on its own ports: a policy's ports
//! cost the same beside ten others and beside ten thousand.

mod pieces;

use std::collections::BTreeMap;
use std::sync::Arc;

use ebpf_abi::Protocol;
use ebpf_abi::policy::PortClasses;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use self::pieces::Pieces;
use crate::intern::Interner;
use crate::policy::PortRange;

/// A range's number.
pub type PortId = u32;
/// A class's number.
pub type ClassId = u16;

/// The port ranges in use, and the classes that they form.
#[derive(Debug)]
pub struct Ports {
    ranges: Interner<PortRange>,
    /// Ranges that were added or removed since classes were last computed.
    moved: BTreeMap<PortId, MovedRange>,
    /// The pieces of each protocol.
    pieces: [Pieces; PROTOCOLS.len()],
    classes: Classes,
}

#[derive(Clone, Copy, Debug)]
struct MovedRange {
    range: PortRange,
    /// Whether it was added; otherwise it was removed.
    came: bool,
}

/// Ranges added or removed, by port.
type Moves = SmallVec<[(PortId, MovedRange); 2]>;

#[derive(Debug, Default)]
struct Classes {
    numbers: FxHashMap<Arc<[PortId]>, ClassId>,
    known: FxHashMap<ClassId, Class>,
    of_range: FxHashMap<PortId, SmallVec<[ClassId; 4]>>,
    /// The number that was given last.
    last: ClassId,
    /// Numbers of classes that are no more, which programs may hold.
    left: FxHashSet<ClassId>,
}

#[derive(Debug)]
struct Class {
    /// The ranges that hold its ports, sorted.
    signature: Arc<[PortId]>,
    /// The number of its pieces.
    pieces: usize,
}

/// The changes of port classes.
#[derive(Debug, Default)]
pub struct ClassChanges {
    /// Ranges of added or removed classes.
    pub ranges: FxHashSet<PortId>,
    /// Elements of the table to write.
    pub elements: Vec<(u32, PortClasses)>,
    /// Removed classes. Their numbers are not reused until they are [given
    /// back](Ports::give_back).
    pub gone: Vec<ClassId>,
}

const PROTOCOLS: [Protocol; 3] = [Protocol::TCP, Protocol::UDP, Protocol::SCTP];

impl Default for Ports {
    fn default() -> Self {
        Self {
            ranges: Interner::starting_at(1),
            moved: BTreeMap::new(),
            pieces: Default::default(),
            classes: Classes::default(),
        }
    }
}

impl Ports {
    /// Holds a range.
    pub fn acquire(&mut self, range: PortRange) -> PortId {
        let (number, new) = self.ranges.acquire(range);
        if new {
            self.moved.insert(number, MovedRange { range, came: true });
        }
        number
    }

    /// Holds it once less.
    pub fn release(&mut self, number: PortId) {
        let Some(range) = self.ranges.release(number) else {
            return;
        };
        // A range that was added and removed in between never existed.
        if self.moved.remove(&number).is_none() {
            let range = *range;
            self.moved.insert(number, MovedRange { range, came: false });
        }
    }

    /// Returns whether classes have to be recomputed.
    pub fn is_dirty(&self) -> bool {
        !self.moved.is_empty()
    }

    /// The classes in a range.
    pub fn classes(&self, range: PortId) -> &[ClassId] {
        let classes = self.classes.of_range.get(&range);
        classes.map_or(&[], SmallVec::as_slice)
    }

    /// The ranges that make a class.
    pub fn signature(&self, class: ClassId) -> &[PortId] {
        let class = self.classes.known.get(&class);
        class.map_or(&[], |it| &it.signature)
    }

    /// The class of a port.
    pub fn class(&self, protocol: Protocol, port: u16) -> ClassId {
        let row = PROTOCOLS.iter().position(|it| *it == protocol);
        let pieces = row.and_then(|row| self.pieces.get(row));
        pieces.map_or(0, |it| it.class(port))
    }

    /// How many classes there are.
    pub fn len(&self) -> usize {
        self.classes.known.len()
    }

    /// Releases the numbers of these removed classes for reuse.
    pub fn give_back(&mut self, classes: &[ClassId]) {
        for class in classes {
            self.classes.left.remove(class);
        }
    }

    /// Recomputes the classes of added and removed ranges. Kept classes keep their
    /// numbers.
    pub fn recompute_classes(&mut self, epoch: u32) -> ClassChanges {
        let mut changed = ClassChanges::default();
        let moved = std::mem::take(&mut self.moved);
        let mut left = FxHashSet::default();
        for (protocol, pieces) in PROTOCOLS.into_iter().zip(&mut self.pieces) {
            let moved: Vec<(PortId, MovedRange)> = moved
                .iter()
                .filter(|(_, it)| it.range.protocol == protocol)
                .map(|(number, it)| (*number, *it))
                .collect();
            let edges = || {
                let of = |range: PortRange| [Some(range.first), range.last.checked_add(1)];
                moved.iter().flat_map(move |(_, it)| of(it.range)).flatten()
            };
            for at in edges() {
                if let Some(class) = pieces.cut(at) {
                    self.classes.gain(class);
                }
            }
            let mut written: Vec<u16> = Vec::new();
            for (first, moves) in within(pieces, &moved) {
                let old = pieces.class(first);
                let new = self.classes.beside(old, &moves, &mut changed);
                if new != old {
                    self.classes.gain(new);
                    self.classes.lose(old);
                    left.insert(old);
                    let elements = pieces.put(first, new);
                    let next = written.last().map_or(0, |it| it + 1);
                    written.extend(elements.skip_while(|it| *it < next));
                }
            }
            for at in edges() {
                if let Some(class) = pieces.join(at) {
                    self.classes.lose(class);
                }
            }
            changed
                .elements
                .extend(written.into_iter().filter_map(|it| {
                    let (element, classes) = pieces.element(it);
                    let (place, _) = PortClasses::place(epoch, protocol, element)?;
                    Some((place, classes))
                }));
        }
        self.classes.forget(left, &mut changed);
        changed
    }
}

/// The pieces that ranges hold, with those that hold each.
fn within(pieces: &Pieces, moved: &[(PortId, MovedRange)]) -> BTreeMap<u16, Moves> {
    let mut all: BTreeMap<u16, Moves> = BTreeMap::new();
    for it in moved {
        for first in pieces.within(it.1.range.first, it.1.range.last) {
            all.entry(first).or_default().push(*it);
        }
    }
    all
}

// === impl Classes ===

impl Classes {
    /// Returns the class whose ranges are those of another one except for the moved ones.
    fn beside(
        &mut self,
        old: ClassId,
        moves: &[(PortId, MovedRange)],
        changed: &mut ClassChanges,
    ) -> ClassId {
        let before = self.known.get(&old).map(|it| Arc::clone(&it.signature));
        let mut signature: SmallVec<[PortId; 8]> =
            before.iter().flat_map(|it| &**it).copied().collect();
        for (number, moved) in moves {
            match (moved.came, signature.binary_search(number)) {
                (true, Err(place)) => signature.insert(place, *number),
                (false, Ok(place)) => {
                    signature.remove(place);
                }
                (true, Ok(_)) | (false, Err(_)) => {}
            }
        }
        if signature.is_empty() {
            return 0;
        }
        if let Some(&class) = self.numbers.get(&*signature) {
            return class;
        }
        let class = self.free();
        let signature: Arc<[PortId]> = signature.as_slice().into();
        for range in &*signature {
            self.of_range.entry(*range).or_default().push(class);
        }
        changed.ranges.extend(signature.iter().copied());
        self.numbers.insert(Arc::clone(&signature), class);
        let pieces = 0;
        self.known.insert(class, Class { signature, pieces });
        class
    }

    /// Returns an unused number that nothing may know from before.
    fn free(&mut self) -> ClassId {
        for _ in 0..u16::MAX {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.known.contains_key(&self.last) && !self.left.contains(&self.last) {
                break;
            }
        }
        self.last
    }

    fn gain(&mut self, class: ClassId) {
        if let Some(class) = self.known.get_mut(&class) {
            class.pieces += 1;
        }
    }

    fn lose(&mut self, class: ClassId) {
        if let Some(class) = self.known.get_mut(&class) {
            class.pieces -= 1;
        }
    }

    /// Removes those of these classes that have no ports any more.
    fn forget(&mut self, left: FxHashSet<ClassId>, changed: &mut ClassChanges) {
        for number in left {
            if self.known.get(&number).is_none_or(|it| it.pieces > 0) {
                continue;
            }
            let Some(class) = self.known.remove(&number) else {
                continue;
            };
            self.numbers.remove(&class.signature);
            self.left.insert(number);
            changed.gone.push(number);
            for range in &*class.signature {
                if let Some(classes) = self.of_range.get_mut(range) {
                    classes.retain(|it| *it != number);
                    if classes.is_empty() {
                        self.of_range.remove(range);
                    }
                }
            }
            changed.ranges.extend(class.signature.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests;
