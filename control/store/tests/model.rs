//! Compares the embedded store with the model.

mod common;

use common::{Fixture, ops, run};
use control_store::embedded::{EmbeddedStore, Options};
use proptest::prelude::*;

struct File(tempfile::TempDir);

impl Fixture for File {
    type Its = EmbeddedStore;

    const EMPTY_IS_SEEN: bool = true;

    async fn open(&mut self) -> EmbeddedStore {
        let options = Options {
            retain: None,
            cache_bytes: 1 << 20,
            ..Options::default()
        };
        EmbeddedStore::open(self.0.path().join("store.redb"), options).expect("a store")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_operations_answers_as_the_model(ops in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let file = File(tempfile::tempdir().expect("a directory"));
        runtime.block_on(run(file, ops))?;
    }
}
