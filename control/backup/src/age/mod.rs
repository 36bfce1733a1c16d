//! Encryption for recipients in the format of age (<https://age-encryption.org/v1>), as far
//! as a backup needs it: X25519 recipients and binary files.
//!
//! ```text
//! age-encryption.org/v1
//! -> X25519 EPHEMERAL-KEY      one stanza for each recipient: the file key, encrypted
//! ENCRYPTED-FILE-KEY
//! --- MAC-OF-THE-HEADER
//! nonce (16 bytes), chunks of 64 KiB, each with its tag     (`stream.rs`)
//! ```
//!
//! The `age` program reads and writes the same files. Primitives are those of aws-lc.

mod bech32;
mod stream;

use std::fmt;
use std::io::{self, BufRead, Write};
use std::str::FromStr;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::{hkdf, hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

pub use stream::{DecryptReader, EncryptWriter};

const VERSION: &str = "age-encryption.org/v1";
const INFO: &[u8] = b"age-encryption.org/v1/X25519";
const FILE_KEY: usize = 16;
/// How long a header may be: more than a thousand recipients.
const MAX_HEADER: usize = 1 << 18;

/// A public key to which a backup is encrypted: `age1…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipient([u8; 32]);

/// The private key that decrypts a backup: `AGE-SECRET-KEY-1…`.
#[derive(Clone)]
pub struct Identity([u8; 32]);

/// Error of encryption or decryption.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid recipient.
    #[error(
        "`{0}` is no recipient of age: give one that `age-keygen` or `orlop backup keygen` prints, `age1…`"
    )]
    Recipient(String),
    /// An invalid identity.
    #[error("this is no identity of age: give one that begins with AGE-SECRET-KEY-1")]
    Identity,
    /// No identity matches a recipient.
    #[error("no identity fits: the backup is encrypted for other recipients")]
    NoMatch,
    /// A header that cannot be read.
    #[error("this is no file of age, or its beginning is damaged")]
    Header,
    /// A key that the cryptographic library refuses.
    #[error("a key cannot be used")]
    Crypto,
    /// Bytes that cannot be read or written.
    #[error("cannot read or write")]
    Io(#[source] io::Error),
}

// === impl Recipient ===

impl FromStr for Recipient {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let key = bech32::decode("age", text.trim());
        key.map(Self)
            .ok_or_else(|| Error::Recipient(text.to_owned()))
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&bech32::encode("age", &self.0))
    }
}

impl Recipient {
    /// The stanza that gives the file key to this recipient.
    fn stanza(&self, file_key: &[u8; FILE_KEY]) -> Result<String, Error> {
        let ephemeral = PrivateKey::generate(&X25519).map_err(|_| Error::Crypto)?;
        let share = ephemeral.compute_public_key().map_err(|_| Error::Crypto)?;
        let key = wrapping_key(&ephemeral, &self.0, share.as_ref(), &self.0)?;
        let mut body = file_key.to_vec();
        key.seal_in_place_append_tag(zero_nonce(), Aad::empty(), &mut body)
            .map_err(|_| Error::Crypto)?;
        Ok(format!(
            "-> X25519 {}\n{}\n",
            BASE64.encode(share.as_ref()),
            BASE64.encode(body)
        ))
    }
}

// === impl Identity ===

impl FromStr for Identity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let key = bech32::decode("age-secret-key-", text.trim());
        key.map(Self).ok_or(Error::Identity)
    }
}

impl fmt::Debug for Identity {
    /// Without the secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Identity")
    }
}

impl Identity {
    /// Generates a new identity.
    ///
    /// # Errors
    /// [`Error::Crypto`] when the system has no random numbers.
    pub fn generate() -> Result<Self, Error> {
        let mut key = [0; 32];
        rand::fill(&mut key).map_err(|_| Error::Crypto)?;
        Ok(Self(key))
    }

    /// Parses the identities in a file, as `age-keygen` writes it: one per line, comments
    /// begin with `#`.
    ///
    /// # Errors
    /// [`Error::Identity`] for another line, and if there is none.
    pub fn parse_file(text: &str) -> Result<Vec<Self>, Error> {
        let found: Vec<Self> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        if found.is_empty() {
            return Err(Error::Identity);
        }
        Ok(found)
    }

    /// The secret as text.
    #[must_use]
    pub fn secret(&self) -> String {
        bech32::encode("age-secret-key-", &self.0).to_uppercase()
    }

    /// Returns the recipient of this identity.
    ///
    /// # Errors
    /// [`Error::Crypto`].
    pub fn recipient(&self) -> Result<Recipient, Error> {
        let private = self.private()?;
        let public = private.compute_public_key().map_err(|_| Error::Crypto)?;
        let public = public.as_ref().try_into().map_err(|_| Error::Crypto)?;
        Ok(Recipient(public))
    }

    fn private(&self) -> Result<PrivateKey, Error> {
        PrivateKey::from_private_key(&X25519, &self.0).map_err(|_| Error::Crypto)
    }

    /// The file key, if the stanza is for this identity.
    fn open(&self, share: &[u8], body: &[u8]) -> Option<[u8; FILE_KEY]> {
        let own = self.recipient().ok()?;
        let key = wrapping_key(&self.private().ok()?, share, share, &own.0).ok()?;
        let mut body = body.to_vec();
        let opened = key.open_in_place(zero_nonce(), Aad::empty(), &mut body);
        let opened: &[u8] = opened.ok()?;
        opened.try_into().ok()
    }
}

/// The key that encrypts a file key, agreed between `own` and `peer`.
fn wrapping_key(
    own: &PrivateKey,
    peer: &[u8],
    share: &[u8],
    recipient: &[u8],
) -> Result<LessSafeKey, Error> {
    let salt = [share, recipient].concat();
    let peer = UnparsedPublicKey::new(&X25519, peer);
    agreement::agree(own, peer, Error::Crypto, |shared| {
        let mut key = [0; 32];
        derive(shared, &salt, INFO, &mut key)?;
        cipher(&key)
    })
}

fn derive(secret: &[u8], salt: &[u8], info: &[u8], out: &mut [u8; 32]) -> Result<(), Error> {
    let info = [info];
    let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    let okm = derived.expand(&info, hkdf::HKDF_SHA256);
    let okm = okm.map_err(|_| Error::Crypto)?;
    okm.fill(out).map_err(|_| Error::Crypto)
}

fn cipher(key: &[u8; 32]) -> Result<LessSafeKey, Error> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key).map_err(|_| Error::Crypto)?;
    Ok(LessSafeKey::new(key))
}

fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn header_mac(file_key: &[u8], header: &str) -> Result<(hmac::Key, hmac::Tag), Error> {
    let mut key = [0; 32];
    derive(file_key, &[], b"header", &mut key)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let tag = hmac::sign(&key, header.as_bytes());
    Ok((key, tag))
}

/// Begins a file for `recipients`; later writes are encrypted.
///
/// # Errors
/// [`Error::Crypto`], [`Error::Io`].
pub fn encrypt<W: Write>(mut out: W, recipients: &[Recipient]) -> Result<EncryptWriter<W>, Error> {
    let (mut file_key, mut nonce) = ([0; FILE_KEY], [0; 16]);
    rand::fill(&mut file_key).map_err(|_| Error::Crypto)?;
    rand::fill(&mut nonce).map_err(|_| Error::Crypto)?;
    let mut header = format!("{VERSION}\n");
    for recipient in recipients {
        header.push_str(&recipient.stanza(&file_key)?);
    }
    header.push_str("---");
    let (_, tag) = header_mac(&file_key, &header)?;
    header.push_str(&format!(" {}\n", BASE64.encode(tag.as_ref())));
    out.write_all(header.as_bytes()).map_err(Error::Io)?;
    out.write_all(&nonce).map_err(Error::Io)?;
    let mut key = [0; 32];
    derive(&file_key, &nonce, b"payload", &mut key)?;
    Ok(EncryptWriter::new(out, cipher(&key)?))
}

/// Opens a file that one of `identities` can read.
///
/// # Errors
/// [`Error::Header`], [`Error::NoMatch`], [`Error::Io`].
pub fn decrypt<R: BufRead>(
    mut from: R,
    identities: &[Identity],
) -> Result<DecryptReader<R>, Error> {
    let (header, mac, stanzas) = read_header(&mut from)?;
    let file_key = stanzas
        .iter()
        .flat_map(|(share, body)| identities.iter().map(move |one| one.open(share, body)))
        .find_map(|opened| opened)
        .ok_or(Error::NoMatch)?;
    let (key, _) = header_mac(&file_key, &header)?;
    hmac::verify(&key, header.as_bytes(), &mac).map_err(|_| Error::Header)?;
    let mut nonce = [0; 16];
    from.read_exact(&mut nonce).map_err(|_| Error::Header)?;
    let mut key = [0; 32];
    derive(&file_key, &nonce, b"payload", &mut key)?;
    Ok(DecryptReader::new(from, cipher(&key)?))
}

/// The bytes over which the MAC goes, the MAC, and the X25519 stanzas: key and body.
type Header = (String, Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>);

fn read_header(from: &mut impl BufRead) -> Result<Header, Error> {
    let mut header = String::new();
    let mut stanzas = Vec::new();
    let first = line(from)?;
    if first != VERSION {
        return Err(Error::Header);
    }
    header.push_str(&format!("{first}\n"));
    loop {
        let line = line(from)?;
        if let Some(mac) = line.strip_prefix("--- ") {
            header.push_str("---");
            let mac = BASE64.decode(mac).map_err(|_| Error::Header)?;
            return Ok((header, mac, stanzas));
        }
        header.push_str(&format!("{line}\n"));
        if header.len() > MAX_HEADER {
            return Err(Error::Header);
        }
        let arguments = line.strip_prefix("-> ").ok_or(Error::Header)?;
        let mut body = String::new();
        // The body ends with a line that is not full.
        loop {
            let line = self::line(from)?;
            header.push_str(&format!("{line}\n"));
            body.push_str(&line);
            if line.len() > 64 || header.len() > MAX_HEADER {
                return Err(Error::Header);
            }
            if line.len() < 64 {
                break;
            }
        }
        let Some(share) = arguments.strip_prefix("X25519 ") else {
            continue;
        };
        let share = BASE64.decode(share).map_err(|_| Error::Header)?;
        let body = BASE64.decode(body).map_err(|_| Error::Header)?;
        stanzas.push((share, body));
    }
}

fn line(from: &mut impl BufRead) -> Result<String, Error> {
    let mut bytes = Vec::new();
    io::Read::take(&mut *from, MAX_HEADER as u64)
        .read_until(b'\n', &mut bytes)
        .map_err(Error::Io)?;
    if bytes.pop() != Some(b'\n') {
        return Err(Error::Header);
    }
    String::from_utf8(bytes).map_err(|_| Error::Header)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn written(content: &[u8], recipients: &[Recipient]) -> Vec<u8> {
        let mut writer = encrypt(Vec::new(), recipients).expect("begun");
        writer.write_all(content).expect("written");
        writer.finish().expect("finished")
    }

    fn read(file: &[u8], identity: &Identity) -> Result<Vec<u8>, String> {
        let mut reader =
            decrypt(file, std::slice::from_ref(identity)).map_err(|error| error.to_string())?;
        let mut content = Vec::new();
        reader
            .read_to_end(&mut content)
            .map_err(|error| error.to_string())?;
        Ok(content)
    }

    #[test]
    fn each_recipient_reads_and_nobody_else() {
        let identities = [(); 3].map(|()| Identity::generate().expect("a key"));
        let recipients = [0, 1].map(|at: usize| identities[at].recipient().expect("a key"));
        for length in [0, 1, 65_535, 65_536, 65_537, 200_000] {
            let content: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[0]).collect();
            let file = written(&content, &recipients);
            assert_eq!(
                read(&file, &identities[0]).as_ref(),
                Ok(&content),
                "{length}"
            );
            assert_eq!(
                read(&file, &identities[1]).as_ref(),
                Ok(&content),
                "{length}"
            );
            assert!(read(&file, &identities[2]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_changed_or_shortened_file_is_refused() {
        let identity = Identity::generate().expect("a key");
        let file = written(&[7; 150_000], &[identity.recipient().expect("a key")]);
        for at in [3, 40, 100, 200, 300, 70_000, file.len() - 1] {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(read(&changed, &identity).is_err(), "byte {at}");
        }
        for length in [0, 10, 150, 250, 65_000, 131_000, file.len() - 1] {
            assert!(read(&file[..length], &identity).is_err(), "{length} bytes");
        }
        // At the border of a chunk, too: the last one says that it is the last.
        let body = file.len() - (150_000 + 3 * 16);
        assert!(read(&file[..body + 65_536 + 16], &identity).is_err());
        let longer = [&file[..], &[0]].concat();
        assert!(read(&longer, &identity).is_err());
    }

    #[test]
    fn identities_come_from_files_as_age_keygen_writes_them() {
        let identity = Identity::generate().expect("a key");
        let text = format!("# created: now\n# public key: …\n{}\n", identity.secret());
        let found = Identity::parse_file(&text).expect("an identity");
        assert_eq!(found.len(), 1);
        let recipient = identity.recipient().expect("a key");
        assert_eq!(found[0].recipient().expect("a key"), recipient);
        assert_eq!(
            recipient.to_string().parse::<Recipient>().expect("a key"),
            recipient
        );
        assert!(Identity::parse_file("# nothing\n").is_err());
        assert!("age1xyz".parse::<Recipient>().is_err());
    }
}
