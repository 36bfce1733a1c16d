//! Tests connections that kube-proxy set up and the kernel translates: their packets pass
//! unchanged, and nobody else gets their ports.

use std::vec;

use ebpf_abi::{ConfigFlags, Flow, FlowEntry, FlowFlags, Life, Tuple};

use super::frames::*;
use super::*;

/// As whom the kernel shows the client to the backend: a port that we could give.
const SHOWN: u16 = 61_500;

/// A node port with remote backends, and a connection to it that is the kernel's.
fn taken_over(protocol: Protocol, backends: &[Backend]) -> Model {
    let mut model = node();
    let key = node_port(0, protocol);
    serve(&mut model, 1, key, ServiceFlags::NONE, backends);
    let asked = tuple((CLIENT[0], 4_000), (NODE[0], NODE_PORT), protocol);
    let sent = tuple((NODE[0], SHOWN), (REMOTE[0], 8_080), protocol);
    let now = 1_000_000;
    let entry = |key: &Tuple, to: Tuple, flags, seen| FlowEntry {
        flow: ChecksummedValue::new(
            key,
            Flow {
                to,
                set: 0,
                generation: 0,
                flags,
                reserved: 0,
            },
        ),
        life: Life::new(now, seen),
    };
    let back = sent.reversed();
    let kernel = FlowFlags::KERNEL;
    let client = entry(&asked, sent, kernel, Life::ESTABLISHED);
    let backend = entry(
        &back,
        asked.reversed(),
        kernel.with(FlowFlags::REPLY),
        Life::REPLIED,
    );
    model.add_flow(&asked, &client);
    model.add_flow(&back, &backend);
    model
}

fn asks(model: &Model, port: u16, flags: u8) -> (PacketVerdict, Vec<u8>, Vec<u8>) {
    let sent = tcp((CLIENT[0], port), (NODE[0], NODE_PORT), flags, b"x");
    let (verdict, out, _) = run(model, Origin::Device, &sent);
    (verdict, sent, out)
}

#[test]
fn packets_of_both_directions_pass_as_they_came() {
    let model = taken_over(Protocol::TCP, &[backend(REMOTE[0])]);
    for _ in 0..3 {
        let (verdict, sent, out) = asks(&model, 4_000, ACK);
        assert_eq!((verdict, out), (PacketVerdict::Pass, sent));
        let answer = tcp((REMOTE[0], 8_080), (NODE[0], SHOWN), ACK, b"y");
        let (verdict, out, _) = run(&model, Origin::Device, &answer);
        assert_eq!((verdict, out), (PacketVerdict::Pass, answer));
    }
    assert_eq!(model.counted(Counter::FlowCreated), 0);
}

#[test]
fn a_closed_one_makes_room_for_the_next_of_the_same_client() {
    let model = taken_over(Protocol::TCP, &[backend(REMOTE[0])]);
    // While it is open, the kernel judges on what would open another one.
    assert_eq!(asks(&model, 4_000, SYN).0, PacketVerdict::Pass);
    asks(&model, 4_000, FIN | ACK);
    let answer = tcp((REMOTE[0], 8_080), (NODE[0], SHOWN), FIN | ACK, b"");
    run(&model, Origin::Device, &answer);
    assert_eq!(asks(&model, 4_000, SYN).0, PacketVerdict::Forward);
    assert_eq!(model.counted(Counter::FlowCreated), 1);
}

#[test]
fn its_port_is_given_to_nobody_else() {
    let mut model = taken_over(Protocol::TCP, &[backend(REMOTE[0])]);
    // Two ports: the kernel's, and one more.
    if let Some(config) = &mut model.config {
        (config.first_port, config.last_port) = (SHOWN, SHOWN + 1);
    }
    let (verdict, _, out) = asks(&model, 4_001, SYN);
    assert_eq!(verdict, PacketVerdict::Forward);
    assert_eq!(read(&out).ports.0, SHOWN + 1);
    assert_eq!(asks(&model, 4_002, SYN).0, PacketVerdict::Drop);
}

#[test]
fn a_datagram_whose_backend_left_begins_anew() {
    let ask = |model: &Model| {
        let sent = udp((CLIENT[0], 4_000), (NODE[0], NODE_PORT), b"x");
        run(model, Origin::Device, &sent).0
    };
    let model = taken_over(Protocol::UDP, &[backend(REMOTE[0])]);
    assert_eq!(ask(&model), PacketVerdict::Pass);
    assert_eq!(ask(&model), PacketVerdict::Pass);
    let model = taken_over(Protocol::UDP, &[backend(LOCAL[0])]);
    assert_ne!(ask(&model), PacketVerdict::Pass);
    assert_eq!(model.counted(Counter::FlowMoved), 1);
}

#[test]
fn unknown_streams_pass_while_services_come_into_force_and_new_ones_are_ours() {
    let mut model = node();
    let backends = vec![backend(REMOTE[0])];
    serve(
        &mut model,
        1,
        node_port(0, Protocol::TCP),
        ServiceFlags::NONE,
        &backends,
    );
    let switch = |model: &mut Model, flags| {
        if let Some(config) = &mut model.config {
            config.flags = flags;
        }
    };
    switch(&mut model, ConfigFlags::LEAVE_UNKNOWN_STREAMS);
    assert_eq!(asks(&model, 4_000, ACK).0, PacketVerdict::Pass);
    assert_eq!(asks(&model, 4_001, SYN).0, PacketVerdict::Forward);
    assert_eq!(asks(&model, 4_001, ACK).0, PacketVerdict::Forward, "known");
    switch(&mut model, ConfigFlags::NONE);
    assert_eq!(asks(&model, 4_000, ACK).0, PacketVerdict::Forward);
}
