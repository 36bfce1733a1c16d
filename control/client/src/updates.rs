//! Merge patches for users who may update objects, but not patch them.
//!
//! Kubernetes' own ClusterRoles let most controllers `update` what they write
//! (`plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go`). Where an API
//! server forbids a patch, the object is read, changed according to the patch, and
//! written back as the version that was read.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::Client;
use crate::error::{Error, Status};
use crate::reflector::Selection;
use crate::resource::Resource;

/// Attempts for an object that others keep changing.
const ATTEMPTS: u32 = 5;

/// Writes whole objects where patches are refused.
#[derive(Debug)]
pub(crate) struct Updates {
    /// A client that may list the objects: the writer need not be allowed to read them.
    reader: Client,
    /// Resources and subresources of which patches were refused.
    refused: Mutex<HashSet<(Resource, String)>>,
}

impl Updates {
    pub fn new(reader: Client) -> Self {
        Self {
            reader,
            refused: Mutex::default(),
        }
    }

    /// Whether a patch was refused before, so that none has to be tried.
    pub fn are_known_for(&self, resource: &Resource, subresource: &str) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.contains(&(resource.clone(), subresource.to_owned()))
    }

    /// Returns whether an error says that the user may not patch. A rejection by an
    /// admission plugin would apply to an update as well.
    pub fn help_with(&self, error: &Error, resource: &Resource, subresource: &str) -> bool {
        let Error::Forbidden(status) = error else {
            return false;
        };
        if !status.message.contains("cannot patch resource") {
            return false;
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.insert((resource.clone(), subresource.to_owned())) {
            tracing::info!(
                resource = %resource,
                subresource,
                "patch forbidden, updating objects instead"
            );
        }
        true
    }

    /// Lets the next patch be attempted again.
    fn forget(&self, resource: &Resource, subresource: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.remove(&(resource.clone(), subresource.to_owned()));
    }

    /// Applies the merge patch through an update, and returns the object as the server wrote it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`] when the patch names another version or
    /// uid than the object's, or the object keeps changing; errors that prevent a
    /// response.
    pub async fn patch(
        &self,
        writer: &Client,
        resource: &Resource,
        (namespace, name): (&str, &str),
        subresource: &str,
        patch: &Value,
    ) -> Result<Bytes, Error> {
        let written = self
            .update(writer, resource, (namespace, name), subresource, patch)
            .await;
        if matches!(written, Err(Error::Forbidden(_))) {
            // A server that has not read its roles yet forbids everything.
            self.forget(resource, subresource);
        }
        written
    }

    async fn update(
        &self,
        writer: &Client,
        resource: &Resource,
        (namespace, name): (&str, &str),
        subresource: &str,
        patch: &Value,
    ) -> Result<Bytes, Error> {
        let has_version = patch["metadata"]["resourceVersion"].is_string();
        let mut attempt = 1;
        loop {
            let mut object = self.read(resource, namespace, name).await?;
            object["apiVersion"] = resource.api_version().into();
            object["kind"] = resource.kind.as_ref().into();
            merge(&mut object, patch);
            let written: Result<Box<RawValue>, _> = writer
                .update_subresource(resource, namespace, name, subresource, &object)
                .await;
            match written {
                Err(Error::Conflict(_)) if !has_version && attempt < ATTEMPTS => attempt += 1,
                written => {
                    return written.map(|object| String::from(Box::<str>::from(object)).into());
                }
            }
        }
    }

    async fn read(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Value, Error> {
        let mut selection = Selection::all().fields(format!("metadata.name={name}"));
        if resource.namespaced {
            selection = selection.namespace(namespace);
        }
        let list = self.reader.list(resource, &selection).await?;
        let missing = || {
            let (plural, group) = (&resource.plural, &resource.group);
            let of = if group.is_empty() { "" } else { "." };
            Error::NotFound(Box::new(Status {
                code: 404,
                reason: "NotFound".into(),
                message: format!("{plural}{of}{group} \"{name}\" not found"),
                ..Status::default()
            }))
        };
        list.items.into_iter().next().ok_or_else(missing)
    }
}

/// RFC 7386, section 2.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use bytes::Bytes;
    use http::{Method, Request, Response};
    use http_body_util::{BodyExt, Full};
    use serde_json::json;
    use tower::service_fn;

    use super::*;
    use crate::client::Patch;
    use crate::resource::resources;
    use crate::transport::RequestBody;

    #[test]
    fn patches_are_merged_as_the_rfc_says() {
        // Its appendix A.
        for (mut original, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (
                json!({"a": "b", "b": "c"}),
                json!({"a": null}),
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [{"b": "c"}]}),
                json!({"a": [1]}),
                json!({"a": [1]}),
            ),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!([1, 2]),
                json!({"a": "b", "c": null}),
                json!({"a": "b"}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ] {
            merge(&mut original, &patch);
            assert_eq!(original, result, "{patch}");
        }
    }

    /// A server with one Deployment, which allows no patch.
    #[derive(Default)]
    struct Server {
        object: Mutex<Value>,
        asked: Mutex<Vec<String>>,
        /// Writes by somebody else between a read and the write that follows.
        disturbed: Mutex<u32>,
        /// Whether it has not read its roles yet.
        starts: Mutex<bool>,
    }

    impl Server {
        fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
            let mut object = self.object.lock().unwrap();
            self.asked.lock().unwrap().push(format!("{method} {path}"));
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            match *method {
                Method::GET => {
                    let list = json!({"metadata": {"resourceVersion": "9"}, "items": [*object]});
                    let mut disturbed = self.disturbed.lock().unwrap();
                    if *disturbed > 0 {
                        *disturbed -= 1;
                        object["metadata"]["resourceVersion"] = json!(format!("other-{disturbed}"));
                    }
                    (200, list)
                }
                Method::PUT if *self.starts.lock().unwrap() => (
                    403,
                    json!({"kind": "Status", "code": 403, "reason": "Forbidden"}),
                ),
                Method::PUT if body["metadata"] != object["metadata"] => (
                    409,
                    json!({"kind": "Status", "code": 409, "reason": "Conflict"}),
                ),
                Method::PUT => {
                    *object = body;
                    (200, object.clone())
                }
                _ => {
                    let message = "deployments.apps \"d\" is forbidden: User \"u\" cannot patch \
                                   resource \"deployments/status\" in API group \"apps\"";
                    let status = json!({"kind": "Status", "code": 403, "reason": "Forbidden",
                        "message": message});
                    (403, status)
                }
            }
        }
    }

    fn client(server: &Arc<Server>) -> Client {
        let server = server.clone();
        let service = service_fn(move |request: Request<RequestBody>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.expect("a body").to_bytes();
                let (code, answer) = server.answer(&head.method, head.uri.path(), &body);
                let body = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::builder().status(code).body(body).expect("valid"))
            }
        });
        Client::in_process(service, ())
    }

    async fn write(client: &Client, status: Value) -> Result<Value, Error> {
        let patch = json!({"status": status});
        client
            .patch_status(&resources::DEPLOYMENTS, "n", "d", Patch::Merge(&patch))
            .await
    }

    #[tokio::test]
    async fn an_object_is_updated_where_patches_are_not_allowed() {
        let server = Arc::new(Server::default());
        *server.object.lock().unwrap() = json!({
            "metadata": {"name": "d", "namespace": "n", "resourceVersion": "1"},
            "spec": {"replicas": 3},
            "status": {"replicas": 1, "conditions": []},
        });
        let client = client(&server);
        let refused = write(&client, json!({"replicas": 2})).await;
        assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");

        let client = client.clone().updating_through(&client);
        *server.disturbed.lock().unwrap() = 2;
        let written = write(&client, json!({"replicas": 2}))
            .await
            .expect("written");
        assert_eq!(written["status"], json!({"replicas": 2, "conditions": []}));
        assert_eq!(written["spec"], json!({"replicas": 3}));
        assert_eq!(written["kind"], "Deployment");

        // No further patch is tried.
        server.asked.lock().unwrap().clear();
        write(&client, json!({"replicas": 3}))
            .await
            .expect("written");
        let list = "GET /apis/apps/v1/namespaces/n/deployments";
        let put = "PUT /apis/apps/v1/namespaces/n/deployments/d/status";
        assert_eq!(*server.asked.lock().unwrap(), [list, put]);
    }

    #[tokio::test]
    async fn a_patch_is_tried_again_after_a_time_in_which_everything_was_forbidden() {
        let server = Arc::new(Server::default());
        *server.object.lock().unwrap() =
            json!({"metadata": {"name": "d", "namespace": "n", "resourceVersion": "1"}});
        *server.starts.lock().unwrap() = true;
        let client = client(&server);
        let client = client.clone().updating_through(&client);
        for _ in 0..2 {
            server.asked.lock().unwrap().clear();
            let refused = write(&client, json!({})).await;
            assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
            let asked = server.asked.lock().unwrap().clone();
            assert!(asked[0].starts_with("PATCH "), "{asked:?}");
        }
    }

    #[tokio::test]
    async fn a_patch_of_another_version_is_a_conflict() {
        let server = Arc::new(Server::default());
        *server.object.lock().unwrap() =
            json!({"metadata": {"name": "d", "namespace": "n", "resourceVersion": "1"}});
        let client = client(&server);
        let client = client.clone().updating_through(&client);
        let patch = json!({"metadata": {"resourceVersion": "0"}, "status": {}});
        let written: Result<Value, Error> = client
            .patch_status(&resources::DEPLOYMENTS, "n", "d", Patch::Merge(&patch))
            .await;
        assert!(matches!(written, Err(Error::Conflict(_))), "{written:?}");
    }
}
