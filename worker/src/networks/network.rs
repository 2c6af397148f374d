//! A network as a list of operations, planned into one flat buffer of parameters.
//!
//! Nothing is written by hand for a network: each operation has its forward and backward pass in `kernels`, and
//! [`HostNetwork`](super::HostNetwork) walks the list, or [`CandleNetwork`](super::CandleNetwork) does with candle's
//! tensors. Gradients lie as parameters do.

use crate::kernels::linear::Activation;
use crate::seed::{Streams, normal, uniform};
use std::ops::Range;

/// How often a slot's rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Once for each row of the batch.
    Row,
    /// Once for each level of a quantile that was asked for: a number for all rows, or for each row its own.
    Level,
    /// Once for each row and level.
    Sample,
}

/// Where an operation's result stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Values in a row of it.
    pub width: usize,
    /// How many rows it has.
    pub per: Per,
}

/// A slot's number.
pub type At = usize;

/// One operation. Places are those of its parameters in the flat buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A linear layer and what follows it; with noise on its weights if there are deviations.
    Linear {
        /// From where to where.
        slots: (At, At),
        /// `[outputs, inputs]`.
        weight: Range<usize>,
        /// `[outputs]`.
        bias: Range<usize>,
        /// The deviations of weight and bias.
        sigma: Option<(Range<usize>, Range<usize>)>,
        /// What follows.
        activation: Activation,
    },
    /// Value and advantages become values of actions.
    Dueling {
        /// V, `[atoms]`.
        value: At,
        /// A, `[actions][atoms]`.
        advantage: At,
        /// Q, `[actions][atoms]`.
        to: At,
        /// Values for each action.
        atoms: usize,
    },
    /// Cosines of the levels.
    Cosines {
        /// Where to.
        to: At,
        /// The first factor: 0 in the paper.
        first: usize,
    },
    /// Features times embeddings.
    Product {
        /// Once for each row.
        features: At,
        /// Once for each level.
        embeddings: At,
        /// Once for each sample.
        to: At,
    },
}

/// What a parameter begins with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Uniform in plus or minus this.
    Uniform(f64),
    /// This.
    Constant(f64),
    /// Orthogonal rows or columns (Saxe et al. 2014), times this. For weights.
    Orthogonal(f64),
}

/// A named part of the flat buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name: parameters lie in the order of their names.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its place.
    pub place: Range<usize>,
    init: Init,
}

/// The list.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    slots: Vec<Slot>,
    ops: Vec<Op>,
    parameters: Vec<Parameter>,
    outputs: Vec<At>,
}

impl Network {
    /// The operations, in order.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The slots; the first one is the observation.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The slots that it is made for.
    pub fn outputs(&self) -> &[At] {
        &self.outputs
    }

    /// The parameters, in the order of their names, end to end.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The parameter called `name`.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.binary_search_by(|p| p.name.as_str().cmp(name)).ok().map(|at| &self.parameters[at])
    }

    /// Values in an observation.
    pub fn observation_len(&self) -> usize {
        self.slots[0].width
    }

    /// How many values all parameters have.
    pub fn total(&self) -> usize {
        self.parameters.last().map_or(0, |p| p.place.end)
    }

    /// Whether some weights have noise.
    pub fn is_noisy(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Linear { sigma: Some(_), .. }))
    }

    /// First values of all parameters, which `streams` decide.
    pub fn init(&self, streams: &Streams) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.total());
        for (i, parameter) in self.parameters.iter().enumerate() {
            let mut draw = streams.draw("init", i as u64, 0);
            let len = parameter.place.len();
            match parameter.init {
                Init::Constant(x) => values.extend(std::iter::repeat_n(x, len)),
                Init::Uniform(bound) => values.extend((0..len).map(|_| bound * (2.0 * uniform(&mut draw) - 1.0))),
                Init::Orthogonal(gain) => {
                    let (rows, columns) = (parameter.shape[0], parameter.shape[1]);
                    values.extend(orthogonal(rows, columns, &mut || normal(&mut draw)).iter().map(|x| gain * x));
                }
            }
        }
        values
    }
}

/// A matrix whose rows, or columns if they are fewer, are orthogonal and of length 1.
fn orthogonal(rows: usize, columns: usize, normal: &mut dyn FnMut() -> f64) -> Vec<f64> {
    let (few, many) = (rows.min(columns), rows.max(columns));
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(few);
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    while vectors.len() < few {
        let mut vector: Vec<f64> = (0..many).map(|_| normal()).collect();
        // twice: what the first pass leaves is of the size of its rounding
        for _ in 0..2 {
            for other in &vectors {
                let along = dot(&vector, other);
                vector.iter_mut().zip(other).for_each(|(x, o)| *x -= along * o);
            }
        }
        let length = dot(&vector, &vector).sqrt();
        // a vector within the others' span has no direction left: the next one has, almost surely
        if length > 1e-9 {
            vector.iter_mut().for_each(|x| *x /= length);
            vectors.push(vector);
        }
    }
    let at = |row: usize, column: usize| if rows <= columns { vectors[row][column] } else { vectors[column][row] };
    (0..rows * columns).map(|i| at(i / columns, i % columns)).collect()
}

/// Builds a [`Network`], operation by operation.
#[derive(Debug)]
pub struct Builder {
    slots: Vec<Slot>,
    ops: Vec<Op>,
    parameters: Vec<Parameter>,
}

/// How a linear layer begins, and what follows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// Its outputs.
    pub outputs: usize,
    /// What follows.
    pub activation: Activation,
    /// First weights; none for uniform in plus or minus 1 / sqrt(inputs), biases too, as in PyTorch's `nn.Linear`. With
    /// a choice of weights biases are 0.
    pub init: Option<Init>,
    /// sigma_0 of noise on the weights, if any: deviations begin as sigma_0 / sqrt(inputs).
    pub noise: Option<f64>,
}

impl Builder {
    /// A network for observations of `observation` values.
    pub fn new(observation: usize) -> Builder {
        let slots = vec![Slot { width: observation, per: Per::Row }];
        Builder { slots, ops: Vec::new(), parameters: Vec::new() }
    }

    /// The slot of the observation.
    pub fn observation(&self) -> At {
        0
    }

    /// A linear layer from slot `from` on, whose parameters' names begin with `name`.
    pub fn linear(&mut self, name: &str, from: At, layer: Layer) -> At {
        let Slot { width, per } = self.slots[from];
        let bound = 1.0 / (width as f64).sqrt();
        let weight = layer.init.unwrap_or(Init::Uniform(bound));
        let bias = if layer.init.is_some() { Init::Constant(0.0) } else { Init::Uniform(bound) };
        let shape = [layer.outputs, width];
        let pair = |this: &mut Builder, end: &str, weight, bias| {
            let weight = this.parameter(&format!("{name}.weight{end}"), &shape, weight);
            (weight, this.parameter(&format!("{name}.bias{end}"), &shape[..1], bias))
        };
        let (weight, bias) = pair(self, "", weight, bias);
        let sigma = layer.noise.map(|s| pair(self, "_sigma", Init::Constant(s * bound), Init::Constant(s * bound)));
        let to = self.slot(layer.outputs, per);
        self.ops.push(Op::Linear { slots: (from, to), weight, bias, sigma, activation: layer.activation });
        to
    }

    /// Values of actions from V and A, with `atoms` values for each action.
    pub fn dueling(&mut self, value: At, advantage: At, atoms: usize) -> At {
        let Slot { width, per } = self.slots[advantage];
        let to = self.slot(width, per);
        self.ops.push(Op::Dueling { value, advantage, to, atoms });
        to
    }

    /// `count` cosines of each level, the first with the factor `first`.
    pub fn cosines(&mut self, count: usize, first: usize) -> At {
        let to = self.slot(count, Per::Level);
        self.ops.push(Op::Cosines { to, first });
        to
    }

    /// Features of rows times embeddings of levels.
    pub fn product(&mut self, features: At, embeddings: At) -> At {
        let to = self.slot(self.slots[features].width, Per::Sample);
        self.ops.push(Op::Product { features, embeddings, to });
        to
    }

    /// A parameter of `len` values that no operation reads, as deviations that are the same in all states: all are `value` at
    /// first. Who uses it adds its gradient.
    pub fn free(&mut self, name: &str, len: usize, value: f64) {
        self.parameter(name, &[len], Init::Constant(value));
    }

    /// The network that is made for `outputs`.
    pub fn finish(self, outputs: &[At]) -> Network {
        let Builder { slots, mut ops, parameters } = self;
        let mut order: Vec<usize> = (0..parameters.len()).collect();
        order.sort_by(|a, b| parameters[*a].name.cmp(&parameters[*b].name));
        let mut places = vec![0..0; parameters.len()];
        let mut end = 0;
        for i in &order {
            places[*i] = end..end + parameters[*i].place.len();
            end = places[*i].end;
        }
        // until now a parameter stood where it was made
        let made = |place: &Range<usize>| places[parameters.partition_point(|p| p.place.start < place.start)].clone();
        for op in &mut ops {
            if let Op::Linear { weight, bias, sigma, .. } = op {
                (*weight, *bias) = (made(weight), made(bias));
                *sigma = sigma.as_ref().map(|(weight, bias)| (made(weight), made(bias)));
            }
        }
        let placed = |i: &usize| Parameter { place: places[*i].clone(), ..parameters[*i].clone() };
        let sorted = order.iter().map(placed).collect();
        Network { slots, ops, parameters: sorted, outputs: outputs.to_vec() }
    }

    fn slot(&mut self, width: usize, per: Per) -> At {
        self.slots.push(Slot { width, per });
        self.slots.len() - 1
    }

    fn parameter(&mut self, name: &str, shape: &[usize], init: Init) -> Range<usize> {
        let start = self.parameters.last().map_or(0, |p| p.place.end);
        let place = start..start + shape.iter().product::<usize>();
        self.parameters.push(Parameter { name: name.to_owned(), shape: shape.to_vec(), place: place.clone(), init });
        place
    }
}
