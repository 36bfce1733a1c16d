use std::cell::{Cell, RefCell};
use std::vec::Vec;

use ebpf_abi::Bandwidth;

use super::*;
use crate::model::Frame;
use crate::packet::tests::frames;

const SECOND: u64 = 1_000_000_000;

struct Kept(Cell<Bandwidth>);

impl Kept {
    fn new(rate: u64, burst: u64) -> Self {
        Self(Cell::new(Bandwidth::new(rate, burst)))
    }
}

impl Bucket for Kept {
    fn rate(&self) -> u64 {
        self.0.get().rate
    }
    fn depth(&self) -> u64 {
        self.0.get().depth
    }
    fn full(&self) -> u64 {
        self.0.get().full
    }
    fn fill(&self, at: u64) {
        self.0.set(Bandwidth {
            full: at,
            ..self.0.get()
        });
    }
    fn take(&self, cost: u64) {
        self.fill(self.full() + cost);
    }
}

/// Bytes that pass of packets of `bytes` each, offered every `pause` from `start` to `end`.
fn passed(bucket: &Kept, bytes: u32, pause: u64, start: u64, end: u64) -> u64 {
    let times = (start..end).step_by(usize::try_from(pause).unwrap());
    let passed = times.filter(|now| passes(bucket, bytes, *now)).count();
    passed as u64 * u64::from(bytes)
}

#[test]
fn the_rate_passes_and_no_more_at_any_rate_and_size() {
    for rate in [8_000, 1_000_000, 10_000_000, 1_000_000_000, 100_000_000_000] {
        for bytes in [64, 1_514, 65_550] {
            let burst = 8 * 65_550;
            let bucket = Kept::new(rate, burst);
            // Three times as much as may pass, for as long as 3 000 packets take.
            let each = u64::from(bytes) * 8 * SECOND / rate;
            let end = each * 3_000;
            let passed = passed(
                &bucket,
                bytes,
                (each / 3).max(1),
                5 * SECOND,
                5 * SECOND + end,
            );
            let asked = u64::from(bytes) * 3_000;
            let most = asked + burst / 8 + u64::from(bytes);
            assert!(passed <= most, "{passed} of {asked} at {rate}");
            assert!(
                passed >= asked - asked / 50,
                "{passed} of {asked} at {rate}"
            );
        }
    }
}

#[test]
fn a_burst_passes_at_once_and_again_after_a_pause_that_fills_the_bucket() {
    // A thousand bytes a second, ten at once.
    let bucket = Kept::new(8_000, 8 * 10_000);
    let at_once = |now| (0..100).filter(|_| passes(&bucket, 1_000, now)).count();
    assert_eq!(at_once(SECOND), 10);
    assert_eq!(at_once(SECOND), 0);
    assert_eq!(at_once(3 * SECOND), 2);
    // However long it lasts, no more than the bucket holds.
    assert_eq!(at_once(1_000 * SECOND), 10);
}

#[test]
fn a_packet_larger_than_the_bucket_passes_now_and_then_at_the_rate() {
    let bucket = Kept::new(8_000_000, 8 * 1_000);
    let passed = passed(&bucket, 50_000, 1_000_000, SECOND, 11 * SECOND);
    assert!((9_900_000..=10_100_000).contains(&passed), "{passed}");
}

#[test]
fn without_a_rate_everything_passes() {
    let bucket = Kept::new(0, 0);
    assert!((0..1_000).all(|_| passes(&bucket, 65_550, 1)));
    assert_eq!(bucket.0.get().full, 0);
}

#[test]
fn numbers_at_their_ends_are_no_fault() {
    for rate in [1, 1_000, u64::MAX] {
        for burst in [0, 1, u64::from(u32::MAX), u64::MAX] {
            let bucket = Kept::new(rate, burst);
            for now in [0, 1, u64::MAX >> 5] {
                passes(&bucket, 0, now);
                passes(&bucket, 1 << 20, now);
            }
        }
    }
}

#[test]
fn the_headers_of_each_segment_count() {
    for (from, to, network) in [("10.0.0.1", "10.0.0.2", 20), ("fd00::1", "fd00::2", 40)] {
        let content = std::vec![7; 10_000];
        for (frame, transport) in [
            (frames::tcp((from, 1), (to, 2), frames::ACK, &content), 20),
            (frames::udp((from, 1), (to, 2), &content), 8),
        ] {
            let bytes = RefCell::new(frame.clone());
            let of = |content| length(Frame(&bytes), content);
            let whole = frame.len() as u32;
            assert_eq!(of(0), whole);
            // Ten frames, of which nine bring their own headers.
            assert_eq!(of(1_000), whole + 9 * (14 + network + transport));
            assert_eq!(of(1_001), whole + 9 * (14 + network + transport));
            assert_eq!(of(20_000), whole);
        }
    }
    let other = RefCell::new(Vec::from([0; 60]));
    assert_eq!(length(Frame(&other), 10), 60);
}
