//! `cargo xtask status`: what runs, and how much memory it takes.

use std::{fs, path::Path};

use super::{Cluster, groups, is_keeper, node_dir};
use crate::{error::Error, run::say};

/// Prints the hosts and their programs with resident memory.
///
/// # Errors
/// When the record cannot be read.
pub fn status(dir: &Path) -> Result<(), Error> {
    let Some(cluster) = Cluster::load(dir)? else {
        say(format!("no cluster in {} (cargo xtask up)", dir.display()));
        return Ok(());
    };
    println!("kubeconfig {}", dir.join("admin.kubeconfig").display());
    println!("API        https://127.0.0.1:{}", cluster.port);
    for node in &cluster.nodes {
        let alive = is_keeper(node.pid, &node_dir(dir, &node.name));
        let state = if alive { "up" } else { "down" };
        println!("{:<10} {:<12} {state}", node.name, node.address);
        for (program, kib) in programs(&format!("{}/{}/system", cluster.id, node.name)) {
            println!("  {program:<28} {:>7.1} MiB", f64::from(kib) / 1024.0);
        }
    }
    Ok(())
}

/// The programs in a control group with their resident memory in KiB.
pub fn programs(group: &str) -> Vec<(String, u32)> {
    groups::processes(group)
        .into_iter()
        .filter_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let words: Vec<String> = line
                .split(|byte| *byte == 0)
                .take(2)
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            let name = words[0].rsplit('/').next().unwrap_or_default().to_owned();
            let name = match words.get(1) {
                Some(verb) if name == "orlop" => format!("{name} {verb}"),
                _ => name,
            };
            Some((name, resident(pid)?))
        })
        .collect()
}

/// Resident memory of a process in KiB.
pub fn resident(pid: i32) -> Option<u32> {
    fs::read_to_string(format!("/proc/{pid}/status"))
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}
