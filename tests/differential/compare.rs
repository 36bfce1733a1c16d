//! In what two decisions about a pod differ.

use std::collections::BTreeSet;
use std::fmt;

use crate::ours::Judgement;
use crate::stock::{Attempt, Verdict};

/// One thing in which decisions differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub what: Aspect,
    /// What stock says, or what is expected of ours.
    pub stock: String,
    /// What ours says.
    pub ours: String,
}

/// What may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// Nodes that pass all filters.
    Feasible,
    /// The message of the condition `PodScheduled`.
    Message,
    /// Scores of nodes.
    Scores,
    /// The node, which must be one of the best.
    Choice,
    /// The node on which room is made, or the pods that go.
    Preemption,
    /// Our own decision on a snapshot that was kept up to date.
    Drift,
    /// What our scheduler wrote, and what its library decides.
    Loop,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Aspect::Feasible => "feasible nodes",
            Aspect::Message => "message",
            Aspect::Scores => "scores",
            Aspect::Choice => "choice",
            Aspect::Preemption => "preemption",
            Aspect::Drift => "kept snapshot",
            Aspect::Loop => "through the API",
        };
        let (one, other) = match self.what {
            Aspect::Drift => ("fresh", "kept"),
            Aspect::Loop => ("library", "written"),
            _ => ("stock", "ours"),
        };
        write!(
            f,
            "{what}\n    {one}: {}\n    {other}: {}",
            self.stock, self.ours
        )
    }
}

/// In what the decisions differ; nothing when they agree.
pub fn differences(stock: &Attempt, ours: &Judgement) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut differ = |what, stock: String, ours: String| {
        all.push(Difference { what, stock, ours });
    };
    match &stock.verdict {
        Verdict::Bound(node) => {
            let feasible: BTreeSet<&String> = match stock.feasible {
                // One node is taken without a look at its score.
                Some(1) => [node].into(),
                _ => stock.scores.keys().collect(),
            };
            let fitting: BTreeSet<&String> = ours.scores.keys().collect();
            if feasible != fitting {
                let why: Vec<String> = feasible
                    .difference(&fitting)
                    .filter_map(|it| Some(format!("{it}: {}", ours.rejections.get(*it)?)))
                    .collect();
                let why = match why.as_slice() {
                    [] => String::new(),
                    some => format!(" ({})", some.join("; ")),
                };
                differ(
                    Aspect::Feasible,
                    format!("{feasible:?}"),
                    format!("{fitting:?}{why}"),
                );
            } else if feasible.len() > 1 && stock.scores != ours.scores {
                let (theirs, own) = scores(stock, ours);
                differ(Aspect::Scores, theirs, own);
            } else if !ours.best.contains(node) {
                differ(Aspect::Choice, node.clone(), format!("{:?}", ours.best));
            }
        }
        Verdict::Unschedulable {
            reason,
            message,
            nominated,
        } => {
            let own = ours
                .message
                .clone()
                .unwrap_or_else(|| format!("fits {:?}", ours.scores.keys().collect::<Vec<_>>()));
            let own_reason = ours.reason();
            if reason != own_reason {
                let own = format!("{own_reason}: {own}");
                differ(Aspect::Message, format!("{reason}: {message}"), own);
            } else if *message != own {
                differ(Aspect::Message, message.clone(), own);
            }
            let agrees = match nominated {
                None => ours.preemptions.is_empty(),
                Some((node, victims)) => ours.preemptions.get(node) == Some(victims),
            };
            if !agrees {
                differ(
                    Aspect::Preemption,
                    format!("{nominated:?}"),
                    format!("one of {:?}", ours.preemptions),
                );
            }
        }
    }
    if let Some(drift) = &ours.drift {
        let fresh = match &ours.message {
            Some(message) => message.clone(),
            None => format!("best nodes {:?}", ours.best),
        };
        differ(Aspect::Drift, fresh, drift.clone());
    }
    all
}

/// Scores of the nodes on which they differ, by the plugins on which they differ.
fn scores(stock: &Attempt, ours: &Judgement) -> (String, String) {
    let (mut theirs, mut own) = (Vec::new(), Vec::new());
    for (node, score) in &stock.scores {
        let other = ours.scores.get(node).copied().unwrap_or(0);
        if *score == other {
            continue;
        }
        let (mut of_stock, mut of_ours) = (Vec::new(), Vec::new());
        let stock_plugins = stock.plugins.get(node).cloned().unwrap_or_default();
        let our_plugins = ours.plugins.get(node).cloned().unwrap_or_default();
        let names: BTreeSet<&String> = stock_plugins.keys().chain(our_plugins.keys()).collect();
        for name in names {
            let one = stock_plugins.get(name).copied().unwrap_or(0);
            let two = our_plugins.get(name).copied().unwrap_or(0);
            if one != two {
                of_stock.push(format!("{name} {one}"));
                of_ours.push(format!("{name} {two}"));
            }
        }
        theirs.push(format!("{node} {score} ({})", of_stock.join(", ")));
        own.push(format!("{node} {other} ({})", of_ours.join(", ")));
    }
    (theirs.join(", "), own.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(node: &str, scores: &[(&str, i64)]) -> Attempt {
        Attempt {
            verdict: Verdict::Bound(node.to_owned()),
            feasible: Some(scores.len().max(1)),
            scores: scores
                .iter()
                .map(|(it, score)| ((*it).to_owned(), *score))
                .collect(),
            plugins: Default::default(),
        }
    }

    fn fits(scores: &[(&str, i64)], best: &[&str]) -> Judgement {
        Judgement {
            scores: scores
                .iter()
                .map(|(it, score)| ((*it).to_owned(), *score))
                .collect(),
            best: best.iter().map(|it| (*it).to_owned()).collect(),
            ..Judgement::default()
        }
    }

    fn what(stock: &Attempt, ours: &Judgement) -> Vec<Aspect> {
        differences(stock, ours).iter().map(|it| it.what).collect()
    }

    #[test]
    fn any_of_the_best_nodes_may_be_chosen_and_no_other() {
        let scores = [("a", 5), ("b", 5), ("c", 1)];
        let ours = fits(&scores, &["a", "b"]);
        assert_eq!(what(&bound("b", &scores), &ours), []);
        assert_eq!(what(&bound("c", &scores), &ours), [Aspect::Choice]);
        let other = fits(&[("a", 5), ("b", 4), ("c", 1)], &["a"]);
        assert_eq!(what(&bound("a", &scores), &other), [Aspect::Scores]);
        let fewer = fits(&scores[..2], &["a", "b"]);
        assert_eq!(what(&bound("a", &scores), &fewer), [Aspect::Feasible]);
    }

    #[test]
    fn the_only_node_that_fits_has_no_score() {
        assert_eq!(what(&bound("a", &[]), &fits(&[("a", 7)], &["a"])), []);
    }

    #[test]
    fn the_node_that_is_emptied_and_the_pods_that_go_must_be_among_ours() {
        let victims = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let stock = |nominated: Option<&str>| Attempt {
            verdict: Verdict::Unschedulable {
                reason: "Unschedulable".to_owned(),
                message: "0/1 nodes are available: 1 x.".to_owned(),
                nominated: nominated.map(|it| (it.to_owned(), victims(&["red/v"]))),
            },
            ..bound("", &[])
        };
        let mut ours = Judgement {
            message: Some("0/1 nodes are available: 1 x.".to_owned()),
            ..Judgement::default()
        };
        assert_eq!(what(&stock(None), &ours), []);
        assert_eq!(what(&stock(Some("n")), &ours), [Aspect::Preemption]);
        ours.preemptions.insert("n".to_owned(), victims(&["red/v"]));
        assert_eq!(what(&stock(Some("n")), &ours), []);
        assert_eq!(what(&stock(Some("m")), &ours), [Aspect::Preemption]);
        ours.message = Some("0/1 nodes are available: 1 y.".to_owned());
        assert_eq!(what(&stock(Some("n")), &ours), [Aspect::Message]);
    }

    #[test]
    fn a_decision_that_fails_fails_for_both() {
        let stock = |reason: &str| Attempt {
            verdict: Verdict::Unschedulable {
                reason: reason.to_owned(),
                message: "running a plugin: no".to_owned(),
                nominated: None,
            },
            ..bound("", &[])
        };
        let mut ours = Judgement {
            message: Some("running a plugin: no".to_owned()),
            failed: true,
            ..Judgement::default()
        };
        assert_eq!(what(&stock("SchedulerError"), &ours), []);
        assert_eq!(what(&stock("Unschedulable"), &ours), [Aspect::Message]);
        ours.failed = false;
        assert_eq!(what(&stock("SchedulerError"), &ours), [Aspect::Message]);
    }
}
