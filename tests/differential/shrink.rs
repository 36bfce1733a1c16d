//! The smallest cluster that still shows a difference.

use std::time::{Duration, Instant};

use crate::Error;
use crate::case::Case;
use crate::compare::Difference;
use crate::stage::Stage;

/// How long a smaller cluster is looked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Drops whatever the difference does not need, and prints the rest.
pub async fn print(
    stage: &mut Stage,
    case: &Case,
    differences: &[Difference],
) -> Result<(), Error> {
    let began = Instant::now();
    let mut least = case.clone();
    let mut last = Vec::new();
    let mut tried = 0;
    'smaller: while began.elapsed() < PATIENCE {
        for smaller in least.smaller() {
            if began.elapsed() >= PATIENCE {
                break;
            }
            tried += 1;
            // What the API server refuses is no case.
            let Ok(compared) = stage.run(&smaller).await else {
                continue;
            };
            let same = compared.into_iter().find(|it| {
                let mut all = it.differences.iter();
                all.any(|it| differences.iter().any(|other| other.what == it.what))
            });
            if let Some(same) = same {
                least = smaller;
                last = same.differences;
                continue 'smaller;
            }
        }
        break;
    }
    if last.is_empty() {
        println!("  alone it does not show; {tried} smaller clusters were tried");
        return Ok(());
    }
    println!("  the same in a smaller cluster ({tried} were tried):");
    for difference in &last {
        println!("  {difference}");
    }
    for object in &least.objects {
        println!("    {}", object.value);
    }
    for step in &least.steps {
        println!("    {}", step.pod());
    }
    Ok(())
}
