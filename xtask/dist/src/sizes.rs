//! Sizes of the programs and their parts.

use std::{collections::BTreeMap, fmt::Write};

use object::{Object, ObjectSection, SectionFlags};

/// Parts of programs, with the sections that make them.
const PARTS: [(&str, &[&str]); 6] = [
    ("code", &[".text", ".init", ".fini", ".plt", ".plt.got"]),
    ("constants and embedded files", &[".rodata"]),
    (
        "tables for unwinding",
        &[".eh_frame", ".eh_frame_hdr", ".gcc_except_table"],
    ),
    (
        "data that is relocated",
        &[
            ".data.rel.ro",
            ".got",
            ".got.plt",
            ".init_array",
            ".fini_array",
        ],
    ),
    ("relocations", &[".rela.dyn", ".rela.plt", ".relr.dyn"]),
    (
        "names of functions",
        &[
            ".symtab",
            ".strtab",
            ".dynsym",
            ".dynstr",
            ".gnu.hash",
            ".hash",
        ],
    ),
];

/// The size of each part of a program, largest first.
///
/// # Errors
/// A file that is no ELF file.
pub fn parts(bytes: &[u8]) -> Result<Vec<(String, u64)>, object::Error> {
    let file = object::File::parse(bytes)?;
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut known = 0;
    for section in file.sections() {
        let Some((_, size)) = section.file_range() else {
            continue;
        };
        let name = section.name().unwrap_or_default();
        let part = PARTS.iter().find(|(_, names)| names.contains(&name));
        let is_loaded = matches!(section.flags(), SectionFlags::Elf { sh_flags, .. }
            if sh_flags & u64::from(object::elf::SHF_ALLOC) != 0);
        let part = match part {
            Some((part, _)) => part,
            None if is_loaded => "other data",
            None => "information for debuggers",
        };
        *sizes.entry(part).or_default() += size;
        known += size;
    }
    let rest = (bytes.len() as u64).saturating_sub(known);
    *sizes.entry("headers and padding").or_default() += rest;
    let mut sizes: Vec<_> = sizes
        .into_iter()
        .map(|(name, size)| (name.to_owned(), size))
        .collect();
    sizes.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    Ok(sizes)
}

/// A table of programs and their parts.
///
/// # Errors
/// A file that is no ELF file.
pub fn table(programs: &[(String, Vec<u8>)]) -> Result<String, object::Error> {
    let mut text = String::new();
    for (name, bytes) in programs {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<32} {:>12} bytes", bytes.len());
        for (part, size) in parts(bytes)? {
            let _ = writeln!(text, "  {part:<30} {size:>12}");
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let parts = parts(&bytes).unwrap();
        let sum: u64 = parts.iter().map(|(_, size)| size).sum();
        assert_eq!(sum, bytes.len() as u64);
        assert!(
            parts
                .iter()
                .any(|(name, size)| name == "code" && *size > 10_000)
        );
        let table = table(&[("this".to_owned(), bytes)]).unwrap();
        assert!(table.starts_with("this "), "{table}");
    }
}
