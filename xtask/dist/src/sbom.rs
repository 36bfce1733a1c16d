//! The software bill of materials, in CycloneDX 1.6.

use serde_json::{Value, json};

use crate::crates::Crate;

/// Writes it. `created` is a time in RFC 3339.
pub fn write(crates: &[Crate], version: &str, triple: &str, created: &str) -> String {
    let components: Vec<Value> = crates.iter().map(component).collect();
    let dependencies: Vec<Value> = crates
        .iter()
        .map(|it| {
            let on = it.dependencies.iter();
            let on: Vec<String> = on.map(|(name, version)| purl(name, version)).collect();
            json!({"ref": purl(&it.name, &it.version), "dependsOn": on})
        })
        .collect();
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": created,
            "component": {
                "type": "application",
                "bom-ref": format!("orlop@{version}"),
                "name": "orlop",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
                "properties": [{"name": "rust:target", "value": triple}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn component(it: &Crate) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(&it.name, &it.version),
        "name": it.name,
        "version": it.version,
    });
    if let Some(licence) = &it.licence {
        // `A/B` is how old crates write `A OR B`.
        let expression = licence.replace('/', " OR ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    if let Some(checksum) = &it.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if !it.is_own {
        component["purl"] = purl(&it.name, &it.version).into();
    }
    component
}

fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_has_a_name_a_licence_and_a_sum_and_every_reference_leads_somewhere() {
        let one = |name: &str, dependencies: &[(&str, &str)]| Crate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT/Apache-2.0".to_owned()),
            checksum: Some("ab".to_owned()),
            is_own: false,
            folder: "/".into(),
            dependencies: dependencies
                .iter()
                .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()))
                .collect(),
        };
        let crates = [one("a", &[("b", "1.0.0")]), one("b", &[])];
        let text = write(&crates, "0.1.0", "t", "2030-01-01T00:00:00Z");
        let bom: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(bom["specVersion"], "1.6");
        assert_eq!(bom["components"][0]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(
            bom["components"][0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(
            bom["dependencies"][0]["dependsOn"][0],
            bom["components"][1]["bom-ref"]
        );
    }
}
