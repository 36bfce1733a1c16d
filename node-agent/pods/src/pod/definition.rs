//! What tells one definition of a container from another: name and image. Nothing else
//! of a running container's definition that restarts it may change.
//!
//! It is kept on containers, and the kubelet keeps the same: who starts after the other
//! would take another value for a changed definition and end the container. The value is
//! the kubelet's (`HashContainer`, since 1.31): FNV-1a of 32 bits over what Go's spew
//! prints of the bytes of `{"image":…,"name":…}`.

use std::fmt::{self, Write};

use node_agent_objects::pod::Container;

/// The hash of a container's definition, as the annotation has it: hexadecimal.
#[must_use]
pub fn definition_hash(container: &Container) -> String {
    let json = format!(
        "{{\"image\":{},\"name\":{}}}",
        go_json(&container.image),
        go_json(&container.name)
    );
    let mut hash = Fnv::default();
    // writing into a number cannot fail
    let _ = hash.write_str("([]uint8)[");
    for (at, byte) in json.bytes().enumerate() {
        let between = if at > 0 { " " } else { "" };
        let _ = write!(hash, "{between}{byte}");
    }
    let _ = hash.write_str("]");
    format!("{:x}", hash.0)
}

/// A text as Go's `encoding/json` writes it: safe within HTML and JavaScript.
fn go_json(text: &str) -> String {
    let mut out = String::new();
    for part in serde_json::Value::from(text).to_string().chars() {
        match part {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(part));
            }
            other => out.push(other),
        }
    }
    out
}

struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_kubelet() {
        // printed by its own packages (k8s.io/utils/dump, hash/fnv)
        let cases = [
            ("main", "registry.k8s.io/pause:3.10", "b03ee60b"),
            ("a", "b", "646fef1b"),
            ("web", "x/y@sha256:0&<>\u{2028}é\"\\", "e8329dfd"),
        ];
        for (name, image, hash) in cases {
            let container = Container {
                name: name.to_owned(),
                image: image.to_owned(),
                ..Container::default()
            };
            assert_eq!(definition_hash(&container), hash, "{name} {image}");
        }
    }
}
