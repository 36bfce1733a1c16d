//! The resources that custom resource definitions add.

use control_client::{Client, Error, List, Resource, Selection};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// CustomResourceDefinition.
pub(crate) const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// All custom resource definitions; none where they are not served at all.
///
/// # Errors
/// Whatever prevents an answer.
pub(crate) async fn definitions<T: DeserializeOwned>(client: &Client) -> Result<Vec<T>, Error> {
    let list: Result<List<T>, Error> = client.list(&DEFINITIONS, &Selection::all()).await;
    match list {
        Ok(list) => Ok(list.items),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// All custom resources, each in one served version.
///
/// # Errors
/// Whatever prevents an answer.
pub(crate) async fn resources(client: &Client) -> Result<Vec<Resource>, Error> {
    let definitions = definitions::<Value>(client).await?;
    Ok(definitions.iter().filter_map(resource).collect())
}

fn resource(definition: &Value) -> Option<Resource> {
    let spec = definition.get("spec")?;
    let text = |pointer: &str| spec.pointer(pointer)?.as_str().map(ToOwned::to_owned);
    let version = spec
        .get("versions")?
        .as_array()?
        .iter()
        .find(|version| version.get("served").and_then(Value::as_bool) == Some(true))?;
    Some(Resource {
        group: text("/group")?.into(),
        version: version.get("name")?.as_str()?.to_owned().into(),
        plural: text("/names/plural")?.into(),
        kind: text("/names/kind")?.into(),
        namespaced: text("/scope")? == "Namespaced",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn served_version_and_scope_are_found() {
        let mut definition = json!({"spec":{"group":"example.com","scope":"Namespaced",
            "names":{"plural":"widgets","kind":"Widget"},
            "versions":[{"name":"v1alpha1","served":false},{"name":"v1","served":true}]}});
        let found = resource(&definition).unwrap();
        assert_eq!(found.to_string(), "widgets.example.com");
        assert_eq!((found.version.as_ref(), found.namespaced), ("v1", true));
        definition["spec"]["scope"] = "Cluster".into();
        assert!(!resource(&definition).unwrap().namespaced);
    }
}
