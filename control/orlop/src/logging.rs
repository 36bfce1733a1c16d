//! Logging: level and format.

use std::fmt::{self, Write as _};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The default filter. A joining machine connects to a server with an unknown
/// certificate, and verifies its authority by the hash: that is not worth a message.
const USUAL: &str = "info,kube_client::client::tls=error";
/// The levels of libraries when our own parts log details.
const DETAILS: &str = "debug,h2=info,hyper=info,hyper_util=info,rustls=info,tower=info,tonic=info,kube_client::client::tls=error";
const EVERYTHING: &str = "trace,h2=debug,hyper=debug,hyper_util=debug,rustls=debug,tower=debug";

/// Options of the log, under the names that Kubernetes' components have.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Log")]
pub struct LogOptions {
    /// Lines for people, or a JSON object a line.
    #[arg(long, value_enum, default_value = "text", global = true)]
    logging_format: Format,
    /// How much is logged: up to 3 what happens, 4 and 5 with details, 6 and more everything.
    /// The variable `ORLOP_LOG` says it for each part, as in ORLOP_LOG=info,control_controllers=trace.
    #[arg(
        short = 'v',
        long = "v",
        default_value_t = 2,
        value_name = "LEVEL",
        global = true
    )]
    verbosity: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// An event as a JSON object, with the keys that Kubernetes' components write: `ts`
/// (milliseconds since 1970), `caller`, `msg`, `v`, `err`; besides these `level`,
/// `logger` and the event's own fields.
struct Json;

/// The fields of an event.
struct Fields(Map<String, Value>);

// === impl Logging ===

impl LogOptions {
    /// Sends later log messages to standard error.
    pub fn begin(&self) {
        let filter = EnvFilter::try_from_env("ORLOP_LOG")
            .unwrap_or_else(|_| EnvFilter::new(self.directives()));
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false)
            .with_writer(std::io::stderr);
        match self.logging_format {
            Format::Text => log.init(),
            Format::Json => log.event_format(Json).init(),
        }
    }

    fn directives(&self) -> &'static str {
        match self.verbosity {
            0..=3 => USUAL,
            4 | 5 => DETAILS,
            _ => EVERYTHING,
        }
    }
}

// === impl Json ===

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let now = jiff::Timestamp::now();
        writeln!(writer, "{}", line(event, now))
    }
}

fn line(event: &Event<'_>, now: jiff::Timestamp) -> Value {
    let metadata = event.metadata();
    let micros = now.as_microsecond();
    #[expect(clippy::cast_precision_loss, reason = "microseconds of this age fit")]
    let mut fields = Map::from_iter([("ts".to_owned(), Value::from(micros as f64 / 1000.0))]);
    let (level, v) = match *metadata.level() {
        Level::ERROR => ("error", 0),
        Level::WARN => ("warn", 0),
        Level::INFO => ("info", 0),
        Level::DEBUG => ("debug", 4),
        Level::TRACE => ("trace", 6),
    };
    fields.insert("level".to_owned(), level.into());
    fields.insert("v".to_owned(), v.into());
    fields.insert("logger".to_owned(), metadata.target().into());
    if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
        fields.insert("caller".to_owned(), format!("{file}:{line}").into());
    }
    let mut fields = Fields(fields);
    event.record(&mut fields);
    Value::Object(fields.0)
}

// === impl Fields ===

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        let name = match field.name() {
            "message" => "msg",
            "error" => "err",
            name => name,
        };
        self.0.insert(name.to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, crate::run::all_causes(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.put(field, text);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_an_object_with_kubernetes_keys() {
        let kept = Kept::default();
        let writer = kept.clone();
        let log = tracing_subscriber::fmt()
            .event_format(Json)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(log, || {
            let error = io::Error::other("\"no\"\nroom");
            tracing::warn!(count = 3, path = %"/a b", error = %error, ready = true, "it failed");
        });
        let text = String::from_utf8(kept.0.lock().expect("not poisoned").clone()).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).expect("JSON");
        for (key, value) in [
            ("msg", Value::from("it failed")),
            ("err", "\"no\"\nroom".into()),
            ("count", 3.into()),
            ("path", "/a b".into()),
            ("ready", true.into()),
            ("level", "warn".into()),
            ("v", 0.into()),
        ] {
            assert_eq!(line[key], value, "{text}");
        }
        assert!(line["ts"].as_f64().expect("a number") > 1.7e12);
        assert!(
            line["caller"]
                .as_str()
                .expect("a place")
                .contains("logging.rs:")
        );
    }
}
