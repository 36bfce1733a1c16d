//! Random nodes and random packets. Few addresses and ports, so that packets,
//! services and flows meet.

use std::net::IpAddr;

use ebpf_abi::{
    Address, Backend, BackendFlags, ChecksummedValue, Config, DirectReturn, Flow, FlowEntry,
    FlowFlags, Life, MAGLEV_CHUNK, MaglevChunk, MaglevKey, NodeFlags, Port, Protocol, Range, Scope,
    Service, ServiceFlags, ServiceKey, Tuple,
};
use ebpf_logic::model::Model;
use ebpf_logic::packet::Origin;

pub const NODE: [&str; 2] = ["192.0.2.1", "2001:db8::1"];

/// xorshift64*, so that a case is known by its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, most: u64) -> u64 {
        (self.next() >> 33) % most
    }

    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

pub fn address(text: &str) -> Address {
    ip(text).into()
}

const VIPS: [[&str; 3]; 2] = [
    ["10.96.0.1", "10.96.0.2", "203.0.113.80"],
    ["fd00:96::1", "fd00:96::2", "2001:db8:80::1"],
];
const PODS: [[&str; 5]; 2] = [
    [
        "10.244.1.2",
        "10.244.1.3",
        "10.244.2.2",
        "10.244.2.3",
        "192.0.2.1",
    ],
    [
        "fd00:244:1::2",
        "fd00:244:1::3",
        "fd00:244:2::2",
        "fd00:244:2::3",
        "2001:db8::1",
    ],
];
const CLIENTS: [[&str; 5]; 2] = [
    [
        "198.51.100.7",
        "198.51.100.8",
        "10.244.3.3",
        "10.244.1.2",
        "192.0.2.1",
    ],
    [
        "2001:db8:c::7",
        "2001:db8:c::8",
        "fd00:244:3::3",
        "fd00:244:1::2",
        "2001:db8::1",
    ],
];
const PROTOCOLS: [Protocol; 3] = [Protocol::TCP, Protocol::UDP, Protocol::SCTP];
/// ICMP's echoes, by family.
pub const ECHO: [Protocol; 2] = [Protocol(1), Protocol(58)];
/// Those that pods may leave to as the node.
const OUTSIDE: [(&str, u8); 2] = [("198.51.100.0", 24), ("2001:db8:c::", 48)];

/// A node with random services.
pub fn node(random: &mut Random, ticks: u32) -> Model {
    let mut config = Config {
        node_v4: address(NODE[0]),
        node_v6: address(NODE[1]),
        seed: random.next() as u32,
        direct_return: random.of(&[DirectReturn::NONE, DirectReturn::NONE, DirectReturn::IPIP]),
        ..Config::DEFAULT
    };
    if random.one_in(4) {
        config.last_port = 61_000 + random.below(8) as u16;
    }
    let mut model = Model {
        config: Some(config),
        ..Model::default()
    };
    model.now.set(u64::from(ticks) << Life::TICK);
    for it in NODE {
        model.nodes.insert(address(it), NodeFlags::PORTS);
    }
    for (range, bits) in [("10.244.0.0", 16), ("fd00:244::", 32)] {
        let range = address(range);
        model
            .inside
            .insert((Range::prefix(range, bits), Range::new(0, range)));
    }
    for (range, bits) in OUTSIDE {
        let range = address(range);
        let range = (Range::prefix(range, bits), Range::new(0, range));
        if random.one_in(2) {
            model.leaving.insert(range);
        }
    }
    let mut set = 0;
    for family in 0..2 {
        for protocol in PROTOCOLS {
            for port in [80, 8080] {
                for vip in VIPS[family] {
                    if random.one_in(3) {
                        continue;
                    }
                    let key = ServiceKey::internal(address(vip), Port::new(port), protocol);
                    serve(random, &mut model, &mut set, family, key);
                }
            }
            let any = address(NODE[family]).wildcard();
            let key = ServiceKey::internal(any, Port::new(30_080), protocol);
            serve(random, &mut model, &mut set, family, key);
        }
    }
    model
}

fn serve(random: &mut Random, model: &mut Model, set: &mut u32, family: usize, key: ServiceKey) {
    *set += 1;
    let mut flags = ServiceFlags::NONE;
    for (flag, of) in [
        (ServiceFlags::CLUSTER_IP, 2),
        (ServiceFlags::AFFINITY, 6),
        (ServiceFlags::MAGLEV, 4),
        (ServiceFlags::SOURCES, 8),
        (ServiceFlags::DIRECT_RETURN, 4),
        (ServiceFlags::DROP_EMPTY, 3),
        (ServiceFlags::LOCAL_ONLY, 4),
    ] {
        if random.one_in(of) {
            flags = flags.with(flag);
        }
    }
    let scoped = key.scope == Scope::INTERNAL && random.one_in(4);
    if scoped {
        flags = flags.with(ServiceFlags::SCOPED);
    }
    let count = random.of(&[0_u32, 1, 2, 3, 3]);
    let family = if random.one_in(40) {
        1 - family
    } else {
        family
    };
    let port = if key.protocol == Protocol::SCTP && !random.one_in(4) {
        key.port
    } else {
        Port::new(8080)
    };
    let backends: Vec<_> = (0..count)
        .map(|_| {
            let pod = random.of(&PODS[family]);
            let local = pod.contains(".1.") || pod.contains(":1::") || NODE.contains(&pod);
            let flags = if local {
                BackendFlags::LOCAL
            } else {
                BackendFlags::NONE
            };
            Backend::new(address(pod), port, flags)
        })
        .collect();
    let service = Service {
        set: *set,
        generation: 1 + random.below(3) as u32,
        count,
        flags,
        affinity_seconds: 100,
        table: if flags.contains(ServiceFlags::MAGLEV) {
            61
        } else {
            0
        },
    };
    model.put(key, service, &backends);
    if flags.contains(ServiceFlags::MAGLEV) && count > 0 {
        for chunk in 0..=61 / MAGLEV_CHUNK {
            let places = std::array::from_fn(|_| random.below(u64::from(count)) as u16);
            let key = MaglevKey {
                set: *set,
                generation: service.generation,
                chunk,
                reserved: 0,
            };
            model
                .maglev
                .insert(key, ChecksummedValue::new(&key, MaglevChunk(places)));
        }
    }
    if flags.contains(ServiceFlags::SOURCES) {
        let range = address(["198.51.100.7", "2001:db8:c::7"][usize::from(!key.address.is_v4())]);
        let whole = if range.is_v4() { 32 } else { 128 };
        model
            .sources
            .insert((Range::prefix(range, whole), Range::new(*set, range)));
    }
    if scoped && !random.one_in(4) {
        let outside = ServiceKey::new(key.address, key.port, key.protocol, Scope::EXTERNAL);
        serve(
            random,
            model,
            set,
            usize::from(!key.address.is_v4()),
            outside,
        );
    }
}

/// A packet, and where it is seen. `known` are packets that left earlier: some
/// are answered, and some are complained about.
pub fn packet(random: &mut Random, known: &[Vec<u8>]) -> (Origin, Vec<u8>) {
    if !known.is_empty() && random.one_in(2) {
        let about = &known[random.below(known.len() as u64) as usize];
        if random.one_in(6) {
            if let Some(error) = complaint(random, about) {
                return (origin(random, &error), error);
            }
        } else if let Some(answer) = answer(random, about) {
            return (origin(random, &answer), answer);
        }
    }
    let family = random.below(2) as usize;
    let from = random.of(&CLIENTS[family]);
    let mut to = match random.below(9) {
        0..3 => NODE[family],
        3 => CLIENTS[family][random.below(2) as usize],
        _ => random.of(&VIPS[family]),
    };
    let mut ports = (
        4000 + random.below(6) as u16,
        random.of(&[80, 8080, 30_080, 9]),
    );
    let mut protocol = random.of(&PROTOCOLS);
    if random.one_in(8) {
        protocol = ECHO[family];
        ports = random.of(&[(ports.0, 0), (ports.0, 0), (0, ports.0)]);
        if random.one_in(2) {
            to = CLIENTS[family][random.below(2) as usize];
        }
    }
    let mut frame = build(random, ip(from), ip(to), ports, protocol);
    let seen = origin(random, &frame);
    if random.one_in(20) && frame[12] == 8 {
        // An outer header to one of the pods.
        let pod = random.of(&PODS[0]);
        let mut outer = header(ip(NODE[0]), ip(pod), 4, frame.len() - 14);
        outer.extend(&frame[14..]);
        frame.truncate(14);
        frame.extend(outer);
    }
    if random.one_in(6) {
        damage(random, &mut frame);
    }
    (seen, frame)
}

/// Where a packet is seen follows from who sends it.
fn origin(random: &mut Random, frame: &[u8]) -> Origin {
    let from = if frame[12] == 8 {
        let four: [u8; 4] = frame[26..30].try_into().expect("four");
        IpAddr::from(four).to_string()
    } else {
        let sixteen: [u8; 16] = frame[22..38].try_into().expect("sixteen");
        IpAddr::from(sixteen).to_string()
    };
    if NODE.contains(&from.as_str()) {
        random.of(&[Origin::Host, Origin::Leaving])
    } else if from.starts_with("10.244.1.") || from.starts_with("fd00:244:1::") {
        Origin::Pod
    } else {
        Origin::Device
    }
}

/// Changes bytes anywhere but in addresses: to which of a damaged address's
/// kinds the kernel knows a way is not the question here.
fn damage(random: &mut Random, frame: &mut Vec<u8>) {
    let addresses = if frame[12] == 8 { 26..34 } else { 22..54 };
    for _ in 0..=random.below(3) {
        let at = random.below(frame.len() as u64) as usize;
        if at >= 12 && !addresses.contains(&at) {
            frame[at] = random.next() as u8;
        }
    }
    // The kernel tests no frame that has no room for its IP header.
    let least = if frame[12] == 8 { 34 } else { 54 };
    if random.one_in(3) && frame.len() > least {
        let left = least + random.below((frame.len() - least) as u64) as usize;
        frame.truncate(left);
    }
}

fn build(
    random: &mut Random,
    from: IpAddr,
    to: IpAddr,
    ports: (u16, u16),
    protocol: Protocol,
) -> Vec<u8> {
    let content: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
    let mut segment = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    let echo = ECHO.contains(&protocol);
    let field = match protocol {
        _ if echo => {
            let kind = match (from.is_ipv4(), ports.1) {
                (true, 0) => 8,
                (true, _) => 0,
                (false, 0) => 128,
                (false, _) => 129,
            };
            segment = vec![kind, 0, 0, 0];
            segment.extend((ports.0 | ports.1).to_be_bytes());
            segment.extend([0, 1]);
            Some(2)
        }
        Protocol::TCP => {
            segment.extend((random.next() as u32).to_be_bytes());
            segment.extend((random.next() as u32).to_be_bytes());
            let flags = random.of(&[2, 2, 16, 16, 24, 17, 4, 1, 18]);
            segment.extend([5 << 4, flags, 255, 255, 0, 0, 0, 0]);
            Some(16)
        }
        Protocol::UDP => {
            segment.extend((8 + content.len() as u16).to_be_bytes());
            segment.extend([0, 0]);
            Some(6)
        }
        _ => {
            segment.extend([1, 2, 3, 4, 9, 9, 9, 9]);
            None
        }
    };
    segment.extend(content);
    let without = protocol == Protocol::UDP && from.is_ipv4() && random.one_in(8);
    if let Some(field) = field
        && !without
    {
        let head = if echo && from.is_ipv4() {
            Vec::new()
        } else {
            pseudo(from, to, protocol.0, segment.len())
        };
        let mut check = sum(&[&head, &segment]);
        if protocol == Protocol::UDP && check == 0 {
            // Zero says that there is none (RFC 768).
            check = 0xffff;
        }
        segment[field..field + 2].copy_from_slice(&check.to_be_bytes());
    }
    if protocol == Protocol::SCTP {
        segment[8..12].copy_from_slice(&[0; 4]);
        let check = crc32c(&segment);
        segment[8..12].copy_from_slice(&check.to_le_bytes());
    }
    let mut packet = header(from, to, protocol.0, segment.len());
    if from.is_ipv4() && random.one_in(12) {
        // A fragment: the first of more, or a later one.
        let cut: u16 = random.of(&[0x2000, 0x2000, 10, 0x2000 | 10]);
        packet[6..8].copy_from_slice(&cut.to_be_bytes());
        packet[4..6].copy_from_slice(&[0, random.below(4) as u8]);
        packet[10..12].copy_from_slice(&[0, 0]);
        let check = sum(&[&packet]);
        packet[10..12].copy_from_slice(&check.to_be_bytes());
    }
    packet.extend(segment);
    frame(&packet)
}

/// CRC-32C, bit by bit (RFC 9260 appendix A).
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut state = u32::MAX;
    for byte in bytes {
        state ^= u32::from(*byte);
        for _ in 0..8 {
            let low = state & 1;
            state = (state >> 1) ^ (0x82f6_3b78 * low);
        }
    }
    !state
}

fn frame(packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(if packet[0] >> 4 == 4 {
        [8, 0]
    } else {
        [0x86, 0xdd]
    });
    frame.extend(packet);
    frame
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

fn header(from: IpAddr, to: IpAddr, protocol: u8, content: usize) -> Vec<u8> {
    let length = content as u16;
    let mut header = if from.is_ipv4() {
        let mut header = vec![0x45, 0];
        header.extend((20 + length).to_be_bytes());
        header.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0]);
        header
    } else {
        let mut header = vec![0x60, 0, 0, 0];
        header.extend(length.to_be_bytes());
        header.extend([protocol, 64]);
        header
    };
    header.extend(octets(from));
    header.extend(octets(to));
    if from.is_ipv4() {
        let check = sum(&[&header]);
        header[10..12].copy_from_slice(&check.to_be_bytes());
    }
    header
}

pub fn pseudo(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> Vec<u8> {
    let mut bytes = octets(from);
    bytes.extend(octets(to));
    bytes.extend((length as u32).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes
}

/// RFC 1071, over parts of even length but the last.
pub fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            total += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
    }
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// Where a whole packet with ports is from and to.
pub fn ends(frame: &[u8]) -> Option<(IpAddr, u16, IpAddr, u16, Protocol)> {
    let (from, to, protocol, at): (IpAddr, IpAddr, u8, usize) = if frame.get(12..14)? == [8, 0] {
        if frame.get(14)? != &0x45 || frame.get(20)? & 0x3f != 0 || frame.get(21)? != &0 {
            return None;
        }
        let four = |at: usize| <[u8; 4]>::try_from(frame.get(at..at + 4)?).ok();
        (four(26)?.into(), four(30)?.into(), *frame.get(23)?, 34)
    } else {
        let sixteen = |at: usize| <[u8; 16]>::try_from(frame.get(at..at + 16)?).ok();
        (
            sixteen(22)?.into(),
            sixteen(38)?.into(),
            *frame.get(20)?,
            54,
        )
    };
    let port = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    if ECHO.contains(&Protocol(protocol)) {
        let identifier = port(at + 4)?;
        let (source, destination) = match (frame.get(at..at + 2)?, from.is_ipv4()) {
            ([8, 0], true) | ([128, 0], false) => (identifier, 0),
            ([0, 0], true) | ([129, 0], false) => (0, identifier),
            _ => return None,
        };
        return Some((from, source, to, destination, Protocol(protocol)));
    }
    if !matches!(protocol, 6 | 17 | 132) {
        return None;
    }
    Some((from, port(at)?, to, port(at + 2)?, Protocol(protocol)))
}

fn answer(random: &mut Random, about: &[u8]) -> Option<Vec<u8>> {
    let (from, sport, to, dport, protocol) = ends(about)?;
    Some(build(random, to, from, (dport, sport), protocol))
}

/// An ICMP error from the packet's receiver, or from a router.
fn complaint(random: &mut Random, about: &[u8]) -> Option<Vec<u8>> {
    let (from, _, to, _, _) = ends(about)?;
    let router = ip(["203.0.113.9", "2001:db8:99::9"][usize::from(from.is_ipv6())]);
    let sender = if random.one_in(2) { router } else { to };
    let kind = if from.is_ipv4() {
        3
    } else {
        random.of(&[1, 2])
    };
    let mut message = vec![kind, 0, 0, 0, 0, 0, 5, 0];
    message.extend(&about[14..]);
    let (protocol, head) = if from.is_ipv4() {
        (1, Vec::new())
    } else {
        (58, pseudo(sender, from, 58, message.len()))
    };
    let check = sum(&[&head, &message]);
    message[2..4].copy_from_slice(&check.to_be_bytes());
    let mut packet = header(sender, from, protocol, message.len());
    packet.extend(message);
    Some(frame(&packet))
}

/// Two tuples between which a packet may go back and forth.
pub fn circle(family: usize) -> [Tuple; 2] {
    let between = |from: &str, port, to: &str, other| {
        Tuple::new(
            address(from),
            Port::new(port),
            address(to),
            Port::new(other),
            Protocol::TCP,
        )
    };
    [
        between(CLIENTS[family][0], 4000, VIPS[family][2], 30_080),
        between(CLIENTS[family][1], 61_000, PODS[family][2], 8080),
    ]
}

/// A node port's clients, and the packets with which they open connections.
pub fn openings(count: u32) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|number| {
        let [_, _, third, fourth] = (number / 1_000).to_be_bytes();
        let client = IpAddr::from([198, 51, third, fourth]);
        let port = 10_000 + (number % 1_000) as u16;
        let to = (address(NODE[0]), Port::new(30_080));
        let tuple = Tuple::new(client.into(), Port::new(port), to.0, to.1, Protocol::TCP);
        let mut packet = of_tuple(&tuple);
        packet[14 + 20 + 13] = 2;
        packet
    })
}

/// Nothing but a node port of ten backends on another machine.
pub fn busy(model: &mut Model) {
    model.services.clear();
    model.slots.clear();
    model.members.clear();
    model.config = Some(Config {
        node_v4: address(NODE[0]),
        ..Config::DEFAULT
    });
    let any = address(NODE[0]).wildcard();
    let key = ServiceKey::internal(any, Port::new(30_080), Protocol::TCP);
    let backends: Vec<_> = (1..=10)
        .map(|number| {
            let at = IpAddr::from([10, 244, 2, number]);
            Backend::new(at.into(), Port::new(8080), BackendFlags::NONE)
        })
        .collect();
    let service = Service {
        set: 1,
        generation: 1,
        count: 10,
        flags: ServiceFlags::NONE,
        affinity_seconds: 0,
        table: 0,
    };
    model.put(key, service, &backends);
}

/// A node port of one backend on another machine, towards which flows have so many
/// thousandths of the ports, last used at `used`.
pub fn crowded(model: &mut Model, thousandths: u32, used: u32) {
    busy(model);
    let (key, entry) = model.services.pop_first().expect("the node port");
    let service = Service {
        count: 1,
        ..entry.unchecked()
    };
    let (_, backend) = model.slots.pop_first().expect("a backend");
    let backend = backend.unchecked();
    model.slots.clear();
    model.put(key, service, &[backend]);
    let config = model.config.expect("a node");
    let ports = config.first_port..=config.last_port;
    let mut flows = model.flows.borrow_mut();
    for (number, port) in (0_u32..).zip(ports) {
        // Spread evenly.
        if number.wrapping_mul(619) % 1_000 >= thousandths {
            continue;
        }
        let [_, _, third, fourth] = number.to_be_bytes();
        let client = Tuple::new(
            IpAddr::from([198, 18, third, fourth]).into(),
            Port::new(4000),
            address(NODE[0]),
            Port::new(30_080),
            Protocol::TCP,
        );
        let to = Tuple::new(
            address(NODE[0]),
            Port::new(port),
            backend.address,
            backend.port,
            Protocol::TCP,
        );
        let flow = |to, flags| Flow {
            to,
            set: service.set,
            generation: service.generation,
            flags,
            reserved: 0,
        };
        let masqueraded = FlowFlags::MASQUERADED;
        for (key, flow, seen) in [
            (client, flow(to, masqueraded), Life::ESTABLISHED),
            (
                to.reversed(),
                flow(client.reversed(), masqueraded.with(FlowFlags::REPLY)),
                Life::REPLIED,
            ),
        ] {
            let flow = ChecksummedValue::new(&key, flow);
            let life = Life::new(used, seen);
            flows.insert(key, FlowEntry { flow, life });
        }
    }
}

/// A packet of a tuple, with all hops.
pub fn of_tuple(tuple: &Tuple) -> Vec<u8> {
    let (from, to) = (tuple.source.into(), tuple.destination.into());
    let mut segment = vec![0; 20];
    segment[..2].copy_from_slice(&tuple.source_port.get().to_be_bytes());
    segment[2..4].copy_from_slice(&tuple.destination_port.get().to_be_bytes());
    segment[12..14].copy_from_slice(&[5 << 4, 16]);
    let mut packet = header(from, to, tuple.protocol.0, segment.len());
    packet[if tuple.source.is_v4() { 8 } else { 7 }] = 255;
    packet.extend(segment);
    frame(&packet)
}
