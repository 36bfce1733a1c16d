//! How the server's seats are divided among levels, and lent.

use crate::{Demand, LevelSpec};

/// A demand below this counts as this: shares are in proportion to demands.
const LEAST_DEMAND: f64 = 0.001;
/// Sums that differ by less are equal.
const EPSILON: f64 = 1e-7;

/// How many seats a level may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The seats without borrowing.
    pub nominal: usize,
    /// When it has lent all that it lends.
    pub least: usize,
    /// When it has borrowed all that it borrows.
    pub most: usize,
}

/// The input of a level.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Whether its requests never wait.
    pub exempt: bool,
    /// How many seats it may have.
    pub limits: Limits,
    /// Its demand.
    pub demand: Demand,
    /// How many it has now.
    pub current: usize,
}

/// How the seats are shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelShares {
    /// Each level's seats and its target.
    pub levels: Vec<(usize, f64)>,
    /// The part of what levels aimed at that those got whom no limit stopped.
    pub fair: f64,
}

/// Divides the server's seats among levels in proportion to their shares.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "numbers of seats"
)]
pub fn limits(server: usize, levels: &[&LevelSpec]) -> Vec<Limits> {
    let sum: f64 = levels.iter().map(|level| f64::from(level.shares)).sum();
    let one = |level: &&LevelSpec| {
        let part = if sum > 0.0 {
            server as f64 * f64::from(level.shares) / sum
        } else {
            0.0
        };
        let nominal = part.ceil();
        let lent = (nominal * f64::from(level.lendable) / 100.0).round();
        let borrowed = level.borrowing.map_or(server as f64, |percent| {
            (nominal * f64::from(percent) / 100.0).round()
        });
        Limits {
            nominal: nominal as usize,
            least: (nominal - lent) as usize,
            most: (nominal + borrowed) as usize,
        }
    };
    levels.iter().map(one).collect()
}

/// Says how many seats each level has until the next time.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "numbers of seats"
)]
pub fn distribute(claims: &[Claim]) -> LevelShares {
    let all: usize = claims.iter().map(|claim| claim.limits.nominal).sum();
    // A level keeps what it used lately, up to its own seats.
    let kept = |claim: &Claim| {
        let used = claim.demand.most;
        if claim.exempt {
            claim.limits.least.max(used)
        } else {
            claim.limits.least.max(used.min(claim.limits.nominal))
        }
    };
    let limited = || claims.iter().filter(|claim| !claim.exempt);
    let exempt: usize = claims.iter().filter(|claim| claim.exempt).map(kept).sum();
    let least: usize = limited().map(|claim| claim.limits.least).sum();
    let wanted: usize = limited().map(kept).sum();
    let target = |claim: &Claim| (kept(claim) as f64).max(claim.demand.smoothed);
    let bounds: Vec<SeatBound> = limited()
        .map(|claim| SeatBound {
            target: target(claim),
            low: kept(claim) as f64,
            high: (claim.limits.most as f64).max(kept(claim) as f64),
        })
        .collect();
    let mut fair = 0.0;
    let part;
    let mut shares = None;
    if all <= exempt + least {
        part = 0.0;
    } else if all <= exempt + wanted {
        part = (all - exempt - least) as f64 / (wanted - least) as f64;
    } else {
        part = 1.0;
        if let Some((found, fraction)) = proportional(all as f64, &bounds) {
            shares = Some(found);
            fair = fraction;
        }
    }
    let mut shares = shares.map(Vec::into_iter);
    let levels = claims
        .iter()
        .map(|claim| {
            if claim.exempt {
                return (kept(claim), target(claim));
            }
            let seats = match &mut shares {
                Some(shares) => shares.next().unwrap_or_default().round() as usize,
                None if part >= 1.0 => claim.current,
                None => {
                    let more = (kept(claim) - claim.limits.least) as f64 * part;
                    claim.limits.least + more.round() as usize
                }
            };
            (seats, target(claim))
        })
        .collect();
    LevelShares { levels, fair }
}

/// One level in [`proportional`].
#[derive(Clone, Copy, Debug)]
struct SeatBound {
    target: f64,
    low: f64,
    high: f64,
}

/// Parts of `sum` in proportion to targets within bounds, and the proportion;
/// `None` when the bounds leave no way.
fn proportional(sum: f64, bounds: &[SeatBound]) -> Option<(Vec<f64>, f64)> {
    let target = |bound: &SeatBound| bound.target.max(LEAST_DEMAND);
    let low: f64 = bounds.iter().map(|bound| bound.low).sum();
    let high: f64 = bounds.iter().map(|bound| bound.high).sum();
    if bounds.is_empty() || low > sum + EPSILON || high < sum - EPSILON {
        return None;
    }
    let at = |fraction: f64| {
        bounds
            .iter()
            .map(move |bound| (target(bound) * fraction).clamp(bound.low, bound.high))
    };
    // The sum of the parts rises with the proportion, in straight lines between
    // those where some level meets a bound.
    let mut bends: Vec<f64> = bounds
        .iter()
        .flat_map(|bound| [bound.low / target(bound), bound.high / target(bound)])
        .collect();
    bends.sort_by(f64::total_cmp);
    let mut below = (bends[0], at(bends[0]).sum::<f64>());
    for &bend in &bends {
        let here = at(bend).sum::<f64>();
        if here >= sum {
            let rise = here - below.1;
            let fraction = if rise > 0.0 {
                below.0 + (bend - below.0) * (sum - below.1) / rise
            } else {
                bend
            };
            return Some((at(fraction).collect(), fraction));
        }
        below = (bend, here);
    }
    Some((at(below.0).collect(), below.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Discipline, QueueingSettings};

    fn level(name: &str, shares: u32, lendable: u32) -> LevelSpec {
        LevelSpec {
            name: name.to_owned(),
            uid: String::new(),
            shares,
            lendable,
            borrowing: None,
            discipline: Discipline::Queue(QueueingSettings {
                queues: 64,
                hand: 6,
                length: 50,
            }),
        }
    }

    /// The levels that every cluster has, but the exempt one.
    fn usual() -> Vec<LevelSpec> {
        [
            ("catch-all", 5, 0),
            ("global-default", 20, 50),
            ("leader-election", 10, 0),
            ("node-high", 40, 25),
            ("system", 30, 33),
            ("workload-high", 40, 50),
            ("workload-low", 100, 90),
        ]
        .map(|(name, shares, lendable)| level(name, shares, lendable))
        .into()
    }

    fn claims(demands: &[usize]) -> Vec<Claim> {
        let levels = usual();
        let levels: Vec<_> = levels.iter().collect();
        limits(600, &levels)
            .into_iter()
            .zip(demands)
            .map(|(limits, &most)| Claim {
                exempt: false,
                limits,
                demand: Demand {
                    most,
                    smoothed: f64::from(u32::try_from(most).expect("small")),
                    ..Demand::default()
                },
                current: limits.nominal,
            })
            .collect()
    }

    #[test]
    fn nominal_seats_of_the_usual_levels_are_those_of_kube_apiserver() {
        // As its metric nominal_limit_seats shows with 600 seats, rounded up.
        let levels = usual();
        let levels: Vec<_> = levels.iter().collect();
        let nominal: Vec<_> = limits(600, &levels)
            .iter()
            .map(|limits| limits.nominal)
            .collect();
        assert_eq!(nominal, [13, 49, 25, 98, 74, 98, 245]);
        let least: Vec<_> = limits(600, &levels)
            .iter()
            .map(|limits| limits.least)
            .collect();
        assert_eq!(least, [13, 24, 25, 73, 50, 49, 24]);
    }

    #[test]
    fn idle_levels_lend_to_a_busy_one() {
        let idle = distribute(&claims(&[0; 7]));
        let busy = distribute(&claims(&[0, 0, 0, 0, 0, 500, 0]));
        assert!(busy.levels[5].0 > idle.levels[5].0);
        assert!(busy.levels[5].0 > 300, "{busy:?}");
        for (shared, claim) in busy.levels.iter().zip(claims(&[0; 7])) {
            assert!(shared.0 >= claim.limits.least);
        }
    }

    #[test]
    fn what_a_level_uses_of_its_own_is_not_lent() {
        let shared = distribute(&claims(&[0, 0, 0, 98, 0, 0, 600]));
        assert!(shared.levels[3].0 >= 98, "{shared:?}");
    }

    #[test]
    fn exempt_requests_take_from_the_others_down_to_what_they_do_not_lend() {
        let mut all = claims(&[13, 49, 25, 98, 74, 98, 245]);
        all.push(Claim {
            exempt: true,
            limits: Limits::default(),
            demand: Demand {
                most: 10_000,
                ..Demand::default()
            },
            current: 0,
        });
        let shared = distribute(&all);
        for (shared, claim) in shared.levels.iter().zip(&all[..7]) {
            assert_eq!(shared.0, claim.limits.least);
        }
        assert_eq!(shared.levels[7].0, 10_000);
    }

    proptest! {
        #[test]
        fn seats_stay_within_limits_and_none_is_lost(
            demands in proptest::collection::vec(0_usize..1000, 7)
        ) {
            let claims = claims(&demands);
            let all: usize = claims.iter().map(|claim| claim.limits.nominal).sum();
            let shared = distribute(&claims);
            let given: usize = shared.levels.iter().map(|(seats, _)| seats).sum();
            // Each is rounded on its own.
            prop_assert!(given.abs_diff(all) <= claims.len(), "{shared:?}");
            for ((seats, _), claim) in shared.levels.iter().zip(&claims) {
                prop_assert!(*seats >= claim.limits.least && *seats <= claim.limits.most);
            }
        }
    }
}
