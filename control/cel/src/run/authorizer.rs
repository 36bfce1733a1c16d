//! Questions to the authorizer, put together step by step and then asked:
//! `authorizer.group('').resource('pods').namespace('a').check('list').allowed()`.

use std::rc::Rc;

use control_types::names;

use super::error::Error;
use super::meter::Meter;
use super::native::Native;
use super::value::Val;
use crate::opaque::authorizer::{Authorizer, Check, Decision, Question, Stage};

impl<'a> Check<'a> {
    /// The variable `authorizer`. `request`: the resource of the request, for
    /// `authorizer.requestResource`.
    pub fn variable(authorizer: &'a dyn Authorizer, request: Option<Question>) -> Val<'a> {
        let check = |stage, question, request| Check {
            authorizer,
            stage,
            question,
            request,
        };
        let request = request.map(|question| Rc::new(check(Stage::Resource, question, None)));
        Val::Check(Rc::new(check(Stage::Start, Question::default(), request)))
    }

    pub(crate) fn field(&self, name: &str) -> Option<Val<'a>> {
        match (&self.request, name) {
            (Some(request), "requestResource") => Some(Val::Check(request.clone())),
            _ => None,
        }
    }

    fn next(&self, stage: Stage, change: impl FnOnce(&mut Question)) -> Val<'a> {
        let mut next = Self {
            stage,
            ..self.clone()
        };
        change(&mut next.question);
        Val::Check(Rc::new(next))
    }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

/// A step of a question with one text.
fn step<'a>(
    args: &[Val<'a>],
    from: fn(&Stage) -> bool,
    take: fn(&Check<'a>, String) -> Result<'a>,
) -> Result<'a> {
    match args {
        [Val::Check(check), Val::Text(text)] if from(&check.stage) => take(check, text.to_string()),
        _ => Err(Error::NoSuchOverload),
    }
}

fn path<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    step(
        args,
        |stage| matches!(stage, Stage::Start),
        |check, path| {
            if path.trim().is_empty() {
                return Err(Error::failed("path must not be empty"));
            }
            Ok(check.next(Stage::Path, |question| question.path = Some(path)))
        },
    )
}

fn group<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    step(
        args,
        |stage| matches!(stage, Stage::Start),
        |check, group| Ok(check.next(Stage::Group, |question| question.group = group)),
    )
}

fn resource<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    step(
        args,
        |stage| matches!(stage, Stage::Group),
        |check, resource| {
            if resource.trim().is_empty() {
                return Err(Error::failed("resource must not be empty"));
            }
            Ok(check.next(Stage::Resource, |question| question.resource = resource))
        },
    )
}

fn service_account<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let [Val::Check(check), Val::Text(namespace), Val::Text(name)] = args else {
        return Err(Error::NoSuchOverload);
    };
    if !matches!(check.stage, Stage::Start) {
        return Err(Error::NoSuchOverload);
    }
    if !names::dns1123_subdomain(name).is_empty() {
        return Err(Error::failed("Invalid service account name"));
    }
    if !names::dns1123_label(namespace).is_empty() {
        return Err(Error::failed("Invalid service account namespace"));
    }
    let account = (namespace.to_string(), name.to_string());
    Ok(check.next(Stage::Start, |question| {
        question.service_account = Some(account);
    }))
}

macro_rules! parts {
    ($($name:ident $field:ident),*) => {$(
        fn $name<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
            step(
                args,
                |stage| matches!(stage, Stage::Resource),
                |check, text| Ok(check.next(Stage::Resource, |question| question.$field = text)),
            )
        }
    )*};
}
parts!(
    subresource subresource, namespace namespace, name name,
    field_selector field_selector, label_selector label_selector
);

fn check<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    let [Val::Check(check), Val::Text(verb)] = args else {
        return Err(Error::NoSuchOverload);
    };
    if !matches!(check.stage, Stage::Path | Stage::Resource) {
        return Err(Error::NoSuchOverload);
    }
    let mut question = check.question.clone();
    question.verb = verb.to_string();
    let decision = check.authorizer.authorize(&question);
    Ok(check.next(Stage::Decided(decision), |_| {}))
}

fn decided<'a>(args: &[Val<'a>], take: fn(&Decision) -> Val<'a>) -> Result<'a> {
    match args {
        [Val::Check(check)] => match &check.stage {
            Stage::Decided(decision) => Ok(take(decision)),
            _ => Err(Error::NoSuchOverload),
        },
        _ => Err(Error::NoSuchOverload),
    }
}

fn allowed<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    decided(args, |decision| Val::Bool(decision.allowed))
}

fn reason<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    decided(args, |decision| Val::text(decision.reason.as_str()))
}

fn errored<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    decided(args, |decision| Val::Bool(decision.error.is_some()))
}

fn error<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    decided(args, |decision| {
        Val::text(decision.error.as_deref().unwrap_or(""))
    })
}

/// The function called `name`.
pub(crate) fn find(called: &str) -> Option<Native> {
    Some(match called {
        "path" => path,
        "group" => group,
        "resource" => resource,
        "serviceAccount" => service_account,
        "subresource" => subresource,
        "namespace" => namespace,
        "name" => name,
        "fieldSelector" => field_selector,
        "labelSelector" => label_selector,
        "check" => check,
        "allowed" => allowed,
        "reason" => reason,
        "errored" => errored,
        "error" => error,
        _ => return None,
    })
}
