//! A policy and a value, each with hidden layers of its own.

use super::network::{Builder, Init, Layer, Network};
use crate::kernels::linear::Activation;

/// The name of the logarithms of deviations among the parameters.
pub const LOG_STD: &str = "log_std";

/// What the network is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct ActorCriticSettings {
    /// Values in an observation.
    pub observation: usize,
    /// Outputs of the policy: logits, or means.
    pub outputs: usize,
    /// The first logarithm of the deviations, one for each output and the same in all states; none for logits.
    pub log_std: Option<f64>,
    /// Widths of the policy's hidden layers.
    pub policy_hidden: Vec<usize>,
    /// Widths of the value's hidden layers.
    pub value_hidden: Vec<usize>,
    /// What follows hidden layers.
    pub activation: Activation,
}

impl ActorCriticSettings {
    /// The network: two outputs, the policy's `[rows][outputs]` and the value `[rows]`. Weights begin orthogonal, with the
    /// gain sqrt(2), the policy's last ones 0.01, the value's last ones 1; biases begin as 0 (Andrychowicz et al. 2021).
    pub fn network(&self) -> Network {
        let mut b = Builder::new(self.observation);
        let mut stack = |name: &str, hidden: &[usize], outputs: usize, gain: f64| {
            let layer = |outputs, activation, gain| Layer {
                outputs,
                activation,
                init: Some(Init::Orthogonal(gain)),
                noise: None,
            };
            let mut x = b.observation();
            for (i, width) in hidden.iter().enumerate() {
                x = b.linear(&format!("{name}{i:03}"), x, layer(*width, self.activation, 2f64.sqrt()));
            }
            b.linear(&format!("{name}{:03}", hidden.len()), x, layer(outputs, Activation::None, gain))
        };
        let policy = stack("policy", &self.policy_hidden, self.outputs, 0.01);
        let value = stack("value", &self.value_hidden, 1, 1.0);
        if let Some(log_std) = self.log_std {
            b.free(LOG_STD, self.outputs, log_std);
        }
        b.finish(&[policy, value])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::{HostNetwork, Levels, Pass};
    use crate::seed::Streams;
    use std::sync::Arc;

    #[test]
    fn layers_begin_orthogonal_and_policies_indifferent() {
        let settings = ActorCriticSettings {
            observation: 4,
            outputs: 2,
            log_std: Some(-0.5),
            policy_hidden: vec![64, 32],
            value_hidden: vec![64, 32, 8],
            activation: Activation::Tanh,
        };
        let network = Arc::new(settings.network());
        let mut host = HostNetwork::<f64>::new(Arc::clone(&network), &Streams::new(5));
        let named = |name: &str| network.parameters().iter().find(|p| p.name == name).unwrap();
        for (name, gain) in [("policy001.weight", 2.0), ("policy002.weight", 1e-4), ("value003.weight", 1.0)] {
            let parameter = named(name);
            let (rows, columns) = (parameter.shape[0], parameter.shape[1]);
            let w = &host.values()[parameter.place.clone()];
            assert!(rows <= columns);
            for i in 0..rows {
                for j in 0..rows {
                    let dot: f64 = (0..columns).map(|k| w[i * columns + k] * w[j * columns + k]).sum();
                    let expected = if i == j { gain } else { 0.0 };
                    assert!((dot - expected).abs() < 1e-9, "{name} {i} {j}: {dot}");
                }
            }
        }
        assert_eq!(host.values()[named(LOG_STD).place.clone()], [-0.5, -0.5]);
        assert!(host.values()[named("value000.bias").place.clone()].iter().all(|b| *b == 0.0));
        let mut pass = Pass::new();
        host.forward(&mut pass, &[0.3, -0.2, 1.5, 0.7], 1, Levels::None);
        assert!(pass.output(0).iter().all(|x| x.abs() < 0.1), "{:?}", pass.output(0));
        assert_eq!(pass.output(1).len(), 1);
    }
}
