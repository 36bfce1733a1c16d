//! Other servers that are asked by `POST` of a review: who somebody is, what he may do,
//! which images may run.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use control_types::value::Value;

use crate::egress::Dialer;
use crate::egress::kubeconfig::{Error, Remote};

/// How often a server is asked that cannot answer, and how long is waited before
/// the second time; then half as long again each time.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// One server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reviewer {
    remote: Remote,
    timeout: Duration,
    pause: Duration,
}

// === impl Reviewer ===

impl Reviewer {
    /// The server of a kubeconfig's current context, which may take `timeout` for an
    /// answer.
    ///
    /// # Errors
    /// When the file cannot be read or used.
    pub fn open(path: &Path, timeout: Duration, dialer: Dialer) -> Result<Self, Error> {
        Ok(Self {
            remote: Remote::open(path, dialer)?,
            timeout,
            pause: PAUSE,
        })
    }

    /// The same server, with this pause before it is asked a second time.
    #[must_use]
    pub fn pausing(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Posts a review and returns the answer; a server that is overburdened or
    /// broken is asked again a few times.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn review(&self, review: &Value) -> Result<Value, Error> {
        let bytes = Bytes::from(review.to_vec());
        let mut pause = self.pause;
        let mut attempt = 1;
        loop {
            let why = match self.remote.post(bytes.clone(), self.timeout).await {
                Ok(answer) => {
                    return Value::from_slice(&answer)
                        .map_err(|error| self.remote.unreadable(error.to_string()));
                }
                Err(why) => why,
            };
            if attempt == ATTEMPTS || !may_pass(&why) {
                return Err(why);
            }
            attempt += 1;
            tokio::time::sleep(pause).await;
            pause = pause * 3 / 2;
        }
    }
}

/// Whether another attempt may succeed.
fn may_pass(why: &Error) -> bool {
    match why {
        Error::Refused { code, .. } => matches!(code, 500 | 429 | 504),
        Error::Answer { .. } => true,
        _ => false,
    }
}
