//! Recordings: questions with the answers that a stock server gave, one group a
//! line of JSON, in gzip. `$ns` in a question is the group's namespace, `${name}`
//! what an earlier answer of the group had, `${fill.N}` a text of N letters.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ask::Runner;
use crate::client::Client;
use crate::{Error, corpus};

/// What to record.
#[derive(Args)]
pub struct Options {
    /// The stock server's kubeconfig.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Folder with `objects/*.yaml` and `scenarios/*.yaml`.
    #[arg(long, required_unless_present = "questions")]
    corpus: Option<PathBuf>,
    /// A recording whose questions are asked again.
    #[arg(long, conflicts_with = "corpus")]
    questions: Option<PathBuf>,
    /// Where the recording goes.
    #[arg(long)]
    out: PathBuf,
    /// How many mutants are made of each object.
    #[arg(long, default_value_t = 20)]
    mutants: u32,
    /// Which mutants.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Questions asked one after another in a namespace of their own.
#[derive(Debug, Serialize, Deserialize)]
pub struct Group {
    /// `core#3`, `writes: server-side apply`
    pub group: String,
    /// The questions.
    pub steps: Vec<Step>,
}

/// A question.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Step {
    /// What is asked, for people.
    pub name: String,
    /// `GET`, `POST`, …
    pub method: String,
    /// The path, with or without a query.
    pub path: String,
    /// Parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, Value>,
    /// Headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: a value, or a text that is sent as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Whether it is asked without a certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anonymous: bool,
    /// For how many milliseconds nothing is asked; then it is no question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<u64>,
    /// Whether only status code and media type are compared: the body is a run's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_code: bool,
    /// What of the answer later questions use: name, and where it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub save: BTreeMap<String, String>,
    /// What the stock server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub want: Option<Answer>,
}

/// An answer, normalised.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Status code; 0 for none.
    pub code: u16,
    /// Media type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `Warning` headers, in order of the alphabet.
    pub warnings: Vec<String>,
    /// JSON, a list of JSON lines, or text.
    pub body: Value,
}

impl Group {
    /// The part of the API that it asks about: what stands before `#`, `:` or `-`.
    pub fn part(&self) -> &str {
        self.group.split(['#', ':', '-']).next().unwrap_or_default()
    }
}

/// Reads a recording.
pub fn read(path: &Path) -> Result<Vec<Group>, Error> {
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    BufReader::new(GzDecoder::new(file))
        .lines()
        .map(|line| {
            let line = line.map_err(|error| Error::file(path, error))?;
            serde_json::from_str(&line).map_err(|error| Error::file(path, error))
        })
        .collect()
}

/// Asks a stock server the questions of a corpus and keeps its answers.
pub async fn record(options: &Options) -> Result<(), Error> {
    let mut runner = Runner::new(Client::new(&options.kubeconfig)?).await?;
    let mut groups = match &options.questions {
        Some(recording) => read(recording)?,
        None => Vec::new(),
    };
    if let Some(folder) = &options.corpus {
        let places = corpus::Places::read(&mut runner).await?;
        groups = corpus::read(folder, &places, options.mutants, options.seed)?;
    }
    let failed = |error: std::io::Error| Error::file(&options.out, error);
    let file = File::create(&options.out).map_err(failed)?;
    let mut out = GzEncoder::new(file, Compression::best());
    let mut count = 0;
    for mut group in groups {
        runner.begin().await?;
        for step in &mut group.steps {
            if let Some(pause) = step.pause {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                continue;
            }
            step.want = Some(runner.ask(step).await);
            count += 1;
        }
        runner.end().await;
        let line = serde_json::to_string(&group).unwrap_or_default();
        writeln!(out, "{line}").map_err(failed)?;
    }
    out.finish().map_err(failed)?;
    println!("recorded {count} answers in {}", options.out.display());
    Ok(())
}
