//! A network computed on a CUDA device, by the kernels of `layers.cu`, over flat buffers: the device's form of
//! [`HostNetwork`](super::HostNetwork).
//!
//! Its launches are planned once for a number of rows. Operations that do not depend on each other share a launch, also
//! those of several passes that are planned together ([`Plan::beside`]): a small network's time is the number of its
//! launches.

use super::device_plan::{Other, Plan};
use super::network::{At, Network, Op, Per, Slot};
use super::noise::Noise;
use crate::kernels::Scalar;
use crate::kernels::device::KernelError;
use crate::kernels::device_quantile::{Cosines, Times};
use crate::kernels::layers::{Address, Dueling, Kind, Product, address};
use crate::kernels::linear::Activation;
use cudarc::driver::{CudaSlice, CudaStream};
use std::ops::Range;
use std::sync::Arc;

/// How many levels of quantiles each row has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LevelCount {
    /// The network knows none.
    #[default]
    None,
    /// So many, the same for all rows.
    Shared(usize),
    /// So many of its own.
    Own(usize),
}

impl LevelCount {
    fn count(self) -> usize {
        match self {
            LevelCount::None => 0,
            LevelCount::Shared(count) | LevelCount::Own(count) => count,
        }
    }

    /// Rows of a slot in a batch of `rows`.
    fn height(self, per: Per, rows: usize) -> usize {
        match (per, self) {
            (Per::Row, _) => rows,
            (Per::Level, LevelCount::Shared(count)) => count,
            (Per::Level | Per::Sample, _) => rows * self.count(),
        }
    }
}

/// A network's parameters on the device, and its noise.
#[derive(Debug)]
pub struct DeviceNetwork {
    network: Arc<Network>,
    stream: Arc<CudaStream>,
    values: CudaSlice<f32>,
    /// For each operation where the noise of its inputs and outputs stands.
    noise_places: Vec<Option<(Range<usize>, Range<usize>)>>,
}

impl DeviceNetwork {
    /// With these parameters, flat in the order of their names.
    pub fn new(network: Arc<Network>, values: &[f32], stream: &Arc<CudaStream>) -> Result<DeviceNetwork, KernelError> {
        assert_eq!(values.len(), network.total(), "parameters of this network");
        let mut end = 0;
        let mut take = |len: usize| {
            end += len;
            end - len..end
        };
        let place = |op: &Op| match op {
            Op::Linear { slots: (from, to), sigma: Some(_), .. } => {
                Some((take(network.slots()[*from].width), take(network.slots()[*to].width)))
            }
            _ => None,
        };
        let noise_places: Vec<_> = network.ops().iter().map(place).collect();
        let values = if values.is_empty() { stream.alloc_zeros(1)? } else { stream.clone_htod(values)? };
        Ok(DeviceNetwork { network, stream: Arc::clone(stream), values, noise_places })
    }

    /// The list of operations.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The parameters.
    pub fn values(&self) -> &CudaSlice<f32> {
        &self.values
    }

    /// The parameters, to be changed. Their place stays.
    pub fn values_mut(&mut self) -> &mut CudaSlice<f32> {
        &mut self.values
    }

    /// How many numbers one sample of noise is.
    pub fn noise_len(&self) -> usize {
        self.noise_places.iter().flatten().map(|(inputs, outputs)| inputs.len() + outputs.len()).sum()
    }

    /// For each operation with noise its number, and where its noise stands in a sample.
    pub fn noise_parts(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        // inputs, then outputs, in one piece
        self.noise_places.iter().enumerate().filter_map(|(op, places)| {
            let (inputs, outputs) = places.as_ref()?;
            Some((op, inputs.start..outputs.end))
        })
    }

    /// A sample of noise as it lies on the device.
    pub fn flat_noise<T: Scalar>(&self, noise: &Noise<T>) -> Vec<f32> {
        let mut flat = Vec::with_capacity(self.noise_len());
        for (places, of_op) in self.noise_places.iter().zip(&noise.of_ops) {
            if places.is_some() {
                flat.extend(of_op.inputs.iter().chain(&of_op.outputs).map(|x| x.wide() as f32));
            }
        }
        flat
    }

    /// Buffers for batches of `rows`.
    pub fn pass(&self, rows: usize) -> Result<DevicePass, KernelError> {
        self.pass_at(rows, LevelCount::None, 0)
    }

    /// Buffers for batches of `rows`, each with so many levels, which stand at `levels`: `[levels]`, or `[rows][levels]`.
    pub fn pass_at(&self, rows: usize, count: LevelCount, levels: Address) -> Result<DevicePass, KernelError> {
        assert!(
            (count.count() > 0 && levels > 0) || self.network.slots().iter().all(|s| s.per == Per::Row),
            "levels for a network of quantiles"
        );
        let slot = |s: &Slot| self.stream.alloc_zeros::<f32>((count.height(s.per, rows) * s.width).max(1));
        let slots = self.network.slots().iter().map(slot).collect::<Result<Vec<_>, _>>()?;
        let mut gradients = Vec::new();
        gradients.resize_with(slots.len(), || None);
        Ok(DevicePass { rows, count, levels, slots, gradients, observations: None, output: self.network.outputs()[0] })
    }

    /// The launches of the forward pass, level by level, under the sample of noise that is at `noise`, if any.
    pub fn forward(&self, pass: &DevicePass, noise: Option<Address>) -> Plan {
        let mut ready = vec![0; self.network.slots().len()];
        let mut plan = Plan::default();
        for (i, op) in self.network.ops().iter().enumerate() {
            match op {
                Op::Linear { slots: (from, to), bias, sigma, activation, .. } => {
                    let (inputs, outputs) = self.widths(*from, *to);
                    let rows = pass.count.height(self.network.slots()[*to].per, pass.rows);
                    let mut product = Product::new(Kind::Forward, (rows, outputs), inputs, *activation);
                    self.weights(i, noise, &mut product);
                    product.bias = self.at(bias.start);
                    product.bias_sigma = sigma.as_ref().map_or(0, |(_, bias)| self.at(bias.start));
                    product.left = pass.slot(*from, &self.stream);
                    product.result = pass.slot(*to, &self.stream);
                    plan.at(ready[*from]).products.push(product);
                    ready[*to] = ready[*from] + 1;
                }
                Op::Dueling { value, advantage, to, atoms } => {
                    let level = ready[*value].max(ready[*advantage]);
                    let dueling = self.dueling(pass, *value, *advantage, *to, *atoms);
                    plan.at(level).others.push(Other::Dueling(dueling, false));
                    ready[*to] = level + 1;
                }
                Op::Cosines { to, first } => {
                    let slot = self.network.slots()[*to];
                    let count = pass.count.height(slot.per, pass.rows);
                    let (levels, out) = (pass.levels, pass.slot(*to, &self.stream));
                    let cosines = Cosines { levels, out, count, width: slot.width, first: *first };
                    plan.at(0).others.push(Other::Cosines(cosines));
                    ready[*to] = 1;
                }
                Op::Product { features, embeddings, to } => {
                    let level = ready[*features].max(ready[*embeddings]);
                    plan.at(level).others.push(Other::Times(self.times(pass, *features, *embeddings, *to), false));
                    ready[*to] = level + 1;
                }
            }
        }
        plan
    }

    /// The launches of the way back of `pass`, whose gradient by the output is there: the gradient by all parameters is
    /// set in `gradient`, which lies as they do. Only the first `rows` of the pass have one.
    pub fn backward(
        &self,
        pass: &mut DevicePass,
        rows: usize,
        gradient: &CudaSlice<f32>,
        noise: Option<Address>,
    ) -> Result<Plan, KernelError> {
        assert!(rows <= pass.rows && !matches!(pass.count, LevelCount::Shared(_)), "rows with levels of their own");
        assert!(rows <= pass.rows && gradient.len() >= self.network.total(), "a gradient for these parameters");
        let mut plan = Plan::default();
        let mut ready = vec![0; self.network.slots().len()];
        // the level that last wrote a slot's gradient: what adds to it comes after
        let mut written: Vec<Option<usize>> = vec![None; self.network.slots().len()];
        written[pass.output] = Some(0);
        pass.make_gradient(pass.output, self.network.slots()[pass.output].width, &self.stream)?;
        for (i, op) in self.network.ops().iter().enumerate().rev() {
            match op {
                Op::Linear { slots: (from, to), weight, bias, sigma, activation } => {
                    let (inputs, outputs) = self.widths(*from, *to);
                    let level = ready[*to];
                    let rows = pass.count.height(self.network.slots()[*to].per, rows);
                    let dz = |kind, result, depth| {
                        let mut product = Product::new(kind, result, depth, *activation);
                        product.left = pass.gradient(*to, &self.stream);
                        product.output = if *activation == Activation::None { 0 } else { pass.slot(*to, &self.stream) };
                        product
                    };
                    let mut by_weight = dz(Kind::ByWeight, (outputs, inputs), rows);
                    self.noise(i, noise, &mut by_weight);
                    by_weight.right = pass.slot(*from, &self.stream);
                    by_weight.result = address(gradient, weight.start, &self.stream);
                    let mut by_bias = dz(Kind::ByBias, (1, outputs), rows);
                    self.noise(i, noise, &mut by_bias);
                    by_bias.result = address(gradient, bias.start, &self.stream);
                    if let Some((weight, bias)) = sigma {
                        by_weight.by_sigma = address(gradient, weight.start, &self.stream);
                        by_bias.by_sigma = address(gradient, bias.start, &self.stream);
                    }
                    plan.at(level).products.extend([by_weight, by_bias]);
                    // nothing before the observation and the levels' cosines has parameters
                    let is_source = |op: &Op| matches!(op, Op::Cosines { to, .. } if to == from);
                    if *from == 0 || self.network.ops().iter().any(is_source) {
                        continue;
                    }
                    let mut by_input = dz(Kind::ByInput, (rows, inputs), outputs);
                    self.weights(i, noise, &mut by_input);
                    let level = written[*from].map_or(level, |before| level.max(before));
                    by_input.add = u64::from(written[*from].is_some());
                    pass.make_gradient(*from, self.network.slots()[*from].width, &self.stream)?;
                    by_input.result = pass.gradient(*from, &self.stream);
                    plan.at(level).products.push(by_input);
                    written[*from] = Some(level + 1);
                    ready[*from] = level + 1;
                }
                Op::Dueling { value, advantage, to, atoms } => {
                    let level = ready[*to];
                    for at in [*value, *advantage] {
                        pass.make_gradient(at, self.network.slots()[at].width, &self.stream)?;
                        (written[at], ready[at]) = (Some(level + 1), level + 1);
                    }
                    let mut dueling = self.dueling(pass, *value, *advantage, *to, *atoms);
                    dueling.rows = pass.count.height(self.network.slots()[*to].per, rows);
                    dueling.value = pass.gradient(*value, &self.stream);
                    dueling.advantage = pass.gradient(*advantage, &self.stream);
                    dueling.q = pass.gradient(*to, &self.stream);
                    plan.at(level).others.push(Other::Dueling(dueling, true));
                }
                Op::Cosines { .. } => {}
                Op::Product { features, embeddings, to } => {
                    let level = written[*features].map_or(ready[*to], |before| before.max(ready[*to]));
                    let mut times = self.times(pass, *features, *embeddings, *to);
                    (times.rows, times.add) = (rows, written[*features].is_some());
                    for at in [*features, *embeddings] {
                        pass.make_gradient(at, self.network.slots()[at].width, &self.stream)?;
                        (written[at], ready[at]) = (Some(level + 1), level + 1);
                    }
                    times.out = pass.gradient(*to, &self.stream);
                    times.by_features = pass.gradient(*features, &self.stream);
                    times.by_embeddings = pass.gradient(*embeddings, &self.stream);
                    plan.at(level).others.push(Other::Times(times, true));
                }
            }
        }
        Ok(plan)
    }

    fn widths(&self, from: At, to: At) -> (usize, usize) {
        (self.network.slots()[from].width, self.network.slots()[to].width)
    }

    fn at(&self, parameter: usize) -> Address {
        address(&self.values, parameter, &self.stream)
    }

    /// Weights of operation `i` as the right side of `product`.
    fn weights(&self, i: usize, noise: Option<Address>, product: &mut Product) {
        let Op::Linear { weight, sigma, .. } = &self.network.ops()[i] else { return };
        product.right = self.at(weight.start);
        product.sigma = sigma.as_ref().map_or(0, |(weight, _)| self.at(weight.start));
        self.noise(i, noise, product);
    }

    /// The noise of operation `i`, if it is on.
    fn noise(&self, i: usize, noise: Option<Address>, product: &mut Product) {
        if let Some(((inputs, outputs), start)) = self.noise_places[i].as_ref().zip(noise) {
            let at = |place: &Range<usize>| start + (place.start * size_of::<f32>()) as u64;
            (product.noise_in, product.noise_out) = (at(inputs), at(outputs));
        }
    }

    fn dueling(&self, pass: &DevicePass, value: At, advantage: At, to: At, atoms: usize) -> Dueling {
        Dueling {
            value: pass.slot(value, &self.stream),
            advantage: pass.slot(advantage, &self.stream),
            q: pass.slot(to, &self.stream),
            rows: pass.count.height(self.network.slots()[to].per, pass.rows),
            actions: self.network.slots()[to].width / atoms,
            atoms,
        }
    }

    fn times(&self, pass: &DevicePass, features: At, embeddings: At, to: At) -> Times {
        Times {
            features: pass.slot(features, &self.stream),
            embeddings: pass.slot(embeddings, &self.stream),
            out: pass.slot(to, &self.stream),
            by_features: 0,
            by_embeddings: 0,
            rows: pass.rows,
            samples: pass.count.count(),
            width: self.network.slots()[to].width,
            shared: matches!(pass.count, LevelCount::Shared(_)),
            add: false,
        }
    }
}

/// Buffers for one batch: every slot, and the gradients on the way back.
#[derive(Debug)]
pub struct DevicePass {
    rows: usize,
    count: LevelCount,
    /// Where the levels are.
    levels: Address,
    slots: Vec<CudaSlice<f32>>,
    gradients: Vec<Option<CudaSlice<f32>>>,
    /// Where the observations are, if not in their slot.
    observations: Option<Address>,
    output: At,
}

impl DevicePass {
    /// Rows of the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many levels each row has.
    pub fn level_count(&self) -> LevelCount {
        self.count
    }

    /// Where the observations go, row-major.
    pub fn observations_mut(&mut self) -> &mut CudaSlice<f32> {
        &mut self.slots[0]
    }

    /// Has plans that are made from now on read the observations from another buffer.
    pub fn observe_at(&mut self, observations: Address) {
        self.observations = Some(observations);
    }

    /// The output, row-major.
    pub fn output(&self) -> &CudaSlice<f32> {
        &self.slots[self.output]
    }

    /// The output, and the gradient by it, to be written.
    pub fn output_and_gradient(&mut self) -> (&CudaSlice<f32>, &mut Option<CudaSlice<f32>>) {
        (&self.slots[self.output], &mut self.gradients[self.output])
    }

    fn slot(&self, at: At, stream: &CudaStream) -> Address {
        self.observations.filter(|_| at == 0).unwrap_or_else(|| address(&self.slots[at], 0, stream))
    }

    fn gradient(&self, at: At, stream: &CudaStream) -> Address {
        self.gradients[at].as_ref().map_or(0, |gradient| address(gradient, 0, stream))
    }

    fn make_gradient(&mut self, at: At, width: usize, stream: &Arc<CudaStream>) -> Result<(), KernelError> {
        if self.gradients[at].is_none() {
            // as long as what it is the gradient by
            let len = if at == 0 { self.rows * width } else { self.slots[at].len() };
            self.gradients[at] = Some(stream.alloc_zeros(len.max(1))?);
        }
        Ok(())
    }
}
