//! Finds Orlop's parts on this machine: a server, an agent, a datapath.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{ANSWER_WITHIN, Answer, Part, Problem, State};
use jiff::{SignedDuration, Timestamp};
use node_agent::{InstalledPins, ReportSelection};

/// The parts' files, and the agent's address.
#[derive(Clone, Debug)]
pub struct MachinePaths {
    /// The server's folder.
    pub server_dir: PathBuf,
    /// The agent's folder.
    pub agent_dir: PathBuf,
    /// The directory of pinned programs and maps.
    pub pin_dir: PathBuf,
    /// The agent's health checks.
    pub healthz: SocketAddr,
}

/// The findings.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The server; `None` without a store.
    pub server: Answer<Option<Server>>,
    /// Certificates of server and agent.
    pub certificates: Vec<Certificate>,
    /// The agent's answer at `/healthz`: its code and body.
    pub agent: Answer<(u16, String)>,
    /// The datapath; `None` without one.
    pub datapath: Answer<Option<InstalledPins>>,
    /// The number of Services with a datapath, and their problems.
    pub services: Answer<(usize, Vec<String>)>,
}

/// A server's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Bytes of the store.
    pub size: u64,
    /// Whether a server works with it.
    pub running: bool,
    /// When it was last written to.
    pub written: Option<Timestamp>,
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its file.
    pub path: PathBuf,
    /// The start of its validity.
    pub begins: Timestamp,
    /// Until when.
    pub expires: Timestamp,
}

/// Leaf certificates are renewed when a third of their validity is left; with less than a
/// quarter that did not happen.
const RENEWAL_MISSED: i32 = 4;
/// Authorities are renewed by hand.
const AUTHORITY_DUE: SignedDuration = SignedDuration::from_hours(24 * 90);
/// Bytes of an answer that are read.
const MOST: u64 = 1 << 16;

/// Looks at this machine.
pub async fn gather(places: &MachinePaths) -> Facts {
    let datapath = match InstalledPins::find(&places.pin_dir) {
        Ok(found) => Answer::Known(found),
        Err(error) => Answer::Failed(error.to_string()),
    };
    let services = match datapath.known() {
        Some(Some(_)) => services(&places.pin_dir).await,
        _ => Answer::NotAsked,
    };
    Facts {
        server: server(&places.server_dir.join("store.redb")),
        certificates: [places.server_dir.join("pki"), places.agent_dir.clone()]
            .iter()
            .flat_map(|folder| certificates(folder))
            .collect(),
        agent: healthz(places.healthz).await,
        datapath,
        services,
    }
}

fn server(store: &Path) -> Answer<Option<Server>> {
    let file = match File::open(store) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Answer::Known(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Answer::Forbidden,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    let metadata = file.metadata().ok();
    let written = metadata
        .as_ref()
        .and_then(|it| Timestamp::try_from(it.modified().ok()?).ok());
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    Answer::Known(Some(Server {
        size: metadata.as_ref().map_or(0, fs::Metadata::len),
        running: metadata.is_some_and(|it| is_locked(&locks, it.ino())),
        written,
    }))
}

/// Whether a file is locked, as the kernel's list of locks says (proc_locks(5)). To try the lock
/// would be in the way of a server that starts at this moment.
fn is_locked(locks: &str, inode: u64) -> bool {
    locks.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let place = words.iter().find(|word| word.matches(':').count() == 2);
        let number = place.and_then(|it| it.rsplit(':').next());
        line.contains("FLOCK") && number.is_some_and(|it| it == inode.to_string())
    })
}

fn certificates(folder: &Path) -> Vec<Certificate> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|end| end != "crt") {
            continue;
        }
        let Ok(pem) = fs::read_to_string(&path) else {
            continue;
        };
        if let Ok((begins, expires)) = control_pki::validity(&pem, &path) {
            found.push(Certificate {
                path,
                begins,
                expires,
            });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

async fn healthz(address: SocketAddr) -> Answer<(u16, String)> {
    match node_agent::machine::fetch(address, "/healthz", MOST, ANSWER_WITHIN).await {
        Ok(answer) => Answer::Known(answer),
        Err(error) => Answer::Failed(error.to_string()),
    }
}

async fn services(pin_dir: &Path) -> Answer<(usize, Vec<String>)> {
    let asked = node_agent::report(pin_dir, &ReportSelection::All);
    match tokio::time::timeout(ANSWER_WITHIN, asked).await {
        Ok(Ok(report)) => {
            let named = |object: &node_agent::ObjectReport| {
                let of = format!("{} {}/{}", object.kind, object.namespace, object.name);
                let problems = object.problems.iter();
                problems.map(|it| format!("{of}: {it}")).collect::<Vec<_>>()
            };
            let problems = report.objects.iter().flat_map(named).collect();
            Answer::Known((report.objects.len(), problems))
        }
        Ok(Err(error)) => Answer::Failed(error.to_string()),
        Err(_) => Answer::Failed(format!("no answer within {} s", ANSWER_WITHIN.as_secs())),
    }
}

/// Evaluates the findings. Absent parts are left out.
#[must_use]
pub fn judge(facts: &Facts, now: Timestamp) -> Vec<Part> {
    let mut parts = Vec::new();
    parts.extend(server_part(&facts.server));
    parts.extend(agent_part(facts));
    parts.extend(datapath_part(facts));
    if !facts.certificates.is_empty() {
        parts.push(certificates_part(&facts.certificates, now));
    }
    parts
}

fn server_part(server: &Answer<Option<Server>>) -> Option<Part> {
    const NAME: &str = "server here";
    match server {
        Answer::Known(None) => None,
        Answer::Known(Some(it)) => {
            let size = format!("store of {:.1} MiB", it.size as f64 / f64::from(1 << 20));
            if it.running {
                return Some(Part::new(NAME, format!("running, {size}"), Vec::new()));
            }
            let way_out = "start it: systemctl start orlop, or `orlop up` or `orlop server`";
            let problem = Problem::new("no server works with the store", it.written, way_out);
            Some(Part::down(NAME, format!("not running, {size}"), problem))
        }
        other => Some(Part::unknown(
            NAME,
            format!("{}: run as root", other.why_unknown()),
        )),
    }
}

/// An agent is missed where there is a datapath.
fn agent_part(facts: &Facts) -> Option<Part> {
    const NAME: &str = "agent here";
    let installed = facts.datapath.known().and_then(Option::as_ref);
    match &facts.agent {
        Answer::Known((200, _)) => Some(Part::new(NAME, "healthy", Vec::new())),
        Answer::Known((code, body)) => {
            let answer = serde_json::from_str::<serde_json::Value>(body).unwrap_or_default();
            let updated = answer["lastUpdated"]
                .as_str()
                .and_then(control_types::time::parse)
                .filter(|it| *it > Timestamp::UNIX_EPOCH);
            let what = if answer["nodeEligible"] == false {
                "the Node is gone, or is about to be removed"
            } else {
                "the maps are behind the API"
            };
            let way_out = "read the agent's log (journalctl -u orlop-agent), and `orlop services`";
            Some(Part::new(
                NAME,
                format!("/healthz answers {code}"),
                vec![Problem::new(what, updated, way_out)],
            ))
        }
        Answer::Failed(error) if installed.is_some() => {
            let way_out = "start the agent, or name its --healthz-bind-address with --healthz";
            let problem = Problem::new(format!("/healthz: {error}"), None, way_out);
            Some(Part::down(NAME, "does not answer", problem))
        }
        _ => None,
    }
}

fn datapath_part(facts: &Facts) -> Option<Part> {
    const NAME: &str = "datapath here";
    let installed = match &facts.datapath {
        Answer::Known(installed) => installed.as_ref()?,
        other => return Some(Part::unknown(NAME, other.why_unknown())),
    };
    let mut summary = format!(
        "programs at {} socket hooks and {} device hooks",
        installed.socket_hooks.len(),
        installed.devices.len()
    );
    let mut problems = Vec::new();
    if !installed.in_use {
        problems.push(Problem::new(
            "no agent keeps the maps up to date: Services that change send clients to endpoints \
             that are gone",
            None,
            "start the agent, or remove it: orlop node-agent uninstall --datapath-only",
        ));
    }
    match &facts.services {
        Answer::Known((count, wrong)) => {
            summary.push_str(&format!(", {count} Services and Pods"));
            let shown = wrong.iter().take(SHOWN);
            problems.extend(
                shown.map(|it| {
                    Problem::new(it.clone(), None, "see `orlop services NAMESPACE/NAME`")
                }),
            );
            if let Some(more) = wrong.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                let what = format!("{more} further problems of Services");
                problems.push(Problem::new(what, None, "see `orlop services`"));
            }
        }
        other => summary.push_str(&format!(", Services unknown: {}", other.why_unknown())),
    }
    Some(Part::new(NAME, summary, problems))
}

/// Problems of Services that are shown.
const SHOWN: usize = 5;

fn certificates_part(certificates: &[Certificate], now: Timestamp) -> Part {
    const NAME: &str = "certificates";
    let mut problems = Vec::new();
    let mut expired = false;
    for it in certificates {
        let path = it.path.display();
        let left = it.expires.duration_since(now);
        let authority = it
            .path
            .file_stem()
            .is_some_and(|name| name.to_string_lossy().ends_with("ca"));
        let missed = it.expires.duration_since(it.begins) / RENEWAL_MISSED;
        if left.is_negative() {
            expired = true;
            let way_out = "on the server: orlop certs rotate; on a node: start the agent again, or \
                           join again";
            let what = format!("{path} has expired");
            problems.push(Problem::new(what, Some(it.expires), way_out));
        } else if authority && left < AUTHORITY_DUE {
            problems.push(Problem::new(
                format!("{path} expires on {}", it.expires.strftime("%Y-%m-%d")),
                None,
                "replace the authority: docs/how-to/rotate-certificates.md",
            ));
        } else if !authority && left < missed {
            problems.push(Problem::new(
                format!(
                    "{path} expires on {} and was not renewed",
                    it.expires.strftime("%Y-%m-%d")
                ),
                None,
                "check that the process that uses it runs, and read its log",
            ));
        }
    }
    let first = certificates.iter().map(|it| it.expires).min();
    let first = first.map_or_else(String::new, |it| {
        format!(", the first expires on {}", it.strftime("%Y-%m-%d"))
    });
    let mut part = Part::new(NAME, format!("{}{first}", certificates.len()), problems);
    if expired {
        part.state = State::Down;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-05-01T12:00:00Z".parse().expect("a time")
    }

    fn installed(in_use: bool) -> InstalledPins {
        InstalledPins {
            socket_hooks: vec!["connect4".to_owned()],
            in_use,
            maps: 30,
            ..InstalledPins::default()
        }
    }

    fn found(facts: &Facts, name: &str) -> Option<Part> {
        judge(facts, now()).into_iter().find(|it| it.name == name)
    }

    #[test]
    fn a_machine_without_orlop_has_no_parts() {
        let facts = Facts {
            server: Answer::Known(None),
            datapath: Answer::Known(None),
            agent: Answer::Failed("connection refused".to_owned()),
            ..Facts::default()
        };
        assert_eq!(judge(&facts, now()), []);
    }

    #[test]
    fn a_datapath_without_an_agent_is_frozen() {
        let mut facts = Facts {
            server: Answer::Known(None),
            datapath: Answer::Known(Some(installed(false))),
            services: Answer::Known((7, vec!["Service a/b: no room".to_owned()])),
            agent: Answer::Failed("connection refused".to_owned()),
            ..Facts::default()
        };
        let part = found(&facts, "datapath here").expect("a part");
        assert_eq!(part.state, State::Degraded);
        assert_eq!(part.problems.len(), 2);
        assert!(
            part.problems[0]
                .way_out
                .contains("uninstall --datapath-only")
        );
        assert_eq!(
            found(&facts, "agent here").expect("missed").state,
            State::Down
        );
        facts.datapath = Answer::Known(Some(installed(true)));
        facts.services = Answer::Known((7, Vec::new()));
        facts.agent = Answer::Known((200, String::new()));
        let all = judge(&facts, now());
        assert!(all.iter().all(|it| it.state == State::Ok), "{all:?}");
    }

    #[test]
    fn an_agent_that_is_behind_tells_since_when() {
        let body = r#"{"lastUpdated":"2026-05-01T11:50:00Z","nodeEligible":true}"#;
        let facts = Facts {
            agent: Answer::Known((503, body.to_owned())),
            ..Facts::default()
        };
        let part = found(&facts, "agent here").expect("a part");
        assert_eq!(part.problems[0].since, "2026-05-01T11:50:00Z".parse().ok());
    }

    #[test]
    fn a_store_without_a_server_is_down_since_its_last_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("store.redb");
        assert!(matches!(server(&store), Answer::Known(None)));
        fs::write(&store, "store").expect("written");
        let part = server_part(&server(&store)).expect("a part");
        assert_eq!(part.state, State::Down);
        assert!(part.problems[0].since.is_some());
        let held = File::open(&store).expect("opened");
        held.lock().expect("locked");
        let part = server_part(&server(&store)).expect("a part");
        assert_eq!(part.state, State::Ok);
    }

    #[test]
    fn certificates_that_expire_or_were_not_renewed_are_named() {
        let certificate = |name: &str, begins: i64, expires: i64| Certificate {
            path: PathBuf::from(name),
            begins: now() + SignedDuration::from_hours(24 * begins),
            expires: now() + SignedDuration::from_hours(24 * expires),
        };
        let problems = |certificate: Certificate| certificates_part(&[certificate], now());
        assert_eq!(
            problems(certificate("apiserver.crt", -100, 265)).state,
            State::Ok
        );
        let missed = problems(certificate("apiserver.crt", -300, 65));
        assert!(missed.problems[0].what.contains("was not renewed"));
        assert_eq!(problems(certificate("ca.crt", -300, 200)).state, State::Ok);
        assert_eq!(
            problems(certificate("ca.crt", -300, 65)).state,
            State::Degraded
        );
        let expired = problems(certificate("client.crt", -30, -1));
        assert_eq!(expired.state, State::Down);
        assert_eq!(
            expired.problems[0].since,
            Some(now() - SignedDuration::from_hours(24))
        );
    }
}
