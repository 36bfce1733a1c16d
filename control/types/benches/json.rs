//! Reading and writing objects: what every request and every start pays for.

use std::hint::black_box;

use control_types::coerce;
use control_types::schema::TypeId;
use control_types::value::Value;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// A pod as it is stored: spec, status and managed fields, some 4 KB.
fn pod() -> Vec<u8> {
    let text = include_str!("pod.json");
    Value::from_slice(text.as_bytes())
        .expect("a valid pod")
        .to_vec()
}

fn json(criterion: &mut Criterion) {
    let bytes = pod();
    let tree = Value::from_slice(&bytes).expect("a valid pod");
    let pod = TypeId::by_name("io.k8s.api.core.v1.Pod").expect("a known type");
    let mut group = criterion.benchmark_group("pod");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("parse", |bench| {
        bench.iter(|| Value::from_slice(black_box(&bytes)));
    });
    group.bench_function("write", |bench| {
        let mut out = Vec::with_capacity(bytes.len());
        bench.iter(|| {
            out.clear();
            black_box(&tree).write(&mut out);
        });
    });
    group.bench_function("clone", |bench| bench.iter(|| black_box(&tree).clone()));
    group.bench_function("parse and coerce", |bench| {
        bench.iter(|| {
            let mut tree = Value::from_slice(black_box(&bytes)).expect("a valid pod");
            coerce::coerce(&mut tree, pod).map(|found| found.len())
        });
    });
    group.finish();
}

criterion_group!(benches, json);
criterion_main!(benches);
