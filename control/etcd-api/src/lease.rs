//! The service `etcdserverpb.Lease`.

use control_store::Store as _;
use tonic::Status;

use crate::fault;
use crate::messages as pb;
use crate::service::{Service, unsigned};

/// The shortest and the longest life of a lease, in seconds: etcd's, with its default
/// election timeout.
const MIN_TTL: i64 = 2;
const MAX_TTL: i64 = 9_000_000_000;

impl Service {
    pub(crate) async fn lease_grant(
        self,
        request: pb::LeaseGrantRequest,
    ) -> Result<pb::LeaseGrantResponse, Status> {
        if request.ttl > MAX_TTL {
            return Err(fault::lease_ttl_too_large());
        }
        if request.id < 0 {
            return Err(Status::invalid_argument(
                "the number of a lease must not be negative: choose another, or 0",
            ));
        }
        let ttl = request.ttl.max(MIN_TTL);
        let id = (request.id != 0).then_some(request.id);
        let id = self
            .store
            .grant_lease(id, unsigned(ttl))
            .await
            .map_err(fault::status)?;
        Ok(pb::LeaseGrantResponse {
            header: Some(self.header(self.store.revision())),
            id,
            ttl,
            error: String::new(),
        })
    }

    pub(crate) async fn lease_revoke(
        self,
        request: pb::LeaseRevokeRequest,
    ) -> Result<pb::LeaseRevokeResponse, Status> {
        let revision = self.store.revoke_lease(request.id).await;
        Ok(pb::LeaseRevokeResponse {
            header: Some(self.header(revision.map_err(fault::status)?)),
        })
    }

    /// Renews a lease; one that does not exist has no time left, which is not an error.
    pub(crate) async fn lease_keep_alive(
        self,
        request: pb::LeaseKeepAliveRequest,
    ) -> Result<pb::LeaseKeepAliveResponse, Status> {
        let ttl = self.store.renew_lease(request.id).await;
        Ok(pb::LeaseKeepAliveResponse {
            header: Some(self.header(self.store.revision())),
            id: request.id,
            ttl: ttl.map_err(fault::status)?.unwrap_or_default(),
        })
    }

    pub(crate) async fn lease_time_to_live(
        self,
        request: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Status> {
        let status = self.store.lease_status(request.id, request.keys).await;
        let header = Some(self.header(self.store.revision()));
        Ok(match status.map_err(fault::status)? {
            Some(status) => pb::LeaseTimeToLiveResponse {
                header,
                id: request.id,
                ttl: status.remaining,
                granted_ttl: status.granted_ttl,
                keys: status.keys,
            },
            None => pb::LeaseTimeToLiveResponse {
                header,
                id: request.id,
                ttl: -1,
                ..pb::LeaseTimeToLiveResponse::default()
            },
        })
    }

    pub(crate) async fn lease_leases(
        self,
        _: pb::LeaseLeasesRequest,
    ) -> Result<pb::LeaseLeasesResponse, Status> {
        let leases = self.store.leases().await.map_err(fault::status)?;
        let leases = leases.into_iter().map(|id| pb::LeaseStatus { id });
        Ok(pb::LeaseLeasesResponse {
            header: Some(self.header(self.store.revision())),
            leases: leases.collect(),
        })
    }
}
