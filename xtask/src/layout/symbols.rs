//! The functions of programs, objects and archives of objects.

use std::{fs, path::Path};

use object::{Object as _, ObjectSymbol as _, SymbolKind, read::archive::ArchiveFile};

use crate::error::{Error, at};

/// A function.
pub struct Function {
    /// As the linker knows it.
    pub name: String,
    /// The address; in an object, within its section.
    pub address: u64,
    /// The size of its code, in bytes.
    pub size: u64,
}

/// The functions that a file defines: of a program, an object, or an archive of objects.
/// Members of an archive that are no objects (rustc's own) have none.
///
/// # Errors
/// When the file cannot be read, or is none of these.
pub fn functions(path: &Path) -> Result<Vec<Function>, Error> {
    let data = fs::read(path).map_err(at(path))?;
    let mut found = Vec::new();
    if let Ok(archive) = ArchiveFile::parse(&*data) {
        for member in archive.members() {
            let bytes = member.and_then(|member| member.data(&*data));
            add(&mut found, bytes.map_err(|error| unreadable(path, error))?);
        }
    } else if !add(&mut found, &data) {
        return Err(unreadable(path, "neither an object nor an archive"));
    }
    Ok(found)
}

fn add(to: &mut Vec<Function>, object: &[u8]) -> bool {
    let Ok(object) = object::File::parse(object) else {
        return false;
    };
    for symbol in object.symbols() {
        if symbol.kind() == SymbolKind::Text
            && symbol.is_definition()
            && let Ok(name) = symbol.name()
        {
            to.push(Function {
                name: name.to_owned(),
                address: symbol.address(),
                size: symbol.size(),
            });
        }
    }
    true
}

fn unreadable(path: &Path, why: impl ToString) -> Error {
    at(path)(std::io::Error::other(why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_functions_that_it_calls() {
        let this = std::env::current_exe().unwrap();
        let functions = functions(&this).unwrap();
        let main = functions.iter().find(|it| it.name == "main").unwrap();
        assert!(main.address > 0 && main.size > 0);
    }

    #[test]
    fn a_text_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "no object").unwrap();
        let error = functions(file.path()).err().unwrap().to_string();
        assert!(
            error.contains(&file.path().display().to_string()),
            "{error}"
        );
    }
}
