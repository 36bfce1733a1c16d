//! Attempts of an attacker against the cluster, each with what the victim has afterwards.

use tests::Failure;

pub mod node;
pub mod pod;

/// One row of the table that an attack prints.
pub struct Attempt {
    /// What is tried.
    pub what: String,
    /// How it was refused, in the server's words; an error where it was not.
    pub refusal: Result<String, Failure>,
}

/// Prints all attempts.
///
/// # Errors
/// The first that was not refused.
pub fn judge(attempts: Vec<Attempt>) -> Result<(), Failure> {
    let width = attempts.iter().map(|attempt| attempt.what.len()).max();
    let width = width.unwrap_or(0);
    let mut first = Ok(());
    for Attempt { what, refusal } in attempts {
        match refusal {
            Ok(refusal) => println!("    {what:<width$}  {refusal}"),
            Err(error) => {
                println!("  ! {what:<width$}  {error}");
                if first.is_ok() {
                    first = Err(format!("{what}: {error}").into());
                }
            }
        }
    }
    first
}
