//! Questions about access, and tokens on request: objects that are answered and
//! never stored.

mod selectors;

use std::sync::Arc;

use control_access::{Attributes, Reference, TokenSpec, User};
use control_types::coerce;
use control_types::meta;
use control_types::registry;
use control_types::status::{Cause, Status};
use control_types::value;
use control_types::value::Value;

use crate::admission::dynamic::{self, Operation, RequestOptions};
use crate::api::ServedResource;
use crate::chain::{Context, Notes};
use crate::managed::{self, Endpoint};
use crate::reply::{self, Answer};
use crate::verbs::create::check_namespace;
use control_request::body::Body;
use control_request::negotiate::{Format, MEDIA_TYPES, Shape};
use control_request::options::WriteOptions;
use control_strategy::ObjectSchema;
use control_strategy::decode::{self, Expected};

/// Tokens live ten minutes at least, and 2^32 seconds at most.
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
const USUAL: i64 = 3600;
/// What agents ask for whose pods may not read their token anew: such a token
/// lives a year, and its use after the hour is noted (KEP-1205).
const OF_OLD_PODS: i64 = 3607;
const YEAR: i64 = 365 * 24 * 3600;

/// Answers a review.
///
/// # Errors
/// What is wrong with the question.
pub async fn create(context: &Context, served: &Arc<ServedResource>, body: Body) -> Answer {
    let format = Format::of(&context.parts.headers, context.query())?;
    if format.shape == Shape::Table {
        // Answers to questions have no columns.
        return Err(Status::not_acceptable(MEDIA_TYPES));
    }
    let options = WriteOptions::parse(context.query(), "CreateOptions", false)?;
    let decoded = decode::object(
        &context.parts.headers,
        body,
        served.expected(),
        options.field_validation,
    )
    .await?;
    context.warnings.extend(decoded.warnings);
    context.tell_sent(served, &decoded.object);
    let mut review = decoded.object;
    check_namespace(context, served, &mut review)?;
    let writer = managed::manager_of(context, &options);
    Endpoint::of(&context.api, served, "").write(None, &mut review, &writer);
    let attributes = dynamic::Attributes {
        context,
        served,
        operation: Operation::Create,
        kind: served.expected(),
        subresource: "",
        namespace: &context.info.namespace,
        name: "",
        options: RequestOptions::Create(&options),
        dry_run: options.dry_run,
    };
    dynamic::mutate_alone(&attributes, &mut review).await?;
    let status = match served.resource.kind {
        "SelfSubjectReview" => value!({ "userInfo": (user_info(&context.user)) }),
        "TokenReview" => token_review(context, &review).await?,
        "SelfSubjectRulesReview" => rules_review(context, &review)?,
        kind => {
            served.form().complete(&mut review);
            let errors = control_kinds::reviews::check(kind, &review);
            if !errors.is_empty() {
                // The API tells no kind here.
                return Err(control_strategy::invalid::status(
                    served.resource.group,
                    "",
                    "",
                    &errors,
                ));
            }
            let user = if kind == "SelfSubjectAccessReview" {
                context.user.clone()
            } else {
                named_user(&review)
            };
            access_review(context, &review, user).await
        }
    };
    dynamic::validate(&attributes, Some(&review), None).await?;
    review.insert("status", status);
    served.form().complete(&mut review);
    match served.resource.kind {
        // These answers are objects of their own, that repeat nothing.
        "SelfSubjectRulesReview" => {
            review.insert("metadata", Value::object());
            review.insert("spec", Value::object());
        }
        "SelfSubjectReview" => {
            review.insert("metadata", Value::object());
        }
        _ => {}
    }
    if served.resource.kind == "SelfSubjectReview" {
        meta::set_creation_timestamp(&mut review, jiff::Timestamp::now());
    } else if review.get("metadata").is_none() {
        review.insert("metadata", Value::object());
    }
    let review = reply::shaped(review, &served.kind, format);
    Ok(reply::value(201, &review, format))
}

/// `serviceaccounts/token`: a token for the account of the path.
///
/// # Errors
/// 404 for accounts and bound objects that do not exist, 409 for those that were
/// made anew, 422 for a time that is too short.
pub async fn token(context: &Context, served: &Arc<ServedResource>, body: Body) -> Answer {
    const GROUP: &str = "authentication.k8s.io";
    let format = Format::of(&context.parts.headers, context.query())?;
    let options = WriteOptions::parse(context.query(), "CreateOptions", false)?;
    let schema =
        registry::schema_of(GROUP, "v1", "TokenRequest").ok_or_else(Status::unknown_path)?;
    let expected = Expected {
        group: GROUP,
        version: "v1",
        kind: "TokenRequest",
        form: ObjectSchema::Typed(schema),
    };
    let mut request = decode::object(
        &context.parts.headers,
        body,
        expected,
        options.field_validation,
    )
    .await?
    .object;
    if request.i64_at(&["spec", "expirationSeconds"]).is_none() {
        request.set_path(&["spec", "expirationSeconds"], USUAL);
    }
    context.tell_sent_as(expected.form, &request);
    let writer = managed::manager_of(context, &options);
    Endpoint::own_kind(&context.api, expected, "token").write(None, &mut request, &writer);
    let attributes = dynamic::Attributes {
        context,
        served,
        operation: Operation::Create,
        kind: expected,
        subresource: "token",
        namespace: &context.info.namespace,
        name: &context.info.name,
        options: RequestOptions::Create(&options),
        dry_run: options.dry_run,
    };
    crate::admission::living_namespace(context, served, &request).await?;
    dynamic::mutate_alone(&attributes, &mut request).await?;
    let tokens = context
        .api
        .config
        .access
        .tokens()
        .ok_or_else(Status::method_not_allowed)?;
    let (namespace, name) = (&*context.info.namespace, &*context.info.name);
    check_namespace(context, served, &mut request)?;
    crate::admission::node_restriction::check_token(context, served, &request)?;
    let invalid = |of: &str, field: &str, message: String| {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message,
            field: field.into(),
        };
        Err(Status::invalid(GROUP, "TokenRequest", of, vec![cause]))
    };
    let given = meta::name(&request);
    if !given.is_empty() && given != name {
        let given = control_types::status::quote(given);
        let why = "must match the service account name if specified";
        let why = format!("Invalid value: {given}: {why}");
        return invalid(name, "metadata.name", why);
    }
    let account = context
        .api
        .get(served, &served.key(namespace, name))
        .await?
        .value()
        .map_err(Status::internal)?;
    let (given, uid) = (meta::uid(&request), meta::uid(&account));
    if !given.is_empty() && given != uid {
        let why = format!(
            "the UID in the token request ({given}) does not match the UID of the service account ({uid})"
        );
        return Err(Status::conflict(GROUP, "TokenRequest", name, &why));
    }
    let asked = request
        .i64_at(&["spec", "expirationSeconds"])
        .unwrap_or(USUAL);
    let field = "spec.expirationSeconds";
    if asked < SHORTEST {
        let why = "may not specify a duration less than 10 minutes";
        return invalid("", field, format!("Invalid value: {asked}: {why}"));
    }
    if asked > LONGEST {
        let why = "may not specify a duration larger than 2^32 seconds";
        return invalid("", field, format!("Invalid value: {asked}: {why}"));
    }
    dynamic::validate(&attributes, Some(&request), None).await?;
    let mut life = asked;
    if let Some(longest) = tokens.longest().filter(|longest| life > *longest) {
        context.warnings.push(format!(
            "requested expiration of {life} seconds shortened to {longest} seconds"
        ));
        life = longest;
    }
    let now = jiff::Timestamp::now().as_second();
    let mut spec = TokenSpec {
        namespace: namespace.to_owned(),
        account: Reference {
            name: name.to_owned(),
            uid: meta::uid(&account).to_owned(),
        },
        audiences: request
            .items_at(&["spec", "audiences"])
            .iter()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect(),
        issued_at: now,
        expires_at: now + life,
        id: uuid::Uuid::new_v4().to_string(),
        ..TokenSpec::default()
    };
    bind(context, &request, &mut spec).await?;
    let for_us = |audience: &String| tokens.audiences().contains(audience);
    if tokens.extends()
        && spec.pod.is_some()
        && life == OF_OLD_PODS
        && spec.audiences.iter().all(for_us)
    {
        spec.warn_after = Some(spec.expires_at);
        spec.expires_at = now + tokens.longest().map_or(YEAR, |longest| longest.min(YEAR));
    }
    context.annotate(
        "authentication.kubernetes.io/issued-credential-id",
        format!("JTI={}", spec.id),
    );
    let token = tokens.issue(&spec).map_err(Status::internal)?;
    // What the bearer is told is the life that was asked for, in any case.
    let expires = jiff::Timestamp::from_second(now + life).map_err(Status::internal)?;
    request.insert(
        "status",
        value!({ "token": (token), "expirationTimestamp": (expires.to_string()) }),
    );
    if spec.audiences.is_empty() {
        let own: Vec<Value> = tokens
            .audiences()
            .iter()
            .map(|audience| Value::from(audience.as_str()))
            .collect();
        request.set_path(&["spec", "audiences"], own);
    }
    request.set_path(&["spec", "expirationSeconds"], life);
    coerce::complete(&mut request, schema);
    meta::set_name(&mut request, name);
    meta::set_namespace(&mut request, namespace);
    meta::set_uid(&mut request, meta::uid(&account));
    meta::set_creation_timestamp(&mut request, jiff::Timestamp::now());
    Ok(reply::value(201, &request, format))
}

/// Binds the token to the object that the request names.
async fn bind(context: &Context, request: &Value, spec: &mut TokenSpec) -> Result<(), Status> {
    let Some(bound) = request
        .path(&["spec", "boundObjectRef"])
        .filter(|bound| !bound.is_null())
    else {
        return Ok(());
    };
    let field = |name: &str| bound.str_at(&[name]).unwrap_or_default();
    // Whatever the version: the group is what counts.
    let core = !field("apiVersion").contains('/');
    let plural = match (core, field("kind")) {
        (true, "Pod") => "pods",
        (true, "Secret") => "secrets",
        (true, "Node") => "nodes",
        (_, kind) => {
            let version = field("apiVersion");
            let slash = if version.contains('/') { "" } else { "/" };
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {slash}{version}, Kind={kind}"
            )));
        }
    };
    if field("name").is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let served = context.api.resource("", plural)?;
    let key = served.key(&spec.namespace, field("name"));
    let object = context
        .api
        .get(served, &key)
        .await?
        .value()
        .map_err(Status::internal)?;
    let reference = Reference {
        name: meta::name(&object).to_owned(),
        uid: meta::uid(&object).to_owned(),
    };
    match plural {
        "pods" => {
            let account = object
                .str_at(&["spec", "serviceAccountName"])
                .unwrap_or_default();
            if account != spec.account.name {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    spec.account.name
                )));
            }
            if let Some(node) = object
                .str_at(&["spec", "nodeName"])
                .filter(|node| !node.is_empty())
            {
                let uid = context
                    .api
                    .cached("", "nodes", node)
                    .and_then(|node| node.value().ok());
                let uid = uid.as_ref().map(meta::uid).unwrap_or_default().to_owned();
                spec.node = Some(Reference {
                    name: node.to_owned(),
                    uid,
                });
            }
            spec.pod = Some(reference.clone());
        }
        "secrets" => spec.secret = Some(reference.clone()),
        _ => spec.node = Some(reference.clone()),
    }
    let wanted = field("uid");
    if !wanted.is_empty() && wanted != reference.uid {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict("", field("kind"), field("name"), &why));
    }
    Ok(())
}

async fn access_review(context: &Context, review: &Value, user: User) -> Value {
    let resource = review
        .path(&["spec", "resourceAttributes"])
        .filter(|attributes| !attributes.is_null());
    let path = review
        .path(&["spec", "nonResourceAttributes"])
        .filter(|attributes| !attributes.is_null());
    let attributes = match (resource, path) {
        (Some(resource), None) => {
            let field = |name: &str| resource.str_at(&[name]).unwrap_or_default().to_owned();
            let version = match field("version") {
                none if none.is_empty() => "*".to_owned(),
                version => version,
            };
            Attributes {
                user,
                verb: field("verb"),
                group: field("group"),
                version,
                resource: field("resource"),
                subresource: field("subresource"),
                namespace: field("namespace"),
                name: field("name"),
                path: String::new(),
                is_resource_request: true,
                selection: selectors::of_review(resource),
            }
        }
        (None, Some(path)) => Attributes {
            user,
            verb: path.str_at(&["verb"]).unwrap_or_default().to_owned(),
            path: path.str_at(&["path"]).unwrap_or_default().to_owned(),
            ..Attributes::default()
        },
        _ => Attributes::default(),
    };
    let decision = context.api.config.access.explain(&attributes).await;
    let mut answer = value!({ "allowed": (decision.allowed) });
    if decision.denied {
        answer.insert("denied", true);
    }
    if !decision.reason.is_empty() {
        answer.insert("reason", decision.reason);
    }
    let unread = attributes.selection.iter().flat_map(|selection| {
        let told = |field: &str, error: &Option<String>, nothing: bool| {
            let part = if nothing { "" } else { "partially " };
            error.is_some().then(|| {
                format!("spec.resourceAttributes.{field} {part}ignored due to parse error")
            })
        };
        let fields = selection.fields.is_empty();
        let labels = selection.labels.is_empty();
        [
            told("fieldSelector", &selection.field_error, fields),
            told("labelSelector", &selection.label_error, labels),
        ]
    });
    let errors: Vec<String> = decision.error.into_iter().chain(unread.flatten()).collect();
    if !errors.is_empty() {
        answer.insert("evaluationError", errors.join("; "));
    }
    answer
}

/// The user that a review asks about.
fn named_user(review: &Value) -> User {
    let list = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect()
    };
    let spec = review.get("spec").cloned().unwrap_or_default();
    let name = spec.str_at(&["user"]).unwrap_or_default().to_owned();
    let groups = spec.get("groups").map(list).unwrap_or_default();
    let extra = spec.get("extra").and_then(Value::as_object);
    let extra = extra
        .into_iter()
        .flat_map(control_types::Map::iter)
        .map(|(key, values)| (key.to_string(), list(values)));
    User {
        name,
        groups,
        uid: spec.str_at(&["uid"]).unwrap_or_default().to_owned(),
        extra: extra.collect(),
    }
}

async fn token_review(context: &Context, review: &Value) -> Result<Value, Status> {
    let token = review.str_at(&["spec", "token"]).unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences: Vec<String> = review
        .items_at(&["spec", "audiences"])
        .iter()
        .filter_map(Value::as_str)
        .map(ToOwned::to_owned)
        .collect();
    let notes = Notes {
        warnings: &context.warnings,
        annotations: &context.annotations,
    };
    let access = &context.api.config.access;
    let found = access.review_token(token, &audiences, notes).await;
    Ok(match found {
        Err(error) => value!({ "user": {}, "error": error }),
        Ok(bearer) => {
            let audiences: Vec<Value> = bearer
                .audiences
                .iter()
                .map(|audience| Value::from(audience.as_str()))
                .collect();
            value!({ "authenticated": true, "user": (user_info(&bearer.user)), "audiences": (audiences) })
        }
    })
}

fn rules_review(context: &Context, review: &Value) -> Result<Value, Status> {
    let namespace = review.str_at(&["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let held = context.api.config.access.rules(&context.user, namespace);
    let rules = &held.rules;
    let strings = |list: &[String]| {
        list.iter()
            .map(|text| Value::from(text.as_str()))
            .collect::<Vec<_>>()
    };
    let resources: Vec<Value> = rules
        .iter()
        .filter(|rule| !rule.resources.is_empty())
        .map(|rule| {
            let mut shown = value!({
                "verbs": (strings(&rule.verbs)),
                "apiGroups": (strings(&rule.api_groups)),
                "resources": (strings(&rule.resources))
            });
            if !rule.resource_names.is_empty() {
                shown.insert("resourceNames", strings(&rule.resource_names));
            }
            shown
        })
        .collect();
    let paths: Vec<Value> = rules
        .iter()
        .filter(|rule| !rule.non_resource_urls.is_empty())
        .map(|rule| value!({ "verbs": (strings(&rule.verbs)), "nonResourceURLs": (strings(&rule.non_resource_urls)) }))
        .collect();
    let mut status = value!({
        "resourceRules": (resources),
        "nonResourceRules": (paths),
        "incomplete": (held.incomplete)
    });
    if let Some(error) = held.error {
        status.insert("evaluationError", error);
    }
    Ok(status)
}

fn user_info(user: &User) -> Value {
    let strings = |list: &[String]| {
        list.iter()
            .map(|text| Value::from(text.as_str()))
            .collect::<Vec<_>>()
    };
    let mut info = value!({ "username": (user.name.as_str()) });
    if !user.uid.is_empty() {
        info.insert("uid", user.uid.as_str());
    }
    info.insert("groups", strings(&user.groups));
    if !user.extra.is_empty() {
        let mut extra = value!({});
        for (key, values) in &user.extra {
            extra.insert(key.as_str(), strings(values));
        }
        info.insert("extra", extra);
    }
    info
}
