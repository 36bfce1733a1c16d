//! Measures reading and writing an object as JSON and converting it to protobuf and back,
//! in bytes of JSON. Every request and every start pays for this.

use std::hint::black_box;

use control_types::coerce::{coerce, complete};
use control_types::protobuf;
use control_types::registry;
use control_types::value::{Pick, Value};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn codec(c: &mut Criterion) {
    let Some(schema) = registry::schema_of("", "v1", "Pod") else {
        return;
    };
    let json: &[u8] = include_bytes!("../tests/objects/Pod.json");
    let mut wire = Vec::new();
    if let Err(error) = protobuf::envelope(json, "v1", "Pod", schema, &mut wire) {
        println!("the pod cannot be encoded: {error}");
        return;
    }
    let mut group = c.benchmark_group("pod");
    group.throughput(Throughput::Bytes(json.len() as u64));
    group.bench_function("json_to_protobuf", |b| {
        let mut out = Vec::with_capacity(json.len());
        b.iter(|| {
            out.clear();
            let done = protobuf::message(black_box(json), schema, &mut out);
            black_box((done.is_ok(), out.len()))
        });
    });
    group.bench_function("json_to_tree", |b| {
        b.iter(|| Value::from_slice(black_box(json)));
    });
    group.bench_function("json_to_part_of_tree", |b| {
        let pick = Pick::from_paths(["metadata.labels", "spec.nodeName", "status.phase"]);
        b.iter(|| Value::pick(black_box(json), &pick));
    });
    group.bench_function("json_to_tree_of_its_type", |b| {
        b.iter(|| {
            let mut tree = Value::from_slice(black_box(json)).unwrap_or_default();
            (coerce(&mut tree, schema).is_ok(), tree)
        });
    });
    let tree = Value::from_slice(json).unwrap_or_default();
    group.bench_function("clone_of_tree", |b| b.iter(|| black_box(&tree).clone()));
    group.bench_function("tree_to_json", |b| b.iter(|| black_box(&tree).to_vec()));
    group.bench_function("protobuf_to_tree", |b| {
        b.iter(|| protobuf::decode(black_box(&wire)));
    });
    let envelope = protobuf::Envelope::open(&wire).unwrap_or_default();
    group.bench_function("protobuf_to_json", |b| {
        let mut out = Vec::with_capacity(json.len());
        b.iter(|| {
            out.clear();
            let raw = black_box(envelope.raw);
            let done = protobuf::to_json(raw, schema, "v1", "Pod", &mut out);
            (done.is_ok(), out.len())
        });
    });
    group.bench_function("protobuf_to_json_by_tree", |b| {
        b.iter(|| {
            let mut tree = protobuf::decode(black_box(&wire)).unwrap_or_default();
            let found = coerce(&mut tree, schema);
            complete(&mut tree, schema);
            (found.is_ok(), tree.to_vec())
        });
    });
    group.finish();
}

criterion_group!(benches, codec);
criterion_main!(benches);
