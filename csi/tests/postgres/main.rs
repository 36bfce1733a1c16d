//! Tests PostgreSQL with checksums on a volume, while its processes, the driver and the node crash
//! at random: no acknowledged transaction is lost, and no page is damaged.
//!
//! A crash of the node leaves the state of its disk at one moment: the disk is an image, which is
//! copied by reflink under load, and the node continues from the copy. Disks that lose writes
//! after a flush are not simulated.
//!
//! `cargo test --package csi --test postgres -- --cycles 500 --seed 7` crashes 500 times in an
//! order that the seed selects.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[expect(dead_code, reason = "the other tests of volumes use more of it")]
#[path = "../volumes/disk.rs"]
mod disk;
#[expect(dead_code, reason = "the other tests of volumes use more of it")]
#[path = "../volumes/harness.rs"]
mod harness;
#[path = "../volumes/process.rs"]
mod process;

mod database;
mod load;
mod machine;
mod server;

use database::{Crash, Database};
use disk::{isolate, missing};
use load::Acknowledged;
use server::Installation;

/// Crashes of a run that names no number.
const CYCLES: u64 = 5;

/// After how many crashes all pages are read.
const CHECK_EVERY: u64 = 10;

/// Backends, their tests, and what crashes first, so that a short run has all kinds.
const BACKENDS: [(&str, &str, &[Crash]); 2] = [
    (
        "file",
        "postgres_loses_nothing_on_images_of_xfs",
        &[Crash::Snapshot, Crash::Node, Crash::Server],
    ),
    (
        "btrfs",
        "postgres_loses_nothing_on_subvolumes_of_btrfs",
        &[Crash::Node, Crash::Driver],
    ),
];

/// Numbers that look random (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// What the command line asks for.
struct Options {
    /// Crashes, of all backends together.
    cycles: u64,
    seed: u64,
    /// Parts of names of tests.
    filters: Vec<String>,
    is_list: bool,
}

impl Options {
    fn parse() -> Result<Self, String> {
        let mut options = Self {
            cycles: CYCLES,
            seed: 1,
            filters: Vec::new(),
            is_list: false,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().and_then(|it| it.parse().ok());
                value.ok_or(format!("{word} needs a number"))
            };
            match word.as_str() {
                "--cycles" => options.cycles = number()?,
                "--seed" => options.seed = number()?,
                // Of libtest, which runs the other tests.
                "--test-threads" => drop(number()?),
                "--list" => options.is_list = true,
                other if other.starts_with("--") => {}
                _ => options.filters.push(word),
            }
        }
        Ok(options)
    }

    fn has(&self, test: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|it| test.contains(it.as_str()))
    }
}

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let chosen = BACKENDS.iter().filter(|(_, test, _)| options.has(test));
    let chosen: Vec<_> = chosen.collect();
    if options.is_list {
        for (_, test, _) in &chosen {
            println!("{test}: test");
        }
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut skipped) = (0, 0);
    let mut left = options.cycles;
    for (number, (backend, test, first)) in chosen.iter().enumerate() {
        let cycles = left.div_ceil((chosen.len() - number) as u64);
        left -= cycles;
        let began = Instant::now();
        // A failure is a panic, which takes the server and the disks with it.
        match run(backend, first, cycles, options.seed) {
            Ok(()) => {
                passed += 1;
                println!(
                    "test {test} ... ok ({:.1} s)",
                    began.elapsed().as_secs_f64()
                );
            }
            Err(lacks) => {
                skipped += 1;
                println!("test {test} ... skipped: {lacks}");
            }
        }
    }
    println!("\n{passed} passed, 0 failed, {skipped} skipped");
    ExitCode::SUCCESS
}

/// Crashes one backend so often, or returns what the machine lacks.
fn run(backend: &str, first: &[Crash], cycles: u64, seed: u64) -> Result<(), String> {
    let programs = ["mkfs.xfs", "mkfs.btrfs", "mkfs.ext4", "timeout"];
    if let Some(lacks) = missing(&programs) {
        return Err(lacks);
    }
    let installation = Installation::find().ok_or("Debian's `postgresql` is not installed")?;
    isolate();
    let mut dice = Dice(seed);
    let mut database = Database::create(backend, installation);
    let acknowledged: Acknowledged = Arc::default();
    let mut done = [0_u64; Crash::ALL.len()];
    let mut total = 0;
    for number in 1..=cycles {
        let load = database.load(&acknowledged);
        std::thread::sleep(Duration::from_millis(200 + dice.below(800)));
        let any = Crash::ALL[usize::try_from(dice.below(Crash::ALL.len() as u64)).unwrap_or(0)];
        let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let crash = first.get(at).copied().unwrap_or(any);
        done[crash as usize] += 1;
        let before = load::counts(&acknowledged);
        database.crash(crash, load, &acknowledged, dice.below(40));
        let what = format!("crash {number} ({crash:?}) of {backend}");
        database.check(&acknowledged, crash, &what);
        let after = load::counts(&acknowledged);
        total += after
            .iter()
            .zip(before)
            .map(|(now, then)| now - then)
            .sum::<u64>();
        total += before.iter().sum::<u64>();
        if number % CHECK_EVERY == 0 || number == cycles {
            database.check_pages(&what);
        }
        // Rows that were checked need not be checked again.
        database.forget();
        for count in acknowledged.iter() {
            count.store(0, Ordering::SeqCst);
        }
    }
    database.finish();
    let kinds: Vec<String> = Crash::ALL
        .iter()
        .zip(done)
        .map(|(crash, count)| format!("{crash:?} {count}"))
        .collect();
    println!(
        "{cycles} crashes of {backend} ({}): none of {total} acknowledged transactions lost, no page damaged",
        kinds.join(", ")
    );
    assert!(total > cycles, "nothing was written");
    Ok(())
}
