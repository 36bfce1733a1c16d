//! Questions about access: objects that are answered and never stored.

mod selectors;

use std::sync::Arc;

use control_access::{Attributes as AccessAttributes, User};
use control_admission::{Attributes, Operation, RequestOptions};
use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, value};

use crate::access::{Access, Notes};
use crate::review_user::{self, list, texts, user_info};
use control_registry::managed::{self, Endpoint};
use control_registry::reply::{self, Answer};
use control_registry::verbs::create::check_namespace;
use control_registry::{Context, ServedResource};
use control_request::body::Body;
use control_request::negotiate::{Format, MEDIA_TYPES, Shape};
use control_request::options::WriteOptions;
use control_strategy::decode;

/// Answers a review.
///
/// # Errors
/// What is wrong with the question.
pub async fn create(
    context: &Context,
    access: &dyn Access,
    served: &Arc<ServedResource>,
    body: Body,
) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
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
    Endpoint::for_resource(&context.registry, served, "").write(None, &mut review, &writer);
    let attributes = Attributes {
        name: "",
        options: RequestOptions::Create(&options),
        dry_run: options.dry_run,
        ..context.admission(&served.version, Operation::Create, served.expected(), "")
    };
    let admission = &context.registry.admission;
    admission.admit(&attributes, &mut review, None).await?;
    let status = match served.resource.kind {
        "SelfSubjectReview" => value!({ "userInfo": (user_info(&context.user)) }),
        "TokenReview" => token_review(context, access, &review).await?,
        "SelfSubjectRulesReview" => rules_review(context, access, &review)?,
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
                review
                    .get("spec")
                    .map_or_else(User::default, |spec| review_user::read(spec, "user"))
            };
            access_review(access, &review, user).await
        }
    };
    let validated = admission.validate_dynamic(&attributes, Some(&review), None);
    validated.await?;
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

async fn access_review(access: &dyn Access, review: &Value, user: User) -> Value {
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
            AccessAttributes {
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
        (None, Some(path)) => AccessAttributes {
            user,
            verb: path.str_at(&["verb"]).unwrap_or_default().to_owned(),
            path: path.str_at(&["path"]).unwrap_or_default().to_owned(),
            ..AccessAttributes::default()
        },
        _ => AccessAttributes::default(),
    };
    let decision = access.explain(&attributes).await;
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

async fn token_review(
    context: &Context,
    access: &dyn Access,
    review: &Value,
) -> Result<Value, Status> {
    let token = review.str_at(&["spec", "token"]).unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences = texts(review, &["spec", "audiences"]);
    let notes = Notes {
        warnings: &context.warnings,
        annotations: &context.annotations,
    };
    let found = access.review_token(token, &audiences, notes).await;
    Ok(match found {
        Err(error) => value!({ "user": {}, "error": (error.to_string()) }),
        Ok(bearer) => {
            value!({
                "authenticated": true, "user": (user_info(&bearer.user)),
                "audiences": (list(&bearer.audiences))
            })
        }
    })
}

fn rules_review(context: &Context, access: &dyn Access, review: &Value) -> Result<Value, Status> {
    let namespace = review.str_at(&["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let held = access.rules(&context.user, namespace);
    let rules = &held.rules;
    let resources: Vec<Value> = rules
        .iter()
        .filter(|rule| !rule.resources.is_empty())
        .map(|rule| {
            let mut shown = value!({
                "verbs": (list(&rule.verbs)),
                "apiGroups": (list(&rule.api_groups)),
                "resources": (list(&rule.resources))
            });
            if !rule.resource_names.is_empty() {
                shown.insert("resourceNames", list(&rule.resource_names));
            }
            shown
        })
        .collect();
    let paths: Vec<Value> = rules
        .iter()
        .filter(|rule| !rule.non_resource_urls.is_empty())
        .map(|rule| value!({ "verbs": (list(&rule.verbs)), "nonResourceURLs": (list(&rule.non_resource_urls)) }))
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
