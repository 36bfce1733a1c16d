//! Measures the cost of a policy per request: ten typical rules about a deployment, which
//! should take less than 100 µs together.

use control_cel::{Bindings, Budget, Env, Program, Type, Val, compile};
use control_types::value::Value;
use criterion::{Criterion, criterion_group, criterion_main};

const OBJECT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web",
"namespace":"shop","labels":{"app":"web","tier":"front","env":"prod"},"annotations":{"owner":"team-a"}},
"spec":{"replicas":5,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
"spec":{"serviceAccountName":"web","volumes":[{"name":"a","emptyDir":{}},{"name":"b","secret":{"secretName":"s"}}],
"containers":[
{"name":"web","image":"registry.example.com/web:1.2","resources":{"limits":{"memory":"512Mi","cpu":"500m"}},
"securityContext":{"privileged":false,"runAsNonRoot":true},"ports":[{"containerPort":8080}]},
{"name":"side","image":"registry.example.com/side:3.4","resources":{"limits":{"memory":"64Mi","cpu":"50m"}},
"securityContext":{"privileged":false,"runAsNonRoot":true}},
{"name":"log","image":"registry.example.com/log:5.6","resources":{"limits":{"memory":"64Mi","cpu":"50m"}},
"securityContext":{"privileged":false,"runAsNonRoot":true}}]}}}}"#;

const RULES: [&str; 10] = [
    "object.spec.replicas <= 10",
    "has(object.metadata.labels) && 'app' in object.metadata.labels",
    "object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
    "object.spec.template.spec.containers.all(c, !has(c.securityContext.privileged) || !c.securityContext.privileged)",
    "object.spec.template.spec.containers.all(c, has(c.resources.limits) && 'memory' in c.resources.limits)",
    "object.metadata.labels.env in ['dev', 'test', 'prod']",
    "object.metadata.name.matches('^[a-z][-a-z0-9]*$')",
    "!has(object.spec.template.spec.hostNetwork) || object.spec.template.spec.hostNetwork == false",
    "object.spec.template.spec.containers.all(c, quantity(c.resources.limits.memory).compareTo(quantity('1Gi')) <= 0)",
    "object.metadata.?annotations['owner'].orValue('').startsWith('team-')",
];

fn policy(criterion: &mut Criterion) {
    let env = Env::new().with("object", Type::Dyn);
    let programs: Vec<Program> = RULES
        .iter()
        .map(|rule| compile(rule, &env).expect("right"))
        .collect();
    let object = Value::from_slice(OBJECT.as_bytes()).expect("JSON");
    criterion.bench_function("ten rules", |bencher| {
        bencher.iter(|| {
            let bindings = Bindings::new().with("object", Val::tree(&object));
            let mut budget = Budget::new(Budget::OBJECT);
            for program in &programs {
                let verdict = program.evaluate(&bindings, &mut budget).expect("a verdict");
                assert_eq!(verdict.as_bool(), Some(true));
            }
            budget.left
        });
    });
    criterion.bench_function("compile one rule", |bencher| {
        bencher.iter(|| compile(RULES[4], &env).expect("right"));
    });
}

criterion_group!(benches, policy);
criterion_main!(benches);
