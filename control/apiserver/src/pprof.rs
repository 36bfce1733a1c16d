//! `/debug/pprof`, the paths of Go's profiler, as far as a program in another language can
//! answer them. The profiles of Go's runtime (heap, goroutine, CPU and so on) do not exist
//! here: their paths answer as stock does for a profile that it does not know.

use http::header::LOCATION;
use http::{HeaderValue, Response};

use control_registry::reply;
use control_request::body::Body;

const ROOT: &str = "/debug/pprof/";
/// The index lists only what the server serves.
const INDEX: &str = "<html>
<head>
<title>/debug/pprof/</title>
</head>
<body>
<p>This server is not written in Go and has no profiles of Go's runtime.</p>
<ul>
<li><a href=\"symbol\">symbol</a>: the number of symbols; 0, since program counters are not mapped to names.</li>
</ul>
</body>
</html>
";

/// Returns the response for a path at or below `/debug/pprof`.
pub(crate) fn answer(path: &str) -> Option<Response<Body>> {
    if path == ROOT.trim_end_matches('/') {
        let mut answer = html(302, format!("<a href=\"{ROOT}\">Found</a>.\n\n"));
        let location = HeaderValue::from_static(ROOT);
        answer.headers_mut().insert(LOCATION, location);
        return Some(answer);
    }
    Some(match path.strip_prefix(ROOT)? {
        "" => html(200, INDEX),
        // The line that tells `go tool pprof` to look for symbols elsewhere.
        "symbol" => reply::text(200, "num_symbols: 0\n"),
        _ => {
            let mut answer = reply::text(404, "Unknown profile\n");
            // Clients of the profiler tell its errors from a proxy's by this header.
            let mark = HeaderValue::from_static("1");
            answer.headers_mut().insert("x-go-pprof", mark);
            answer
        }
    })
}

fn html(code: u16, text: impl Into<String>) -> Response<Body> {
    reply::bytes(code, "text/html; charset=utf-8", text.into())
}
