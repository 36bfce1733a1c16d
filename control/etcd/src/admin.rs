//! Questions to members, and changes of the membership.

use std::fmt;
use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmOptions, AlarmType, Certificate, Client, CompactionOptions, ConnectOptions,
    Identity, MemberAddOptions, TlsOptions,
};
use futures::future::join_all;
use tokio::time::Instant;

use crate::Error;
use crate::plan::{MemberStatus, MemberView};

/// A client's credentials for members, in PEM.
#[derive(Clone)]
pub struct Credentials {
    /// The certificate of the members' authority.
    pub ca: String,
    /// The client's certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// A client of a cluster's members.
#[derive(Clone, Debug)]
pub struct Admin {
    credentials: Credentials,
    /// URLs of members' client ports, tried in turn.
    endpoints: Vec<String>,
}

const CONNECT: Duration = Duration::from_secs(2);
/// How long a member may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a member may take to say how it is.
const STATUS: Duration = Duration::from_secs(2);
/// How long a defragmentation may take: about 100 MiB a second on a slow disk, 8 GiB at most.
const DEFRAGMENT: Duration = Duration::from_secs(120);
/// Time for which a removal waits for members to count one another as connected. etcd
/// refuses it for 5 s after a member has restarted (`HealthInterval`), and until it has
/// noticed that the lost one is down.
const SETTLE: Duration = Duration::from_secs(20);
/// How long to wait before the next try.
const AGAIN: Duration = Duration::from_millis(300);

// === impl Admin ===

impl Admin {
    /// A client of the members at these URLs.
    #[must_use]
    pub fn new(credentials: Credentials, endpoints: Vec<String>) -> Self {
        Self {
            credentials,
            endpoints,
        }
    }

    /// The same client for other members.
    #[must_use]
    pub fn at(&self, endpoints: Vec<String>) -> Self {
        Self::new(self.credentials.clone(), endpoints)
    }

    /// Asks one member how it is.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    pub async fn status(&self, endpoint: &str) -> Result<MemberStatus, Error> {
        let asked = async {
            let mut client = self.connect(endpoint).await?;
            client.status().await
        };
        let status = within(STATUS, asked)
            .await
            .map_err(|source| self.unreachable(endpoint.to_owned(), Some(source)))?;
        Ok(MemberStatus {
            leader: status.leader(),
            is_learner: status.is_learner(),
            version: status.version().to_owned(),
            db_size: u64::try_from(status.db_size()).unwrap_or_default(),
            db_in_use: u64::try_from(status.raft_used_db_size()).unwrap_or_default(),
            errors: status.errors().to_vec(),
        })
    }

    /// Lists the members, without asking each how it is.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    pub async fn members(&self) -> Result<Vec<MemberView>, Error> {
        let mut last = None;
        for endpoint in &self.endpoints {
            let asked = async {
                let mut client = self.connect(endpoint).await?;
                client.member_list().await
            };
            match within(ANSWER, asked).await {
                Ok(list) => {
                    let members = list.members().iter();
                    let view = |member: &etcd_client::Member| MemberView {
                        id: member.id(),
                        name: member.name().to_owned(),
                        peer_urls: member.peer_urls().to_vec(),
                        client_urls: member.client_urls().to_vec(),
                        is_learner: member.is_learner(),
                        status: None,
                    };
                    return Ok(members.map(view).collect());
                }
                Err(error) => last = Some(error),
            }
        }
        Err(self.unreachable(self.endpoints.join(","), last))
    }

    /// Lists the members with their states.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no member answers.
    pub async fn survey(&self) -> Result<Vec<MemberView>, Error> {
        let mut members = self.members().await?;
        let asked = members.iter().map(|member| async {
            let url = member.client_urls.first()?;
            self.status(url).await.ok()
        });
        let found = join_all(asked).await;
        for (member, status) in members.iter_mut().zip(found) {
            member.status = status;
        }
        members.sort_by(|a, b| a.name.cmp(&b.name).then(a.id.cmp(&b.id)));
        Ok(members)
    }

    /// Adds a member without a vote; returns its number.
    ///
    /// # Errors
    /// [`Error::Refused`], such as while another learner catches up, or [`Error::Unreachable`].
    pub async fn add_learner(&self, peer_url: &str) -> Result<u64, Error> {
        let action = format!("add a learner at {peer_url}");
        let added = self
            .change(&action, |mut client| async move {
                let options = MemberAddOptions::new().with_is_learner();
                client.member_add([peer_url], Some(options)).await
            })
            .await?;
        Ok(added.member().map_or(0, etcd_client::Member::id))
    }

    /// Gives a learner its vote.
    ///
    /// # Errors
    /// [`Error::Refused`] while it has not caught up, or [`Error::Unreachable`].
    pub async fn promote(&self, id: u64) -> Result<(), Error> {
        self.change(
            &format!("promote the learner {id:x}"),
            |client| async move { client.cluster_client().member_promote(id).await },
        )
        .await
        .map(drop)
    }

    /// Removes a member, after waiting up to 20 s for the others to count one another as healthy.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Unreachable`].
    pub async fn remove(&self, id: u64) -> Result<(), Error> {
        let action = format!("remove the member {id:x}");
        let until = Instant::now() + SETTLE;
        let mut is_first = true;
        loop {
            let removed = self.change(&action, |client| async move {
                client.cluster_client().member_remove(id).await
            });
            match removed.await {
                Ok(_) => return Ok(()),
                Err(Error::Refused { source, .. })
                    if is_unsettled(&source) && Instant::now() < until =>
                {
                    if is_first {
                        tracing::info!(
                            member = format!("{id:x}"),
                            %source,
                            "etcd does not remove a member before the others are connected, retrying"
                        );
                    }
                    is_first = false;
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Defragments the database of one member, which is blocked meanwhile.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn defragment(&self, endpoint: &str) -> Result<(), Error> {
        let asked = async {
            let mut client = self.connect(endpoint).await?;
            client.defragment().await
        };
        let done = within(DEFRAGMENT, asked).await;
        done.map(drop).map_err(|source| Error::Refused {
            action: format!("defragment {endpoint}"),
            source: Box::new(source),
        })
    }

    /// Forgets all revisions before the newest; returns that.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Unreachable`].
    pub async fn compact(&self) -> Result<i64, Error> {
        self.change("compact its history", |mut client| async move {
            let answer = client.get("\0", None).await?;
            let revision = answer
                .header()
                .map_or(0, etcd_client::ResponseHeader::revision);
            let options = CompactionOptions::new().with_physical();
            match client.compact(revision, Some(options)).await {
                Ok(_) => Ok(revision),
                // Another process did it.
                Err(error) if error.to_string().contains("has been compacted") => Ok(revision),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Returns the numbers of members whose quota is used up.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Unreachable`].
    pub async fn quota_alarms(&self) -> Result<Vec<u64>, Error> {
        let alarms = self
            .change("list its alarms", |mut client| async move {
                client.alarm(AlarmAction::Get, AlarmType::None, None).await
            })
            .await?;
        let full = alarms.alarms().iter();
        let full = full.filter(|alarm| alarm.alarm() == AlarmType::Nospace);
        Ok(full.map(etcd_client::AlarmMember::member_id).collect())
    }

    /// Lets members write again whose quota was used up.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Unreachable`].
    pub async fn disarm(&self, members: &[u64]) -> Result<(), Error> {
        for member in members {
            let mut options = AlarmOptions::new();
            options.with_member(*member);
            self.change("disarm the quota alarm", |mut client| {
                let options = options.clone();
                async move {
                    client
                        .alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(options))
                        .await
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Asks the members one after the other until one answers, be it with a refusal that is its
    /// last word.
    async fn change<T, F>(&self, action: &str, ask: impl Fn(Client) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let mut last = None;
        for endpoint in &self.endpoints {
            let client = match within(CONNECT * 2, self.connect(endpoint)).await {
                Ok(client) => client,
                Err(error) => {
                    last = Some(error);
                    continue;
                }
            };
            match within(ANSWER, ask(client)).await {
                Ok(answer) => return Ok(answer),
                Err(error) if is_away(&error) => last = Some(error),
                Err(source) => {
                    return Err(Error::Refused {
                        action: action.to_owned(),
                        source: Box::new(source),
                    });
                }
            }
        }
        match last {
            Some(source) if is_unsettled(&source) => Err(Error::Refused {
                action: action.to_owned(),
                source: Box::new(source),
            }),
            last => Err(self.unreachable(self.endpoints.join(","), last)),
        }
    }

    async fn connect(&self, endpoint: &str) -> Result<Client, etcd_client::Error> {
        let Credentials {
            ca,
            certificate,
            key,
        } = &self.credentials;
        let tls = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(ca))
            .identity(Identity::from_pem(certificate, key));
        let options = ConnectOptions::new()
            .with_connect_timeout(CONNECT)
            .with_tls(tls);
        Client::connect([endpoint], Some(options)).await
    }

    fn unreachable(&self, endpoints: String, source: Option<etcd_client::Error>) -> Error {
        Error::Unreachable {
            endpoints,
            source: source.map(Box::new),
        }
    }
}

/// Returns whether a member was unreachable, rather than refused.
fn is_away(error: &etcd_client::Error) -> bool {
    match error {
        etcd_client::Error::TransportError(_) | etcd_client::Error::IoError(_) => true,
        // 14: unavailable, 4: deadline exceeded. Refused changes have other codes: a
        // learner that is not in sync, for example, is a failed precondition.
        etcd_client::Error::GRpcStatus(status) => matches!(i32::from(status.code()), 4 | 14),
        _ => false,
    }
}

/// Returns whether a member refused because it does not count enough others as connected
/// for a membership change. The code is that of an unreachable member, and another one
/// may decide otherwise.
fn is_unsettled(error: &etcd_client::Error) -> bool {
    matches!(error, etcd_client::Error::GRpcStatus(status)
        if status.message().contains("unhealthy cluster"))
}

async fn within<T>(
    time: Duration,
    call: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, etcd_client::Error> {
    tokio::time::timeout(time, Box::pin(call))
        .await
        .unwrap_or_else(|_| {
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            Err(etcd_client::Error::IoError(late))
        })
}

impl fmt::Debug for Credentials {
    /// Without the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .finish_non_exhaustive()
    }
}
