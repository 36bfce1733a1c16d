//! Sockets: questions in, answers out, the rest to the node's resolvers.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use control_client::{Cache, Client, Selection, reflect};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, Name};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::view::{EndpointSlice, Service};
use crate::zone::{Answer, Zone};

/// What a resolver may take to answer before the next is asked.
const UPSTREAM: Duration = Duration::from_secs(2);
/// How long a TCP connection may be idle.
const IDLE: Duration = Duration::from_secs(10);
/// Questions worked on at once; more are dropped, and asked again.
const AT_ONCE: usize = 1000;
/// UDP answers longer than this are cut even where the asker would take more:
/// longer ones are fragmented on the way and lost.
const LARGEST: u16 = 1232;

/// How the server is to work.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses to listen on, with UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// The zone, such as `cluster.local`.
    pub cluster_domain: String,
    /// For services and endpoint slices.
    pub client: Client,
    /// Who is asked for everything else, in order; see [`upstreams_of`].
    pub upstreams: Vec<SocketAddr>,
}

/// Why the server cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address cannot be listened on.
    #[error("cannot listen on `{address}` for DNS; is another DNS server running there?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The zone's name is none.
    #[error("`{name}` is no DNS zone; name one such as `cluster.local`")]
    Zone {
        /// The name.
        name: String,
    },
}

/// The name servers of a `resolv.conf`, without those in `own` (which would
/// ask us again).
#[must_use]
pub fn upstreams_of(resolv_conf: &str, own: &[IpAddr]) -> Vec<SocketAddr> {
    resolv_conf
        .lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|rest| rest.split_whitespace().next()?.parse::<IpAddr>().ok())
        .filter(|address| !own.contains(address))
        .map(|address| SocketAddr::new(address, 53))
        .collect()
}

/// Serves until `shutdown`.
///
/// # Errors
/// [`Error::Listen`], [`Error::Zone`]; once it serves, it goes on.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    let bad_zone = |_| Error::Zone {
        name: options.cluster_domain.clone(),
    };
    let mut origin = Name::from_str(&options.cluster_domain).map_err(bad_zone)?;
    origin.set_fqdn(true);
    let mut sockets = Vec::new();
    for address in &options.listen {
        let failed = |source| Error::Listen {
            address: *address,
            source,
        };
        let udp = UdpSocket::bind(address).await.map_err(failed)?;
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        sockets.push((Arc::new(udp), tcp));
    }
    let resolver = Arc::new(Resolver {
        origin,
        services: reflect(&options.client, Selection::all()).cache(),
        slices: reflect(&options.client, Selection::all()).cache(),
        upstreams: options.upstreams,
    });
    let limit = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = tokio::task::JoinSet::new();
    for (udp, tcp) in sockets {
        tasks.spawn(serve_udp(Arc::clone(&resolver), udp, Arc::clone(&limit)));
        tasks.spawn(serve_tcp(Arc::clone(&resolver), tcp, Arc::clone(&limit)));
    }
    shutdown.cancelled().await;
    tasks.shutdown().await;
    Ok(())
}

struct Resolver {
    origin: Name,
    services: Cache<Service>,
    slices: Cache<EndpointSlice>,
    upstreams: Vec<SocketAddr>,
}

async fn serve_udp(resolver: Arc<Resolver>, socket: Arc<UdpSocket>, limit: Arc<Semaphore>) {
    let mut buffer = vec![0; 4096];
    loop {
        let (length, peer) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                // such as a port unreachable for an earlier answer
                tracing::debug!(%error, "cannot receive a question");
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&limit).try_acquire_owned() else {
            continue;
        };
        let question = buffer.get(..length).unwrap_or_default().to_vec();
        let (resolver, socket) = (Arc::clone(&resolver), Arc::clone(&socket));
        tokio::spawn(async move {
            if let Some(answer) = resolver.respond(&question, false).await
                && let Err(error) = socket.send_to(&answer, peer).await
            {
                tracing::debug!(%error, %peer, "cannot answer");
            }
            drop(permit);
        });
    }
}

async fn serve_tcp(resolver: Arc<Resolver>, listener: TcpListener, limit: Arc<Semaphore>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&limit).try_acquire_owned() else {
            continue;
        };
        let resolver = Arc::clone(&resolver);
        tokio::spawn(async move {
            if let Err(error) = converse(&resolver, stream).await {
                tracing::debug!(%error, "a DNS connection ended");
            }
            drop(permit);
        });
    }
}

async fn converse(resolver: &Resolver, mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let Ok(question) = tokio::time::timeout(IDLE, read_framed(&mut stream)).await else {
            return Ok(());
        };
        let Some(answer) = resolver.respond(&question?, true).await else {
            return Ok(());
        };
        write_framed(&mut stream, &answer).await?;
    }
}

/// A message over TCP has its length before it (RFC 1035, 4.2.2).
async fn read_framed(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

async fn write_framed(stream: &mut TcpStream, message: &[u8]) -> std::io::Result<()> {
    let length = u16::try_from(message.len()).map_err(std::io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    stream.write_all(&framed).await
}

impl Resolver {
    /// The answer to a message; none to what is no question.
    async fn respond(&self, bytes: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let request = match Message::from_vec(bytes) {
            Ok(request) if request.metadata.message_type == MessageType::Query => request,
            Ok(_) => return None,
            Err(_) => {
                let id = u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]);
                let code = ResponseCode::FormErr;
                return Message::error_msg(id, OpCode::Query, code).to_vec().ok();
            }
        };
        let mut response = Message::response(request.metadata.id, request.metadata.op_code);
        response.metadata.recursion_desired = request.metadata.recursion_desired;
        response.metadata.recursion_available = true;
        response.add_queries(request.queries.iter().cloned());
        let mut limit = 512;
        if let Some(edns) = &request.edns {
            limit = edns.max_payload().clamp(512, LARGEST);
            let mut own = Edns::new();
            own.set_max_payload(LARGEST);
            response.set_edns(own);
        }
        let unsupported = request.edns.as_ref().is_some_and(|edns| edns.version() > 0);
        let code = match (request.metadata.op_code, request.queries.as_slice()) {
            _ if unsupported => ResponseCode::BADVERS,
            (OpCode::Query, [_]) => ResponseCode::NoError,
            (OpCode::Query, _) => ResponseCode::FormErr,
            _ => ResponseCode::NotImp,
        };
        response.metadata.response_code = code;
        if code == ResponseCode::NoError
            && let Some(forwarded) = self.fill(&request, &mut response, bytes, tcp).await
        {
            return Some(forwarded);
        }
        let encoded = response.to_vec().ok()?;
        if !tcp && encoded.len() > usize::from(limit) {
            return response.truncate().to_vec().ok();
        }
        Some(encoded)
    }

    /// Fills in the answer, or returns the one of another resolver.
    async fn fill(
        &self,
        request: &Message,
        response: &mut Message,
        bytes: &[u8],
        tcp: bool,
    ) -> Option<Vec<u8>> {
        let query = request.queries.first()?;
        if query.query_class() != DNSClass::IN {
            response.metadata.response_code = ResponseCode::Refused;
            return None;
        }
        let zone = Zone {
            origin: self.origin.clone(),
            services: self.services.snapshot(),
            slices: self.slices.snapshot(),
        };
        match zone.answer(query.name(), query.query_type()) {
            Answer::Elsewhere => {
                let forwarded = self.forward(bytes, tcp).await;
                if forwarded.is_none() {
                    response.metadata.response_code = ResponseCode::ServFail;
                }
                return forwarded;
            }
            // before the first list, "no such name" would be a lie
            _ if !self.services.is_synced() || !self.slices.is_synced() => {
                response.metadata.response_code = ResponseCode::ServFail;
            }
            Answer::Zone {
                code,
                answers,
                additionals,
                authority,
            } => {
                response.metadata.authoritative = true;
                response.metadata.response_code = code;
                response.add_answers(answers);
                response.add_additionals(additionals);
                response.add_authorities(authority);
            }
            Answer::Alias { record, target } => {
                response.metadata.authoritative = true;
                response.add_answer(record);
                let mut question = Message::query();
                question.metadata.recursion_desired = true;
                let mut query = query.clone();
                query.set_name(target);
                question.add_query(query);
                if let Ok(question) = question.to_vec()
                    && let Some(answer) = self.forward(&question, true).await
                    && let Ok(answer) = Message::from_vec(&answer)
                {
                    response.add_answers(answer.answers);
                }
            }
        }
        None
    }

    /// Asks the resolvers one after the other, the way that we were asked.
    async fn forward(&self, question: &[u8], tcp: bool) -> Option<Vec<u8>> {
        for upstream in &self.upstreams {
            let asked = async {
                if tcp {
                    let mut stream = TcpStream::connect(upstream).await?;
                    write_framed(&mut stream, question).await?;
                    return read_framed(&mut stream).await;
                }
                // a port of its own for each question: answers cannot be guessed
                let any: SocketAddr = match upstream {
                    SocketAddr::V4(_) => ([0; 4], 0).into(),
                    SocketAddr::V6(_) => ([0; 16], 0).into(),
                };
                let socket = UdpSocket::bind(any).await?;
                socket.connect(upstream).await?;
                socket.send(question).await?;
                let mut answer = vec![0; 4096];
                loop {
                    let length = socket.recv(&mut answer).await?;
                    if length >= 12 && answer.get(..2) == question.get(..2) {
                        answer.truncate(length);
                        return Ok::<_, std::io::Error>(answer);
                    }
                }
            };
            match tokio::time::timeout(UPSTREAM, asked).await {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(error)) => tracing::debug!(%upstream, %error, "a resolver cannot be asked"),
                Err(_) => tracing::debug!(%upstream, "a resolver does not answer"),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::Query;
    use hickory_proto::rr::RecordType;

    use super::*;
    use crate::zone::tests::zone;

    fn resolver(upstreams: Vec<SocketAddr>) -> Arc<Resolver> {
        let zone = zone();
        Arc::new(Resolver {
            origin: zone.origin,
            services: Cache::fixed(zone.services.iter().map(|service| (**service).clone())),
            slices: Cache::fixed(zone.slices.iter().map(|slice| (**slice).clone())),
            upstreams,
        })
    }

    fn question(name: &str) -> Vec<u8> {
        let mut message = Message::query();
        message.add_query(Query::query(Name::from_str(name).unwrap(), RecordType::A));
        message.to_vec().unwrap()
    }

    /// Serves on loopback; the address.
    async fn serve(resolver: Arc<Resolver>) -> SocketAddr {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let udp = Arc::new(UdpSocket::bind(address).await.unwrap());
        let limit = Arc::new(Semaphore::new(AT_ONCE));
        tokio::spawn(serve_udp(Arc::clone(&resolver), udp, Arc::clone(&limit)));
        tokio::spawn(serve_tcp(resolver, tcp, limit));
        address
    }

    async fn ask(address: SocketAddr, name: &str, tcp: bool) -> Message {
        let asker = resolver(vec![address]);
        let answer = asker.forward(&question(name), tcp).await.unwrap();
        Message::from_vec(&answer).unwrap()
    }

    #[tokio::test]
    async fn questions_are_answered_over_udp_and_tcp_and_the_rest_is_forwarded() {
        // one server is the upstream of the other: what it knows arrives
        let upstream = serve(resolver(Vec::new())).await;
        let mut other = resolver(vec![upstream]);
        Arc::get_mut(&mut other).unwrap().origin = Name::from_str("other.").unwrap();
        let address = serve(other).await;
        for tcp in [false, true] {
            for server in [upstream, address] {
                let answer = ask(server, "web.default.svc.cluster.local.", tcp).await;
                assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
                assert_eq!(answer.answers[0].data.to_string(), "10.96.0.20");
            }
            let answer = ask(address, "web.default.svc.other.", tcp).await;
            assert!(answer.metadata.authoritative);
            assert_eq!(answer.answers.len(), 1);
        }
    }

    #[tokio::test]
    async fn without_upstreams_the_rest_fails_at_once() {
        let address = serve(resolver(Vec::new())).await;
        let asked = ask(address, "example.com.", false);
        let answer = tokio::time::timeout(Duration::from_millis(500), asked)
            .await
            .unwrap();
        assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    }

    #[tokio::test]
    async fn long_answers_are_cut_over_udp_and_whole_over_tcp() {
        let endpoints: Vec<_> = (0..100)
            .map(|number| serde_json::json!({"addresses": [format!("10.244.1.{number}")]}))
            .collect();
        let slice: EndpointSlice = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "db-2", "namespace": "default",
                "labels": {"kubernetes.io/service-name": "db"}},
            "endpoints": endpoints,
        }))
        .unwrap();
        let mut many = resolver(Vec::new());
        Arc::get_mut(&mut many).unwrap().slices = Cache::fixed([slice]);
        let address = serve(many).await;
        let cut = ask(address, "db.default.svc.cluster.local.", false).await;
        assert!(cut.metadata.truncation && cut.answers.is_empty());
        let full = ask(address, "db.default.svc.cluster.local.", true).await;
        assert!(!full.metadata.truncation);
        assert_eq!(full.answers.len(), 100);
    }

    #[tokio::test]
    async fn bytes_that_are_no_question_get_an_error_or_nothing() {
        let resolver = resolver(Vec::new());
        assert_eq!(resolver.respond(b"", false).await, None);
        let answer = resolver.respond(b"\x12\x34\xff\xff", false).await.unwrap();
        let answer = Message::from_vec(&answer).unwrap();
        assert_eq!(answer.metadata.id, 0x1234);
        assert_eq!(answer.metadata.response_code, ResponseCode::FormErr);
        let mut response = Message::from_vec(&question("a.")).unwrap();
        response.metadata.message_type = MessageType::Response;
        assert_eq!(
            resolver.respond(&response.to_vec().unwrap(), false).await,
            None
        );
    }

    #[test]
    fn upstreams_are_read_without_ourselves() {
        let text = "search a b\nnameserver 1.1.1.1\n nameserver 10.96.0.10 # us\nnameserver ::1\n";
        let upstreams = upstreams_of(text, &["10.96.0.10".parse().unwrap()]);
        assert_eq!(
            upstreams,
            ["1.1.1.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()]
        );
    }
}
