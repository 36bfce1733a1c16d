//! How views read what Go clients write: `null` in the place of absence, and lists.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the type's default: Go clients sometimes write it for absent values.
///
/// # Errors
/// When the value is not a `T`.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a list, or `null` as an empty one, without room for more: the lists of a view are
/// short and do not grow, but a vector makes room for at least four.
///
/// # Errors
/// When the value is no list of `T`.
pub fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let mut list: Vec<T> = null_as_default(deserializer)?;
    list.shrink_to_fit();
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_no_room_to_spare_and_nulls_are_empty() {
        let read = |text: &str| list::<_, u64>(&mut serde_json::Deserializer::from_str(text));
        let one = read("[7]").unwrap();
        assert_eq!((one.as_slice(), one.capacity()), ([7].as_slice(), 1));
        assert_eq!(read("null").unwrap().capacity(), 0);
        assert!(read("7").is_err());
    }
}
