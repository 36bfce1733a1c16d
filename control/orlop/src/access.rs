//! Command-line options for authentication and authorization; the flags are
//! kube-apiserver's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use control_access::configuration::authentication::Anonymous;
use control_access::configuration::authorization::{self, Webhook};
use control_access::oidc::{ALGORITHMS, Issuer, Mapping};
use control_access::{Abac, FrontProxy, TokenFile, Tokens};
use control_apiserver::features::{Feature, Gates};
use control_auth::{Settings, WebhookSettings};
use control_pki::{ClientTrust, Cluster, ServiceAccountKeys};
use control_proxy::Egress;

use crate::error::Error;
use crate::token_keys;
use crate::values::duration;

/// Authentication and authorization.
#[derive(Args, Default)]
#[group(id = "access")]
pub struct Options {
    /// Authorization modes, in this order: Node, RBAC, ABAC, Webhook, AlwaysAllow,
    /// AlwaysDeny.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "MODES",
        default_value = "Node,RBAC",
        conflicts_with = "authorization_config"
    )]
    pub authorization_mode: Vec<String>,
    /// AuthorizationConfiguration instead of --authorization-mode; reloaded when it
    /// changes.
    #[arg(long, value_name = "FILE")]
    pub authorization_config: Option<PathBuf>,
    /// Policies of the mode ABAC, one a line.
    #[arg(long, value_name = "FILE")]
    pub authorization_policy_file: Option<PathBuf>,
    /// Kubeconfig of the server that the mode Webhook asks.
    #[arg(long, value_name = "FILE")]
    pub authorization_webhook_config_file: Option<PathBuf>,
    /// Version of SubjectAccessReview that it takes.
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    pub authorization_webhook_version: String,
    /// How long it is remembered that it allows something.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub authorization_webhook_cache_authorized_ttl: Duration,
    /// How long it is remembered that it does not.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,
    /// AuthenticationConfiguration; reloaded when it changes.
    #[arg(long, value_name = "FILE", conflicts_with = "oidc_issuer_url")]
    pub authentication_config: Option<PathBuf>,
    /// Whether requests without credentials act as system:anonymous.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub anonymous_auth: bool,
    /// Whether Secrets in kube-system may hold bootstrap tokens.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_bootstrap_token_auth: bool,
    /// Tokens and their users: comma-separated values, token,name,uid,"groups".
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,
    /// Kubeconfig of a server that knows tokens.
    #[arg(long, value_name = "FILE")]
    pub authentication_token_webhook_config_file: Option<PathBuf>,
    /// Version of TokenReview that it takes.
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    pub authentication_token_webhook_version: String,
    /// How long its answers are remembered.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    pub authentication_token_webhook_cache_ttl: Duration,
    /// Issuer of ID tokens, an https URL.
    #[arg(long, value_name = "URL", requires = "oidc_client_id")]
    pub oidc_issuer_url: Option<String>,
    /// For whom its tokens must be.
    #[arg(long, value_name = "NAME", requires = "oidc_issuer_url")]
    pub oidc_client_id: Option<String>,
    /// Authority of its server; those that the machine believes unless given.
    #[arg(long, value_name = "FILE")]
    pub oidc_ca_file: Option<PathBuf>,
    /// The claim that is the user's name.
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    pub oidc_username_claim: String,
    /// Prefix of user names; the issuer's URL and `#` unless the claim is `email`; `-`
    /// for none.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub oidc_username_prefix: String,
    /// The claim that is the user's groups.
    #[arg(long, value_name = "CLAIM")]
    pub oidc_groups_claim: Option<String>,
    /// Prefix of groups.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub oidc_groups_prefix: String,
    /// A claim that must have a value (claim=value); may be given several times.
    #[arg(long, value_name = "CLAIM=VALUE")]
    pub oidc_required_claim: Vec<String>,
    /// Accepted signing algorithms of ID tokens.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "RS256"
    )]
    pub oidc_signing_algs: Vec<String>,
    /// Names of proxies that may name users in headers; none: all with a certificate
    /// of their authority.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "front-proxy-client"
    )]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers that name the user.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HEADERS",
        default_value = "X-Remote-User"
    )]
    pub requestheader_username_headers: Vec<String>,
    /// Headers that name the uid.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HEADERS",
        default_value = "X-Remote-Uid"
    )]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers that name groups.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HEADERS",
        default_value = "X-Remote-Group"
    )]
    pub requestheader_group_headers: Vec<String>,
    /// Prefix of headers with further attributes of the user.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PREFIXES",
        default_value = "X-Remote-Extra-"
    )]
    pub requestheader_extra_headers_prefix: Vec<String>,
    #[command(flatten)]
    pub token_keys: token_keys::Options,
    /// Issuers of service accounts' tokens: the first signs, all are believed.
    #[arg(long, value_name = "URL")]
    pub service_account_issuer: Vec<String>,
    /// Audiences of this server; the first issuer unless given.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub api_audiences: Vec<String>,
    /// The longest life of service accounts' tokens.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub service_account_max_token_expiration: Option<Duration>,
    /// Whether tokens live a year for pods that may not reload them.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub service_account_extend_token_expiration: bool,
}

/// How long a webhook of the flags may take to answer.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);

impl Options {
    /// Service accounts' tokens.
    pub fn tokens(&self, keys: ServiceAccountKeys) -> Tokens {
        let longest = self.service_account_max_token_expiration;
        let longest = longest.and_then(|time| i64::try_from(time.as_secs()).ok());
        Tokens::with(keys)
            .with_issuers(
                self.service_account_issuer.clone(),
                self.api_audiences.clone(),
            )
            .living(longest, self.service_account_extend_token_expiration)
    }

    /// Returns the configured authenticators and authorizers. Nothing is written:
    /// [`Options::front_proxy`] adds that of the front proxy once there is an authority.
    ///
    /// # Errors
    /// Unusable files, contradictory flags.
    pub fn settings(&self, egress: &Egress) -> Result<Settings, Error> {
        let webhook = self.authorization_webhook_config_file.as_ref();
        let authorizers = if self.authorization_config.is_some() {
            Vec::new()
        } else {
            let webhook = webhook.map(|kubeconfig| Webhook {
                name: "default".to_owned(),
                authorized: self.authorization_webhook_cache_authorized_ttl,
                unauthorized: self.authorization_webhook_cache_unauthorized_ttl,
                timeout: WEBHOOK_TIMEOUT,
                version: self.authorization_webhook_version.clone(),
                denies_on_failure: false,
                kubeconfig: kubeconfig.clone(),
                conditions: Vec::new(),
            });
            authorization::of_modes(&self.authorization_mode, webhook).map_err(Error::Access)?
        };
        let policies = self.authorization_policy_file.as_deref();
        let abac = policies.map(|path| parsed(path, Abac::parse)).transpose()?;
        let tokens = self.token_auth_file.as_deref();
        let token_file = tokens
            .map(|path| parsed(path, TokenFile::parse))
            .transpose()?;
        Ok(Settings {
            front_proxy: None,
            token_file,
            bootstrap_tokens: self.enable_bootstrap_token_auth,
            issuers: self.issuer()?.into_iter().collect(),
            authentication_file: self.authentication_config.clone(),
            webhook_tokens: self.authentication_token_webhook_config_file.as_ref().map(
                |kubeconfig| WebhookSettings {
                    kubeconfig: kubeconfig.clone(),
                    version: self.authentication_token_webhook_version.clone(),
                    lasts: self.authentication_token_webhook_cache_ttl,
                },
            ),
            anonymous: if self.anonymous_auth {
                Anonymous::Everywhere
            } else {
                Anonymous::Nowhere
            },
            authorizers,
            authorization_file: self.authorization_config.clone(),
            abac,
            egress: egress.clone(),
        })
    }

    /// Checks the options and the files that they name. Nothing is written.
    ///
    /// # Errors
    /// As [`Options::settings`], and unusable files.
    pub fn check(&self, egress: &Egress) -> Result<(), Error> {
        self.token_keys.check()?;
        let settings = self.settings(egress)?;
        settings
            .check(&self.service_account_issuer)
            .map_err(Error::Settings)
    }

    /// The front proxy's authority, and the headers by which it names users.
    ///
    /// # Errors
    /// An authority whose certificate cannot be used.
    pub fn front_proxy(
        &self,
        pki: &Cluster,
        gates: Gates,
    ) -> Result<(ClientTrust, FrontProxy), Error> {
        let trust = ClientTrust::new(pki.front_proxy_ca.certificate_pem()).map_err(Error::Pki)?;
        Ok((trust, self.proxy_headers(gates)))
    }

    fn proxy_headers(&self, gates: Gates) -> FrontProxy {
        let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect();
        FrontProxy {
            names: self.requestheader_allowed_names.clone(),
            user: lower(&self.requestheader_username_headers),
            uid: if gates.enabled(Feature::RemoteRequestHeaderUID) {
                lower(&self.requestheader_uid_headers)
            } else {
                Vec::new()
            },
            group: lower(&self.requestheader_group_headers),
            extra: lower(&self.requestheader_extra_headers_prefix),
        }
    }

    /// The issuer of the `--oidc-…` flags.
    fn issuer(&self) -> Result<Option<Issuer>, Error> {
        let Some((url, client)) = self
            .oidc_issuer_url
            .as_ref()
            .zip(self.oidc_client_id.as_ref())
        else {
            return Ok(None);
        };
        if !url.starts_with("https://") {
            let why = format!("--oidc-issuer-url: `{url}` must be an https URL");
            return Err(Error::Option(why));
        }
        let prefix = match (&*self.oidc_username_prefix, &*self.oidc_username_claim) {
            ("-", _) | ("", "email") => String::new(),
            ("", _) => format!("{url}#"),
            (prefix, _) => prefix.to_owned(),
        };
        let mut required = Vec::new();
        for claim in &self.oidc_required_claim {
            let (claim, value) = claim.split_once('=').ok_or_else(|| {
                Error::Option(format!(
                    "--oidc-required-claim: `{claim}` must be claim=value"
                ))
            })?;
            required.push((claim.to_owned(), value.to_owned()));
        }
        let unknown = |one: &&String| !ALGORITHMS.contains(&one.as_str());
        if let Some(unknown) = self.oidc_signing_algs.iter().find(unknown) {
            let known = ALGORITHMS.join(", ");
            let why = format!(
                "oidc: unsupported signing alg: {unknown:?}; --oidc-signing-algs takes {known}"
            );
            return Err(Error::Option(why));
        }
        let groups = self.oidc_groups_claim.clone();
        Ok(Some(Issuer {
            url: url.clone(),
            audiences: vec![client.clone()],
            authority: self.oidc_ca_file.as_deref().map(authority).transpose()?,
            algorithms: self.oidc_signing_algs.clone(),
            required,
            username: Mapping::Claim(self.oidc_username_claim.clone(), prefix),
            groups: groups.map(|claim| Mapping::Claim(claim, self.oidc_groups_prefix.clone())),
            ..Issuer::default()
        }))
    }
}

fn text(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

/// Reads the certificates of an authority.
fn authority(path: &Path) -> Result<String, Error> {
    let pem = text(path)?;
    ClientTrust::new(&pem).map_err(|why| Error::Option(format!("`{}`: {why}", path.display())))?;
    Ok(pem)
}

fn parsed<T, E: std::fmt::Display>(
    path: &Path,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, Error> {
    parse(&text(path)?).map_err(|why| Error::Option(format!("{}: {why}", path.display())))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn options(flags: &[&str]) -> Options {
        let command = std::iter::once(&"orlop").chain(flags);
        Command::try_parse_from(command).expect("flags").options
    }

    #[test]
    fn flags_mean_what_they_mean_to_kube_apiserver() {
        let plain = options(&[
            "--oidc-issuer-url=https://i",
            "--oidc-client-id=a",
            "--oidc-required-claim=hd=x",
            "--anonymous-auth=false",
        ]);
        let issuer = plain.issuer().expect("right").expect("an issuer");
        assert!(
            matches!(&issuer.username, Mapping::Claim(claim, prefix) if claim == "sub" && prefix == "https://i#")
        );
        assert_eq!(issuer.required, [("hd".to_owned(), "x".to_owned())]);
        assert!(!plain.anonymous_auth);
        let email = options(&[
            "--oidc-issuer-url=https://i",
            "--oidc-client-id=a",
            "--oidc-username-claim=email",
        ]);
        assert!(
            matches!(email.issuer().expect("right").expect("an issuer").username, Mapping::Claim(_, prefix) if prefix.is_empty())
        );
        for wrong in [
            &["--oidc-issuer-url=http://i", "--oidc-client-id=a"][..],
            &[
                "--oidc-issuer-url=https://i",
                "--oidc-client-id=a",
                "--oidc-signing-algs=ES512,HS256",
            ],
        ] {
            assert!(options(wrong).issuer().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn modes_and_files_are_checked_before_the_server_starts() {
        let dir = tempfile::tempdir().expect("a directory");
        let policies = dir.path().join("policies");
        std::fs::write(&policies, "x\n").expect("written");
        let policies = format!("--authorization-policy-file={}", policies.display());
        for wrong in [
            &["--authorization-mode=RBAC,RBAC"][..],
            &["--authorization-mode=Webhook"],
            &["--authorization-mode=rbac"],
            &["--token-auth-file=/does/not/exist"],
            &[&policies],
        ] {
            assert!(
                options(wrong).settings(&Egress::default()).is_err(),
                "{wrong:?}"
            );
        }
        let settings = options(&[])
            .settings(&Egress::default())
            .expect("the defaults");
        assert_eq!(settings.authorizers.len(), 2);
    }
}
