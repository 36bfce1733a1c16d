//! `httpGet` of probes and hooks: GET, with redirects followed that stay on the host,
//! ten at most, as the kubelet does.

use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use node_agent_objects::pod::HttpGet;
use tokio::net::TcpStream;

use super::hooks::{HookOutcome, HookTarget, OUTPUT_MOST};

/// How many requests there are for one probe at most.
const MOST: usize = 10;

/// The parsed URL of an HTTP probe.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProbeUrl {
    https: bool,
    host: String,
    port: u16,
    /// With its query.
    path: String,
}

/// The response to an HTTP probe.
pub(super) struct HttpResponse {
    status: u16,
    location: Option<String>,
    body: String,
}

impl ProbeUrl {
    fn of(get: &HttpGet, ip: &str, port: u16) -> Self {
        let host = if get.host.is_empty() { ip } else { &get.host };
        let slash = if get.path.starts_with('/') { "" } else { "/" };
        Self {
            https: get.scheme.eq_ignore_ascii_case("HTTPS"),
            host: host.to_owned(),
            port,
            path: format!("{slash}{}", get.path),
        }
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Where `location` leads from here (RFC 3986, 5.2); none if that is no address.
    fn redirected(&self, location: &str) -> Option<Self> {
        let scheme = if self.https { "https" } else { "http" };
        let here = self.path.split(['?', '#']).next().unwrap_or("/");
        let path = if location.starts_with("//") {
            return self.redirected(&format!("{scheme}:{location}"));
        } else if location.starts_with('/') {
            location.to_owned()
        } else if location.starts_with('?') {
            format!("{here}{location}")
        } else if location.contains("://") {
            let uri: http::Uri = location.split('#').next()?.parse().ok()?;
            let https = match uri.scheme_str()? {
                "http" => false,
                "https" => true,
                _ => return None,
            };
            let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
            let path = uri.path_and_query().map_or("/", |path| path.as_str());
            return Some(Self {
                https,
                host: host.to_owned(),
                port: uri.port_u16().unwrap_or(if https { 443 } else { 80 }),
                path: path.to_owned(),
            });
        } else {
            let folder = here.rfind('/').and_then(|end| here.get(..=end));
            format!("{}{location}", folder.unwrap_or("/"))
        };
        Some(Self {
            path: path.split('#').next().unwrap_or("/").to_owned(),
            ..self.clone()
        })
    }
}

impl std::fmt::Display for ProbeUrl {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(out, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// What is asked for, for messages.
pub(super) fn url(get: &HttpGet, place: HookTarget<'_>) -> String {
    let port = place.container.resolve_port(&get.port).unwrap_or(0);
    ProbeUrl::of(get, place.ip, port).to_string()
}

/// Whether a container answers as it should: 200 to 399. That it would send the probe to
/// another host is told.
pub(super) async fn probe(get: &HttpGet, place: HookTarget<'_>) -> HookOutcome {
    let HttpResponse { status, body, .. } = match send(get, place).await {
        Ok(answer) => answer,
        Err(outcome) => return outcome,
    };
    match status {
        200..300 => HookOutcome::Success,
        300..400 => {
            HookOutcome::Warning(format!("Probe terminated redirects, Response body: {body}"))
        }
        _ => HookOutcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
    }
}

/// Sends an HTTP probe and reads the response.
pub(super) async fn send(
    get: &HttpGet,
    place: HookTarget<'_>,
) -> Result<HttpResponse, HookOutcome> {
    let Some(port) = place.container.resolve_port(&get.port) else {
        let port = &get.port;
        return Err(HookOutcome::Unknown(format!(
            "couldn't find port: {port:?}"
        )));
    };
    let first = ProbeUrl::of(get, place.ip, port);
    let mut url = first.clone();
    for _ in 0..MOST {
        let answer = one(get, &url).await?;
        let next = match (answer.status, &answer.location) {
            (301 | 302 | 303 | 307 | 308, Some(location)) => url.redirected(location),
            _ => None,
        };
        match next.filter(|next| next.host == first.host) {
            None => return Ok(answer),
            Some(next) => url = next,
        }
    }
    Err(HookOutcome::Failure(format!(
        "Get \"{url}\": stopped after {MOST} redirects"
    )))
}

async fn one(get: &HttpGet, url: &ProbeUrl) -> Result<HttpResponse, HookOutcome> {
    let failure = |error: String| HookOutcome::Failure(format!("Get \"{url}\": {error}"));
    let stream = TcpStream::connect((url.host.as_str(), url.port))
        .await
        .map_err(|error| failure(format!("dial tcp {}: {error}", url.authority())))?;
    let named = |name: &str| {
        let mut headers = get.http_headers.iter();
        headers
            .find(|h| h.name.eq_ignore_ascii_case(name))
            .map(|h| h.value.clone())
    };
    let mut request = http::Request::builder()
        .method("GET")
        .uri(url.path.as_str())
        .header("Host", named("Host").unwrap_or_else(|| url.authority()))
        .header("Connection", "close");
    if named("User-Agent").is_none() {
        request = request.header("User-Agent", "kube-probe/1.36");
    }
    if named("Accept").is_none() {
        request = request.header("Accept", "*/*");
    }
    for header in get
        .http_headers
        .iter()
        .filter(|h| !h.name.eq_ignore_ascii_case("Host"))
    {
        request = request.header(&header.name, &header.value);
    }
    let request = request
        .body(Empty::<bytes::Bytes>::new())
        .map_err(|error| HookOutcome::Unknown(error.to_string()))?;
    let answer = if url.https {
        let stream = tls(stream, &url.host)
            .await
            .map_err(|e| failure(e.to_string()))?;
        exchange(TokioIo::new(stream), request).await
    } else {
        exchange(TokioIo::new(stream), request).await
    };
    answer.map_err(|error| failure(error.to_string()))
}

async fn exchange<T>(
    io: T,
    request: http::Request<Empty<bytes::Bytes>>,
) -> Result<HttpResponse, hyper::Error>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    let driver = tokio::spawn(connection);
    let result = match sender.send_request(request).await {
        Ok(answer) => {
            let location = answer.headers().get(http::header::LOCATION);
            let location = location.and_then(|value| value.to_str().ok());
            Ok(HttpResponse {
                status: answer.status().as_u16(),
                location: location.map(str::to_owned),
                // read, so that the server does not see a broken connection
                body: text(answer.into_body()).await,
            })
        }
        Err(error) => Err(error),
    };
    driver.abort();
    result
}

/// The beginning of a body.
async fn text(body: hyper::body::Incoming) -> String {
    let mut body = std::pin::pin!(Limited::new(body, OUTPUT_MOST));
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    String::from_utf8_lossy(&bytes).trim_end().to_owned()
}

async fn tls(
    stream: TcpStream,
    host: &str,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let name = rustls::pki_types::ServerName::try_from(host.to_owned())
        .map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidInput, e))?;
    tokio_rustls::TlsConnector::from(crate::tls::unverified())
        .connect(name, stream)
        .await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use node_agent_cri::fake::Fake;
    use node_agent_objects::pod::Container;

    #[test]
    fn locations_are_resolved() {
        let get: HttpGet =
            serde_json::from_value(serde_json::json!({"path": "a/b?c", "port": 1})).unwrap();
        let url = ProbeUrl::of(&get, "::1", 80);
        assert_eq!(url.to_string(), "http://[::1]:80/a/b?c");
        for (location, wanted) in [
            ("/x?y#z", "http://[::1]:80/x?y"),
            ("x", "http://[::1]:80/a/x"),
            ("?q", "http://[::1]:80/a/b?q"),
            ("https://[::1]", "https://[::1]:443/"),
            ("http://other:8080/x", "http://other:8080/x"),
            ("//other", "http://other:80/"),
        ] {
            let found = url.redirected(location).map(|url| url.to_string());
            assert_eq!(found.as_deref(), Some(wanted), "{location}");
        }
        assert_eq!(url.redirected("ftp://::1/"), None);
    }

    /// Answers each path as `table` says, and everything else with 200.
    async fn server(table: &'static [(&'static str, &'static str)]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = vec![0; 4096];
                let count = stream.read(&mut bytes).await.unwrap_or(0);
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default();
                let found = table.iter().find(|(at, _)| *at == path);
                let answer = found.map_or("200 OK", |(_, answer)| answer);
                let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 4\r\n\r\nbody");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        port
    }

    #[tokio::test]
    async fn redirects_are_followed_on_the_host_and_told_when_they_leave_it() {
        let port = server(&[
            ("/good", "302 Found\r\nlocation: /"),
            ("/bad", "302 Found\r\nlocation: /broken"),
            ("/broken", "500 Sorry"),
            ("/away", "302 Found\r\nlocation: http://0.0.0.0/"),
            ("/round", "302 Found\r\nlocation: /round"),
        ])
        .await;
        let runtime = Fake::default();
        let container = Container::default();
        let place = HookTarget {
            runtime: &runtime,
            container: &container,
            id: "",
            ip: "127.0.0.1",
        };
        let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
        for (path, wanted) in [
            ("/good", HookOutcome::Success),
            (
                "/bad",
                HookOutcome::Failure("HTTP probe failed with statuscode: 500".to_owned()),
            ),
            (
                "/away",
                HookOutcome::Warning("Probe terminated redirects, Response body: body".to_owned()),
            ),
            (
                "/round",
                HookOutcome::Failure(format!(
                    "Get \"{}\": stopped after 10 redirects",
                    url("/round")
                )),
            ),
        ] {
            let get: HttpGet =
                serde_json::from_value(serde_json::json!({"path": path, "port": port})).unwrap();
            assert_eq!(probe(&get, place).await, wanted, "{path}");
        }
    }
}
