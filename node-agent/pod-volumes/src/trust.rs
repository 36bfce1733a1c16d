//! Trust anchors of `ClusterTrustBundle` objects, as a file of a projected
//! volume (KEP-3257): those of one object by name, or of all of a signer that
//! labels select; each once, without what is written around them.

use std::collections::BTreeSet;

use base64::Engine as _;
use node_agent_objects::source::ObjectReader;
use node_agent_objects::volume::{LabelSelector, TrustProjection};

use super::Error;

/// The longest selector that is followed, as the kubelet limits it.
const LONGEST: usize = 100 * 1024;

/// The text of the file.
pub(super) async fn anchors(
    wish: &TrustProjection,
    objects: &dyn ObjectReader,
) -> Result<String, Error> {
    let optional = wish.optional.unwrap_or(false);
    let bundles = match (&wish.name, &wish.signer_name) {
        (Some(name), _) => {
            let found = objects
                .trust_bundle(name)
                .await
                .map_err(|error| Error::Trust(error.to_string()))?;
            match found {
                Some(bundle) => vec![bundle],
                None if optional => Vec::new(),
                None => {
                    return Err(Error::Trust(format!(
                        "clustertrustbundle \"{name}\" not found"
                    )));
                }
            }
        }
        (None, Some(signer)) => match &wish.label_selector {
            // no selector selects nothing, an empty one everything
            None => Vec::new(),
            Some(selector) => {
                let selector = text(selector).filter(|text| text.len() <= LONGEST);
                let selector = selector.ok_or_else(|| {
                    Error::Trust("the label selector is too long, or none".to_owned())
                })?;
                let found = objects.trust_bundles(signer, &selector).await;
                found.map_err(|error| Error::Trust(error.to_string()))?
            }
        },
        (None, None) => {
            let why = "neither name nor signerName is set";
            return Err(Error::Trust(why.to_owned()));
        }
    };
    if bundles.is_empty() && !optional && wish.name.is_none() {
        let why = "combination of signerName and labelSelector matched zero ClusterTrustBundles";
        return Err(Error::Trust(why.to_owned()));
    }
    Ok(normalized(&bundles))
}

/// Every certificate of the bundles once, in an order that does not change
/// with theirs.
fn normalized(bundles: &[String]) -> String {
    let mut anchors = BTreeSet::new();
    for bundle in bundles {
        let blocks = x509_parser::pem::Pem::iter_from_buffer(bundle.as_bytes());
        anchors.extend(blocks.flatten().map(|block| block.contents));
    }
    let base64 = base64::engine::general_purpose::STANDARD;
    let mut text = String::new();
    for anchor in anchors {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = base64.encode(anchor);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, more) = rest.split_at(rest.len().min(64));
            text.push_str(line);
            text.push('\n');
            rest = more;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// As the API takes selectors in a query; none for one that is none.
fn text(selector: &LabelSelector) -> Option<String> {
    let mut all: Vec<String> = selector
        .match_labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    for one in &selector.match_expressions {
        let values = one.values.join(",");
        all.push(match one.operator.as_str() {
            "In" => format!("{} in ({values})", one.key),
            "NotIn" => format!("{} notin ({values})", one.key),
            "Exists" => one.key.to_string(),
            "DoesNotExist" => format!("!{}", one.key),
            _ => return None,
        });
    }
    Some(all.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_objects::fake::FakeObjects;

    fn pem(text: &str) -> String {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n")
    }

    fn wish(json: serde_json::Value) -> TrustProjection {
        serde_json::from_value(json).unwrap()
    }

    #[tokio::test]
    async fn anchors_of_a_signer_are_together_and_each_once() {
        let objects = FakeObjects::default();
        let of_signer = |name: &str, anchors: &[&str]| {
            let text: String = anchors.iter().map(|a| pem(a)).collect();
            let bundle = format!("# who knows what\n{text}");
            objects
                .trust
                .lock()
                .unwrap()
                .push((name.to_owned(), "a.com/s".to_owned(), bundle));
        };
        of_signer("one", &["b", "a"]);
        of_signer("two", &["a"]);
        let all =
            wish(serde_json::json!({"signerName": "a.com/s", "labelSelector": {}, "path": "x"}));
        let found = anchors(&all, &objects).await.unwrap();
        assert_eq!(found, pem("a") + &pem("b"));
        let one = wish(serde_json::json!({"name": "two", "path": "x"}));
        assert_eq!(anchors(&one, &objects).await.unwrap(), pem("a"));
        // as the kubelet, no selector selects nothing
        let none = serde_json::json!({"signerName": "a.com/s", "path": "x", "optional": true});
        assert_eq!(anchors(&wish(none), &objects).await.unwrap(), "");
    }

    #[tokio::test]
    async fn what_is_missing_is_an_error_unless_it_is_optional() {
        let objects = FakeObjects::default();
        let cases = [
            (serde_json::json!({"name": "x"}), "not found"),
            (
                serde_json::json!({"signerName": "a.com/s", "labelSelector": {}}),
                "matched zero",
            ),
        ];
        for (json, why) in cases {
            let mut wish = wish(json);
            let error = anchors(&wish, &objects).await.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            wish.optional = Some(true);
            assert_eq!(anchors(&wish, &objects).await.unwrap(), "");
        }
        assert!(
            anchors(&TrustProjection::default(), &objects)
                .await
                .is_err()
        );
    }

    #[test]
    fn selectors_are_written_as_the_api_reads_them() {
        let selector: LabelSelector = serde_json::from_value(serde_json::json!({
            "matchLabels": {"a": "1"},
            "matchExpressions": [
                {"key": "b", "operator": "In", "values": ["2", "3"]},
                {"key": "c", "operator": "NotIn", "values": ["4"]},
                {"key": "d", "operator": "Exists"},
                {"key": "e", "operator": "DoesNotExist"}]}))
        .unwrap();
        let wanted = "a=1,b in (2,3),c notin (4),d,!e";
        assert_eq!(text(&selector).as_deref(), Some(wanted));
        assert_eq!(text(&LabelSelector::default()).as_deref(), Some(""));
        let wrong: LabelSelector = serde_json::from_value(
            serde_json::json!({"matchExpressions": [{"key": "b", "operator": "Like"}]}),
        )
        .unwrap();
        assert_eq!(text(&wrong), None);
    }
}
