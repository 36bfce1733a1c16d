use super::*;
use crate::value;
use crate::value::{Map, Value};

fn parsed(text: &str) -> Value {
    read(text.as_bytes()).unwrap().value
}

fn refused(text: &str) -> String {
    read(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn scalars_are_those_of_yaml_1_1() {
    let text = "[yes, No, on, OFF, y, ~, null, 010, 0x1f, 0o17, 0b11, 1_000, -5, +3, 1.5, 1e3, .5, 08, 1:30, 2001-12-14, 'yes', \"1\", !!str 5, !!int \"7\", !!float 2, x]";
    assert_eq!(
        parsed(text).to_string(),
        r#"[true,false,true,false,true,null,null,8,31,15,3,1000,-5,3,1.5,1000,0.5,8,"1:30","2001-12-14","yes","1","5",7,2,"x"]"#
    );
    assert_eq!(parsed("18446744073709551615"), Value::from(u64::MAX));
    assert!(refused("a: .inf").contains("unsupported value: +Inf"));
    assert!(refused("a: !!int x").contains("cannot decode `x` as a !!int"));
}

#[test]
fn keys_become_texts_and_the_last_of_two_counts() {
    let found = read(b"1: a\ntrue: b\n1.5: c\na: 1\nb: 2\na: 3\n").unwrap();
    assert_eq!(
        found.value,
        value!({"1": "a", "1.5": "c", "a": 3, "b": 2, "true": "b"})
    );
    assert_eq!(
        found.findings,
        ["yaml: unmarshal errors:\n  line 6: key \"a\" already set in map"]
    );
    assert!(refused("[a]: b").contains("invalid map key"));
}

#[test]
fn names_are_copied_and_merged_and_bounded() {
    let text =
        "base: &b {a: 1, c: 2}\none:\n  <<: *b\n  c: 3\ntwo: *b\nall:\n  <<: [*b, {a: 9, d: 4}]\n";
    assert_eq!(
        parsed(text),
        value!({"base": {"a": 1, "c": 2}, "one": {"a": 1, "c": 3}, "two": {"a": 1, "c": 2}, "all": {"a": 1, "c": 2, "d": 4}})
    );
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = level - 1;
        let items = vec![format!("*a{before}"); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert!(refused(&bomb).contains("excessive aliasing"));
    assert!(read(b"a: &a [*a]").is_err());
    assert!(read(b"a: *nobody").is_err());
    assert!(read("[".repeat(100_000).as_bytes()).is_err());
    assert!(read("- ".repeat(2000).as_bytes()).is_err());
}

#[test]
fn the_first_of_several_documents_counts_and_none_is_null() {
    assert_eq!(parsed("---\na: 1\n---\nb: 2\n"), value!({"a": 1}));
    assert_eq!(parsed(""), Value::Null);
    assert_eq!(parsed("# nothing\n"), Value::Null);
    assert_eq!(
        parsed("# a\na: # b\n  # c\n  - 1 # d\n# e\n"),
        value!({"a": [1]})
    );
    assert_eq!(parsed("{\"a\": [1, \"x\\n\"]}"), value!({"a": [1, "x\n"]}));
    assert_eq!(
        refused("a: b: c"),
        "yaml: mapping values are not allowed in this context"
    );
    assert!(refused("x: 1\na: b: c").starts_with("yaml: line 2: "));
    assert_eq!(refused("a: *b"), "yaml: unknown anchor 'b' referenced");
    assert_eq!(
        refused("a: \u{1}"),
        "yaml: control characters are not allowed"
    );
    assert_eq!(
        refused("~: b"),
        "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"b\""
    );
    assert!(read(b"\xff").is_err());
}

#[test]
fn texts_are_quoted_where_they_would_be_something_else() {
    let texts = value!([
        "plain",
        "",
        "yes",
        "1",
        "1.5",
        "2001-12-14",
        "1:30",
        "a: b",
        "a:b",
        "a #b",
        "#a",
        "-",
        "-a",
        "- a",
        "it's",
        " a",
        "a ",
        "tab\tx",
        "é",
        "😀",
        "line\nbreak",
        "two\n",
        "three\n\n",
        "  lead\nx",
        "trail \nx",
        "\u{7f}",
        "\"q\"",
        "null",
        "~",
        "=",
        "*a",
        "[x",
        "a,b"
    ]);
    let expected = r#"- plain
- ""
- "yes"
- "1"
- "1.5"
- "2001-12-14"
- "1:30"
- 'a: b'
- a:b
- 'a #b'
- '#a'
- '-'
- -a
- '- a'
- it's
- ' a'
- 'a '
- "tab\tx"
- é
- "\U0001F600"
- |-
  line
  break
- |
  two
- |+
  three

- |2-
    lead
  x
- "trail \nx"
- "\x7F"
- '"q"'
- "null"
- "~"
- =
- '*a'
- '[x'
- a,b
"#;
    assert_eq!(to_string(&texts), expected);
    assert_eq!(parsed(expected), texts);
}

#[test]
fn collections_are_laid_out_as_kubernetes_lays_them_out() {
    let value = value!({
        "b": [{"x": 1, "y": [[1, 2], []]}, {}], "a10": 1, "a2": null, "a": {"z": {}, "k": 1.5, "big": 1e21}, "_": true
    });
    let expected = "_: true\na:\n  big: 1e+21\n  k: 1.5\n  z: {}\na2: null\na10: 1\nb:\n- x: 1\n  \"y\":\n  - - 1\n    - 2\n  - []\n- {}\n";
    assert_eq!(to_string(&value), expected);
    assert_eq!(parsed(expected), value);
    assert_eq!(to_string(&value!([])), "[]\n");
    assert_eq!(to_string(&value!("x")), "x\n");
}

#[test]
fn long_texts_are_broken_behind_the_eightieth_column() {
    let long = "word ".repeat(30).trim().to_owned();
    let value = value!({"a": {"text": (long.clone()), "other": (format!("{long}: {long}"))}});
    let text = to_string(&value);
    assert!(text.lines().all(|line| line.len() <= 86), "{text}");
    assert_eq!(parsed(&text), value);
}

#[test]
fn every_published_object_is_the_same_in_json_and_yaml() {
    let output = std::process::Command::new("go")
        .args(["env", "GOMODCACHE"])
        .output();
    let cache = output
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok());
    let folder = cache
        .map(|cache| std::path::Path::new(cache.trim()).join("k8s.io/api@v0.36.3/testdata/HEAD"));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        println!("skipped: the Go module k8s.io/api v0.36.3 is not in Go's cache");
        return;
    };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let json = Value::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let yaml = std::fs::read_to_string(path.with_extension("yaml")).unwrap();
        assert_eq!(to_string(&json), yaml, "{}", path.display());
        let read = read(yaml.as_bytes()).unwrap();
        assert_eq!(read.value, json, "{}", path.display());
        assert!(read.findings.is_empty());
        seen += 1;
    }
    assert!(seen > 180, "only {seen} fixtures");
}

#[test]
fn keys_whose_order_contradicts_itself_are_written_all_the_same() {
    let mut map = Map::new();
    for one in 0..4_000_u32 {
        let mixed = one.wrapping_mul(2_654_435_761);
        let letters = b"0019a-_.";
        let key: String = (0..6)
            .map(|at| char::from(letters[(mixed >> (at * 3) & 7) as usize]))
            .collect();
        map.insert(key, 1);
    }
    let count = map.len();
    assert!(count > 1_000);
    assert_eq!(to_string(&map.into()).lines().count(), count);
}

#[test]
fn what_nests_without_end_is_refused_on_any_stack() {
    let read_small = |text: String| {
        let small = std::thread::Builder::new().stack_size(256 * 1024);
        let reading = small.spawn(move || read(text.as_bytes()).map(|found| found.value));
        reading.expect("a thread").join().expect("no overflow")
    };
    let indented: String = (0..200)
        .map(|at| format!("{}a:\n", " ".repeat(at)))
        .collect();
    read_small(indented).expect("not that deep");
    let deeper: String = (0..600)
        .map(|at| format!("{}a:\n", " ".repeat(at)))
        .collect();
    for (what, text) in [
        ("maps", deeper),
        ("lists", "[".repeat(100_000)),
        ("lists of lists", "- ".repeat(100_000)),
        // A key may be a map, whose key may be a map.
        ("keys", "? ".repeat(100_000)),
        ("flow keys", "{? ".repeat(100_000)),
        ("maps in lists", "- a: [".repeat(10_000)),
    ] {
        assert!(read_small(text).is_err(), "{what}");
    }
}

#[test]
fn a_key_that_is_a_map_is_none() {
    let error = read(b"? {a: b}\n: c\n").expect_err("no JSON");
    assert!(
        error.to_string().starts_with("yaml: invalid map key: "),
        "{error}"
    );
}
