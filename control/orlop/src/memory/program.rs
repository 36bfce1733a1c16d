//! Pages of the program, and of its libraries, that nobody runs or reads any more.

use std::{
    ffi::{c_int, c_void},
    fs, ptr,
};

/// `MADV_DONTNEED` of madvise(2).
const NOT_NEEDED: c_int = 4;

unsafe extern "C" {
    fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
}

/// What a process has mapped of a file, and never wrote to.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
}

/// Gives back all pages of the program: those that are needed are mapped again as they
/// are, out of the file or, mostly, the kernel's cache of it.
pub fn give_back() {
    let Ok(smaps) = fs::read_to_string("/proc/self/smaps") else {
        return;
    };
    for Mapping { start, end } in unwritten(&smaps) {
        let address = ptr::with_exposed_provenance_mut(start);
        // SAFETY: what is mapped there is private, cannot be written to and is, to the last
        // page, what the file says: so each page reads the same when it is mapped again. Of
        // a mapping that ended meanwhile another one may have the place: it would have to
        // be made in the microseconds since by a thread that ends a mapping of a file,
        // which no part of this program does once it runs.
        let _ = unsafe { madvise(address, end.saturating_sub(start), NOT_NEEDED) };
    }
}

/// The mappings of the text of `/proc/PID/smaps` (proc_pid_smaps(5)) that are private,
/// cannot be written to, and have no page of their own.
fn unwritten(smaps: &str) -> Vec<Mapping> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        match first.split_once('-') {
            Some((start, end)) => {
                let rights = words.next();
                // After the offset and the device.
                let is_file = words.nth(2).is_some_and(|inode| inode != "0");
                let number = |text| usize::from_str_radix(text, 16);
                candidate = match (rights, number(start), number(end)) {
                    (Some("r--p" | "r-xp"), Ok(start), Ok(end)) if is_file => {
                        Some(Mapping { start, end })
                    }
                    _ => None,
                };
            }
            None if first == "Anonymous:" => {
                let own = words.next();
                found.extend(candidate.take().filter(|_| own == Some("0")));
            }
            None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_equals_its_file_is_given_back() {
        let smaps = "\
55b5a5aed000-55b5a6c09000 r--p 00000000 fe:00 123456                     /bin/orlop
Size:              17520 kB
Rss:                5364 kB
Anonymous:             0 kB
AnonHugePages:         0 kB
VmFlags: rd mr mw me
55b5a6c09000-55b5aa854000 r-xp 0111b000 fe:00 123456                     /bin/orlop
Anonymous:             0 kB
55b5aa854000-55b5aa9e6000 r--p 04d65000 fe:00 123456                     /bin/orlop
Anonymous:          1600 kB
55b5aa9e6000-55b5aa9f0000 rw-p 04ef6000 fe:00 123456                     /bin/orlop
Anonymous:             0 kB
7f83b9f7d000-7f83ba17e000 r--s 00000000 00:0f 1061                       anon_inode:bpf-map
Anonymous:             0 kB
7f83ba17e000-7f83ba17f000 r--p 00000000 00:00 0
Anonymous:             0 kB
7ffe19dd2000-7ffe19dd4000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
7f83bb02d000-7f83bb183000 r-xp 00026000 fe:00 77                         /lib/libc.so.6
Anonymous:             4 kB
";
        let ranges: Vec<_> = unwritten(smaps)
            .iter()
            .map(|it| (it.start, it.end))
            .collect();
        assert_eq!(
            ranges,
            [
                (0x55b5_a5ae_d000, 0x55b5_a6c0_9000),
                (0x55b5_a6c0_9000, 0x55b5_aa85_4000)
            ]
        );
        assert_eq!(unwritten("nothing\n\n-\nAnonymous: 0 kB\n"), []);
    }

    #[test]
    fn this_program_goes_on_with_less_of_itself() {
        let mapped = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            super::super::mapped(&status).unwrap()
        };
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(!unwritten(&smaps).is_empty());
        let before = mapped();
        give_back();
        let after = mapped();
        assert!(after < before, "{before} bytes before, {after} after");
        // What is read anew says the same.
        assert_eq!(
            unwritten("7f00-8000 r-xp 0 0:0 1 /f\nAnonymous: 0 kB").len(),
            1
        );
    }
}
