//! `shutdownGracePeriod…`: how long pods get when the machine shuts down.

use node_agent_objects::pod::CRITICAL_PRIORITY;
use serde::Deserialize;

use super::Error;
use super::units::time;

/// Pods of this priority and above, up to the next, get so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownPeriod {
    /// The lowest priority.
    pub priority: i32,
    /// How long.
    #[serde(rename = "shutdownGracePeriodSeconds")]
    pub seconds: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ShutdownFile {
    shutdown_grace_period: Option<String>,
    shutdown_grace_period_critical_pods: Option<String>,
    shutdown_grace_period_by_pod_priority: Vec<ShutdownPeriod>,
}

/// The periods, lowest priority first. Two durations are short for two
/// priorities: the critical pods' is the last part of the whole.
pub(super) fn periods(file: ShutdownFile) -> Result<Vec<ShutdownPeriod>, Error> {
    let wrong = |field, value: Option<String>, why| {
        Err(Error::Value {
            field,
            value: value.unwrap_or_default(),
            why,
        })
    };
    let (whole, critical) = (
        file.shutdown_grace_period,
        file.shutdown_grace_period_critical_pods,
    );
    let total = time("shutdownGracePeriod", whole.clone(), 0)?;
    let last = time("shutdownGracePeriodCriticalPods", critical.clone(), 0)?;
    for (field, value, length) in [
        ("shutdownGracePeriod", &whole, total),
        ("shutdownGracePeriodCriticalPods", &critical, last),
    ] {
        if !length.is_zero() && length.as_secs() == 0 {
            return wrong(field, value.clone(), "is neither 0 nor a second or more");
        }
    }
    if last > total {
        let field = "shutdownGracePeriodCriticalPods";
        return wrong(field, critical, "is longer than shutdownGracePeriod");
    }
    let mut all = file.shutdown_grace_period_by_pod_priority;
    if !all.is_empty() {
        if !total.is_zero() {
            let field = "shutdownGracePeriodByPodPriority";
            return wrong(field, whole, "cannot be beside shutdownGracePeriod");
        }
        all.sort_by_key(|period| period.priority);
        return Ok(all);
    }
    if total.is_zero() {
        return Ok(all);
    }
    let seconds = |length: std::time::Duration| u32::try_from(length.as_secs()).unwrap_or(u32::MAX);
    Ok(vec![
        ShutdownPeriod {
            priority: 0,
            seconds: seconds(total.saturating_sub(last)),
        },
        ShutdownPeriod {
            priority: CRITICAL_PRIORITY,
            seconds: seconds(last),
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(i32, u32)>, String> {
        let file: ShutdownFile = serde_saphyr::from_str(text).unwrap();
        let all = periods(file).map_err(|e| e.to_string())?;
        Ok(all.into_iter().map(|p| (p.priority, p.seconds)).collect())
    }

    #[test]
    fn two_durations_are_two_priorities() {
        assert_eq!(parse("{}"), Ok(vec![]));
        assert_eq!(
            parse("shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n"),
            Ok(vec![(0, 20), (CRITICAL_PRIORITY, 10)])
        );
        assert_eq!(
            parse(
                "shutdownGracePeriodByPodPriority: [{priority: 9, shutdownGracePeriodSeconds: 3}, {priority: -1, shutdownGracePeriodSeconds: 5}]"
            ),
            Ok(vec![(-1, 5), (9, 3)])
        );
    }

    #[test]
    fn periods_that_contradict_each_other_are_refused() {
        let cases = [
            ("shutdownGracePeriod: 500ms", "neither 0"),
            (
                "shutdownGracePeriod: 5s\nshutdownGracePeriodCriticalPods: 6s",
                "longer",
            ),
            (
                "shutdownGracePeriod: 5s\nshutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 3}]",
                "beside",
            ),
        ];
        for (text, why) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
