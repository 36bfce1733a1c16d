//! The files of volumes that are made of API objects.

use jiff::Timestamp;
use node_agent_objects::fields;
use node_agent_objects::fields::PodFacts;
use node_agent_objects::pod::Pod;
use node_agent_objects::source::{
    DataError, DataKind, ObjectData, ObjectReader, ServiceAccountToken, TokenSpec,
};
use node_agent_objects::volume::{
    DownwardApi, KeyToPath, ProjectedSource, TokenProjection, VolumeSource,
};

use super::atomic::{Payload, PayloadFile};
use super::{Error, trust};

/// Permissions of files that say nothing else.
const MODE: u32 = 0o644;

/// Requested tokens by audience, lifetime and path.
pub type TokenCache = rustc_hash::FxHashMap<(String, i64, String), ServiceAccountToken>;

/// The files of a volume, when it is made of API objects.
///
/// # Errors
/// When an object or key is missing that is not optional.
pub async fn collect(
    pod: &Pod,
    source: &VolumeSource,
    facts: &PodFacts,
    objects: &dyn ObjectReader,
    tokens: &mut TokenCache,
) -> Result<Payload, Error> {
    let mut payload = Payload::new();
    match source {
        VolumeSource::ConfigMap(map) => {
            let part = PayloadPart {
                kind: DataKind::ConfigMap,
                name: &map.name,
                items: &map.items,
                optional: map.optional.unwrap_or(false),
                mode: map.default_mode.unwrap_or(MODE),
            };
            data(pod, objects, &part, &mut payload).await?;
        }
        VolumeSource::Secret(secret) => {
            let part = PayloadPart {
                kind: DataKind::Secret,
                name: &secret.secret_name,
                items: &secret.items,
                optional: secret.optional.unwrap_or(false),
                mode: secret.default_mode.unwrap_or(MODE),
            };
            data(pod, objects, &part, &mut payload).await?;
        }
        VolumeSource::DownwardApi(own) => {
            downward(
                pod,
                facts,
                own,
                own.default_mode.unwrap_or(MODE),
                &mut payload,
            )?;
        }
        VolumeSource::Projected(projected) => {
            project(pod, projected, facts, objects, tokens, &mut payload).await?;
        }
        VolumeSource::EmptyDir(_)
        | VolumeSource::HostPath(_)
        | VolumeSource::Image(_)
        | VolumeSource::Claim(_)
        | VolumeSource::Ephemeral
        | VolumeSource::Csi(_)
        | VolumeSource::Unsupported(_) => {}
    }
    Ok(payload)
}

/// The files that a ConfigMap or Secret contributes to a volume.
struct PayloadPart<'a> {
    kind: DataKind,
    name: &'a str,
    items: &'a [KeyToPath],
    optional: bool,
    mode: u32,
}

async fn data(
    pod: &Pod,
    objects: &dyn ObjectReader,
    part: &PayloadPart<'_>,
    payload: &mut Payload,
) -> Result<(), Error> {
    let found = match objects.data(part.kind, pod.namespace(), part.name).await {
        Ok(found) => found,
        Err(DataError::NotFound { .. }) if part.optional => return Ok(()),
        Err(error) => return Err(Error::Data(error)),
    };
    pick(&found, part, payload)
}

fn pick(found: &ObjectData, part: &PayloadPart<'_>, payload: &mut Payload) -> Result<(), Error> {
    let mut put = |path: &str, data: &[u8], mode: u32| {
        payload.insert(
            path.to_owned(),
            PayloadFile {
                data: data.to_owned(),
                mode,
                user: None,
            },
        );
    };
    if part.items.is_empty() {
        for (key, value) in &found.entries {
            put(key, value, part.mode);
        }
        return Ok(());
    }
    for item in part.items {
        match found.entries.get(&item.key) {
            Some(value) => put(&item.path, value, item.mode.unwrap_or(part.mode)),
            None if part.optional => {}
            None => {
                return Err(Error::Key {
                    kind: part.kind.lower(),
                    key: item.key.clone(),
                });
            }
        }
    }
    Ok(())
}

fn downward(
    pod: &Pod,
    facts: &PodFacts,
    own: &DownwardApi,
    default_mode: u32,
    payload: &mut Payload,
) -> Result<(), Error> {
    for item in &own.items {
        let value = if let Some(reference) = &item.field_ref {
            fields::field(pod, facts, &reference.field_path)
                .ok_or_else(|| Error::Field(reference.field_path.clone()))?
        } else if let Some(reference) = &item.resource_field_ref {
            pod.spec
                .container(&reference.container_name)
                .and_then(|c| fields::resource(c, facts, reference))
                .ok_or_else(|| Error::Field(reference.resource.clone()))?
        } else {
            continue;
        };
        payload.insert(
            item.path.clone(),
            PayloadFile {
                data: value.into_bytes(),
                mode: item.mode.unwrap_or(default_mode),
                user: None,
            },
        );
    }
    Ok(())
}

async fn project(
    pod: &Pod,
    projected: &ProjectedSource,
    facts: &PodFacts,
    objects: &dyn ObjectReader,
    tokens: &mut TokenCache,
    payload: &mut Payload,
) -> Result<(), Error> {
    let mode = projected.default_mode.unwrap_or(MODE);
    for source in &projected.sources {
        if let Some(map) = &source.config_map {
            let part = PayloadPart {
                kind: DataKind::ConfigMap,
                name: &map.name,
                items: &map.items,
                optional: map.optional.unwrap_or(false),
                mode,
            };
            data(pod, objects, &part, payload).await?;
        } else if let Some(secret) = &source.secret {
            let part = PayloadPart {
                kind: DataKind::Secret,
                name: &secret.name,
                items: &secret.items,
                optional: secret.optional.unwrap_or(false),
                mode,
            };
            data(pod, objects, &part, payload).await?;
        } else if let Some(own) = &source.downward_api {
            downward(pod, facts, own, mode, payload)?;
        } else if let Some(wish) = &source.service_account_token {
            let token = token(pod, wish, objects, tokens).await?;
            let user = common_user(pod);
            let group = pod.spec.security_context.as_ref().and_then(|s| s.fs_group);
            let private = user.is_some() || group.is_some();
            payload.insert(
                wish.path.clone(),
                PayloadFile {
                    data: token.into_bytes(),
                    mode: if private { 0o600 } else { mode },
                    user,
                },
            );
        } else if let Some(wish) = &source.cluster_trust_bundle {
            let text = trust::anchors(wish, objects).await?;
            payload.insert(
                wish.path.clone(),
                PayloadFile {
                    data: text.into_bytes(),
                    mode,
                    user: None,
                },
            );
        } else {
            return Err(Error::Projection);
        }
    }
    Ok(())
}

/// A token that is good for a while: the one we have, or a new one.
async fn token(
    pod: &Pod,
    wish: &TokenProjection,
    objects: &dyn ObjectReader,
    tokens: &mut TokenCache,
) -> Result<String, Error> {
    let seconds = wish.expiration_seconds.unwrap_or(3600);
    let key = (wish.audience.clone(), seconds, wish.path.clone());
    let now = Timestamp::now();
    if let Some(held) = tokens.get(&key)
        && held.refresh_at() > now
    {
        return Ok(held.token.clone());
    }
    let account = if pod.spec.service_account_name.is_empty() {
        "default"
    } else {
        &pod.spec.service_account_name
    };
    let asked = objects
        .token(TokenSpec {
            namespace: pod.namespace(),
            account,
            pod: (pod.name(), pod.uid()),
            audience: &wish.audience,
            seconds,
        })
        .await;
    match asked {
        Ok(token) => {
            let text = token.token.clone();
            tokens.insert(key, token);
            Ok(text)
        }
        Err(error) => match tokens.get(&key) {
            // the old one is better than none while it lasts
            Some(held) if held.expires > now => Ok(held.token.clone()),
            _ => Err(Error::Token(error)),
        },
    }
}

/// The user that all containers run as, if it is the same for all.
fn common_user(pod: &Pod) -> Option<u32> {
    let of_pod = pod
        .spec
        .security_context
        .as_ref()
        .and_then(|s| s.run_as_user);
    let mut users = pod.spec.all_containers().map(|c| {
        c.security_context
            .as_ref()
            .and_then(|s| s.run_as_user)
            .or(of_pod)
    });
    let first = users.next()??;
    users
        .all(|user| user == Some(first))
        .then(|| u32::try_from(first).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_objects::fake::FakeObjects;

    async fn files(objects: &FakeObjects, volume: &str) -> Result<Payload, Error> {
        let pod: Pod = serde_json::from_str(&format!(
            r#"{{"metadata":{{"name":"web","namespace":"default","labels":{{"app":"web"}}}},
                "spec":{{"containers":[{{"name":"c"}}],"volumes":[{volume}]}}}}"#
        ))
        .unwrap();
        let source = pod.spec.volumes[0].source.clone();
        collect(
            &pod,
            &source,
            &PodFacts::default(),
            objects,
            &mut TokenCache::default(),
        )
        .await
    }

    #[tokio::test]
    async fn items_choose_keys_and_modes() {
        let objects = FakeObjects::default();
        objects.put(DataKind::ConfigMap, "cfg", &[("a", "1"), ("b", "2")]);
        let all = files(
            &objects,
            r#"{"name":"v","configMap":{"name":"cfg","defaultMode":256}}"#,
        )
        .await
        .unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all["a"].mode, 0o400);
        let some = files(
            &objects,
            r#"{"name":"v","configMap":{"name":"cfg","items":[{"key":"b","path":"x/y","mode":511}]}}"#,
        )
        .await
        .unwrap();
        assert_eq!(some["x/y"].data, b"2");
        assert_eq!(some["x/y"].mode, 0o777);
        let missing = files(
            &objects,
            r#"{"name":"v","configMap":{"name":"cfg","items":[{"key":"z","path":"z"}]}}"#,
        )
        .await;
        assert_eq!(
            missing.unwrap_err().to_string(),
            "configmap references non-existent config key: z"
        );
    }

    #[tokio::test]
    async fn missing_objects_are_empty_volumes_only_when_optional() {
        let objects = FakeObjects::default();
        assert!(
            files(&objects, r#"{"name":"v","secret":{"secretName":"s"}}"#)
                .await
                .is_err()
        );
        let empty = files(
            &objects,
            r#"{"name":"v","secret":{"secretName":"s","optional":true}}"#,
        )
        .await
        .unwrap();
        assert!(empty.is_empty());
    }

    #[tokio::test]
    async fn projections_come_together_in_one_volume() {
        let objects = FakeObjects::default();
        objects.put(DataKind::ConfigMap, "kube-root-ca.crt", &[("ca.crt", "CA")]);
        let all = files(
            &objects,
            r#"{"name":"v","projected":{"defaultMode":420,"sources":[
                {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
                {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
                {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"fieldPath":"metadata.namespace"}}]}}]}}"#,
        )
        .await
        .unwrap();
        assert_eq!(all["namespace"].data, b"default");
        assert_eq!(all["ca.crt"].data, b"CA");
        assert_eq!(all["token"].data, b"token-0-default");
    }

    #[test]
    fn tokens_are_renewed_at_four_fifths_of_their_life_or_after_a_day() {
        let issued = Timestamp::from_second(1_000_000).unwrap();
        let token = |seconds: i64| ServiceAccountToken {
            token: String::new(),
            issued,
            expires: issued + jiff::SignedDuration::from_secs(seconds),
        };
        let life = |token: ServiceAccountToken| token.refresh_at().duration_since(issued).as_secs();
        assert_eq!(life(token(3600)), 2880);
        assert_eq!(life(token(365 * 86_400)), 86_400);
    }
}
