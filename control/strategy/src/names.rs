//! Generated names.

/// Letters of generated names: none that make words or look alike.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// The longest beginning of a generated name.
const PREFIX: usize = 58;

/// Returns a name that begins with `prefix` and ends with five random letters.
#[must_use]
pub fn generate_name(prefix: &str) -> String {
    let mut end = prefix.len().min(PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix[..end].to_owned();
    for _ in 0..5 {
        name.push(char::from(LETTERS[rand::random_range(0..LETTERS.len())]));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_stay_within_a_label() {
        let name = generate_name(&"é".repeat(60));
        assert!(name.len() <= 63 && name.starts_with('é'));
        assert_ne!(generate_name("a-"), generate_name("a-"));
    }
}
