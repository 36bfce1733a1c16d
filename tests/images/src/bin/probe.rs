//! The probe of `orlop connectivity test` as a static program: what `orlop connectivity probe`
//! is, for an image that has nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    for word in ["connectivity", "probe"] {
        words.next_if(|it| it == word);
    }
    match control_connectivity::probe::run(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probe: {error}");
            ExitCode::FAILURE
        }
    }
}
