//! Tests well-known cases from files: policies, pods, and the allowed connections.

use std::path::Path;

use node_agent_policy::check::{check, read};
use serde_json::Value;

#[test]
fn every_recipe_gives_what_it_promises() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recipes");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    files.sort();
    let base = std::fs::read_to_string(folder.join("_cluster.yaml")).unwrap();
    let (mut flows, mut wrong) = (0, Vec::new());
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('_') {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let mut documents: Vec<Value> = serde_saphyr::from_multiple(&base).unwrap();
        let own: Vec<Value> =
            serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        documents.extend(own);
        let (objects, tests) = read(documents).unwrap_or_else(|error| panic!("{name}: {error}"));
        let checked = check(&objects, &tests).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Without policies something must differ, or the recipe shows nothing.
        let mut open = objects.clone();
        open.policies.clear();
        open.cluster_policies.clear();
        let open = check(&open, &tests).unwrap();
        assert!(
            open.iter().any(|it| !it.holds()),
            "{name} holds without any policy"
        );
        flows += checked.len();
        wrong.extend(checked.iter().filter(|it| !it.holds()).map(|it| {
            let flow = &it.explanation;
            format!(
                "{name}: {} to {} {}: {}",
                flow.from,
                flow.to,
                it.port,
                it.why()
            )
        }));
    }
    assert!(
        wrong.is_empty(),
        "{} wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(flows > 300, "{flows} flows");
}
