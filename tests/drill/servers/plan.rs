//! Which fault a cycle has: a pure function of its seed.

use std::{fmt, time::Duration};

use ::tests::random::Random;

/// One of the three servers, counted from 1.
pub type Server = u8;

/// The servers of the cluster.
pub const SERVERS: [Server; 3] = [1, 2, 3];

/// A program of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `orlop server`, and with its end its member of etcd.
    Server,
    /// The member of etcd alone.
    Member,
}

/// Packets that do not arrive: from a server, to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// The server's cable is out.
    Cut(Server),
    /// The server hears nobody, and everybody hears it.
    Deaf(Server),
    /// Nobody hears the server, and it hears everybody.
    Mute(Server),
    /// Two servers do not hear each other; both hear the third.
    Between(Server, Server),
    /// The second does not hear the first, which hears it.
    OneWay(Server, Server),
}

/// What happens to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Packets are lost.
    Partition(Partition),
    /// A program is stopped without ending (SIGSTOP).
    Freeze(Server, Program),
    /// A program is killed (SIGKILL).
    Kill(Server, Program),
    /// A machine loses its power.
    Power(Server),
    /// Two of three machines are cut off, and with them the majority.
    Majority(Server, Server),
    /// The disk of a server is full.
    DiskFull(Server),
    /// A member's disk takes half a second to make a write durable.
    SlowDisk(Server),
    /// The clock of a server jumps by an hour, ahead or back, and then to where it was.
    Clock(Server, bool),
    /// All certificates of a server have expired while its program is killed.
    Certificates(Server, Program),
    /// A machine is lost with its disk, and another takes its place.
    Replace(Server),
}

/// A cycle: a fault, and how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cycle {
    /// What happens.
    pub fault: Fault,
    /// For how long; a fault that ends by itself ends earlier or later.
    pub lasts: Duration,
}

/// How often a fault is drawn, of the sum of all. Those that take long are rarer.
const WEIGHTS: [(&str, usize); 11] = [
    ("partition", 22),
    ("one-way", 16),
    ("freeze", 14),
    ("kill", 14),
    ("power", 10),
    ("majority", 6),
    ("disk-full", 5),
    ("slow-disk", 5),
    ("clock", 3),
    ("certificates", 3),
    ("replace", 2),
];

/// Returns the cycle of a seed.
pub fn cycle(seed: u64) -> Cycle {
    let mut random = Random::new(seed);
    let lasts = Duration::from_millis(random.between(300, 3000) as u64);
    let server = *random.pick(&SERVERS);
    let other = (server + *random.pick(&[0, 1])) % 3 + 1;
    let program = *random.pick(&[Program::Server, Program::Member]);
    let all: usize = WEIGHTS.iter().map(|(_, weight)| weight).sum();
    let mut drawn = random.below(all);
    let kind = WEIGHTS.iter().find(|(_, weight)| {
        let is_it = drawn < *weight;
        drawn = drawn.saturating_sub(*weight);
        is_it
    });
    let fault = match kind.map_or("kill", |(name, _)| name) {
        "partition" if random.chance(70) => Fault::Partition(Partition::Cut(server)),
        "partition" => Fault::Partition(Partition::Between(server, other)),
        "one-way" => Fault::Partition(match random.below(3) {
            0 => Partition::Deaf(server),
            1 => Partition::Mute(server),
            _ => Partition::OneWay(server, other),
        }),
        "freeze" => Fault::Freeze(server, program),
        "power" => Fault::Power(server),
        "majority" => Fault::Majority(server, other),
        "disk-full" => Fault::DiskFull(server),
        "slow-disk" => Fault::SlowDisk(server),
        "clock" => Fault::Clock(server, random.chance(50)),
        "certificates" => Fault::Certificates(server, program),
        "replace" => Fault::Replace(server),
        _ => Fault::Kill(server, program),
    };
    Cycle { fault, lasts }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "program",
            Self::Member => "etcd",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(Partition::Cut(one)) => write!(f, "server-{one} is cut off"),
            Self::Partition(Partition::Deaf(one)) => write!(f, "server-{one} hears nobody"),
            Self::Partition(Partition::Mute(one)) => write!(f, "nobody hears server-{one}"),
            Self::Partition(Partition::Between(one, other)) => {
                write!(f, "server-{one} and server-{other} do not hear each other")
            }
            Self::Partition(Partition::OneWay(from, to)) => {
                write!(f, "server-{to} does not hear server-{from}")
            }
            Self::Freeze(one, program) => write!(f, "the {program} of server-{one} is stopped"),
            Self::Kill(one, program) => write!(f, "the {program} of server-{one} is killed"),
            Self::Power(one) => write!(f, "server-{one} loses its power"),
            Self::Majority(one, other) => {
                write!(f, "server-{one} and server-{other} are cut off")
            }
            Self::DiskFull(one) => write!(f, "the disk of server-{one} is full"),
            Self::SlowDisk(one) => write!(f, "the disk of server-{one} takes 500 ms a flush"),
            Self::Clock(one, true) => write!(f, "the clock of server-{one} is 1 h ahead"),
            Self::Clock(one, false) => write!(f, "the clock of server-{one} is 1 h back"),
            Self::Certificates(one, program) => write!(
                f,
                "certificates of server-{one} expire and its {program} is killed"
            ),
            Self::Replace(one) => write!(f, "server-{one} is replaced"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_repeats_its_fault_and_every_fault_comes() {
        let drawn: Vec<Cycle> = (0..2000).map(cycle).collect();
        assert_eq!(drawn, (0..2000).map(cycle).collect::<Vec<_>>());
        let texts: BTreeSet<String> = drawn.iter().map(|it| it.fault.to_string()).collect();
        for part in [
            "is cut off",
            "hears nobody",
            "nobody hears",
            "do not hear each other",
            "does not hear server-",
            "etcd of server-2 is stopped",
            "program of server-3 is killed",
            "loses its power",
            "are cut off",
            "is full",
            "500 ms",
            "1 h ahead",
            "1 h back",
            "expire and its etcd",
            "is replaced",
        ] {
            assert!(texts.iter().any(|text| text.contains(part)), "{part}");
        }
    }

    #[test]
    fn two_servers_of_a_fault_are_two() {
        for one in (0..2000).map(cycle) {
            if let Fault::Majority(a, b)
            | Fault::Partition(Partition::Between(a, b) | Partition::OneWay(a, b)) = one.fault
            {
                assert!(
                    a != b && SERVERS.contains(&a) && SERVERS.contains(&b),
                    "{one:?}"
                );
            }
            assert!(one.lasts >= Duration::from_millis(300), "{one:?}");
        }
    }
}
