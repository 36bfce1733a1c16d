//! Metrics of authentication and authorization, under kube-apiserver's names.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use control_access::Bearer;
use control_metrics::{Histogram, Kind, Page};

/// Seconds until a certificate ends: from half an hour to a year.
const EXPIRATION: &[f64] = &[
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

/// Users that are counted by their names; all others are of a sort.
const USERS: [&str; 7] = [
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
    "email_id",
    "other",
];

/// Tokens of service accounts by their sort.
const TOKENS: [(&str, &str); 6] = [
    (
        "serviceaccount_legacy_auto_token_uses_total",
        "Cumulative auto-generated legacy tokens used",
    ),
    (
        "serviceaccount_legacy_manual_token_uses_total",
        "Cumulative manually created legacy tokens used",
    ),
    (
        "serviceaccount_legacy_tokens_total",
        "Cumulative legacy service account tokens used",
    ),
    (
        "serviceaccount_stale_tokens_total",
        "Cumulative stale projected service account tokens used",
    ),
    (
        "serviceaccount_valid_tokens_total",
        "Cumulative valid projected service account tokens used",
    ),
    (
        "serviceaccount_invalid_legacy_auto_token_uses_total",
        "Cumulative invalid auto-generated legacy tokens used",
    ),
];
const AUTOMATIC: usize = 0;
const MANUAL: usize = 1;
const LEGACY: usize = 2;
const STALE: usize = 3;
const VALID: usize = 4;
const INVALIDATED: usize = 5;

/// The counts.
#[derive(Debug)]
pub struct AccessCounts {
    users: [AtomicU64; USERS.len()],
    tokens: [AtomicU64; TOKENS.len()],
    certificates: Mutex<Histogram>,
}

/// How often an authorizer's word was the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionCount {
    /// Its type: `RBAC`.
    pub kind: &'static str,
    /// Its name among those of its type.
    pub name: String,
    /// How often it allowed something.
    pub allowed: u64,
    /// How often it forbade something whatever others would say.
    pub denied: u64,
}

impl Default for AccessCounts {
    fn default() -> Self {
        Self {
            users: Default::default(),
            tokens: Default::default(),
            certificates: Mutex::new(Histogram::new(EXPIRATION)),
        }
    }
}

impl AccessCounts {
    /// A client turned out to be this user.
    pub fn user(&self, name: &str) {
        let known = USERS.iter().position(|known| *known == name);
        let at = known.filter(|at| *at < USERS.len() - 2).unwrap_or_else(|| {
            let sort = if name.contains('@') { 2 } else { 1 };
            USERS.len() - sort
        });
        self.users[at].fetch_add(1, Ordering::Relaxed);
    }

    /// A certificate that is good for so many seconds more was verified: once a
    /// minute for a connection, not with each of its requests.
    pub fn certificate(&self, seconds: f64) {
        let mut all = self
            .certificates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.observe(seconds);
    }

    /// A service account's token was shown.
    pub fn token(&self, bearer: &Bearer) {
        let count = |at: usize| self.tokens[at].fetch_add(1, Ordering::Relaxed);
        match (&bearer.legacy, bearer.stale) {
            (Some(used), _) => {
                count(LEGACY);
                count(if used.unasked { AUTOMATIC } else { MANUAL });
            }
            (None, Some(_)) => {
                count(STALE);
            }
            (None, None) => {
                count(VALID);
            }
        }
    }

    /// A token was shown that was taken back since nobody had used it.
    pub fn invalidated_token(&self) {
        self.tokens[INVALIDATED].fetch_add(1, Ordering::Relaxed);
    }

    /// Writes them, and what authorizers `decided`.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub fn write(&self, decided: &[DecisionCount], page: &mut Page) {
        let name = "authenticated_user_requests";
        page.bare_counter(
            name,
            "Counter of authenticated requests broken out by username.",
        );
        for (user, count) in USERS.iter().zip(&self.users) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                page.sample(name, &[("username", user)], count as f64);
            }
        }
        let name = "apiserver_authorization_decisions";
        page.family(
            name,
            Kind::Counter,
            "Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
        );
        for one in decided {
            for (decision, count) in [("allowed", one.allowed), ("denied", one.denied)] {
                let labels = [
                    ("decision", decision),
                    ("name", one.name.as_str()),
                    ("type", one.kind),
                ];
                if count > 0 {
                    page.sample(
                        "apiserver_authorization_decisions_total",
                        &labels,
                        count as f64,
                    );
                }
            }
        }
        let name = "apiserver_client_certificate_expiration_seconds";
        page.family(
            name,
            Kind::Histogram,
            "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
        );
        let certificates = self
            .certificates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        page.histogram(name, &[], &certificates);
        drop(certificates);
        for ((name, help), count) in TOKENS.iter().zip(&self.tokens) {
            page.family(name.trim_end_matches("_total"), Kind::Counter, help);
            page.sample(name, &[], count.load(Ordering::Relaxed) as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use control_metrics::Format;

    use super::*;

    #[test]
    fn users_and_tokens_are_counted_by_their_sort() {
        let counts = AccessCounts::default();
        for name in [
            "admin",
            "ann@example.com",
            "email_id",
            "other",
            "system:node:a",
        ] {
            counts.user(name);
        }
        counts.token(&Bearer::default());
        counts.token(&Bearer {
            stale: Some(5),
            ..Bearer::default()
        });
        counts.certificate(3.0 * 86_400.0);
        let decided = [DecisionCount {
            kind: "RBAC",
            name: "rbac".to_owned(),
            allowed: 7,
            denied: 0,
        }];
        let mut page = Page::new(Format::Text);
        counts.write(&decided, &mut page);
        let page = page.finish();
        for line in [
            "# TYPE authenticated_user_requests counter",
            "authenticated_user_requests{username=\"admin\"} 1",
            "authenticated_user_requests{username=\"email_id\"} 1",
            "authenticated_user_requests{username=\"other\"} 3",
            "apiserver_authorization_decisions_total{decision=\"allowed\",name=\"rbac\",type=\"RBAC\"} 7",
            "apiserver_client_certificate_expiration_seconds_bucket{le=\"172800\"} 0",
            "apiserver_client_certificate_expiration_seconds_bucket{le=\"345600\"} 1",
            "serviceaccount_stale_tokens_total 1",
            "serviceaccount_valid_tokens_total 1",
            "serviceaccount_legacy_tokens_total 0",
        ] {
            assert!(page.contains(&format!("{line}\n")), "no {line} in\n{page}");
        }
        assert!(!page.contains("decision=\"denied\""));
    }
}
