//! What documents say of a custom resource: its paths and schemas in one version,
//! as stock servers publish them. They differ a little from those of built-in
//! resources: other media types, no paths below `/watch/`, other options.

use control_types::object;
use control_types::value::{Map, Value};

use super::operations::{Answer, META, Names, Operation, Parameter, PathItem, article, hoisted};
use super::schemas::OpenApiVersion;
use super::structural::Publisher;
use super::texts::Texts;

const OBJECTS: &[&str] = &["application/json", "application/yaml"];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// One version of a definition.
#[derive(Clone, Copy, Debug)]
pub struct Custom<'a> {
    definition: &'a Value,
    version: &'a Value,
}

/// The paths and the schemas of a resource.
#[derive(Debug)]
pub struct Parts {
    /// Paths, ordered.
    pub paths: Vec<PathItem>,
    /// The schemas of objects and lists, by name.
    pub schemas: [(String, Map); 2],
}

impl<'a> Custom<'a> {
    /// A version (`v1`) of a definition, if it has that.
    #[must_use]
    pub fn find_version(definition: &'a Value, version: &str) -> Option<Self> {
        let versions = definition.items_at(&["spec", "versions"]);
        let version = versions
            .iter()
            .find(|one| one.str_at(&["name"]) == Some(version))?;
        Some(Self {
            definition,
            version,
        })
    }

    fn text(self, path: &[&str]) -> &'a str {
        self.definition.str_at(path).unwrap_or_default()
    }

    fn kind(self) -> &'a str {
        self.text(&["spec", "names", "kind"])
    }

    /// The name of a kind's schema: the group's parts turned round, the version.
    fn schema_name(self, kind: &str) -> String {
        let group = self.text(&["spec", "group"]);
        let mut name: Vec<&str> = group.split('.').rev().collect();
        name.push(self.version.str_at(&["name"]).unwrap_or_default());
        name.push(kind);
        name.join(".")
    }

    /// What documents in a form say.
    #[must_use]
    pub fn parts(self, form: OpenApiVersion, texts: &Texts) -> Parts {
        Parts {
            paths: self.paths(texts),
            schemas: self.schemas(Publisher { form, texts }),
        }
    }

    fn schemas(self, publisher: Publisher<'_>) -> [(String, Map); 2] {
        let (kind, list_kind) = (self.kind(), self.list_kind());
        let schema = self.version.path(&["schema", "openAPIV3Schema"]);
        // What keeps all that it does not know says nothing to clients of version 2.
        let keeps = self
            .definition
            .bool_at(&["spec", "preserveUnknownFields"])
            .unwrap_or_default();
        let schema = schema.filter(|_| !(keeps && publisher.form == OpenApiVersion::V2));
        let mut own = publisher.whole(schema);
        let name = self.schema_name(kind);
        let plural = self.text(&["spec", "names", "plural"]);
        let mut list = publisher.list(kind, &list_kind, plural, &name);
        self.mark(&mut own, kind);
        self.mark(&mut list, &list_kind);
        [(self.schema_name(&list_kind), list), (name, own)]
    }

    fn list_kind(self) -> String {
        match self.text(&["spec", "names", "listKind"]) {
            "" => format!("{}List", self.kind()),
            given => given.to_owned(),
        }
    }

    /// Says of which kind a schema is, and which fields can be selected.
    fn mark(self, schema: &mut Map, kind: &str) {
        let [group, version, _] = self.gvk();
        let gvk = object!({"group": group, "kind": kind, "version": version});
        schema.insert("x-kubernetes-group-version-kind", vec![gvk]);
        let fields = self.version.items_at(&["selectableFields"]);
        if !fields.is_empty() {
            let fields: Value = fields
                .iter()
                .map(|field| {
                    let path = field.str_at(&["jsonPath"]).unwrap_or_default();
                    object!({"fieldPath": (path.strip_prefix('.').unwrap_or(path))})
                })
                .collect();
            schema.insert("x-kubernetes-selectable-fields", fields);
        }
        // The extensions stand in order of the alphabet.
        let entries = schema.entries_mut();
        let first = entries
            .iter()
            .position(|(key, _)| key.as_str().starts_with("x-"));
        if let Some(first) = first {
            entries[first..].sort_by(|a, b| a.0.cmp(&b.0));
        }
    }

    fn gvk(self) -> [&'a str; 3] {
        [
            self.text(&["spec", "group"]),
            self.version.str_at(&["name"]).unwrap_or_default(),
            self.kind(),
        ]
    }

    fn paths(self, texts: &Texts) -> Vec<PathItem> {
        let [group, version, kind] = self.gvk();
        let namespaced = self.text(&["spec", "scope"]) == "Namespaced";
        let maker = OperationBuilder {
            names: Names::for_group_version(group, version),
            gvk: [group, version, kind].map(str::to_owned),
            object: self.schema_name(kind),
            list: self.schema_name(&self.list_kind()),
            namespaced,
            texts,
        };
        let plural = self.text(&["spec", "names", "plural"]);
        let base = format!("/apis/{group}/{version}");
        let collection = if namespaced {
            format!("{base}/namespaces/{{namespace}}/{plural}")
        } else {
            format!("{base}/{plural}")
        };
        let mut out = Vec::new();
        if namespaced {
            let list = maker.operation("list", "get", PathScope::Everywhere);
            out.push(hoisted(format!("{base}/{plural}"), vec![list]));
        }
        let mut put = |path: &str, place, actions: &[(&'static str, &'static str)]| {
            let operations = actions
                .iter()
                .map(|(action, method)| maker.operation(action, method, place));
            out.push(hoisted(format!("{collection}{path}"), operations.collect()));
        };
        put(
            "",
            PathScope::Collection,
            &[
                ("list", "get"),
                ("post", "post"),
                ("deletecollection", "delete"),
            ],
        );
        put(
            "/{name}",
            PathScope::Object(""),
            &[
                ("get", "get"),
                ("put", "put"),
                ("delete", "delete"),
                ("patch", "patch"),
            ],
        );
        let partial = [("get", "get"), ("put", "put"), ("patch", "patch")];
        for name in ["scale", "status"] {
            let given = self.version.path(&["subresources", name]);
            if given.is_some_and(|given| !given.is_null()) {
                put(
                    &format!("/{{name}}/{name}"),
                    PathScope::Object(name),
                    &partial,
                );
            }
        }
        out
    }
}

/// What a path is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathScope {
    /// The objects of all namespaces.
    Everywhere,
    Collection,
    /// An object, or a subresource of it.
    Object(&'static str),
}

struct OperationBuilder<'a> {
    names: Names,
    gvk: [String; 3],
    /// Names of the schemas.
    object: String,
    list: String,
    namespaced: bool,
    texts: &'a Texts,
}

impl OperationBuilder<'_> {
    fn operation(&self, action: &'static str, method: &'static str, place: PathScope) -> Operation {
        let sub = match place {
            PathScope::Object(sub) => sub,
            _ => "",
        };
        let own = match sub {
            "scale" => SCALE.to_owned(),
            _ => self.object.clone(),
        };
        let meta = |kind: &str| format!("{META}.{kind}");
        let answer = match action {
            "list" => self.list.clone(),
            "delete" | "deletecollection" => meta("Status"),
            _ => own.clone(),
        };
        let body = match action {
            "post" | "put" => Some((own, true)),
            "patch" => Some((meta("Patch"), true)),
            "delete" => Some((meta("DeleteOptions"), false)),
            _ => None,
        };
        Operation {
            method,
            id: self.id(action, place),
            description: self.description(action, sub),
            tag: self.names.tag.clone(),
            action: Some((action, self.gvk.clone())),
            consumes: if action == "patch" { PATCHES } else { OBJECTS },
            produces: OBJECTS,
            body,
            parameters: self.parameters(action, place),
            answer: Answer::Type(answer),
            codes: match action {
                "post" => &[200, 201, 202],
                "put" => &[200, 201],
                "delete" => &[200, 202],
                _ => &[200],
            },
        }
    }

    fn id(&self, action: &str, place: PathScope) -> String {
        let verb = match action {
            "get" => "read",
            "put" => "replace",
            "post" => "create",
            "deletecollection" => "delete",
            other => other,
        };
        let mut what = String::new();
        if action == "deletecollection" {
            what.push_str("Collection");
        }
        if self.namespaced && place != PathScope::Everywhere {
            what.push_str("Namespaced");
        }
        what.push_str(&self.gvk[2]);
        what.push_str(match place {
            PathScope::Object("scale") => "Scale",
            PathScope::Object("status") => "Status",
            PathScope::Everywhere => "ForAllNamespaces",
            _ => "",
        });
        self.names.id(verb, &what)
    }

    fn description(&self, action: &str, sub: &str) -> String {
        let kind = &self.gvk[2];
        let of = match sub {
            "" => String::new(),
            sub => format!(" {sub} of"),
        };
        match action {
            "list" => format!("list objects of kind {kind}"),
            "get" => format!("read{of} the specified {kind}"),
            "put" => format!("replace{of} the specified {kind}"),
            "patch" => format!("partially update{of} the specified {kind}"),
            "post" => format!("create{of}{}{kind}", article(kind)),
            "delete" => format!("delete{of}{}{kind}", article(kind)),
            _ => format!("delete collection of {kind}"),
        }
    }

    fn parameters(&self, action: &str, place: PathScope) -> Vec<Parameter> {
        let mut out = Vec::new();
        let mut put = |options: &str, name: &str, in_path: bool| {
            if let Some(text) = self.texts.parameter(options, name) {
                out.push(Parameter {
                    name: name.to_owned(),
                    in_path,
                    kind: text.0.clone(),
                    description: text.1.clone(),
                });
            }
        };
        let options = match action {
            "list" | "deletecollection" => "ListOptions",
            "post" => "CreateOptions",
            "put" => "UpdateOptions",
            "patch" => "PatchOptions",
            "delete" => "DeleteOptions",
            _ => "",
        };
        for name in self.texts.parameters(options) {
            put(options, name, false);
        }
        if action == "get" {
            // The one option that reading one object has.
            put("ListOptions", "resourceVersion", false);
        }
        put("pretty", "pretty", false);
        if self.namespaced && place != PathScope::Everywhere {
            put("path", "namespace", true);
        }
        if matches!(place, PathScope::Object(_)) {
            out.push(Parameter {
                name: "name".to_owned(),
                in_path: true,
                kind: "string".to_owned(),
                description: format!("name of the {}", self.gvk[2]),
            });
        }
        out.sort_by(|a, b| (&a.name, !a.in_path).cmp(&(&b.name, !b.in_path)));
        out
    }
}
