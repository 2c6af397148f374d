//! The kernels' forward and backward pass against candle's autograd, for every kind of network.

use super::host::{HostNetwork, Levels, Pass};
use super::network::{Builder, Init, Layer, Network};
use super::{CandleNetwork, Head, Noise, QSettings};
use crate::kernels::Scalar;
use crate::kernels::linear::Activation;
use crate::seed::Streams;
use candle_core::{DType, Device, Tensor};
use std::sync::Arc;

const ROWS: usize = 9;
const SAMPLES: usize = 4;

fn kinds() -> Vec<(String, QSettings)> {
    let mut all = Vec::new();
    for head in [Head::Value, Head::Categorical(5), Head::Quantile { cosines: 6, first: 0 }] {
        for dueling in [false, true] {
            for noise in [None, Some(0.5)] {
                for hidden in [vec![8], vec![16, 8]] {
                    let settings = QSettings { observation: 5, actions: 3, hidden, head, dueling, noise };
                    all.push((format!("{settings:?}"), settings));
                }
            }
        }
    }
    all
}

/// An actor and a critic with separate bodies: two outputs.
fn two_outputs() -> Network {
    let mut b = Builder::new(5);
    let layer =
        |outputs, activation, gain| Layer { outputs, activation, init: Some(Init::Orthogonal(gain)), noise: None };
    let x = b.observation();
    let hidden = b.linear("policy000", x, layer(7, Activation::Tanh, 2f64.sqrt()));
    let logits = b.linear("policy001", hidden, layer(3, Activation::None, 0.01));
    // the critic reads the actor's hidden layer too: a slot with two readers
    let value = b.linear("value000", hidden, layer(1, Activation::None, 1.0));
    b.finish(&[logits, value])
}

fn numbers(seed: usize, len: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 7919 + seed * 104_729) as f64).sin()).collect()
}

/// The largest difference of outputs and gradients between the two forms.
fn difference<T: Scalar>(network: Network, dtype: DType, noisy: bool) -> f64 {
    let (network, streams) = (Arc::new(network), Streams::new(3));
    let quantiles = network.slots().iter().any(|slot| slot.per == super::network::Per::Level);
    let mut host = HostNetwork::<T>::new(network.clone(), &streams);
    let mut candle = CandleNetwork::new(network.clone(), dtype, &Device::Cpu, &streams).unwrap();
    let noise = noisy.then(|| Noise::<T>::draw(&network, &streams, "noise", 7));
    candle.set_noise(noise.as_ref()).unwrap();
    host.set_noise(noise);
    let observations: Vec<f32> = numbers(1, ROWS * 5).iter().map(|x| *x as f32).collect();
    let levels: Vec<f64> = numbers(2, ROWS * SAMPLES).iter().map(|x| 0.5 + 0.49 * x).collect();
    let own: Vec<T> = levels.iter().map(|x| T::of(*x)).collect();
    let mut pass = Pass::new();
    // what the pass held before must not show, nor what the gradient did
    host.forward(&mut pass, &observations[..10], 2, if quantiles { Levels::Own(&own[..2], 1) } else { Levels::None });
    let asked = if quantiles { Levels::Own(&own, SAMPLES) } else { Levels::None };
    host.forward(&mut pass, &observations, ROWS, asked);

    let tensor = |values: Vec<f64>, shape: (usize, usize)| {
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
    };
    let x = tensor(observations.iter().map(|x| f64::from(*x)).collect(), (ROWS, 5));
    let levels = quantiles.then(|| tensor(levels, (ROWS, SAMPLES)));
    let outputs = candle.forward(&x, levels.as_ref(), false).unwrap();
    let mut worst: f64 = 0.0;
    let mut compare = |ours: &[T], theirs: &Tensor| {
        let theirs = theirs.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>().unwrap();
        assert_eq!(ours.len(), theirs.len());
        let apart = |(a, b): (&T, &f64)| (a.wide() - b).abs() / (1.0 + b.abs());
        worst = ours.iter().zip(&theirs).map(apart).fold(worst, f64::max);
    };
    let mut loss = Tensor::zeros((), dtype, &Device::Cpu).unwrap();
    for (i, output) in outputs.iter().enumerate() {
        compare(pass.output(i), output);
        let slope = numbers(5 + i, output.elem_count());
        let (_, gradient) = pass.output_and_gradient(i);
        gradient.iter_mut().zip(&slope).for_each(|(g, s)| *g = T::of(*s));
        loss = (loss + (output * tensor(slope, output.dims2().unwrap())).unwrap().sum_all().unwrap()).unwrap();
    }
    let store = loss.backward().unwrap();
    let mut gradient = vec![T::of(9.0); network.total()];
    host.backward(&mut pass, &mut gradient, false);
    for (parameter, var) in network.parameters().iter().zip(candle.variables()) {
        match store.get(var) {
            Some(theirs) => compare(&gradient[parameter.place.clone()], theirs),
            // deviations without noise have no part in the loss
            None => assert!(gradient[parameter.place.clone()].iter().all(|g| *g == T::ZERO), "{}", parameter.name),
        }
    }
    worst
}

#[test]
fn every_kind_of_network_has_the_values_and_gradients_of_autograd() {
    for (name, settings) in kinds() {
        for noisy in [false, true] {
            let wide = difference::<f64>(settings.network(), DType::F64, noisy);
            assert!(wide < 1e-12, "{name}: {wide}");
            let narrow = difference::<f32>(settings.network(), DType::F32, noisy);
            assert!(narrow < 2e-5, "{name}: {narrow}");
        }
    }
    assert!(difference::<f64>(two_outputs(), DType::F64, false) < 1e-12);
}

#[test]
fn a_row_has_the_same_bits_in_any_batch() {
    for (name, settings) in kinds() {
        let network = Arc::new(settings.network());
        let mut host = HostNetwork::<f32>::new(network, &Streams::new(1));
        let x: Vec<f32> = numbers(1, 20 * 5).iter().map(|x| *x as f32).collect();
        let shared = [0.1f32, 0.5, 0.9];
        let levels =
            if matches!(settings.head, Head::Quantile { .. }) { Levels::Shared(&shared) } else { Levels::None };
        let (mut whole, mut part) = (Pass::new(), Pass::new());
        host.forward(&mut whole, &x, 20, levels);
        let width = whole.output(0).len() / 20;
        for rows in [0..1, 3..10, 10..20] {
            host.forward(&mut part, &x[rows.start * 5..rows.end * 5], rows.len(), levels);
            assert_eq!(part.output(0), &whole.output(0)[rows.start * width..rows.end * width], "{name}");
        }
    }
}

#[test]
fn noise_is_new_each_time_and_its_absence_is_the_mean() {
    let settings = QSettings { noise: Some(0.5), ..kinds()[0].1.clone() };
    let network = Arc::new(settings.network());
    let mut host = HostNetwork::<f64>::new(network.clone(), &Streams::new(1));
    let (x, mut pass) = (vec![0.3f32; 5], Pass::new());
    let mut q = |noise: Option<Noise<f64>>| {
        host.set_noise(noise);
        host.forward(&mut pass, &x, 1, Levels::None);
        pass.output(0).to_vec()
    };
    let draw = |number| Some(Noise::draw(&network, &Streams::new(1), "noise", number));
    let (mean, first, second) = (q(None), q(draw(1)), q(draw(2)));
    assert_ne!(first, second);
    assert_ne!(first, mean);
    assert_eq!(q(draw(1)), first);
    assert_eq!(q(None), mean);
}

#[test]
fn parameters_lie_in_the_order_of_their_names_and_the_seed_decides_them() {
    for (name, settings) in kinds() {
        let network = settings.network();
        let names: Vec<&str> = network.parameters().iter().map(|p| p.name.as_str()).collect();
        assert!(names.is_sorted(), "{name}: {names:?}");
        let mut end = 0;
        for p in network.parameters() {
            assert_eq!((p.place.start, p.place.len()), (end, p.shape.iter().product()));
            end = p.place.end;
        }
        assert_eq!(network.init(&Streams::new(1)), network.init(&Streams::new(1)));
        assert_ne!(network.init(&Streams::new(1)), network.init(&Streams::new(2)));
    }
}

#[test]
fn orthogonal_weights_are() {
    let mut b = Builder::new(6);
    let layer =
        |outputs| Layer { outputs, activation: Activation::None, init: Some(Init::Orthogonal(2.0)), noise: None };
    let x = b.observation();
    let tall = b.linear("a", x, layer(9));
    let wide = b.linear("b", tall, layer(4));
    let network = b.finish(&[wide]);
    let values = network.init(&Streams::new(1));
    for p in network.parameters().iter().filter(|p| p.shape.len() == 2) {
        let (w, (rows, columns)) = (&values[p.place.clone()], (p.shape[0], p.shape[1]));
        let vector = |i: usize| -> Vec<f64> {
            if rows <= columns {
                w[i * columns..][..columns].to_vec()
            } else {
                (0..rows).map(|r| w[r * columns + i]).collect()
            }
        };
        for i in 0..rows.min(columns) {
            for j in 0..=i {
                let product: f64 = vector(i).iter().zip(vector(j)).map(|(a, b)| a * b).sum();
                assert!((product - if i == j { 4.0 } else { 0.0 }).abs() < 1e-12, "{i} {j}: {product}");
            }
        }
    }
    let bias = network.parameters().iter().find(|p| p.name == "a.bias").unwrap();
    assert!(values[bias.place.clone()].iter().all(|x| *x == 0.0));
}
