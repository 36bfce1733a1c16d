//! Parses Go type declarations, as far as API packages use them: structs with tags, named
//! types, and the `+markers` in the comments above.

use std::collections::BTreeMap;
use std::fs;

use super::{Modules, failed};
use crate::error::Error;

/// A Go type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoType {
    /// A predeclared type: `string`, `int32`, ….
    Builtin(String),
    /// A declared one.
    Named(Name),
    Pointer(Box<GoType>),
    List(Box<GoType>),
    Map(Box<GoType>, Box<GoType>),
    Interface,
}

/// Package path and name of a type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub package: String,
    pub name: String,
}

/// A declaration.
#[derive(Clone, Debug)]
pub struct Declaration {
    pub markers: Vec<String>,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    Struct(Vec<Field>),
    Of(GoType),
}

/// A struct's field with its tags.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name; of an embedded one that of its type.
    pub name: String,
    pub go_type: GoType,
    pub embedded: bool,
    tags: BTreeMap<String, String>,
}

impl Field {
    /// Name and options of the `json` tag.
    pub fn json(&self) -> (&str, Vec<&str>) {
        let mut parts = self.tag("json").split(',');
        (parts.next().unwrap_or(""), parts.collect())
    }

    /// The number in the `protobuf` tag; 0 without one.
    pub fn number(&self) -> u32 {
        self.tag("protobuf")
            .split(',')
            .find_map(|part| part.parse().ok())
            .unwrap_or(0)
    }

    pub fn tag(&self, name: &str) -> &str {
        self.tags.get(name).map_or("", String::as_str)
    }
}

/// Packages, read when first asked for.
pub struct Packages<'a> {
    modules: &'a Modules,
    read: BTreeMap<String, BTreeMap<String, Declaration>>,
}

impl<'a> Packages<'a> {
    pub fn new(modules: &'a Modules) -> Self {
        Self {
            modules,
            read: BTreeMap::new(),
        }
    }

    /// The declaration of a type.
    pub fn find(&mut self, name: &Name) -> Result<Option<Declaration>, Error> {
        if !self.read.contains_key(&name.package) {
            let package = self.package(&name.package)?;
            self.read.insert(name.package.clone(), package);
        }
        Ok(self.read[&name.package].get(&name.name).cloned())
    }

    fn package(&self, path: &str) -> Result<BTreeMap<String, Declaration>, Error> {
        let folder = self
            .modules
            .package(path)
            .ok_or_else(|| failed(format!("package `{path}` is in none of the modules")))?;
        let entries = fs::read_dir(&folder)
            .map_err(|error| failed(format!("cannot read `{}`: {error}", folder.display())))?;
        let mut files: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        files.sort();
        let mut out = BTreeMap::new();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if !name.ends_with(".go")
                || name.ends_with("_test.go")
                || name.ends_with(".pb.go")
                || name.starts_with("zz_generated")
            {
                continue;
            }
            let text = fs::read_to_string(&file)
                .map_err(|error| failed(format!("cannot read `{}`: {error}", file.display())))?;
            parse(path, &text, &mut out);
        }
        Ok(out)
    }
}

fn parse(package: &str, text: &str, out: &mut BTreeMap<String, Declaration>) {
    let mut imports: BTreeMap<String, String> = BTreeMap::new();
    let mut in_imports = false;
    let mut markers: Vec<String> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if in_imports {
            if trimmed == ")" {
                in_imports = false;
            } else {
                import(trimmed, &mut imports);
            }
            continue;
        }
        if line.starts_with("import (") {
            in_imports = true;
        } else if let Some(one) = line.strip_prefix("import ") {
            import(one, &mut imports);
        } else if let Some(comment) = line.strip_prefix("//") {
            if let Some(marker) = comment.trim().strip_prefix('+') {
                markers.push(marker.to_owned());
            }
        } else if let Some(rest) = line.strip_prefix("type ") {
            if let Some((name, right)) = rest.split_once(' ')
                && !name.contains(['[', '('])
            {
                let right = right.trim_start_matches("= ").trim();
                let body = if right == "struct {" {
                    Some(Body::Struct(fields(package, &mut lines, &imports)))
                } else if right == "struct{}" {
                    Some(Body::Struct(Vec::new()))
                } else {
                    let right = right.split("//").next().unwrap_or("").trim();
                    go_type(package, right, &imports).map(Body::Of)
                };
                if let Some(body) = body {
                    out.insert(
                        name.to_owned(),
                        Declaration {
                            markers: std::mem::take(&mut markers),
                            body,
                        },
                    );
                }
            }
            markers.clear();
        } else if !trimmed.is_empty() {
            markers.clear();
        }
    }
}

fn import(line: &str, imports: &mut BTreeMap<String, String>) {
    let mut quoted = line.split('"');
    let (Some(alias), Some(path)) = (quoted.next(), quoted.next()) else {
        return;
    };
    let alias = alias.trim();
    let name = if alias.is_empty() {
        path.rsplit('/').next().unwrap_or(path)
    } else {
        alias
    };
    imports.insert(name.to_owned(), path.to_owned());
}

fn fields<'t>(
    package: &str,
    lines: &mut impl Iterator<Item = &'t str>,
    imports: &BTreeMap<String, String>,
) -> Vec<Field> {
    let mut out = Vec::new();
    for line in lines {
        if line.trim_end() == "}" {
            break;
        }
        let line = line.trim();
        let mut parts = line.split('`');
        let (before, tags) = match (parts.next(), parts.next()) {
            (Some(before), Some(tags)) => (before, tags),
            // Published types have tags, those that they are converted to have none.
            (Some(before), None) if package.starts_with("k8s.io/kubernetes/pkg/apis/") => {
                (before.split("//").next().unwrap_or(""), "")
            }
            _ => continue,
        };
        if line.starts_with("//") {
            continue;
        }
        let mut words = before.split_whitespace();
        let (first, second) = (words.next().unwrap_or(""), words.next());
        let embedded = second.is_none();
        let Some(go_type) = go_type(package, second.unwrap_or(first), imports) else {
            continue;
        };
        let name = first.trim_start_matches('*').rsplit('.').next();
        out.push(Field {
            name: name.unwrap_or(first).to_owned(),
            go_type,
            embedded,
            tags: read_tags(tags),
        });
    }
    out
}

fn read_tags(text: &str) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut rest = text.trim();
    while let Some((name, after)) = rest.split_once(":\"") {
        let Some((value, next)) = after.split_once('"') else {
            break;
        };
        out.insert(name.trim().to_owned(), value.to_owned());
        rest = next.trim_start();
    }
    out
}

fn go_type(package: &str, text: &str, imports: &BTreeMap<String, String>) -> Option<GoType> {
    let inner = |text: &str| go_type(package, text, imports).map(Box::new);
    if let Some(rest) = text.strip_prefix('*') {
        return Some(GoType::Pointer(inner(rest)?));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return Some(GoType::List(inner(rest)?));
    }
    if let Some(rest) = text.strip_prefix("map[") {
        let (key, value) = rest.split_once(']')?;
        return Some(GoType::Map(inner(key)?, inner(value)?));
    }
    if text == "any" || text == "interface{}" {
        return Some(GoType::Interface);
    }
    if let Some((alias, name)) = text.split_once('.') {
        let package = imports.get(alias)?.clone();
        return Some(GoType::Named(Name {
            package,
            name: name.to_owned(),
        }));
    }
    if !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') || text.is_empty() {
        return None;
    }
    const BUILTIN: [&str; 13] = [
        "string", "bool", "int", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64",
        "float64", "float32", "byte",
    ];
    Some(if BUILTIN.contains(&text) {
        GoType::Builtin(text.to_owned())
    } else {
        GoType::Named(Name {
            package: package.to_owned(),
            name: text.to_owned(),
        })
    })
}

impl Name {
    /// `io.k8s.api.core.v1.Pod`
    pub fn openapi(&self) -> String {
        let (domain, rest) = self.package.split_once('/').unwrap_or((&self.package, ""));
        let domain: Vec<&str> = domain.split('.').rev().collect();
        format!(
            "{}.{}.{}",
            domain.join("."),
            rest.replace('/', "."),
            self.name
        )
    }

    /// `v1.Pod`
    pub fn short(&self) -> String {
        format!(
            "{}.{}",
            self.package.rsplit('/').next().unwrap_or(""),
            self.name
        )
    }
}

impl GoType {
    /// The type as Go's messages name it.
    pub fn text(&self) -> String {
        match self {
            Self::Builtin(name) => match name.as_str() {
                "byte" => "uint8".to_owned(),
                name => name.to_owned(),
            },
            Self::Named(name) => name.short(),
            Self::Pointer(inner) => format!("*{}", inner.text()),
            Self::List(inner) => format!("[]{}", inner.text()),
            Self::Map(key, value) => format!("map[{}]{}", key.text(), value.text()),
            Self::Interface => "interface {}".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_read_with_tags_and_markers() {
        let text = r#"
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Thing is one.
// +structType=atomic
type Thing struct {
	metav1.TypeMeta `json:",inline"`
	// a comment with `ticks`
	Name *string `json:"name,omitempty" protobuf:"bytes,3,opt,name=name"`
	Owners []types.UID `json:"owners" patchStrategy:"merge" patchMergeKey:"uid"`
	Inner `json:",inline" protobuf:"bytes,1,req"`
	hidden int
}

type Phase string
"#;
        let mut out = BTreeMap::new();
        parse("k8s.io/api/core/v1", text, &mut out);
        let thing = &out["Thing"];
        assert_eq!(thing.markers, ["structType=atomic"]);
        let Body::Struct(fields) = &thing.body else {
            panic!("a struct")
        };
        assert_eq!(fields.len(), 4);
        assert!(fields[0].embedded);
        assert_eq!(fields[0].name, "TypeMeta");
        assert_eq!(fields[1].name, "Name");
        assert_eq!(fields[1].json(), ("name", vec!["omitempty"]));
        assert_eq!(fields[1].number(), 3);
        assert_eq!(fields[2].tag("patchMergeKey"), "uid");
        assert_eq!(fields[2].go_type.text(), "[]types.UID");
        assert_eq!(fields[3].number(), 1);
        let name = Name {
            package: "k8s.io/api/core/v1".into(),
            name: "Thing".into(),
        };
        assert_eq!(name.openapi(), "io.k8s.api.core.v1.Thing");
        assert!(matches!(&out["Phase"].body, Body::Of(GoType::Builtin(name)) if name == "string"));
    }
}
