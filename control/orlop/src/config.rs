//! `--config FILE`: options of a command in a file with a version.
//!
//! ```yaml
//! apiVersion: orlop.dev/v1alpha1
//! kind: ServerConfiguration        # of `orlop server`; NodeAgentConfiguration of `orlop node-agent`
//! dataDir: /var/lib/orlop/server
//! serviceClusterIpRange: [10.96.0.0/16, fd00:96::/112]
//! featureGates: {WatchList: false}
//! ```
//!
//! Every option of the command may stand there under its own name, written as
//! Kubernetes writes fields. What the command line says wins. Keys that are no
//! options are refused, each with the one that was probably meant. `orlop config
//! COMMAND` prints a whole file.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Command;
use control_types::nearest::nearest;
use serde_json::{Map, Value};

/// The version of the files.
const API_VERSION: &str = "orlop.dev/v1alpha1";
/// Commands that take a file.
pub const COMMANDS: [&str; 7] = [
    "server",
    "apiserver",
    "up",
    "agent",
    "node-agent",
    "scheduler",
    "controllers",
];

/// Names the file.
// Several commands flatten it: groups need unique names.
#[derive(clap::Args, Debug)]
#[group(id = "file")]
pub struct ConfigFile {
    /// File of options of apiVersion orlop.dev/v1alpha1: each under its name, written as
    /// dataDir. The command line takes precedence. `orlop config` prints such a file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Error for an unusable file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A value is invalid.
    #[error("`{}`", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        source: FieldError,
    },
}

/// Error for a field that cannot be an option.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    /// The file is not YAML.
    #[error(transparent)]
    Yaml(#[from] serde_saphyr::Error),
    /// The file is of another version or command.
    #[error("{key} must be {wanted}")]
    Kind {
        /// `apiVersion` or `kind`.
        key: &'static str,
        /// The only value.
        wanted: String,
    },
    /// No option has the name.
    #[error("unknown field `{0}`")]
    Unknown(String),
    /// No option has the name, but one has a similar name.
    #[error("unknown field `{key}`: did you mean `{near}`?")]
    Misspelt {
        /// The name.
        key: String,
        /// The similar name.
        near: String,
    },
    /// The option takes simple values.
    #[error("`{0}` must be a value or a list of values")]
    Value(String),
    /// The option takes no value.
    #[error("`{0}` must be true or false")]
    Flag(String),
}

/// Returns the program's arguments with those of the file that they name.
///
/// # Errors
/// When the file is unusable.
pub fn expand(program: &Command, mut arguments: Vec<OsString>) -> Result<Vec<OsString>, Error> {
    let name = arguments.get(1).and_then(|name| name.to_str());
    let Some(name) = name.filter(|name| COMMANDS.contains(name)) else {
        return Ok(arguments);
    };
    let mut program = program.clone();
    // Options that all commands have are theirs only then.
    program.build();
    let Some(command) = program.find_subcommand(name) else {
        return Ok(arguments);
    };
    let Some(path) = file(&arguments) else {
        return Ok(arguments);
    };
    if name == "scheduler" && crate::scheduler_file::is_configuration(&path) {
        // The stock kube-scheduler's own file: no options of this program.
        return Ok(arguments);
    }
    let text = std::fs::read_to_string(&path).map_err(|source| Error::Read {
        path: path.clone(),
        source,
    })?;
    let given: Vec<String> = arguments
        .iter()
        .filter_map(|one| {
            let one = one.to_str()?;
            // The one option that has a short form.
            let short = one.starts_with("-v").then_some("v");
            short.or_else(|| one.strip_prefix("--"))
        })
        .map(|one| one.split('=').next().unwrap_or(one).to_owned())
        .collect();
    let added =
        of_file(command, name, &text, &given).map_err(|source| Error::Wrong { path, source })?;
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
) -> Result<Vec<String>, FieldError> {
    // `off` is a value of an option, as for kubectl: no boolean.
    let options = serde_saphyr::options! { strict_booleans: true };
    let mut file: Map<String, Value> = serde_saphyr::from_str_with_options(text, options)?;
    let kind = kind(name);
    for (key, wanted) in [("apiVersion", API_VERSION), ("kind", kind.as_str())] {
        if file.remove(key).as_ref().and_then(Value::as_str) != Some(wanted) {
            let wanted = wanted.to_owned();
            return Err(FieldError::Kind { key, wanted });
        }
    }
    let known = keys(command);
    let mut out = Vec::new();
    for (key, value) in file {
        let Some((_, argument)) = known.iter().find(|(name, _)| *name == key) else {
            let names = known.iter().map(|(name, _)| name.as_str());
            return Err(match nearest(&key, names) {
                Some(near) => FieldError::Misspelt {
                    near: near.to_owned(),
                    key,
                },
                None => FieldError::Unknown(key),
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
            (Value::Object(pairs), true) if takes_pairs(argument) => {
                for (name, value) in pairs {
                    out.push(format!("--{long}={name}={}", scalar(&key, value)?));
                }
            }
            (value, true) => out.push(format!("--{long}={}", scalar(&key, value)?)),
            (_, false) => return Err(FieldError::Flag(key)),
        }
    }
    Ok(out)
}

/// The kind of a command's file.
fn kind(command: &str) -> String {
    let name = camel(command);
    let (first, rest) = name.split_at(1);
    format!("{}{rest}Configuration", first.to_uppercase())
}

/// The keys of a command's file, and the options that they are.
fn keys(command: &Command) -> Vec<(String, &clap::Arg)> {
    command
        .get_arguments()
        .filter_map(|one| Some((one.get_long()?, one)))
        .filter(|(long, _)| !matches!(*long, "help" | "version" | "config"))
        .map(|(long, one)| (camel(long), one))
        .collect()
}

/// Whether the values of an option are names with values of their own.
fn takes_pairs(argument: &clap::Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    names.iter().any(|name| name.contains('='))
}

/// Prints the complete file of a command: every key with its description and default.
pub fn printed(mut program: Command, name: &str) -> String {
    program.build();
    let mut page = format!("apiVersion: {API_VERSION}\nkind: {}\n", kind(name));
    let Some(command) = program.find_subcommand(name) else {
        return page;
    };
    for (key, argument) in keys(command) {
        page.push('\n');
        for line in argument
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default()
            .lines()
        {
            page.push_str(&format!("# {line}\n"));
        }
        let possible: Vec<String> = argument
            .get_possible_values()
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect();
        if !possible.is_empty() {
            page.push_str(&format!("# One of {}.\n", possible.join(", ")));
        }
        let defaults: Vec<String> = argument
            .get_default_values()
            .iter()
            .map(|value| plain(&value.to_string_lossy()))
            .collect();
        let is_list = matches!(argument.get_action(), clap::ArgAction::Append)
            || argument.get_value_delimiter().is_some();
        page.push_str(&match (&defaults[..], is_list) {
            // Options without a default are shown commented out.
            ([], true) if takes_pairs(argument) => format!("# {key}: {{}}\n"),
            ([], true) => format!("# {key}: []\n"),
            ([], false) if !argument.get_action().takes_values() => format!("{key}: false\n"),
            ([], false) => format!("# {key}:\n"),
            (all, true) => format!("{key}: [{}]\n", all.join(", ")),
            ([one, ..], false) => format!("{key}: {one}\n"),
        });
    }
    page
}

/// A value as YAML writes it.
fn plain(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '/')
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter));
    if is_plain {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// All options of the command that was given, by name, with the values that hold.
pub fn values(mut program: Command, matches: &clap::ArgMatches) -> Vec<(String, String)> {
    program.build();
    let Some((name, matches)) = matches.subcommand() else {
        return Vec::new();
    };
    let Some(command) = program.find_subcommand(name) else {
        return Vec::new();
    };
    let arguments = command.get_arguments();
    let mut all: Vec<(String, String)> = arguments
        .filter_map(|argument| {
            let long = argument
                .get_long()
                .filter(|long| !matches!(*long, "help" | "version"))?;
            let given = matches.try_get_raw(argument.get_id().as_str()).ok()?;
            let given: Vec<String> = given
                .into_iter()
                .flatten()
                .map(|value| value.to_string_lossy().into_owned())
                .collect();
            let is_list = matches!(argument.get_action(), clap::ArgAction::Append)
                || argument.get_value_delimiter().is_some();
            let value = if is_list {
                format!("[{}]", given.join(","))
            } else {
                given.join(",")
            };
            Some((long.to_owned(), value))
        })
        .collect();
    all.sort();
    all
}

fn scalar(key: &str, value: &Value) -> Result<String, FieldError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err(FieldError::Value(key.to_owned())),
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
        let all = expand(&program(), all).map_err(|error| crate::run::all_causes(&error))?;
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
            let error = of_file(command, "server", text, &[])
                .expect_err(told)
                .to_string();
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

    #[test]
    fn pairs_are_written_as_a_map() {
        let command = Command::new("server").arg(
            Arg::new("gates")
                .long("feature-gates")
                .value_name("NAME=BOOL")
                .action(ArgAction::Append),
        );
        let text = "apiVersion: orlop.dev/v1alpha1\nkind: ServerConfiguration\nfeatureGates: {A: true, B: false}\n";
        let found = of_file(&command, "server", text, &[]).expect("usable");
        assert_eq!(found, ["--feature-gates=A=true", "--feature-gates=B=false"]);
    }

    #[test]
    fn a_printed_file_says_every_option_and_changes_nothing() {
        use clap::CommandFactory;
        for name in COMMANDS {
            let text = printed(crate::Arguments::command(), name);
            let mut program = crate::Arguments::command();
            program.build();
            let command = program.find_subcommand(name).expect("a command");
            // Every key is known, those that are commented out as well.
            let whole: String = text
                .lines()
                .map(|line| {
                    match line.strip_prefix("# ").filter(|rest| {
                        rest.split_once(':').is_some_and(|(key, rest)| {
                            !key.contains(' ') && matches!(rest, "" | " []" | " {}")
                        })
                    }) {
                        Some(key) => format!("{key}\n"),
                        None => format!("{line}\n"),
                    }
                })
                .collect();
            of_file(command, name, &whole, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
            for argument in command.get_arguments() {
                let Some(long) = argument.get_long() else {
                    continue;
                };
                if matches!(long, "help" | "version" | "config") {
                    continue;
                }
                let key = camel(long);
                assert!(
                    whole
                        .lines()
                        .any(|line| line.starts_with(&format!("{key}:"))),
                    "{key}"
                );
            }
            let given = of_file(command, name, &text, &[]).expect("usable");
            let required = command
                .get_arguments()
                .filter(|one| one.is_required_set())
                .filter_map(|one| Some(format!("--{}=/x", one.get_long()?)));
            let arguments = ["orlop".to_owned(), name.to_owned()];
            let plain: Vec<String> = arguments.iter().cloned().chain(required).collect();
            let told = plain.iter().cloned().chain(given);
            let of = |arguments: Vec<String>| {
                let matches = crate::Arguments::command()
                    .try_get_matches_from(arguments)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                values(crate::Arguments::command(), &matches)
            };
            assert_eq!(of(told.collect()), of(plain), "{name}");
        }
    }
}
