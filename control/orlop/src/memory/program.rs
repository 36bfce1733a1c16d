//! Releases pages of the program, and of its C library, that are no longer used.

use std::{
    ffi::{c_int, c_void},
    fs, ptr,
};

/// `MADV_DONTNEED` of madvise(2).
const NOT_NEEDED: c_int = 4;

unsafe extern "C" {
    fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
}

/// A mapping of a file that the process never wrote to.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
}

/// A file as `/proc/PID/smaps` names it: its device and inode. stat(2) may report another
/// device (overlayfs, btrfs), and the path may be another file by now.
type ProgramFile<'a> = (&'a str, &'a str);

/// A line of `/proc/PID/smaps` with which a mapping begins.
struct Header<'a> {
    range: Mapping,
    rights: &'a str,
    file: ProgramFile<'a>,
}

/// Releases all pages of the program: needed ones are mapped again unchanged, from the
/// file or, mostly, the page cache.
pub fn give_back() {
    let Ok(smaps) = fs::read_to_string("/proc/self/smaps") else {
        return;
    };
    for Mapping { start, end } in unwritten(&smaps, &parts()) {
        let address = ptr::with_exposed_provenance_mut(start);
        // SAFETY: what is mapped there is of this program's files, private, cannot be
        // written to and is, to the last page, what the file says: so each page reads the
        // same when it is mapped again. Nobody ends these mappings, which the loader made,
        // as long as the program runs.
        let _ = unsafe { madvise(address, end.saturating_sub(start), NOT_NEEDED) };
    }
}

/// An address in each file that is the program: its own, and the C library's if that is
/// another one.
fn parts() -> [usize; 2] {
    [
        (give_back as fn() as *const ()).addr(),
        (madvise as unsafe extern "C" fn(_, _, _) -> _ as *const ()).addr(),
    ]
}

/// The mappings of the text of `/proc/PID/smaps` (proc_pid_smaps(5)) of the files at these
/// addresses that are private, cannot be written to, and have no page of their own.
fn unwritten(smaps: &str, parts: &[usize]) -> Vec<Mapping> {
    let headers = smaps.lines().filter_map(Header::parse);
    let files: Vec<ProgramFile<'_>> = headers
        .filter(|it| parts.iter().any(|part| it.range.contains(*part)))
        .map(|it| it.file)
        .collect();
    let mut found = Vec::new();
    let mut candidate = None;
    for line in smaps.lines() {
        if let Some(header) = Header::parse(line) {
            let is_code = matches!(header.rights, "r--p" | "r-xp");
            candidate = (is_code && files.contains(&header.file)).then_some(header.range);
        } else if let Some(own) = line.strip_prefix("Anonymous:") {
            found.extend(candidate.take().filter(|_| own.trim() == "0 kB"));
        }
    }
    found
}

// === impl Mapping ===

impl Mapping {
    const fn contains(&self, address: usize) -> bool {
        self.start <= address && address < self.end
    }
}

// === impl Header ===

impl<'a> Header<'a> {
    /// `START-END RIGHTS OFFSET DEVICE INODE PATH`; none if the line is another one, or of
    /// no file.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let range = Mapping {
            start: number(start)?,
            end: number(end)?,
        };
        let rights = words.next()?;
        let file = (words.nth(1)?, words.next()?);
        (file.1 != "0").then_some(Self {
            range,
            rights,
            file,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of which the program is what is mapped from `/bin/orlop`, whose file is another one
    /// by now, and from libc.
    const SMAPS: &str = "\
55b5a5aed000-55b5a6c09000 r--p 00000000 fe:00 123456                     /bin/orlop (deleted)
Size:              17520 kB
Rss:                5364 kB
Anonymous:             0 kB
AnonHugePages:         0 kB
VmFlags: rd mr mw me
55b5a6c09000-55b5aa854000 r-xp 0111b000 fe:00 123456                     /bin/orlop (deleted)
Anonymous:             0 kB
55b5aa854000-55b5aa9e6000 r--p 04d65000 fe:00 123456                     /bin/orlop (deleted)
Anonymous:          1600 kB
55b5aa9e6000-55b5aa9f0000 rw-p 04ef6000 fe:00 123456                     /bin/orlop (deleted)
Anonymous:             0 kB
7f83b8f7d000-7f83b917e000 r--p 00000000 fe:00 123457                     /bin/orlop
Anonymous:             0 kB
7f83b917e000-7f83b927e000 r--p 00000000 fe:01 123456                     /var/lib/other
Anonymous:             0 kB
7f83b9f7d000-7f83ba17e000 r--s 00000000 fe:00 123456                     /bin/orlop
Anonymous:             0 kB
7f83ba17e000-7f83ba17f000 r--p 00000000 00:00 0
Anonymous:             0 kB
7ffe19dd2000-7ffe19dd4000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
7f83bb02d000-7f83bb183000 r-xp 00026000 fe:00 77                         /lib/libc.so.6
Anonymous:             0 kB
7f83bb183000-7f83bb184000 r-xp 00026000 fe:00 77                         /lib/libc.so.6
Anonymous:             4 kB
";

    #[test]
    fn only_what_equals_its_file_is_given_back() {
        let ranges = |parts: &[usize]| -> Vec<_> {
            let found = unwritten(SMAPS, parts);
            found.iter().map(|it| (it.start, it.end)).collect()
        };
        let own = [
            (0x55b5_a5ae_d000, 0x55b5_a6c0_9000),
            (0x55b5_a6c0_9000, 0x55b5_aa85_4000),
        ];
        assert_eq!(ranges(&[0x55b5_a6c0_9010]), own);
        let both = ranges(&[0x55b5_aa85_3fff, 0x7f83_bb02_d000]);
        assert_eq!(
            both,
            [&own[..], &[(0x7f83_bb02_d000, 0x7f83_bb18_3000)]].concat()
        );
        // Of no file, and behind the end of one.
        assert_eq!(
            ranges(&[0x7ffe_19dd_2000, 0x7f83_ba17_e000, 0x7f83_bb18_4000]),
            []
        );
        assert_eq!(unwritten("nothing\n\n-\nAnonymous: 0 kB\n", &[0]), []);
    }

    #[test]
    fn other_files_that_this_process_has_mapped_stay() {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let given = unwritten(&smaps, &parts());
        assert!(!given.is_empty());
        for line in smaps.lines() {
            let Some(header) = Header::parse(line).filter(|it| given.contains(&it.range)) else {
                continue;
            };
            let path = line.split_ascii_whitespace().last().unwrap();
            let own = fs::read_link("/proc/self/exe").unwrap();
            assert!(
                path == own.to_str().unwrap() || path.contains("/libc"),
                "{line}: {:?}",
                header.rights
            );
        }
    }

    #[test]
    fn this_program_goes_on_with_less_of_itself() {
        let mapped = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|it| it.strip_prefix("RssFile:"));
            let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
            kib.parse::<u64>().unwrap()
        };
        let before = mapped();
        give_back();
        let after = mapped();
        assert!(after < before, "{before} KiB before, {after} after");
        // What is read anew says the same.
        assert_eq!(unwritten(SMAPS, &[0x55b5_a6c0_9010]).len(), 2);
    }
}
