//! Asking: a namespace for each group, variables filled in, answers normalised,
//! compared and counted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::client::{Client, Raw};
use crate::floors::{self, Tally};
use crate::hook::Hook;
use crate::recording::{self, Answer, Step};
use crate::verdict::{self, Verdict};
use crate::{Error, normal};

/// What to ask.
#[derive(Args)]
pub struct Options {
    /// The server's kubeconfig.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The recording.
    #[arg(long)]
    answers: PathBuf,
    /// Only groups whose names this regular expression finds.
    #[arg(long)]
    only: Option<String>,
    /// How many differences are shown.
    #[arg(long, default_value_t = 40)]
    show: usize,
    /// Show also what agrees but is worded otherwise.
    #[arg(long)]
    inexact: bool,
    /// File with the least agreement there may be; less is a failure.
    #[arg(long)]
    floors: Option<PathBuf>,
    /// Write what is reached into that file where it is more.
    #[arg(long, requires = "floors")]
    raise: bool,
}

/// Asks the questions of a recording and tells how far the answers agree.
pub async fn check(options: &Options) -> Result<(), Error> {
    let only = options
        .only
        .as_deref()
        .map(Regex::new)
        .transpose()
        .map_err(Error::Only)?;
    let groups = recording::read(&options.answers)?;
    let mut runner = Runner::new(Client::new(&options.kubeconfig)?).await?;
    let mut tally = Tally::default();
    let mut shown = 0;
    for group in &groups {
        if only
            .as_ref()
            .is_some_and(|only| !only.is_match(&group.group))
        {
            continue;
        }
        runner.begin().await?;
        for step in &group.steps {
            if let Some(pause) = step.pause {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                continue;
            }
            let got = runner.ask(step).await;
            let want = step.want.clone().unwrap_or_default();
            let want = Answer {
                warnings: want
                    .warnings
                    .iter()
                    .map(|text| normal::text(text))
                    .collect(),
                body: normal::value(&want.body),
                ..want
            };
            let said = verdict::of(&want, &got);
            let why = match &said {
                Verdict::Differ(why) => Some(why.clone()),
                Verdict::Agree if options.inexact => Some(verdict::words(&want, &got)),
                Verdict::Agree | Verdict::Exact => None,
            };
            if let Some(why) = why {
                if shown < options.show {
                    let name = if step.name.contains('#') {
                        step.name.clone()
                    } else {
                        format!("{}: {}", group.group, step.name)
                    };
                    println!("DIFFERS {name}\n        {why}");
                }
                shown += 1;
            }
            tally.count(group.part(), &said);
        }
        runner.end().await;
    }
    println!("{tally}");
    match &options.floors {
        Some(path) if only.is_none() => floors::check(path, &tally, options.raise),
        _ => Ok(()),
    }
}

/// Asks one group after another.
pub struct Runner {
    client: Client,
    /// The same server, asked without a certificate.
    nobody: Client,
    hook: Hook,
    run: u64,
    count: u32,
    namespace: String,
    saved: BTreeMap<String, String>,
    /// Whether the group asked about definitions of custom resources.
    defines: bool,
}

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{([a-z0-9_.]+)\}").unwrap_or_else(|error| panic!("{error}")));

impl Runner {
    pub async fn new(client: Client) -> Result<Self, Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Self {
            nobody: client.without_certificate()?,
            hook: Hook::start().await?,
            client,
            run: now.map_or(0, |now| now.as_secs() % 100_000),
            count: 0,
            namespace: String::new(),
            saved: BTreeMap::new(),
            defines: false,
        })
    }

    /// A plain GET of JSON.
    pub async fn get(&mut self, path: &str) -> Value {
        let raw = self.client.call("GET", path, None, &[]).await;
        serde_json::from_slice(&raw.body).unwrap_or_default()
    }

    /// Makes a namespace for the next group, with the account that a controller
    /// would make.
    pub async fn begin(&mut self) -> Result<(), Error> {
        self.count += 1;
        self.saved.clear();
        let own = [("hook", &self.hook.url), ("hook.ca", &self.hook.bundle)];
        let own = own.map(|(name, value)| (name.to_owned(), value.clone()));
        self.saved.extend(own);
        self.namespace = format!("orc-{:05}-{}", self.run, self.count);
        let body = json!({"metadata": {"name": (self.namespace)}}).to_string();
        let path = "/api/v1/namespaces";
        let made = self.client.call("POST", path, Some(&body), &[]).await;
        if made.code == 0 {
            return Err(Error::Server(
                String::from_utf8_lossy(&made.body).into_owned(),
            ));
        }
        let accounts = format!("{path}/{}/serviceaccounts", self.namespace);
        let account = json!({"metadata": {"name": "default"}}).to_string();
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            let one = format!("{accounts}/default");
            if self.client.call("GET", &one, None, &[]).await.code == 200 {
                break;
            }
            self.client
                .call("POST", &accounts, Some(&account), &[])
                .await;
        }
        Ok(())
    }

    /// Deletes the group's namespace, and what it defined and left: the next group must find
    /// the same API groups whether it is asked alone or after others.
    pub async fn end(&mut self) {
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        self.client.call("DELETE", &path, None, &[]).await;
        if !std::mem::take(&mut self.defines) {
            return;
        }
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            let all = self.get(DEFINITIONS).await;
            let left = definitions_of(&self.namespace, &all);
            if left.is_empty() {
                return;
            }
            for name in left {
                let path = format!("{DEFINITIONS}/{name}");
                self.client.call("DELETE", &path, None, &[]).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Asks one question.
    pub async fn ask(&mut self, step: &Step) -> Answer {
        let mut path = self.filled(&step.path);
        self.defines |= path.starts_with(DEFINITIONS);
        for (at, (key, value)) in step.query.iter().enumerate() {
            path.push(if at == 0 { '?' } else { '&' });
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            path.push_str(&encoded(key));
            path.push('=');
            path.push_str(&encoded(&self.filled(&text)));
        }
        let body = step.body.as_ref().map(|body| match body {
            Value::String(text) => self.filled(text),
            other => self.filled(&other.to_string()),
        });
        let headers: Vec<(String, String)> = step
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), self.filled(value)))
            .collect();
        let client = if step.anonymous {
            &mut self.nobody
        } else {
            &mut self.client
        };
        let raw = client
            .call(&step.method, &path, body.as_deref(), &headers)
            .await;
        let mut answer = understood(&raw);
        if step.only_code {
            answer.body = Value::Null;
        }
        for (name, place) in &step.save {
            let found = place
                .split('.')
                .fold(&answer.body, |at, key| match key.parse::<usize>() {
                    Ok(index) if at.is_array() => &at[index],
                    _ => &at[key],
                });
            let text = match found {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            self.saved.insert(name.clone(), text);
        }
        Answer {
            body: normal::value(&answer.body),
            warnings: answer
                .warnings
                .iter()
                .map(|text| normal::text(text))
                .collect(),
            ..answer
        }
    }

    fn filled(&self, text: &str) -> String {
        let text = text.replace("$ns", &self.namespace);
        let filled = VARIABLE.replace_all(&text, |found: &Captures<'_>| {
            let fill = found[1].strip_prefix("fill.").map(str::parse);
            match (fill, self.saved.get(&found[1])) {
                (Some(Ok(length)), _) => "a".repeat(length),
                (_, Some(saved)) => saved.clone(),
                _ => found[0].to_owned(),
            }
        });
        filled.into_owned()
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The definitions in a list whose API groups are named after a namespace.
fn definitions_of(namespace: &str, list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter(|item| {
            let group = item["spec"]["group"].as_str().unwrap_or_default();
            group.split('.').any(|label| label == namespace)
        })
        .filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned))
        .collect()
}

/// A text within a query.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// JSON, else JSON lines (a watch), else text.
fn understood(raw: &Raw) -> Answer {
    let text = String::from_utf8_lossy(&raw.body);
    let body = serde_json::from_str(&text).or_else(|_| {
        let lines = text.lines().filter(|line| !line.is_empty());
        lines
            .map(serde_json::from_str::<Value>)
            .collect::<Result<Value, _>>()
    });
    let kind = raw.headers.get("content-type");
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut warnings: Vec<String> = raw
        .headers
        .get_all("warning")
        .iter()
        // Bytes as letters: what is no ASCII is compared, too.
        .map(|warning| {
            warning
                .as_bytes()
                .iter()
                .map(|byte| char::from(*byte))
                .collect()
        })
        .collect();
    warnings.sort();
    Answer {
        code: raw.code,
        kind: kind.split(';').next().unwrap_or_default().to_owned(),
        warnings,
        body: body.unwrap_or_else(|_| text.into_owned().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_lines_or_text() {
        let body = |text: &str| {
            let raw = Raw {
                code: 200,
                headers: http::HeaderMap::new(),
                body: text.into(),
            };
            understood(&raw).body
        };
        assert_eq!(body("{\"a\": 1}\n"), json!({"a": 1}));
        assert_eq!(
            body("{\"a\": 1}\n{\"a\": 2}\n"),
            json!([{"a": 1}, {"a": 2}])
        );
        assert_eq!(body("not found"), json!("not found"));
        assert_eq!(body(""), json!([]));
    }

    #[test]
    fn definitions_of_a_group_are_those_named_after_its_namespace() {
        let list = json!({"items": [
            {"metadata": {"name": "a.orc-1-2.example.com"}, "spec": {"group": "orc-1-2.example.com"}},
            {"metadata": {"name": "a.orc-1-21.example.com"}, "spec": {"group": "orc-1-21.example.com"}},
            {"metadata": {"name": "b.orc-1-2.k8s.io"}, "spec": {"group": "orc-1-2.k8s.io"}},
            {"metadata": {"name": "orc-1-2.example.com"}, "spec": {"group": "example.com"}},
        ]});
        assert_eq!(
            definitions_of("orc-1-2", &list),
            ["a.orc-1-2.example.com", "b.orc-1-2.k8s.io"]
        );
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encoded("a=b, c/é"), "a%3Db%2C+c%2F%C3%A9");
    }
}
