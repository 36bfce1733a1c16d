use std::fs;
use std::os::unix::fs::PermissionsExt;

use node_agent_objects::fake::FakeObjects;

use super::*;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";

/// A plugin that counts how often it is asked and answers with its request.
fn plugin(root: &Path, cache: &str, attributes: &str) -> CredentialProviders {
    let folder = root.join("credentialprovider");
    fs::create_dir_all(folder.join("bin")).unwrap();
    let program = folder.join("bin/ask");
    fs::write(
        &program,
        format!(
            "#!/bin/sh\nrequest=$(cat)\necho x >> {root}/asked\necho \"$request\" > {root}/request\n\
             printf '{{\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"kind\":\"CredentialProviderResponse\",\"cacheKeyType\":\"{cache}\",\"auth\":{{\"*.example.com\":{{\"username\":\"%s\",\"password\":\"pw\"}}}}}}' \"$NAME\"\n",
            root = root.display()
        ),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(
        folder.join("config.yaml"),
        format!(
            "{HEAD}providers:\n- name: ask\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  matchImages: ['*.example.com']\n  defaultCacheDuration: 1h\n  env: [{{name: NAME, value: me}}]\n{attributes}"
        ),
    )
    .unwrap();
    CredentialProviders::find(root, None).unwrap()
}

fn pod(account: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {"serviceAccountName": account}}))
    .unwrap()
}

fn asked(root: &Path) -> usize {
    fs::read_to_string(root.join("asked")).map_or(0, |t| t.lines().count())
}

#[tokio::test]
async fn a_plugin_is_asked_once_for_what_its_answer_is_good_for() {
    for (cache, times) in [("Image", 2), ("Registry", 1), ("Global", 1)] {
        let root = tempfile::tempdir().unwrap();
        let providers = plugin(root.path(), cache, "");
        let objects = FakeObjects::default();
        for image in ["eu.example.com/a", "eu.example.com/a", "eu.example.com/b"] {
            let found = providers.credentials(&pod(""), image, &objects).await;
            assert_eq!(found.len(), 1, "{cache}");
            assert_eq!(found[0].auth.username, "me");
            assert_eq!(found[0].source, CredentialSource::Node);
        }
        assert_eq!(asked(root.path()), times, "{cache}");
        let none = providers.credentials(&pod(""), "ghcr.io/a", &objects).await;
        assert!(none.is_empty());
    }
}

#[tokio::test]
async fn a_plugin_gets_the_pods_token_and_its_answer_is_for_that_account() {
    let root = tempfile::tempdir().unwrap();
    let attributes = "  tokenAttributes:\n    serviceAccountTokenAudience: reg\n    cacheType: ServiceAccount\n    requireServiceAccount: true\n    requiredServiceAccountAnnotationKeys: [a/role]\n";
    let providers = plugin(root.path(), "Registry", attributes);
    let objects = FakeObjects::default();
    let image = "eu.example.com/a";
    assert!(
        providers
            .credentials(&pod(""), image, &objects)
            .await
            .is_empty()
    );
    assert!(
        providers
            .credentials(&pod("plain"), image, &objects)
            .await
            .is_empty()
    );
    objects.annotate("robot", &[("a/role", "puller")]);
    for _ in 0..2 {
        let found = providers.credentials(&pod("robot"), image, &objects).await;
        let CredentialSource::Account(account) = &found[0].source else {
            panic!("{:?}", found[0].source)
        };
        assert_eq!(account.name, "robot");
    }
    assert_eq!(asked(root.path()), 1);
    let request = fs::read_to_string(root.path().join("request")).unwrap();
    let request: serde_json::Value = serde_json::from_str(&request).unwrap();
    assert_eq!(request["image"], image);
    assert_eq!(request["serviceAccountAnnotations"]["a/role"], "puller");
    assert!(
        request["serviceAccountToken"]
            .as_str()
            .unwrap()
            .starts_with("token-")
    );
}

#[test]
fn configurations_that_cannot_be_are_refused_with_the_reason() {
    let provider = |text: &str| {
        format!(
            "{HEAD}providers:\n- name: a\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  matchImages: [x.io]\n  defaultCacheDuration: 1h\n{text}"
        )
    };
    assert_eq!(parse(&provider("")).unwrap().len(), 1);
    let cases = [
        (format!("{HEAD}providers: []\n"), "at least 1"),
        (
            provider("").replace("name: a", "name: ../a"),
            "no program's name",
        ),
        (provider("").replace("1h", "soon"), "defaultCacheDuration"),
        (provider("").replace("[x.io]", "[]"), "matchImages"),
        (
            provider("").replace("kubelet.k8s.io/v1\n  m", "kubelet.k8s.io/v9\n  m"),
            "apiVersion",
        ),
        (provider("  tokenattributes: {}\n"), "tokenattributes"),
        (
            "kind: Pod\napiVersion: v1\nproviders: []\n".to_owned(),
            "v1 Pod",
        ),
    ];
    for (text, wanted) in cases {
        let why = parse(&text).map(|_| ()).unwrap_err().to_string();
        assert!(why.contains(wanted), "{wanted}: {why}");
    }
}

#[test]
fn a_folder_of_configurations_is_read_in_the_order_of_names() {
    let root = tempfile::tempdir().unwrap();
    let put = |file: &str, name: &str| {
        let provider = format!(
            "providers: [{{name: {name}, apiVersion: credentialprovider.kubelet.k8s.io/v1, \
             matchImages: [a.io], defaultCacheDuration: 1m}}]\n"
        );
        fs::write(root.path().join(file), format!("{HEAD}{provider}")).unwrap();
    };
    put("b.yaml", "two");
    put("a.yml", "one");
    put("c.txt", "three");
    let files = ProviderFiles {
        config: root.path().to_owned(),
        bin: "/opt/bin".into(),
    };
    let find = || CredentialProviders::find(Path::new("/"), Some(&files));
    let found = find().unwrap();
    let names: Vec<&str> = found.all.iter().map(|p| p.config.name.as_str()).collect();
    assert_eq!((names, found.bin), (vec!["one", "two"], files.bin.clone()));
    put("d.json", "one");
    assert!(find().is_err_and(|e| error_chain(&e).contains("another file")));
    let missing = ProviderFiles {
        config: root.path().join("none"),
        ..files.clone()
    };
    assert!(CredentialProviders::find(Path::new("/"), Some(&missing)).is_err());
}
