//! Our kernels against their host forms. The same bits are asked for, not a tolerance.

use anyhow::{Result, ensure};
use candle_core::{Device, Var};
use foxlaunch_worker::kernels::{device, flat};
use foxlaunch_worker::optimizer::{AdamW, AdamWSettings, DeviceAdamW, Moments};
use foxlaunch_worker::world::World;

/// Sizes around the block, the grid of the norm, and one that gives each thread several elements.
const SIZES: [usize; 8] = [0, 1, 255, 256, 257, 32_768, 100_003, 3_000_001];

/// Runs every kernel at every size.
pub(crate) fn check(world: &World) -> Result<()> {
    let device = world.device();
    for n in SIZES {
        element_wise(device, n)?;
        norm(device, n)?;
    }
    adamw(device)?;
    println!("foxlaunch-kernels scale, add, norm and adamw give the bits of their host forms");
    Ok(())
}

fn element_wise(device: &Device, n: usize) -> Result<()> {
    if n == 0 {
        return Ok(());
    }
    let stream = device.as_cuda_device()?.cuda_stream();
    let (mut to, from) = (numbers(1, n), numbers(2, n));
    let (mut on_device, other) = (stream.clone_htod(&to)?, stream.clone_htod(&from)?);
    device::scale(&stream, &mut on_device.as_view_mut(), 0.3)?;
    device::add(&stream, &mut on_device.as_view_mut(), &other.as_view())?;
    flat::scale(&mut to, 0.3);
    flat::add(&mut to, &from);
    same(&format!("scale and add of {n}"), &to, &stream.clone_dtoh(&on_device)?)
}

fn norm(device: &Device, n: usize) -> Result<()> {
    let stream = device.as_cuda_device()?.cuda_stream();
    let values = numbers(3, n.max(1));
    let on_device = stream.clone_htod(&values)?;
    for max_norm in [0.0, 1.0, 1e9] {
        let mut clip = device::Clip::new(&stream)?;
        clip.measure(&stream, &on_device.slice(..n), max_norm)?;
        let (norm, factor) = clip.read(&stream)?;
        let expected = flat::norm(&values[..n]);
        ensure!(norm.to_bits() == expected.to_bits(), "norm of {n}: {norm} on the device, {expected} on the host");
        let expected = flat::clip(norm, max_norm);
        ensure!(factor.to_bits() == expected.to_bits(), "clip of {n}: {factor} on the device, {expected} on the host");
    }
    Ok(())
}

/// Twenty steps of a model with variables of odd sizes, clipped and not.
fn adamw(device: &Device) -> Result<()> {
    let settings = AdamWSettings { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };
    let shapes = [(51, 256), (1, 256), (256, 3), (1, 3)];
    let len = shapes.iter().map(|(rows, columns)| rows * columns).sum();
    let make = |device: &Device| -> Result<Vec<Var>> {
        shapes
            .iter()
            .zip(10..)
            .map(|((rows, columns), seed)| Ok(Var::from_vec(numbers(seed, rows * columns), (*rows, *columns), device)?))
            .collect()
    };
    let (host_vars, device_vars) = (make(&Device::Cpu)?, make(device)?);
    let mut host = AdamW::f32(len, settings.clone());
    let mut ours = DeviceAdamW::new(len, settings, device)?;
    let stream = device.as_cuda_device()?.cuda_stream();
    for step in 0..20 {
        let mut gradient = numbers(100 + step, len);
        let max_norm = if step % 2 == 0 { 1.0 } else { 0.0 };
        let on_device = stream.clone_htod(&gradient)?;
        ours.measure(&on_device.as_view(), max_norm)?;
        ours.step(&device_vars, &on_device)?;
        flat_clip(&mut gradient, max_norm);
        host.step(&host_vars, &gradient)?;
    }
    for (at, (host, ours)) in host_vars.iter().zip(&device_vars).enumerate() {
        let host = host.flatten_all()?.to_vec1::<f32>()?;
        same(&format!("AdamW, variable {at}"), &host, &ours.flatten_all()?.to_vec1()?)?;
    }
    match (host.moments(), &ours.moments()?) {
        (Moments::F32 { m, v }, Moments::F32 { m: our_m, v: our_v }) => {
            same("AdamW, first moment", m, our_m)?;
            same("AdamW, second moment", v, our_v)
        }
        _ => anyhow::bail!("moments of 32 bits were expected"),
    }
}

fn flat_clip(gradient: &mut [f32], max_norm: f64) {
    let factor = flat::clip(flat::norm(gradient), max_norm) as f32;
    flat::scale(gradient, factor);
}

pub(crate) fn same(what: &str, host: &[f32], device: &[f32]) -> Result<()> {
    ensure!(host.len() == device.len(), "{what}: {} values on the host, {} on the device", host.len(), device.len());
    let differs = host.iter().zip(device).position(|(host, device)| host.to_bits() != device.to_bits());
    if let Some(at) = differs {
        anyhow::bail!("{what}: element {at} is {:e} on the host and {:e} on the device", host[at], device[at]);
    }
    Ok(())
}

/// `n` numbers between -1 and 1, of many sizes.
pub(crate) fn numbers(seed: u64, n: usize) -> Vec<f32> {
    (0..n as u64).map(|at| number(seed, at)).collect()
}

/// Number `at` of stream `seed`: SplitMix64's finalizer over both.
fn number(seed: u64, at: u64) -> f32 {
    let mut x = at.wrapping_add(seed << 40).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    (x >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}
