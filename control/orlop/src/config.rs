//! `--config FILE`: options of a command in a file with a version.
//!
//! ```yaml
//! apiVersion: orlop.dev/v1alpha1
//! kind: ServerConfiguration        # of `orlop server`; ApiserverConfiguration, UpConfiguration
//! dataDir: /var/lib/orlop/server
//! serviceClusterIpRange: [10.96.0.0/16, fd00:96::/112]
//! ```
//!
//! Every option of the command may stand there under its own name, written as
//! Kubernetes writes fields. What the command line says wins. Keys that are no
//! options are refused, each with the one that was probably meant.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Command;
use serde_json::{Map, Value};

/// The version of the files.
const API_VERSION: &str = "orlop.dev/v1alpha1";
/// Commands that take a file.
const COMMANDS: [&str; 3] = ["server", "apiserver", "up"];

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// What it says cannot be.
    #[error("`{}`: {detail}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
}

/// The arguments of the program, with those of the file that they name.
///
/// # Errors
/// When the file cannot be used.
pub fn expand(program: &Command, mut arguments: Vec<OsString>) -> Result<Vec<OsString>, Error> {
    let name = arguments.get(1).and_then(|name| name.to_str());
    let Some(name) = name.filter(|name| COMMANDS.contains(name)) else {
        return Ok(arguments);
    };
    let Some(command) = program.find_subcommand(name) else {
        return Ok(arguments);
    };
    let Some(path) = file(&arguments) else {
        return Ok(arguments);
    };
    let text = std::fs::read_to_string(&path).map_err(|source| Error::Read {
        path: path.clone(),
        source,
    })?;
    let given: Vec<String> = arguments
        .iter()
        .filter_map(|one| one.to_str()?.strip_prefix("--"))
        .map(|one| one.split('=').next().unwrap_or(one).to_owned())
        .collect();
    let added =
        of_file(command, name, &text, &given).map_err(|detail| Error::Wrong { path, detail })?;
    arguments.splice(2..2, added.into_iter().map(OsString::from));
    Ok(arguments)
}

/// The file that the arguments name.
fn file(arguments: &[OsString]) -> Option<PathBuf> {
    let at = arguments.iter().position(|one| {
        one == "--config" || one.to_str().is_some_and(|one| one.starts_with("--config="))
    })?;
    match arguments[at].to_str()?.strip_prefix("--config=") {
        Some(path) => Some(path.into()),
        None => arguments.get(at + 1).map(PathBuf::from),
    }
}

/// The arguments that a file makes, without those `given` on the command line.
fn of_file(
    command: &Command,
    name: &str,
    text: &str,
    given: &[String],
) -> Result<Vec<String>, String> {
    let mut file: Map<String, Value> =
        serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let kind = format!("{}{}Configuration", name[..1].to_uppercase(), &name[1..]);
    for (key, wanted) in [("apiVersion", API_VERSION), ("kind", kind.as_str())] {
        if file.remove(key).as_ref().and_then(Value::as_str) != Some(wanted) {
            return Err(format!("{key} must be {wanted}"));
        }
    }
    let known: Vec<(String, &clap::Arg)> = command
        .get_arguments()
        .filter_map(|one| Some((one.get_long()?, one)))
        .filter(|(long, _)| !matches!(*long, "help" | "version" | "config"))
        .map(|(long, one)| (camel(long), one))
        .collect();
    let mut out = Vec::new();
    for (key, value) in file {
        let Some((_, argument)) = known.iter().find(|(name, _)| *name == key) else {
            let names = known.iter().map(|(name, _)| name.as_str());
            return Err(match nearest(&key, names) {
                Some(near) => format!("unknown field `{key}`: did you mean `{near}`?"),
                None => format!("unknown field `{key}`"),
            });
        };
        let long = argument.get_long().unwrap_or_default();
        if given.iter().any(|one| one == long) {
            continue;
        }
        let takes = argument.get_action().takes_values();
        match (&value, takes) {
            (Value::Null, _) | (Value::Bool(false), false) => {}
            (Value::Bool(true), false) => out.push(format!("--{long}")),
            (Value::Array(items), true) => {
                for item in items {
                    out.push(format!("--{long}={}", scalar(&key, item)?));
                }
            }
            (value, true) => out.push(format!("--{long}={}", scalar(&key, value)?)),
            (_, false) => return Err(format!("`{key}` must be true or false")),
        }
    }
    Ok(out)
}

fn scalar(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err(format!("`{key}` must be a value or a list of values")),
    }
}

/// `data-dir` as Kubernetes writes fields.
fn camel(long: &str) -> String {
    let mut parts = long.split('-');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

/// The name that a key was probably meant to be: at most a third of its letters
/// are others.
pub(crate) fn nearest<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (distance(key, name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().max(key.len()).div_ceil(3))
        .map(|(_, name)| name)
}

/// How many letters must be added, dropped or changed (Levenshtein), whatever
/// their case.
fn distance(left: &str, right: &str) -> usize {
    let (left, right) = (left.to_lowercase(), right.to_lowercase());
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (place, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::*;

    fn program() -> Command {
        Command::new("orlop").subcommand(
            Command::new("server")
                .arg(Arg::new("config").long("config"))
                .arg(Arg::new("data_dir").long("data-dir"))
                .arg(Arg::new("secure_port").long("secure-port"))
                .arg(
                    Arg::new("range")
                        .long("service-cluster-ip-range")
                        .action(ArgAction::Append),
                )
                .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue)),
        )
    }

    fn arguments(file: &str, more: &[&str]) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.yaml");
        let head = "apiVersion: orlop.dev/v1alpha1\nkind: ServerConfiguration\n";
        std::fs::write(&path, format!("{head}{file}")).expect("written");
        let path = path.into_os_string();
        let mut all: Vec<OsString> = ["orlop", "server", "--config"].map(OsString::from).into();
        all.push(path);
        all.extend(more.iter().map(OsString::from));
        let all = expand(&program(), all).map_err(|error| error.to_string())?;
        let kept = all.len() - 2 - more.len();
        Ok(all[2..kept]
            .iter()
            .map(|one| one.to_string_lossy().into_owned())
            .collect())
    }

    #[test]
    fn fields_are_options_and_the_command_line_wins() {
        let file = "dataDir: /a b\nsecurePort: 7443\nquiet: true\n\
            serviceClusterIpRange: [10.96.0.0/16, 'fd00::/112']\n";
        let expected = [
            "--data-dir=/a b",
            "--secure-port=7443",
            "--quiet",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-cluster-ip-range=fd00::/112",
        ];
        let mut found = arguments(file, &[]).expect("usable");
        found.sort();
        let mut sorted = expected.map(str::to_owned).to_vec();
        sorted.sort();
        assert_eq!(found, sorted);
        let found = arguments("securePort: 7443\n", &["--secure-port", "1"]).expect("usable");
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn what_is_no_option_is_refused_with_the_one_that_was_meant() {
        for (file, told) in [
            (
                "datadir: x\n",
                "unknown field `datadir`: did you mean `dataDir`?",
            ),
            ("secureProt: 1\n", "did you mean `securePort`?"),
            ("somethingElse: 1\n", "unknown field `somethingElse`"),
            ("quiet: 3\n", "`quiet` must be true or false"),
            ("dataDir: {a: b}\n", "`dataDir` must be a value"),
            ("config: x\n", "unknown field `config`"),
        ] {
            let error = arguments(file, &[]).expect_err(told);
            assert!(error.contains(told), "{error}");
        }
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn files_of_another_version_or_command_are_refused() {
        let command = program();
        let command = command.find_subcommand("server").expect("a command");
        for (text, told) in [
            ("kind: ServerConfiguration\n", "apiVersion must be"),
            (
                "apiVersion: orlop.dev/v1alpha1\nkind: UpConfiguration\n",
                "kind must be ServerConfiguration",
            ),
        ] {
            let error = of_file(command, "server", text, &[]).expect_err(told);
            assert!(error.contains(told), "{error}");
        }
        let plain: Vec<OsString> = ["orlop", "token", "--config", "/none"]
            .map(OsString::from)
            .into();
        assert_eq!(
            expand(&program(), plain.clone()).expect("not its affair"),
            plain
        );
    }
}
