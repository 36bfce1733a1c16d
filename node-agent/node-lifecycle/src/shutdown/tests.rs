use super::*;

#[test]
fn the_last_shutdown_is_read_as_the_kubelet_wrote_it() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"startTime":"2026-01-02T03:04:05.678901234Z","endTime":"0001-01-01T00:00:00Z"}"#;
    std::fs::write(dir.path().join(STATE), text).unwrap();
    let leaving = NodeShutdown::new(dir.path());
    assert_eq!(leaving.last().end_time, None);
    let again = leaving.last();
    leaving.note(again);
    assert_eq!(
        std::fs::read_to_string(dir.path().join(STATE)).unwrap(),
        text
    );
}
