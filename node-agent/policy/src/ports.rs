//! Classes of ports: ports that no rule tells apart share one.
//!
//! A class is the signature of the ranges that hold a port. Class 0 is that of
//! ports in no range, and of protocols without ports. There may be 65 535
//! classes; each takes a range of its own, so policies name fewer.

use ebpf_abi::Protocol;
use ebpf_abi::policy::PortClasses;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::intern::Interner;
use crate::policy::PortRange;

/// A range's number.
pub type PortId = u32;
/// A class's number.
pub type ClassId = u16;

/// The ranges in use, and the classes that they make.
#[derive(Debug)]
pub struct Ports {
    ranges: Interner<PortRange>,
    numbers: FxHashMap<Box<[PortId]>, ClassId>,
    signatures: FxHashMap<ClassId, Box<[PortId]>>,
    of_range: FxHashMap<PortId, SmallVec<[ClassId; 4]>>,
    /// Three protocols, each port's class.
    table: Vec<ClassId>,
    next: ClassId,
    dirty: bool,
}

/// What became of the classes.
#[derive(Debug, Default)]
pub struct Changed {
    /// Ranges of classes that came or went.
    pub ranges: FxHashSet<PortId>,
    /// Elements of the table to write.
    pub elements: Vec<(u32, PortClasses)>,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            ranges: Interner::starting_at(1),
            numbers: FxHashMap::default(),
            signatures: FxHashMap::default(),
            of_range: FxHashMap::default(),
            table: vec![0; 3 << 16],
            next: 0,
            dirty: false,
        }
    }
}

const PROTOCOLS: [Protocol; 3] = [Protocol::TCP, Protocol::UDP, Protocol::SCTP];

impl Ports {
    /// Holds a range.
    pub fn acquire(&mut self, range: PortRange) -> PortId {
        let (number, new) = self.ranges.acquire(range);
        self.dirty |= new;
        number
    }

    /// Holds it once less.
    pub fn release(&mut self, number: PortId) {
        self.dirty |= self.ranges.release(number).is_some();
    }

    /// Is there something to settle?
    pub const fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// The classes in a range.
    pub fn classes(&self, range: PortId) -> &[ClassId] {
        self.of_range.get(&range).map_or(&[], SmallVec::as_slice)
    }

    /// The ranges that make a class.
    pub fn signature(&self, class: ClassId) -> &[PortId] {
        self.signatures.get(&class).map_or(&[], |it| it)
    }

    /// The class of a port.
    pub fn class(&self, protocol: Protocol, port: u16) -> ClassId {
        PROTOCOLS
            .iter()
            .position(|it| *it == protocol)
            .and_then(|row| self.table.get((row << 16) + usize::from(port)))
            .copied()
            .unwrap_or(0)
    }

    /// How many classes there are.
    pub fn len(&self) -> usize {
        self.signatures.len()
    }

    /// Makes the classes anew. Those that stay keep their numbers, those that
    /// go keep theirs until the next time.
    pub fn settle(&mut self, epoch: u32) -> Changed {
        let mut changed = Changed::default();
        if !std::mem::take(&mut self.dirty) {
            return changed;
        }
        let mut numbers: FxHashMap<Box<[PortId]>, ClassId> = FxHashMap::default();
        let mut table = vec![0; 3 << 16];
        for (row, protocol) in PROTOCOLS.into_iter().enumerate() {
            // Where ranges begin and end, and in between, who is open.
            let mut edges: Vec<(u32, bool, PortId)> = Vec::new();
            for (number, range) in self.ranges.iter() {
                if range.protocol == protocol {
                    edges.push((u32::from(range.first), true, number));
                    edges.push((u32::from(range.last) + 1, false, number));
                }
            }
            edges.sort_unstable();
            let mut open: Vec<PortId> = Vec::new();
            let mut from = 0;
            for (at, begins, number) in edges {
                if at > from && !open.is_empty() {
                    let class = self.class_of(&open, &mut numbers, &mut changed);
                    let (from, to) = ((row << 16) + from as usize, (row << 16) + at as usize);
                    if let Some(part) = table.get_mut(from..to) {
                        part.fill(class);
                    }
                }
                from = at;
                match (begins, open.binary_search(&number)) {
                    (true, Err(place)) => open.insert(place, number),
                    (false, Ok(place)) => {
                        open.remove(place);
                    }
                    (true, Ok(_)) | (false, Err(_)) => {}
                }
            }
        }
        for (signature, class) in &self.numbers {
            if !numbers.contains_key(signature) {
                changed.ranges.extend(signature.iter().copied());
                self.signatures.remove(class);
            }
        }
        self.of_range.clear();
        for (signature, class) in &numbers {
            for range in signature {
                self.of_range.entry(*range).or_default().push(*class);
            }
        }
        let before = self.table.chunks_exact(4);
        for (number, (old, new)) in before.zip(table.chunks_exact(4)).enumerate() {
            if let (true, [a, b, c, d]) = (old != new, new) {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let element = (epoch & 1) * PortClasses::HALF + number;
                changed
                    .elements
                    .push((element, PortClasses([*a, *b, *c, *d])));
            }
        }
        self.numbers = numbers;
        self.table = table;
        changed
    }

    fn class_of(
        &mut self,
        open: &[PortId],
        numbers: &mut FxHashMap<Box<[PortId]>, ClassId>,
        changed: &mut Changed,
    ) -> ClassId {
        if let Some(&class) = numbers.get(open) {
            return class;
        }
        let class = self.numbers.get(open).copied().unwrap_or_else(|| {
            changed.ranges.extend(open.iter().copied());
            // A number that was free before this round began.
            let mut tries = 0_u32;
            loop {
                self.next = self.next.checked_add(1).unwrap_or(1);
                tries += 1;
                if !self.signatures.contains_key(&self.next) || tries > u32::from(u16::MAX) {
                    break self.next;
                }
            }
        });
        self.signatures.insert(class, open.into());
        numbers.insert(open.into(), class);
        class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(first: u16, last: u16) -> PortRange {
        PortRange {
            protocol: Protocol::TCP,
            first,
            last,
        }
    }

    #[test]
    fn ports_in_the_same_ranges_share_a_class() {
        let mut ports = Ports::default();
        let wide = ports.acquire(tcp(80, 90));
        let narrow = ports.acquire(tcp(85, 85));
        let changed = ports.settle(0);
        assert_eq!(changed.elements.len(), 3);
        let class = |port| ports.class(Protocol::TCP, port);
        assert_eq!(class(79), 0);
        assert_eq!(class(80), class(90));
        assert_ne!(class(80), class(85));
        assert_eq!(class(91), 0);
        assert_eq!(ports.class(Protocol::UDP, 80), 0);
        assert_eq!(ports.signature(class(85)), [wide, narrow]);
        assert_eq!(ports.classes(wide).len(), 2);
        assert_eq!(ports.classes(narrow), [class(85)]);
    }

    #[test]
    fn what_stays_keeps_its_number() {
        let mut ports = Ports::default();
        ports.acquire(tcp(80, 80));
        ports.settle(0);
        let class = ports.class(Protocol::TCP, 80);
        let other = ports.acquire(tcp(443, 443));
        let changed = ports.settle(0);
        assert_eq!(ports.class(Protocol::TCP, 80), class);
        assert_eq!(changed.elements.len(), 1);
        assert_eq!(changed.ranges, FxHashSet::from_iter([other]));
        ports.release(other);
        ports.settle(0);
        assert_eq!(ports.class(Protocol::TCP, 443), 0);
        assert_eq!(ports.class(Protocol::TCP, 80), class);
    }

    #[test]
    fn ends_of_the_space_count() {
        let mut ports = Ports::default();
        ports.acquire(tcp(0, 65535));
        ports.settle(1);
        let class = ports.class(Protocol::TCP, 0);
        assert_ne!(class, 0);
        assert_eq!(ports.class(Protocol::TCP, 65535), class);
    }
}
