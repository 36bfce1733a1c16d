//! Questions to the authorizer.

use std::fmt;
use std::rc::Rc;

/// Decides whether a request may be made.
pub trait Authorizer: fmt::Debug {
    /// Decides a question.
    fn authorize(&self, question: &Question) -> Decision;
}

/// A question for the authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// A service account by namespace and name; `None`: who made the request.
    pub service_account: Option<(String, String)>,
    /// A path that is no resource; all below is empty then.
    pub path: Option<String>,
    /// API group.
    pub group: String,
    /// Resource in plural.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Selector of fields, as written; what does not parse asks for no fields.
    pub field_selector: String,
    /// Selector of labels, as written; what does not parse asks for no labels.
    pub label_selector: String,
    /// The verb: of the API, or of HTTP for paths.
    pub verb: String,
}

/// The authorizer's decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may be done.
    pub allowed: bool,
    /// The reason, if known.
    pub reason: String,
    /// The error, if any.
    pub error: Option<String>,
}

/// How far a question is put.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Start,
    Path,
    Group,
    Resource,
    Decided(Decision),
}

/// An incomplete question, or its decision.
#[derive(Clone, Debug)]
pub struct Check<'a> {
    pub(crate) authorizer: &'a dyn Authorizer,
    pub(crate) stage: Stage,
    pub(crate) question: Question,
    /// The value of `authorizer.requestResource`.
    pub(crate) request: Option<Rc<Check<'a>>>,
}

impl Check<'_> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Start => "kubernetes.authorization.Authorizer",
            Stage::Path => "kubernetes.authorization.PathCheck",
            Stage::Group => "kubernetes.authorization.GroupCheck",
            Stage::Resource => "kubernetes.authorization.ResourceCheck",
            Stage::Decided(_) => "kubernetes.authorization.Decision",
        }
    }
}
