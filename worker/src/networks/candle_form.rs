//! The same networks computed by candle, with its autograd: on GPUs, and on the host as the oracle of the kernels' tests.

use super::network::{Network, Op, Per};
use super::noise::Noise;
use crate::kernels::Scalar;
use crate::kernels::linear::Activation;
use crate::seed::Streams;
use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::VarMap;
use std::sync::Arc;

/// A network's parameters as candle's variables.
pub struct CandleNetwork {
    network: Arc<Network>,
    parameters: VarMap,
    variables: Vec<Var>,
    /// For each operation the noise of weight and bias.
    noise: Option<Vec<Option<(Tensor, Tensor)>>>,
}

impl CandleNetwork {
    /// Fresh parameters, which `streams` decide, as `dtype` (f32 or f64) on `device`.
    pub fn new(network: Arc<Network>, dtype: DType, device: &Device, streams: &Streams) -> Result<CandleNetwork> {
        let (parameters, values) = (VarMap::new(), network.init(streams));
        let mut variables = Vec::new();
        for parameter in network.parameters() {
            let host = Tensor::from_slice(&values[parameter.place.clone()], parameter.shape.as_slice(), &Device::Cpu)?;
            let var = Var::from_tensor(&host.to_dtype(dtype)?.to_device(device)?)?;
            let mut data = parameters.data().lock().expect("no one panics holding the parameters");
            data.insert(parameter.name.clone(), var.clone());
            variables.push(var);
        }
        Ok(CandleNetwork { network, parameters, variables, noise: None })
    }

    /// The list of operations.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The parameters by name.
    pub fn parameters(&self) -> &VarMap {
        &self.parameters
    }

    /// The parameters in the order of their names.
    pub fn variables(&self) -> &[Var] {
        &self.variables
    }

    /// Sets the noise on noisy weights; `None` for the weights' means alone.
    pub fn set_noise<T: Scalar>(&mut self, noise: Option<&Noise<T>>) -> Result<()> {
        let tensor = |values: &[T], shape: (usize, usize)| {
            let var = &self.variables[0];
            let wide: Vec<f64> = values.iter().map(|x| x.wide()).collect();
            Tensor::from_vec(wide, shape, &Device::Cpu)?.to_dtype(var.dtype())?.to_device(var.device())
        };
        let Some(noise) = noise else {
            self.noise = None;
            return Ok(());
        };
        let of_op = |of: &super::noise::OfOp<T>| {
            if of.outputs.is_empty() {
                return Ok(None);
            }
            let outputs = tensor(&of.outputs, (of.outputs.len(), 1))?;
            let weight = outputs.matmul(&tensor(&of.inputs, (1, of.inputs.len()))?)?;
            Ok(Some((weight, outputs.flatten_all()?)))
        };
        self.noise = Some(noise.of_ops.iter().map(of_op).collect::<Result<_>>()?);
        Ok(())
    }

    /// The outputs for `observations`, `[rows, observation]`; `levels` of quantiles are `[rows, samples]` where the network
    /// wants some. With `detached` nobody can differentiate them.
    pub fn forward(&self, observations: &Tensor, levels: Option<&Tensor>, detached: bool) -> Result<Vec<Tensor>> {
        let slots = self.network.slots();
        let rows = observations.dim(0)?;
        let mut all: Vec<Option<Tensor>> = vec![None; slots.len()];
        all[0] = Some(observations.clone());
        let value = |place: &std::ops::Range<usize>| {
            let at = self.network.parameters().partition_point(|p| p.place.start < place.start);
            let var = &self.variables[at];
            if detached { var.as_detached_tensor() } else { var.as_tensor().clone() }
        };
        for (i, op) in self.network.ops().iter().enumerate() {
            let get = |at: usize| all[at].as_ref().expect("operations stand in order");
            let (to, y) = match op {
                Op::Linear { slots: (from, to), weight, bias, sigma, activation } => {
                    let (mut w, mut b) = (value(weight), value(bias));
                    let noise = self.noise.as_ref().and_then(|noise| noise[i].as_ref());
                    if let Some(((sigma_w, sigma_b), (noise_w, noise_b))) = sigma.as_ref().zip(noise) {
                        w = (w + (value(sigma_w) * noise_w)?)?;
                        b = (b + (value(sigma_b) * noise_b)?)?;
                    }
                    let z = get(*from).matmul(&w.t()?)?.broadcast_add(&b)?;
                    let y = match activation {
                        Activation::None => z,
                        Activation::Relu => z.relu()?,
                        Activation::Tanh => z.tanh()?,
                    };
                    (*to, y)
                }
                Op::Dueling { value, advantage, to, atoms } => {
                    let height = get(*advantage).dim(0)?;
                    let advantage = get(*advantage).reshape((height, (), *atoms))?;
                    let value = get(*value).reshape((height, 1, *atoms))?;
                    let q = advantage.broadcast_sub(&advantage.mean_keepdim(1)?)?.broadcast_add(&value)?;
                    (*to, q.reshape((height, slots[*to].width))?)
                }
                Op::Cosines { to, first } => {
                    let Some(levels) = levels else { candle_core::bail!("a network of quantiles is asked for none") };
                    let factors = (0..slots[*to].width).map(|i| std::f64::consts::PI * (first + i) as f64);
                    let factors = Tensor::from_iter(factors, &Device::Cpu)?.to_dtype(levels.dtype())?;
                    let factors = factors.to_device(levels.device())?.unsqueeze(0)?;
                    (*to, levels.reshape(((), 1))?.matmul(&factors)?.cos()?)
                }
                Op::Product { features, embeddings, to } => {
                    let width = slots[*to].width;
                    let features = get(*features).reshape((rows, 1, width))?;
                    let embeddings = get(*embeddings).reshape((rows, (), width))?;
                    (*to, embeddings.broadcast_mul(&features)?.reshape(((), width))?)
                }
            };
            debug_assert!(slots[to].per != Per::Level || levels.is_some());
            all[to] = Some(y);
        }
        let output = |at: &usize| all[*at].clone().expect("an output is made by some operation");
        Ok(self.network.outputs().iter().map(output).collect())
    }
}
