//! LUKS2 encryption of a volume's device, by `cryptsetup`.
//!
//! The passphrase comes with the secrets of the staging call (a StorageClass
//! names them: `csi.storage.k8s.io/node-stage-secret-name`) under the key
//! [`SECRET`]. It reaches `cryptsetup` through standard input only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::filesystem::{self, signature::Signature};
use crate::tool::{Invocation, Secret, ToolRunner};

/// Key of the passphrase among the secrets.
pub const SECRET: &str = "luksPassphrase";

/// What the names of mappings begin with.
const PREFIX: &str = "orlop-";

/// How long deriving a key may take: it is slow on purpose, and slower on a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Space that a LUKS2 header takes before the data, in bytes.
pub const HEADER_BYTES: u64 = 16 << 20;

/// Returns the passphrase of a request.
///
/// # Errors
/// When it is missing or empty.
pub fn passphrase(secrets: &BTreeMap<String, String>) -> Result<Secret> {
    let found = secrets.get(SECRET).filter(|text| !text.is_empty());
    let text = found.ok_or(Error::Missing {
        field: "secrets[luksPassphrase] (the class is encrypted; name a Secret by csi.storage.k8s.io/node-stage-secret-name)",
    })?;
    Ok(Secret::new(text.as_bytes()))
}

/// Returns the device of an opened volume.
#[must_use]
pub fn mapping(id: &str) -> PathBuf {
    Path::new("/dev/mapper").join(format!("{PREFIX}{id}"))
}

/// Opens a volume's device, after formatting it where it is blank, and returns
/// the device with the plain data.
///
/// # Errors
/// When the passphrase is wrong, or the device holds something else.
pub fn open(
    tools: &dyn ToolRunner,
    id: &str,
    device: &Path,
    key: &Secret,
    may_format: bool,
) -> Result<PathBuf> {
    let mapped = mapping(id);
    if mapped.exists() {
        return Ok(mapped);
    }
    match filesystem::probe(device)? {
        Signature::Luks => {}
        // An interrupted format leaves bytes and no signature.
        Signature::Blank | Signature::Foreign if may_format => {
            let format = Invocation::new("cryptsetup")
                .args([
                    "luksFormat",
                    "--batch-mode",
                    "--type",
                    "luks2",
                    "--key-file=-",
                ])
                .arg(device)
                .timeout(PATIENCE)
                .input(key.clone());
            tools.run(&format).map_err(Error::tool("encrypting", id))?;
        }
        _ => {
            return Err(Error::Precondition {
                id: id.to_owned(),
                reason: "its class is encrypted and its device holds no LUKS header: restore the header, or delete the volume".to_owned(),
            });
        }
    }
    let open = Invocation::new("cryptsetup")
        .args(["open", "--type", "luks2", "--key-file=-"])
        .arg(device)
        .arg(format!("{PREFIX}{id}"))
        .timeout(PATIENCE)
        .input(key.clone());
    tools
        .run(&open)
        .map_err(Error::tool("opening the encryption of", id))?;
    Ok(mapped)
}

/// Grows an opened volume to the size of its device.
///
/// # Errors
/// When `cryptsetup` fails.
pub fn resize(tools: &dyn ToolRunner, id: &str, key: &Secret) -> Result<()> {
    let resize = Invocation::new("cryptsetup")
        .args(["resize", "--key-file=-"])
        .arg(format!("{PREFIX}{id}"))
        .timeout(PATIENCE)
        .input(key.clone());
    tools
        .run(&resize)
        .map_err(Error::tool("growing the encryption of", id))?;
    Ok(())
}

/// Closes an opened volume; does nothing where it is closed.
///
/// # Errors
/// When `cryptsetup` fails.
pub fn close(tools: &dyn ToolRunner, id: &str) -> Result<()> {
    if !mapping(id).exists() {
        return Ok(());
    }
    let close = Invocation::new("cryptsetup")
        .arg("close")
        .arg(format!("{PREFIX}{id}"));
    tools
        .run(&close)
        .map_err(Error::tool("closing the encryption of", id))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::fake::FakeRunner;

    fn device(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn a_blank_device_is_formatted_once_and_then_opened() {
        let tools = FakeRunner::default();
        let blank = device(&[0; 8192]);
        let key = Secret::new("k");
        open(&tools, "no-such", blank.path(), &key, true).unwrap();
        let path = blank.path().display();
        let wanted = format!(
            "cryptsetup luksFormat --batch-mode --type luks2 --key-file=- {path}\n\
             cryptsetup open --type luks2 --key-file=- {path} orlop-no-such"
        );
        assert_eq!(tools.dump(), wanted);
        let formatted = device(b"LUKS\xba\xbe\x00\x02");
        open(&tools, "no-such", formatted.path(), &key, true).unwrap();
        assert!(!tools.dump().contains("luksFormat"));
    }

    #[test]
    fn a_volume_with_data_is_never_formatted() {
        let tools = FakeRunner::default();
        let foreign = device(b"data");
        let result = open(&tools, "no-such", foreign.path(), &Secret::new("k"), false);
        assert!(result.is_err());
        assert_eq!(tools.dump(), "");
    }

    #[test]
    fn a_missing_passphrase_names_where_it_comes_from() {
        let error = passphrase(&BTreeMap::new()).unwrap_err().to_string();
        assert!(error.contains("luksPassphrase"), "{error}");
    }
}
