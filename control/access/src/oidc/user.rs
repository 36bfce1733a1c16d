//! Maps claims to a user.

use control_cel::{Bindings, Budget, List, Val};
use control_types::value::Value as Tree;
use control_types::{status::quote, value};
use serde_json::{Map, Value};

use super::{Expression, Issuer, Keys, KeysError, Mapping};
use crate::tokens::CREDENTIAL_ID;
use crate::user::AUTHENTICATED;
use crate::{User, tokens};

/// Error for a token that names no user; the message is kube-apiserver's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OidcError {
    /// The signature is not right.
    #[error("oidc: verify token: {0}")]
    Signature(#[from] KeysError),
    /// Time or audience are not right.
    #[error("oidc: verify token: {0}")]
    Verify(String),
    /// A claim is missing or wrong, or a rule refuses it.
    #[error("oidc: {0}")]
    Claim(String),
    /// A claim that is elsewhere cannot be had.
    #[error("oidc: could not expand distributed claims: {0}")]
    Distributed(String),
}

/// Error of an expression about claims or users; the message is kube-apiserver's.
#[derive(Debug, thiserror::Error)]
enum ExpressionError {
    #[error("expression '{expression}' resulted in error: {error}")]
    Failed {
        expression: String,
        error: control_cel::Error,
    },
    #[error("{0}")]
    Type(&'static str),
    #[error("validation expression '{expression}' failed: {message}")]
    Rule { expression: String, message: String },
}

/// The verified claims of a token.
pub type IdTokenClaims = Map<String, Value>;

/// How much later than its beginning a token may be used earlier: what clocks may
/// differ by, in seconds.
const NBF_LEEWAY: i64 = 5 * 60;

impl Issuer {
    /// Whether a token says that it is of this issuer.
    #[must_use]
    pub fn claims(&self, token: &str) -> bool {
        let issuer = tokens::unverified_issuer(token);
        issuer.is_some_and(|issuer| {
            issuer == self.url
                || (issuer == "accounts.google.com" && self.url == "https://accounts.google.com")
        })
    }

    /// The user that a token names, `now` (Unix seconds).
    ///
    /// # Errors
    /// [`OidcError`].
    pub fn user(&self, token: &str, keys: &Keys, now: i64) -> Result<User, OidcError> {
        self.user_of(&self.verified(token, keys, now)?)
    }

    /// The claims of a token that is of this issuer and for us, `now` (Unix seconds).
    ///
    /// # Errors
    /// [`OidcError::Signature`] and [`OidcError::Verify`].
    pub fn verified(&self, token: &str, keys: &Keys, now: i64) -> Result<IdTokenClaims, OidcError> {
        let claims = keys.verify(token, &self.algorithms)?;
        self.check_standard(&self.url, &claims, now)?;
        Ok(claims)
    }

    /// The user that verified claims name.
    ///
    /// # Errors
    /// [`OidcError::Claim`].
    pub fn user_of(&self, claims: &IdTokenClaims) -> Result<User, OidcError> {
        // Only expressions look at it.
        let tree = if self.has_expressions() {
            tree(&Value::Object(claims.clone()))
        } else {
            Tree::Null
        };
        let mut user = User {
            name: self.name(claims, &tree)?,
            groups: self.groups_of(claims, &tree)?,
            uid: self.uid_of(claims, &tree)?,
            ..User::default()
        };
        if let Some(id) = claims.get("jti").and_then(Value::as_str) {
            user.extra
                .push((CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]));
        }
        for (key, expression) in &self.extra {
            let values = texts(expression, &tree).map_err(|why| {
                claim(format!(
                    "error evaluating extra claim expression: {}: {why}",
                    expression.text
                ))
            })?;
            if !values.is_empty() {
                user.extra.push((key.clone(), values));
            }
        }
        for (name, wanted) in &self.required {
            let found = claims
                .get(name)
                .ok_or_else(|| claim(format!("required claim {name} not present in ID token")))?;
            let found = found
                .as_str()
                .ok_or_else(|| claim(format!("parse claim {name}: it is no text")))?;
            if found != wanted {
                return Err(claim(format!(
                    "required claim {name} value does not match. Got = {found}, want = {wanted}"
                )));
            }
        }
        check_rules(&self.claim_rules, "claims", &tree).map_err(|why| {
            claim(format!(
                "error evaluating claim validation expression: {why}"
            ))
        })?;
        if !self.user_rules.is_empty() {
            let info = user_info(&user);
            check_rules(&self.user_rules, "user", &info).map_err(|why| {
                claim(format!("error evaluating user info validation rule: {why}"))
            })?;
        }
        user.join(AUTHENTICATED);
        Ok(user)
    }

    fn has_expressions(&self) -> bool {
        let is_one = |mapping: &Mapping| matches!(mapping, Mapping::Expression(_));
        let others = [&self.groups, &self.uid].into_iter().flatten();
        is_one(&self.username)
            || others.into_iter().any(is_one)
            || !self.extra.is_empty()
            || !self.claim_rules.is_empty()
    }

    /// Whether claims are of an issuer, for us, and hold `now`.
    pub(super) fn check_standard(
        &self,
        url: &str,
        claims: &IdTokenClaims,
        now: i64,
    ) -> Result<(), OidcError> {
        let refuse = |why: String| Err(OidcError::Verify(why));
        let issuer = claims
            .get("iss")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if issuer != url && issuer != "accounts.google.com" {
            return refuse(format!(
                "oidc: id token issued by a different provider, expected {} got {}",
                quote(url),
                quote(issuer)
            ));
        }
        let offered: Vec<&str> = match claims.get("aud") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !offered
            .iter()
            .any(|one| self.audiences.iter().any(|own| own == one))
        {
            let quoted = |list: &mut dyn Iterator<Item = &str>| {
                list.map(quote).collect::<Vec<_>>().join(" ")
            };
            return refuse(format!(
                "oidc: expected audience in [{}] got [{}]",
                quoted(&mut self.audiences.iter().map(String::as_str)),
                quoted(&mut offered.iter().copied())
            ));
        }
        // Times may have a fraction.
        let time = |name: &str| claims.get(name).and_then(Value::as_f64).map(|at| at as i64);
        match time("exp") {
            Some(ends) if ends >= now => {}
            _ => return refuse("oidc: token is expired".to_owned()),
        }
        if time("nbf").is_some_and(|from| from > now.saturating_add(NBF_LEEWAY)) {
            return refuse("oidc: current time before the nbf (not before) time".to_owned());
        }
        Ok(())
    }

    fn name(&self, claims: &Map<String, Value>, tree: &Tree) -> Result<String, OidcError> {
        let (of, prefix) = match &self.username {
            Mapping::Claim(of, prefix) => (of, prefix),
            Mapping::Expression(expression) => {
                let name = text(expression, tree).map_err(|why| {
                    claim(format!("error evaluating username claim expression: {why}"))
                })?;
                if name.is_empty() {
                    let why = "empty username via CEL expression is not allowed";
                    return Err(claim(why.to_owned()));
                }
                return Ok(name);
            }
        };
        let name = string(claims, of)
            .map_err(|why| claim(format!("parse username claims {}: {why}", quote(of))))?;
        if of == "email"
            && let Some(verified) = claims.get("email_verified")
        {
            match verified.as_bool() {
                None => {
                    return Err(claim(
                        "parse 'email_verified' claim: it is no truth".to_owned(),
                    ));
                }
                Some(false) => return Err(claim("email not verified".to_owned())),
                Some(true) => {}
            }
        }
        Ok(format!("{prefix}{name}"))
    }

    fn groups_of(
        &self,
        claims: &Map<String, Value>,
        tree: &Tree,
    ) -> Result<Vec<String>, OidcError> {
        match &self.groups {
            None => Ok(Vec::new()),
            Some(Mapping::Expression(expression)) => texts(expression, tree)
                .map_err(|why| claim(format!("error evaluating group claim expression: {why}"))),
            Some(Mapping::Claim(of, prefix)) => {
                let Some(found) = claims.get(of) else {
                    return Ok(Vec::new());
                };
                let groups: Option<Vec<&str>> = match found {
                    Value::String(one) => Some(vec![one]),
                    Value::Array(many) => many.iter().map(Value::as_str).collect(),
                    _ => None,
                };
                let groups = groups.ok_or_else(|| {
                    claim(format!(
                        "parse groups claim {}: it is no list of texts",
                        quote(of)
                    ))
                })?;
                Ok(groups
                    .iter()
                    .map(|group| format!("{prefix}{group}"))
                    .collect())
            }
        }
    }

    fn uid_of(&self, claims: &Map<String, Value>, tree: &Tree) -> Result<String, OidcError> {
        match &self.uid {
            None => Ok(String::new()),
            Some(Mapping::Claim(of, _)) => string(claims, of)
                .map_err(|why| claim(format!("parse uid claim {}: {why}", quote(of)))),
            Some(Mapping::Expression(expression)) => text(expression, tree)
                .map_err(|why| claim(format!("error evaluating uid claim expression: {why}"))),
        }
    }
}

fn claim(why: String) -> OidcError {
    OidcError::Claim(why)
}

fn string(claims: &Map<String, Value>, name: &str) -> Result<String, &'static str> {
    let found = claims.get(name).ok_or("claim not present")?;
    found.as_str().map(str::to_owned).ok_or("it is no text")
}

/// Returns the claims as expressions read them: names that are not identifiers also have
/// an escaped form (`claims.a__dash__b`).
fn tree(value: &Value) -> Tree {
    match value {
        Value::Object(map) => {
            let mut object = Tree::object();
            for (key, member) in map {
                let member = tree(member);
                if let Some(escaped) = control_cel::escape(key).filter(|escaped| escaped != key) {
                    object.insert(&*escaped, member.clone());
                }
                object.insert(key.as_str(), member);
            }
            object
        }
        Value::Array(items) => Tree::Array(items.iter().map(tree).collect()),
        other => value::to_value(other).unwrap_or_default(),
    }
}

fn user_info(user: &User) -> Tree {
    let list = |all: &[String]| Tree::Array(all.iter().map(|one| one.as_str().into()).collect());
    let mut extra = Tree::object();
    for (key, values) in &user.extra {
        extra.insert(key.as_str(), list(values));
    }
    let mut info = Tree::object();
    info.insert("username", user.name.as_str());
    info.insert("uid", user.uid.as_str());
    info.insert("groups", list(&user.groups));
    info.insert("extra", extra);
    info
}

/// Evaluates an expression over one variable and converts the result.
fn evaluate<T>(
    expression: &Expression,
    variable: &str,
    tree: &Tree,
    take: impl FnOnce(&Val<'_>) -> Result<T, &'static str>,
) -> Result<T, ExpressionError> {
    let bindings = Bindings::new().with(variable, Val::tree(tree));
    let result = expression
        .program
        .evaluate(&bindings, &mut Budget::per_call())
        .map_err(|error| ExpressionError::Failed {
            expression: expression.text.clone(),
            error,
        })?;
    take(&result).map_err(ExpressionError::Type)
}

fn text(expression: &Expression, tree: &Tree) -> Result<String, ExpressionError> {
    evaluate(expression, "claims", tree, |value| {
        let text = value.as_str().map(str::to_owned);
        text.ok_or("claim expression must return a string")
    })
}

/// A text, a list of texts, or nothing; empty texts are left out.
fn texts(expression: &Expression, tree: &Tree) -> Result<Vec<String>, ExpressionError> {
    const WRONG: &str = "expression must return a string or a list of strings";
    evaluate(expression, "claims", tree, |value| {
        let all: Option<Vec<String>> = match value {
            Val::Null => Some(Vec::new()),
            Val::Text(text) => Some(vec![text.to_string()]),
            Val::List(List::Tree(items, _)) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect(),
            Val::List(List::Own(items)) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        };
        let mut all = all.ok_or(WRONG)?;
        all.retain(|text| !text.is_empty());
        Ok(all)
    })
}

fn check_rules(rules: &[Expression], variable: &str, tree: &Tree) -> Result<(), ExpressionError> {
    for rule in rules {
        let holds = evaluate(rule, variable, tree, |value| {
            value
                .as_bool()
                .ok_or("validation expression must return a boolean")
        })?;
        if !holds {
            return Err(ExpressionError::Rule {
                expression: rule.text.clone(),
                message: rule.message.clone(),
            });
        }
    }
    Ok(())
}
