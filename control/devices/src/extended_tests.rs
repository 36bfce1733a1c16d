use super::*;

fn classes() -> ExtendedResourceClasses {
    let mut classes = ExtendedResourceClasses::default();
    let spec = DeviceClassSpec {
        extended_resource_name: Some("example.com/gpu".into()),
        ..DeviceClassSpec::default()
    };
    classes.set("gpu", &spec, None);
    classes
}

fn container(name: &str, is_short_lived: bool, gpus: i64) -> ContainerRequests {
    ContainerRequests {
        name: name.into(),
        is_short_lived,
        resources: [
            ("cpu".into(), Some(1)),
            ("example.com/gpu".into(), Some(gpus)),
        ]
        .into(),
    }
}

fn shown(containers: &[ContainerRequests]) -> (String, String) {
    let (requests, mappings) =
        extended_requests(containers, &["example.com/gpu".into()], &classes());
    let requests: Vec<String> = requests
        .iter()
        .map(|request| {
            let exactly = request.exactly.as_ref().expect("a request");
            assert_eq!(exactly.device_class_name, "gpu");
            format!("{}={}", request.name, exactly.count)
        })
        .collect();
    let mappings: Vec<String> = mappings
        .iter()
        .map(|mapping| format!("{}:{}", mapping.container_name, mapping.request_name))
        .collect();
    (requests.join(" "), mappings.join(" "))
}

#[test]
fn each_container_has_its_own_request() {
    let containers = [container("a", false, 1), container("b", false, 2)];
    let (requests, mappings) = shown(&containers);
    assert_eq!(requests, "container-0-request-1=1 container-1-request-1=2");
    assert_eq!(mappings, "a:container-0-request-1 b:container-1-request-1");
}

#[test]
fn init_containers_use_devices_of_those_that_follow() {
    let containers = [container("init", true, 2), container("a", false, 3)];
    let (requests, mappings) = shown(&containers);
    assert_eq!(requests, "container-1-request-1=3");
    assert_eq!(
        mappings,
        "a:container-1-request-1 init:container-1-request-1"
    );
}

#[test]
fn init_containers_share_what_they_need_beyond_that() {
    let containers = [
        container("first", true, 5),
        container("second", true, 3),
        container("a", false, 2),
    ];
    let (requests, mappings) = shown(&containers);
    assert_eq!(requests, "container-0-request-1=3 container-2-request-1=2");
    assert_eq!(
        mappings,
        "a:container-2-request-1 first:container-2-request-1 first:container-0-request-1 \
         second:container-2-request-1 second:container-0-request-1"
    );
}

#[test]
fn the_newest_class_satisfies_a_resource() {
    let mut classes = classes();
    let spec = DeviceClassSpec {
        extended_resource_name: Some("example.com/gpu".into()),
        ..DeviceClassSpec::default()
    };
    classes.set("newer", &spec, Some(Timestamp::UNIX_EPOCH));
    assert_eq!(classes.class_of("example.com/gpu"), Some("newer"));
    classes.set("also", &spec, Some(Timestamp::UNIX_EPOCH));
    assert_eq!(classes.class_of("example.com/gpu"), Some("also"));
    classes.remove("also");
    classes.set("newer", &DeviceClassSpec::default(), None);
    assert_eq!(classes.class_of("example.com/gpu"), Some("gpu"));
    classes.remove("gpu");
    assert_eq!(classes.class_of("example.com/gpu"), None);
}

#[test]
fn every_class_has_an_implicit_resource() {
    let classes = classes();
    let name = "deviceclass.resource.kubernetes.io/gpu";
    assert_eq!(classes.class_of(name), Some("gpu"));
    assert_eq!(
        classes.class_of("deviceclass.resource.kubernetes.io/x"),
        None
    );
    assert!(is_extended_resource(name));
    assert!(is_extended_resource("example.com/gpu"));
    assert!(!is_extended_resource("cpu"));
    assert!(!is_extended_resource("kubernetes.io/x"));
    assert!(!is_extended_resource("requests.example.com/x"));
}
