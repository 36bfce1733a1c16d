use std::net::IpAddr;

use node_agent_pod_resources::cgroup_names::CgroupManager;

use super::*;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

#[test]
fn what_kubeadm_writes_is_read_and_what_is_not_done_is_named() {
    let text = format!(
        "{HEAD}staticPodPath: /etc/kubernetes/manifests\ncgroupDriver: systemd\n\
         rotateCertificates: true\nevictionPressureTransitionPeriod: 0s\nmaxPods: 250\n\
         imageMinimumGCAge: 2m0s\nshutdownGracePeriod: 30s\nhairpinMode: promiscuous-bridge\nlogging:\n  verbosity: 2\n\
         kubeReserved: {{cpu: 100m, memory: 1Gi}}\nsystemReserved: {{cpu: '1'}}\n"
    );
    let settings = Settings::parse(&text).unwrap();
    assert_eq!(settings.max_pods, Some(250));
    assert_eq!(
        settings.static_pods.as_deref(),
        Some(std::path::Path::new("/etc/kubernetes/manifests"))
    );
    assert_eq!(settings.eviction.transition, Duration::ZERO);
    assert_eq!(settings.reserved["cpu"], "1100m");
    assert!(settings.enforce_pods);
    let mut unsupported = settings.unsupported;
    unsupported.sort();
    assert_eq!(unsupported, ["hairpinMode", "logging"]);
    assert_eq!(settings.places.cgroup_driver, Some(CgroupManager::Systemd));
    let wrong = Settings::parse(&format!("{HEAD}cgroupDriver: openrc\n"));
    let said = wrong.unwrap_err().to_string();
    assert!(
        said.contains("cgroupDriver") && said.contains("systemd"),
        "{said}"
    );
}

#[test]
fn places_are_those_that_the_file_names() {
    assert_eq!(Settings::default().places, ConfiguredPaths::default());
    let text = format!(
        "{HEAD}authentication: {{x509: {{clientCAFile: /pki/ca.crt}}}}\ntlsCertFile: /pki/n.crt\n\
         tlsPrivateKeyFile: /pki/n.key\ncontainerRuntimeEndpoint: unix:///mnt/containerd.sock\n\
         clusterDNS: [10.96.0.10, 'fd00::a']\nclusterDomain: example.org\nresolvConf: ''\n\
         podLogsDir: /logs\ncgroupRoot: /node-1\n"
    );
    let settings = Settings::parse(&text).unwrap();
    assert!(settings.unsupported.is_empty());
    let places = settings.places;
    assert_eq!(
        places.cluster_dns,
        [
            "10.96.0.10".parse::<IpAddr>().unwrap(),
            "fd00::a".parse().unwrap()
        ]
    );
    assert_eq!(places.cluster_domain.as_deref(), Some("example.org"));
    assert_eq!(places.resolv_conf, None);
    assert_eq!(
        places.runtime_endpoint.as_deref(),
        Some("unix:///mnt/containerd.sock")
    );
    assert_eq!(places.log_root, Some("/logs".into()));
    assert_eq!(places.cgroup_root.as_deref(), Some("/node-1"));
    assert_eq!(
        places.serving.fields().collect::<Vec<_>>(),
        [
            "tlsCertFile",
            "tlsPrivateKeyFile",
            "authentication.x509.clientCAFile"
        ]
    );
    assert!(Settings::parse(&format!("{HEAD}clusterDNS: [dns.example.org]\n")).is_err());
}

#[test]
fn reservations_are_enforced_on_pods_and_on_nobody_else() {
    let read = |list: &str| {
        let text = format!("{HEAD}enforceNodeAllocatable: {list}\n");
        let settings = Settings::parse(&text).unwrap();
        (settings.enforce_pods, settings.unsupported.len())
    };
    assert_eq!(read("[pods]"), (true, 0));
    assert_eq!(read("[none]"), (false, 0));
    assert_eq!(read("[]"), (false, 0));
    assert_eq!(read("[pods, system-reserved]"), (true, 1));
}

#[test]
fn who_may_ask_is_as_strict_as_the_kubelets_unless_told_otherwise() {
    assert_eq!(Settings::default().access, Access::default());
    // what kubeadm writes
    let text = format!(
        "{HEAD}authentication: {{anonymous: {{enabled: false}}, webhook: {{cacheTTL: 0s, enabled: true}}}}\n\
         authorization: {{mode: Webhook, webhook: {{cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 1m}}}}\n"
    );
    let access = Settings::parse(&text).unwrap().access;
    assert_eq!(access.denied_for, Duration::from_secs(60));
    assert_eq!(access.allowed_for, Duration::from_secs(300));
    let text = format!("{HEAD}authorization: {{mode: AlwaysAllow}}\n");
    assert!(!Settings::parse(&text).unwrap().access.webhook_rights);
    let text = format!("{HEAD}authorization: {{mode: ABAC}}\n");
    assert!(Settings::parse(&text).is_err());
}

#[test]
fn what_may_be_read_of_the_nodes_logs_is_configured() {
    let read = |text: &str| {
        Settings::parse(&format!("{HEAD}{text}")).map(|s| {
            assert!(s.unsupported.is_empty(), "{text}");
            s.system_logs
        })
    };
    let (on, off) = (
        "enableSystemLogQuery: true\n",
        "enableSystemLogHandler: false\n",
    );
    assert_eq!(read("").unwrap(), SystemLogs::Files);
    assert_eq!(read(off).unwrap(), SystemLogs::Off);
    assert_eq!(read(on).unwrap(), SystemLogs::Query);
    let gate = "featureGates: {NodeLogQuery: true}\n";
    assert_eq!(read(gate).unwrap(), SystemLogs::Files);
    let error = read(&format!("{off}{on}")).unwrap_err().to_string();
    assert!(error.contains("enableSystemLogHandler"), "{error}");
}

#[test]
fn nonsense_is_refused_by_name() {
    let cases = [
        ("maxPod: 1\n", "unknown field \"maxPod\""),
        ("evictionHard: {memory.available: 5x}\n", "evictionHard"),
        ("evictionHard: {nodefs.available: 101%}\n", "0% and 100%"),
        (
            "evictionSoft: {memory.available: 1Gi}\n",
            "evictionSoftGracePeriod",
        ),
        ("imageMinimumGCAge: soon\n", "imageMinimumGCAge"),
    ];
    for (text, wanted) in cases {
        let error = Settings::parse(&format!("{HEAD}{text}")).unwrap_err();
        assert!(error.to_string().contains(wanted), "{text}: {error}");
    }
    assert!(matches!(
        Settings::parse("kind: Pod\napiVersion: v1\n"),
        Err(Error::Kind(_))
    ));
}

#[test]
fn thresholds_are_the_kubelets_unless_given() {
    let default = Settings::default().eviction.thresholds;
    assert_eq!(default.len(), 5);
    let off = format!("{HEAD}evictionHard: {{nodefs.available: 0%, memory.available: 1Gi}}\n");
    let own = Settings::parse(&off).unwrap().eviction.thresholds;
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].least, Amount::Units(1 << 30));
    assert_eq!(Amount::Percent(10.0).amount_of(1000), 100);
}
