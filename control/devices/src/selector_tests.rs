use super::*;

const DEVICE_JSON: &str = r#"{
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "a100"},
        "cores": {"int": 64},
        "ecc": {"bool": true},
        "driverVersion": {"version": "1.2.3"},
        "other.example.com/numa": {"int": 1}
    },
    "capacity": {"memory": {"value": "40Gi"}},
    "allowMultipleAllocations": true
}"#;

fn device(json: &str) -> Device {
    serde_json::from_str(json).expect("a device")
}

fn ask(expression: &str) -> Result<bool, SelectorError> {
    ask_of(&device(DEVICE_JSON), &Features::default(), expression)
}

fn ask_of(device: &Device, features: &Features, expression: &str) -> Result<bool, SelectorError> {
    let mut cache = SelectorCache::default();
    let compiled = cache.compile(expression)?;
    let mut budget = u64::MAX;
    cache.matches(
        &compiled,
        (1, 0),
        "gpu.example.com",
        device,
        features,
        &mut budget,
    )
}

#[test]
fn devices_are_seen_by_driver_attributes_and_capacity() {
    for expression in [
        "device.driver == 'gpu.example.com'",
        "device.attributes['gpu.example.com'].model == 'a100'",
        "device.attributes['gpu.example.com'].cores > 32",
        "device.attributes['gpu.example.com'].ecc",
        "device.attributes['other.example.com'].numa == 1",
        "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('1.2.0'))",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) == 0",
        "device.allowMultipleAllocations",
        "cel.bind(mine, device.attributes['gpu.example.com'], mine.ecc && mine.cores == 64)",
    ] {
        assert_eq!(ask(expression), Ok(true), "{expression}");
    }
}

#[test]
fn an_absent_domain_is_an_empty_map() {
    assert_eq!(ask("has(device.attributes['absent'].model)"), Ok(false));
    assert_eq!(ask("size(device.attributes['absent']) == 0"), Ok(true));
    assert_eq!(ask("'absent' in device.attributes"), Ok(false));
    assert_eq!(ask("'gpu.example.com' in device.attributes"), Ok(true));
    assert_eq!(
        ask("device.attributes['absent'].model == 'x'"),
        Err(SelectorError::Runtime("no such key: model".to_owned()))
    );
}

#[test]
fn wrong_expressions_say_what_is_wrong() {
    let error = ask("device.attributes[").expect_err("no expression");
    assert!(
        error
            .to_string()
            .starts_with("CEL compile error: compilation failed: ERROR"),
        "{error}"
    );
    assert_eq!(
        ask("'text'"),
        Err(SelectorError::Compile(
            "must evaluate to bool or the unknown type, not string".to_owned()
        ))
    );
    assert_eq!(
        ask("device.attributes['gpu.example.com'].model"),
        Err(SelectorError::Runtime(
            "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'".to_owned()
        ))
    );
}

#[test]
fn lists_are_attributes_only_with_their_gate() {
    let device = device(r#"{"name": "x", "attributes": {"nodes": {"ints": [1, 2]}}}"#);
    let expression = "device.attributes['gpu.example.com'].nodes.exists(n, n == 2)";
    let off = Features::default();
    assert_eq!(
        ask_of(&device, &off, expression),
        Err(SelectorError::Runtime(
            "attribute nodes: unsupported attribute value".to_owned()
        ))
    );
    let on = Features {
        list_type_attributes: true,
        ..off
    };
    assert_eq!(ask_of(&device, &on, expression), Ok(true));
}

#[test]
fn a_result_is_evaluated_once() {
    let mut cache = SelectorCache::default();
    let device = device(DEVICE_JSON);
    let features = Features::default();
    let compiled = cache.compile("device.driver != ''").expect("an expression");
    let mut budget = 1000;
    let mut ask = |slice| {
        cache
            .matches(&compiled, (slice, 0), "d", &device, &features, &mut budget)
            .expect("a result");
        budget
    };
    let after_first = ask(1);
    assert!(after_first < 1000);
    assert_eq!(ask(1), after_first);
    assert!(ask(2) < after_first);
}

#[test]
fn compiled_expressions_are_bounded() {
    let mut cache = SelectorCache::default();
    for i in 0..PROGRAMS + 10 {
        cache
            .compile(&format!("{i} == {i}"))
            .expect("an expression");
    }
    assert_eq!(cache.programs.len(), PROGRAMS);
}

#[test]
fn an_expensive_expression_ends_at_the_limit() {
    let long = "x".repeat(60);
    let attributes: Vec<String> = (0..32)
        .map(|i| format!(r#""a{i}": {{"string": "{long}"}}"#))
        .collect();
    let json = format!(
        r#"{{"name": "x", "attributes": {{{}}}}}"#,
        attributes.join(",")
    );
    let inner = "device.attributes['gpu.example.com']";
    let expression = format!(
        "{inner}.all(a, {inner}.all(b, {inner}.all(c, {inner}.all(d, {inner}.all(e, a != '')))))"
    );
    assert_eq!(
        ask_of(&device(&json), &Features::default(), &expression),
        Err(SelectorError::Runtime(
            "operation cancelled: actual cost limit exceeded".to_owned()
        ))
    );
}
