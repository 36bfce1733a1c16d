//! Sockets: questions in, answers out, the rest to the node's resolvers.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use control_client::Cache;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, Name};
use node_agent_informers::{EndpointSlice, Service};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_util::sync::CancellationToken;

use crate::limits::ClientLimit;
use crate::upstream::{Protocol, forward, forward_whole};
use crate::zone::{Answer, Zone};
use crate::{encode, frame};

/// How long a TCP connection may be idle.
const IDLE: Duration = Duration::from_secs(10);
/// How long a client may take to receive an answer.
const SLOW: Duration = Duration::from_secs(5);
/// UDP answers longer than this are cut even where the asker would take more:
/// longer ones are fragmented on the way and lost.
const LARGEST: u16 = 1232;

/// How the server is to work.
#[derive(Clone)]
pub struct Options {
    /// Addresses to listen on, with UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// The zone, such as `cluster.local`.
    pub cluster_domain: String,
    /// All Services.
    pub services: Cache<Service>,
    /// All EndpointSlices.
    pub slices: Cache<EndpointSlice>,
    /// The resolvers of all other names, in order; see [`upstreams_of`].
    pub upstreams: Vec<SocketAddr>,
}

/// Reason why the server cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address cannot be listened on.
    #[error("cannot listen on `{address}` for DNS; is another DNS server running there?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
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
/// [`Error::Listen`], [`Error::Zone`]; errors after the start do not end it.
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
        services: options.services,
        slices: options.slices,
        upstreams: options.upstreams,
    });
    let limits = Limits::default();
    let mut tasks = tokio::task::JoinSet::new();
    for (udp, tcp) in sockets {
        for task in serve(&resolver, udp, tcp, &limits, &shutdown) {
            tasks.spawn(task);
        }
    }
    shutdown.cancelled().await;
    tasks.shutdown().await;
    Ok(())
}

/// Limits on concurrent work. UDP has a share that connections cannot use up.
#[derive(Clone, Debug)]
struct Limits {
    /// Questions over UDP. More are dropped, and asked again.
    questions: Arc<ClientLimit>,
    /// Connections. More are closed.
    connections: Arc<ClientLimit>,
    /// How long a client may take to receive an answer.
    slow: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            questions: ClientLimit::new(1000, 200),
            connections: ClientLimit::new(500, 32),
            slow: SLOW,
        }
    }
}

/// The tasks that serve a pair of sockets.
fn serve(
    resolver: &Arc<Resolver>,
    udp: Arc<UdpSocket>,
    tcp: TcpListener,
    limits: &Limits,
    shutdown: &CancellationToken,
) -> [futures::future::BoxFuture<'static, ()>; 2] {
    let (for_udp, for_tcp) = (Arc::clone(resolver), Arc::clone(resolver));
    let questions = Arc::clone(&limits.questions);
    let (limits, tcp) = (limits.clone(), Arc::new(tcp));
    let udp = control_supervise::task("dns-udp")
        .until(shutdown)
        .restarting(move || {
            serve_udp(
                Arc::clone(&for_udp),
                Arc::clone(&udp),
                Arc::clone(&questions),
            )
        });
    let tcp = control_supervise::task("dns-tcp")
        .until(shutdown)
        .restarting(move || serve_tcp(Arc::clone(&for_tcp), Arc::clone(&tcp), limits.clone()));
    [Box::pin(udp), Box::pin(tcp)]
}

struct Resolver {
    origin: Name,
    services: Cache<Service>,
    slices: Cache<EndpointSlice>,
    upstreams: Vec<SocketAddr>,
}

async fn serve_udp(resolver: Arc<Resolver>, socket: Arc<UdpSocket>, limit: Arc<ClientLimit>) {
    let mut buffer = vec![0; 4096];
    loop {
        let (length, peer) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                // such as a port unreachable for an earlier answer
                tracing::debug!(%error, "failed to receive a query");
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
        };
        let Some(permit) = limit.acquire(peer.ip()) else {
            continue;
        };
        let question = buffer.get(..length).unwrap_or_default().to_vec();
        let (resolver, socket) = (Arc::clone(&resolver), Arc::clone(&socket));
        tokio::spawn(async move {
            if let Some(answer) = resolver.respond(&question, false).await
                && let Err(error) = socket.send_to(&answer, peer).await
            {
                tracing::debug!(%error, %peer, "failed to answer");
            }
            drop(permit);
        });
    }
}

async fn serve_tcp(resolver: Arc<Resolver>, listener: Arc<TcpListener>, limits: Limits) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Some(permit) = limits.connections.acquire(peer.ip()) else {
            continue;
        };
        let (resolver, slow) = (Arc::clone(&resolver), limits.slow);
        tokio::spawn(async move {
            if let Err(error) = converse(&resolver, stream, slow).await {
                tracing::debug!(%error, "DNS connection ended");
            }
            drop(permit);
        });
    }
}

async fn converse(
    resolver: &Resolver,
    mut stream: TcpStream,
    slow: Duration,
) -> std::io::Result<()> {
    loop {
        let Ok(question) = tokio::time::timeout(IDLE, frame::read(&mut stream)).await else {
            return Ok(());
        };
        let Some(answer) = resolver.respond(&question?, true).await else {
            return Ok(());
        };
        // A client that does not read must not hold its connection.
        tokio::time::timeout(slow, frame::write(&mut stream, &answer)).await??;
        // One that asks without a pause leaves room for others.
        tokio::task::yield_now().await;
    }
}

impl Resolver {
    /// Returns the response to a message; `None` if it is not a query.
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
        let limit = if tcp { u16::MAX } else { limit };
        encode::encode_within(response, limit.into()).ok()
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
                let protocol = if tcp { Protocol::Tcp } else { Protocol::Udp };
                let forwarded = forward(&self.upstreams, bytes, protocol).await;
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
                let mut edns = Edns::new();
                edns.set_max_payload(LARGEST);
                question.set_edns(edns);
                self.resolve_target(&question, response).await;
            }
        }
        None
    }

    /// Adds the resolvers' answer for the target of an alias. Their response code counts:
    /// an alias of a name that does not exist does not exist, either.
    async fn resolve_target(&self, question: &Message, response: &mut Message) {
        let answer = match question.to_vec() {
            Ok(question) => forward_whole(&self.upstreams, &question).await,
            Err(_) => None,
        };
        let Some(Ok(answer)) = answer.map(|answer| Message::from_vec(&answer)) else {
            response.metadata.response_code = ResponseCode::ServFail;
            return;
        };
        let code = answer.metadata.response_code;
        response.metadata.response_code = code;
        response.metadata.truncation |= answer.metadata.truncation;
        response.add_answers(answer.answers);
        if code == ResponseCode::NXDomain {
            response.add_authorities(answer.authorities);
        }
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::Query;
    use hickory_proto::rr::rdata::A;
    use hickory_proto::rr::{RData, Record, RecordType};

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
        let end = CancellationToken::new();
        for task in super::serve(&resolver, udp, tcp, &Limits::default(), &end) {
            tokio::spawn(task);
        }
        address
    }

    async fn ask(address: SocketAddr, name: &str, tcp: bool) -> Message {
        let protocol = if tcp { Protocol::Tcp } else { Protocol::Udp };
        let answer = forward(&[address], &question(name), protocol).await;
        Message::from_vec(&answer.unwrap()).unwrap()
    }

    /// A resolver that answers all questions over UDP with a code, and nothing over TCP.
    async fn upstream_that_says(code: ResponseCode) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = vec![0; 4096];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
                let asked = Message::from_vec(&buffer[..length]).unwrap();
                let mut answer = Message::response(asked.metadata.id, OpCode::Query);
                answer.metadata.response_code = code;
                let query = asked.queries[0].clone();
                if code == ResponseCode::NoError {
                    let data = RData::A(A::new(192, 0, 2, 1));
                    answer.add_answer(Record::from_rdata(query.name().clone(), 5, data));
                }
                answer.add_query(query);
                let answer = answer.to_vec().unwrap();
                socket.send_to(&answer, peer).await.unwrap();
            }
        });
        address
    }

    /// A resolver whose zone has a Service that stands for `www.example.com`.
    fn resolver_with_alias(upstreams: Vec<SocketAddr>) -> Arc<Resolver> {
        let service: Service = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "out", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "www.example.com"},
        }))
        .unwrap();
        let mut resolver = resolver(upstreams);
        Arc::get_mut(&mut resolver).unwrap().services = Cache::fixed([service]);
        resolver
    }

    const ALIAS: &str = "out.default.svc.cluster.local.";

    #[tokio::test]
    async fn an_external_name_is_asked_for_over_udp() {
        let upstream = upstream_that_says(ResponseCode::NoError).await;
        let address = serve(resolver_with_alias(vec![upstream])).await;
        for tcp in [false, true] {
            let answer = ask(address, ALIAS, tcp).await;
            assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
            let data: Vec<_> = answer
                .answers
                .iter()
                .map(|it| it.data.to_string())
                .collect();
            assert_eq!(data, ["www.example.com.", "192.0.2.1"]);
        }
    }

    #[tokio::test]
    async fn an_external_name_has_the_code_of_what_it_stands_for() {
        for code in [
            ResponseCode::NXDomain,
            ResponseCode::ServFail,
            ResponseCode::Refused,
        ] {
            let upstream = upstream_that_says(code).await;
            let address = serve(resolver_with_alias(vec![upstream])).await;
            let answer = ask(address, ALIAS, false).await;
            assert_eq!(answer.metadata.response_code, code);
        }
        let address = serve(resolver_with_alias(Vec::new())).await;
        let answer = ask(address, ALIAS, false).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    }

    #[tokio::test]
    async fn a_resolver_that_fails_or_refuses_is_passed_over() {
        let good = upstream_that_says(ResponseCode::NoError).await;
        for code in [ResponseCode::ServFail, ResponseCode::Refused] {
            let bad = upstream_that_says(code).await;
            let address = serve(resolver(vec![bad, good])).await;
            let answer = ask(address, "example.com.", false).await;
            assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
            // Nobody knows better: what was said is handed on.
            let address = serve(resolver(vec![bad, bad])).await;
            let answer = ask(address, "example.com.", false).await;
            assert_eq!(answer.metadata.response_code, code);
        }
        // A name that does not exist is an answer.
        let none = upstream_that_says(ResponseCode::NXDomain).await;
        let address = serve(resolver(vec![none, good])).await;
        let answer = ask(address, "example.com.", false).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    }

    /// Opens connections from one address, asks on each again and again, and reads
    /// nothing.
    async fn attack(server: SocketAddr, connections: usize) -> Vec<TcpStream> {
        let mut open = Vec::new();
        for _ in 0..connections {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.66:0".parse().unwrap()).unwrap();
            if let Ok(stream) = socket.connect(server).await {
                let mut framed = Vec::new();
                let question = question("db.default.svc.cluster.local.");
                for _ in 0..200 {
                    framed.extend(u16::try_from(question.len()).unwrap().to_be_bytes());
                    framed.extend(&question);
                }
                // Closed already, or full: either way it is asked no more.
                let _ = stream.try_write(&framed);
                open.push(stream);
            }
        }
        open
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_client_that_does_not_read_delays_nobody_else() {
        let endpoints: Vec<_> = (0..200)
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
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let udp = Arc::new(UdpSocket::bind(address).await.unwrap());
        // A tenth of the usual, so that few descriptors do.
        let limits = Limits {
            questions: ClientLimit::new(100, 20),
            connections: ClientLimit::new(50, 8),
            slow: SLOW,
        };
        let end = CancellationToken::new();
        for task in super::serve(&many, udp, tcp, &limits, &end) {
            tokio::spawn(task);
        }
        // The attacker's eight connections are answered in turn with others. How long an
        // answer takes depends on the machine and on what else it does.
        let mut alone = Vec::new();
        for _ in 0..20 {
            let begun = std::time::Instant::now();
            ask(address, "db.default.svc.cluster.local.", true).await;
            alone.push(begun.elapsed());
        }
        alone.sort();
        let bound = Duration::from_millis(500).max(alone[10] * 8 * 4);
        let held = attack(address, 150).await;
        let mut slowest = Duration::ZERO;
        for round in 0..40 {
            let begun = std::time::Instant::now();
            let answer = ask(address, "web.default.svc.cluster.local.", round % 2 == 0).await;
            assert_eq!(answer.answers.len(), 1);
            slowest = slowest.max(begun.elapsed());
        }
        assert!(slowest < bound, "{slowest:?} of {bound:?}");
        let connected = limits.connections.acquire("127.0.0.66".parse().unwrap());
        assert!(connected.is_none(), "the attacker holds its share, no more");
        drop(held);
    }

    #[tokio::test]
    async fn a_connection_whose_client_does_not_read_is_closed() {
        let resolver = resolver(Vec::new());
        // Small buffers, so that few answers fill them. The accepted socket inherits them.
        let socket = || {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_send_buffer_size(4096).unwrap();
            socket.set_recv_buffer_size(4096).unwrap();
            socket
        };
        let listening = socket();
        listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = listening.listen(1).unwrap();
        let client = socket().connect(listener.local_addr().unwrap());
        let client = client.await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let question = question("web.default.svc.cluster.local.");
        let mut framed = u16::try_from(question.len())
            .unwrap()
            .to_be_bytes()
            .to_vec();
        framed.extend(&question);
        let conversation = converse(&resolver, server, Duration::from_millis(200));
        let flood = async {
            loop {
                client.writable().await.unwrap();
                if client.try_write(&framed).is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        };
        let ended = tokio::select! {
            ended = tokio::time::timeout(Duration::from_secs(20), conversation) => ended,
            () = flood => unreachable!("it never ends"),
        };
        let error = ended.expect("it ends").expect_err("by the timeout");
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
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
    async fn questions_are_answered_again_after_the_tasks_panicked() {
        let supervisor = control_supervise::Supervisor::new();
        let test = async {
            let address = serve(resolver(Vec::new())).await;
            for (task, tcp) in [("dns-udp", false), ("dns-tcp", true)] {
                assert_eq!(supervisor.panic(task), 1);
                while supervisor.restarts(task) == 0 || !supervisor.unhealthy().is_empty() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                // The sockets stay: what comes meanwhile is answered, too.
                let answer = ask(address, "web.default.svc.cluster.local.", tcp).await;
                assert_eq!(
                    answer.metadata.response_code,
                    ResponseCode::NoError,
                    "{task}"
                );
                assert!(!answer.answers.is_empty(), "{task}");
            }
            assert_eq!(supervisor.failure(), None);
        };
        let test = supervisor.scope(test);
        let within = Duration::from_secs(30);
        tokio::time::timeout(within, test).await.expect("in time");
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
        assert!(cut.metadata.truncation);
        assert_eq!(cut.answers.len(), 29, "as many as 512 bytes hold");
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
