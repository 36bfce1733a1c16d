//! What can be asked at which path: paths and operations, before they are written
//! in one of the two forms. Made by rule from the registry; nothing here knows a
//! kind.

use control_types::registry::{self, Resource, Subresource};

use super::texts::Texts;

/// What the names of the types that all groups have begin with.
pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Media types that objects are answered in.
const OBJECTS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const LISTS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const LOGS: &[&str] = &[
    "text/plain",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const ANY: &[&str] = &["*/*"];
const JSON: &[&str] = &["application/json"];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// A path with what can be done there.
#[derive(Debug)]
pub struct PathItem {
    /// `/api/v1/namespaces/{namespace}/pods`
    pub path: String,
    /// What all operations take, ordered by name.
    pub parameters: Vec<Parameter>,
    /// One for each method, in the order of [`METHODS`].
    pub operations: Vec<Operation>,
}

/// Methods in the order in which documents have them.
pub const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// An operation.
#[derive(Debug)]
pub struct Operation {
    /// `get`, `put`, …
    pub method: &'static str,
    /// `operationId`
    pub id: String,
    /// What it does.
    pub description: String,
    /// The group and version, for tools that sort operations.
    pub tag: String,
    /// `x-kubernetes-action` and the kind it is done to.
    pub action: Option<(&'static str, [String; 3])>,
    /// Media types that it takes.
    pub consumes: &'static [&'static str],
    /// Media types that it answers.
    pub produces: &'static [&'static str],
    /// Type of the body, and whether there must be one.
    pub body: Option<(String, bool)>,
    /// What only it takes, ordered by name.
    pub parameters: Vec<Parameter>,
    /// What is answered.
    pub answer: Answer,
    /// Status codes of good answers.
    pub codes: &'static [u16],
}

/// What an operation answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Some text.
    Text,
    /// An object of this type.
    Type(String),
}

/// A parameter in path or query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Whether it is part of the path, and so required.
    pub in_path: bool,
    /// `string`, `integer`, `boolean`
    pub kind: String,
    /// What it does.
    pub description: String,
}

/// The paths that belong to no version: where they are documented, and they.
#[must_use]
pub fn general(place: &str) -> Option<PathItem> {
    let one = |path: &str, id: &str, description: &str, produces, consumes, answer| {
        let tag = match path.split('/').nth(1) {
            Some("api") => "core".to_owned(),
            Some(first) => valid_id(first, false),
            None => String::new(),
        };
        Some(PathItem {
            path: path.to_owned(),
            parameters: Vec::new(),
            operations: vec![Operation {
                method: "get",
                id: id.to_owned(),
                description: description.to_owned(),
                tag,
                action: None,
                consumes,
                produces,
                body: None,
                parameters: Vec::new(),
                answer,
                codes: &[200],
            }],
        })
    };
    let meta = |kind: &str| Answer::Type(format!("{META}.{kind}"));
    match place {
        ".well-known/openid-configuration" => one(
            "/.well-known/openid-configuration/",
            "getServiceAccountIssuerOpenIDConfiguration",
            "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
            JSON,
            &[],
            Answer::Text,
        )
        .map(|mut item| {
            item.operations[0].tag = "WellKnown".to_owned();
            item
        }),
        "openid/v1/jwks" => one(
            "/openid/v1/jwks/",
            "getServiceAccountIssuerOpenIDKeyset",
            "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
            &["application/jwk-set+json"],
            &[],
            Answer::Text,
        ),
        "version" => one(
            "/version/",
            "getCodeVersion",
            "get the version information for this server",
            JSON,
            JSON,
            Answer::Type("io.k8s.apimachinery.pkg.version.Info".to_owned()),
        ),
        "api" => one(
            "/api/",
            "getCoreAPIVersions",
            "get available API versions",
            OBJECTS,
            OBJECTS,
            meta("APIVersions"),
        ),
        "apis" => one(
            "/apis/",
            "getAPIVersions",
            "get available API versions",
            OBJECTS,
            OBJECTS,
            meta("APIGroupList"),
        ),
        _ => None,
    }
}

/// `/apis/<group>/`
#[must_use]
pub fn group(group: &str) -> PathItem {
    let mut names = Names::for_group_version(group, "");
    PathItem {
        path: format!("/apis/{group}/"),
        parameters: Vec::new(),
        operations: vec![Operation {
            method: "get",
            id: names.id("get", "APIGroup"),
            description: "get information of a group".to_owned(),
            tag: std::mem::take(&mut names.tag),
            action: None,
            consumes: OBJECTS,
            produces: OBJECTS,
            body: None,
            parameters: Vec::new(),
            answer: Answer::Type(format!("{META}.APIGroup")),
            codes: &[200],
        }],
    }
}

/// All paths of a group's version.
#[must_use]
pub fn version(group: &'static str, version: &'static str, texts: &Texts) -> Vec<PathItem> {
    let names = Names::for_group_version(group, version);
    let base = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let mut out = vec![PathItem {
        path: format!("{base}/"),
        parameters: Vec::new(),
        operations: vec![Operation {
            method: "get",
            id: names.id("get", "APIResources"),
            description: "get available resources".to_owned(),
            tag: names.tag.clone(),
            action: None,
            consumes: OBJECTS,
            produces: OBJECTS,
            body: None,
            parameters: Vec::new(),
            answer: Answer::Type(format!("{META}.APIResourceList")),
            codes: &[200],
        }],
    }];
    for resource in registry::resources_of(group, version) {
        let maker = PathBuilder {
            resource,
            names: &names,
            texts,
            base: &base,
        };
        maker.paths(&mut out);
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    out
}

/// The parts of `operationId` and the tag that group and version give.
pub(super) struct Names {
    title: String,
    pub tag: String,
}

impl Names {
    pub fn for_group_version(group: &str, version: &str) -> Self {
        let group = if group.is_empty() { "core" } else { group };
        let group = group.strip_suffix(".k8s.io").unwrap_or(group);
        let mut title = valid_id(group, true);
        let mut tag = valid_id(group, false);
        if !version.is_empty() {
            title.push_str(&valid_id(version, true));
            tag = format!("{tag}_{version}");
        }
        Self { title, tag }
    }

    pub fn id(&self, verb: &str, what: &str) -> String {
        format!("{verb}{}{what}", self.title)
    }
}

/// Letters and digits only; what stood behind another character begins in upper case.
fn valid_id(text: &str, upper: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut raise = upper;
    for letter in text.chars() {
        let keep = letter.is_alphabetic() || letter == '_';
        if keep || (!out.is_empty() && letter.is_ascii_digit()) {
            if std::mem::take(&mut raise) {
                out.extend(letter.to_uppercase());
            } else {
                out.push(letter);
            }
        } else {
            raise = true;
        }
    }
    out
}

/// `" a "`, `" an "`, or a blank before plurals.
pub(super) fn article(noun: &str) -> &'static str {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        return " ";
    }
    match noun
        .chars()
        .next()
        .map(|letter| letter.to_ascii_lowercase())
    {
        Some('a' | 'e' | 'i' | 'o' | 'u') => " an ",
        _ => " a ",
    }
}

/// Makes the paths of one resource.
struct PathBuilder<'a> {
    resource: &'static Resource,
    names: &'a Names,
    texts: &'a Texts,
    base: &'a str,
}

/// What a path is about.
#[derive(Clone, Copy, Default)]
struct PathTarget {
    sub: Option<&'static Subresource>,
    /// Within `/watch/`.
    watch: bool,
    /// Of one object.
    named: bool,
    /// Across all namespaces, of a resource that has them.
    everywhere: bool,
    /// What is behind the subresource is part of the path.
    with_path: bool,
}

impl PathBuilder<'_> {
    fn paths(&self, out: &mut Vec<PathItem>) {
        let one = self.resource;
        let has = |verb: &str| one.has_verb(verb);
        let named = PathTarget {
            named: true,
            ..PathTarget::default()
        };
        let collection = PathTarget::default();
        let mut places = vec![collection, named];
        let everywhere = one.namespaced && has("list");
        if everywhere {
            places.push(PathTarget {
                everywhere,
                ..collection
            });
        }
        if has("watch") {
            let watch = true;
            places.push(PathTarget {
                watch,
                ..collection
            });
            places.push(PathTarget { watch, ..named });
            if everywhere {
                places.push(PathTarget {
                    watch,
                    everywhere,
                    ..collection
                });
            }
        }
        for sub in one.subresources {
            let place = PathTarget {
                sub: Some(sub),
                ..named
            };
            places.push(place);
            if sub.name == "proxy" {
                places.push(PathTarget {
                    with_path: true,
                    ..place
                });
            }
        }
        for place in places {
            let operations = self.operations(place);
            if !operations.is_empty() {
                out.push(hoisted(self.path(place), operations));
            }
        }
    }

    fn path(&self, place: PathTarget) -> String {
        let one = self.resource;
        let mut path = self.base.to_owned();
        if place.watch {
            path.push_str("/watch");
        }
        if one.namespaced && !place.everywhere {
            path.push_str("/namespaces/{namespace}");
        }
        path.push('/');
        path.push_str(one.plural);
        if place.named {
            path.push_str("/{name}");
        }
        if let Some(sub) = place.sub {
            path.push('/');
            path.push_str(sub.name);
        }
        if place.with_path {
            path.push_str("/{path}");
        }
        path
    }

    fn operations(&self, place: PathTarget) -> Vec<Operation> {
        let mut out = Vec::new();
        if place.watch {
            let action = if place.named { "watch" } else { "watchlist" };
            out.push(self.operation("get", action, place));
            return out;
        }
        if let Some(sub) = place.sub.filter(|sub| sub.kind.ends_with("Options")) {
            // A connection: by any method where HTTP itself is passed on.
            for method in METHODS {
                if matches!(method, "get" | "post") || sub.verbs.contains(&"delete") {
                    out.push(self.operation(method, "connect", place));
                }
            }
            return out;
        }
        let verbs = place.sub.map_or(self.resource.verbs, |sub| sub.verbs);
        let wanted: &[(&str, &'static str, &'static str)] = match (place.named, place.sub) {
            (false, _) if place.everywhere => &[("list", "get", "list")],
            (false, _) => &[
                ("list", "get", "list"),
                ("create", "post", "post"),
                ("deletecollection", "delete", "deletecollection"),
            ],
            (true, _) => &[
                ("get", "get", "get"),
                ("update", "put", "put"),
                ("create", "post", "post"),
                ("delete", "delete", "delete"),
                ("patch", "patch", "patch"),
            ],
        };
        for (verb, method, action) in wanted {
            let at_collection = place.named && place.sub.is_none() && *verb == "create";
            if verbs.contains(verb) && !at_collection {
                out.push(self.operation(method, action, place));
            }
        }
        out
    }

    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        place: PathTarget,
    ) -> Operation {
        let one = self.resource;
        let kind = one.kind;
        let text = place.sub.is_some_and(|sub| sub.name == "log");
        let (group, version, own_kind) = place.sub.map_or((one.group, one.version, kind), |sub| {
            (sub.group, sub.version, sub.kind)
        });
        let schema = place.sub.map_or(one.schema, |sub| sub.schema).get().name;
        let list = one.list_schema.unwrap_or(one.schema).get().name;
        let own = || Answer::Type(schema.to_owned());
        let meta = |kind: &str| Answer::Type(format!("{META}.{kind}"));
        let (answer, codes): (Answer, &'static [u16]) = match action {
            "list" => (Answer::Type(list.to_owned()), &[200]),
            "get" if text => (Answer::Text, &[200]),
            "get" => (own(), &[200]),
            "post" => (own(), &[200, 201, 202]),
            "put" | "patch" => (own(), &[200, 201]),
            "delete" if one.returns_deleted => (own(), &[200, 202]),
            "delete" => (meta("Status"), &[200, 202]),
            "deletecollection" => (meta("Status"), &[200]),
            "watch" | "watchlist" => (meta("WatchEvent"), &[200]),
            _ => (Answer::Text, &[200]),
        };
        let body = match action {
            "post" | "put" => Some((schema.to_owned(), true)),
            "patch" => Some((format!("{META}.Patch"), true)),
            "delete" | "deletecollection" => Some((format!("{META}.DeleteOptions"), false)),
            _ => None,
        };
        Operation {
            method,
            id: self.id(method, action, place),
            description: self.description(method, action, place),
            tag: self.names.tag.clone(),
            action: Some((action, [group, version, own_kind].map(str::to_owned))),
            consumes: if action == "patch" { PATCHES } else { ANY },
            produces: match action {
                "list" | "watch" | "watchlist" => LISTS,
                "connect" => ANY,
                _ if text => LOGS,
                _ => OBJECTS,
            },
            body,
            parameters: self.parameters(action, place, own_kind),
            answer,
            codes,
        }
    }

    fn id(&self, method: &str, action: &str, place: PathTarget) -> String {
        let one = self.resource;
        let mut what = String::new();
        let verb = match action {
            "get" => "read",
            "put" => "replace",
            "post" => "create",
            "deletecollection" => "delete",
            "watchlist" => "watch",
            other => other,
        };
        match action {
            "deletecollection" => what.push_str("Collection"),
            "connect" => what.push_str(&valid_id(method, true)),
            _ => {}
        }
        if one.namespaced && !place.everywhere {
            what.push_str("Namespaced");
        }
        what.push_str(one.kind);
        if let Some(sub) = place.sub {
            what.push_str(&valid_id(sub.name, true));
        }
        if action == "watchlist" {
            what.push_str("List");
        }
        if place.everywhere {
            what.push_str("ForAllNamespaces");
        }
        if place.with_path {
            what.push_str("WithPath");
        }
        self.names.id(verb, &what)
    }

    fn description(&self, method: &str, action: &str, place: PathTarget) -> String {
        let kind = self.resource.kind;
        let article = article(kind);
        let sub = place.sub.map(|sub| sub.name);
        let the = |verb: &str| match sub {
            Some(sub) => format!("{verb} {sub} of the specified {kind}"),
            None => format!("{verb} the specified {kind}"),
        };
        let a = |verb: &str| match sub {
            Some(sub) => format!("{verb} {sub} of{article}{kind}"),
            None => format!("{verb}{article}{kind}"),
        };
        match action {
            "get" => the("read"),
            "list" if self.resource.has_verb("watch") => {
                format!("list or watch objects of kind {kind}")
            }
            "list" => format!("list objects of kind {kind}"),
            "put" => the("replace"),
            "patch" => the("partially update"),
            "post" => a("create"),
            "delete" => a("delete"),
            "deletecollection" => format!("delete collection of {kind}"),
            "watch" => format!(
                "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
            ),
            "watchlist" => format!(
                "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter with a list operation instead."
            ),
            _ => format!(
                "connect {} requests to {} of {kind}",
                method.to_uppercase(),
                sub.unwrap_or_default()
            ),
        }
    }

    fn parameters(&self, action: &str, place: PathTarget, own_kind: &str) -> Vec<Parameter> {
        let mut out = Vec::new();
        let mut all = |options: &str, but: &[&str]| {
            for name in self.texts.parameters(options) {
                if !but.contains(&name) {
                    out.extend(self.parameter(options, name, false));
                }
            }
        };
        match action {
            "get" if place.sub.is_some_and(|sub| sub.name == "log") => all("PodLogOptions", &[]),
            "connect" => all(own_kind, &[]),
            "list" | "watch" | "watchlist" => all("ListOptions", &[]),
            "post" => all("CreateOptions", &[]),
            "put" => all("UpdateOptions", &[]),
            "patch" => all("PatchOptions", &[]),
            "delete" => all("DeleteOptions", &[]),
            "deletecollection" => {
                all("DeleteOptions", &[]);
                all("ListOptions", &["watch", "allowWatchBookmarks"]);
            }
            _ => {}
        }
        if action != "connect" {
            all("pretty", &[]);
        }
        if place.named {
            out.push(Parameter {
                name: "name".to_owned(),
                in_path: true,
                kind: "string".to_owned(),
                description: format!("name of the {own_kind}"),
            });
        }
        if self.resource.namespaced && !place.everywhere {
            out.extend(self.parameter("path", "namespace", true));
        }
        if place.with_path {
            out.extend(self.parameter("path", "path", true));
        }
        out.sort_by(|a, b| (&a.name, !a.in_path).cmp(&(&b.name, !b.in_path)));
        out
    }

    fn parameter(&self, options: &str, name: &str, in_path: bool) -> Option<Parameter> {
        let text = self.texts.parameter(options, name)?;
        Some(Parameter {
            name: name.to_owned(),
            in_path,
            kind: text.0.clone(),
            description: text.1.clone(),
        })
    }
}

/// Moves what all operations take to the path.
pub(super) fn hoisted(path: String, mut operations: Vec<Operation>) -> PathItem {
    let (first, rest) = operations.split_at_mut(1);
    let parameters: Vec<Parameter> = first[0]
        .parameters
        .iter()
        .filter(|one| rest.iter().all(|other| other.parameters.contains(one)))
        .cloned()
        .collect();
    for operation in &mut operations {
        operation.parameters.retain(|one| !parameters.contains(one));
    }
    PathItem {
        path,
        parameters,
        operations,
    }
}
