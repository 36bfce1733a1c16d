//! Clusters with servers of their own: what operators do there.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{Cluster, Failure, checked, ensure, eventually, xtask};

impl Cluster {
    /// Runs our program on one of its servers, as an operator does there.
    ///
    /// # Errors
    /// What it printed.
    pub fn on_server(&self, server: &str, words: &[&str]) -> Result<String, Failure> {
        let data_dir = ["--data-dir", "/mnt/server"];
        self.on_host(server, &[&["orlop"], words, &data_dir].concat())
    }

    /// Runs a command on one of its hosts.
    ///
    /// # Errors
    /// What it printed.
    pub fn on_host(&self, host: &str, words: &[&str]) -> Result<String, Failure> {
        let mut command = xtask();
        command.args(["shell", host, "--state"]).arg(&self.dir);
        command.arg("--").args(words);
        let output = command.stdin(Stdio::null()).output()?;
        checked(output, &format!("{words:?} on {host}"))
    }

    /// The kubeconfig that asks one of its servers, counted from 1.
    pub fn kubeconfig_of_server(&self, number: u8) -> PathBuf {
        self.dir.join(format!("servers/server-{number}.kubeconfig"))
    }

    /// Asks one of its servers with kubectl.
    ///
    /// # Errors
    /// What kubectl printed as its error.
    pub fn of_server(&self, number: u8, words: &str) -> Result<String, Failure> {
        let mut command = Command::new(&self.kubectl);
        command
            .env("KUBECONFIG", self.kubeconfig_of_server(number))
            .args(words.split_whitespace());
        checked(command.stdin(Stdio::null()).output()?, words)
    }

    /// Waits until so many members of etcd are well and have a vote, asked on one of the
    /// servers.
    ///
    /// # Errors
    /// The members, after a minute.
    pub fn members_are_well(&self, server: &str, count: usize) -> Result<(), Failure> {
        eventually(&format!("{count} voting members that are well"), 60, || {
            let all = self.members(server)?;
            let well = |one: &&Value| one["isHealthy"] == true && one["isLearner"] == false;
            ensure(
                all.len() == count && all.iter().filter(well).count() == count,
                format!("{all:?}"),
            )
        })
    }

    /// The members of etcd, asked on one of the servers.
    fn members(&self, server: &str) -> Result<Vec<Value>, Failure> {
        let text = self.on_server(server, &["etcd", "members", "list", "--json"])?;
        Ok(serde_json::from_str(text.trim())?)
    }

    /// Puts a new machine, without the old one's disk, in the place of a server that is off, as
    /// `asked` says; returns how long it takes to have a vote.
    ///
    /// # Errors
    /// What the commands printed, or a member that does not come.
    pub fn replace_server(&self, lost: &str, asked: &str) -> Result<Duration, Failure> {
        self.empty(lost)?;
        let printed = self.on_server(asked, &["etcd", "members", "replace", lost])?;
        self.join_anew(lost, asked, &printed)
    }

    /// The same for a server that is no member any more.
    ///
    /// # Errors
    /// As [`Cluster::replace_server`].
    pub fn replace_lost_server(&self, lost: &str, asked: &str) -> Result<Duration, Failure> {
        self.empty(lost)?;
        let printed = self.on_server(asked, &["token", "create", "--server"])?;
        self.join_anew(lost, asked, &printed)
    }

    /// Empties the disk of a server.
    fn empty(&self, server: &str) -> Result<(), Failure> {
        // The folder itself may be where a disk is mounted.
        for entry in fs::read_dir(self.dir.join("server").join(server))? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Starts a machine with the line that joins it, and waits for its vote.
    fn join_anew(&self, lost: &str, asked: &str, printed: &str) -> Result<Duration, Failure> {
        let line = printed
            .lines()
            .find(|line| line.starts_with("orlop server --join"))
            .ok_or_else(|| format!("no line to join with: {printed}"))?;
        let words: Vec<&str> = line.split_whitespace().skip(2).collect();
        let path = self.dir.join("nodes").join(lost).join("host.json");
        let as_it_was = fs::read(&path)?;
        let mut host: Value = serde_json::from_slice(&as_it_was)?;
        let command = host["programs"][0]["command"].as_array_mut();
        command
            .ok_or("no command")?
            .extend(words.into_iter().map(Value::from));
        fs::write(&path, serde_json::to_vec(&host)?)?;
        let began = Instant::now();
        self.host("start", lost)?;
        let is_member = eventually("the new machine's vote", 90, || {
            let members = self.members(asked)?;
            let well = members.iter().any(|one| {
                one["name"] == lost && one["isHealthy"] == true && one["isLearner"] == false
            });
            ensure(well, format!("{members:?}"))
        });
        // From now on it starts without being told to join.
        fs::write(&path, as_it_was)?;
        is_member.map(|()| began.elapsed())
    }
}
