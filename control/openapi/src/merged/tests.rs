//! The documents that a stock server (1.36.3) made of the same definitions are told
//! by their hashes: a document with another byte has another.

use control_types::value::Key;

use super::*;

fn given() -> Vec<Value> {
    let all = Value::from_slice(include_bytes!("definitions.json")).expect("JSON");
    all.as_array().cloned().unwrap_or_default()
}

fn of_group(group: &str, version: &str) -> Vec<u8> {
    let of: Vec<Value> = given()
        .into_iter()
        .filter(|one| one.str_at(&["spec", "group"]) == Some(group))
        .filter(|one| Custom::find_version(one, version).is_some())
        .collect();
    super::super::go_json(&of_definitions(&of, version))
}

#[test]
fn documents_of_version_3_are_those_of_stock_servers() {
    for (group, version, wanted) in [
        (
            "mill.example.com",
            "v1",
            "CB4F1D1530F2B6D58689C458C56092A994F2EB4DAAC0EBDA0C033AA640B47857A5665ED93ED970B3A2453A2525D4483982D1AD9B0E66CD39F2863C3804183B78",
        ),
        (
            "mill.example.com",
            "v1beta1",
            "B2C183CADD0CE33055E3501B5EFCF165F75EDA4906FEADAB7F6ECC02F056B322B32FF1D2F53B08C63902FCF5D61F7063F1E740C633A355319F3D025E2629440E",
        ),
        (
            "simple.io",
            "v2",
            "E84CD1131D1100814C211F7A6AE1443481E08D18B12BE05BB48AA950DDF99A16F84A9F713716D3363A185628D51A913D426557B2085D6D09320E7AC318749007",
        ),
    ] {
        assert_eq!(hash(&of_group(group, version)), wanted, "{group}/{version}");
    }
}

#[test]
fn the_document_of_version_2_is_that_of_stock_servers() {
    let definitions = given();
    let mut parts = Vec::new();
    for definition in &definitions {
        for version in definition.items_at(&["spec", "versions"]) {
            let name = version.str_at(&["name"]).unwrap_or_default();
            let custom = Custom::find_version(definition, name)
                .filter(|_| version.bool_at(&["served"]) == Some(true));
            parts.extend(custom.map(|one| one.parts(OpenApiVersion::V2, &TEXTS)));
        }
    }
    let merged = with_custom(&v2().json(), &parts, &[]);
    assert_eq!(
        hash(&merged),
        "D5A8D8923FFBA77115E09B1625273195D6DF2A9EAF35B0410A5B15580DFFBDCCC6FAB6C79F1D043F80C6384CFF159A9E7B34C9001C6F7D47FA7163859EC32F03"
    );
}

#[test]
fn documents_in_protobuf_say_what_clients_of_version_2_look_for() {
    let definitions = given();
    let custom = Custom::find_version(&definitions[0], "v1").expect("a version");
    let [_, (_, gear)] = custom.parts(OpenApiVersion::V2, &TEXTS).schemas;
    let document = value!({"swagger": "2.0", "definitions": {"Gear": gear}});
    let bytes = protobuf::v2(&document);
    for text in ["x-kubernetes-group-version-kind", "^[0-9]+$", "too many"] {
        let found = bytes.windows(text.len()).any(|at| at == text.as_bytes());
        assert!(found, "{text}");
    }
}

#[test]
fn parts_of_other_servers_are_put_among_the_rest_under_names_that_mean_one_thing() {
    let document = |flunder: &str, meta: &Value| {
        value!({
            "paths": {
                "/apis/w.example/v1/flunders": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/Flunder"}}}}},
                "/api/v1/pods": {"get": {"description": "not theirs to say"}}
            },
            "definitions": {
                "Flunder": {"description": flunder, "properties": {
                    "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
                    "status": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Status"}
                }},
                "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": (meta.clone()),
                "io.k8s.apimachinery.pkg.apis.meta.v1.Status": {"description": "another one"}
            }
        })
    };
    let own = Value::from_slice(&v2().json()).expect("JSON");
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let meta = own.path(&["definitions", name]).expect("a schema");
    let part = |flunder: &str, root: &str| {
        let document = document(flunder, meta);
        Arc::new(Swagger::below(root, &document, String::new()))
    };
    let others = [
        part("one", "/apis/w.example/v1"),
        part("one", "/apis/w.example/v1"),
        part("two", "/apis/w.example"),
    ];
    let merged = with_custom(&v2().json(), &[], &others);
    let merged = Value::from_slice(&merged).expect("JSON");
    let Some(Value::Object(definitions)) = merged.get("definitions") else {
        panic!("no definitions");
    };
    let Some(Value::Object(before)) = own.get("definitions") else {
        panic!("no definitions");
    };
    let more: Vec<_> = definitions
        .keys()
        .map(Key::as_str)
        .filter(|key| !before.contains_key(key))
        .collect();
    // What is the same keeps its name, and stands once.
    assert_eq!(
        more,
        [
            "Flunder",
            "Flunder_v2",
            "io.k8s.apimachinery.pkg.apis.meta.v1.Status_v2"
        ]
    );
    let reference = |of: &str, field: &str| {
        let found = merged.str_at(&["definitions", of, "properties", field, "$ref"]);
        found.map(str::to_owned)
    };
    for one in ["Flunder", "Flunder_v2"] {
        assert_eq!(
            reference(one, "metadata"),
            Some(format!("#/definitions/{name}"))
        );
        assert_eq!(
            reference(one, "status").as_deref(),
            Some("#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Status_v2")
        );
    }
    // Whoever said something first said it, and nobody speaks for others.
    let schema = [
        "paths",
        "/apis/w.example/v1/flunders",
        "get",
        "responses",
        "200",
        "schema",
        "$ref",
    ];
    assert_eq!(merged.str_at(&schema), Some("#/definitions/Flunder"));
    let pods = ["paths", "/api/v1/pods", "get", "description"];
    assert_eq!(merged.str_at(&pods), own.str_at(&pods));
}
