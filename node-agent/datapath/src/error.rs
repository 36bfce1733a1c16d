//! What can go wrong, each with the way out.

use std::io;
use std::path::PathBuf;

/// Why the datapath cannot work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not root.
    #[error("loading BPF programs needs root; run this as root")]
    NotRoot,
    /// The kernel lacks what the programs need.
    #[error(
        "kernel {found} is older than {needed}, which the socket hooks need; boot a newer kernel"
    )]
    KernelTooOld {
        /// The running kernel.
        found: String,
        /// The oldest one that will do.
        needed: &'static str,
    },
    /// The cgroup is none, or of the first version.
    #[error(
        "`{}` is no cgroup v2 directory; mount one (`mount -t cgroup2 none /sys/fs/cgroup/unified`) or name another \
         by --cgroup",
        .path.display()
    )]
    NoCgroup2 {
        /// What was named.
        path: PathBuf,
    },
    /// The pin directory is not on a BPF filesystem.
    #[error("`{}` is on no BPF filesystem; mount one: `mount -t bpf bpf {}`", .path.display(), .path.display())]
    NoBpffs {
        /// The nearest directory that exists.
        path: PathBuf,
    },
    /// Another process works with these maps.
    #[error("another process uses the maps pinned at `{}`; end it first", .path.display())]
    Busy {
        /// The pin directory.
        path: PathBuf,
    },
    /// A map that an earlier process pinned has another layout.
    #[error(
        "the pinned map `{}` has another layout ({found}, expected {expected}); end the node agent \
         and remove the directory that holds it with `rm -r`",
        .path.display()
    )]
    Layout {
        /// The pinned map.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// The object is none, or not ours.
    #[error(
        "the BPF object lacks {what}; it was built from other sources: run `cargo xtask build`"
    )]
    Object {
        /// What is missing.
        what: String,
    },
    /// The object in this program is damaged.
    #[error(
        "could not unpack the BPF object: the file of this program is damaged; install it again"
    )]
    Unpack {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The object could not be loaded.
    #[error("could not load the BPF object")]
    Load {
        /// Why.
        #[source]
        source: Box<aya::EbpfError>,
    },
    /// The kernel refused a program.
    #[error("the kernel refused to {verb} program `{program}`")]
    Program {
        /// What was tried.
        verb: &'static str,
        /// Which.
        program: &'static str,
        /// Why not.
        #[source]
        source: Box<aya::programs::ProgramError>,
    },
    /// A device takes no program.
    #[error("could not {verb} program `{program}` at the device with index {device}")]
    Device {
        /// What was tried.
        verb: &'static str,
        /// Which.
        program: &'static str,
        /// The device's index.
        device: u32,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A device stays.
    #[error("could not remove the device `{device}`, or one that was to go with it")]
    Removal {
        /// Which.
        device: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The node's network namespace has no name that programs know.
    #[error("could not read the cookie of this network namespace")]
    Namespace {
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It is not known when programs have ended.
    #[error("could not wait for programs that are at work")]
    Wait {
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Sockets of clients could not be listed or destroyed.
    #[error("could not look for UDP sockets of backends that are gone")]
    Sockets {
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The kernel's connection tracking could not be read, or its translation not kept.
    #[error("could not {verb} the kernel's translation of connections")]
    KernelNat {
        /// What was tried.
        verb: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// This node's routes cannot be asked for.
    #[error("could not ask for the route to an endpoint")]
    Routes {
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No packet has addresses of two families.
    #[error("{client} cannot send to {asked}: one is IPv4 and the other IPv6")]
    Families {
        /// The client.
        client: std::net::IpAddr,
        /// What it asks for.
        asked: std::net::IpAddr,
    },
    /// The programs' messages cannot be read.
    #[error("could not read the log of the programs")]
    Log {
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A link could not be made, pinned or changed.
    #[error("could not {verb} the link `{}`", .path.display())]
    Link {
        /// What was tried.
        verb: &'static str,
        /// Where it is pinned.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A map has no room.
    #[error("map `{map}` is full with {capacity} entries; raise its capacity")]
    Full {
        /// Which.
        map: &'static str,
        /// How many entries it takes.
        capacity: u32,
    },
    /// A map could not be read or written.
    #[error("could not {verb} map `{map}`")]
    Map {
        /// What was tried.
        verb: &'static str,
        /// Which.
        map: &'static str,
        /// Why not.
        #[source]
        source: Box<aya::maps::MapError>,
    },
    /// Nothing is pinned there.
    #[error("no datapath is pinned at `{}`; is the node agent running?", .path.display())]
    NotPinned {
        /// The directory.
        path: PathBuf,
    },
    /// A file or directory could not be used.
    #[error("could not {verb} `{}`", .path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}
