//! Checks the rules for names that a program can check. A name is the word that an engineer of
//! Kubernetes, Linux or eBPF would type into a search box.
//!
//! Violations that remain are counted by crate. A count only falls: whoever lowers it lowers the
//! number here, too.

use std::collections::BTreeMap;
mod sources;

use sources::{Source, only_falls, production_sources, root};

/// Names that every module may declare for itself.
const MODULE_SCOPED: &[(&str, &str)] = &[
    (
        "Error",
        "one error a module, called by its module: `fields::Error`",
    ),
    ("Result", "the alias of a module with an `Error`"),
    ("Options", "what a module is called with, one a module"),
    ("Command", "the subcommands of a command, one a module"),
    ("Output", "the formats that a command prints, one a module"),
];

/// Where declarations are not compared, and why.
const WIRE: &[(&str, &str)] = &[
    (
        "csi/api/src/",
        "messages of the Container Storage Interface keep their names",
    ),
    (
        "node-agent/cri/src/api/",
        "messages of the Container Runtime Interface keep their names",
    ),
    (
        "node-agent/csi-client/src/api.rs",
        "messages of the Container Storage Interface keep their names",
    ),
    (
        "node-agent/resource-managers/src/devices/api.rs",
        "messages of the device plugin API keep their names",
    ),
    (
        "node-agent/resource-managers/src/dra/api.rs",
        "messages of the DRA plugin API keep their names",
    ),
    (
        "node-agent/plugins/src/api.rs",
        "messages of the plugin registration API keep their names",
    ),
];

/// By crate: type names that are declared more than once.
const DECLARED_AGAIN: &[(&str, usize)] = &[];

/// By crate: types whose name is a bare participle, pronoun, preposition or adverb.
const NOT_NOUNS: &[(&str, usize)] = &[];

/// By crate: functions that others may call and whose name is one of [`UNCLEAR`].
const UNCLEAR_FUNCTIONS: &[(&str, usize)] = &[];

/// Verbs, and words that are none, that do not say what a function does.
const UNCLEAR: &[&str] = &[
    "ask", "asks", "come", "comes", "give", "gives", "go", "goes", "hear", "mind", "of", "say",
    "says", "settle", "settles", "tell", "tells", "told",
];

/// Pronouns, prepositions, adverbs and bare adjectives.
const FUNCTION_WORDS: &[&str] = &[
    "About",
    "Above",
    "Again",
    "All",
    "Any",
    "Anew",
    "Around",
    "At",
    "Away",
    "Back",
    "Before",
    "Behind",
    "Below",
    "Beside",
    "Besides",
    "Between",
    "Beyond",
    "By",
    "Each",
    "Else",
    "Every",
    "Few",
    "For",
    "From",
    "Further",
    "Here",
    "How",
    "In",
    "Inside",
    "Into",
    "It",
    "Its",
    "Less",
    "Many",
    "Meanwhile",
    "Mine",
    "More",
    "Most",
    "Much",
    "Near",
    "Nobody",
    "None",
    "Not",
    "Nothing",
    "Now",
    "Of",
    "Off",
    "On",
    "Only",
    "Other",
    "Others",
    "Ours",
    "Out",
    "Outside",
    "Over",
    "Own",
    "Past",
    "Since",
    "Some",
    "Soon",
    "Still",
    "Such",
    "Than",
    "That",
    "Theirs",
    "Them",
    "Then",
    "There",
    "They",
    "This",
    "Those",
    "Through",
    "To",
    "Together",
    "Toward",
    "Under",
    "Until",
    "Up",
    "Us",
    "We",
    "What",
    "When",
    "Where",
    "Whether",
    "Which",
    "Who",
    "Whole",
    "Whom",
    "Whose",
    "Why",
    "With",
    "Within",
    "Without",
];

/// Past participles that do not end with `ed`.
const PARTICIPLES: &[&str] = &[
    "Been",
    "Begun",
    "Born",
    "Bought",
    "Bound",
    "Brought",
    "Built",
    "Came",
    "Caught",
    "Chosen",
    "Done",
    "Drawn",
    "Found",
    "Given",
    "Gone",
    "Got",
    "Had",
    "Heard",
    "Held",
    "Hidden",
    "Kept",
    "Known",
    "Laid",
    "Led",
    "Left",
    "Lost",
    "Made",
    "Meant",
    "Met",
    "Put",
    "Said",
    "Seen",
    "Sent",
    "Shown",
    "Spent",
    "Spoken",
    "Stood",
    "Taken",
    "Taught",
    "Thought",
    "Told",
    "Took",
    "Undone",
    "Unmade",
    "Unmet",
    "Unwritten",
    "Went",
    "Won",
    "Worn",
    "Wrote",
    "Written",
];

/// Nouns and words of the field that end like a participle.
const NOUNS: &[&str] = &[
    "Binding", "Building", "Drawing", "Embed", "Encoding", "Feed", "Finding", "Heading", "Listing",
    "Mapping", "Need", "Padding", "Ping", "Reading", "Ring", "Ruling", "Seed", "Setting",
    "Sibling", "Speed", "Spelling", "String", "Timing", "Warning",
];

/// Whether a type's name is one word that names no thing.
fn is_no_noun(name: &str) -> bool {
    let is_one_word = name.chars().skip(1).all(char::is_lowercase);
    is_one_word
        && !NOUNS.contains(&name)
        && (FUNCTION_WORDS.contains(&name)
            || PARTICIPLES.contains(&name)
            || name.ends_with("ed")
            || name.ends_with("ing"))
}

/// The name that follows one of the keywords on a line, if it begins with them; `pub` and
/// the like may stand before.
fn declared<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let mut words = line.split_whitespace();
    let mut word = words.next()?;
    while word.starts_with("pub") || ["async", "const", "unsafe", "extern"].contains(&word) {
        word = words.next()?;
    }
    let name = keywords
        .contains(&word)
        .then(|| words.next())
        .flatten()?
        .trim_start_matches("r#");
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    Some(&name[..end.unwrap_or(name.len())])
}

/// The types that a source declares outside of functions, each with its line.
fn types(source: &Source) -> impl Iterator<Item = (&str, usize)> {
    source
        .text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with([' ', '/', '#']))
        .filter_map(|(number, line)| {
            let name = declared(line, &["struct", "enum", "trait", "type", "union"])?;
            Some((name, number + 1))
        })
}

#[test]
fn a_type_name_is_declared_once_in_a_crate() {
    let sources = production_sources();
    let mut declarations: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for source in &sources {
        if WIRE.iter().any(|(path, _)| source.path.starts_with(path)) {
            continue;
        }
        for (name, line) in types(source) {
            if MODULE_SCOPED.iter().all(|(word, _)| *word != name) {
                declarations
                    .entry((&source.package, name))
                    .or_default()
                    .push(format!("{}:{line}", source.path));
            }
        }
    }
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((package, name), places) in declarations {
        if places.len() > 1 {
            let text = format!("{name}: {}", places.join(", "));
            found.entry(package.to_owned()).or_default().push(text);
        }
    }
    only_falls(&found, DECLARED_AGAIN, "say which one it is in its name");
}

#[test]
fn a_type_name_is_a_noun() {
    let sources = production_sources();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in &sources {
        if WIRE.iter().any(|(path, _)| source.path.starts_with(path)) {
            continue;
        }
        for (name, line) in types(source) {
            if is_no_noun(name) {
                let text = format!("{}:{line}: {name}", source.path);
                found.entry(source.package.clone()).or_default().push(text);
            }
        }
    }
    only_falls(&found, NOT_NOUNS, "name the thing");
}

#[test]
fn a_public_function_says_what_it_does() {
    let sources = production_sources();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in &sources {
        for (number, line) in source.text.lines().enumerate() {
            if !line.trim_start().starts_with("pub") {
                continue;
            }
            let Some(name) = declared(line, &["fn"]) else {
                continue;
            };
            if UNCLEAR.contains(&name) {
                let text = format!("{}:{}: {name}", source.path, number + 1);
                found.entry(source.package.clone()).or_default().push(text);
            }
        }
    }
    only_falls(&found, UNCLEAR_FUNCTIONS, "a verb with its object");
}

/// The glossary's words, each with the one meaning that ARCHITECTURE.md gives it.
#[test]
fn our_own_words_are_in_the_glossary_once() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let glossary = text.split("## Glossary").nth(1).expect("a glossary");
    for word in ["set", "generation", "epoch", "tier", "cookie"] {
        let row = format!("| {word} | ");
        assert_eq!(
            glossary.matches(&row).count(),
            1,
            "`{word}` in the glossary"
        );
    }
}

#[test]
fn names_are_judged_as_people_would() {
    for name in ["Told", "Asked", "Who", "Beside", "Leaving", "Known"] {
        assert!(is_no_noun(name), "{name}");
    }
    for name in [
        "EventReporter",
        "Binding",
        "String",
        "Capacity",
        "NeedsList",
    ] {
        assert!(!is_no_noun(name), "{name}");
    }
    assert_eq!(
        declared("pub(crate) unsafe trait Map<K> {", &["trait"]),
        Some("Map")
    );
    assert_eq!(declared("impl Map for X {", &["trait"]), None);
}
