//! Admission: rules about a request that look beyond its one object.
//!
//! Each plugin is an object of the trait [`Admission`], in a file of its own in `plugins`;
//! `table` lists the plugins in kube-apiserver's order, with the requests that each one
//! handles. The [`AdmissionChain`] runs the enabled ones: first all that may change the
//! object, then, after the kind's own validation, all that only look at it. Policies and
//! webhooks of users come behind the built-in plugins in both phases ([`dynamic`]), quotas
//! last of all. What a plugin decides is a pure function of `control_kinds::admission`; the
//! objects that it looks at come from a [`Cluster`], which knows where they are.

mod admission;
mod attributes;
mod chain;
mod cluster;
mod counts;
pub mod dynamic;
mod metrics;
mod operation;
mod plugin;
mod plugins;
mod settings;
mod table;

pub use admission::{Admission, AdmissionResult, Change};
pub use attributes::{Attributes, RequestOptions};
pub use chain::AdmissionChain;
pub use cluster::{Authorizer, Cluster, Lister, QuotaUpdate, ResourceMapper, Writer};
pub use control_kinds::admission::Stay;
pub use counts::Step;
pub use metrics::AdmissionMetrics;
pub use operation::Operation;
pub use plugin::{ChoiceError, Plugin, Plugins};
pub use plugins::namespace_lifecycle::{IMMORTAL, check_deletion};
pub use plugins::resource_quota::ResourceQuota;
pub use settings::{PluginError, Settings, SettingsError};
