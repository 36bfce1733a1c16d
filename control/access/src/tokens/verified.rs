//! A cache of verified signatures. Verification costs as much as the rest of a read
//! request, and clients send the same token with every request. The claims are checked
//! each time.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use control_pki::ServiceAccountKeys;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use super::TokenError;
use super::claims::Claims;

/// How many are remembered, a few hundred bytes each.
const MOST: usize = 8192;

/// Claims by the digest of a token: the tokens themselves are not kept.
#[derive(Default)]
pub(super) struct VerifiedTokens(Mutex<FxHashMap<[u8; 32], Arc<Claims>>>);

impl std::fmt::Debug for VerifiedTokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Verified").finish_non_exhaustive()
    }
}

impl VerifiedTokens {
    /// Knows none any more.
    pub fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// The claims of a token that one of the keys signed.
    pub fn get_or_verify(
        &self,
        token: &str,
        current: &ArcSwap<ServiceAccountKeys>,
    ) -> Result<Arc<Claims>, TokenError> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let known = |this: &Self| {
            let all = this.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(&digest).map(Arc::clone)
        };
        if let Some(claims) = known(self) {
            return Ok(claims);
        }
        // It names this cluster as its issuer: whatever signed it is not this cluster.
        let keys = current.load_full();
        let claims = keys.verify(token).map_err(|_| TokenError::Forged)?;
        let claims = Arc::new(claims);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&keys, &current.load()) {
            // The key may have been removed in between.
            return Ok(claims);
        }
        if all.len() >= MOST {
            // Tokens come and go: those in use are soon known again.
            all.clear();
        }
        all.insert(digest, Arc::clone(&claims));
        Ok(claims)
    }
}
