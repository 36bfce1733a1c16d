//! YAML in.

use compact_str::CompactString;
use granit_parser::{Event, Parser, ScalarStyle, Tag};
use rustc_hash::FxHashMap;

use super::scalar::{PlainScalar, format_float, resolve};
use crate::status::quote;
use crate::value::{Key, MAX_DEPTH, Map, Value};

/// The limit on nodes of a document: aliases expand to what they refer to, and nested
/// aliases multiply.
const NODES_AT_LEAST: usize = 20_000;

/// The result of [`read`].
#[derive(Debug)]
pub struct Document {
    /// The first document; `null` if there is none.
    pub value: Value,
    /// Findings of strict reading for duplicate keys; the last of equal keys counts.
    pub findings: Vec<String>,
}

/// Error for text that is not YAML, or that JSON cannot represent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not YAML. On the first line the place is not told.
    #[error("yaml: {}{why}", place(*line))]
    Syntax {
        /// The line.
        line: usize,
        /// The parser's message.
        why: String,
    },
    /// A name that nothing has.
    #[error("yaml: unknown anchor '{0}' referenced")]
    Anchor(String),
    /// A character that YAML does not take.
    #[error("yaml: control characters are not allowed")]
    Control,
    /// Not text.
    #[error("yaml: invalid leading UTF-8 octet")]
    Encoding,
    /// More nodes than the text can mean well.
    #[error("yaml: document contains excessive aliasing")]
    Aliases,
    /// An alias refers to a node that contains it.
    #[error("yaml: anchor contains itself")]
    Cycle,
    /// Nested too deep.
    #[error("yaml: exceeded max depth")]
    TooDeep,
    /// A scalar that does not fit its tag.
    #[error("yaml: unmarshal errors:\n  line {line}: cannot decode `{text}` as a {tag}")]
    Tag {
        /// The line.
        line: usize,
        /// The scalar.
        text: String,
        /// The tag.
        tag: String,
    },
    /// A key that is nothing.
    #[error("unsupported map key of type: %!s(<nil>), key: <nil>, value: {0}")]
    NullKey(String),
    /// A key that is no scalar.
    #[error("yaml: invalid map key: {0}")]
    Key(String),
    /// The merged value is not a map.
    #[error("yaml: map merge requires map or sequence of maps as the value")]
    Merge,
    /// A number that JSON does not have.
    #[error("json: unsupported value: {0}")]
    Number(String),
}

fn place(line: usize) -> String {
    if line > 1 {
        format!("line {line}: ")
    } else {
        String::new()
    }
}

/// Reads the first document of a text.
///
/// # Errors
/// When it is no YAML, or nothing that JSON can say.
pub fn read(bytes: &[u8]) -> Result<Document, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::Encoding)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.chars().any(is_control) {
        return Err(Error::Control);
    }
    let options = granit_parser::options! { emit_unresolved_aliases: true };
    let mut reader = YamlReader {
        events: Parser::new_from_str_with_options(text, options),
        anchors: FxHashMap::default(),
        nodes: 0,
        // A literal node takes at least two bytes of text; more nodes come from aliases.
        most: NODES_AT_LEAST.max(bytes.len()),
        twice: Vec::new(),
    };
    let mut value = Value::Null;
    loop {
        match reader.next()? {
            None | Some((Event::StreamEnd | Event::DocumentEnd, _)) => break,
            Some((Event::StreamStart | Event::DocumentStart(..), _)) => {}
            Some((event, line)) => {
                value = reader.node(event, line)?;
                break;
            }
        }
    }
    sort(&mut value);
    let findings = if reader.twice.is_empty() {
        Vec::new()
    } else {
        vec![format!(
            "yaml: unmarshal errors:\n{}",
            reader.twice.join("\n")
        )]
    };
    Ok(Document { value, findings })
}

struct YamlReader<'a> {
    events: Parser<'a, granit_parser::StrInput<'a>>,
    /// Anchored values with their numbers of nodes; `None` while a value is being read.
    anchors: FxHashMap<usize, Option<(Value, usize)>>,
    nodes: usize,
    most: usize,
    twice: Vec<String>,
}

/// A key: its text, a merge key, or no key.
enum Name {
    Text(CompactString),
    Merge,
    Null,
}

/// A list or a map that is being read.
enum OpenCollection {
    List(List),
    Map(Box<Mapping>),
}

struct List {
    items: Vec<Value>,
    anchor: usize,
    nodes: usize,
}

#[derive(Default)]
struct Mapping {
    map: Map,
    places: FxHashMap<CompactString, usize>,
    given: FxHashMap<CompactString, ()>,
    /// The key whose value comes next, and where it stands.
    name: Option<Name>,
    line: usize,
    anchor: usize,
    nodes: usize,
}

impl Name {
    fn of(key: Value) -> Result<Self, Error> {
        Ok(Self::Text(match key {
            Value::String(text) => text,
            Value::Int(number) => CompactString::from(number.to_string()),
            Value::Bool(truth) => CompactString::from(truth.to_string()),
            Value::Float(number) => CompactString::from(format_float(number)),
            Value::Null => return Ok(Self::Null),
            other => return Err(Error::Key(other.to_string())),
        }))
    }
}

impl Mapping {
    /// Inserts a member; duplicates are added to `twice`.
    fn put(&mut self, name: Name, value: Value, twice: &mut Vec<String>) -> Result<(), Error> {
        match name {
            Name::Null => {
                let shown = value.as_str().map_or_else(|| value.to_string(), quote);
                return Err(Error::NullKey(shown));
            }
            Name::Text(name) => {
                if self.given.insert(name.clone(), ()).is_some() {
                    let (line, name) = (self.line, quote(&name));
                    twice.push(format!("  line {line}: key {name} already set in map"));
                }
                self.set(name, value);
            }
            Name::Merge => {
                let maps = match value {
                    Value::Object(one) => vec![Value::Object(one)],
                    // The first of several merged maps takes precedence.
                    Value::Array(many) => many.into_iter().rev().collect(),
                    _ => return Err(Error::Merge),
                };
                for one in maps {
                    let Value::Object(mut one) = one else {
                        return Err(Error::Merge);
                    };
                    for (name, value) in one.entries_mut().drain(..) {
                        self.set(name.as_str().into(), value);
                    }
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, name: CompactString, value: Value) {
        match self.places.get(&name) {
            Some(place) => self.map.entries_mut()[*place].1 = value,
            None => {
                self.places.insert(name.clone(), self.map.len());
                self.map.push_unchecked(Key::new(&name), value);
            }
        }
    }
}

fn unexpected(line: usize) -> Error {
    Error::Syntax {
        line,
        why: "did not find expected node content".into(),
    }
}

impl<'a> YamlReader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, usize)>, Error> {
        // Comments are events where any crate of a build wants them: they are
        // always asked for here, and left out.
        let event = loop {
            match self.events.next_event() {
                Some(Ok((Event::Comment(..), _))) => {}
                event => break event,
            }
        };
        match event {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, span.start.line()))),
            Some(Err(error)) => {
                let why = error.info();
                // As libyaml words it, which people know.
                let why = if why.starts_with("tabs disallowed") {
                    "found character that cannot start any token".to_owned()
                } else {
                    why
                };
                Err(Error::Syntax {
                    line: error.marker().line(),
                    why,
                })
            }
        }
    }

    /// The next event of a node.
    fn more(&mut self) -> Result<(Event<'a>, usize), Error> {
        self.next()?.ok_or(Error::Syntax {
            line: 0,
            why: "unexpected end of stream".into(),
        })
    }

    /// Reads the node that begins with an event. Open nodes are on an explicit stack, so
    /// that nesting of the text does not become recursion of this program.
    fn node(&mut self, mut event: Event<'a>, mut line: usize) -> Result<Value, Error> {
        let mut open: Vec<OpenCollection> = Vec::new();
        loop {
            let done = match event {
                Event::SequenceEnd => match open.pop() {
                    Some(OpenCollection::List(list)) => {
                        Some(self.named(Value::Array(list.items), list.anchor, list.nodes)?)
                    }
                    _ => return Err(unexpected(line)),
                },
                Event::MappingEnd => match open.pop() {
                    Some(OpenCollection::Map(map)) if map.name.is_none() => {
                        Some(self.named(Value::Object(map.map), map.anchor, map.nodes)?)
                    }
                    _ => return Err(unexpected(line)),
                },
                event => {
                    if open.len() > MAX_DEPTH {
                        return Err(Error::TooDeep);
                    }
                    let is_key = match open.last_mut() {
                        Some(OpenCollection::Map(map)) if map.name.is_none() => {
                            map.line = line;
                            true
                        }
                        _ => false,
                    };
                    match (is_key, event) {
                        (true, Event::Scalar(text, ScalarStyle::Plain, _, None))
                            if resolve(&text) == PlainScalar::Merge =>
                        {
                            if let Some(OpenCollection::Map(map)) = open.last_mut() {
                                map.name = Some(Name::Merge);
                            }
                            None
                        }
                        (_, event) => self.begun(event, line, &mut open)?,
                    }
                }
            };
            if let Some((value, nodes)) = done {
                match open.last_mut() {
                    None => return Ok(value),
                    Some(OpenCollection::List(list)) => {
                        list.nodes += nodes;
                        list.items.push(value);
                    }
                    Some(OpenCollection::Map(map)) => match map.name.take() {
                        // A key may have an anchor, too.
                        None => map.name = Some(Name::of(value)?),
                        Some(name) => {
                            map.nodes += nodes + 1;
                            map.put(name, value, &mut self.twice)?;
                        }
                    },
                }
            }
            (event, line) = self.more()?;
        }
    }

    /// A node that is whole with its first event, or opens one.
    fn begun(
        &mut self,
        event: Event<'a>,
        line: usize,
        open: &mut Vec<OpenCollection>,
    ) -> Result<Option<(Value, usize)>, Error> {
        self.count(1)?;
        match event {
            Event::Alias(id) => {
                let (value, nodes) = match self.anchors.get(&id) {
                    Some(Some((value, nodes))) => (value, *nodes),
                    _ => return Err(Error::Cycle),
                };
                // Before it is copied.
                if self.nodes + nodes > self.most {
                    return Err(Error::Aliases);
                }
                let value = value.clone();
                self.count(nodes)?;
                Ok(Some((value, nodes)))
            }
            Event::UnresolvedAlias(name) => Err(Error::Anchor(name.into_owned())),
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref(), line)?;
                self.named(value, anchor, 1).map(Some)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.begin(anchor);
                open.push(OpenCollection::List(List {
                    items: Vec::new(),
                    anchor,
                    nodes: 1,
                }));
                Ok(None)
            }
            Event::MappingStart(_, anchor, _) => {
                self.begin(anchor);
                open.push(OpenCollection::Map(Box::new(Mapping {
                    anchor,
                    nodes: 1,
                    ..Mapping::default()
                })));
                Ok(None)
            }
            _ => Err(unexpected(line)),
        }
    }

    /// Keeps a node that has a name for its aliases.
    fn named(
        &mut self,
        value: Value,
        anchor: usize,
        nodes: usize,
    ) -> Result<(Value, usize), Error> {
        if anchor > 0 {
            // Before it is copied.
            self.count(nodes)?;
            self.anchors.insert(anchor, Some((value.clone(), nodes)));
        }
        Ok((value, nodes))
    }

    fn begin(&mut self, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, None);
        }
    }

    fn count(&mut self, nodes: usize) -> Result<(), Error> {
        self.nodes += nodes;
        if self.nodes > self.most {
            return Err(Error::Aliases);
        }
        Ok(())
    }
}

const fn is_control(character: char) -> bool {
    !matches!(
        character,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..
    )
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<Value, Error> {
    let core = tag.and_then(|tag| match tag.parts() {
        ("tag:yaml.org,2002:", suffix) => Some(suffix.to_owned()),
        _ => None,
    });
    let wrong = |tag: &str| Error::Tag {
        line,
        text: text.to_owned(),
        tag: format!("!!{tag}"),
    };
    let plain = match (&core, style) {
        (Some(core), _) if core == "str" => PlainScalar::Text,
        (Some(core), _) if core == "binary" => {
            use base64::Engine as _;
            let joined: String = text.split_whitespace().collect();
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(joined)
                .map_err(|_| wrong(core))?;
            return Ok(Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        }
        (Some(core), _) => match (core.as_str(), resolve(text)) {
            ("int", found @ (PlainScalar::Int(_) | PlainScalar::Large(_)))
            | ("bool", found @ PlainScalar::Bool(_))
            | ("null", found @ PlainScalar::Null)
            | ("timestamp", found @ PlainScalar::Time)
            | (
                "float",
                found @ (PlainScalar::Float(_) | PlainScalar::Int(_) | PlainScalar::Large(_)),
            ) => found,
            ("int" | "bool" | "null" | "timestamp" | "float", _) => return Err(wrong(core)),
            _ => PlainScalar::Text,
        },
        (None, ScalarStyle::Plain) if tag.is_none() => resolve(text),
        _ => PlainScalar::Text,
    };
    Ok(match plain {
        PlainScalar::Null => Value::Null,
        PlainScalar::Bool(truth) => Value::Bool(truth),
        PlainScalar::Int(number) => Value::Int(number),
        PlainScalar::Large(number) => Value::from(number),
        PlainScalar::Float(number) if number.is_finite() => {
            whole(number).map_or(Value::Float(number), Value::Int)
        }
        PlainScalar::Float(number) => {
            return Err(Error::Number(if number.is_nan() {
                "NaN".into()
            } else if number > 0.0 {
                "+Inf".into()
            } else {
                "-Inf".into()
            }));
        }
        PlainScalar::Time | PlainScalar::Merge | PlainScalar::Text => Value::from(text),
    })
}

/// A float without a fraction: the way over JSON writes it as an integer.
fn whole(number: f64) -> Option<i64> {
    /// Integers up to it are exact in a float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it has no fraction and fits"
    )]
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// The way over JSON sorts keys.
fn sort(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.sort();
            map.values_mut().for_each(sort);
        }
        Value::Array(items) => items.iter_mut().for_each(sort),
        _ => {}
    }
}
