//! Checksums, and their signature, which `minisign` checks (Ed25519 over a BLAKE2b sum).
//!
//! A signature has a random part by design, so it is not the same each time; all else is.

use std::{fs, path::Path};

use minisign::{KeyPair, PublicKey, SecretKeyBox, SignatureBox};

use crate::error::{Error, at};

/// The file with the sums.
pub const SUMS: &str = "SHA256SUMS";

/// Lines as `sha256sum` writes and checks them.
pub fn sums<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    files
        .map(|(name, bytes)| format!("{}  {name}\n", xtask_oci::sha256(bytes)))
        .collect()
}

/// Signs a text with an unencrypted secret key.
///
/// # Errors
/// An invalid or encrypted key.
pub fn sign(text: &str, key: &Path, version: &str) -> Result<String, Error> {
    let secret = fs::read_to_string(key).map_err(at(key))?;
    let secret = SecretKeyBox::from_string(&secret)
        .and_then(SecretKeyBox::into_unencrypted_secret_key)
        .map_err(Error::Signature)?;
    let trusted = format!("Orlop {version}: {SUMS}");
    let signature = minisign::sign(None, &secret, text.as_bytes(), Some(&trusted), None);
    Ok(signature.map_err(Error::Signature)?.into_string())
}

/// Makes a pair of keys: `NAME.key`, readable by its owner only, and `NAME.pub`.
///
/// # Errors
/// A file that is there already or cannot be written.
pub fn generate(name: &Path) -> Result<(), Error> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let pair = KeyPair::generate_unencrypted_keypair().map_err(Error::Signature)?;
    let comment = Some("Orlop");
    let secret = pair.sk.to_box(comment).map_err(Error::Signature)?;
    let public = pair.pk.to_box().map_err(Error::Signature)?;
    for (ending, content, mode) in [
        ("key", secret.into_string(), 0o600),
        ("pub", public.into_string(), 0o644),
    ] {
        let path = name.with_extension(ending);
        let mut file = fs::File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .map_err(at(&path))?;
        file.write_all(content.as_bytes()).map_err(at(&path))?;
    }
    Ok(())
}

/// Checks the sums of a folder, and their signature where a key is given.
///
/// # Errors
/// Every file that is not what its sum says, or a signature that is not of the key.
pub fn verify(folder: &Path, key: Option<&Path>) -> Result<(), Error> {
    let path = folder.join(SUMS);
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    if let Some(key) = key {
        let signature = folder.join(format!("{SUMS}.minisig"));
        let signature = fs::read_to_string(&signature).map_err(at(&signature))?;
        let signature = SignatureBox::from_string(&signature).map_err(Error::Signature)?;
        let public = PublicKey::from_file(key).map_err(Error::Signature)?;
        minisign::verify(
            &public,
            &signature,
            std::io::Cursor::new(&text),
            true,
            false,
            false,
        )
        .map_err(Error::Signature)?;
    }
    let mut wrong = Vec::new();
    for line in text.lines() {
        let Some((sum, name)) = line.split_once("  ") else {
            wrong.push(format!("`{line}` is no line of sums"));
            continue;
        };
        match fs::read(folder.join(name)) {
            Ok(bytes) if xtask_oci::sha256(&bytes) == sum => {}
            Ok(_) => wrong.push(format!("`{name}` is not what its sum says")),
            Err(error) => wrong.push(format!("`{name}`: {error}")),
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Error::Sums(wrong.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_was_changed_is_named_and_another_key_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("a"), "one").unwrap();
        let text = sums([("a", &b"one"[..])].into_iter());
        fs::write(path.join(SUMS), &text).unwrap();
        for name in ["right", "other"] {
            generate(&path.join(name)).unwrap();
        }
        let signature = sign(&text, &path.join("right.key"), "1.2.3").unwrap();
        fs::write(path.join("SHA256SUMS.minisig"), signature).unwrap();
        verify(path, Some(&path.join("right.pub"))).unwrap();
        assert!(verify(path, Some(&path.join("other.pub"))).is_err());
        fs::write(path.join("a"), "two").unwrap();
        let wrong = verify(path, None).unwrap_err().to_string();
        assert!(wrong.contains("`a`"), "{wrong}");
        assert!(
            generate(&path.join("right")).is_err(),
            "a key is not replaced"
        );
    }

    #[test]
    fn minisign_accepts_the_signature() {
        if Command::new("minisign").arg("-v").output().is_err() {
            println!("skipped: no `minisign` on this machine");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        generate(&path.join("k")).unwrap();
        let text = "sum  a\n";
        fs::write(path.join(SUMS), text).unwrap();
        let signature = sign(text, &path.join("k.key"), "1").unwrap();
        fs::write(path.join("SHA256SUMS.minisig"), signature).unwrap();
        let verified = || {
            Command::new("minisign")
                .args(["-V", "-q", "-p", "k.pub", "-m", SUMS])
                .current_dir(path)
                .output()
                .unwrap()
                .status
                .success()
        };
        assert!(verified());
        fs::write(path.join(SUMS), "other\n").unwrap();
        assert!(!verified());
    }
}
