//! Settings of DQN and what was added to it.

use super::{Refused, require};
use serde::{Deserialize, Serialize};
use toml::Value;

/// What stands for the value of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeadConfig {
    /// One number (Mnih et al. 2015).
    Value,
    /// A distribution over fixed atoms (Bellemare, Dabney and Munos 2017).
    Categorical,
    /// Quantiles at any level (Dabney et al. 2018).
    Quantile,
}

/// A value that a preset gives to a key of `[dqn]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    /// A switch.
    Flag(bool),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A word.
    Word(&'static str),
}

impl From<Preset> for Value {
    fn from(preset: Preset) -> Value {
        match preset {
            Preset::Flag(x) => Value::Boolean(x),
            Preset::Whole(x) => Value::Integer(x),
            Preset::Number(x) => Value::Float(x),
            Preset::Word(x) => Value::String(x.to_owned()),
        }
    }
}

const fn switches(
    double: bool,
    dueling: bool,
    head: &'static str,
    noisy: bool,
    prioritized: bool,
    n_step: i64,
    conservative: f64,
) -> [(&'static str, Preset); 7] {
    [
        ("double", Preset::Flag(double)),
        ("dueling", Preset::Flag(dueling)),
        ("head", Preset::Word(head)),
        ("noisy", Preset::Flag(noisy)),
        ("prioritized", Preset::Flag(prioritized)),
        ("n_step", Preset::Whole(n_step)),
        ("conservative", Preset::Number(conservative)),
    ]
}

/// The presets of `dqn.preset`: what each gives to the keys that nothing else sets.
///
/// `vanilla` is Mnih et al. 2015, `rainbow` Hessel et al. 2018, `iqn` Dabney et al. 2018; `foxhunt` is Rainbow with
/// quantiles in place of atoms and the conservative penalty.
pub const PRESETS: [(&str, [(&str, Preset); 7]); 4] = [
    ("vanilla", switches(false, false, "value", false, false, 1, 0.0)),
    ("rainbow", switches(true, true, "categorical", true, true, 3, 0.0)),
    ("iqn", switches(false, false, "quantile", false, false, 1, 0.0)),
    ("foxhunt", switches(true, true, "quantile", true, true, 3, 1.0)),
];

/// `[dqn]`: how the agent learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DqnConfig {
    /// Which of [`PRESETS`] gave the switches that nothing else set; empty for none.
    pub preset: String,
    /// Step size of the optimiser.
    pub learning_rate: f64,
    /// Discount for one environment step.
    pub gamma: f64,
    /// Rows of an update, over all workers.
    pub batch_size: usize,
    /// Transitions kept for replay.
    pub buffer_size: usize,
    /// Transitions before the first update.
    pub learning_starts: usize,
    /// Environment steps between two updates, over all workers.
    pub train_every: usize,
    /// Rewards summed before the bootstrap.
    pub n_step: usize,
    /// Whether the online network chooses the action that the target network values (van Hasselt et al. 2016).
    pub double: bool,
    /// Whether value and advantages are apart (Wang et al. 2016).
    pub dueling: bool,
    /// What stands for the value of an action.
    pub head: HeadConfig,
    /// Atoms of the categorical head.
    pub atoms: usize,
    /// The lowest atom.
    pub v_min: f64,
    /// The highest atom.
    pub v_max: f64,
    /// Levels drawn for each row of the quantile head.
    pub quantiles: usize,
    /// Levels drawn for each row's target.
    pub target_quantiles: usize,
    /// Even levels whose mean chooses actions.
    pub choice_quantiles: usize,
    /// Cosines that embed a level.
    pub cosines: usize,
    /// The first one's factor.
    pub first_cosine: usize,
    /// Where the quantile loss turns from a square into a line.
    pub kappa: f64,
    /// Whether noise on weights explores (Fortunato et al. 2018) in place of random actions.
    pub noisy: bool,
    /// Deviations of the noise at the start, times the root of a layer's inputs.
    pub noisy_sigma: f64,
    /// Whether transitions are drawn by their error (Schaul et al. 2016).
    pub prioritized: bool,
    /// The power of an error that it is drawn by.
    pub priority_alpha: f64,
    /// The power of the weights that make up for it, at the start; 1 at the end.
    pub priority_beta: f64,
    /// Added to errors.
    pub priority_eps: f64,
    /// Weight of the conservative penalty (Kumar et al. 2020); 0 for none.
    pub conservative: f64,
    /// Updates between two copies to the target network.
    pub target_every: u64,
    /// Share taken over in each copy.
    pub target_tau: f64,
    /// Share of random actions at the start.
    pub epsilon_start: f64,
    /// Share of random actions after `epsilon_fraction` of the steps.
    pub epsilon_end: f64,
    /// Share of the steps over which it falls, in a straight line.
    pub epsilon_fraction: f64,
}

impl DqnConfig {
    pub(super) fn check(&self) -> Refused {
        let lr = self.learning_rate;
        require(lr > 0.0 && lr < 10.0, "dqn.learning_rate", lr, "must be above 0 and below 10")?;
        require((0.0..=1.0).contains(&self.gamma), "dqn.gamma", self.gamma, "must be from 0 to 1")?;
        require((1..=1 << 24).contains(&self.batch_size), "dqn.batch_size", self.batch_size, "must be from 1 to 2^24")?;
        let n = self.n_step;
        require((1..=64).contains(&n), "dqn.n_step", n, "must be from 1 to 64")?;
        require(self.train_every > 0, "dqn.train_every", self.train_every, "must be at least 1")?;
        require(self.target_every > 0, "dqn.target_every", self.target_every, "must be at least 1")?;
        let preset = &self.preset;
        let known = preset.is_empty() || PRESETS.iter().any(|(name, _)| name == preset);
        require(known, "dqn.preset", preset, "must be vanilla, rainbow, iqn, foxhunt, or empty for none")?;
        require((2..=4096).contains(&self.atoms), "dqn.atoms", self.atoms, "must be from 2 to 4096")?;
        let (low, high) = (self.v_min, self.v_max);
        require(low.is_finite(), "dqn.v_min", low, "must be a finite number")?;
        require(high.is_finite() && high > low, "dqn.v_max", high, "must be above dqn.v_min")?;
        for (key, count) in [
            ("dqn.quantiles", self.quantiles),
            ("dqn.target_quantiles", self.target_quantiles),
            ("dqn.choice_quantiles", self.choice_quantiles),
            ("dqn.cosines", self.cosines),
        ] {
            require((1..=4096).contains(&count), key, count, "must be from 1 to 4096")?;
        }
        require(self.first_cosine <= 1, "dqn.first_cosine", self.first_cosine, "must be 0 or 1")?;
        let kappa = self.kappa;
        require(kappa > 0.0 && kappa.is_finite(), "dqn.kappa", kappa, "must be above 0")?;
        for (key, x) in [("dqn.noisy_sigma", self.noisy_sigma), ("dqn.conservative", self.conservative)] {
            require(x.is_finite() && x >= 0.0, key, x, "must be 0 or more")?;
        }
        for (key, power) in [("dqn.priority_alpha", self.priority_alpha), ("dqn.priority_beta", self.priority_beta)] {
            require((0.0..=1.0).contains(&power), key, power, "must be from 0 to 1")?;
        }
        let eps = self.priority_eps;
        require(eps > 0.0 && eps < 1.0, "dqn.priority_eps", eps, "must be above 0 and below 1")?;
        let tau = self.target_tau;
        require(tau > 0.0 && tau <= 1.0, "dqn.target_tau", tau, "must be above 0, at most 1")?;
        for (key, share) in [
            ("dqn.epsilon_start", self.epsilon_start),
            ("dqn.epsilon_end", self.epsilon_end),
            ("dqn.epsilon_fraction", self.epsilon_fraction),
        ] {
            require((0.0..=1.0).contains(&share), key, share, "must be from 0 to 1")?;
        }
        Ok(())
    }
}
