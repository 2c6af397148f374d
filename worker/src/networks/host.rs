//! A network computed on the host, by the kernels, over flat buffers.

use super::network::{At, Network, Op, Per};
use super::noise::Noise;
use crate::kernels::matrix::Panels;
use crate::kernels::{Scalar, dueling, linear, noisy, product, quantile};
use crate::seed::Streams;
use std::sync::Arc;

/// A network's parameters, and what is derived from them.
#[derive(Clone, Debug)]
pub struct HostNetwork<T> {
    network: Arc<Network>,
    values: Vec<T>,
    noise: Option<Noise<T>>,
    layers: Vec<Layer<T>>,
}

/// What is derived from the parameters of one operation.
#[derive(Clone, Debug, Default)]
struct Layer<T> {
    /// Weights and bias with noise.
    noisy: (Vec<T>, Vec<T>),
    forward: Panels<T>,
    backward: Panels<T>,
    /// Whether the two before hold for the parameters and the noise as they are.
    packed: bool,
    packed_backward: bool,
}

/// What a network computed for one batch: every slot, and on the way back its gradient. Kept between batches, so that
/// nothing is allocated again.
#[derive(Clone, Debug, Default)]
pub struct Pass<T> {
    rows: usize,
    samples: usize,
    slots: Vec<Vec<T>>,
    gradients: Vec<Vec<T>>,
    outputs: Vec<At>,
    room: Panels<T>,
}

/// Levels of quantiles that are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Levels<'a, T> {
    /// The network knows none.
    None,
    /// The same for all rows: `[samples]`.
    Shared(&'a [T]),
    /// For each row its own: `[rows][samples]`.
    Own(&'a [T], usize),
}

impl<T: Scalar> Pass<T> {
    /// Nothing computed yet.
    pub fn new() -> Pass<T> {
        Pass::default()
    }

    /// Rows of the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Output `i`, row-major.
    pub fn output(&self, i: usize) -> &[T] {
        &self.slots[self.outputs[i]]
    }

    /// Output `i` and room for its gradient, which [`HostNetwork::backward`] begins with.
    pub fn output_and_gradient(&mut self, i: usize) -> (&[T], &mut [T]) {
        let at = self.outputs[i];
        self.gradients[at].resize(self.slots[at].len(), T::ZERO);
        (&self.slots[at], &mut self.gradients[at])
    }

    fn begin(&mut self, network: &Network, rows: usize, levels: Levels<'_, T>) {
        let (count, samples) = match levels {
            Levels::None => (0, 0),
            Levels::Shared(levels) => (levels.len(), levels.len()),
            Levels::Own(levels, samples) => (levels.len(), samples),
        };
        (self.rows, self.samples) = (rows, samples);
        self.outputs.clear();
        self.outputs.extend_from_slice(network.outputs());
        self.slots.resize(network.slots().len(), Vec::new());
        self.gradients.resize(network.slots().len(), Vec::new());
        for (slot, values) in network.slots().iter().zip(&mut self.slots) {
            let height = match slot.per {
                Per::Row => rows,
                Per::Level => count,
                Per::Sample => rows * samples,
            };
            values.resize(height * slot.width, T::ZERO);
        }
    }
}

impl<T: Scalar> HostNetwork<T> {
    /// Fresh parameters, which `streams` decide.
    pub fn new(network: Arc<Network>, streams: &Streams) -> HostNetwork<T> {
        let values = network.init(streams).into_iter().map(T::of).collect();
        let layers = network.ops().iter().map(|_| Layer::default()).collect();
        HostNetwork { network, values, noise: None, layers }
    }

    /// The list of operations.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The parameters, flat, in the order of their names.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The parameters, to be changed.
    pub fn values_mut(&mut self) -> &mut [T] {
        self.layers.iter_mut().for_each(|layer| layer.packed = false);
        &mut self.values
    }

    /// Sets the noise on noisy weights; `None` for the weights' means alone.
    pub fn set_noise(&mut self, noise: Option<Noise<T>>) {
        if self.network.is_noisy() && (noise.is_some() || self.noise.is_some()) {
            for (layer, op) in self.layers.iter_mut().zip(self.network.ops()) {
                layer.packed &= !matches!(op, Op::Linear { sigma: Some(_), .. });
            }
            self.noise = noise;
        }
    }

    /// Computes all slots for `rows` row-major observations.
    ///
    /// # Panics
    ///
    /// If there are not so many values, or levels where the network wants some.
    pub fn forward(&mut self, pass: &mut Pass<T>, observations: &[f32], rows: usize, levels: Levels<'_, T>) {
        let network = Arc::clone(&self.network);
        pass.begin(&network, rows, levels);
        let wide = observations.iter().map(|x| T::of(f64::from(*x)));
        assert_eq!(observations.len(), pass.slots[0].len(), "{rows} observations");
        pass.slots[0].iter_mut().zip(wide).for_each(|(to, from)| *to = from);
        for (i, op) in network.ops().iter().enumerate() {
            match op {
                Op::Linear { slots: (from, to), bias, activation, .. } => {
                    self.pack(i);
                    let layer = &self.layers[i];
                    let bias = if layer.noisy.1.is_empty() { &self.values[bias.clone()] } else { &layer.noisy.1 };
                    let (x, y) = pair(&mut pass.slots, *from, *to);
                    linear::forward(x, &layer.forward, bias, *activation, y);
                }
                Op::Dueling { value, advantage, to, atoms } => {
                    let mut q = std::mem::take(&mut pass.slots[*to]);
                    let actions = network.slots()[*to].width / atoms;
                    dueling::forward(&pass.slots[*value], &pass.slots[*advantage], actions, *atoms, &mut q);
                    pass.slots[*to] = q;
                }
                Op::Cosines { to, first } => {
                    let (Levels::Shared(levels) | Levels::Own(levels, _)) = levels else {
                        panic!("a network of quantiles is asked for none")
                    };
                    quantile::cosines(levels, network.slots()[*to].width, *first, &mut pass.slots[*to]);
                }
                Op::Product { features, embeddings, to } => {
                    let mut y = std::mem::take(&mut pass.slots[*to]);
                    let width = network.slots()[*to].width;
                    product::forward(&pass.slots[*features], &pass.slots[*embeddings], pass.samples, width, &mut y);
                    pass.slots[*to] = y;
                }
            }
        }
    }

    /// The gradient by all parameters of what has the gradients that were written into `pass` by its outputs: set into
    /// `gradient`, which lies as the parameters do, or with `add` added to it. Levels must have been each row's own.
    pub fn backward(&mut self, pass: &mut Pass<T>, gradient: &mut [T], add: bool) {
        let network = Arc::clone(&self.network);
        assert_eq!(gradient.len(), self.values.len(), "a gradient for these parameters");
        let mut written = vec![false; network.slots().len()];
        network.outputs().iter().for_each(|at| written[*at] = true);
        for (i, op) in network.ops().iter().enumerate().rev() {
            match op {
                Op::Linear { slots: (from, to), activation, .. } => {
                    let mut dz = std::mem::take(&mut pass.gradients[*to]);
                    activation.backward(&pass.slots[*to], &mut dz);
                    self.backward_parameters(i, &dz, pass, *from, gradient, add);
                    let wanted = network.slots()[*from];
                    if *from != 0 && !(wanted.per == Per::Level && is_source(&network, *from)) {
                        self.pack_backward(i);
                        let there = claim(pass, &mut written, *from);
                        linear::backward_input(&dz, &self.layers[i].backward, there, &mut pass.gradients[*from]);
                    }
                    pass.gradients[*to] = dz;
                }
                Op::Dueling { value, advantage, to, atoms } => {
                    let actions = network.slots()[*to].width / atoms;
                    let dq = std::mem::take(&mut pass.gradients[*to]);
                    for at in [*value, *advantage] {
                        if !claim(pass, &mut written, at) {
                            pass.gradients[at].fill(T::ZERO);
                        }
                    }
                    let (dv, da) = pair_mut(&mut pass.gradients, *value, *advantage);
                    dueling::backward(&dq, actions, *atoms, true, dv, da);
                    pass.gradients[*to] = dq;
                }
                Op::Cosines { .. } => {}
                Op::Product { features, embeddings, to } => {
                    let dy = std::mem::take(&mut pass.gradients[*to]);
                    let there = claim(pass, &mut written, *features);
                    claim(pass, &mut written, *embeddings);
                    let width = network.slots()[*to].width;
                    let (df, de) = pair_mut(&mut pass.gradients, *features, *embeddings);
                    let (f, e) = (&pass.slots[*features], &pass.slots[*embeddings]);
                    product::backward(&dy, f, e, pass.samples, width, there, df, de);
                    pass.gradients[*to] = dy;
                }
            }
        }
    }

    /// dW and db of operation `i`, and by their deviations.
    fn backward_parameters(&mut self, i: usize, dz: &[T], pass: &mut Pass<T>, from: At, gradient: &mut [T], add: bool) {
        let Op::Linear { weight, bias, sigma, .. } = &self.network.ops()[i] else { return };
        let inputs = self.network.slots()[from].width;
        let x = &pass.slots[from];
        let rows = x.len() / inputs.max(1);
        let Some(((weight_sigma, bias_sigma), noise)) =
            sigma.as_ref().zip(self.noise.as_ref().map(|noise| &noise.of_ops[i]))
        else {
            linear::backward_weight(dz, x, (rows, inputs), &mut pass.room, add, &mut gradient[weight.clone()]);
            linear::backward_bias(dz, add, &mut gradient[bias.clone()]);
            if let Some((weight_sigma, bias_sigma)) = sigma.as_ref().filter(|_| !add) {
                // without noise the deviations have no part
                gradient[weight_sigma.clone()].fill(T::ZERO);
                gradient[bias_sigma.clone()].fill(T::ZERO);
            }
            return;
        };
        // what the noise multiplies is this pass's gradient alone, not what was there
        let (mut by_weight, mut by_bias) = (vec![T::ZERO; weight.len()], vec![T::ZERO; bias.len()]);
        linear::backward_weight(dz, x, (rows, inputs), &mut pass.room, false, &mut by_weight);
        linear::backward_bias(dz, false, &mut by_bias);
        let set = |to: &mut [T], from: &[T]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = if add { *to + *from } else { *from });
        };
        set(&mut gradient[weight.clone()], &by_weight);
        set(&mut gradient[bias.clone()], &by_bias);
        let by_sigma = &mut gradient[weight_sigma.clone()];
        noisy::backward_weight(&by_weight, &noise.outputs, &noise.inputs, add, by_sigma);
        noisy::backward_bias(&by_bias, &noise.outputs, add, &mut gradient[bias_sigma.clone()]);
    }

    /// Derives what operation `i` needs for its forward pass.
    fn pack(&mut self, i: usize) {
        let layer = &mut self.layers[i];
        let Op::Linear { weight, bias, sigma, slots: (from, to), .. } = &self.network.ops()[i] else { return };
        if layer.packed {
            return;
        }
        let slots = self.network.slots();
        let (inputs, outputs) = (slots[*from].width, slots[*to].width);
        let mut values = &self.values[weight.clone()];
        match sigma.as_ref().zip(self.noise.as_ref().map(|noise| &noise.of_ops[i])) {
            Some(((weight_sigma, bias_sigma), noise)) => {
                layer.noisy.0.resize(weight.len(), T::ZERO);
                layer.noisy.1.resize(bias.len(), T::ZERO);
                let sigma = &self.values[weight_sigma.clone()];
                noisy::weight(values, sigma, &noise.outputs, &noise.inputs, &mut layer.noisy.0);
                let (mu, sigma) = (&self.values[bias.clone()], &self.values[bias_sigma.clone()]);
                noisy::bias(mu, sigma, &noise.outputs, &mut layer.noisy.1);
                values = &layer.noisy.0;
            }
            None => layer.noisy = (Vec::new(), Vec::new()),
        }
        linear::pack_forward(&mut layer.forward, values, outputs, inputs);
        (layer.packed, layer.packed_backward) = (true, false);
    }

    /// Derives what operation `i`, which was packed, needs for its backward pass.
    fn pack_backward(&mut self, i: usize) {
        let layer = &mut self.layers[i];
        let Op::Linear { weight, slots: (from, to), .. } = &self.network.ops()[i] else { return };
        if layer.packed_backward {
            return;
        }
        let slots = self.network.slots();
        let values = if layer.noisy.0.is_empty() { &self.values[weight.clone()] } else { &layer.noisy.0 };
        linear::pack_backward(&mut layer.backward, values, slots[*to].width, slots[*from].width);
        layer.packed_backward = true;
    }
}

/// Whether nothing before slot `at` has parameters: its gradient is of no use.
fn is_source(network: &Network, at: At) -> bool {
    network.ops().iter().any(|op| matches!(op, Op::Cosines { to, .. } if *to == at))
}

/// Makes room for the gradient of slot `at`. Whether something was written there before.
fn claim<T: Scalar>(pass: &mut Pass<T>, written: &mut [bool], at: At) -> bool {
    pass.gradients[at].resize(pass.slots[at].len(), T::ZERO);
    std::mem::replace(&mut written[at], true)
}

fn pair<T>(slots: &mut [Vec<T>], from: At, to: At) -> (&[T], &mut [T]) {
    let (from, to) = pair_mut(slots, from, to);
    (from, to)
}

fn pair_mut<T>(slots: &mut [Vec<T>], a: At, b: At) -> (&mut [T], &mut [T]) {
    let [a, b] = slots.get_disjoint_mut([a, b]).expect("two slots of one network");
    (a, b)
}
