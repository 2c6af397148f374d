//! What a policy is worth: on bars a walk through a part of a fold, beside holding and chance; elsewhere greedy episodes.

mod chance;
mod episodes;
mod returns;
mod trading;

pub use episodes::{MOST_STEPS, greedy_episodes, returns_of};
pub use returns::{max_drawdown, sharpe, total_return};
pub use trading::{ActionTable, BATCH_ROWS, Policy, RANDOM_RUNS, fold_result, validation_score};
