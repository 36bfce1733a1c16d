//! Clients on the machine that is no node, one for each address. They hold connections to those that
//! are announced by ARP. To those that BGP announces they only open new ones: when a next hop
//! leaves or joins, the router redistributes connections to nodes that do not know them.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Stdio},
};

use tests::{Cluster, Failure, ensure, eventually, lan::Lan, netns};

use super::NEAR;

/// Connections that a client holds to an address on the network of the nodes.
const HELD: usize = 12;
/// Longer than the scenario takes.
const SECONDS: u32 = 900;

pub struct Clients(Vec<Client>);

struct Client {
    address: String,
    child: Child,
    log: PathBuf,
    held: usize,
    /// How many connections it had made when it was last looked at.
    made: u64,
}

impl Clients {
    /// Starts the clients; each has answers on all its connections.
    pub fn start(cluster: &Cluster, lan: &Lan, addresses: &[String]) -> Result<Self, Failure> {
        let demo = tests::programs().join("../images/x86_64-unknown-linux-gnu/release/demo");
        let mut all = Self(Vec::new());
        for address in addresses {
            let is_near = address.starts_with(NEAR);
            let held = if is_near { HELD } else { 0 };
            let log = cluster.dir.join(format!("client-{address}.log"));
            let child = netns::command(&lan.network(), &demo.display().to_string())
                .args(["connect", &format!("{address}:7777")])
                .args([held.to_string(), SECONDS.to_string()])
                .stdin(Stdio::null())
                .stdout(File::create(&log)?)
                .stderr(File::options().append(true).open(&log)?)
                .spawn()?;
            all.0.push(Client {
                address: address.clone(),
                child,
                log,
                held,
                made: 0,
            });
        }
        for client in &all.0 {
            eventually(&format!("answers of {}", client.address), 30, || {
                let said = fs::read_to_string(&client.log)?;
                ensure(said.contains(&format!("held {} ", client.held)), said)
            })?;
        }
        Ok(all)
    }

    /// Fails unless all connections are still held, and new ones were made since the last look,
    /// none of which failed.
    pub fn go_on(&mut self, when: &str) -> Result<(), Failure> {
        let mut wrong = Vec::new();
        for client in &mut self.0 {
            let last = eventually("new connections", 8, || {
                let said = fs::read_to_string(&client.log)?;
                let last = said.lines().rfind(|line| line.starts_with("held "));
                let last = last.unwrap_or_default().to_owned();
                let made = last.split(' ').nth(5).and_then(|it| it.parse().ok());
                let made: u64 = made.unwrap_or_default();
                ensure(made > client.made + 20, format!("last said: {last}"))?;
                client.made = made;
                Ok(last)
            })?;
            let (held, made) = (client.held, client.made);
            if last != format!("held {held} lost 0 made {made} failed 0") {
                let said = fs::read_to_string(&client.log)?;
                let bad = said.lines().filter(|line| !line.starts_with("held"));
                let first: Vec<_> = bad.take(5).collect();
                wrong.push(format!("{}: {last} {first:?}", client.address));
            }
        }
        ensure(wrong.is_empty(), format!("{when}:\n{}", wrong.join("\n")))
    }

    /// Says how many connections were held, and how many were made besides.
    pub fn summary(&self) -> String {
        let made: u64 = self.0.iter().map(|it| it.made).sum();
        let held: usize = self.0.iter().map(|it| it.held).sum();
        format!("0 of {held} held connections lost, 0 of {made} new failed")
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for client in &mut self.0 {
            let _ = client.child.kill();
            let _ = client.child.wait();
        }
    }
}
