//! The input of policy expressions.

use control_cel::{Authorizer, Bindings, Check, Question, Val};
use control_types::value::Value;

/// One request, as expressions see it.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// `object`; none for deletions.
    pub object: Option<&'a Value>,
    /// `oldObject`; none for creations.
    pub old: Option<&'a Value>,
    /// `request`: the `AdmissionRequest` without its objects. May be null for
    /// what does not read it.
    pub request: &'a Value,
    /// `namespaceObject`; `None` for cluster-scoped objects.
    pub namespace: Option<&'a Value>,
    /// `params`; none where a binding names none.
    pub params: Option<&'a Value>,
    /// `authorizer`, and the resource of the request for `authorizer.requestResource`.
    pub authorizer: Option<(&'a dyn Authorizer, &'a Question)>,
}

impl<'a> Facts<'a> {
    /// The values of the variables that every policy may name. `authorizer`:
    /// whether something asks it.
    pub(super) fn bindings(&self, authorizer: bool) -> Bindings<'a> {
        let tree = |value: Option<&'a Value>| value.map_or(Val::Null, Val::tree);
        let mut bindings = Bindings::new()
            .with("object", tree(self.object))
            .with("oldObject", tree(self.old))
            .with("request", Val::tree(self.request))
            .with("namespaceObject", tree(self.namespace))
            .with("params", tree(self.params));
        if let (true, Some((authorizer, resource))) = (authorizer, self.authorizer) {
            let check = Check::variable(authorizer, Some(resource.clone()));
            bindings.set("authorizer", check);
        }
        bindings
    }
}
