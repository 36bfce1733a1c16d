//! Another machine: a network namespace at the other end of a wire, in which a
//! thread does what it is told.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use node_agent_datapath::Device;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};

type Job = Box<dyn FnOnce() + Send>;

/// The machine; it ends with this value.
pub struct Machine {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    device: String,
}

pub fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .expect("start `ip`");
    assert!(status.success(), "ip {arguments}");
}

impl Machine {
    /// A machine with address `theirs` at this namespace's `device`, which gets
    /// `ours`: addresses without a prefix, which is 24 bits long. All it sends goes
    /// to `ours`.
    pub fn new(device: &str, ours: &str, theirs: &str) -> Self {
        let (jobs, todo) = channel::<Job>();
        let (told, id) = channel();
        let thread = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("unshare");
            told.send(nix::unistd::gettid()).expect("told");
            for job in todo {
                job();
            }
        });
        let id = id.recv().expect("a thread");
        ip(&format!(
            "link add {device} type veth peer name eth0 netns {id}"
        ));
        ip(&format!("addr add {ours}/24 dev {device}"));
        ip(&format!("link set {device} up"));
        let machine = Self {
            jobs: Some(jobs),
            thread: Some(thread),
            device: device.to_owned(),
        };
        let lines = [
            "link set lo up".to_owned(),
            format!("addr add {theirs}/24 dev eth0"),
            "link set eth0 up".to_owned(),
            format!("route add default via {ours}"),
        ];
        machine.run(move || lines.iter().for_each(|line| ip(line)));
        machine
    }

    /// Does something there.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        let job: Job = Box::new(move || {
            let _ = done.send(job());
        });
        let jobs = self.jobs.as_ref().expect("not ended");
        jobs.send(job).expect("the thread runs");
        result.recv().expect("the job did not panic")
    }

    /// This namespace's device towards it.
    pub fn device(&self) -> Device {
        let index = nix::net::if_::if_nametoindex(self.device.as_str()).expect("a device");
        Device {
            index,
            name: self.device.clone(),
            kind: "veth".to_owned(),
            ethernet: true,
            ..Device::default()
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Connects from a port.
pub fn connect_from(port: u16, to: SocketAddr) -> std::io::Result<TcpStream> {
    let (family, any) = if to.is_ipv4() {
        (AddressFamily::INET, IpAddr::from([0; 4]))
    } else {
        (AddressFamily::INET6, IpAddr::from([0; 16]))
    };
    let it = socket(family, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&it, true)?;
    let patience = Duration::from_secs(10);
    sockopt::set_socket_timeout(&it, sockopt::Timeout::Send, Some(patience))?;
    bind(&it, &SocketAddr::new(any, port))?;
    connect(&it, &to)?;
    let stream = TcpStream::from(it);
    stream.set_read_timeout(Some(patience))?;
    Ok(stream)
}

/// Connects from a port and reads which server answered.
pub fn ask_from(port: u16, to: SocketAddr) -> std::io::Result<(SocketAddr, TcpStream)> {
    let mut stream = connect_from(port, to)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok((answer.parse().map_err(std::io::Error::other)?, stream))
}
