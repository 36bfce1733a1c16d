//! The ports of one protocol as pieces: neighbours of one class.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use ebpf_abi::policy::PortClasses;

use super::ClassId;

/// Ports of an element of the table in the maps.
const TOGETHER: u16 = 4;

/// All ports of a protocol, cut into pieces.
#[derive(Debug)]
pub struct Pieces {
    /// The first port of each piece, and the class up to the next one.
    firsts: BTreeMap<u16, ClassId>,
}

impl Default for Pieces {
    fn default() -> Self {
        let firsts = BTreeMap::from([(0, 0)]);
        Self { firsts }
    }
}

impl Pieces {
    /// The class of a port.
    pub fn class(&self, port: u16) -> ClassId {
        let piece = self.firsts.range(..=port).next_back();
        piece.map_or(0, |(_, class)| *class)
    }

    /// Lets a piece begin at a port; its class, if none did.
    pub fn cut(&mut self, first: u16) -> Option<ClassId> {
        let class = self.class(first);
        self.firsts.insert(first, class).is_none().then_some(class)
    }

    /// Lets no piece begin at a port if it has the class of the one before; the
    /// class, if so.
    pub fn join(&mut self, first: u16) -> Option<ClassId> {
        let class = *self.firsts.get(&first)?;
        let before = self.class(first.checked_sub(1)?);
        (before == class).then(|| self.firsts.remove(&first))?
    }

    /// The pieces that begin in a range: their first ports.
    pub fn within(&self, first: u16, last: u16) -> impl Iterator<Item = u16> {
        // A range that ends before it begins holds nothing.
        let pieces = (first <= last).then(|| self.firsts.range(first..=last));
        pieces.into_iter().flatten().map(|(first, _)| *first)
    }

    /// Gives a piece a class; the elements of the table that it lies in.
    pub fn put(&mut self, first: u16, class: ClassId) -> RangeInclusive<u16> {
        self.firsts.insert(first, class);
        let mut later = self.firsts.range(first..).skip(1);
        let last = later.next().map_or(u16::MAX, |(next, _)| next - 1);
        first / TOGETHER..=last / TOGETHER
    }

    /// Returns an element of the table: its first port, and its classes.
    pub fn element(&self, number: u16) -> (u16, PortClasses) {
        let first = number * TOGETHER;
        let mut classes = [self.class(first); TOGETHER as usize];
        let later = first + 1..=first + (TOGETHER - 1);
        for (at, class) in self.firsts.range(later) {
            if let Some(rest) = classes.get_mut(usize::from(at - first)..) {
                rest.fill(*class);
            }
        }
        (first, PortClasses(classes))
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.firsts.len()
    }
}
