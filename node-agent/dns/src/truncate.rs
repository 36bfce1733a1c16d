//! Answers that must fit.

use hickory_proto::ProtoError;
use hickory_proto::op::Message;

/// Encodes a response in at most `limit` bytes. Additional records go first, without a
/// word, for nobody asked for them (RFC 2181, section 9); then the answers that do not
/// fit, and the TC bit is set.
///
/// # Errors
/// When the response cannot be encoded.
pub(crate) fn encode_within(response: Message, limit: usize) -> Result<Vec<u8>, ProtoError> {
    // More than 65535 bytes cannot be encoded at all.
    if let Ok(whole) = response.to_vec()
        && whole.len() <= limit
    {
        return Ok(whole);
    }
    let mut response = response;
    response.additionals.clear();
    if let Ok(without) = response.to_vec()
        && without.len() <= limit
    {
        return Ok(without);
    }
    response.metadata.truncation = true;
    response.authorities.clear();
    let answers = std::mem::take(&mut response.answers);
    let mut fitting = response.to_vec()?;
    // So many fit, and so many do not.
    let (mut fits, mut fails) = (0, answers.len() + 1);
    while fails - fits > 1 {
        let tried = fits + (fails - fits) / 2;
        response.answers = answers.iter().take(tried).cloned().collect();
        match response.to_vec() {
            Ok(encoded) if encoded.len() <= limit => (fits, fitting) = (tried, encoded),
            _ => fails = tried,
        }
    }
    Ok(fitting)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use hickory_proto::op::{Edns, OpCode, Query};
    use hickory_proto::rr::rdata::A;
    use hickory_proto::rr::{Name, RData, Record, RecordType};

    use super::*;

    fn response(answers: usize, additionals: usize) -> Message {
        let name = Name::from_str("db.default.svc.cluster.local.").expect("a name");
        let records = |count: usize| {
            (0..count).map(|number| {
                let [_, _, high, low] = u32::try_from(number).unwrap_or_default().to_be_bytes();
                Record::from_rdata(name.clone(), 5, RData::A(A::new(10, 1, high, low)))
            })
        };
        let mut message = Message::response(7, OpCode::Query);
        message.add_query(Query::query(name.clone(), RecordType::A));
        message.add_answers(records(answers));
        message.add_additionals(records(additionals));
        message.set_edns(Edns::new());
        message
    }

    fn fitted(answers: usize, additionals: usize, limit: usize) -> Message {
        let bytes = encode_within(response(answers, additionals), limit).expect("encoded");
        assert!(bytes.len() <= limit, "{} of {limit}", bytes.len());
        Message::from_vec(&bytes).expect("a message")
    }

    #[test]
    fn a_response_is_cut_only_as_far_as_it_must_be() {
        for limit in 512..1300 {
            let message = fitted(100, 0, limit);
            assert!(message.metadata.truncation);
            assert!(message.edns.is_some());
            let kept = message.answers.len();
            // Header, question and OPT take 57 bytes, and a record with a
            // compressed name 16.
            assert_eq!(kept, (limit - 57) / 16, "at {limit}");
        }
        assert!(!fitted(20, 0, 512).metadata.truncation);
    }

    #[test]
    fn additional_records_go_without_a_word() {
        let message = fitted(20, 100, 512);
        assert!(!message.metadata.truncation);
        assert_eq!((message.answers.len(), message.additionals.len()), (20, 0));
    }

    #[test]
    fn what_is_too_large_for_tcp_is_cut_too() {
        let message = fitted(6000, 0, usize::from(u16::MAX));
        assert!(message.metadata.truncation);
        assert!(message.answers.len() > 500, "{}", message.answers.len());
    }
}
