//! Shuffle sharding: which queues a flow may wait in.

use sha2::{Digest as _, Sha256};

/// How much of a hash may be used up: with more, the last card is dealt unevenly.
const BITS: f64 = 60.0;
/// No hand is larger than the bits allow of the smallest deck.
const LARGEST_HAND: usize = 60;

/// Deals hands of queues to flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dealer {
    deck: usize,
    hand: usize,
}

// === impl Dealer ===

impl Dealer {
    /// Returns a dealer of `hand` cards out of `deck`; `None` if there are not enough
    /// cards, or if a hash of 64 bits cannot distinguish all hands evenly.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "decks are at most 2^26")]
    pub fn new(deck: usize, hand: usize) -> Option<Self> {
        let fits = hand > 0
            && hand <= deck
            && hand <= LARGEST_HAND
            && deck <= 1 << 26
            && ((deck as f64).log2() * hand as f64).ceil() <= BITS;
        fits.then_some(Self { deck, hand })
    }

    /// How many cards there are.
    #[must_use]
    pub fn deck(&self) -> usize {
        self.deck
    }

    /// How many cards a hand has.
    #[must_use]
    pub fn hand(&self) -> usize {
        self.hand
    }

    /// Deals the hand of a flow, all cards different, into `cards`.
    pub fn deal<'a>(&self, hash: u64, cards: &'a mut [usize; LARGEST_HAND]) -> &'a [usize] {
        let mut left = hash;
        let mut rest = [0_usize; LARGEST_HAND];
        for (at, rest) in rest.iter_mut().enumerate().take(self.hand) {
            let size = (self.deck - at) as u64;
            *rest = usize::try_from(left % size).unwrap_or_default();
            left /= size;
        }
        // A number says the how-manieth of the cards not yet dealt it is.
        for at in 0..self.hand {
            let mut card = rest[at];
            for earlier in rest[..at].iter().rev() {
                if card >= *earlier {
                    card += 1;
                }
            }
            cards[at] = card;
        }
        &cards[..self.hand]
    }

    /// Room for any hand.
    #[must_use]
    pub fn table() -> [usize; LARGEST_HAND] {
        [0; LARGEST_HAND]
    }
}

/// The hash of a flow: of the schema that a request matched and of what tells
/// flows of that schema apart.
#[must_use]
pub fn flow_hash(schema: &str, distinguisher: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(schema.as_bytes());
    hash.update([0]);
    hash.update(distinguisher.as_bytes());
    let sum = hash.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&sum[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn every_hand_of_a_small_deck_is_dealt_equally_often() {
        let dealer = Dealer::new(5, 3).expect("fits");
        let mut dealt: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for hash in 0..5 * 4 * 3 {
            let mut table = Dealer::table();
            *dealt
                .entry(dealer.deal(hash, &mut table).to_vec())
                .or_default() += 1;
        }
        assert_eq!(dealt.len(), 60);
        assert!(dealt.values().all(|&often| often == 1));
        for hand in dealt.keys() {
            let cards: BTreeSet<_> = hand.iter().collect();
            assert_eq!(cards.len(), 3, "{hand:?}");
            assert!(hand.iter().all(|&card| card < 5), "{hand:?}");
        }
    }

    #[test]
    fn a_hand_is_what_drawing_card_by_card_gives() {
        let dealer = Dealer::new(128, 6).expect("fits");
        let mut table = Dealer::table();
        let hand = dealer.deal(0x1234_5678_9abc_def0, &mut table);
        let mut expected = Vec::new();
        let mut left = 0x1234_5678_9abc_def0_u64;
        let mut deck: Vec<usize> = (0..128).collect();
        for _ in 0..6 {
            let size = deck.len() as u64;
            expected.push(deck.remove(usize::try_from(left % size).expect("small")));
            left /= size;
        }
        assert_eq!(hand, expected);
    }

    #[test]
    fn a_deck_that_a_hash_cannot_shuffle_has_no_dealer() {
        assert!(Dealer::new(128, 8).is_some());
        assert!(Dealer::new(128, 9).is_none());
        assert!(Dealer::new(4, 5).is_none());
        assert!(Dealer::new(0, 0).is_none());
    }

    #[test]
    fn flows_of_different_schemas_have_different_hashes() {
        assert_ne!(flow_hash("a", "b"), flow_hash("ab", ""));
        assert_eq!(flow_hash("a", "b"), flow_hash("a", "b"));
    }
}
