//! `serviceaccounts/token`: tokens of service accounts on request.

use std::sync::Arc;

use control_access::{Reference, TokenSpec};
use control_admission::{Attributes, Operation, RequestOptions};
use control_types::status::{Cause, Status};
use control_types::value::Value;
use control_types::{coerce, meta, registry, value};

use crate::access::Access;
use crate::review_user::{list, texts};
use control_registry::managed::{self, Endpoint};
use control_registry::reply::{self, Answer};
use control_registry::verbs::create::check_namespace;
use control_registry::{Context, ServedResource};
use control_request::body::Body;
use control_request::negotiate::Format;
use control_request::options::WriteOptions;
use control_strategy::ObjectSchema;
use control_strategy::decode::{self, ExpectedKind};

/// Tokens live ten minutes at least, and 2^32 seconds at most.
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
const USUAL: i64 = 3600;
/// What agents ask for whose pods may not read their token anew: such a token
/// lives a year, and its use after the hour is noted (KEP-1205).
const OF_OLD_PODS: i64 = 3607;
const YEAR: i64 = 365 * 24 * 3600;

/// Answers a request for a token of the account of the path.
///
/// # Errors
/// 404 for accounts and bound objects that do not exist, 409 for those that were
/// made anew, 422 for a time that is too short.
pub async fn create(
    context: &Context,
    access: &dyn Access,
    served: &Arc<ServedResource>,
    body: Body,
) -> Answer {
    const GROUP: &str = "authentication.k8s.io";
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let options = WriteOptions::parse(context.query(), "CreateOptions", false)?;
    let schema =
        registry::schema_of(GROUP, "v1", "TokenRequest").ok_or_else(Status::unknown_path)?;
    let expected = ExpectedKind {
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
    Endpoint::own_kind(&context.registry, expected, "token").write(None, &mut request, &writer);
    let attributes = Attributes {
        options: RequestOptions::Create(&options),
        dry_run: options.dry_run,
        ..context.admission(&served.version, Operation::Create, expected, "token")
    };
    let admission = &context.registry.admission;
    admission.admit(&attributes, &mut request, None).await?;
    let tokens = access.tokens().ok_or_else(Status::method_not_allowed)?;
    let (namespace, name) = (&*context.info.namespace, &*context.info.name);
    check_namespace(context, served, &mut request)?;
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
        .registry
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
    let validated = admission.validate_dynamic(&attributes, Some(&request), None);
    validated.await?;
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
        audiences: texts(&request, &["spec", "audiences"]),
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
        request.set_path(&["spec", "audiences"], list(tokens.audiences()));
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
    let served = context.registry.resource("", plural)?;
    let key = served.key(&spec.namespace, field("name"));
    let object = context
        .registry
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
                    .registry
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
