//! Credential provider plugins: programs that know a registry's passwords
//! (KEP-2133, with service accounts' tokens KEP-4412).
//!
//! They are found where they are put: `credentialprovider/config.yaml`, a
//! `CredentialProviderConfig` of `kubelet.config.k8s.io/v1`, and the programs in
//! `credentialprovider/bin`, both below the agent's folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use node_agent_cri::api;
use node_agent_objects::error_chain;
use node_agent_objects::pod::Pod;
use node_agent_objects::source::{ObjectReader, ReadError, TokenSpec};
use node_agent_objects::times;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::credentials::{self, Credential, CredentialSource, PullAccount};

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most that a program may say.
const MOST: u64 = 1 << 20;

/// Seconds that tokens for programs live: the API's default.
const TOKEN_LIFE: i64 = 3600;

/// Why the credential provider configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is none.
    #[error("`{}` is no CredentialProviderConfig", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ConfigError,
    },
}

/// Why a text is no usable `CredentialProviderConfig`.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not YAML, or lacks fields.
    #[error(transparent)]
    Yaml(#[from] serde_saphyr::Error),
    /// It is another object.
    #[error("it is a `{version} {kind}`")]
    Kind {
        /// Its apiVersion.
        version: String,
        /// Its kind.
        kind: String,
    },
    /// It names no provider.
    #[error("providers: at least 1 item is required")]
    NoProviders,
    /// A provider breaks a rule.
    #[error("provider `{name}`: {rule}")]
    Provider {
        /// The provider.
        name: String,
        /// The rule.
        rule: &'static str,
    },
    /// Another file has a provider of the same name.
    #[error("provider `{0}` is in another file too")]
    Duplicate(String),
}

/// Why a credential provider plugin returned no credentials.
#[derive(Debug, thiserror::Error)]
enum PluginError {
    /// The pod's service account, or a token of it, cannot be had.
    #[error(transparent)]
    Account(#[from] ReadError),
    /// The program cannot be started.
    #[error("cannot run `{}`", program.display())]
    Spawn {
        program: PathBuf,
        source: std::io::Error,
    },
    /// The program takes too long.
    #[error("it did not end within {} s", PATIENCE.as_secs())]
    Timeout,
    /// Its output cannot be read.
    #[error("cannot talk to it")]
    Pipe(#[source] std::io::Error),
    /// It exits with a code other than zero.
    #[error("it failed ({status}): {complaint}")]
    Exit {
        status: ExitStatus,
        complaint: String,
    },
    /// Its output is not a response. It may hold passwords, and stays out of messages.
    #[error("what it answered is no CredentialProviderResponse")]
    NoResponse,
    /// Its response is of another version.
    #[error("it answered with `{version} {kind}` instead of {wanted}")]
    Version {
        version: String,
        kind: String,
        wanted: String,
    },
    /// Its response does not say for which images it is.
    #[error("it did not return a valid cacheKeyType: {0}")]
    CacheKeyType(String),
    /// Its response is the token that it was given.
    #[error(
        "it returned the service account token as the password, which is only allowed with cacheType Token"
    )]
    EchoedToken,
    /// Its response does not say how long it is valid.
    #[error("its cacheDuration `{0}` is no duration")]
    CacheDuration(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigFile {
    api_version: String,
    kind: String,
    providers: Vec<ProviderConfig>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProviderConfig {
    name: String,
    match_images: Vec<String>,
    default_cache_duration: String,
    api_version: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<ProviderEnv>>,
    token_attributes: Option<TokenAttributes>,
}

#[derive(Clone, Debug, Deserialize)]
struct ProviderEnv {
    name: String,
    value: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TokenAttributes {
    service_account_token_audience: String,
    cache_type: CacheType,
    require_service_account: bool,
    #[serde(default)]
    required_service_account_annotation_keys: Vec<String>,
    #[serde(default)]
    optional_service_account_annotation_keys: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum CacheType {
    Token,
    ServiceAccount,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProviderResponse {
    api_version: String,
    kind: String,
    cache_key_type: String,
    #[serde(default)]
    cache_duration: Option<String>,
    #[serde(default)]
    auth: BTreeMap<String, ProviderPassword>,
}

#[derive(Clone, Deserialize)]
#[serde(default)]
#[derive(Default)]
struct ProviderPassword {
    username: String,
    password: String,
}

type CredentialResult = BTreeMap<String, ProviderPassword>;

/// Cached credentials by scope (image, registry or global) and subject.
type CredentialCache = FxHashMap<(String, String), (Instant, CredentialResult)>;

/// One credential provider plugin.
struct CredentialProvider {
    config: ProviderConfig,
    default_for: Duration,
    kept: Mutex<CredentialCache>,
    /// One program at a time: many pods start with the same image.
    turn: tokio::sync::Mutex<()>,
}

/// Where credential provider plugins are configured, and where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderFiles {
    /// A `CredentialProviderConfig`, or a folder of such.
    pub config: PathBuf,
    /// The folder of the programs.
    pub bin: PathBuf,
}

/// The credential provider plugins of the node, in the order of their configuration.
#[derive(Default)]
pub struct CredentialProviders {
    bin: PathBuf,
    all: Vec<CredentialProvider>,
}

impl CredentialProviders {
    /// The plugins in the places given, or else below the agent's folder; none
    /// when there is no configuration there.
    ///
    /// # Errors
    /// When there is one that cannot be used, or none in the place given.
    pub fn find(root: &Path, given: Option<&ProviderFiles>) -> Result<Self, Error> {
        if let Some(ProviderFiles { config, bin }) = given {
            return Self::read(config, bin);
        }
        let folder = root.join("credentialprovider");
        let config = folder.join("config.yaml");
        if !config.exists() {
            return Ok(Self::default());
        }
        Self::read(&config, &folder.join("bin"))
    }

    /// Of one file, or of all of a folder in the order of their names.
    fn read(config: &Path, bin: &Path) -> Result<Self, Error> {
        let unread = |source| Error::Read {
            path: config.to_owned(),
            source,
        };
        let mut files = vec![config.to_owned()];
        if std::fs::metadata(config).map_err(unread)?.is_dir() {
            let entries = std::fs::read_dir(config).map_err(unread)?;
            files = entries.flatten().map(|entry| entry.path()).collect();
            files.retain(|path| {
                let kind = path.extension().and_then(|kind| kind.to_str());
                kind.is_some_and(|kind| ["yaml", "yml", "json"].contains(&kind))
            });
            files.sort();
        }
        let mut all: Vec<CredentialProvider> = Vec::new();
        for path in files {
            let text = std::fs::read_to_string(&path);
            let more = match text.map(|text| parse(&text)) {
                Ok(Ok(more)) => more,
                Ok(Err(source)) => return Err(Error::Form { path, source }),
                Err(source) => return Err(Error::Read { path, source }),
            };
            let known =
                |one: &&CredentialProvider| all.iter().any(|p| p.config.name == one.config.name);
            if let Some(twice) = more.iter().find(known) {
                let source = ConfigError::Duplicate(twice.config.name.clone());
                return Err(Error::Form { path, source });
            }
            all.extend(more);
        }
        Ok(Self {
            bin: bin.to_owned(),
            all,
        })
    }

    /// What the plugins know for the image. One that fails is passed over, as
    /// another's or a secret's password may do.
    pub async fn credentials(
        &self,
        pod: &Pod,
        image: &str,
        objects: &dyn ObjectReader,
    ) -> Vec<Credential> {
        let mut found = Vec::new();
        for provider in &self.all {
            let matches = |pattern: &String| credentials::fits(pattern, image).is_some();
            if !provider.config.match_images.iter().any(matches) {
                continue;
            }
            match provider.ask(&self.bin, pod, image, objects).await {
                Ok(more) => found.extend(more),
                Err(error) => {
                    let why = error_chain(&error);
                    let plugin = &provider.config.name;
                    tracing::warn!(
                        plugin,
                        image,
                        pod = pod.name(),
                        why,
                        "credential provider returned no credentials"
                    );
                }
            }
        }
        found
    }
}

fn parse(text: &str) -> Result<Vec<CredentialProvider>, ConfigError> {
    let file: ConfigFile = serde_saphyr::from_str(text)?;
    let known = ["v1", "v1beta1", "v1alpha1"];
    let version = file.api_version.strip_prefix("kubelet.config.k8s.io/");
    if file.kind != "CredentialProviderConfig" || !version.is_some_and(|v| known.contains(&v)) {
        return Err(ConfigError::Kind {
            version: file.api_version,
            kind: file.kind,
        });
    }
    if file.providers.is_empty() {
        return Err(ConfigError::NoProviders);
    }
    let mut all: Vec<CredentialProvider> = Vec::new();
    for config in file.providers {
        let name = &config.name;
        let bad = |rule| {
            let name = name.clone();
            Err(ConfigError::Provider { name, rule })
        };
        if name.is_empty() || name.contains(['/', ' ']) || name == "." || name == ".." {
            return bad("name is no program's name");
        }
        if all.iter().any(|p| p.config.name == *name) {
            return bad("name is there twice");
        }
        let version = config
            .api_version
            .strip_prefix("credentialprovider.kubelet.k8s.io/");
        if !version.is_some_and(|v| known.contains(&v)) {
            return bad("apiVersion is not credentialprovider.kubelet.k8s.io/v1");
        }
        if config.match_images.is_empty() {
            return bad("matchImages: at least 1 item is required");
        }
        let Some(default_for) = times::parse_go_duration(&config.default_cache_duration) else {
            return bad("defaultCacheDuration is no duration, such as `10m`");
        };
        if let Some(attributes) = &config.token_attributes {
            if version != Some("v1") {
                return bad("tokenAttributes is only for credentialprovider.kubelet.k8s.io/v1");
            }
            if attributes.service_account_token_audience.is_empty() {
                return bad("tokenAttributes.serviceAccountTokenAudience is required");
            }
            let required = &attributes.required_service_account_annotation_keys;
            if !required.is_empty() && !attributes.require_service_account {
                return bad(
                    "requireServiceAccount must be true for requiredServiceAccountAnnotationKeys",
                );
            }
            let optional = &attributes.optional_service_account_annotation_keys;
            if required.iter().any(|key| optional.contains(key)) {
                return bad("annotation keys cannot be both required and optional");
            }
        }
        all.push(CredentialProvider {
            default_for,
            config,
            kept: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        });
    }
    Ok(all)
}

/// The pod and service account for which credentials are requested.
#[derive(Default)]
struct CredentialSubject {
    account: Option<PullAccount>,
    token: String,
    annotations: BTreeMap<String, String>,
    /// What its answers are kept under.
    key: String,
}

impl CredentialProvider {
    async fn ask(
        &self,
        bin: &Path,
        pod: &Pod,
        image: &str,
        objects: &dyn ObjectReader,
    ) -> Result<Vec<Credential>, PluginError> {
        let Some(asker) = self.asker(pod, objects).await? else {
            return Ok(Vec::new());
        };
        let answer = {
            let _turn = self.turn.lock().await;
            match self.known(image, &asker.key, Instant::now()) {
                Some(answer) => answer,
                None => {
                    let response = self.run(bin, image, &asker).await?;
                    self.keep(image, &asker, response)?
                }
            }
        };
        let mut found: Vec<(usize, Credential)> = answer
            .into_iter()
            .filter_map(|(server, entry)| {
                let length = credentials::fits(&server, image)?;
                let auth = api::AuthConfig {
                    username: entry.username,
                    password: entry.password,
                    server_address: server,
                    ..api::AuthConfig::default()
                };
                let source = asker
                    .account
                    .clone()
                    .map_or(CredentialSource::Node, CredentialSource::Account);
                Some((length, Credential { auth, source }))
            })
            .collect();
        found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        Ok(found
            .into_iter()
            .map(|(_, credential)| credential)
            .collect())
    }

    /// For whom to ask; none when the plugin is not for the pod.
    async fn asker(
        &self,
        pod: &Pod,
        objects: &dyn ObjectReader,
    ) -> Result<Option<CredentialSubject>, PluginError> {
        let Some(attributes) = &self.config.token_attributes else {
            return Ok(Some(CredentialSubject::default()));
        };
        let name = pod.spec.service_account_name.as_str();
        if name.is_empty() {
            return Ok((!attributes.require_service_account).then(CredentialSubject::default));
        }
        let account = objects.service_account(pod.namespace(), name).await?;
        let mut annotations = BTreeMap::new();
        for key in &attributes.required_service_account_annotation_keys {
            let Some(value) = account.annotations.get(key) else {
                return Ok(None);
            };
            annotations.insert(key.clone(), value.to_owned());
        }
        for key in &attributes.optional_service_account_annotation_keys {
            if let Some(value) = account.annotations.get(key) {
                annotations.insert(key.clone(), value.to_owned());
            }
        }
        let token = objects
            .token(TokenSpec {
                namespace: pod.namespace(),
                account: name,
                pod: (pod.name(), pod.uid()),
                audience: &attributes.service_account_token_audience,
                seconds: TOKEN_LIFE,
            })
            .await?
            .token;
        let of = json!([pod.namespace(), name, account.uid, annotations]);
        let key = match attributes.cache_type {
            CacheType::ServiceAccount => of.to_string(),
            CacheType::Token => {
                json!([of, pod.uid(), node_agent_files::digest(&token)]).to_string()
            }
        };
        Ok(Some(CredentialSubject {
            account: Some(PullAccount {
                uid: account.uid.to_string(),
                namespace: pod.namespace().to_owned(),
                name: name.to_owned(),
            }),
            token,
            annotations,
            key,
        }))
    }

    fn known(&self, image: &str, who: &str, now: Instant) -> Option<CredentialResult> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (until, _)| *until > now);
        [image, server(image), ""]
            .iter()
            .find_map(|what| kept.get(&((*what).to_owned(), who.to_owned())))
            .map(|(_, answer)| answer.clone())
    }

    fn keep(
        &self,
        image: &str,
        asker: &CredentialSubject,
        response: ProviderResponse,
    ) -> Result<CredentialResult, PluginError> {
        let what = match response.cache_key_type.as_str() {
            "Image" => image,
            "Registry" => server(image),
            "Global" => "",
            other => return Err(PluginError::CacheKeyType(other.to_owned())),
        };
        let attributes = self.config.token_attributes.as_ref();
        let by_account = attributes.is_some_and(|a| a.cache_type == CacheType::ServiceAccount);
        let echoed = |p: &ProviderPassword| !asker.token.is_empty() && p.password == asker.token;
        if by_account && response.auth.values().any(echoed) {
            return Err(PluginError::EchoedToken);
        }
        let lifetime = match &response.cache_duration {
            None => self.default_for,
            Some(text) => times::parse_go_duration(text)
                .ok_or_else(|| PluginError::CacheDuration(text.clone()))?,
        };
        if !lifetime.is_zero() {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let until = Instant::now() + lifetime.min(Duration::from_secs(365 * 86_400));
            let key = (what.to_owned(), asker.key.clone());
            kept.insert(key, (until, response.auth.clone()));
        }
        Ok(response.auth)
    }

    async fn run(
        &self,
        bin: &Path,
        image: &str,
        asker: &CredentialSubject,
    ) -> Result<ProviderResponse, PluginError> {
        let config = &self.config;
        let mut request = json!({
            "apiVersion": config.api_version,
            "kind": "CredentialProviderRequest",
            "image": image,
        });
        if !asker.token.is_empty() {
            request["serviceAccountToken"] = asker.token.clone().into();
            request["serviceAccountAnnotations"] = json!(asker.annotations);
        }
        let program = bin.join(&config.name);
        let mut command = tokio::process::Command::new(&program);
        command
            .args(config.args.iter().flatten())
            .envs(config.env.iter().flatten().map(|e| (&e.name, &e.value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|source| PluginError::Spawn { program, source })?;
        let work = async {
            let (mut said, mut complaint) = (Vec::new(), Vec::new());
            let (stdin, stdout, stderr) =
                (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let give = async {
                if let Some(mut stdin) = stdin {
                    // one that does not read its request may know the answer
                    let _ = stdin.write_all(request.to_string().as_bytes()).await;
                }
            };
            let take = async {
                match stdout {
                    Some(out) => out.take(MOST).read_to_end(&mut said).await.map(|_| ()),
                    None => Ok(()),
                }
            };
            let hear = async {
                match stderr {
                    Some(out) => out.take(MOST).read_to_end(&mut complaint).await.map(|_| ()),
                    None => Ok(()),
                }
            };
            let ((), taken, _) = tokio::join!(give, take, hear);
            taken?;
            let status = child.wait().await?;
            Ok::<_, std::io::Error>((status, said, complaint))
        };
        let (status, said, complaint) = tokio::time::timeout(PATIENCE, work)
            .await
            .map_err(|_| PluginError::Timeout)?
            .map_err(PluginError::Pipe)?;
        if !status.success() {
            let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
            return Err(PluginError::Exit { status, complaint });
        }
        let response: ProviderResponse =
            serde_json::from_slice(&said).map_err(|_| PluginError::NoResponse)?;
        if response.kind != "CredentialProviderResponse"
            || response.api_version != config.api_version
        {
            return Err(PluginError::Version {
                version: response.api_version,
                kind: response.kind,
                wanted: config.api_version.clone(),
            });
        }
        Ok(response)
    }
}

/// The first part of an image's name.
fn server(image: &str) -> &str {
    image.split('/').next().unwrap_or(image)
}

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
