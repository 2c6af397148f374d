//! The judge of agents that trade: validation and test parts of one fold.

use super::TrainError;
use super::run::Judge;
use crate::data::{Dataset, Fold, Scaler};
use crate::environments::market::Market;
use crate::evaluate::{Policy, fold_result, validation_score};
use crate::seed::Streams;
use foxlaunch_shared::config::Config;
use foxlaunch_shared::evaluation::FoldResult;
use foxlaunch_shared::run_dir::RunDir;
use serde_json::json;
use std::path::PathBuf;

/// Scores weights by what they earn, net of costs, on the validation part, and tests them on the test part.
pub struct MarketJudge<'a> {
    fold: &'a Fold,
    scaler: &'a Scaler,
    config: &'a Config,
    validation: Market,
    test: Market,
    streams: Streams,
}

impl<'a> MarketJudge<'a> {
    /// The judge of `fold`, whose features are scaled as in training.
    pub fn new(
        dataset: &Dataset,
        fold: &'a Fold,
        scaler: &'a Scaler,
        config: &'a Config,
        streams: Streams,
    ) -> Result<MarketJudge<'a>, TrainError> {
        let market = |part| Market::new(dataset, part, scaler, &config.environment);
        Ok(MarketJudge {
            fold,
            scaler,
            config,
            validation: market(&fold.validation)?,
            test: market(&fold.test)?,
            streams,
        })
    }
}

impl Judge for MarketJudge<'_> {
    type Action = usize;
    type Verdict = FoldResult;

    fn validate(&self, policy: &mut Policy<'_>) -> anyhow::Result<f64> {
        validation_score(&self.validation, policy)
    }

    fn test(&self, policy: &mut Policy<'_>) -> anyhow::Result<FoldResult> {
        fold_result(&self.test, self.fold, &self.streams, policy)
    }

    fn file(&self, run: &RunDir, fold: usize) -> PathBuf {
        run.fold(fold)
    }

    fn recipe(&self) -> serde_json::Value {
        let dataset = self.test.dataset();
        json!({
            "features": dataset.feature_names(),
            "feature_digest": dataset.feature_digest(),
            "scaler": self.scaler,
            "positions": self.config.environment.positions,
            "algorithm": self.config.train.algorithm,
            "network": self.config.network,
            "ppo": self.config.ppo,
            "dqn": self.config.dqn,
        })
    }
}
