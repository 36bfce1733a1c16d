//! What a node does on its way from kube-proxy to these programs, and back. Pure.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// The label of a Node that says who is to serve Services on it. kube-proxy's DaemonSet
/// leaves out nodes with the value `replaced`.
pub const LABEL: &str = "orlop.dev/kube-proxy";
/// The condition of a Node that says who does.
pub const CONDITION: &str = "KubeProxyReplaced";

/// Which component is to serve Services on the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceProxyChoice {
    /// These programs; kube-proxy may run beside them.
    #[default]
    Beside,
    /// These programs alone: kube-proxy's rules go.
    Replaced,
    /// kube-proxy: these programs serve the connections that they know, and no other.
    Restored,
}

/// The reason of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeoverReason {
    /// The programs serve, whether or not kube-proxy does, too.
    Beside,
    /// Something has to happen first; the message says what.
    Waiting,
    /// The programs serve alone.
    Replaced,
    /// kube-proxy serves.
    Restored,
    /// Services that answered with kube-proxy's rules do not without.
    WorseThanBefore,
    /// kube-proxy's rules could not be removed.
    CleanupFailed,
}

/// How a kube-proxy runs on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunningKubeProxy {
    /// As a process of its own.
    Process,
    /// As part of another program, as in k3s.
    Embedded,
}

/// Where kube-proxy's rules come from, as far as this agent has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesOrigin {
    /// A kube-proxy that has ended.
    Ended,
    /// Perhaps a kube-proxy in another program, which nobody sees while the agent has the
    /// metrics port.
    Unknown,
}

/// What this agent has seen of kube-proxy and of the removal of its rules.
#[derive(Clone, Debug, Default)]
pub struct RulesHistory {
    /// Whether a process of kube-proxy has run since the last removal.
    process: bool,
    /// Since when the agent has left the metrics port free.
    port_free: Option<Instant>,
    /// Whether rules have been removed.
    removed: bool,
    /// The last removal of rules that had been written again.
    came_back: Option<Instant>,
}

/// Facts about this node that decide the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeoverFacts {
    /// Who is to serve.
    pub wanted: ServiceProxyChoice,
    /// The maps hold what the API says.
    pub programmed: bool,
    /// The kube-proxy that runs in this network namespace.
    pub kube_proxy: Option<RunningKubeProxy>,
    /// So many tables and sets of rules are kube-proxy's.
    pub rules: usize,
    /// Who wrote them.
    pub origin: RulesOrigin,
    /// They were written again after their removal, not long ago.
    pub came_back: bool,
    /// Services with endpoints that kube-proxy's rules do not name; looked for only when
    /// kube-proxy is to serve.
    pub unwritten: BTreeSet<String>,
    /// Services that the last removal of rules made worse.
    pub worse: BTreeSet<String>,
}

/// The next step of the takeover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeoverStep {
    /// Remove kube-proxy's rules.
    CleanUp,
    /// Free the metrics port, so that a kube-proxy in another program is seen there.
    FreeMetricsPort(String),
    /// Leave new connections to kube-proxy.
    StandAside,
    /// Nothing; this is said.
    Say(TakeoverReason, String),
}

// === impl Wanted ===

impl ServiceProxyChoice {
    /// What the label says; an unknown value is that of no label.
    #[must_use]
    pub fn of_label(value: Option<&str>) -> Self {
        match value {
            Some("replaced") => Self::Replaced,
            Some("restored") => Self::Restored,
            _ => Self::Beside,
        }
    }

    /// The label's value; none for no label.
    #[must_use]
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Beside => None,
            Self::Replaced => Some("replaced"),
            Self::Restored => Some("restored"),
        }
    }
}

// === impl Reason ===

impl TakeoverReason {
    const ALL: [Self; 6] = [
        Self::Beside,
        Self::Waiting,
        Self::Replaced,
        Self::Restored,
        Self::WorseThanBefore,
        Self::CleanupFailed,
    ];

    /// As the condition has it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Beside => "Beside",
            Self::Waiting => "Waiting",
            Self::Replaced => "Replaced",
            Self::Restored => "Restored",
            Self::WorseThanBefore => "WorseThanBefore",
            Self::CleanupFailed => "CleanupFailed",
        }
    }

    /// Reads a condition's reason.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.word() == word)
    }
}

// === impl RulesHistory ===

/// How long the metrics port stays free for a kube-proxy in another program, which tries to
/// listen there every 5 s.
pub const PORT_FREE_FOR: Duration = Duration::from_secs(7);
/// How long rules must stay away before they count as gone: kube-proxy looks for its own every 30 s.
const AWAY_FOR: Duration = Duration::from_secs(60);

impl RulesHistory {
    /// Records what runs now.
    pub fn see(&mut self, kube_proxy: Option<RunningKubeProxy>) {
        self.process |= kube_proxy == Some(RunningKubeProxy::Process);
        if kube_proxy.is_some() {
            self.port_free = None;
        }
    }

    /// Records that the metrics port is free at `now`.
    pub fn port_is_free(&mut self, now: Instant) {
        self.port_free.get_or_insert(now);
    }

    /// Records that the agent has the metrics port again.
    pub fn port_is_taken(&mut self) {
        self.port_free = None;
    }

    /// Records that rules were removed at `now`.
    pub fn removed(&mut self, now: Instant) {
        self.process = false;
        self.port_free = None;
        if std::mem::replace(&mut self.removed, true) {
            self.came_back = Some(now);
        }
    }

    /// Forgets removals, since kube-proxy is to write its rules again.
    pub fn forget_removals(&mut self) {
        self.removed = false;
        self.came_back = None;
        self.port_free = None;
    }

    /// Who wrote the rules that are there at `now`.
    #[must_use]
    pub fn origin(&self, now: Instant) -> RulesOrigin {
        let nobody_came = self
            .port_free
            .is_some_and(|since| now.duration_since(since) >= PORT_FREE_FOR);
        if self.process || nobody_came {
            RulesOrigin::Ended
        } else {
            RulesOrigin::Unknown
        }
    }

    /// Whether rules were written again after their removal, not long before `now`.
    #[must_use]
    pub fn came_back(&self, now: Instant) -> bool {
        self.came_back
            .is_some_and(|at| now.duration_since(at) < AWAY_FOR)
    }
}

/// Decides on the next step.
#[must_use]
pub fn next(facts: &TakeoverFacts) -> TakeoverStep {
    let wait = |why: &str| TakeoverStep::Say(TakeoverReason::Waiting, why.to_owned());
    match facts.wanted {
        ServiceProxyChoice::Beside if !facts.programmed => {
            wait("the maps do not hold all Services yet")
        }
        ServiceProxyChoice::Beside if facts.kube_proxy.is_some() => TakeoverStep::Say(
            TakeoverReason::Beside,
            "kube-proxy runs, too; Orlop serves new connections".to_owned(),
        ),
        ServiceProxyChoice::Beside => {
            TakeoverStep::Say(TakeoverReason::Beside, "Orlop serves Services".to_owned())
        }
        ServiceProxyChoice::Replaced if !facts.programmed => {
            wait("the maps do not hold all Services yet; kube-proxy's rules stay")
        }
        ServiceProxyChoice::Replaced if facts.kube_proxy == Some(RunningKubeProxy::Process) => {
            wait("kube-proxy still runs on this node; its rules stay until it has ended")
        }
        ServiceProxyChoice::Replaced if facts.kube_proxy == Some(RunningKubeProxy::Embedded) => {
            wait(
                "kube-proxy still runs on this node, as part of another program (in k3s, set \
                 `disable-kube-proxy: true` and start it again); its rules stay until it has ended",
            )
        }
        ServiceProxyChoice::Replaced if !facts.worse.is_empty() => TakeoverStep::Say(
            TakeoverReason::WorseThanBefore,
            format!(
                "answered with kube-proxy's rules, and not without: {}",
                some(&facts.worse)
            ),
        ),
        ServiceProxyChoice::Replaced if facts.rules > 0 => match facts.origin {
            RulesOrigin::Ended => TakeoverStep::CleanUp,
            RulesOrigin::Unknown => TakeoverStep::FreeMetricsPort(format!(
                "the metrics port is free for {} s, to see whether a kube-proxy runs as part of \
                 another program",
                PORT_FREE_FOR.as_secs()
            )),
        },
        ServiceProxyChoice::Replaced if facts.came_back => wait(
            "kube-proxy's rules were written again after they had been removed: look for a \
             kube-proxy in another program",
        ),
        ServiceProxyChoice::Replaced => TakeoverStep::Say(
            TakeoverReason::Replaced,
            "Orlop serves Services; no rule of kube-proxy is left".to_owned(),
        ),
        ServiceProxyChoice::Restored if facts.kube_proxy.is_none() => {
            wait("kube-proxy does not run on this node yet")
        }
        ServiceProxyChoice::Restored if facts.rules == 0 => {
            wait("kube-proxy has written no rules yet")
        }
        ServiceProxyChoice::Restored if !facts.unwritten.is_empty() => wait(&format!(
            "kube-proxy has not written the rules of these Services yet: {}",
            some(&facts.unwritten)
        )),
        ServiceProxyChoice::Restored => TakeoverStep::StandAside,
    }
}

/// Names the first of them, and how many more there are.
fn some(names: &BTreeSet<String>) -> String {
    let first: Vec<_> = names.iter().take(5).map(String::as_str).collect();
    match names.len().saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Returns the Services that answered `before` and do not `after`.
#[must_use]
pub fn worse(before: &BTreeSet<String>, after: &BTreeSet<String>) -> BTreeSet<String> {
    before.difference(after).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(wanted: ServiceProxyChoice) -> TakeoverFacts {
        TakeoverFacts {
            wanted,
            programmed: true,
            kube_proxy: Some(RunningKubeProxy::Process),
            rules: 3,
            origin: RulesOrigin::Ended,
            came_back: false,
            unwritten: BTreeSet::new(),
            worse: BTreeSet::new(),
        }
    }

    fn reason(facts: &TakeoverFacts) -> Option<TakeoverReason> {
        match next(facts) {
            TakeoverStep::Say(reason, _) => Some(reason),
            _ => None,
        }
    }

    #[test]
    fn nothing_is_removed_before_kube_proxy_has_ended_and_maps_are_full() {
        let mut it = facts(ServiceProxyChoice::Replaced);
        assert_eq!(reason(&it), Some(TakeoverReason::Waiting), "it runs");
        it.kube_proxy = None;
        assert_eq!(next(&it), TakeoverStep::CleanUp);
        it.programmed = false;
        assert_eq!(
            reason(&it),
            Some(TakeoverReason::Waiting),
            "the maps are behind"
        );
        it.programmed = true;
        it.rules = 0;
        assert_eq!(reason(&it), Some(TakeoverReason::Replaced));
    }

    #[test]
    fn rules_of_somebody_unknown_stay_until_nobody_came_to_the_free_port() {
        let start = Instant::now();
        let mut history = RulesHistory::default();
        history.see(None);
        let mut it = facts(ServiceProxyChoice::Replaced);
        it.kube_proxy = None;
        it.origin = history.origin(start);
        assert!(
            matches!(next(&it), TakeoverStep::FreeMetricsPort(_)),
            "{:?}",
            next(&it)
        );
        history.port_is_free(start);
        history.port_is_free(start + PORT_FREE_FOR / 2);
        assert_eq!(
            history.origin(start + PORT_FREE_FOR / 2),
            RulesOrigin::Unknown
        );
        history.port_is_taken();
        assert_eq!(history.origin(start + PORT_FREE_FOR), RulesOrigin::Unknown);
        history.port_is_free(start);
        it.origin = history.origin(start + PORT_FREE_FOR);
        assert_eq!(next(&it), TakeoverStep::CleanUp);

        // It came, and was disabled: the next one has as long.
        history.see(Some(RunningKubeProxy::Embedded));
        assert_eq!(history.origin(start + PORT_FREE_FOR), RulesOrigin::Unknown);
        it.kube_proxy = Some(RunningKubeProxy::Embedded);
        let TakeoverStep::Say(TakeoverReason::Waiting, message) = next(&it) else {
            panic!("{:?}", next(&it));
        };
        assert!(message.contains("disable-kube-proxy"), "{message}");
    }

    #[test]
    fn rules_of_a_process_that_ended_go_at_once_and_others_that_follow_do_not() {
        let start = Instant::now();
        let mut history = RulesHistory::default();
        history.see(Some(RunningKubeProxy::Process));
        history.see(None);
        assert_eq!(history.origin(start), RulesOrigin::Ended);
        history.removed(start);
        assert_eq!(history.origin(start), RulesOrigin::Unknown);
        assert!(!history.came_back(start));
    }

    #[test]
    fn a_node_whose_rules_come_back_is_not_replaced_until_they_stay_away() {
        let start = Instant::now();
        let mut history = RulesHistory::default();
        history.removed(start);
        history.removed(start + Duration::from_secs(30));
        let mut it = facts(ServiceProxyChoice::Replaced);
        (it.kube_proxy, it.rules) = (None, 0);
        for (seconds, expected) in [
            (31, TakeoverReason::Waiting),
            (89, TakeoverReason::Waiting),
            (90, TakeoverReason::Replaced),
        ] {
            it.came_back = history.came_back(start + Duration::from_secs(seconds));
            assert_eq!(reason(&it), Some(expected), "{seconds} s");
        }
    }

    #[test]
    fn nothing_is_removed_without_being_asked() {
        for kube_proxy in [None, Some(RunningKubeProxy::Process)] {
            let it = TakeoverFacts {
                kube_proxy,
                ..facts(ServiceProxyChoice::Beside)
            };
            assert_eq!(reason(&it), Some(TakeoverReason::Beside));
        }
    }

    #[test]
    fn an_agent_whose_maps_are_behind_does_not_say_that_it_serves() {
        let mut it = facts(ServiceProxyChoice::Beside);
        it.programmed = false;
        assert_eq!(reason(&it), Some(TakeoverReason::Waiting));
    }

    /// Chains are there before rules, and rules of one IP version before those of the other.
    #[test]
    fn kube_proxy_serves_once_its_rules_name_every_service() {
        let mut it = facts(ServiceProxyChoice::Restored);
        it.unwritten = (0..7).map(|it| format!("ns/{it} 10.96.0.{it}")).collect();
        let TakeoverStep::Say(TakeoverReason::Waiting, message) = next(&it) else {
            panic!("{:?}", next(&it));
        };
        assert!(message.ends_with("ns/4 10.96.0.4 and 2 more"), "{message}");
        it.unwritten.clear();
        assert_eq!(next(&it), TakeoverStep::StandAside);
    }

    #[test]
    fn a_node_that_became_worse_says_which_services() {
        let before: BTreeSet<String> = ["a/x:80", "a/y:80"].map(str::to_owned).into();
        let after: BTreeSet<String> = ["a/y:80", "b/new:1"].map(str::to_owned).into();
        let mut it = facts(ServiceProxyChoice::Replaced);
        it.kube_proxy = None;
        it.rules = 0;
        it.worse = worse(&before, &after);
        let TakeoverStep::Say(TakeoverReason::WorseThanBefore, message) = next(&it) else {
            panic!("{:?}", next(&it));
        };
        assert!(message.ends_with("and not without: a/x:80"), "{message}");
    }

    #[test]
    fn new_connections_are_left_to_kube_proxy_once_it_has_rules() {
        let mut it = facts(ServiceProxyChoice::Restored);
        assert_eq!(next(&it), TakeoverStep::StandAside);
        it.rules = 0;
        assert_eq!(reason(&it), Some(TakeoverReason::Waiting));
        it.kube_proxy = None;
        it.rules = 3;
        assert_eq!(
            reason(&it),
            Some(TakeoverReason::Waiting),
            "those of another time"
        );
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for reason in TakeoverReason::ALL {
            assert_eq!(TakeoverReason::of_word(reason.word()), Some(reason));
        }
        for wanted in [
            ServiceProxyChoice::Beside,
            ServiceProxyChoice::Replaced,
            ServiceProxyChoice::Restored,
        ] {
            assert_eq!(ServiceProxyChoice::of_label(wanted.label()), wanted);
        }
        assert_eq!(
            ServiceProxyChoice::of_label(Some("true")),
            ServiceProxyChoice::Beside
        );
    }
}
