//! BIRD on the machine that is no node: it accepts a session from each node, and writes their
//! routes into its kernel's table, one with several next hops where nodes agree.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tests::{Failure, ensure, eventually, lan::Lan, netns};

use super::{super::migration::stock::NODES, ROUTED};

/// The machine's address.
pub const ROUTER: &str = "10.88.0.2";

pub struct Router {
    network: PathBuf,
    bird: Child,
    /// Writes down what happens to routes.
    monitor: Child,
    record: PathBuf,
}

/// Whether the machine has BIRD.
pub fn is_installed() -> bool {
    let version = Command::new("bird").arg("--version").output();
    version.is_ok_and(|it| it.status.success())
}

impl Router {
    pub fn start(dir: &Path, lan: &Lan) -> Result<Self, Failure> {
        let network = lan.network();
        let (file, record) = (dir.join("bird.conf"), dir.join("routes.log"));
        let mut text = format!(
            "log \"{}\" all;\nrouter id {ROUTER};\nprotocol device {{ scan time 1; }}\n\
             protocol kernel {{ merge paths on; ipv4 {{ import none; \
             export where source = RTS_BGP; }}; }}\n",
            dir.join("bird.log").display()
        );
        for (name, address) in NODES {
            let name = name.replace('-', "_");
            text.push_str(&format!(
                "protocol bgp {name} {{ passive; local {ROUTER} as 65100; \
                 neighbor {address} as 65001; ipv4 {{ import all; export none; }}; }}\n"
            ));
        }
        fs::write(&file, text)?;
        let monitor = netns::command(&network, "ip")
            .args(["monitor", "route"])
            .stdin(Stdio::null())
            .stdout(File::create(&record)?)
            .spawn()?;
        let bird = netns::command(&network, "bird")
            .args(["-f", "-c"])
            .arg(&file)
            .arg("-s")
            .arg(dir.join("bird.ctl"))
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self {
            network,
            bird,
            monitor,
            record,
        })
    }

    /// Fails unless the route to an address has so many next hops.
    pub fn next_hops(&self, address: &str, count: usize) -> Result<(), Failure> {
        eventually(&format!("{count} next hops to {address}"), 20, || {
            let route = netns::inside(&self.network, &format!("ip route show {address}"))?;
            let found = route.matches("via ").count();
            ensure(found == count, format!("the route is {route:?}"))
        })
    }

    /// The routes that went as a whole.
    pub fn withdrawals(&self) -> Result<Vec<String>, Failure> {
        let text = fs::read_to_string(&self.record)?;
        let gone = text
            .lines()
            .filter(|line| line.starts_with("Deleted") && line.contains(ROUTED));
        Ok(gone.map(str::to_owned).collect())
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        for child in [&mut self.bird, &mut self.monitor] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
