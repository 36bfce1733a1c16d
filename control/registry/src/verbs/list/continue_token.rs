//! Continuation tokens of paged lists.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use control_store::Revision;
use control_types::status::Status;
use control_types::value::Value;

/// A continuation token, in the form of stock: base64 of a JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Of the first page; `None` goes on in the present.
    pub revision: Option<Revision>,
    /// The key, within the namespace listed, of the first item of the next page.
    pub start: String,
}

impl Token {
    pub fn encode(&self) -> String {
        let mut token = Value::object();
        token.insert("v", "meta.k8s.io/v1");
        token.insert("rv", self.revision.map_or(Value::Int(-1), Value::from));
        token.insert("start", self.start.as_str());
        URL_SAFE_NO_PAD.encode(token.to_vec())
    }

    pub fn decode(text: &str) -> Result<Self, Status> {
        let bad = |why: &str| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let bytes = [URL_SAFE_NO_PAD, URL_SAFE, STANDARD, STANDARD_NO_PAD]
            .iter()
            .find_map(|engine| engine.decode(text).ok())
            .ok_or_else(|| {
                let at = no_base64(text);
                bad(&format!("illegal base64 data at input byte {at}"))
            })?;
        let token = Value::from_slice(&bytes).map_err(|error| bad(&error.to_string()))?;
        for (member, kind) in [("v", "string"), ("rv", "int64"), ("start", "string")] {
            let fits = match token.get(member) {
                None | Some(Value::Null) => true,
                Some(value) if kind == "string" => value.as_str().is_some(),
                Some(value) => value.as_i64().is_some(),
            };
            if !fits {
                let given = token.get(member).map_or("null", Value::type_name);
                return Err(bad(&format!(
                    "json: cannot unmarshal {given} into Go struct field continueToken.{member} of type {kind}"
                )));
            }
        }
        let version = token.str_at(&["v"]).unwrap_or_default();
        if version != "meta.k8s.io/v1" {
            return Err(bad(&format!(
                "server does not recognize this encoded version {version}"
            )));
        }
        let start = token
            .str_at(&["start"])
            .filter(|start| !start.is_empty())
            .ok_or_else(|| bad("encoded start key empty (version meta.k8s.io/v1)"))?;
        if start.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(bad(start));
        }
        let revision = match token.i64_at(&["rv"]) {
            Some(number) if number < 0 => None,
            Some(0) | None => {
                return Err(bad(
                    "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
                ));
            }
            Some(number) => u64::try_from(number).ok(),
        };
        Ok(Self {
            revision,
            start: start.to_owned(),
        })
    }
}

/// Where a text stops being base64, as Go counts.
fn no_base64(text: &str) -> usize {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let strange = text.bytes().position(|byte| !is_letter(byte));
    strange.unwrap_or_else(|| text.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back() {
        for revision in [Some(17), None] {
            let token = Token {
                revision,
                start: "web\0".into(),
            };
            assert_eq!(Token::decode(&token.encode()), Ok(token));
        }
    }

    #[test]
    fn tokens_of_others_are_refused() {
        for text in [
            "!",
            "e30",
            &URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
            &URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../a"}"#),
        ] {
            assert_eq!(
                Token::decode(text).expect_err("refused").code,
                400,
                "{text}"
            );
        }
    }
}
