//! The SnapshotMetadata service: which blocks of a snapshot hold data, and
//! which changed since an older one.

use csi_api as api;
use futures::future::BoxFuture;
use tonic::body::Body;

use super::controller::snapshot_id;
use super::{Answer, Services, unimplemented};
use crate::backend::Extent;
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::request::size::to_wire;

/// Ranges in one message, unless the caller wants fewer.
const BATCH: usize = 1024;

/// The SnapshotMetadata service.
#[derive(Clone)]
pub(super) struct SnapshotMetadata(pub(super) Services);

impl SnapshotMetadata {
    pub(super) fn answer(
        &self,
        method: &str,
        request: http::Request<Body>,
    ) -> BoxFuture<'static, Answer> {
        match method {
            "GetMetadataAllocated" => self.0.streaming("GetMetadataAllocated", request, allocated),
            "GetMetadataDelta" => self.0.streaming("GetMetadataDelta", request, delta),
            _ => unimplemented(method),
        }
    }
}

/// Returns the start of a listing, and the number of ranges per message.
fn bounds(start: i64, size: u64, max_results: i32) -> Result<(u64, usize)> {
    let offset = u64::try_from(start).ok().filter(|it| *it <= size);
    let offset = offset.ok_or_else(|| Error::OutOfRange {
        id: format!("starting_offset {start}"),
        reason: format!("the snapshot has {size} bytes"),
    })?;
    let limit = usize::try_from(max_results).map_err(|_| {
        Error::invalid(
            "max_results",
            max_results.to_string(),
            "must not be negative",
        )
    })?;
    Ok((offset, if limit == 0 { BATCH } else { limit.min(BATCH) }))
}

/// Cuts ranges to the snapshot, from an offset on.
fn clip(extents: Vec<Extent>, offset: u64, size: u64) -> Vec<api::BlockMetadata> {
    let clipped = extents.into_iter().filter_map(|extent| {
        let start = extent.offset.max(offset);
        let end = (extent.offset + extent.length).min(size);
        (start < end).then(|| api::BlockMetadata {
            byte_offset: to_wire(start),
            size_bytes: to_wire(end - start),
        })
    });
    clipped.collect()
}

/// Splits ranges into messages; there is one at least.
fn batches(blocks: &[api::BlockMetadata], limit: usize) -> Vec<Vec<api::BlockMetadata>> {
    if blocks.is_empty() {
        return vec![Vec::new()];
    }
    blocks.chunks(limit).map(<[_]>::to_vec).collect()
}

fn allocated(
    driver: &Driver,
    request: api::GetMetadataAllocatedRequest,
) -> Result<Vec<api::GetMetadataAllocatedResponse>> {
    let id = snapshot_id(driver, "snapshot_id", request.snapshot_id)?;
    let (size, extents) = driver.snapshot_blocks(&id, None)?;
    let (offset, limit) = bounds(request.starting_offset, size, request.max_results)?;
    let blocks = clip(extents, offset, size);
    let message = |block_metadata| api::GetMetadataAllocatedResponse {
        block_metadata_type: api::BlockMetadataType::VariableLength.into(),
        volume_capacity_bytes: to_wire(size),
        block_metadata,
    };
    Ok(batches(&blocks, limit).into_iter().map(message).collect())
}

fn delta(
    driver: &Driver,
    request: api::GetMetadataDeltaRequest,
) -> Result<Vec<api::GetMetadataDeltaResponse>> {
    let base = snapshot_id(driver, "base_snapshot_id", request.base_snapshot_id)?;
    let target = snapshot_id(driver, "target_snapshot_id", request.target_snapshot_id)?;
    let (size, extents) = driver.snapshot_blocks(&target, Some(&base))?;
    let (offset, limit) = bounds(request.starting_offset, size, request.max_results)?;
    let blocks = clip(extents, offset, size);
    let message = |block_metadata| api::GetMetadataDeltaResponse {
        block_metadata_type: api::BlockMetadataType::VariableLength.into(),
        volume_capacity_bytes: to_wire(size),
        block_metadata,
    };
    Ok(batches(&blocks, limit).into_iter().map(message).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_snapshot_and_begin_at_the_offset() {
        let extents = vec![
            Extent {
                offset: 0,
                length: 10,
            },
            Extent {
                offset: 20,
                length: 10,
            },
            Extent {
                offset: 40,
                length: 100,
            },
        ];
        let blocks = clip(extents, 25, 50);
        let pairs: Vec<_> = blocks
            .iter()
            .map(|it| (it.byte_offset, it.size_bytes))
            .collect();
        assert_eq!(pairs, [(25, 5), (40, 10)]);
        assert_eq!(batches(&blocks, 1).len(), 2);
        assert_eq!(batches(&[], 1).len(), 1);
    }

    #[test]
    fn an_offset_beyond_the_snapshot_is_out_of_range() {
        assert!(bounds(51, 50, 0).is_err());
        assert!(bounds(-1, 50, 0).is_err());
        assert_eq!(bounds(50, 50, 5).unwrap(), (50, 5));
    }
}
