/// Makes a [`Value`](crate::value::Value) from JSON-like text with expressions:
///
/// ```
/// use control_types::value;
/// let name = "web";
/// let object = value!({"metadata": {"name": name, "labels": null}, "items": [1, true]});
/// assert_eq!(object.str_at(&["metadata", "name"]), Some("web"));
/// ```
#[macro_export]
macro_rules! value {
    (null) => { $crate::value::Value::Null };
    ([ $($items:tt)* ]) => {{
        #[allow(unused_mut, reason = "an empty literal changes nothing")]
        let mut items = $crate::value::no_items();
        $crate::value!(@items items $($items)*);
        $crate::value::Value::Array(items)
    }};
    ({ $($members:tt)* }) => {
        $crate::value::Value::Object($crate::object!({ $($members)* }))
    };

    (@items $items:ident) => {};
    (@items $items:ident null $(, $($rest:tt)*)?) => {
        $items.push($crate::value::Value::Null);
        $($crate::value!(@items $items $($rest)*);)?
    };
    (@items $items:ident { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $items.push($crate::value!({ $($inner)* }));
        $($crate::value!(@items $items $($rest)*);)?
    };
    (@items $items:ident [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $items.push($crate::value!([ $($inner)* ]));
        $($crate::value!(@items $items $($rest)*);)?
    };
    (@items $items:ident $item:expr $(, $($rest:tt)*)?) => {
        $items.push($crate::value::Value::from($item));
        $($crate::value!(@items $items $($rest)*);)?
    };

    (@members $map:ident) => {};
    (@members $map:ident $key:tt : null $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::value::Value::Null);
        $($crate::value!(@members $map $($rest)*);)?
    };
    (@members $map:ident $key:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::value!({ $($inner)* }));
        $($crate::value!(@members $map $($rest)*);)?
    };
    (@members $map:ident $key:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::value!([ $($inner)* ]));
        $($crate::value!(@members $map $($rest)*);)?
    };
    (@members $map:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::value::Value::from($value));
        $($crate::value!(@members $map $($rest)*);)?
    };

    ($value:expr) => { $crate::value::Value::from($value) };
}

/// Makes a [`Map`](crate::value::Map); see [`value!`](crate::value!).
#[macro_export]
macro_rules! object {
    ({ $($members:tt)* }) => {{
        #[allow(unused_mut, reason = "an empty literal changes nothing")]
        let mut map = $crate::value::Map::new();
        $crate::value!(@members map $($members)*);
        map
    }};
    ($($members:tt)*) => { $crate::object!({ $($members)* }) };
}
