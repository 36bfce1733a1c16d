use super::*;

fn volume(id: &str) -> VolumeRecord {
    VolumeRecord {
        id: id.to_owned(),
        name: id.to_owned(),
        bytes: 4096,
        origin: None,
        block: false,
        requested: None,
        content: record::Content::Blank,
        copied_identity: false,
        filled: 0,
        mutable: BTreeMap::new(),
        ephemeral: None,
        device: None,
        created: 1,
    }
}

#[test]
fn records_and_intents_are_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let intent = Intent::ExpandVolume {
        id: "a".to_owned(),
        bytes: 8192,
    };
    {
        let catalog = Catalog::open(folder.path()).unwrap();
        catalog.put_volume(volume("a")).unwrap();
        catalog.put_volume(volume("b")).unwrap();
        catalog.remove_volume("b").unwrap();
        catalog.begin(intent.clone(), |_| Ok(())).unwrap();
    }
    let catalog = Catalog::open(folder.path()).unwrap();
    let entries = catalog.entries().clone();
    assert_eq!(
        entries.volumes.into_values().collect::<Vec<_>>(),
        [volume("a")]
    );
    assert_eq!(entries.intents.into_values().collect::<Vec<_>>(), [intent]);
}

#[test]
fn a_class_is_used_by_one_driver_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Catalog::open(folder.path()).unwrap();
    let error = Catalog::open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("another driver uses the class"), "{error}");
}

#[test]
fn the_lock_of_a_driver_that_just_ended_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let first = Catalog::open(folder.path()).unwrap();
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(first);
    });
    Catalog::open(folder.path()).unwrap();
    ending.join().unwrap();
}

#[test]
fn what_a_crash_left_of_a_write_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    drop(Catalog::open(folder.path()).unwrap());
    fs::write(folder.path().join("volumes/a.tmp"), b"{\"id\":").unwrap();
    let catalog = Catalog::open(folder.path()).unwrap();
    assert!(catalog.entries().volumes.is_empty());
    assert!(!folder.path().join("volumes/a.tmp").exists());
}

#[test]
fn a_damaged_record_is_named() {
    let folder = tempfile::tempdir().unwrap();
    drop(Catalog::open(folder.path()).unwrap());
    fs::write(folder.path().join("volumes/a.json"), b"{").unwrap();
    let error = Catalog::open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("volumes/a.json"), "{error}");
}

#[test]
fn volumes_that_are_being_created_count_as_promised_once() {
    let mut entries = Entries::default();
    let record = Box::new(volume("a"));
    let intent = Intent::CreateVolume { record };
    entries.intents.insert(intent.key(), intent);
    assert_eq!(entries.promised().count(), 1);
    entries.volumes.insert("a".to_owned(), volume("a"));
    assert_eq!(entries.promised().count(), 1);
}
