//! The service `etcdserverpb.KV`.

use bytes::Bytes;
use control_store::txn::{
    Compare, DeleteKeys, Keys, LeaseChoice, Op, OpAnswer, PutKey, Query, Relation, RevisionBounds,
    Selection, SortOrder, SortTarget, Target, Txn, lease_id,
};
use control_store::{KeyValue, Store as _};
use tonic::Status;

use crate::fault;
use crate::messages as pb;
use crate::service::{Service, signed, unsigned};

/// How many steps, and how many conditions, a transaction may have on each level: etcd's
/// default (`--max-txn-ops`).
const MAX_TXN_OPS: usize = 128;

impl Service {
    pub(crate) async fn range(
        self,
        request: pb::RangeRequest,
    ) -> Result<pb::RangeResponse, Status> {
        let selection = self
            .store
            .query(query(request)?)
            .await
            .map_err(fault::status)?;
        let header = self.header(selection.revision);
        Ok(range_response(selection, header))
    }

    pub(crate) async fn put(self, request: pb::PutRequest) -> Result<pb::PutResponse, Status> {
        let mut answer = self.single(Op::Put(put(request)?)).await?;
        answer.response_put.take().ok_or_else(unexpected)
    }

    pub(crate) async fn delete_range(
        self,
        request: pb::DeleteRangeRequest,
    ) -> Result<pb::DeleteRangeResponse, Status> {
        let mut answer = self.single(Op::Delete(delete(request)?)).await?;
        answer.response_delete_range.take().ok_or_else(unexpected)
    }

    /// Performs a single operation; the header of its answer is complete.
    async fn single(&self, op: Op) -> Result<pb::ResponseOp, Status> {
        let answer = self
            .store
            .transact(Txn::single(op))
            .await
            .map_err(fault::status)?;
        let header = self.header(answer.revision);
        let first = answer.answers.into_iter().next().ok_or_else(unexpected)?;
        let mut response = response_op(first);
        if let Some(put) = &mut response.response_put {
            put.header = Some(header);
        } else if let Some(delete) = &mut response.response_delete_range {
            delete.header = Some(header);
        }
        Ok(response)
    }

    pub(crate) async fn txn(self, request: pb::TxnRequest) -> Result<pb::TxnResponse, Status> {
        let txn = txn(request, MAX_TXN_OPS)?;
        let answer = self.store.transact(txn).await.map_err(fault::status)?;
        Ok(pb::TxnResponse {
            header: Some(self.header(answer.revision)),
            succeeded: answer.succeeded,
            responses: answer.answers.into_iter().map(response_op).collect(),
        })
    }

    pub(crate) async fn compact(
        self,
        request: pb::CompactionRequest,
    ) -> Result<pb::CompactionResponse, Status> {
        self.store
            .compact(unsigned(request.revision))
            .await
            .map_err(fault::status)?;
        Ok(pb::CompactionResponse {
            header: Some(self.header(self.store.revision())),
        })
    }
}

/// The answer does not belong to the request.
fn unexpected() -> Status {
    Status::internal("the store gave an answer of another kind")
}

/// The keys of a request: one, an interval, or all from a key on (its end is a zero byte).
pub(crate) fn keys(key: Bytes, range_end: Bytes) -> Keys {
    match &*range_end {
        [] => Keys::One(key),
        [0] => Keys::Interval {
            start: key,
            end: Bytes::new(),
        },
        _ => Keys::Interval {
            start: key,
            end: range_end,
        },
    }
}

fn checked_keys(key: Bytes, range_end: Bytes) -> Result<Keys, Status> {
    if key.is_empty() {
        return Err(fault::empty_key());
    }
    Ok(keys(key, range_end))
}

fn query(request: pb::RangeRequest) -> Result<Query, Status> {
    Ok(Query {
        keys: checked_keys(request.key, request.range_end)?,
        limit: usize::try_from(request.limit).unwrap_or(0),
        at: u64::try_from(request.revision).ok().filter(|at| *at != 0),
        sort_target: match request.sort_target {
            0 => SortTarget::Key,
            1 => SortTarget::Version,
            2 => SortTarget::Create,
            3 => SortTarget::Mod,
            4 => SortTarget::Value,
            _ => return Err(fault::invalid_sort_option()),
        },
        sort_order: match request.sort_order {
            0 => SortOrder::None,
            1 => SortOrder::Ascend,
            2 => SortOrder::Descend,
            _ => return Err(fault::invalid_sort_option()),
        },
        keys_only: request.keys_only,
        count_only: request.count_only,
        mod_revision: RevisionBounds {
            min: unsigned(request.min_mod_revision),
            max: unsigned(request.max_mod_revision),
        },
        create_revision: RevisionBounds {
            min: unsigned(request.min_create_revision),
            max: unsigned(request.max_create_revision),
        },
    })
}

fn put(request: pb::PutRequest) -> Result<PutKey, Status> {
    if request.key.is_empty() {
        return Err(fault::empty_key());
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(fault::value_provided());
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(fault::lease_provided());
    }
    Ok(PutKey {
        key: request.key,
        value: (!request.ignore_value).then_some(request.value),
        lease: match request.lease {
            _ if request.ignore_lease => LeaseChoice::Keep,
            0 => LeaseChoice::Detach,
            id => LeaseChoice::Attach(id),
        },
        previous: request.prev_kv,
    })
}

fn delete(request: pb::DeleteRangeRequest) -> Result<DeleteKeys, Status> {
    Ok(DeleteKeys {
        keys: checked_keys(request.key, request.range_end)?,
        previous: request.prev_kv,
    })
}

/// Checks a transaction; `left` is how many steps its level may have.
fn txn(request: pb::TxnRequest, left: usize) -> Result<Txn, Status> {
    let most = request.compare.len();
    let most = most.max(request.success.len()).max(request.failure.len());
    if most > left {
        return Err(fault::too_many_operations());
    }
    let left = left - most;
    let ops = |ops: Vec<pb::RequestOp>| -> Result<Vec<Op>, Status> {
        ops.into_iter().map(|request| op(request, left)).collect()
    };
    Ok(Txn {
        compare: request
            .compare
            .into_iter()
            .map(compare)
            .collect::<Result<_, _>>()?,
        success: ops(request.success)?,
        failure: ops(request.failure)?,
    })
}

fn op(request: pb::RequestOp, left: usize) -> Result<Op, Status> {
    match request {
        pb::RequestOp {
            request_range: Some(request),
            ..
        } => query(request).map(Op::Query),
        pb::RequestOp {
            request_put: Some(request),
            ..
        } => put(request).map(Op::Put),
        pb::RequestOp {
            request_delete_range: Some(request),
            ..
        } => delete(request).map(Op::Delete),
        pb::RequestOp {
            request_txn: Some(request),
            ..
        } => txn(request, left).map(Op::Txn),
        _ => Err(fault::key_not_found()),
    }
}

fn compare(request: pb::Compare) -> Result<Compare, Status> {
    let unknown = |what| Status::invalid_argument(format!("unknown {what} of a comparison"));
    Ok(Compare {
        keys: checked_keys(request.key, request.range_end)?,
        target: match request.target {
            0 => Target::Version(request.version),
            1 => Target::Create(request.create_revision),
            2 => Target::Mod(request.mod_revision),
            3 => Target::Value(request.value),
            4 => Target::Lease(request.lease),
            _ => return Err(unknown("target")),
        },
        relation: match request.result {
            0 => Relation::Equal,
            1 => Relation::Greater,
            2 => Relation::Less,
            3 => Relation::NotEqual,
            _ => return Err(unknown("result")),
        },
    })
}

/// A step's own header has nothing but the revision, as etcd's.
fn response_op(answer: OpAnswer) -> pb::ResponseOp {
    let header = |revision| pb::ResponseHeader {
        revision: signed(revision),
        ..pb::ResponseHeader::default()
    };
    let mut response = pb::ResponseOp::default();
    match answer {
        OpAnswer::Query(selection) => {
            let header = header(selection.revision);
            response.response_range = Some(range_response(selection, header));
        }
        OpAnswer::Put { revision, previous } => {
            response.response_put = Some(pb::PutResponse {
                header: Some(header(revision)),
                prev_kv: previous.map(key_value),
            });
        }
        OpAnswer::Delete {
            revision,
            deleted,
            previous,
        } => {
            response.response_delete_range = Some(pb::DeleteRangeResponse {
                header: Some(header(revision)),
                deleted: signed(deleted),
                prev_kvs: previous.into_iter().map(key_value).collect(),
            });
        }
        OpAnswer::Txn { succeeded, answers } => {
            response.response_txn = Some(pb::TxnResponse {
                header: Some(header(0)),
                succeeded,
                responses: answers.into_iter().map(response_op).collect(),
            });
        }
    }
    response
}

fn range_response(selection: Selection, header: pb::ResponseHeader) -> pb::RangeResponse {
    pb::RangeResponse {
        header: Some(header),
        kvs: selection.kvs.into_iter().map(key_value).collect(),
        more: selection.more,
        count: signed(selection.count),
    }
}

pub(crate) fn key_value(kv: KeyValue) -> pb::KeyValue {
    pb::KeyValue {
        key: kv.key,
        create_revision: signed(kv.create_revision),
        mod_revision: signed(kv.mod_revision),
        version: signed(kv.version),
        value: kv.value,
        lease: lease_id(kv.lease),
    }
}
