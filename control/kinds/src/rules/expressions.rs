//! CEL expressions about admission requests: available names and required types.

use control_cel::{Env, Issues, Object, Program, Type};
use control_types::value::Value;

use crate::error::{ErrorKind, Errors, Path};

/// The names that an expression may use besides the request itself.
#[derive(Clone, Default)]
pub(crate) struct Names {
    /// `params`: the policy has parameters.
    pub params: bool,
    /// `authorizer`.
    pub authorizer: bool,
    /// `variables`: the preceding ones.
    pub variables: Option<Vec<(String, Type)>>,
    /// `Object{…}` and `JSONPatch{…}`: a mutation is stated.
    pub patches: bool,
    /// The types of objects and parameters; `None` if unknown before a request.
    pub types: Option<Types>,
}

/// The types of the objects that a policy applies to.
#[derive(Clone)]
pub(crate) struct Types {
    /// The type of `object` and `oldObject`.
    pub object: Type,
    /// The type of `params`.
    pub params: Type,
}

impl Names {
    /// Declares a variable for the following expressions. Types that the environment
    /// cannot express are checked at run time, as in Kubernetes.
    pub(crate) fn declare(&mut self, name: &str, of: &Type) {
        let of = declared(of);
        let all = self.variables.get_or_insert_default();
        all.push((name.to_owned(), of));
    }

    fn env(&self) -> Env {
        let known = self.types.as_ref();
        let object = known.map_or(Type::Dyn, |known| known.object.clone());
        let mut env = Env::new()
            .with("object", object.clone())
            .with("oldObject", object)
            .with("request", Type::Object(&REQUEST))
            .with("namespaceObject", Type::Object(&NAMESPACE));
        if self.params {
            let params = known.map_or(Type::Dyn, |known| known.params.clone());
            env = env.with("params", params);
        }
        if self.authorizer {
            let authorizer = Type::Opaque("kubernetes.authorization.Authorizer");
            let check = Type::Opaque("kubernetes.authorization.ResourceCheck");
            env = env.with("authorizer", authorizer);
            // where types are only compared, stock does not know the second
            if known.is_none() {
                env = env.with("authorizer.requestResource", check);
            }
        }
        if let Some(variables) = &self.variables {
            env = env.with("variables", Type::Record(variables.clone()));
        }
        if self.patches {
            env = env.with_patches();
        }
        env
    }
}

/// Returns the declared type of a variable of this type.
fn declared(of: &Type) -> Type {
    match of {
        Type::List(items) => Type::list(declared(items)),
        Type::Map(keys, values) => Type::Map(Box::new(declared(keys)), Box::new(declared(values))),
        Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Null
        | Type::Duration
        | Type::Timestamp => of.clone(),
        _ => Type::Dyn,
    }
}

/// Error of an expression that does not compile, in kube-apiserver's words.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CompileError {
    /// It is wrong.
    #[error("compilation failed: {0}")]
    Issues(Issues),
    /// Its result has another type than it must have.
    #[error("must evaluate to {wanted} but got {found}")]
    ResultType {
        /// The types that it may have.
        wanted: String,
        /// The type that it has.
        found: String,
    },
}

/// The type of `expression` if it is right; else an error at `at`. `wanted` are
/// the types that its result may have; none: any.
pub(crate) fn check(
    expression: &str,
    names: &Names,
    wanted: &[Type],
    at: &Path<'_>,
    errors: &mut Errors,
) -> Type {
    match control_cel::check(expression, &names.env()) {
        Ok(of) => {
            if let Some(why) = unwanted(&of, wanted) {
                errors.invalid(at, expression, why.to_string());
            } else if let Err(issues) = control_cel::compile(expression, &names.env()) {
                let issue = issues.found().first().map_or("", |issue| &issue.message);
                let why = format!("program instantiation failed: {issue}");
                errors.add(ErrorKind::Internal, at, None, why);
            }
            of
        }
        Err(issues) => {
            errors.invalid(at, expression, CompileError::Issues(issues).to_string());
            Type::Dyn
        }
    }
}

/// Compiles `expression`; errors are worded as in [`check`].
pub(crate) fn compile(
    expression: &str,
    names: &Names,
    wanted: &[Type],
) -> Result<Program, CompileError> {
    let program = control_cel::compile(expression, &names.env()).map_err(CompileError::Issues)?;
    match unwanted(program.type_of(), wanted) {
        Some(why) => Err(why),
        None => Ok(program),
    }
}

/// The type of an expression, or all that is wrong with it.
pub(crate) fn type_of(expression: &str, names: &Names) -> Result<Type, Issues> {
    control_cel::check(expression, &names.env())
}

/// Returns what is wrong with the type of a result.
fn unwanted(of: &Type, wanted: &[Type]) -> Option<CompileError> {
    if wanted.is_empty() || wanted.contains(of) {
        return None;
    }
    let wanted = match wanted {
        [one] => one.declared_name(),
        all => {
            let all: Vec<String> = all.iter().map(Type::declared_name).collect();
            format!("one of [{}]", all.join(" "))
        }
    };
    let found = of.declared_name();
    Some(CompileError::ResultType { wanted, found })
}

/// `matchConditions` of webhooks and policies.
pub(crate) fn match_conditions(list: &[Value], params: bool, all: &Path<'_>, errors: &mut Errors) {
    use crate::tree::Read;
    const MOST: usize = 64;
    if list.len() > MOST {
        errors.too_many(all, list.len(), MOST);
    }
    let names = Names {
        params,
        authorizer: true,
        ..Names::default()
    };
    for (i, condition) in list.iter().enumerate() {
        let at = all.index(i);
        let expression = condition.text("expression").trim();
        if expression.is_empty() {
            errors.required(&at.child("expression"), "");
        } else {
            check(
                expression,
                &names,
                &[Type::Bool],
                &at.child("expression"),
                errors,
            );
        }
        let name = condition.text("name");
        if name.is_empty() {
            errors.required(&at.child("name"), "");
            continue;
        }
        super::labels::label_key(name, &at.child("name"), errors);
        if list.iter().take(i).any(|other| other.text("name") == name) {
            errors.duplicate(&at.child("name"), name);
        }
    }
}

fn text() -> Type {
    Type::String
}

fn texts() -> Type {
    Type::list(Type::String)
}

static KIND: Object = Object {
    name: "kubernetes.GroupVersionKind",
    fields: &[("group", text), ("version", text), ("kind", text)],
};
static RESOURCE: Object = Object {
    name: "kubernetes.GroupVersionResource",
    fields: &[("group", text), ("version", text), ("resource", text)],
};
static USER: Object = Object {
    name: "kubernetes.UserInfo",
    fields: &[
        ("username", text),
        ("uid", text),
        ("groups", texts),
        ("extra", || Type::map(texts())),
    ],
};
static REQUEST: Object = Object {
    name: "kubernetes.AdmissionRequest",
    fields: &[
        ("kind", || Type::Object(&KIND)),
        ("resource", || Type::Object(&RESOURCE)),
        ("subResource", text),
        ("requestKind", || Type::Object(&KIND)),
        ("requestResource", || Type::Object(&RESOURCE)),
        ("requestSubResource", text),
        ("name", text),
        ("namespace", text),
        ("operation", text),
        ("userInfo", || Type::Object(&USER)),
        ("dryRun", || Type::Bool),
        ("options", || Type::Dyn),
    ],
};
static METADATA: Object = Object {
    name: "kubernetes.NamespaceMetadata",
    fields: &[
        ("name", text),
        ("generateName", text),
        ("namespace", text),
        ("labels", || Type::map(Type::String)),
        ("annotations", || Type::map(Type::String)),
        ("UID", text),
        ("creationTimestamp", || Type::Timestamp),
        ("deletionGracePeriodSeconds", || Type::Int),
        ("deletionTimestamp", || Type::Timestamp),
        ("generation", || Type::Int),
        ("resourceVersion", text),
        ("finalizers", texts),
    ],
};
static NAMESPACE: Object = Object {
    name: "kubernetes.Namespace",
    fields: &[
        ("metadata", || Type::Object(&METADATA)),
        ("spec", || Type::Object(&NAMESPACE_SPEC)),
        ("status", || Type::Object(&NAMESPACE_STATUS)),
    ],
};
static NAMESPACE_SPEC: Object = Object {
    name: "kubernetes.NamespaceSpec",
    fields: &[("finalizers", texts)],
};
static NAMESPACE_STATUS: Object = Object {
    name: "kubernetes.NamespaceStatus",
    fields: &[
        ("conditions", || {
            Type::list(Type::Object(&NAMESPACE_CONDITION))
        }),
        ("phase", text),
    ],
};
static NAMESPACE_CONDITION: Object = Object {
    name: "kubernetes.NamespaceCondition",
    fields: &[
        ("status", text),
        ("type", text),
        ("lastTransitionTime", || Type::Timestamp),
        ("message", text),
        ("reason", text),
    ],
};
