//! Encodes responses within a size limit.
//!
//! hickory's encoder compresses only the first 120 names of a message, so that each
//! further record of a headless Service repeats the Service's name: a message over TCP
//! was full after 1500 addresses, though it can contain 4000. Here names are looked up in
//! a map, each record is encoded once, and hickory encodes only the data of records.

use std::collections::HashMap;

use hickory_proto::ProtoError;
use hickory_proto::op::{Message, Query};
use hickory_proto::rr::rdata::{CNAME, NS, PTR};
use hickory_proto::rr::{Name, RData, Record};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder, NameEncoding};

/// The bytes of a message's header (RFC 1035, section 4.1.1).
const HEADER: usize = 12;
/// The byte of the header that has the TC bit, and the bit.
const TRUNCATED: (usize, u8) = (2, 0x02);
/// The offsets of the counts of answers, authorities and additional records in the
/// header.
const COUNTS: [usize; 3] = [6, 8, 10];
/// A name can be pointed to below this offset (RFC 1035, section 4.1.4).
const POINTERS_END: usize = 0x4000;
/// The bits that mark a pointer.
const POINTER: u16 = 0xc000;

/// Encodes a response in at most `limit` bytes. Additional records that do not fit are
/// left out silently, because the client did not ask for them (RFC 2181, section 9).
/// Answers that do not fit are left out, and the TC bit is set.
///
/// # Errors
/// When the response cannot be encoded.
pub(crate) fn encode_within(mut response: Message, limit: usize) -> Result<Vec<u8>, ProtoError> {
    let answers = std::mem::take(&mut response.answers);
    let authorities = std::mem::take(&mut response.authorities);
    let additionals = std::mem::take(&mut response.additionals);
    // The rest is the header, the question and the OPT record, which comes last.
    let mut bytes = response.to_vec()?;
    let options = bytes.split_off(bytes.len() - options_length(&response)?);
    let mut encoder = RecordEncoder {
        limit: limit.saturating_sub(options.len()),
        bytes,
        offsets: HashMap::new(),
        data: Vec::new(),
    };
    if let Some(question) = response.queries.first() {
        encoder.point_to_question(question);
    }
    let answered = encoder.push_fitting(&answers)?;
    let complete = answered == answers.len() && encoder.push_all(&authorities)?;
    let extra = complete && encoder.push_all(&additionals)?;
    let mut bytes = encoder.bytes;
    bytes.extend(options);
    if !complete {
        let (at, bit) = TRUNCATED;
        bytes[at] |= bit;
    }
    let counts = [
        answered,
        if complete { authorities.len() } else { 0 },
        if extra { additionals.len() } else { 0 },
    ];
    for (at, count) in COUNTS.into_iter().zip(counts) {
        // The OPT record is counted already.
        let counted = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let count = counted.saturating_add(u16::try_from(count).unwrap_or(u16::MAX));
        bytes[at..at + 2].copy_from_slice(&count.to_be_bytes());
    }
    Ok(bytes)
}

/// The length of a message's OPT record.
fn options_length(message: &Message) -> Result<usize, ProtoError> {
    let mut alone = Message::query();
    alone.edns.clone_from(&message.edns);
    Ok(alone.to_vec()?.len() - HEADER)
}

/// Appends records to a message.
struct RecordEncoder {
    /// How long the message may become.
    limit: usize,
    bytes: Vec<u8>,
    /// The offsets of names, and of their suffixes from each label on, in the message.
    offsets: HashMap<Vec<u8>, u16>,
    /// The data of one record.
    data: Vec<u8>,
}

impl RecordEncoder {
    /// Lets records point to the name of the question, which follows the header.
    fn point_to_question(&mut self, question: &Query) {
        let name = wire(question.name());
        let mut start = 0;
        while name.get(start).is_some_and(|length| *length > 0) {
            self.remember(&name[start..], HEADER + start);
            start += 1 + usize::from(name[start]);
        }
    }

    fn remember(&mut self, name: &[u8], offset: usize) {
        if let Ok(offset) = u16::try_from(offset)
            && usize::from(offset) < POINTERS_END
        {
            self.offsets.entry(name.to_vec()).or_insert(offset);
        }
    }

    /// Appends as many records as fit. Returns how many.
    fn push_fitting(&mut self, records: &[Record]) -> Result<usize, ProtoError> {
        for (count, record) in records.iter().enumerate() {
            let before = self.bytes.len();
            self.push(record)?;
            if self.bytes.len() > self.limit {
                self.bytes.truncate(before);
                return Ok(count);
            }
        }
        Ok(records.len())
    }

    /// Appends all records, or none if they do not fit. Nothing may be appended after
    /// that: names may point to removed ones.
    fn push_all(&mut self, records: &[Record]) -> Result<bool, ProtoError> {
        let before = self.bytes.len();
        let all = self.push_fitting(records)? == records.len();
        if !all {
            self.bytes.truncate(before);
        }
        Ok(all)
    }

    fn push(&mut self, record: &Record) -> Result<(), ProtoError> {
        self.push_name(&record.name);
        let kind = u16::from(record.record_type());
        self.bytes.extend(kind.to_be_bytes());
        let class = u16::from(record.dns_class);
        self.bytes.extend(class.to_be_bytes());
        self.bytes.extend(record.ttl.to_be_bytes());
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        match &record.data {
            RData::CNAME(CNAME(name)) | RData::NS(NS(name)) | RData::PTR(PTR(name)) => {
                self.push_name(name);
            }
            data => {
                self.data.clear();
                let mut encoder = BinEncoder::new(&mut self.data);
                // Pointers would count from the beginning of the data.
                data.emit(&mut encoder.with_name_encoding(NameEncoding::Uncompressed))?;
                self.bytes.extend(&self.data);
            }
        }
        // hickory bounds data by what two bytes can say.
        let length = u16::try_from(self.bytes.len() - start - 2).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Appends a name, with a pointer to its longest suffix in the message.
    fn push_name(&mut self, name: &Name) {
        let name = wire(name);
        let mut start = 0;
        while name.get(start).is_some_and(|length| *length > 0) {
            if let Some(offset) = self.offsets.get(&name[start..]) {
                self.bytes.extend((POINTER | offset).to_be_bytes());
                return;
            }
            self.remember(&name[start..], self.bytes.len());
            let next = start + 1 + usize::from(name[start]);
            self.bytes.extend(&name[start..next]);
            start = next;
        }
        self.bytes.push(0);
    }
}

/// A name without compression.
fn wire(name: &Name) -> Vec<u8> {
    let mut wire = Vec::with_capacity(name.len());
    for label in name {
        // A label has at most 63 bytes.
        wire.push(u8::try_from(label.len()).unwrap_or_default());
        wire.extend(label);
    }
    wire.push(0);
    wire
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use hickory_proto::op::{Edns, OpCode};
    use hickory_proto::rr::RecordType;
    use hickory_proto::rr::rdata::{A, SOA, SRV, TXT};
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_str(text).expect("a name")
    }

    fn response(answers: usize, additionals: usize) -> Message {
        let name = name("db.default.svc.cluster.local.");
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
    fn additional_records_are_left_out_without_a_sign() {
        let message = fitted(20, 100, 512);
        assert!(!message.metadata.truncation);
        assert_eq!((message.answers.len(), message.additionals.len()), (20, 0));
    }

    #[test]
    fn tcp_holds_four_thousand_addresses_and_more_are_cut() {
        let limit = usize::from(u16::MAX);
        let whole = fitted(4000, 0, limit);
        assert_eq!(
            (whole.answers.len(), whole.metadata.truncation),
            (4000, false)
        );
        let cut = fitted(6000, 0, limit);
        assert!(cut.metadata.truncation);
        assert_eq!(cut.answers.len(), (limit - 57) / 16);
    }

    /// Few names, so that they share ends.
    fn any_name() -> impl Strategy<Value = Name> {
        let label = proptest::sample::select(vec!["a", "B", "db", "local", "svc"]);
        proptest::collection::vec(label, 0..4).prop_map(|labels| {
            let mut text = labels.join(".");
            text.push('.');
            name(&text)
        })
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let data = (any_name(), any_name(), 0_u8..6).prop_map(|(one, other, kind)| match kind {
            0 => RData::CNAME(CNAME(one)),
            1 => RData::NS(NS(one)),
            2 => RData::PTR(PTR(one)),
            3 => RData::SRV(SRV::new(1, 2, 3, one)),
            4 => RData::SOA(SOA::new(one, other, 1, 2, 3, 4, 5)),
            _ => RData::TXT(TXT::new(vec![one.to_string()])),
        });
        (any_name(), 0_u32..9, data).prop_map(|(name, ttl, data)| {
            let mut record = Record::from_rdata(name, ttl, data);
            record.ttl = ttl;
            record
        })
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_by_hickory(
            question in any_name(),
            answers in proptest::collection::vec(any_record(), 0..30),
            authorities in proptest::collection::vec(any_record(), 0..3),
            additionals in proptest::collection::vec(any_record(), 0..5),
            with_options: bool,
            limit in 300_usize..2000,
        ) {
            let mut message = Message::response(7, OpCode::Query);
            message.add_query(Query::query(question, RecordType::A));
            message.add_answers(answers.clone());
            message.add_authorities(authorities.clone());
            message.add_additionals(additionals.clone());
            if with_options {
                message.set_edns(Edns::new());
            }
            let bytes = encode_within(message.clone(), limit).expect("encoded");
            prop_assert!(bytes.len() <= limit);
            let decoded = Message::from_vec(&bytes).expect("a message");
            prop_assert_eq!(&decoded.queries, &message.queries);
            prop_assert_eq!(decoded.edns.is_some(), with_options);
            let kept = decoded.answers.len();
            prop_assert_eq!(&decoded.answers, &answers[..kept]);
            if decoded.metadata.truncation {
                prop_assert!(decoded.authorities.is_empty() && decoded.additionals.is_empty());
            } else {
                prop_assert_eq!(kept, answers.len());
                prop_assert_eq!(&decoded.authorities, &authorities);
                if !decoded.additionals.is_empty() {
                    prop_assert_eq!(&decoded.additionals, &additionals);
                }
            }
        }
    }
}
