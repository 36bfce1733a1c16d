//! Discovers the resources that the registry does not have: those of custom resource
//! definitions and those that other servers serve behind APIService objects.
//!
//! Namespace deletion and garbage collection need all of them: an object of an overlooked
//! resource outlives its namespace and its owners.

use std::collections::BTreeSet;
use std::time::Duration;

use control_client::{Client, Error, Resource};
use control_kinds::compare_versions;
use control_types::registry;
use futures::future::join_all;
use http::Method;
use serde::Deserialize;

use crate::custom;

/// How long an extension server may take to list its resources.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The custom and aggregated resources of the API.
#[derive(Debug, Default)]
pub(crate) struct Extensions {
    /// Each resource in one version.
    pub resources: Vec<ExtensionResource>,
    /// The groups whose server did not answer discovery.
    pub unavailable: Vec<UnavailableGroup>,
}

/// A resource and the verbs that its server supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExtensionResource {
    /// The endpoint of its objects.
    pub resource: Resource,
    /// Verbs such as `list`.
    verbs: Vec<String>,
}

/// An API group whose resources could not be discovered.
#[derive(Debug)]
pub(crate) struct UnavailableGroup {
    /// Its name.
    pub group: String,
    /// The requested version.
    pub version: String,
    /// The reason of the failure.
    pub reason: String,
}

impl ExtensionResource {
    /// Whether the server allows all these verbs.
    #[must_use]
    pub fn allows(&self, verbs: &[&str]) -> bool {
        verbs
            .iter()
            .all(|verb| self.verbs.iter().any(|known| known == verb))
    }
}

impl Extensions {
    /// Returns why some resources are unknown, in upstream's words; `None` if all are
    /// known.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if self.unavailable.is_empty() {
            return None;
        }
        let groups: Vec<String> = self
            .unavailable
            .iter()
            .map(|one| format!("{}/{}: {}", one.group, one.version, one.reason))
            .collect();
        Some(format!(
            "unable to retrieve the complete list of server APIs: {}",
            groups.join(", ")
        ))
    }
}

/// Finds the extensions of the API.
///
/// # Errors
/// When the API server itself does not answer. An extension server that does not answer
/// is listed in [`Extensions::unavailable`].
pub(crate) async fn extensions(client: &Client) -> Result<Extensions, Error> {
    let (custom, services) = futures::join!(custom::resources(client), api_services(client));
    let mut found = Extensions {
        resources: custom?.into_iter().map(custom_resource).collect(),
        unavailable: Vec::new(),
    };
    let mut known: BTreeSet<(String, String)> = found
        .resources
        .iter()
        .map(|one| place(&one.resource))
        .chain(
            registry::resources()
                .iter()
                .map(|row| (row.group.to_owned(), row.plural.to_owned())),
        )
        .collect();
    let services = services?;
    let answers = join_all(services.iter().map(|one| served_by(client, one))).await;
    // in the order of the versions: the first that has a resource is the preferred one
    for (service, answer) in services.iter().zip(answers) {
        match answer {
            Ok(resources) => {
                for one in resources {
                    if known.insert(place(&one.resource)) {
                        found.resources.push(one);
                    }
                }
            }
            Err(error) => found.unavailable.push(UnavailableGroup {
                group: service.group.clone(),
                version: service.version.clone(),
                reason: error.to_string(),
            }),
        }
    }
    Ok(found)
}

/// The extensions whose objects can be followed and deleted, as garbage collection needs
/// it. Resources in `followed` are kept while the server of their group does not answer.
///
/// # Errors
/// As [`extensions`].
pub(crate) async fn collectable(
    client: &Client,
    followed: &[Resource],
) -> Result<Vec<Resource>, Error> {
    let found = extensions(client).await?;
    for one in &found.unavailable {
        let (group, version, reason) = (&one.group, &one.version, &one.reason);
        tracing::debug!(%group, %version, %reason, "failed to discover the resources of an API service");
    }
    let unavailable = |resource: &Resource| {
        let mut groups = found.unavailable.iter();
        groups.any(|one| one.group == resource.group)
    };
    let mut all: Vec<Resource> = found
        .resources
        .iter()
        .filter(|one| one.allows(&["list", "watch", "delete"]))
        .map(|one| one.resource.clone())
        .collect();
    let kept = followed
        .iter()
        .filter(|resource| unavailable(resource) && !all.contains(resource));
    let mut kept: Vec<Resource> = kept.cloned().collect();
    all.append(&mut kept);
    Ok(all)
}

fn place(resource: &Resource) -> (String, String) {
    (resource.group.to_string(), resource.plural.to_string())
}

fn custom_resource(resource: Resource) -> ExtensionResource {
    let verbs = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    ExtensionResource {
        resource,
        verbs: verbs.map(ToOwned::to_owned).to_vec(),
    }
}

/// The fields of a list of APIServices that are read.
#[derive(Debug, Deserialize)]
struct ApiServices {
    items: Vec<ApiService>,
}

#[derive(Debug, Deserialize)]
struct ApiService {
    spec: ApiServiceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ApiServiceSpec {
    group: String,
    version: String,
    version_priority: i64,
    /// Absent for APIs that the API server serves itself.
    service: Option<serde::de::IgnoredAny>,
}

/// The groups and versions that other servers serve, the preferred versions
/// first; none where APIServices are not served at all.
async fn api_services(client: &Client) -> Result<Vec<ApiServiceSpec>, Error> {
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let list: ApiServices = match client.request(Method::GET, path, None::<&()>).await {
        Ok(list) => list,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(remote(list.items.into_iter().map(|item| item.spec)))
}

/// Those that another server serves, in order.
fn remote(services: impl Iterator<Item = ApiServiceSpec>) -> Vec<ApiServiceSpec> {
    let mut services: Vec<_> = services.filter(|one| one.service.is_some()).collect();
    services.sort_by(|a, b| {
        let by_group = (&a.group, b.version_priority).cmp(&(&b.group, a.version_priority));
        by_group.then_with(|| compare_versions(&b.version, &a.version))
    });
    services
}

/// `APIResourceList`.
#[derive(Debug, Deserialize)]
struct ApiResourceList {
    #[serde(default)]
    resources: Vec<ServedResource>,
}

#[derive(Debug, Deserialize)]
struct ServedResource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

/// Reason why the resources of a group and version are unknown.
#[derive(Debug, thiserror::Error)]
enum DiscoveryError {
    #[error("{}", .0.chain())]
    Client(Error),
    #[error("no answer within {} s", ANSWER_WITHIN.as_secs())]
    Timeout,
}

/// Returns the resources of a group and version.
async fn served_by(
    client: &Client,
    service: &ApiServiceSpec,
) -> Result<Vec<ExtensionResource>, DiscoveryError> {
    let path = format!("/apis/{}/{}", service.group, service.version);
    let answer = client.request::<ApiResourceList>(Method::GET, &path, None::<&()>);
    match tokio::time::timeout(ANSWER_WITHIN, answer).await {
        Ok(Ok(list)) => Ok(objects_of(service, list)),
        Ok(Err(error)) => Err(DiscoveryError::Client(error)),
        Err(_) => Err(DiscoveryError::Timeout),
    }
}

/// The resources without their subresources.
fn objects_of(service: &ApiServiceSpec, list: ApiResourceList) -> Vec<ExtensionResource> {
    let whole = |one: &ServedResource| !one.name.contains('/');
    let found = list.resources.into_iter().filter(whole);
    found
        .map(|one| ExtensionResource {
            resource: Resource {
                group: service.group.clone().into(),
                version: service.version.clone().into(),
                plural: one.name.into(),
                kind: one.kind.into(),
                namespaced: one.namespaced,
            },
            verbs: one.verbs,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fake_api::FakeApi;

    const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

    fn api_service(version: &str, priority: i64, service: &Value) -> Value {
        json!({"spec": {"group": "wares.example.com", "version": version,
            "groupPriorityMinimum": 100, "versionPriority": priority, "service": service}})
    }

    fn resource_list(plurals: &[&str]) -> Value {
        let resources: Vec<Value> = plurals
            .iter()
            .map(|name| {
                json!({"name": name, "kind": "Flunder", "namespaced": true,
                "verbs": ["get", "list", "delete", "watch"]})
            })
            .collect();
        json!({"kind": "APIResourceList", "resources": resources})
    }

    /// A server with two versions of an aggregated group, and a local one.
    fn server() -> FakeApi {
        let api = FakeApi::new();
        let service = json!({"namespace": "n", "name": "s"});
        for (name, body) in [
            ("v1.wares.example.com", api_service("v1", 10, &service)),
            (
                "v1beta1.wares.example.com",
                api_service("v1beta1", 10, &service),
            ),
            ("v1.apps", api_service("v2", 1, &Value::Null)),
        ] {
            api.put(&format!("{SERVICES}/{name}"), body);
        }
        api
    }

    fn names(found: &Extensions) -> Vec<String> {
        let resources = found.resources.iter().map(|one| &one.resource);
        resources
            .map(|one| format!("{one} {}", one.version))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn aggregated_resources_are_found_once_in_the_preferred_version() {
        let api = server();
        api.answer_with(|request| match request.path.as_str() {
            "/apis/wares.example.com/v1" => {
                Some((200, resource_list(&["flunders", "flunders/status"])))
            }
            "/apis/wares.example.com/v1beta1" => {
                Some((200, resource_list(&["flunders", "fischers"])))
            }
            _ => None,
        });
        let found = extensions(&api.client()).await.expect("found");
        assert_eq!(
            names(&found),
            [
                "flunders.wares.example.com v1",
                "fischers.wares.example.com v1beta1"
            ]
        );
        assert!(found.failure().is_none());
        assert!(found.resources[0].allows(&["list", "delete"]));
        assert!(!found.resources[0].allows(&["deletecollection"]));
    }

    #[tokio::test(start_paused = true)]
    async fn group_that_does_not_answer_is_named_and_the_others_are_found() {
        let api = server();
        api.answer_with(|request| match request.path.as_str() {
            "/apis/wares.example.com/v1" => Some((200, resource_list(&["flunders"]))),
            "/apis/wares.example.com/v1beta1" => Some((
                503,
                json!({"kind": "Status", "code": 503, "message": "no endpoints"}),
            )),
            _ => None,
        });
        let found = extensions(&api.client()).await.expect("found");
        assert_eq!(names(&found), ["flunders.wares.example.com v1"]);
        let failure = found.failure().expect("named");
        assert!(failure.contains("wares.example.com/v1beta1"), "{failure}");
        let fischers = Resource::namespaced("wares.example.com", "v1beta1", "fischers", "Flunder");
        let gone = Resource::namespaced("gone.example.com", "v1", "others", "Other");
        let kept = collectable(&api.client(), &[fischers.clone(), gone])
            .await
            .expect("found");
        assert_eq!(kept, [found.resources[0].resource.clone(), fischers]);
    }

    #[test]
    fn versions_stand_by_priority_then_by_stability() {
        let spec = |version: &str, priority| -> ApiServiceSpec {
            let service = json!({"name": "s"});
            serde_json::from_value(api_service(version, priority, &service)["spec"].clone())
                .expect("a spec")
        };
        let all = [
            spec("v1", 1),
            spec("v2alpha1", 1),
            spec("v0", 9),
            spec("v2", 1),
        ];
        let sorted = remote(all.into_iter());
        let versions: Vec<&str> = sorted.iter().map(|one| one.version.as_str()).collect();
        assert_eq!(versions, ["v0", "v2", "v1", "v2alpha1"]);
    }
}
