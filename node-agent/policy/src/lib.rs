//! Pure: policies, pods, namespaces and nodes in, desired policy maps and actions out.
//!
//! ```text
//! NetworkPolicy, ClusterNetworkPolicy ──► lower ──► Policy ──┐
//! Pod, Namespace, Node ──────────────────────────────────────┼──► Compiler ──► [Action]
//!                                                            │
//!                                                            └──► explain: who, which rule
//! ```
//!
//! [`lower`] alone knows what an object of the API means. The [`Compiler`]
//! keeps what was compiled, so that a change costs what it touches, and says
//! what to write, in an order in which every prefix is sound. The shape of the
//! maps is that of `ebpf_abi::policy`; what they mean is decided by
//! `ebpf_logic::policy`, in the kernel as in tests.
//!
//! Nothing here does I/O, and equal input gives the same verdicts.
//!
//! ```
//! use ebpf_abi::Protocol;
//! use node_agent_policy::{Compiler, Config, check};
//! use serde_json::json;
//!
//! let pod = |name: &str, ip: &str| json!({
//!     "apiVersion": "v1", "kind": "Pod",
//!     "metadata": {"namespace": "shop", "name": name, "labels": {"app": name}},
//!     "status": {"podIP": ip},
//! });
//! let policy = json!({
//!     "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
//!     "metadata": {"namespace": "shop", "name": "database"},
//!     "spec": {
//!         "podSelector": {"matchLabels": {"app": "db"}},
//!         "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}],
//!     },
//! });
//! let documents = vec![pod("web", "10.0.0.1"), pod("db", "10.0.0.2"), pod("other", "10.0.0.3"), policy];
//! let (objects, _) = check::read(documents)?;
//!
//! let mut compiler = Compiler::new(Config::default());
//! objects.apply_to(&mut compiler);
//! let actions = compiler.sync();
//! assert!(!actions.is_empty());
//!
//! let database = "10.0.0.2".parse()?;
//! assert!(compiler.explain("10.0.0.1".parse()?, database, Protocol::TCP, 5432).allow);
//! assert!(!compiler.explain("10.0.0.3".parse()?, database, Protocol::TCP, 5432).allow);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod action;
mod address;
pub mod check;
mod compiler;
pub mod custom_resource;
mod index;
mod intern;
mod labels;
pub mod lower;
pub mod objects;
pub mod policy;
mod ports;
mod prefixes;
mod ruleset;

pub use action::Action;
pub use address::Prefix;
pub use compiler::{
    Compiler, Config, End, Explanation, FreeMark, Reason, Side, SideDecision, Sizes, UNKNOWN_POD,
};
pub use labels::{Labels, Selector};
