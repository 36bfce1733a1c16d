//! Tests settings read from files, and errors for invalid files.

use serde_json::json;

use super::*;

fn read(more: Value) -> Result<Configuration, String> {
    read_with(more, Features::default())
}

fn read_with(mut more: Value, features: Features) -> Result<Configuration, String> {
    more["kind"] = json!("KubeSchedulerConfiguration");
    more["apiVersion"] = json!(API_VERSION);
    Configuration::read(more, features).map_err(|error| {
        let source = std::error::Error::source(&error);
        source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
    })
}

fn plugins(profile: &Profile) -> String {
    let plugins = profile.plugins.iter();
    let plugins = plugins.map(|it| match (it.filters, it.weight) {
        (true, 0) => it.plugin.name().to_owned(),
        (true, weight) => format!("{}+{weight}", it.plugin.name()),
        (false, weight) => format!("{weight}*{}", it.plugin.name()),
    });
    plugins.collect::<Vec<_>>().join(" ")
}

fn of(profile: Value) -> String {
    match read(json!({"profiles": [profile]})) {
        Ok(read) => plugins(&read.profiles[0]),
        Err(error) => error,
    }
}

#[test]
fn an_empty_file_is_the_default_profile() {
    let read = read(json!({})).unwrap();
    let default = Profile::default();
    let sorted = |profile: &Profile| {
        let plugins = profile.plugins.iter();
        let mut names: Vec<_> = plugins.map(|it| it.plugin.name()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(sorted(&read.profiles[0]), sorted(&default));
    assert_eq!(read.profiles[0].scheduler_name, "default-scheduler");
    assert_eq!(read.profiles[0].preemption, default.preemption);
    assert_eq!(read.backoff, Backoff::default());
}

#[test]
fn plugins_are_disabled_replaced_and_reordered_as_upstream_does() {
    let disabled = json!([{"name": "*"}]);
    let on = |names: &[&str]| {
        let names: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!(names)
    };
    let base = ["PrioritySort", "DefaultBinder"];
    assert_eq!(
        of(json!({"plugins": {"multiPoint": {"disabled": disabled, "enabled": on(&base)}}})),
        ""
    );
    let mut names = base.to_vec();
    names.extend(["NodePorts", "TaintToleration", "ImageLocality"]);
    assert_eq!(
        of(json!({"plugins": {
            "multiPoint": {"disabled": disabled, "enabled": on(&names)},
            "score": {"disabled": [{"name": "ImageLocality"}],
                "enabled": [{"name": "TaintToleration", "weight": 7}]},
            "filter": {"enabled": [{"name": "TaintToleration"}]},
        }})),
        "TaintToleration+7 NodePorts"
    );
    let without = of(json!({"plugins": {"score": {"disabled": disabled}}}));
    assert!(
        without.starts_with("NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts")
    );
    assert!(!without.contains("ImageLocality"), "{without}");
    let no_preemption = json!({"plugins": {"postFilter": {"disabled": disabled}}});
    let read = read(json!({"profiles": [no_preemption]})).unwrap();
    assert_eq!(read.profiles[0].preemption, None);
}

#[test]
fn what_cannot_be_is_said_as_upstream_says_it() {
    for (file, message) in [
        (
            json!({"parallelism": 0, "podInitialBackoffSeconds": 20}),
            "[parallelism: Invalid value: 0: should be an integer value greater than zero, podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds]",
        ),
        (
            json!({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}, {}]}),
            "[profiles[1].schedulerName: Duplicate value: profiles[0].schedulerName, profiles[2].schedulerName: Required value]",
        ),
        (
            json!({"percentageOfNodesToScore": 101}),
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        ),
        (
            json!({"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Mine"}]}}}]}),
            "initializing profiles: creating profile for scheduler name default-scheduler: FilterPlugin \"Mine\" does not exist",
        ),
        (
            json!({"profiles": [{"plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}}}]}),
            "profiles[0].plugins.filter.enabled[0]: Invalid value: \"EBSLimits\": was invalid in version \"kubescheduler.config.k8s.io/v1\" (KubeSchedulerConfiguration is version \"kubescheduler.config.k8s.io/v1\")",
        ),
        (
            json!({"profiles": [{"plugins": {"bind": {"disabled": [{"name": "*"}]}}}]}),
            "initializing profiles: creating profile for scheduler name default-scheduler: at least one bind plugin is needed for profile with scheduler name \"default-scheduler\"",
        ),
    ] {
        assert_eq!(read(file).err().as_deref(), Some(message));
    }
    let with = |name: &str, args: Value| {
        let config = json!([{"name": name, "args": args}]);
        let error = read(json!({"profiles": [{"pluginConfig": config}]})).err();
        error
            .unwrap_or_default()
            .replace("profiles[0].pluginConfig[0].args", "ARGS")
    };
    for (name, args, message) in [
        (
            "DefaultPreemption",
            json!({"minCandidateNodesPercentage": 200}),
            "ARGS.minCandidateNodesPercentage: Invalid value: 200: not in valid range [0, 100]",
        ),
        (
            "InterPodAffinity",
            json!({"hardPodAffinityWeight": -1}),
            "ARGS.hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]",
        ),
        (
            "NodeResourcesFit",
            json!({"scoringStrategy": {"type": "Best"}}),
            "ARGS.scoringStrategy.type: Unsupported value: \"Best\": supported values: \"LeastAllocated\", \"MostAllocated\", \"RequestedToCapacityRatio\"",
        ),
        (
            "NodeResourcesFit",
            json!({"scoringStrategy": {"type": "RequestedToCapacityRatio"}}),
            "ARGS.scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio",
        ),
        (
            "PodTopologySpread",
            json!({"defaultConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}),
            "ARGS.defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty",
        ),
        (
            "NodeResourcesBalancedAllocation",
            json!({"resources": [{"name": "cpu", "weight": 2}]}),
            "ARGS.resources[0].weight: Invalid value: 2: must be 1",
        ),
        (
            "VolumeBinding",
            json!({"bindTimeoutSeconds": -1}),
            "ARGS.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
        ),
    ] {
        assert_eq!(with(name, args), message);
    }
    assert!(with("InterPodAffinity", json!({"weight": 1})).contains("unknown field `weight`"));
}

#[test]
fn a_file_of_yaml_is_recognised_and_names_its_election() {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
        leaderElection: {resourceName: mine, leaseDuration: 20s}\n";
    assert!(is_configuration(text));
    assert!(!is_configuration("apiVersion: orlop.dev/v1alpha1"));
    let file = Configuration::from_yaml(text, Features::default()).unwrap();
    let election = file.leader_election;
    let election = election.as_candidate("me").unwrap().unwrap();
    assert_eq!(
        (election.name.as_str(), election.identity.as_str()),
        ("mine", "me")
    );
    assert_eq!(election.lease_duration, Duration::from_secs(20));
    let off = format!("{text}profiles: []\n").replace("20s", "soon");
    let file = Configuration::from_yaml(&off, Features::default()).unwrap();
    let election = file.leader_election;
    let error = election.as_candidate("me").unwrap_err();
    assert_eq!(
        error.to_string(),
        "leaderElection.leaseDuration is no duration such as 15s"
    );
}

#[test]
fn gang_scheduling_is_a_plugin_of_its_gate() {
    let features = Features {
        generic_workload: true,
        gang_scheduling: true,
    };
    let points = |profile: Value| {
        let read = read_with(json!({"profiles": [profile]}), features);
        let profile = read.unwrap().profiles.remove(0);
        let mut plugins = profile.plugins.iter();
        let found = plugins.find(|it| it.plugin.name() == "GangScheduling");
        found.map(|it| (it.gates, it.permits, it.filters, it.weight))
    };
    assert_eq!(points(json!({})), Some((true, true, false, 0)));
    let name = json!([{"name": "GangScheduling"}]);
    let without = |point: &str| json!({"plugins": {point: {"disabled": name}}});
    assert_eq!(points(without("multiPoint")), None);
    assert_eq!(points(without("permit")), Some((true, false, false, 0)));
    let alone = of(json!({"plugins": {"permit": {"enabled": name}}}));
    assert!(
        alone.contains("PermitPlugin \"GangScheduling\" does not exist"),
        "{alone}"
    );
    let default = Profile::with_features(features);
    assert_eq!(
        default.plugins.last().unwrap().plugin.name(),
        "GangScheduling"
    );
}
