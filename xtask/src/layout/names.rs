//! Stable identities of functions: their names without the parts that change with every
//! version.

use std::path::Path;

use sha2::{Digest, Sha256};

/// The number of bytes of a hash that identify a name.
const BYTES: usize = 5;
/// The prefix of the functions of aws-lc; its version follows.
const AWS_LC: &str = "aws_lc_";

/// Returns the identity of a function of a linked file: its crate and its name. The
/// instances of a generic function in one crate share it, unless names tell types
/// ([`MANGLING`](super::MANGLING)).
pub fn digest(file: &Path, name: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(krate(file));
    hash.update(" ");
    hash.update(stable(name));
    let hash = hash.finalize();
    hash.iter()
        .take(BYTES)
        .map(|it| format!("{it:02x}"))
        .collect()
}

/// The crate of `libCRATE-HASH.rlib` or `CRATE-HASH.….o`.
fn krate(file: &Path) -> &str {
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    let name = name.split('-').next().unwrap_or(name);
    name.strip_prefix("lib").unwrap_or(name)
}

/// Returns a mangled name without the parts for versions of crates and of the compiler,
/// for types, and for the optimiser's copies.
fn stable(name: &str) -> String {
    let name = name.split(".llvm.").next().unwrap_or(name);
    if let Some(rest) = name.strip_prefix(AWS_LC) {
        let versioned = |byte: char| byte.is_ascii_digit() || byte == '_';
        return format!("{AWS_LC}{}", rest.trim_start_matches(versioned));
    }
    if let Some((before, hash)) = name.rsplit_once("17h")
        && name.starts_with("_ZN")
        && hash.len() == 17
        && hash.ends_with('E')
    {
        return before.to_owned();
    }
    without_disambiguators(name)
}

/// Those of crates: `Cs…_` before a crate's name (RFC 2603).
fn without_disambiguators(name: &str) -> String {
    let mut stable = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("Cs") {
        stable.push_str(before);
        stable.push('C');
        rest = match after.split_once('_') {
            Some((number, after)) if is_disambiguator(number) => after,
            _ => {
                stable.push('s');
                after
            }
        };
    }
    stable.push_str(rest);
    stable
}

/// 64 bits in base 62; small ones are as good as never.
fn is_disambiguator(number: &str) -> bool {
    (6..=11).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_of_crates_change_no_name() {
        let former = "_RNvMNtCsjrHSEGnQ3l9_3std4timeNtB2_7Instant3now";
        let later = "_RNvMNtCs4fqI2P2rA04_3std4timeNtB2_7Instant3now";
        assert_eq!(stable(former), "_RNvMNtC3std4timeNtB2_7Instant3now");
        assert_eq!(stable(former), stable(later));
        let former = "_ZN5tokio7runtime4task3raw4poll17h0003fd12b868ad82E";
        let later = "_ZN5tokio7runtime4task3raw4poll17h4ae3ff8ea7ec7ea8E.llvm.15154560706053351044";
        assert_eq!(stable(former), "_ZN5tokio7runtime4task3raw4poll");
        assert_eq!(stable(former), stable(later));
    }

    #[test]
    fn every_crate_of_a_name_is_named_without_its_number() {
        let name = "_RINvNtCsjrHSEGnQ3l9_4core3ptr13drop_in_placeNtCs4fqI2P2rA04_5hyper5ErrorE";
        assert_eq!(
            stable(name),
            "_RINvNtC4core3ptr13drop_in_placeNtC5hyper5ErrorE"
        );
    }

    #[test]
    fn what_looks_like_a_number_and_is_none_stays() {
        for name in [
            "mi_Cs",
            "Cs_",
            "fooCsab_bar",
            "Cs",
            "CsCsCs",
            "",
            "malloc",
            "_ZN17h",
            "a17hE",
            "_ZN5tokio3ops..4poll",
        ] {
            assert_eq!(stable(name), name);
        }
    }

    #[test]
    fn another_version_of_aws_lc_changes_no_name() {
        assert_eq!(
            stable("aws_lc_0_47_0_EVP_AEAD_CTX_open"),
            stable("aws_lc_1_2_11_EVP_AEAD_CTX_open")
        );
    }

    #[test]
    fn functions_of_other_crates_are_others_and_of_another_version_are_not() {
        let of = |file: &str| digest(Path::new(file), "_ZN4core3fmt17h0003fd12b868ad82E");
        assert_eq!(of("/t/libh2-ab12.rlib"), of("/u/libh2-cd34.rlib"));
        assert_ne!(of("/t/libh2-ab12.rlib"), of("/t/libhyper-ab12.rlib"));
        let object = "/t/orlop-ab12.orlop.12ab-cgu.0.rcgu.o";
        assert_eq!(of(object), of("/t/orlop-cd34.orlop.34cd-cgu.1.rcgu.o"));
        assert_eq!(of(object).len(), 2 * BYTES);
    }
}
