use control_kms::fake::FakeManager;

use super::*;

#[test]
fn values_are_encrypted_with_a_seed_that_the_manager_keeps() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("kms.sock");
    let manager = Arc::new(FakeManager::default());
    manager.use_key(1);
    manager.serve(&socket).expect("a socket");
    let socket = socket.to_str().expect("text");
    let start = || Kms::start("k", socket, Duration::from_secs(3)).expect("started");
    let kms = start();
    kms.health().expect("well");
    let mut first = Vec::new();
    kms.seal(b"/a", b"value", &mut first).expect("sealed");
    let opened = kms.open(b"/a", &first).expect("opened");
    assert_eq!(
        (opened.value.as_slice(), opened.stale),
        (&b"value"[..], false)
    );
    assert_eq!(manager.decrypted(), 0, "its own seed is known");
    assert!(kms.open(b"/b", &first).is_err(), "moved");

    // Another server asks the manager, once.
    let other = start();
    for _ in 0..3 {
        assert_eq!(other.open(b"/a", &first).expect("opened").value, b"value");
    }
    assert_eq!(manager.decrypted(), 1);

    manager.use_key(2);
    kms.probe();
    assert!(
        kms.open(b"/a", &first).expect("opened").stale,
        "the key is another"
    );
    let mut second = Vec::new();
    kms.seal(b"/a", b"value", &mut second).expect("sealed");
    assert!(!kms.open(b"/a", &second).expect("opened").stale);

    manager.fall_ill();
    kms.probe();
    let why = kms.health().expect_err("ill").to_string();
    assert!(why.contains("it says of itself: ill"), "{why}");
    let mut third = Vec::new();
    kms.seal(b"/a", b"value", &mut third)
        .expect("for some minutes more");
    kms.open(b"/a", &first).expect("what is known is read");
}

#[test]
fn a_manager_that_is_not_there_is_told_and_nothing_is_written_plainly() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("none.sock");
    let socket = socket.to_str().expect("text");
    let kms = Kms::start("k", socket, Duration::from_millis(200)).expect("started");
    assert!(kms.health().is_err());
    let mut out = Vec::new();
    assert!(kms.seal(b"/a", b"value", &mut out).is_err());
    assert_eq!(out, b"");
    assert!(kms.open(b"/a", b"\x0a\x01x").is_err());
    assert!(kms.open(b"/a", b"\xff\xff").is_err());
}
