//! What a policy is worth on bars: a walk through a part of a fold, beside holding and chance.

mod chance;
mod returns;
mod trading;

pub use returns::{max_drawdown, sharpe, total_return};
pub use trading::{ActionTable, BATCH_ROWS, Policy, RANDOM_RUNS, fold_result, validation_score};
