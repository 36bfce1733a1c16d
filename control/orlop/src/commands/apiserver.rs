//! `orlop apiserver`: the API server alone, with its embedded store.

use crate::{api, error::Error, run};

/// Serves until a signal, then lets open requests finish.
///
/// # Errors
/// What cannot be used: folder, store, certificates, address.
pub async fn run(options: api::Options) -> Result<(), Error> {
    let shutdown = run::shutdown_on_signals()?;
    options.open(true).await?.serve(shutdown, async {}).await;
    Ok(())
}
