//! Servers that are test hosts of their own, each with a member of a managed etcd: the first
//! begins the cluster, the others join it.

use std::{
    fs,
    net::TcpListener,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use super::{
    Cluster, Node, network, node_dir,
    spec::{Host, Program},
    up,
};
use crate::{
    error::{Error, at},
    run::{Step, output},
};

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// Words of the command line with which a server joins.
type JoinLine = Vec<String>;

/// The data folder of the n-th server.
pub fn data(dir: &Path, number: u8) -> PathBuf {
    dir.join("server").join(name(number))
}

/// Returns the kubeconfig for one server.
pub fn kubeconfig(dir: &Path, number: u8) -> PathBuf {
    dir.join("servers")
        .join(format!("{}.kubeconfig", name(number)))
}

fn name(number: u8) -> String {
    format!("server-{number}")
}

/// Starts the servers and waits until all of them answer and have their vote.
///
/// # Errors
/// What cannot be started, or does not answer in time.
pub fn start(
    cluster: &mut Cluster,
    programs: &Path,
    dir: &Path,
    options: &up::Options,
) -> Result<(), Error> {
    let step = Step::begin("servers");
    let folder = dir.join("servers");
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let orlop = programs.join("orlop");
    let mut line = None;
    for number in 1..=options.servers {
        let join = match (number, &line) {
            (1, _) => None,
            // A server that joined before, and whose state was kept.
            _ if has_joined(dir, number) => None,
            (_, Some(line)) => Some(line),
            (_, None) => Some(&*line.insert(join_line(&orlop, dir, cluster)?)),
        };
        let node = start_one(cluster, programs, dir, number, options, join)?;
        cluster.servers.push(node);
        cluster.save(dir)?;
        let lan = cluster.lan.unwrap_or_default();
        let node = &cluster.servers[usize::from(number) - 1];
        up::connect(lan, dir, node, &options.net)?;
        credentials(&orlop, dir, number, node)?;
        // Those that join ask the first one; kept ones need each other for a majority.
        if number == 1 && !has_joined(dir, 2) {
            wait(&orlop, dir, number)?;
        }
        step.progress(&node.name);
    }
    for number in 1..=options.servers {
        wait(&orlop, dir, number)?;
        // From now on it starts without joining.
        let folder = node_dir(dir, &name(number));
        let mut host = Host::load(&folder)?;
        for program in &mut host.programs {
            program.command = command(number, &options.net, None);
        }
        host.save(&folder)?;
    }
    step.done();
    Ok(())
}

fn has_joined(dir: &Path, number: u8) -> bool {
    data(dir, number).join("etcd/member.json").exists()
}

fn start_one(
    cluster: &Cluster,
    programs: &Path,
    dir: &Path,
    number: u8,
    options: &up::Options,
    join: Option<&JoinLine>,
) -> Result<Node, Error> {
    let name = name(number);
    let folder = node_dir(dir, &name);
    let data = data(dir, number);
    for path in [&folder, &data] {
        fs::create_dir_all(path).map_err(at(path))?;
    }
    let _ = fs::remove_file(folder.join("joined"));
    let loopback = Path::new("127.0.0.1");
    let socket = TcpListener::bind(("127.0.0.1", 0)).map_err(at(loopback))?;
    let port = socket.local_addr().map_err(at(loopback))?.port();
    Host {
        name: name.clone(),
        group: format!("{}/{name}", cluster.id),
        binds: vec![
            ("bin".to_owned(), programs.display().to_string()),
            ("server".to_owned(), data.display().to_string()),
        ],
        programs: vec![Program {
            name: "server".to_owned(),
            command: command(number, &options.net, join),
            socket: true,
        }],
    }
    .save(&folder)?;
    let pid = up::start_host(&folder, Some(OwnedFd::from(socket)))?;
    Ok(Node {
        name,
        address: network::address(network::of_server(number)),
        pid,
        port: Some(port),
    })
}

/// The server's command line, as seen inside its host.
fn command(number: u8, net: &network::Net, join: Option<&JoinLine>) -> Vec<String> {
    let text = format!(
        "/mnt/bin/orlop server --data-dir /mnt/server --bind-address 0.0.0.0 --secure-port 6443 \
         --advertise-address {} --etcd managed --control-plane-address {} {}",
        network::address(network::of_server(number)),
        network::SERVERS,
        net.ranges()
    );
    let words = text.split_whitespace().map(str::to_owned);
    words.chain(join.cloned().unwrap_or_default()).collect()
}

/// Asks the first server for a token, as an operator does there.
fn join_line(orlop: &Path, dir: &Path, cluster: &Cluster) -> Result<JoinLine, Error> {
    let first = cluster.servers.first().map_or(0, |node| node.pid);
    let text = output(
        Command::new("nsenter")
            .args(["--net", "--target", &first.to_string(), "--"])
            .arg(orlop)
            .args(["token", "create", "--server", "--data-dir"])
            .arg(data(dir, 1)),
    )?;
    let words = text.split_whitespace().skip_while(|word| *word != "--join");
    let words: JoinLine = words.map(str::to_owned).collect();
    if words.is_empty() {
        return Err(Error::State(format!("no line to join with: {text}")));
    }
    Ok(words)
}

/// The administrator's kubeconfig that asks this one server.
fn credentials(orlop: &Path, dir: &Path, number: u8, node: &Node) -> Result<(), Error> {
    let port = node.port.unwrap_or_default();
    output(
        Command::new(orlop)
            .args(["credentials", "admin", "--data-dir"])
            .arg(data(dir, 1))
            .args(["--server", &format!("https://127.0.0.1:{port}"), "--output"])
            .arg(kubeconfig(dir, number)),
    )
    .map(drop)
}

/// Waits until a server answers.
fn wait(orlop: &Path, dir: &Path, number: u8) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        let asked = output(
            Command::new("timeout")
                .arg("10")
                .arg(orlop)
                .args(["token", "list", "--kubeconfig"])
                .arg(kubeconfig(dir, number)),
        );
        match asked {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= until => {
                let log = node_dir(dir, &name(number)).join("logs/server.log");
                return Err(Error::State(format!(
                    "{} does not answer after {PATIENCE:?} ({}): see {}",
                    name(number),
                    error.chain(),
                    log.display()
                )));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_joins_once_and_starts_without_it_afterwards() {
        let net = network::Net::default();
        let line = ["--join", "https://10.88.0.10:6443", "--token", "t"];
        let line: JoinLine = line.map(str::to_owned).to_vec();
        let joins = command(2, &net, Some(&line));
        let later = command(2, &net, None);
        assert_eq!(joins.len(), later.len() + line.len());
        assert!(later.contains(&"10.88.0.212".to_owned()), "{later:?}");
        assert!(!later.contains(&"--join".to_owned()));
    }
}
