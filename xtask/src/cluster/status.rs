//! `cargo xtask status`: what runs, and how much memory it takes.

use std::{fs, path::Path};

use super::{Cluster, groups, is_keeper, node::no_cluster, node_dir, real, spec::Host};
use crate::error::Error;

/// Prints the hosts and their programs with resident memory.
///
/// # Errors
/// When there is no cluster, its record cannot be read, or a host or program is down.
pub fn status(dir: &Path) -> Result<(), Error> {
    if real::is_one(dir) {
        return real::status(dir);
    }
    let cluster = Cluster::load(dir)?.ok_or_else(|| no_cluster(dir))?;
    let mut missing = Vec::new();
    println!("kubeconfig {}", dir.join("admin.kubeconfig").display());
    println!("API        https://127.0.0.1:{}", cluster.port);
    for node in cluster.hosts() {
        let folder = node_dir(dir, &node.name);
        let alive = is_keeper(node.pid, &folder);
        let state = if alive { "up" } else { "down" };
        println!("{:<10} {:<12} {state}", node.name, node.address);
        let running = programs(&format!("{}/{}/system", cluster.id, node.name));
        for (program, kib) in &running {
            println!("  {program:<28} {:>7.1} MiB", f64::from(*kib) / 1024.0);
        }
        if !alive {
            missing.push(node.name.clone());
            continue;
        }
        let names: Vec<&str> = running.iter().map(|(name, _)| name.as_str()).collect();
        let wanted = Host::load(&folder)?.programs;
        let absent = wanted.iter().filter(|program| !runs(&names, &program.name));
        missing.extend(absent.map(|program| format!("{} on {}", program.name, node.name)));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::State(format!("down: {}", missing.join(", "))))
}

/// Whether one of the running programs is the one of this name.
fn runs(running: &[&str], name: &str) -> bool {
    running
        .iter()
        .any(|program| *program == name || program.strip_prefix("orlop ") == Some(name))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_run_is_missed() {
        let running = ["xtask host", "containerd", "orlop node-agent"];
        assert!(runs(&running, "containerd") && runs(&running, "node-agent"));
        assert!(!runs(&running, "server"));
    }
}
