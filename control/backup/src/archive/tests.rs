use std::io::Cursor;

use bytes::Bytes;

use super::*;
use crate::age::{Identity, Recipient};
use crate::manifest::{FORMAT, Manifest, StoreSummary};
use crate::{Entry, Error};

fn about() -> StoreSummary {
    StoreSummary {
        format: FORMAT,
        cluster: "1b2c3d4e-0000".to_owned(),
        version: "0.1.0".to_owned(),
        kubernetes: "1.36".to_owned(),
        store: "embedded".to_owned(),
        revision: 99,
        created: "2026-11-26T19:53:10Z".parse().expect("a time"),
    }
}

fn entry(number: u64) -> Entry {
    Entry {
        key: format!("/registry/pods/default/{number:06}").into(),
        create_revision: number + 1,
        mod_revision: number + 2,
        version: 2,
        // Not to be compressed away.
        value: Bytes::from(
            (0..900_u64)
                .flat_map(|at| ((at * 2_654_435_761) ^ (number * 40_503)).to_le_bytes())
                .collect::<Vec<u8>>(),
        ),
        lease: 0,
        remaining_ms: number % 2,
    }
}

fn written(keys: u64, recipients: &[Recipient]) -> (Vec<u8>, Manifest) {
    let mut writer = ArchiveWriter::new(Vec::new(), about(), recipients).expect("begun");
    writer
        .file(&ServerFile {
            name: "pki/ca.key".to_owned(),
            mode: 0o600,
            content: b"secret".to_vec(),
        })
        .expect("written");
    for number in 0..keys {
        writer.key(&entry(number)).expect("written");
    }
    writer.finish().expect("finished")
}

fn read(file: &[u8], identities: &[Identity]) -> Result<(Manifest, Vec<Entry>, usize), Error> {
    let reader = ArchiveReader::new(Box::new(Cursor::new(file.to_vec())), identities)?;
    let (mut entries, mut files) = (Vec::new(), 0);
    let manifest = reader.read(|item| {
        match item {
            Item::Key(entry) => entries.push(entry),
            Item::File(file) => {
                assert_eq!((file.mode, &*file.content), (0o600, &b"secret"[..]));
                files += 1;
            }
            Item::About(_) => {}
        }
        Ok(())
    })?;
    Ok((manifest, entries, files))
}

#[test]
fn what_was_written_is_read() {
    let identity = Identity::generate().expect("a key");
    let recipient = identity.recipient().expect("a key");
    for recipients in [&[][..], &[recipient]] {
        let (file, manifest) = written(1_500, recipients);
        let (found, entries, files) = read(&file, std::slice::from_ref(&identity)).expect("read");
        assert_eq!(found, manifest);
        assert_eq!((found.keys, found.leased_keys, files), (1_500, 750, 1));
        assert_eq!(found.resources["/registry/pods/"], 1_500);
        assert!(found.checksums.len() > 3, "several chunks");
        assert!((0..1_500).map(entry).eq(entries));
        if !recipients.is_empty() {
            assert!(matches!(read(&file, &[]), Err(Error::Encrypted)));
        }
    }
}

#[test]
fn every_truncation_and_every_changed_byte_is_found() {
    let identity = Identity::generate().expect("a key");
    let recipient = identity.recipient().expect("a key");
    for recipients in [&[][..], &[recipient]] {
        let (file, _) = written(40, recipients);
        let identities = [identity.clone()];
        for length in (0..file.len()).step_by(997).chain([file.len() - 1]) {
            assert!(
                read(&file[..length], &identities).is_err(),
                "{length} bytes"
            );
        }
        for at in (0..file.len()).step_by(1_009) {
            let mut changed = file.clone();
            changed[at] ^= 0x10;
            let Ok((_, entries, _)) = read(&changed, &identities) else {
                continue;
            };
            // Bits of the compressed frame's head may be without meaning.
            assert!((0..40).map(entry).eq(entries), "byte {at}");
            assert!(recipients.is_empty(), "byte {at}");
        }
    }
}
