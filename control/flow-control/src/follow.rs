//! The levels and schemas of the cluster, followed as they change, and the lending
//! of seats every ten seconds.

use std::sync::Arc;
use std::time::Duration;

use control_fairness::{FlowSchema, LevelSpec, distribute, flow_hash, limits};
use control_types::value::Value;
use http::HeaderValue;
use tokio_util::sync::CancellationToken;

use crate::fairness::{Fairness, Rules, Schema};
use crate::level::Level;
use crate::mandatory::{self, GROUP, LEVELS, SCHEMAS};

/// The level and schema of what no other schema matches.
pub(super) const CATCH_ALL: &str = "catch-all";
/// The level and schema of what never waits.
const EXEMPT: &str = "exempt";
/// How often seats are lent anew.
const LENDING: Duration = Duration::from_secs(10);
/// Changes that come together are looked at once.
const SETTLE: Duration = Duration::from_millis(20);

/// The rules of a cluster without any.
pub(super) fn mandatory(seats: usize) -> Rules {
    digest(seats, &[], &[], &[])
}

/// Takes the rules that there are before it returns, and follows them from there.
pub fn follow(
    fairness: &Arc<Fairness>,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let mut wakes: Vec<_> = [LEVELS, SCHEMAS]
        .into_iter()
        .filter_map(|plural| {
            let served = fairness.storage.resource(GROUP, plural).ok()?;
            Some(served.cache.as_ref()?.wake())
        })
        .collect();
    update(fairness);
    let fairness = Arc::clone(fairness);
    async move {
        let mut lending = tokio::time::interval(LENDING);
        lending.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        lending.tick().await;
        loop {
            let changed = async {
                if wakes.is_empty() {
                    return std::future::pending().await;
                }
                let all = wakes.iter_mut().map(|wake| Box::pin(wake.changed()));
                let _ = futures::future::select_all(all).await;
            };
            tokio::select! {
                () = shutdown.cancelled() => break,
                _ = lending.tick() => lend(&fairness.rules.load().levels),
                () = changed => {
                    tokio::time::sleep(SETTLE).await;
                    for wake in &mut wakes {
                        wake.mark_unchanged();
                    }
                    update(&fairness);
                }
            }
        }
    }
}

fn update(fairness: &Fairness) {
    let all = |plural| {
        let served = fairness.storage.resource(GROUP, plural).ok()?;
        let cache = served.cache.as_ref()?;
        let objects = cache.state();
        let objects = objects.objects.iter();
        Some(objects.filter_map(|object| object.value().ok()).collect())
    };
    let levels: Vec<Value> = all(LEVELS).unwrap_or_default();
    let schemas: Vec<Value> = all(SCHEMAS).unwrap_or_default();
    let known = fairness.rules.load_full();
    let rules = digest(fairness.seats, &levels, &schemas, &known.levels);
    fairness.rules.store(Arc::new(rules));
}

/// Makes rules of objects. Levels that were known go on with their queues; those
/// that nobody wants any more stay until they are idle. What cannot be read is left
/// out, and what every cluster needs is there in any case.
fn digest(seats: usize, levels: &[Value], schemas: &[Value], known: &[Arc<Level>]) -> Rules {
    let mut specs: Vec<LevelSpec> = levels
        .iter()
        .filter_map(|level| read(LevelSpec::read(level)))
        .collect();
    for object in mandatory::objects("priorityLevels") {
        if let Some(spec) = read(LevelSpec::read(&object))
            && !specs.iter().any(|other| other.name == spec.name)
        {
            specs.push(spec);
        }
    }
    let mut all: Vec<(Arc<Level>, bool)> = Vec::with_capacity(specs.len());
    for spec in specs {
        let old = known
            .iter()
            .find(|level| level.spec.load().name == spec.name);
        match old {
            Some(level) => {
                level.spec.store(Arc::new(spec));
                level.share().leaves = false;
                all.push((Arc::clone(level), false));
            }
            None => all.push((Arc::new(Level::new(spec)), true)),
        }
    }
    let named = all.len();
    for level in known {
        let is_named = all.iter().any(|(other, _)| Arc::ptr_eq(other, level));
        if !is_named && !level.lock().is_idle() {
            level.share().leaves = true;
            all.push((Arc::clone(level), false));
        }
    }
    let specs: Vec<_> = all
        .iter()
        .map(|(level, _)| level.spec.load_full())
        .collect();
    let specs: Vec<&LevelSpec> = specs.iter().map(|spec| &**spec).collect();
    for ((level, is_new), limits) in all.iter().zip(limits(seats, &specs)) {
        level.configure(limits, *is_new);
    }
    let levels: Vec<Arc<Level>> = all.into_iter().map(|(level, _)| level).collect();
    lend(&levels);

    let mut found: Vec<FlowSchema> = schemas
        .iter()
        .filter_map(|schema| read(FlowSchema::read(schema)))
        .collect();
    let exists = |schema: &FlowSchema| {
        let mut names = levels[..named].iter().map(|level| level.spec.load_full());
        names.any(|spec| spec.name == schema.level)
    };
    found.retain(exists);
    found.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
    for object in mandatory::objects("flowSchemas") {
        let Some(schema) = read(FlowSchema::read(&object)) else {
            continue;
        };
        if found.iter().any(|other| other.name == schema.name) {
            continue;
        }
        if schema.name == EXEMPT {
            found.insert(0, schema);
        } else {
            found.push(schema);
        }
    }
    let schemas = found
        .into_iter()
        .filter_map(|schema| {
            let level = levels[..named]
                .iter()
                .find(|level| level.spec.load().name == schema.level)?;
            let slot = level.lock().slot(&schema.name);
            let text =
                |uid: &str| HeaderValue::from_str(uid).unwrap_or(HeaderValue::from_static(""));
            Some(Schema {
                uids: (text(&schema.uid), text(&level.spec.load().uid)),
                hash: flow_hash(&schema.name, ""),
                level: Arc::clone(level),
                slot,
                schema,
            })
        })
        .collect();
    Rules { schemas, levels }
}

fn read<T>(result: Result<T, control_fairness::SpecError>) -> Option<T> {
    result
        .inspect_err(|error| tracing::warn!(%error, "left out of priority and fairness"))
        .ok()
}

/// Shares the seats out anew, by what levels demanded.
fn lend(levels: &[Arc<Level>]) {
    let claims: Vec<_> = levels.iter().map(|level| level.claim()).collect();
    let shared = distribute(&claims);
    for (level, (seats, target)) in levels.iter().zip(shared.levels) {
        level.assign(seats, target, shared.fair);
    }
}

#[cfg(test)]
mod tests {
    use control_fairness::Distinguisher;
    use control_types::value;

    use super::*;

    fn level(name: &str, shares: i64) -> Value {
        value!({
            "metadata": {"name": name, "uid": (format!("uid-{name}"))},
            "spec": {"type": "Limited", "limited": {
                "nominalConcurrencyShares": shares,
                "limitResponse": {"type": "Queue", "queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 5}}
            }}
        })
    }

    fn schema(name: &str, level: &str, precedence: i64) -> Value {
        value!({
            "metadata": {"name": name},
            "spec": {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}, "rules": []}
        })
    }

    fn names(rules: &Rules) -> Vec<&str> {
        rules.schemas.iter().map(|one| &*one.schema.name).collect()
    }

    #[test]
    fn what_every_cluster_needs_is_there_without_objects() {
        let rules = mandatory(600);
        assert_eq!(names(&rules), ["exempt", "catch-all"]);
        let all = rules
            .levels
            .iter()
            .find(|level| !level.is_exempt())
            .expect("one");
        assert_eq!(all.lock().limit(), 600);
    }

    #[test]
    fn schemas_are_tried_by_precedence_then_name_and_never_dangle() {
        let rules = digest(
            100,
            &[level("a", 10), level("b", 30)],
            &[
                schema("z", "a", 5),
                schema("y", "b", 5),
                schema("x", "gone", 1),
                schema("w", "a", 9),
            ],
            &[],
        );
        assert_eq!(names(&rules), ["exempt", "y", "z", "w", "catch-all"]);
        let nominal = |name: &str| {
            let level = rules
                .levels
                .iter()
                .find(|level| level.spec.load().name == name);
            level.expect("there").share().limits.nominal
        };
        // 5 shares are those of the level for all.
        assert_eq!(
            (nominal("a"), nominal("b"), nominal(CATCH_ALL)),
            (23, 67, 12)
        );
    }

    #[test]
    fn levels_keep_their_queues_when_they_change_and_go_when_idle() {
        let first = digest(100, &[level("a", 10)], &[schema("s", "a", 5)], &[]);
        let again = digest(
            100,
            &[level("a", 20)],
            &[schema("s", "a", 5)],
            &first.levels,
        );
        let find = |rules: &Rules| {
            let mut levels = rules.levels.iter();
            levels.find(|level| level.spec.load().name == "a").cloned()
        };
        let (before, after) = (find(&first).expect("there"), find(&again).expect("there"));
        assert!(Arc::ptr_eq(&before, &after));
        assert_eq!(after.spec.load().shares, 20);
        let without = digest(100, &[], &[], &again.levels);
        assert!(find(&without).is_none());
    }

    #[test]
    fn an_object_that_cannot_be_read_is_left_out() {
        let broken = value!({"metadata": {"name": "a"}, "spec": {"type": "Limited"}});
        let rules = digest(100, &[broken], &[schema("s", "a", 5)], &[]);
        assert_eq!(names(&rules), ["exempt", "catch-all"]);
        assert_eq!(rules.schemas[0].schema.distinguisher, Distinguisher::None);
    }
}
