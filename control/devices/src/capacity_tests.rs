use super::*;

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).expect("a quantity")
}

fn capacity(json: &str) -> NamedObject<DeviceCapacity> {
    serde_json::from_str(json).expect("capacity")
}

fn requested(amounts: &[(&str, &str)]) -> CapacityRequirements {
    CapacityRequirements {
        requests: amounts
            .iter()
            .map(|(name, amount)| ((*name).into(), quantity(amount)))
            .collect(),
    }
}

fn consumed(json: &str, amounts: &[(&str, &str)]) -> Result<String, CapacityShortage> {
    let consumed = consume(&capacity(json), Some(&requested(amounts)), [None, None])?;
    let consumed = consumed.iter();
    let shown: Vec<String> = consumed
        .map(|(name, amount)| format!("{name}={}", amount.canonical()))
        .collect();
    Ok(shown.join(","))
}

#[test]
fn a_request_that_names_no_capacity_consumes_the_default_or_all() {
    let with_default = r#"{"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi"}}}"#;
    assert_eq!(consumed(with_default, &[]), Ok("memory=1Gi".to_owned()));
    let without = r#"{"memory": {"value": "8Gi"}}"#;
    assert_eq!(consumed(without, &[]), Ok("memory=8Gi".to_owned()));
}

#[test]
fn amounts_are_rounded_up_to_the_steps_of_a_range() {
    let range = r#"{"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi",
        "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}}}"#;
    let ask = |amount| consumed(range, &[("memory", amount)]);
    assert_eq!(ask("1"), Ok("memory=1Gi".to_owned()));
    assert_eq!(ask("1Gi"), Ok("memory=1Gi".to_owned()));
    assert_eq!(ask("1025Mi"), Ok("memory=2Gi".to_owned()));
    assert_eq!(ask("5Gi"), Err(CapacityShortage::PolicyViolated));
}

#[test]
fn amounts_are_rounded_up_to_valid_values() {
    let values = r#"{"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi",
        "validValues": ["1Gi", "4Gi"]}}}"#;
    let ask = |amount| consumed(values, &[("memory", amount)]);
    assert_eq!(ask("2Gi"), Ok("memory=4Gi".to_owned()));
    assert_eq!(ask("5Gi"), Err(CapacityShortage::PolicyViolated));
}

#[test]
fn a_capacity_that_the_device_lacks_cannot_be_requested() {
    let memory = r#"{"memory": {"value": "8Gi"}}"#;
    assert_eq!(
        consumed(memory, &[("cores", "1")]),
        Err(CapacityShortage::Undefined)
    );
}

#[test]
fn what_others_consume_counts() {
    let capacity = capacity(r#"{"memory": {"value": "8Gi"}}"#);
    let (committed, chosen) = (
        requested(&[("memory", "4Gi")]),
        requested(&[("memory", "2Gi")]),
    );
    let ask = |amount| {
        let in_use = [Some(&committed.requests), Some(&chosen.requests)];
        consume(&capacity, Some(&requested(&[("memory", amount)])), in_use).map(|_| ())
    };
    assert_eq!(ask("2Gi"), Ok(()));
    assert_eq!(ask("3Gi"), Err(CapacityShortage::Exceeded));
}

#[test]
fn policies_that_validation_would_refuse_do_no_harm() {
    let strange = r#"{"memory": {"value": "8Gi", "requestPolicy": {
        "validRange": {"min": "1Gi", "step": "0"}}}}"#;
    assert_eq!(
        consumed(strange, &[("memory", "3Gi")]),
        Ok("memory=3Gi".to_owned())
    );
    let huge = r#"{"memory": {"value": "9e30", "requestPolicy": {
        "validRange": {"min": "1", "step": "3"}}}}"#;
    assert!(consumed(huge, &[("memory", "8e30")]).is_ok());
}
