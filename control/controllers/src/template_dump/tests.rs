//! Compares dumps with those of Go.

use serde_json::{Value, json};

use super::{UnsupportedValue, dump, quantity};
use crate::hash::template_hash;

fn text(template: &Value) -> String {
    let mut text = Vec::new();
    dump(template, &mut |bytes| text.extend_from_slice(bytes)).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn absent_fields_are_zero_values_in_the_order_of_their_declaration() {
    let text = text(&json!({"metadata": {"labels": {"b": "2", "a": "1"}}, "spec": {}}));
    assert!(
        text.starts_with(
            "(v1.PodTemplateSpec){ObjectMeta:(v1.ObjectMeta){Name:(string) GenerateName:(string) \
             Namespace:(string) SelfLink:(string) UID:(types.UID) ResourceVersion:(string) \
             Generation:(int64)0 CreationTimestamp:(v1.Time){Time:(time.Time){wall:(uint64)0 \
             ext:(int64)0 loc:(*time.Location)<nil>}} DeletionTimestamp:(*v1.Time)<nil> \
             DeletionGracePeriodSeconds:(*int64)<nil> Labels:(map[string]string)map[a:1 b:2] "
        ),
        "{text}"
    );
    assert!(text.contains(" Spec:(v1.PodSpec){Volumes:([]v1.Volume)<nil> "));
}

#[test]
fn quantities_are_dumped_as_they_are_parsed() {
    let of = |text: &str| quantity(text).unwrap();
    assert!(of("100m").contains("value:(int64)100 scale:(resource.Scale)-3"));
    assert!(of("100m").contains("s:(string)100m Format:(resource.Format)DecimalSI"));
    assert!(of("64Mi").contains("value:(int64)67108864 scale:(resource.Scale)0"));
    assert!(of("64Mi").contains("s:(string) Format:(resource.Format)BinarySI"));
    assert!(of("100Ti").contains("abs:(big.nat)"));
    assert_eq!(quantity("1.5Gi"), Err(UnsupportedValue));
}

#[test]
fn template_that_go_dumps_otherwise_still_has_a_hash() {
    let template = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
    assert!(dump(&template, &mut |_| {}).is_err());
    assert_eq!(
        template_hash(&template, None),
        template_hash(&template, None)
    );
}
