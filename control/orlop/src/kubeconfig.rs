//! The cluster of a command: `--kubeconfig`, else `KUBECONFIG`, else a default.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Args;
use control_client::Client;

use crate::error::Error;

/// The option that all commands share which ask an API server.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "kubeconfig_option")]
pub struct Kubeconfig {
    /// Kubeconfig of the cluster. Without it, KUBECONFIG counts: a file, or several with `:`
    /// between them, merged as kubectl does.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// The paths of the administrator's kubeconfig on a machine that runs the server.
const OF_SERVER: [&str; 2] = [
    "/etc/orlop/admin.kubeconfig",
    "/var/lib/orlop/server/admin.kubeconfig",
];

impl Kubeconfig {
    /// Whether the command line names a cluster.
    pub const fn is_given(&self) -> bool {
        self.kubeconfig.is_some()
    }

    /// A client for an operator's command: without option and variable, the first file that
    /// exists of `~/.kube/config` and those that a server writes.
    ///
    /// # Errors
    /// No kubeconfig, or one that cannot be used.
    pub async fn client(&self, user_agent: &str) -> Result<Client, Error> {
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
        let defaults: Vec<PathBuf> = home
            .into_iter()
            .chain(OF_SERVER.map(PathBuf::from))
            .collect();
        self.client_or(&defaults, user_agent).await
    }

    /// A client for a command that is about this machine's server: without option and
    /// variable, the first of `defaults` that exists.
    ///
    /// # Errors
    /// As [`Kubeconfig::client`].
    pub async fn client_or(&self, defaults: &[PathBuf], user_agent: &str) -> Result<Client, Error> {
        let files = self.files_or(defaults)?;
        let client = Client::from_kubeconfigs(&files).await;
        Ok(client.map_err(Error::Client)?.named(user_agent))
    }
}

impl Kubeconfig {
    /// As [`Kubeconfig::client_or`], without the user of the kubeconfig.
    ///
    /// # Errors
    /// As [`Kubeconfig::client`].
    pub async fn anonymous_or(&self, defaults: &[PathBuf]) -> Result<Client, Error> {
        let files = self.files_or(defaults)?;
        Client::anonymous(&files).await.map_err(Error::Client)
    }
}

/// The file that an agent on this machine uses.
const OF_AGENT: &str = "/var/lib/orlop/agent/kubeconfig";

impl Kubeconfig {
    /// Returns the files for a command that also works on a node without an
    /// administrator's kubeconfig: those of [`Kubeconfig::client`], then the agent's own.
    ///
    /// # Errors
    /// No kubeconfig.
    pub fn files_of_machine(&self) -> Result<Vec<PathBuf>, Error> {
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
        let others = OF_SERVER.into_iter().chain([OF_AGENT]);
        let defaults: Vec<PathBuf> = home.into_iter().chain(others.map(PathBuf::from)).collect();
        self.files_or(&defaults)
    }

    fn files_or(&self, defaults: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
        files(
            self.kubeconfig.as_deref(),
            std::env::var_os("KUBECONFIG"),
            defaults,
            Path::exists,
        )
    }
}

/// The one file for a program that keeps reading it, as a node's agent does: the one that the
/// command line or the configuration names, else the one in KUBECONFIG.
///
/// # Errors
/// None, or a KUBECONFIG of several files.
pub fn single(named: Option<PathBuf>) -> Result<PathBuf, Error> {
    single_of(named, std::env::var_os("KUBECONFIG"), Path::exists)
}

fn single_of(
    named: Option<PathBuf>,
    variable: Option<OsString>,
    exists: impl Fn(&Path) -> bool,
) -> Result<PathBuf, Error> {
    match &files(named.as_deref(), variable, &[], exists)?[..] {
        [one] => Ok(one.clone()),
        _ => Err(Error::Option(
            "KUBECONFIG names several files: name the one of this node with --kubeconfig"
                .to_owned(),
        )),
    }
}

/// The files to read, to be merged in this order.
fn files(
    option: Option<&Path>,
    variable: Option<OsString>,
    defaults: &[PathBuf],
    exists: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, Error> {
    if let Some(path) = option {
        return Ok(vec![path.to_owned()]);
    }
    let variable = variable.unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&variable)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if !listed.is_empty() {
        let found: Vec<PathBuf> = listed.into_iter().filter(|path| exists(path)).collect();
        if found.is_empty() {
            return Err(Error::Option(format!(
                "KUBECONFIG names no file that exists: `{}`",
                variable.to_string_lossy()
            )));
        }
        return Ok(found);
    }
    match defaults.iter().find(|path| exists(path)) {
        Some(path) => Ok(vec![path.clone()]),
        None => Err(Error::Option(
            "no kubeconfig: name one with --kubeconfig or KUBECONFIG".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(option: Option<&str>, variable: Option<&str>) -> Result<Vec<String>, String> {
        let defaults = ["/absent", "/default"].map(PathBuf::from);
        let there = ["/a", "/b", "/default"];
        let exists = |path: &Path| there.iter().any(|it| path == Path::new(it));
        let variable = variable.map(OsString::from);
        files(option.map(Path::new), variable, &defaults, exists)
            .map(|files| files.iter().map(|it| it.display().to_string()).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_option_comes_before_the_variable_and_the_variable_before_defaults() {
        let of = |files: &[&str]| Ok(files.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(chosen(Some("/x"), Some("/a")), of(&["/x"]));
        assert_eq!(chosen(None, Some("/a")), of(&["/a"]));
        assert_eq!(chosen(None, Some("/gone::/b:/a")), of(&["/b", "/a"]));
        assert_eq!(chosen(None, Some("")), of(&["/default"]));
        assert_eq!(chosen(None, None), of(&["/default"]));
    }

    #[test]
    fn an_agent_takes_the_one_file_of_the_variable() {
        let of = |named: Option<&str>, variable: &str| {
            let variable = Some(OsString::from(variable));
            single_of(named.map(PathBuf::from), variable, |_| true)
        };
        assert_eq!(of(None, "/a").unwrap(), Path::new("/a"));
        assert_eq!(of(Some("/x"), "/a:/b").unwrap(), Path::new("/x"));
        let several = of(None, "/a:/b").unwrap_err().to_string();
        assert!(several.contains("--kubeconfig"), "{several}");
        assert!(single_of(None, None, |_| true).is_err());
    }

    #[test]
    fn a_variable_that_names_nothing_is_an_error_that_names_it() {
        let error = chosen(None, Some("/gone:/also")).unwrap_err();
        assert!(
            error.contains("KUBECONFIG") && error.contains("/gone:/also"),
            "{error}"
        );
        let none = files(None, None, &[], |_| false).unwrap_err().to_string();
        assert!(none.contains("--kubeconfig"), "{none}");
    }
}
