//! Options of the API server's request chain: kube-apiserver's, under its names.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use control_apiserver::{
    chain::{Origins, Settings},
    features::Gates,
};
use control_audit::{
    Audit, Batch, Format, LogOptions, Mode as AuditMode, Policy, SinkOptions, SinkTarget, Truncate,
};
use control_proxy::egress::{Egress, Kind};
use control_tracing::Tracer;

use control_pki::TlsLimits;

use crate::{
    error::Error,
    values::{InvalidValue, duration},
};

/// How requests are limited, queued, answered and written down.
#[derive(Args)]
#[group(id = "requests")]
pub struct Options {
    #[command(flatten)]
    pub admission: crate::admission::Options,
    /// Queue requests by priority and fairness; otherwise the two limits reject excess
    /// requests.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    enable_priority_and_fairness: bool,
    /// Serve the paths of the profiler at /debug/pprof.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    profiling: bool,
    /// Feature gates to turn on or off; docs/how-to/run-the-server.md lists them.
    #[arg(long, value_delimiter = ',', value_name = "NAME=BOOL")]
    feature_gates: Vec<String>,
    /// Reading requests at the same time; the sum of both limits is what priority and fairness divides.
    #[arg(long, default_value_t = 400)]
    max_requests_inflight: usize,
    /// Writing requests at the same time.
    #[arg(long, default_value_t = 200)]
    max_mutating_requests_inflight: usize,
    /// How long a request may take that is not a watch or the like.
    #[arg(long, default_value = "1m", value_parser = duration)]
    request_timeout: Duration,
    /// How long, in seconds, a watch lasts at least whose client does not say.
    #[arg(long, default_value_t = 1800)]
    min_request_timeout: u64,
    /// Fraction of HTTP/2 requests answered with GOAWAY, so that clients spread; at most
    /// 0.02.
    #[arg(long, default_value_t = 0.0, value_parser = chance)]
    goaway_chance: f64,
    /// Patterns of the origins from where browsers may call.
    #[arg(long, value_delimiter = ',')]
    cors_allowed_origins: Vec<String>,
    /// Directives of the Strict-Transport-Security header.
    #[arg(long, value_delimiter = ',')]
    strict_transport_security_directives: Vec<String>,
    /// Time for which the server continues after a termination signal, while it reports
    /// that it is not ready.
    #[arg(long, default_value = "0s", value_parser = duration)]
    shutdown_delay_duration: Duration,
    /// Answer later requests with 429 while open requests end, instead of closing the
    /// socket.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    shutdown_send_retry_after: bool,
    /// The oldest version of TLS that clients may speak; 1.3 is preferred in any case.
    #[arg(long, value_enum, default_value = "VersionTLS13")]
    tls_min_version: TlsVersion,
    /// Cipher suites by their IANA names; all supported ones by default, none of them
    /// weak.
    #[arg(long, value_delimiter = ',')]
    tls_cipher_suites: Vec<String>,
    /// EgressSelectorConfiguration of kube-apiserver for connections to the control
    /// plane, the cluster and etcd. Without it, all connections are direct.
    #[arg(long, value_name = "FILE")]
    egress_selector_config_file: Option<PathBuf>,
    /// TracingConfiguration of kube-apiserver with the destination of traces.
    #[arg(long, value_name = "FILE")]
    tracing_config_file: Option<PathBuf>,
    /// File with the audit policy, which selects requests and their level of detail.
    #[arg(long)]
    audit_policy_file: Option<PathBuf>,
    /// File to which audit events are written; `-` is the standard output.
    #[arg(long)]
    audit_log_path: Option<PathBuf>,
    /// Days for which old audit logs are kept; 0 for ever.
    #[arg(long, default_value_t = 366)]
    audit_log_maxage: u32,
    /// How many old audit logs are kept; 0 for all.
    #[arg(long, default_value_t = 100)]
    audit_log_maxbackup: usize,
    /// Megabytes after which a new audit log is begun; 0 for never.
    #[arg(long, default_value_t = 100)]
    audit_log_maxsize: u64,
    /// Compress old audit logs.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    audit_log_compress: bool,
    /// Format of the audit log.
    #[arg(long, value_enum, default_value = "json")]
    audit_log_format: LogFormat,
    /// Whether requests wait until their events are in the audit log.
    #[arg(long, value_enum, default_value = "blocking")]
    audit_log_mode: Mode,
    /// Events that wait for the audit log at most, in mode batch.
    #[arg(long, default_value_t = 10_000)]
    audit_log_batch_buffer_size: usize,
    /// Whether large events lose their objects in the audit log.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    audit_log_truncate_enabled: bool,
    /// Bytes of an event from which on it is truncated in the audit log.
    #[arg(long, default_value_t = 102_400)]
    audit_log_truncate_max_event_size: usize,
    /// Kubeconfig of a server to which audit events are sent.
    #[arg(long)]
    audit_webhook_config_file: Option<PathBuf>,
    /// How long is waited after the first attempt to send events that failed.
    #[arg(long, default_value = "10s", value_parser = duration)]
    audit_webhook_initial_backoff: Duration,
    /// Whether requests wait until their events are sent.
    #[arg(long, value_enum, default_value = "batch")]
    audit_webhook_mode: Mode,
    /// Events that wait to be sent at most.
    #[arg(long, default_value_t = 10_000)]
    audit_webhook_batch_buffer_size: usize,
    /// Events that are sent together at most.
    #[arg(long, default_value_t = 400)]
    audit_webhook_batch_max_size: usize,
    /// How long is waited for events that are sent together.
    #[arg(long, default_value = "30s", value_parser = duration)]
    audit_webhook_batch_max_wait: Duration,
    /// Whether batches are sent no faster than the next two options say.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    audit_webhook_batch_throttle_enable: bool,
    /// Batches a second.
    #[arg(long, default_value_t = 10.0)]
    audit_webhook_batch_throttle_qps: f64,
    /// Burst of batches after a pause.
    #[arg(long, default_value_t = 15)]
    audit_webhook_batch_throttle_burst: u32,
    /// Whether large events lose their objects when they are sent.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    audit_webhook_truncate_enabled: bool,
    /// Bytes of an event from which on it is truncated when sent.
    #[arg(long, default_value_t = 102_400)]
    audit_webhook_truncate_max_event_size: usize,
    /// Bytes that are sent together at most, when events are truncated.
    #[arg(long, default_value_t = 10_485_760)]
    audit_webhook_truncate_max_batch_size: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TlsVersion {
    #[value(name = "VersionTLS12")]
    Tls12,
    #[value(name = "VersionTLS13")]
    Tls13,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Json,
    Legacy,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Batch,
    Blocking,
    BlockingStrict,
}

fn chance(text: &str) -> Result<f64, InvalidValue> {
    let wrong = || InvalidValue::new(text, "chance", "write a number from 0 to 0.02");
    let chance: f64 = text.parse().map_err(|_| wrong())?;
    if (0.0..=0.02).contains(&chance) {
        Ok(chance)
    } else {
        Err(wrong())
    }
}

impl Mode {
    fn with(self, batch: Batch) -> AuditMode {
        match self {
            Self::Batch => AuditMode::Batch(batch),
            Self::Blocking => AuditMode::Blocking,
            Self::BlockingStrict => AuditMode::BlockingStrict,
        }
    }
}

impl Options {
    /// Returns the TLS settings of the socket.
    pub fn tls(&self) -> TlsLimits {
        TlsLimits {
            tls12: self.tls_min_version == TlsVersion::Tls12,
            suites: self.tls_cipher_suites.clone(),
        }
    }

    /// Returns the egress configuration.
    ///
    /// # Errors
    /// When its file is unusable.
    pub fn egress(&self) -> Result<Egress, Error> {
        let file = self.egress_selector_config_file.as_deref();
        let read = file.map(Egress::read).transpose();
        Ok(read.map_err(Error::Egress)?.unwrap_or_default())
    }

    /// Returns the enabled features.
    ///
    /// # Errors
    /// When a gate does not allow its value.
    pub fn gates(&self) -> Result<Gates, Error> {
        let gates = Gates::parse(self.feature_gates.iter().map(String::as_str));
        gates.map_err(|error| Error::Option(format!("--feature-gates: {error}")))
    }

    /// Returns the settings of the request chain. Opens the audit log.
    ///
    /// # Errors
    /// When a pattern, a policy or a sink is unusable.
    pub fn settings(&self, egress: &Egress) -> Result<Settings, Error> {
        let origins = self.cors_allowed_origins.iter().map(String::as_str);
        let origins = (!self.cors_allowed_origins.is_empty())
            .then(|| Origins::new(origins))
            .transpose()
            .map_err(|error| {
                Error::Option(format!("--cors-allowed-origins cannot be used: {error}"))
            })?;
        let gates = self.gates()?;
        let tracer = self.tracer(egress)?;
        let admission = self.admission.settings()?;
        Ok(Settings {
            gates,
            priority_and_fairness: self.enable_priority_and_fairness,
            max_requests: self.max_requests_inflight,
            max_mutating_requests: self.max_mutating_requests_inflight,
            request_timeout: self.request_timeout,
            min_request_timeout: Duration::from_secs(self.min_request_timeout),
            goaway_chance: self.goaway_chance,
            profiling: self.profiling,
            origins,
            transport_security: self.strict_transport_security_directives.join("; "),
            shutdown_delay: self.shutdown_delay_duration,
            shutdown_retry_after: self.shutdown_send_retry_after,
            tracer,
            // Last: it may create a log.
            audit: self.audit(egress)?,
            admission,
            ..Settings::default()
        })
    }

    /// Whether some requests are traced.
    pub fn is_traced(&self) -> bool {
        self.tracing_config_file.is_some()
    }

    fn tracer(&self, egress: &Egress) -> Result<Option<std::sync::Arc<Tracer>>, Error> {
        let Some(path) = &self.tracing_config_file else {
            return Ok(None);
        };
        let config = control_tracing::Config::read(path).map_err(Error::Tracing)?;
        let dialer = egress.to(Kind::ControlPlane);
        let tracer = Tracer::new(&config, dialer).map_err(Error::Tracing)?;
        Ok(Some(tracer))
    }

    fn audit(&self, egress: &Egress) -> Result<Option<std::sync::Arc<Audit>>, Error> {
        let sinks: Vec<SinkOptions> = self.log().into_iter().chain(self.webhook(egress)).collect();
        let Some(policy) = &self.audit_policy_file else {
            if !sinks.is_empty() {
                tracing::warn!("without --audit-policy-file no audit events are written");
            }
            return Ok(None);
        };
        let policy = Policy::read(policy).map_err(Error::AuditPolicy)?;
        if sinks.is_empty() {
            return Ok(None);
        }
        Audit::open(policy, sinks).map(Some).map_err(Error::Audit)
    }

    fn log(&self) -> Option<SinkOptions> {
        let path = self.audit_log_path.clone()?;
        let batch = Batch {
            buffer: self.audit_log_batch_buffer_size,
            ..Batch::of_log()
        };
        Some(SinkOptions {
            to: SinkTarget::Log(LogOptions {
                path,
                format: match self.audit_log_format {
                    LogFormat::Json => Format::Json,
                    LogFormat::Legacy => Format::Legacy,
                },
                max_size: self.audit_log_maxsize,
                max_age: self.audit_log_maxage,
                max_backups: self.audit_log_maxbackup,
                compress: self.audit_log_compress,
            }),
            mode: self.audit_log_mode.with(batch),
            truncate: self.audit_log_truncate_enabled.then(|| Truncate {
                event: self.audit_log_truncate_max_event_size,
                ..Truncate::default()
            }),
        })
    }

    fn webhook(&self, egress: &Egress) -> Option<SinkOptions> {
        let config = self.audit_webhook_config_file.clone()?;
        let rate = (
            self.audit_webhook_batch_throttle_qps,
            self.audit_webhook_batch_throttle_burst,
        );
        let batch = Batch {
            buffer: self.audit_webhook_batch_buffer_size,
            most: self.audit_webhook_batch_max_size.max(1),
            wait: self.audit_webhook_batch_max_wait,
            throttle: self.audit_webhook_batch_throttle_enable.then_some(rate),
        };
        Some(SinkOptions {
            to: SinkTarget::Webhook {
                config,
                backoff: self.audit_webhook_initial_backoff,
                dialer: egress.to(Kind::ControlPlane),
            },
            mode: self.audit_webhook_mode.with(batch),
            truncate: self.audit_webhook_truncate_enabled.then_some(Truncate {
                event: self.audit_webhook_truncate_max_event_size,
                batch: self.audit_webhook_truncate_max_batch_size,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        requests: Options,
    }

    fn settings(arguments: &[&str]) -> Result<Settings, Error> {
        let all = std::iter::once("orlop").chain(arguments.iter().copied());
        Command::try_parse_from(all)
            .expect("arguments")
            .requests
            .settings(&Egress::default())
    }

    #[test]
    fn options_are_kube_apiservers_and_so_are_their_defaults() {
        let usual = settings(&[]).expect("settings");
        assert_eq!(
            (usual.max_requests, usual.max_mutating_requests),
            (400, 200)
        );
        assert_eq!(usual.request_timeout, Duration::from_secs(60));
        assert!(usual.priority_and_fairness && usual.audit.is_none());
        assert!(usual.profiling);
        let other = settings(&[
            "--enable-priority-and-fairness=false",
            "--profiling=false",
            "--request-timeout=90s",
            "--goaway-chance=0.01",
            "--strict-transport-security-directives=max-age=31536000,includeSubDomains",
            "--shutdown-delay-duration=1m10s",
            "--shutdown-send-retry-after=true",
        ])
        .expect("settings");
        assert!(!other.priority_and_fairness && other.shutdown_retry_after);
        assert!(!other.profiling);
        assert_eq!(other.shutdown_delay, Duration::from_secs(70));
        assert_eq!(
            other.transport_security,
            "max-age=31536000; includeSubDomains"
        );
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        assert!(settings(&["--cors-allowed-origins=("]).is_err());
        assert!(settings(&["--feature-gates=WatchList=false,NoSuch=true"]).is_err());
        assert!(settings(&["--audit-policy-file=/nowhere", "--audit-log-path=-"]).is_err());
        assert!(Command::try_parse_from(["orlop", "--goaway-chance=0.5"]).is_err());
    }
}
