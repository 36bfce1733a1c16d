//! LUKS2 encryption of a volume's device, by `cryptsetup`.
//!
//! The key is a passphrase that comes with the secrets of the staging call (a
//! StorageClass names them: `csi.storage.k8s.io/node-stage-secret-name`) under the key
//! [`SECRET`], or a random one that a [`KeyManager`] wraps. It reaches `cryptsetup`
//! through standard input only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::key_manager::{Header, KeyManager, WrappedKey};
use crate::error::{Error, Result};
use crate::filesystem::{self, signature::Signature};
use crate::tool::{self, Invocation, Secret, ToolRunner};

/// Key of the passphrase among the secrets.
pub const SECRET: &str = "luksPassphrase";

/// The prefix of the names of mappings.
const PREFIX: &str = "orlop-";

/// How long deriving a key may take: it is slow on purpose, and slower on a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Space that a LUKS2 header takes before the data, in bytes.
pub const HEADER_BYTES: u64 = 16 << 20;

/// The source of a volume's key.
#[derive(Debug)]
pub enum Key<'a> {
    /// From the request.
    Passphrase(Secret),
    /// From the device's header, wrapped by the manager.
    Managed(&'a KeyManager),
}

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
/// When the key is wrong or cannot be had, or the device holds something else.
pub fn open(
    tools: &dyn ToolRunner,
    id: &str,
    device: &Path,
    key: &Key<'_>,
    may_format: bool,
) -> Result<PathBuf> {
    let mapped = mapping(id);
    if mapped.exists() {
        return Ok(mapped);
    }
    let secret = unlock(tools, id, device, key, may_format)?;
    let open = Invocation::new("cryptsetup")
        .args(["open", "--type", "luks2", "--key-file=-"])
        .arg(device)
        .arg(format!("{PREFIX}{id}"))
        .timeout(PATIENCE)
        .input(secret);
    tools
        .run(&open)
        .map_err(Error::tool("opening the encryption of", id))?;
    Ok(mapped)
}

/// Returns the key of a device, which is formatted where it is blank.
fn unlock(
    tools: &dyn ToolRunner,
    id: &str,
    device: &Path,
    key: &Key<'_>,
    may_format: bool,
) -> Result<Secret> {
    let signature = filesystem::probe(device)?;
    // An interrupted format leaves bytes and no signature.
    let is_new = matches!(signature, Signature::Blank | Signature::Foreign) && may_format;
    match (key, signature) {
        (Key::Passphrase(secret), Signature::Luks) => Ok(secret.clone()),
        (Key::Passphrase(secret), _) if is_new => {
            format(tools, id, device, secret, &[])?;
            Ok(secret.clone())
        }
        (Key::Managed(manager), Signature::Luks) => match wrapped_key(tools, id, device)? {
            Some((token, wrapped)) => {
                let wrapped_by = wrapped.wrapped_by().to_owned();
                let secret = manager.unwrap_key(id, wrapped)?;
                let renewed = renew(tools, id, device, manager, &secret, (&token, &wrapped_by));
                if let Err(error) = renewed {
                    // The volume can be opened with the former key until it is removed.
                    tracing::warn!(
                        volume = id,
                        wrapped_by,
                        error = error.chain(),
                        "failed to rewrap the volume's key with the key manager's current key"
                    );
                }
                Ok(secret)
            }
            // It was interrupted between format and token, and never used.
            None if may_format => format_managed(tools, id, device, manager),
            None => Err(Error::Precondition {
                id: id.to_owned(),
                reason: "the LUKS header of its device holds no key of a key manager: restore the header, or stage it by a class without `kmsEndpoint`".to_owned(),
            }),
        },
        (Key::Managed(manager), _) if is_new => format_managed(tools, id, device, manager),
        _ => Err(Error::Precondition {
            id: id.to_owned(),
            reason: "its class is encrypted and its device holds no LUKS header: restore the header, or delete the volume".to_owned(),
        }),
    }
}

fn format(
    tools: &dyn ToolRunner,
    id: &str,
    device: &Path,
    secret: &Secret,
    options: &[&str],
) -> Result<()> {
    let format = Invocation::new("cryptsetup")
        .args(["luksFormat", "--batch-mode", "--type", "luks2"])
        .args(options)
        .arg("--key-file=-")
        .arg(device)
        .timeout(PATIENCE)
        .input(secret.clone());
    tools
        .run(&format)
        .map(drop)
        .map_err(Error::tool("encrypting", id))
}

/// Formats a device with its own key, which the manager wraps before anything is written.
fn format_managed(
    tools: &dyn ToolRunner,
    id: &str,
    device: &Path,
    manager: &KeyManager,
) -> Result<Secret> {
    let (secret, wrapped) = manager.make_key(id)?;
    // A random key needs no slow derivation, which protects passphrases from guessing.
    let options = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
    format(tools, id, device, &secret, &options)?;
    keep(tools, id, device, &wrapped, &[])?;
    Ok(secret)
}

/// Wraps a device's key again after the key manager has rotated its own, so that the old key
/// can be retired. `cryptsetup` writes the two copies of the header one after the other: a
/// crash leaves either the old token or the new one.
fn renew(
    tools: &dyn ToolRunner,
    id: &str,
    device: &Path,
    manager: &KeyManager,
    secret: &Secret,
    (token, wrapped_by): (&str, &str),
) -> Result<()> {
    match manager.wrap_again(id, secret, wrapped_by)? {
        Some(wrapped) => {
            let replace = ["--token-id", token, "--token-replace"];
            keep(tools, id, device, &wrapped, &replace)
        }
        None => Ok(()),
    }
}

/// Writes a wrapped key into the header of a device.
fn keep(
    tools: &dyn ToolRunner,
    id: &str,
    device: &Path,
    wrapped: &WrappedKey,
    options: &[&str],
) -> Result<()> {
    let import = Invocation::new("cryptsetup")
        .args(["token", "import", "--json-file=-"])
        .args(options)
        .arg(device)
        .input(Secret::new(wrapped.token()));
    tools
        .run(&import)
        .map(drop)
        .map_err(Error::tool("keeping the wrapped key of", id))
}

/// Returns the wrapped key that the header of a device holds, and the number of its token.
fn wrapped_key(
    tools: &dyn ToolRunner,
    id: &str,
    device: &Path,
) -> Result<Option<(String, WrappedKey)>> {
    let dump = Invocation::new("cryptsetup")
        .args(["luksDump", "--dump-json-metadata"])
        .arg(device);
    let header: Header =
        tool::report(tools, &dump).map_err(Error::tool("reading the LUKS header of", id))?;
    let found = WrappedKey::find(&header);
    Ok(found.map(|(token, wrapped)| (token.to_owned(), wrapped)))
}

/// Grows an opened volume to the size of its device.
///
/// # Errors
/// When its key cannot be had, or `cryptsetup` fails.
pub fn resize(tools: &dyn ToolRunner, id: &str, device: &Path, key: &Key<'_>) -> Result<()> {
    let secret = unlock(tools, id, device, key, false)?;
    let resize = Invocation::new("cryptsetup")
        .args(["resize", "--key-file=-"])
        .arg(format!("{PREFIX}{id}"))
        .timeout(PATIENCE)
        .input(secret);
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
    use std::sync::Arc;

    use control_kms::fake::FakeManager;

    use super::*;
    use crate::tool::SystemRunner;
    use crate::tool::fake::FakeRunner;

    /// The first bytes of a formatted device.
    const HEAD: &[u8] = b"LUKS\xba\xbe\x00\x02";

    fn manager(socket: &Path) -> KeyManager {
        Arc::new(FakeManager::default()).serve(socket).unwrap();
        KeyManager::start("test", socket.to_str().unwrap()).unwrap()
    }

    fn device(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn a_blank_device_is_formatted_once_and_then_opened() {
        let tools = FakeRunner::default();
        let blank = device(&[0; 8192]);
        let key = Key::Passphrase(Secret::new("k"));
        open(&tools, "no-such", blank.path(), &key, true).unwrap();
        let path = blank.path().display();
        let wanted = format!(
            "cryptsetup luksFormat --batch-mode --type luks2 --key-file=- {path}\n\
             cryptsetup open --type luks2 --key-file=- {path} orlop-no-such"
        );
        assert_eq!(tools.dump(), wanted);
        let formatted = device(HEAD);
        open(&tools, "no-such", formatted.path(), &key, true).unwrap();
        assert!(!tools.dump().contains("luksFormat"));
    }

    #[test]
    fn a_volume_with_data_is_never_formatted() {
        let (tools, folder) = (FakeRunner::default(), tempfile::tempdir().unwrap());
        let manager = manager(&folder.path().join("kms.sock"));
        for key in [Key::Passphrase(Secret::new("k")), Key::Managed(&manager)] {
            let foreign = device(b"data");
            assert!(open(&tools, "no-such", foreign.path(), &key, false).is_err());
            assert_eq!(tools.dump(), "");
        }
        // Encrypted with a passphrase before.
        tools.answer("luksDump", "{}");
        let formatted = device(HEAD);
        let key = Key::Managed(&manager);
        assert!(open(&tools, "no-such", formatted.path(), &key, false).is_err());
        assert!(!tools.dump().contains("luksFormat"));
    }

    #[test]
    fn a_device_that_was_left_between_format_and_token_is_formatted_again() {
        let (tools, folder) = (FakeRunner::default(), tempfile::tempdir().unwrap());
        let manager = manager(&folder.path().join("kms.sock"));
        tools.answer("luksDump", "{\"tokens\": {}}");
        let left = device(HEAD);
        open(
            &tools,
            "no-such",
            left.path(),
            &Key::Managed(&manager),
            true,
        )
        .unwrap();
        let calls = tools.dump();
        let calls: Vec<&str> = calls
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .collect();
        assert_eq!(calls, ["luksDump", "luksFormat", "token", "open"]);
    }

    #[test]
    fn nothing_is_written_before_the_key_manager_has_wrapped_the_key() {
        let tools = FakeRunner::default();
        let nobody = KeyManager::start("test", "/nonexistent/kms.sock").unwrap();
        let blank = device(&[0; 8192]);
        let failed = open(
            &tools,
            "no-such",
            blank.path(),
            &Key::Managed(&nobody),
            true,
        );
        let error = failed.unwrap_err();
        assert_eq!(error.code(), tonic::Code::Unavailable);
        assert_eq!(tools.dump(), "");
    }

    /// With the real program, as far as it needs no device-mapper.
    #[test]
    fn the_wrapped_key_in_the_header_opens_the_device() {
        if !Path::new("/usr/sbin/cryptsetup").exists() {
            println!("skipped: no cryptsetup");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("kms.sock");
        let fake = Arc::new(FakeManager::default());
        fake.use_key(7);
        fake.serve(&socket).unwrap();
        let manager = KeyManager::start("test", socket.to_str().unwrap()).unwrap();
        let image = folder.path().join("image");
        std::fs::File::create(&image)
            .and_then(|file| file.set_len(32 << 20))
            .unwrap();
        let made = format_managed(&SystemRunner, "v", &image, &manager).unwrap();
        // Another process, after the manager's key has changed.
        fake.use_key(8);
        let later = KeyManager::start("test", socket.to_str().unwrap()).unwrap();
        let key = Key::Managed(&later);
        let secret = unlock(&SystemRunner, "v", &image, &key, false).unwrap();
        assert_eq!(secret, made);
        // Unlocking replaced the token; unlocking again writes nothing.
        let (token, wrapped) = wrapped_key(&SystemRunner, "v", &image).unwrap().unwrap();
        assert_eq!((token.as_str(), wrapped.wrapped_by()), ("0", "key-8"));
        let before = std::fs::read(&image).unwrap();
        assert_eq!(
            unlock(&SystemRunner, "v", &image, &key, false).unwrap(),
            made
        );
        assert!(before == std::fs::read(&image).unwrap(), "written again");
        let test = |secret: Secret| {
            let test = Invocation::new("cryptsetup")
                .args(["open", "--test-passphrase", "--key-file=-"])
                .arg(&image)
                .input(secret);
            SystemRunner.run(&test)
        };
        test(secret).expect("it opens the device");
        assert!(test(Secret::new("other")).is_err());
        // Both copies of the header, and the tokens in them.
        let image = std::fs::read(&image).unwrap();
        assert!(
            !image[..32 << 10]
                .windows(32)
                .any(|window| Secret::new(window) == made),
            "the key is in the header"
        );
    }

    #[test]
    fn a_volume_whose_key_cannot_be_wrapped_anew_opens_by_the_former_key() {
        let (tools, folder) = (FakeRunner::default(), tempfile::tempdir().unwrap());
        let fake = Arc::new(FakeManager::default());
        fake.serve(&folder.path().join("kms.sock")).unwrap();
        let socket = folder.path().join("kms.sock");
        let manager = KeyManager::start("test", socket.to_str().unwrap()).unwrap();
        let (made, wrapped) = manager.make_key("no-such").unwrap();
        tools.answer(
            "luksDump",
            &format!("{{\"tokens\": {{\"3\": {}}}}}", wrapped.token()),
        );
        fake.use_key(9);
        tools.fail("token import");
        let device = device(HEAD);
        let secret = unlock(
            &tools,
            "no-such",
            device.path(),
            &Key::Managed(&manager),
            false,
        );
        assert_eq!(secret.unwrap(), made);
        assert!(tools.dump().contains("--token-id 3 --token-replace"));
    }

    #[test]
    fn a_missing_passphrase_names_where_it_comes_from() {
        let error = passphrase(&BTreeMap::new()).unwrap_err().to_string();
        assert!(error.contains("luksPassphrase"), "{error}");
    }
}
