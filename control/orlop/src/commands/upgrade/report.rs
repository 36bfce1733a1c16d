//! How a plan is shown.

use super::plan::{self, Check, UpgradeFacts, UpgradeVerdict};
use crate::error::Error;

/// The checks as a table.
pub fn table(checks: &[Check]) -> String {
    let rows: Vec<[String; 3]> = checks
        .iter()
        .map(|check| {
            let verdict = match check.verdict {
                UpgradeVerdict::Fine => "ok",
                UpgradeVerdict::Note => "note",
                UpgradeVerdict::Refused => "refused",
            };
            [
                check.name.to_owned(),
                verdict.to_owned(),
                check.text.clone(),
            ]
        })
        .collect();
    crate::table::table(["CHECK", "RESULT", "FOUND"], &rows)
}

/// Returns the steps for each machine.
pub fn steps(facts: &UpgradeFacts) -> String {
    let mut out = "steps:\n  1. on each server, one after the other: orlop upgrade apply --to PATH --restart COMMAND --backup-to PLACE\n".to_owned();
    out.push_str("  2. on each node: orlop upgrade apply --node --to PATH --restart COMMAND (pods keep running; --drain empties the node before)\n");
    if let Some(nodes) = &facts.nodes {
        let names: Vec<&str> = nodes.iter().map(|(name, _)| &**name).collect();
        out.push_str(&format!("     nodes: {}\n", names.join(", ")));
    }
    out.push_str(
        "  3. on each server, when there is no way back wanted any more: orlop upgrade finish\n",
    );
    out
}

/// Ends with an error if something hinders the upgrade.
///
/// # Errors
/// How many checks refuse.
pub fn conclude(checks: &[Check]) -> Result<(), Error> {
    if plan::is_possible(checks) {
        return Ok(());
    }
    let refused = checks
        .iter()
        .filter(|check| check.verdict == UpgradeVerdict::Refused);
    Err(Error::Verify(refused.count()))
}
