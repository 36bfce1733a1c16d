//! This program in the linker's place: it says to the linker in which order functions lie.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use super::{
    Linker,
    names::digest,
    order::{self, LinkedSymbols},
    symbols,
};
use crate::error::{Error, at};

/// The one program that is put in order.
const PROGRAM: &str = "orlop-";
/// Option of compilers that link with lld, the one linker that knows how.
const LLD: &str = "-fuse-ld=lld";
/// Option of lld that takes all names away.
const STRIP: &str = "--strip-all";

/// Links as rustc requests, by the linker at `real`; the program in the order of the file `order`.
/// Writes the linked functions to the file `told`, if given, and the program with its symbols, for
/// `cargo xtask layout trace`, beside it. What rustc requested is as without.
pub fn link(
    linker: Linker,
    real: &Path,
    order: &Path,
    told: Option<&Path>,
    arguments: &[OsString],
) -> ExitCode {
    let mut command = Command::new(real);
    command.args(arguments);
    if let Some(program) = program(linker, arguments) {
        match ordered(order, told, program, arguments) {
            Ok(file) => {
                let mut option = OsString::from(linker.option("--symbol-ordering-file="));
                option.push(file);
                let order = [option, linker.option("--no-warn-symbol-ordering").into()];
                command.args(&order);
                if let Some(told) = told {
                    let mut traced = Command::new(real);
                    traced
                        .args(with_symbols(linker, arguments, told))
                        .args(&order);
                    match traced.status() {
                        Ok(status) if status.success() => {}
                        failed => eprintln!("no program to trace is linked: {failed:?}"),
                    }
                }
            }
            // It works in any order.
            Err(error) => eprintln!("the program is linked in no order: {error}"),
        }
    }
    let error = command.exec();
    eprintln!("cannot start `{}`: {error}", real.display());
    ExitCode::FAILURE
}

/// Returns the arguments that link the same program with its symbols, beside the file `told`.
fn with_symbols(linker: Linker, arguments: &[OsString], told: &Path) -> Vec<OsString> {
    let strip = linker.option(STRIP);
    let mut traced: Vec<_> = arguments
        .iter()
        .filter(|it| **it != *strip)
        .cloned()
        .collect();
    let output = traced.iter().position(|it| it == "-o");
    if let Some(path) = output.and_then(|at| traced.get_mut(at + 1)) {
        *path = told.with_added_extension("program").into_os_string();
    }
    traced
}

/// Returns the linked program, if it is one that is ordered.
fn program(linker: Linker, arguments: &[OsString]) -> Option<&Path> {
    let at = arguments.iter().position(|it| it == "-o")?;
    let program = Path::new(arguments.get(at + 1)?);
    let name = program.file_name()?.to_str()?;
    let hash = name.strip_prefix(PROGRAM)?;
    let is_it = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_lld = linker == Linker::Lld || arguments.iter().any(|it| it == LLD);
    (is_it && is_lld).then_some(program)
}

/// Writes the order for the linker, which wants names as they are in this link.
fn ordered(
    order: &Path,
    told: Option<&Path>,
    program: &Path,
    arguments: &[OsString],
) -> Result<PathBuf, Error> {
    let text = fs::read_to_string(order).map_err(at(order))?;
    let mut linked = Vec::new();
    for input in arguments.iter().map(Path::new) {
        if matches!(
            input.extension().and_then(OsStr::to_str),
            Some("o" | "rlib")
        ) {
            linked.extend(
                symbols::functions(input)?
                    .into_iter()
                    .map(|it| LinkedSymbols {
                        digest: digest(input, &it.name),
                        size: it.size,
                        name: it.name,
                    }),
            );
        }
    }
    if let Some(told) = told {
        let lines = linked
            .iter()
            .map(|it| format!("{} {} {}\n", it.digest, it.size, it.name));
        fs::write(told, lines.collect::<String>()).map_err(at(told))?;
    }
    let file = program.with_extension("order");
    fs::write(&file, order::names(&text, &linked).join("\n")).map_err(at(&file))?;
    Ok(file)
}

/// Parses the list of a former link.
pub fn parse_symbols(text: &str) -> Vec<LinkedSymbols> {
    let function = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        Some(LinkedSymbols {
            digest: words.next()?,
            size: words.next()?.parse().ok()?,
            name: words.next()?,
        })
    };
    text.lines().filter_map(function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_program_is_put_in_order_and_only_by_the_linker_that_can() {
        let linked_by = |linker, text: &str| {
            let words: Vec<_> = text.split(' ').map(OsString::from).collect();
            program(linker, &words).map(Path::to_owned)
        };
        let of = |text: &str| linked_by(Linker::Compiler, text);
        assert_eq!(
            of("a.o -fuse-ld=lld -o /t/deps/orlop-0123456789abcdef -pie"),
            Some(PathBuf::from("/t/deps/orlop-0123456789abcdef"))
        );
        let program = "a.o -o /t/deps/orlop-0123456789abcdef";
        assert!(linked_by(Linker::Lld, program).is_some());
        for other in [
            "a.o -o /t/deps/orlop-0123456789abcdef",
            "a.o -fuse-ld=lld -o /t/deps/orlop_cni-0123456789abcdef",
            "a.o -fuse-ld=lld -o /t/deps/libserde-0123456789abcdef.so",
            "a.o -fuse-ld=lld -o",
            "a.o -fuse-ld=lld",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_to_trace_has_symbols_and_a_path_of_its_own() {
        for (linker, strip) in [
            (Linker::Compiler, "-Wl,--strip-all"),
            (Linker::Lld, "--strip-all"),
        ] {
            let arguments = ["a.o", strip, "-o", "/t/orlop", "-pie"].map(OsString::from);
            let traced = with_symbols(linker, &arguments, Path::new("/x/told.txt"));
            assert_eq!(traced, ["a.o", "-o", "/x/told.txt.program", "-pie"]);
        }
    }

    #[test]
    fn what_is_linked_is_told_and_put_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let [order, told_to] = ["order", "told"].map(|name| folder.path().join(name));
        let object = folder.path().join("this.o");
        fs::copy(std::env::current_exe().unwrap(), &object).unwrap();
        let arguments = [object.clone().into_os_string()];
        fs::write(&order, "").unwrap();
        let program = folder.path().join("orlop-0123456789abcdef");
        ordered(&order, Some(&told_to), &program, &arguments).unwrap();
        let linked = parse_symbols(&fs::read_to_string(&told_to).unwrap());
        fs::write(&order, order::written(&linked, ["main"].into_iter())).unwrap();
        let file = ordered(&order, None, &program, &arguments).unwrap();
        assert_eq!(fs::read_to_string(file).unwrap(), "main");
    }
}
