//! Networks whose outputs are values of actions, plain or as a distribution.

use super::network::{Builder, Layer, Network};
use crate::kernels::linear::Activation;

/// What stands for the value of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// One number.
    Value,
    /// Logits over so many atoms (Bellemare et al. 2017).
    Categorical(usize),
    /// Quantiles at levels that are asked for, embedded by so many cosines (Dabney et al. 2018).
    Quantile {
        /// How many.
        cosines: usize,
        /// The first one's factor: 0 in the paper, 1 in Dopamine.
        first: usize,
    },
}

impl Head {
    /// Outputs for each action.
    pub fn atoms(&self) -> usize {
        if let Head::Categorical(atoms) = self { *atoms } else { 1 }
    }
}

/// What a network of values is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct QSettings {
    /// Values in an observation.
    pub observation: usize,
    /// Actions to choose from.
    pub actions: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// What stands for a value.
    pub head: Head,
    /// Whether value and advantages are separate (Wang et al. 2016): each then has a hidden layer of its own, as wide as
    /// the last of `hidden`, which the body gives up.
    pub dueling: bool,
    /// sigma_0 of noise on the weights behind the body (Fortunato et al. 2018), if any.
    pub noise: Option<f64>,
}

impl QSettings {
    /// The network: one output, `[rows][actions][atoms]`, or `[rows][levels][actions]` for quantiles.
    pub fn network(&self) -> Network {
        let mut b = Builder::new(self.observation);
        let layer = |outputs, activation, noise| Layer { outputs, activation, init: None, noise };
        let (body, own) = match self.hidden.split_last() {
            Some((last, body)) if self.dueling && !body.is_empty() => (body, Some(*last)),
            _ => (&self.hidden[..], None),
        };
        let mut x = b.observation();
        for (i, width) in body.iter().enumerate() {
            x = b.linear(&format!("body{i:03}"), x, layer(*width, Activation::Relu, None));
        }
        if let Head::Quantile { cosines, first } = self.head {
            let width = body.last().copied().unwrap_or(self.observation);
            let cosines = b.cosines(cosines, first);
            let embedding = b.linear("embedding", cosines, layer(width, Activation::Relu, None));
            x = b.product(x, embedding);
        }
        let outputs = self.actions * self.head.atoms();
        let stream = |b: &mut Builder, name: &str, outputs| {
            let hidden = |width| layer(width, Activation::Relu, self.noise);
            let x = own.map_or(x, |width| b.linear(&format!("{name}000"), x, hidden(width)));
            b.linear(&format!("{name}001"), x, layer(outputs, Activation::None, self.noise))
        };
        let q = if self.dueling {
            let (value, advantage) = (stream(&mut b, "value", self.head.atoms()), stream(&mut b, "advantage", outputs));
            b.dueling(value, advantage, self.head.atoms())
        } else {
            stream(&mut b, "value", outputs)
        };
        b.finish(&[q])
    }
}
