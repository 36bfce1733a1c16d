//! `orlop token`: tokens with which machines join the cluster, kept as
//! Kubernetes' bootstrap token Secrets. Those that kubeadm made are listed and
//! deleted as well.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use clap::{Args, Subcommand};
use control_access::{
    BOOTSTRAP_TOKEN_NAMESPACE, BOOTSTRAP_TOKEN_PREFIX, BOOTSTRAP_TOKEN_TYPE, is_bootstrap_group,
    parse_bootstrap_token,
};
use control_client::{Client, DeleteOptions, Selection, resources};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::values::InvalidValue;
use crate::{
    error::Error,
    join,
    kubeconfig::Kubeconfig,
    servers::{ServerToken, offer},
};

/// Cluster and subcommand.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    #[command(subcommand)]
    command: Command,
}

/// Subcommand.
#[derive(Subcommand)]
enum Command {
    /// Make a token, and print the line with which a machine joins.
    Create(CreateToken),
    /// Show the tokens, without their secrets.
    List,
    /// Delete tokens: no machine can join with them any more. Joined machines stay.
    Delete {
        /// The tokens' ids, or whole tokens.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

/// Properties of the token.
#[derive(Args)]
struct CreateToken {
    /// Create a token for a further server instead of a node. It gives its holder the
    /// keys of the cluster. Run this on a server.
    #[arg(long)]
    server: bool,
    /// With --server: the data folder of the server on this machine.
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/orlop/server")]
    data_dir: PathBuf,
    /// How long it is good, such as 30m, 24h or 7d; 0 for ever. 24h unless given; with --server
    /// 1h, and 24h at most.
    #[arg(long, value_parser = life, value_name = "TIME")]
    ttl: Option<Duration>,
    /// Description for people.
    #[arg(long, default_value = "", value_name = "TEXT")]
    description: String,
    /// Groups that who comes with it is in, besides system:bootstrappers. The default is
    /// kubeadm's.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "system:bootstrappers:kubeadm:default-node-token",
        value_name = "GROUP"
    )]
    groups: Vec<String>,
    /// Print the token alone.
    #[arg(long)]
    only_token: bool,
}

/// A Secret that may be a token.
#[derive(Debug, Deserialize)]
struct Secret {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// A row of the list of tokens.
#[derive(Debug, PartialEq, Eq)]
struct TokenRow {
    id: String,
    expires: String,
    usages: String,
    description: String,
}

/// Runs the command.
///
/// # Errors
/// An unusable kubeconfig, or the API's error.
pub async fn run(options: Options) -> Result<(), Error> {
    match &options.command {
        Command::Create(create) => create.check()?,
        Command::Delete { ids } => drop(ids_of(ids)?),
        Command::List => {}
    }
    let data_dir = match &options.command {
        Command::Create(create) => create.data_dir.clone(),
        _ => PathBuf::from("/var/lib/orlop/server"),
    };
    let own = [data_dir.join("admin.kubeconfig")];
    let client = options.kubeconfig.client_or(&own, "orlop-token").await?;
    match options.command {
        Command::Create(create) => {
            println!("{}", create.run(&client).await?);
            Ok(())
        }
        Command::List => {
            print!("{}", table(&list(&client).await?));
            Ok(())
        }
        Command::Delete { ids } => {
            for id in ids_of(&ids)? {
                delete(&client, id).await?;
                println!("token {id} is deleted");
            }
            Ok(())
        }
    }
}

impl CreateToken {
    /// Refuses groups that no token may give.
    fn check(&self) -> Result<(), Error> {
        let life = self.life();
        if self.server && (life.is_zero() || life > offer::LONGEST) {
            return Err(Error::Token(
                "a server's token is good for 24h at most: give a shorter --ttl".to_owned(),
            ));
        }
        if let Some(group) = self.groups.iter().find(|group| !is_bootstrap_group(group)) {
            return Err(Error::Token(format!(
                "`{group}` is no group for a token: it must begin with system:bootstrappers: and go on in small letters, digits, - and :"
            )));
        }
        Ok(())
    }

    /// Makes the token, and returns what to print.
    async fn run(&self, client: &Client) -> Result<String, Error> {
        if self.server {
            return self.run_for_server(client).await;
        }
        if self.only_token {
            return self.create(client).await;
        }
        // First, so that no token exists that cannot be used.
        let cluster = cluster_info(client).await?;
        let token = self.create(client).await?;
        Ok(format!(
            "orlop agent --join {} --token {token} --ca-cert-hash {}",
            cluster.server, cluster.hash
        ))
    }

    /// Makes a server's token, and leaves the keys in the cluster that it opens.
    async fn run_for_server(&self, client: &Client) -> Result<String, Error> {
        let cluster = cluster_info(client).await?;
        let bundle = offer::collect(&self.data_dir).await;
        let bundle = bundle.map_err(Error::Servers)?;
        let (id, secret) = (random(6), random(16));
        let token = ServerToken::new(&id, &secret);
        let body = self.secret(&id, &secret, Timestamp::now());
        let owner = client
            .create::<Value>(&resources::SECRETS, BOOTSTRAP_TOKEN_NAMESPACE, &body)
            .await
            .map_err(Error::Client)?;
        let published = offer::publish(client, &token, &owner, &bundle).await;
        if let Err(error) = published {
            // A token without keys is of no use to anybody.
            let _ = delete(client, &id).await;
            return Err(Error::Servers(error));
        }
        if self.only_token {
            return Ok(token.text());
        }
        Ok(format!(
            "orlop server --join {} --token {} --ca-cert-hash {}",
            cluster.server,
            token.text(),
            cluster.hash
        ))
    }

    fn life(&self) -> Duration {
        let usual = if self.server {
            offer::USUAL
        } else {
            Duration::from_secs(24 * 3600)
        };
        self.ttl.unwrap_or(usual)
    }

    async fn create(&self, client: &Client) -> Result<String, Error> {
        let (id, secret) = (random(6), random(16));
        let body = self.secret(&id, &secret, Timestamp::now());
        client
            .create::<Value>(&resources::SECRETS, BOOTSTRAP_TOKEN_NAMESPACE, &body)
            .await
            .map_err(Error::Client)?;
        Ok(format!("{id}.{secret}"))
    }

    fn secret(&self, id: &str, secret: &str, now: Timestamp) -> Value {
        let groups = if self.server {
            offer::GROUP.to_owned()
        } else {
            self.groups.join(",")
        };
        let mut data = json!({
            "token-id": id,
            "token-secret": secret,
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": (!self.server).to_string(),
            "auth-extra-groups": groups,
        });
        let description = match self.description.as_str() {
            "" if self.server => "a further server",
            given => given,
        };
        if !description.is_empty() {
            data["description"] = description.into();
        }
        let life = self.life();
        if !life.is_zero() {
            let ends = Timestamp::from_second((now + life).as_second()).unwrap_or(now);
            data["expiration"] = ends.to_string().into();
        }
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": format!("{BOOTSTRAP_TOKEN_PREFIX}{id}"),
                "namespace": BOOTSTRAP_TOKEN_NAMESPACE,
            },
            "type": BOOTSTRAP_TOKEN_TYPE,
            "stringData": data,
        })
    }
}

/// Reads what machines that join need to know of the cluster.
async fn cluster_info(client: &Client) -> Result<join::DiscoveredCluster, Error> {
    let failed = |problem: &str| {
        Error::Token(format!(
            "no token is made, since machines could not join with it: ConfigMap \
             kube-public/cluster-info: {problem}"
        ))
    };
    let map: Value = client
        .get(&resources::CONFIG_MAPS, "kube-public", "cluster-info")
        .await
        .map_err(|error| match error {
            control_client::Error::NotFound(_) => failed("it does not exist"),
            other => Error::Client(other),
        })?;
    join::read(&map).map_err(failed)
}

async fn list(client: &Client) -> Result<Vec<TokenRow>, Error> {
    let selection = Selection::all()
        .namespace(BOOTSTRAP_TOKEN_NAMESPACE)
        .fields(format!("type={BOOTSTRAP_TOKEN_TYPE}"));
    let secrets = client
        .list::<Secret>(&resources::SECRETS, &selection)
        .await
        .map_err(Error::Client)?;
    Ok(secrets.items.iter().filter_map(row).collect())
}

fn row(secret: &Secret) -> Option<TokenRow> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| -> String {
        let bytes = data.get(key).and_then(|text| STANDARD.decode(text).ok());
        String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    };
    if secret.kind != BOOTSTRAP_TOKEN_TYPE {
        return None;
    }
    let usages: Vec<_> = ["authentication", "signing"]
        .into_iter()
        .filter(|usage| text(&format!("usage-bootstrap-{usage}")) == "true")
        .collect();
    let expires = match text("expiration") {
        never if never.is_empty() => "never".to_owned(),
        time => match time.parse::<Timestamp>() {
            Ok(ends) if ends < Timestamp::now() => format!("{ends} (over)"),
            _ => time,
        },
    };
    Some(TokenRow {
        id: text("token-id"),
        expires,
        usages: usages.join(","),
        description: text("description"),
    })
}

fn table(rows: &[TokenRow]) -> String {
    let mut text = format!(
        "{:<8} {:<28} {:<24} DESCRIPTION\n",
        "ID", "EXPIRES", "USAGES"
    );
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<8} {:<28} {:<24} {}",
            row.id, row.expires, row.usages, row.description
        );
    }
    text
}

/// The ids of tokens that are given by their ids or whole.
///
/// # Errors
/// The first that is neither: then none is deleted.
fn ids_of(tokens: &[String]) -> Result<Vec<&str>, Error> {
    tokens.iter().map(|token| id_of(token)).collect()
}

fn id_of(token: &str) -> Result<&str, Error> {
    let id = parse_bootstrap_token(token).map_or(token, |(id, _)| id);
    let is_right = id.len() == 6
        && id
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if is_right {
        return Ok(id);
    }
    Err(Error::Token(format!(
        "`{id}` is no token's id: `orlop token list` shows them"
    )))
}

async fn delete(client: &Client, id: &str) -> Result<(), Error> {
    let name = format!("{BOOTSTRAP_TOKEN_PREFIX}{id}");
    client
        .delete(
            &resources::SECRETS,
            BOOTSTRAP_TOKEN_NAMESPACE,
            &name,
            &DeleteOptions::default(),
        )
        .await
        .map_err(|error| match error {
            control_client::Error::NotFound(_) => Error::Token(format!(
                "there is no token `{id}`: `orlop token list` shows those that are"
            )),
            other => Error::Client(other),
        })
}

/// Creates a token for a further server as `orlop token create --server` does; returns
/// the command line with which it joins.
///
/// # Errors
/// The API's error, or a folder that is not a server's.
pub async fn line_for_server(
    client: &Client,
    data_dir: PathBuf,
    description: &str,
) -> Result<String, Error> {
    let create = CreateToken {
        server: true,
        data_dir,
        ttl: None,
        description: description.to_owned(),
        groups: Vec::new(),
        only_token: false,
    };
    create.run(client).await
}

/// Returns random lowercase letters and digits.
fn random(length: usize) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    (0..length)
        .filter_map(|_| LETTERS.get(rand::random_range(0..LETTERS.len())))
        .map(|letter| char::from(*letter))
        .collect()
}

/// Reads `90s`, `30m`, `24h`, `7d`, `1h30m` or `0`.
fn life(text: &str) -> Result<Duration, InvalidValue> {
    let wrong = || {
        let way_out = "write a number with s, m, h or d, such as 24h";
        InvalidValue::new(text, "time", way_out)
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u32 = rest[..digits].parse().map_err(|_| wrong())?;
        let mut units = rest[digits..].chars();
        let seconds = match units.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3600,
            Some('d') => 24 * 3600,
            _ => return Err(wrong()),
        };
        total += Duration::from_secs(seconds) * number;
        rest = units.as_str();
    }
    let longest = Duration::from_secs(100 * 365 * 24 * 3600);
    if text.is_empty() || total > longest {
        return Err(wrong());
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use control_client::RequestBody;

    use super::*;

    #[test]
    fn times_are_read_and_rubbish_is_refused() {
        let seconds = |text: &str| life(text).map(|time| time.as_secs());
        assert_eq!(seconds("24h"), Ok(86_400));
        assert_eq!(seconds("1h30m"), Ok(5_400));
        assert_eq!(seconds("7d"), Ok(604_800));
        assert_eq!(seconds("0"), Ok(0));
        for no in [
            "",
            "h",
            "1",
            "1w",
            "-1h",
            "1h ",
            "99999999999h",
            "4000000000d",
            "1é",
        ] {
            assert!(life(no).is_err(), "{no}");
        }
    }

    #[test]
    fn nothing_is_deleted_when_one_of_the_ids_is_none() {
        let all = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let right = all(&["abcdef", "ghijkl.0123456789abcdef"]);
        assert_eq!(ids_of(&right).unwrap(), ["abcdef", "ghijkl"]);
        let error = ids_of(&all(&["abcdef", "ABCDEF"])).unwrap_err().to_string();
        assert!(error.contains("`ABCDEF`"), "{error}");
    }

    #[tokio::test]
    async fn no_token_is_made_where_machines_cannot_join() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let service = {
            let asked = Arc::clone(&asked);
            tower::service_fn(move |request: http::Request<RequestBody>| {
                asked.lock().unwrap().push(request.method().clone());
                let status = json!({"kind": "Status", "code": 404, "reason": "NotFound"});
                let body = RequestBody::from(status.to_string().into_bytes());
                let answer = http::Response::builder().status(404).body(body).unwrap();
                std::future::ready(Ok::<_, std::convert::Infallible>(answer))
            })
        };
        let client = Client::in_process(service, ());
        let create = CreateToken {
            server: false,
            data_dir: PathBuf::new(),
            ttl: None,
            description: String::new(),
            groups: Vec::new(),
            only_token: false,
        };
        let error = create.run(&client).await.unwrap_err().to_string();
        assert!(error.contains("kube-public/cluster-info"), "{error}");
        assert_eq!(*asked.lock().unwrap(), [http::Method::GET]);
    }

    #[test]
    fn a_new_token_has_the_form_of_one_and_its_secret_says_all() {
        let token = format!("{}.{}", random(6), random(16));
        assert!(parse_bootstrap_token(&token).is_some(), "{token}");
        let create = CreateToken {
            server: false,
            data_dir: PathBuf::new(),
            ttl: Some(Duration::from_secs(3600)),
            description: "for a test".to_owned(),
            groups: vec![
                "system:bootstrappers:a".to_owned(),
                "system:bootstrappers:b".to_owned(),
            ],
            only_token: false,
        };
        let now: Timestamp = "2026-01-01T00:00:00.5Z".parse().expect("a time");
        let secret = create.secret("abcdef", "0123456789abcdef", now);
        assert_eq!(secret["metadata"]["name"], "bootstrap-token-abcdef");
        assert_eq!(secret["stringData"]["expiration"], "2026-01-01T01:00:00Z");
        assert_eq!(
            secret["stringData"]["auth-extra-groups"],
            "system:bootstrappers:a,system:bootstrappers:b"
        );
        let forever = CreateToken {
            ttl: Some(Duration::ZERO),
            ..create
        };
        assert_eq!(
            forever.secret("a", "b", now)["stringData"]["expiration"],
            Value::Null
        );
    }

    #[test]
    fn the_list_shows_no_secret() {
        let data = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value)))
                .collect()
        };
        let secret = Secret {
            kind: BOOTSTRAP_TOKEN_TYPE.to_owned(),
            data: Some(data(&[
                ("token-id", "abcdef"),
                ("token-secret", "0123456789abcdef"),
                ("expiration", "2020-01-01T00:00:00Z"),
                ("usage-bootstrap-authentication", "true"),
            ])),
        };
        let shown = table(&[row(&secret).expect("a token")]);
        assert!(
            shown.contains("abcdef") && shown.contains("(over)"),
            "{shown}"
        );
        assert!(!shown.contains("0123456789abcdef"), "{shown}");
        let other = Secret {
            kind: "Opaque".to_owned(),
            ..secret
        };
        assert_eq!(row(&other), None);
    }
}
