//! Converts each file of `scenarios` and compares the result with the expected output beside it.
//! Run the test with `UPDATE=1` to regenerate the outputs, and review the difference.

use std::fmt::Write as _;
use std::path::Path;

use control_import::policy::Settings;
use control_import::{Report, calico, cilium, metallb};
use serde_json::Value;

#[test]
fn every_scenario_gives_what_stands_beside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "yaml"))
        .collect();
    files.sort();
    assert!(files.len() >= 9, "{} scenarios", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let options = serde_saphyr::options! { strict_booleans: true };
        let documents: Vec<Value> =
            serde_saphyr::from_multiple_with_options(&text, options).unwrap();
        let documents = control_import::flatten(documents);
        let convert = |lossy: bool| {
            let settings = Settings {
                lossy,
                ..Settings::default()
            };
            match name.split('-').next() {
                Some("calico") => calico::convert(&documents, &settings),
                Some("cilium") => cilium::convert(&documents, &settings),
                _ => metallb::convert(&documents, lossy),
            }
            .unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let strict = convert(false);
        let mut found = shown(&strict);
        let lossy = convert(true);
        if lossy != strict {
            write!(found, "\n# === with losses\n\n{}", shown(&lossy)).unwrap();
        }
        let expected = file.with_extension("out");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&expected, &found).unwrap();
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != found {
            wrong.push(format!("{name}:\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Remarks as comments, then the objects.
fn shown(report: &Report) -> String {
    let mut text = String::new();
    for (word, remarks) in [("refused", &report.refused), ("note", &report.notes)] {
        for remark in remarks {
            writeln!(text, "# {word}: {remark}").unwrap();
        }
    }
    for object in &report.objects {
        let yaml = serde_saphyr::to_string(object).unwrap();
        write!(text, "---\n{yaml}").unwrap();
    }
    text
}
