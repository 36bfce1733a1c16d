use std::{net::IpAddr, path::Path, time::Duration};

use cni_addresses::{Holder, wire::Attach as Question};
use nix::net::if_::if_nametoindex;

use super::{
    kernel::tests::{in_own, ip, other},
    *,
};
use crate::policy::{AdmitRequest, admit::AdmitError, gate};

fn question(number: usize) -> Question {
    Question {
        holder: Holder {
            container_id: format!("c{number}"),
            ifname: "eth0".to_owned(),
        },
        pod: wire::Pod {
            namespace: "x".to_owned(),
            name: format!("p{number}"),
        },
        uid: "u".to_owned(),
        mtu: 1_450,
        ..Question::default()
    }
}

fn pool(range: &str) -> Pool {
    Pool {
        name: "p".to_owned(),
        ranges: vec![range.parse().expect("a range")],
    }
}

struct World {
    attach: InterfaceBuilder,
    store: Arc<Store>,
    asked: mpsc::Receiver<AdmitRequest>,
    wished: mpsc::Receiver<DatapathRequest>,
    folder: tempfile::TempDir,
    pods: Vec<OwnedFd>,
    end: CancellationToken,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Arc::new(Store::open(folder.path(), "net").expect("a store"));
        let end = CancellationToken::new();
        let pins = folder.path().join("pins");
        let release = InterfaceRemover::start(store.clone(), pins.clone(), end.clone());
        let (gate, asked) = gate();
        let (wishes, wished) = mpsc::channel(1);
        let joined = AttachContext {
            gate: Some(gate),
            wishes,
        };
        Self {
            attach: InterfaceBuilder::start(store.clone(), pins, joined, release, end.clone()),
            store,
            asked,
            wished,
            folder,
            pods: Vec::new(),
            end,
        }
    }

    fn attach(&mut self, question: Question, pool: Pool) -> tokio::task::JoinHandle<Answer> {
        let attach = self.attach.clone();
        let netns = other();
        // With its last file it ends, and with it the pair.
        self.pods.push(netns.try_clone().expect("a file"));
        tokio::spawn(async move { attach.attach(question, pool, netns).await })
    }
}

/// In a network namespace, with a runtime whose threads are all in it.
fn run(work: impl AsyncFnOnce() + Send) {
    in_own(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(work());
    });
}

fn is_written(folder: &Path, address: IpAddr) -> bool {
    let path = folder.join("net").join(address.to_string());
    std::fs::symlink_metadata(path).is_ok()
}

#[test]
fn a_crowd_is_attached_and_each_is_down_until_policy_agrees() {
    const CROWD: usize = 70;
    run(async || {
        let mut world = World::new();
        let all: Vec<_> = (0..CROWD)
            .map(|number| world.attach(question(number), pool("10.0.0.0/24")))
            .collect();
        let mut admitted = std::collections::BTreeSet::new();
        for _ in 0..CROWD {
            let asked = world.asked.recv().await.expect("asked");
            let interface = &asked.interface;
            let [address] = interface.addresses[..] else {
                panic!("{interface:?}");
            };
            assert!(admitted.insert(address), "{address} is given twice");
            assert!(is_written(world.folder.path(), address));
            assert_eq!((&*interface.namespace, &*interface.uid), ("x", "u"));
            let link = &ip(&format!("-j link show {}", interface.device))[0];
            assert_eq!(link["operstate"], "DOWN", "{link}");
            asked.answer.send(Ok(())).expect("somebody waits");
        }
        for (number, answer) in all.into_iter().enumerate() {
            let answer = answer.await.expect("no panic");
            assert_eq!(answer.refused, None);
            let holder = question(number).holder;
            let attached = answer.attached.expect("an interface");
            assert_eq!(attached.host.mac, holder.host_mac());
            assert_eq!(
                (attached.pod.mac, attached.pod.mtu),
                (holder.pod_mac(), 1_450)
            );
            assert_eq!(
                world.store.addresses_of(&holder).expect("read"),
                answer.addresses
            );
            let link = &ip(&format!("-j link show {}", holder.device()))[0];
            assert_eq!(link["operstate"], "UP", "{link}");
        }
        // Who brings programs to devices hears of all.
        let mut told = std::collections::BTreeSet::new();
        while told.len() < CROWD {
            let wish = tokio::time::timeout(Duration::from_secs(9), world.wished.recv()).await;
            let Some(DatapathRequest::Devices(devices)) = wish.expect("in time") else {
                panic!("another wish");
            };
            for device in devices {
                assert_eq!(if_nametoindex(device.name.as_str()), Ok(device.index));
                told.insert(device.index);
            }
        }
        world.end.cancel();
    });
}

#[test]
fn nothing_is_left_of_what_is_refused_and_who_has_something_keeps_it() {
    run(async || {
        let mut world = World::new();
        let refused = world.attach(question(0), pool("10.0.0.0/30"));
        let asked = world.asked.recv().await.expect("asked");
        let device = asked.interface.device.clone();
        asked.answer.send(Err(AdmitError::Compiling)).expect("told");
        let refusal = refused.await.expect("no panic").refused.expect("refused");
        let reason = AdmitError::Compiling.to_string();
        assert_eq!((refusal.code, refusal.reason), (wire::LATER, reason));
        assert!(if_nametoindex(device.as_str()).is_err());
        let holder = question(0).holder;
        assert!(world.store.addresses_of(&holder).expect("read").is_empty());

        // Once more, with success; and again, as a runtime may ask.
        let mut addresses = Vec::new();
        for _ in 0..2 {
            let again = world.attach(question(0), pool("10.0.0.4/30"));
            let asked = world.asked.recv().await.expect("asked");
            asked.answer.send(Ok(())).expect("told");
            let answer = again.await.expect("no panic");
            assert_eq!(answer.refused, None);
            addresses.extend(answer.addresses);
        }
        assert_eq!(addresses, [IpAddr::from([10, 0, 0, 6]); 2]);
        // Of an empty pool nobody gets any, and nobody loses any.
        let full = world.attach(question(1), pool("10.0.0.4/30")).await;
        let code = full.expect("no panic").refused.expect("refused").code;
        assert_eq!(code, wire::EXHAUSTED);
        assert_eq!(
            world.store.addresses_of(&holder).expect("read"),
            addresses[..1]
        );
        assert!(if_nametoindex(holder.device().as_str()).is_ok());

        // A namespace that is none.
        let file = std::fs::File::open("/dev/null").expect("a file");
        let attach = world
            .attach
            .attach(question(2), pool("10.0.1.0/24"), file.into());
        let refusal = attach.await.refused.expect("refused");
        assert_eq!(refusal.code, wire::NETLINK, "{}", refusal.reason);
        let holder = question(2).holder;
        assert!(world.store.addresses_of(&holder).expect("read").is_empty());
        world.end.cancel();
        let ending = world
            .attach
            .attach(question(3), pool("10.0.1.0/24"), other());
        assert!(ending.await.refused.is_some());
    });
}
