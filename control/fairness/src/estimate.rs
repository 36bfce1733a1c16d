//! How many seats a request's work needs: kube-apiserver's estimates.

use std::time::Duration;

use crate::SeatSeconds;

/// The capacity of a seat, in bytes of objects held at once.
const BYTES_PER_SEAT: u64 = 100_000;
/// The maximum that a list from the cache holds, since it is streamed.
const STREAMED: u64 = 1_000_000;
/// The size of objects of which nothing is known.
const LARGEST_OBJECT: u64 = 1_500_000;
/// The most seats of a list.
const LIST_SEATS: u32 = 100;
/// The most seats of a write.
const WRITE_SEATS: u32 = 10;
/// How many watches a seat tells of a change.
const WATCHES_PER_SEAT: usize = 10;
/// How long that takes it.
const TELLING: Duration = Duration::from_millis(5);

/// The seats that a request holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// While it is answered.
    pub seats: u32,
    /// The seats afterwards, while watchers are notified.
    pub last: u32,
    /// How long that is.
    pub lingering: Duration,
}

/// A list or watch request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// Whether it is of one object, by name.
    pub single: bool,
    /// The most objects wanted; 0 for all.
    pub limit: u64,
    /// Whether labels or fields select.
    pub selects: bool,
    /// Whether it is answered out of the store and not out of the cache.
    pub from_store: bool,
}

/// Statistics of a resource's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// How many there are.
    pub count: u64,
    /// How large they are on average, in bytes; 0 if that is not known.
    pub size: u64,
}

/// The estimate of most requests.
pub const ONE: Estimate = Estimate {
    seats: 1,
    last: 0,
    lingering: Duration::ZERO,
};

// === impl Estimate ===

impl Estimate {
    /// The most seats held at a time.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.seats.max(self.last)
    }

    /// The work after the answer.
    #[must_use]
    pub fn last_work(&self) -> SeatSeconds {
        SeatSeconds::new(self.last, self.lingering)
    }
}

/// Estimates a list, or a watch that begins with all objects. `most` is the level's limit
/// on seats of one request. Unknown resources hold nothing.
#[must_use]
pub fn list(objects: Option<Objects>, listed: ListRequest, most: Option<u32>) -> Estimate {
    let Some(objects) = objects else {
        return ONE;
    };
    let size = match objects.size {
        0 if objects.count > 0 => LARGEST_OBJECT,
        size => size,
    };
    let wanted = match listed.limit {
        0 => objects.count,
        limit => limit.min(objects.count),
    };
    let held = match listed {
        ListRequest { single: true, .. } => 1,
        ListRequest {
            from_store: true,
            selects: true,
            ..
        } => wanted.max(objects.count / 2),
        _ => wanted,
    };
    let mut bytes = held.saturating_mul(size);
    if !listed.from_store {
        bytes = bytes.min(STREAMED);
    }
    let seats = u32::try_from(bytes.div_ceil(BYTES_PER_SEAT)).unwrap_or(u32::MAX);
    let most = most.unwrap_or(LIST_SEATS).clamp(1, LIST_SEATS);
    Estimate {
        seats: seats.clamp(1, most),
        ..ONE
    }
}

/// Estimates a write that notifies this many watches. Up to nine are free.
#[must_use]
pub fn write(watches: usize, most: Option<u32>) -> Estimate {
    if watches < WATCHES_PER_SEAT {
        return ONE;
    }
    let wanted = u32::try_from(watches.div_ceil(WATCHES_PER_SEAT)).unwrap_or(u32::MAX);
    let work = SeatSeconds::new(wanted, TELLING);
    // The same work may be done by fewer in a longer time: wide requests keep
    // seats empty until all that they need are free.
    let last = wanted.min(most.unwrap_or(WRITE_SEATS).clamp(1, WRITE_SEATS));
    Estimate {
        seats: 1,
        last,
        lingering: work.on_seats(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: Option<Objects> = Some(Objects {
        count: 10_000,
        size: 1_000,
    });

    #[test]
    fn lists_cost_by_the_bytes_that_are_held_at_once() {
        let all = ListRequest::default();
        assert_eq!(list(None, all, None).seats, 1);
        assert_eq!(list(MANY, all, None).seats, 10);
        assert_eq!(list(MANY, all, Some(4)).seats, 4);
        let page = ListRequest { limit: 500, ..all };
        assert_eq!(list(MANY, page, None).seats, 5);
        let one = ListRequest {
            single: true,
            ..all
        };
        assert_eq!(list(MANY, one, None).seats, 1);
        let stored = ListRequest {
            from_store: true,
            ..page
        };
        assert_eq!(list(MANY, stored, None).seats, 5);
        let selected = ListRequest {
            selects: true,
            ..stored
        };
        assert_eq!(list(MANY, selected, None).seats, 50);
        let everything = ListRequest {
            from_store: true,
            ..all
        };
        assert_eq!(list(MANY, everything, None).seats, 100);
        let empty = Some(Objects::default());
        assert_eq!(list(empty, all, None).seats, 1);
    }

    #[test]
    fn writes_keep_seats_while_many_watchers_are_told() {
        assert_eq!(write(9, None), ONE);
        let some = write(25, None);
        assert_eq!((some.last, some.lingering), (3, TELLING));
        // As much work, on fewer seats.
        let many = write(1_000, Some(4));
        assert_eq!(many.last, 4);
        assert_eq!(many.last_work(), SeatSeconds::new(100, TELLING));
        assert_eq!(many.most(), 4);
    }
}
