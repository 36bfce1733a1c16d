//! The stack that programs need, as Linux 6.1 counts it: 512 bytes for all functions on
//! a chain of calls, each rounded up to 32 (`check_max_stack_depth` of its verifier).
//! Later kernels round less: what fits here may be too much there, and
//! `cargo xtask vm`, which loads them, takes minutes.

use std::collections::BTreeMap;

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind};

const LIMIT: i32 = 512;
const ROUNDED_TO: i32 = 32;
/// Functions on a chain (`MAX_CALL_FRAMES`).
const FRAMES: usize = 8;

const FRAME_POINTER: u8 = 10;
const CALL: u8 = 0x85;
/// In the place of a call's source register: of a function of the object.
const PSEUDO_CALL: u8 = 1;
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;

/// A function's place: section and offset.
type Place = (usize, u64);

#[derive(Default)]
struct Function {
    name: String,
    /// Bytes below the frame pointer.
    stack: i32,
    calls: Vec<Place>,
}

struct Instruction {
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    number: i32,
}

impl Instruction {
    fn of(bytes: &[u8]) -> Self {
        let [code, registers, o0, o1, n0, n1, n2, n3] =
            <[u8; 8]>::try_from(bytes).expect("eight bytes");
        Self {
            code,
            to: registers & 0xf,
            from: registers >> 4,
            offset: i16::from_le_bytes([o0, o1]),
            number: i32::from_le_bytes([n0, n1, n2, n3]),
        }
    }

    /// How deep it reaches below the frame pointer; `before` is the one before.
    fn depth(&self, before: Option<&Self>) -> i32 {
        let place = match self.code & 7 {
            1 if self.from == FRAME_POINTER => i32::from(self.offset),
            2 | 3 if self.to == FRAME_POINTER => i32::from(self.offset),
            // A reference to the stack is made of a copy of the frame pointer.
            7 if self.code == ADD
                && before.is_some_and(|it| {
                    it.code == MOVE && it.from == FRAME_POINTER && it.to == self.to
                }) =>
            {
                self.number
            }
            _ => 0,
        };
        -place
    }
}

/// The object's functions.
fn functions(bytes: &[u8]) -> BTreeMap<Place, Function> {
    let file = object::File::parse(bytes).expect("an object");
    let mut all: BTreeMap<Place, Function> = BTreeMap::new();
    for symbol in file.symbols().filter(|it| it.kind() == SymbolKind::Text) {
        if let Some(section) = symbol.section_index() {
            let name = symbol.name().expect("a name").to_owned();
            let function = all.entry((section.0, symbol.address())).or_default();
            function.name = name;
        }
    }
    for section in file.sections().filter(|it| it.kind() == SectionKind::Text) {
        let number = section.index().0;
        let code = section.data().expect("code");
        let relocations: BTreeMap<u64, _> = section.relocations().collect();
        let mut before = None;
        for (at, bytes) in (0..).step_by(8).zip(code.chunks_exact(8)) {
            let instruction = Instruction::of(bytes);
            let depth = instruction.depth(before.as_ref());
            let call = (instruction.code == CALL && instruction.from == PSEUDO_CALL).then(|| {
                let relative = i64::from(instruction.number) * 8 + 8;
                match relocations.get(&at).map(object::Relocation::target) {
                    Some(RelocationTarget::Symbol(index)) => {
                        let symbol = file.symbol_by_index(index).expect("a symbol");
                        let section = symbol.section_index().expect("a section");
                        // Of a section's own symbol the number says where in it.
                        let inside = if symbol.kind() == SymbolKind::Section {
                            relative
                        } else {
                            0
                        };
                        let place = symbol.address().cast_signed() + inside;
                        (section.0, place.cast_unsigned())
                    }
                    _ => (
                        number,
                        (i64::try_from(at).expect("a place") + relative).cast_unsigned(),
                    ),
                }
            });
            let own = all.range_mut((number, 0)..=(number, at)).next_back();
            let (_, own) = own.expect("code belongs to a function");
            own.stack = own.stack.max(depth);
            own.calls.extend(call);
            before = Some(instruction);
        }
    }
    all
}

/// The deepest chain of calls from a function: its bytes, and who is in it.
fn deepest(all: &BTreeMap<Place, Function>, place: Place, frames: usize) -> (i32, Vec<String>) {
    let function = all.get(&place).expect("a function is called");
    assert!(frames < FRAMES, "{}: too many calls", function.name);
    let below = function
        .calls
        .iter()
        .map(|it| deepest(all, *it, frames + 1));
    let (bytes, mut chain) = below.max_by_key(|it| it.0).unwrap_or_default();
    let own = (function.stack.max(1) + ROUNDED_TO - 1) / ROUNDED_TO * ROUNDED_TO;
    chain.insert(0, format!("{} {}", function.name, function.stack));
    (own + bytes, chain)
}

#[test]
fn programs_fit_the_stack_of_linux_6_1() {
    let Some(object) = node_agent_datapath::OBJECT else {
        eprintln!("skipped: the BPF object is not built; `cargo xtask build` makes it");
        return;
    };
    let all = functions(&object.unpack().expect("unpacked"));
    let called: Vec<Place> = all.values().flat_map(|it| it.calls.clone()).collect();
    let programs: Vec<_> = all.keys().filter(|it| !called.contains(it)).collect();
    assert!(programs.len() > 15, "{}", programs.len());
    let mut most = 0;
    for place in programs {
        let (bytes, chain) = deepest(&all, *place, 0);
        println!("{bytes}: {chain:?}");
        assert!(bytes <= LIMIT, "{bytes} bytes of stack: {chain:?}");
        most = most.max(bytes);
    }
    // Reading it wrongly would show little.
    assert!(most > 400, "{most}");
}
