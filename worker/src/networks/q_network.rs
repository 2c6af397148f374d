//! A multilayer perceptron from an observation to one value for each action.

use crate::seed::{Streams, uniform};
use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::VarMap;

/// Linear layers with a rectifier between them.
///
/// Layer `i` owns `layer{i:03}.weight` of shape [outputs, inputs] and `layer{i:03}.bias` of shape [outputs]: numbered
/// so that the order of the names is the order of the layers.
pub struct QNetwork {
    parameters: VarMap,
    layers: Vec<Layer>,
    sizes: Vec<usize>,
}

struct Layer {
    weight: Var,
    bias: Var,
}

impl QNetwork {
    /// A network for observations of `observation` values and `actions` actions, with hidden layers of the widths
    /// `hidden`, as `f32` or `f64`.
    ///
    /// Weights and biases are uniform in ± 1/sqrt(inputs), as in PyTorch's `nn.Linear`, drawn from `streams`
    /// (candle's own generator cannot be seeded on the host).
    pub fn new(
        observation: usize,
        hidden: &[usize],
        actions: usize,
        dtype: DType,
        device: &Device,
        streams: &Streams,
    ) -> Result<QNetwork> {
        let sizes: Vec<usize> = [&[observation], hidden, &[actions]].concat();
        let parameters = VarMap::new();
        let mut layers = Vec::new();
        for (i, pair) in sizes.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let bound = 1.0 / (inputs as f64).sqrt();
            let drawn = |part: u64, len: usize| -> Vec<f64> {
                let mut draw = streams.draw("init", i as u64, part);
                (0..len).map(|_| bound * (2.0 * uniform(&mut draw) - 1.0)).collect()
            };
            let named = |name: &str, values: Vec<f64>, shape: &[usize]| -> Result<Var> {
                let var = Var::from_tensor(
                    &Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)?,
                )?;
                let mut data = parameters.data().lock().expect("no one panics holding the parameters");
                data.insert(format!("layer{i:03}.{name}"), var.clone());
                Ok(var)
            };
            layers.push(Layer {
                weight: named("weight", drawn(0, inputs * outputs), &[outputs, inputs])?,
                bias: named("bias", drawn(1, outputs), &[outputs])?,
            });
        }
        Ok(QNetwork { parameters, layers, sizes })
    }

    /// The parameters by name.
    pub fn parameters(&self) -> &VarMap {
        &self.parameters
    }

    /// The parameters in the order of their names.
    pub fn variables(&self) -> Vec<Var> {
        // bias before weight, as the names sort
        self.layers.iter().flat_map(|layer| [layer.bias.clone(), layer.weight.clone()]).collect()
    }

    /// How many parameters a network of these sizes has.
    pub fn parameter_count(observation: usize, hidden: &[usize], actions: usize) -> usize {
        let sizes: Vec<usize> = [&[observation], hidden, &[actions]].concat();
        sizes.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum()
    }

    /// Values in an observation.
    pub fn observation_len(&self) -> usize {
        self.sizes[0]
    }

    /// Actions to choose from.
    pub fn actions(&self) -> usize {
        self.sizes[self.sizes.len() - 1]
    }

    /// The type of its parameters.
    pub fn dtype(&self) -> DType {
        self.layers[0].weight.dtype()
    }

    /// The values Q(s, ·) of `observations` [rows, observation]: [rows, actions].
    pub fn forward(&self, observations: &Tensor) -> Result<Tensor> {
        let mut x = observations.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            if i > 0 {
                x = x.relu()?;
            }
            x = x.matmul(&layer.weight.t()?)?.broadcast_add(&layer.bias)?;
        }
        Ok(x)
    }

    /// As [`QNetwork::forward`], for values that nobody differentiates.
    pub fn forward_detached(&self, observations: &Tensor) -> Result<Tensor> {
        let mut x = observations.detach();
        for (i, layer) in self.layers.iter().enumerate() {
            if i > 0 {
                x = x.relu()?;
            }
            x = x.matmul(&layer.weight.as_detached_tensor().t()?)?.broadcast_add(&layer.bias.as_detached_tensor())?;
        }
        Ok(x)
    }

    /// Moves the parameters the share `tau` of the way to those of `source`, a network of the same sizes:
    /// p <- (1 - tau) p + tau p_source; 1 copies.
    pub fn follow(&self, source: &QNetwork, tau: f64) -> Result<()> {
        for (mine, theirs) in self.variables().iter().zip(source.variables()) {
            if tau == 1.0 {
                mine.set(&theirs.as_detached_tensor())?;
            } else {
                let kept = mine.as_detached_tensor().affine(1.0 - tau, 0.0)?;
                mine.set(&(kept + theirs.as_detached_tensor().affine(tau, 0.0)?)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(seed: u64) -> QNetwork {
        QNetwork::new(5, &[8, 4], 3, DType::F32, &Device::Cpu, &Streams::new(seed)).unwrap()
    }

    fn bits(network: &QNetwork) -> Vec<u32> {
        let values = |v: &Var| v.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        network.variables().iter().flat_map(values).map(f32::to_bits).collect()
    }

    #[test]
    fn the_seed_decides_every_parameter() {
        assert_eq!(bits(&network(1)), bits(&network(1)));
        assert_ne!(bits(&network(1)), bits(&network(2)));
        assert_eq!(bits(&network(1)).len(), QNetwork::parameter_count(5, &[8, 4], 3));
    }

    #[test]
    fn the_order_of_the_variables_is_that_of_their_names() {
        let network = network(1);
        let data = network.parameters().data().lock().unwrap();
        let mut names: Vec<&String> = data.keys().collect();
        names.sort();
        let by_name: Vec<_> = names.iter().map(|name| data[*name].id()).collect();
        assert_eq!(by_name, network.variables().iter().map(|v| v.id()).collect::<Vec<_>>());
    }

    #[test]
    fn every_parameter_gets_a_gradient_and_detached_values_are_the_same() {
        let network = network(4);
        let x: Vec<f32> = (0..40).map(|i| (i as f32 * 0.7).sin()).collect();
        let x = Tensor::from_vec(x, (8, 5), &Device::Cpu).unwrap();
        let q = network.forward(&x).unwrap();
        let plain = network.forward_detached(&x).unwrap();
        assert_eq!(q.to_vec2::<f32>().unwrap(), plain.to_vec2::<f32>().unwrap());
        let gradients = q.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        for variable in network.variables() {
            let g = gradients.get(&variable).expect("a gradient for every parameter");
            assert!(g.abs().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap() > 0.0);
        }
    }

    #[test]
    fn following_copies_or_goes_part_of_the_way() {
        let (a, b) = (network(1), network(2));
        let first = |n: &QNetwork| n.variables()[1].flatten_all().unwrap().to_vec1::<f32>().unwrap()[0];
        let middle = 0.75 * first(&a) + 0.25 * first(&b);
        a.follow(&b, 0.25).unwrap();
        assert!((first(&a) - middle).abs() < 1e-6);
        a.follow(&b, 1.0).unwrap();
        assert_eq!(bits(&a), bits(&b));
    }
}
