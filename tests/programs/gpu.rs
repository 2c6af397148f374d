//! `fox-test-gpu`: what can only be checked on a machine with NVIDIA devices, in one program that travels there.
//!
//! Each verb joins the world as any program does, so it is run under the launcher:
//! `foxlaunch --gpus 0,1 run --visible own -- fox-test-gpu laws`. `scripts/gpu_check.sh` runs them all.
//!
//! | verb | what it does |
//! |---|---|
//! | `device` | says which device this rank has, and that no two ranks share one |
//! | `kernels` | our kernels against their host forms, bit for bit |
//! | `laws` | what every collective must do, for NCCL, on host and on device memory |
//! | `allreduce` | times all-reduce by size |
//! | `network` | networks by our kernels against the host's, bit for bit |
//! | `update PRESET BATCH HIDDEN` | times a learner's whole update, batch up and priorities back included |
//! | `replay` | the replay memory on the device against the host's, and updates from both, bit for bit |
//! | `replayed PRESET BATCH HIDDEN` | times an update whose rows the device draws, four new ones up each time |
//! | `step DIMS BATCH` | times a network's whole step, captured and not, and compares their weights bit for bit |
//! | `parity FILE [OTHER]` | trains on frozen batches, writes the losses; with OTHER, compares them |
//! | `stuck driver\|call` | all-reduces until killed, waiting inside the driver or inside our own call |
//! | `stuck kernel` | the last rank's device runs a kernel without end |
//! | `stuck memory` | takes 80 % of the device; the first attempt holds it until killed |

#[path = "gpu/allreduce.rs"]
mod allreduce;
#[path = "gpu/device.rs"]
mod device;
#[path = "gpu/kernels.rs"]
mod kernels;
#[path = "gpu/laws.rs"]
mod laws;
#[path = "gpu/network.rs"]
mod network;
#[path = "gpu/parity.rs"]
mod parity;
#[path = "gpu/replay.rs"]
mod replay;
#[path = "gpu/step.rs"]
mod step;
#[path = "gpu/stuck.rs"]
mod stuck;

use anyhow::{Context, Result, bail};
use foxlaunch_worker::world::World;
use std::process::ExitCode;

const USAGE: &str = "usage: fox-test-gpu device | kernels | laws | allreduce | network | update PRESET BATCH HIDDEN | replay | replayed PRESET BATCH HIDDEN | step DIMS BATCH | parity FILE [OTHER] | stuck driver|call|kernel|memory";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fox-test-gpu: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    // As our trainers do: when a rank is lost the launcher says so and waits, instead of killing the others at once.
    let mut world = World::builder().stops_when_told(true).join().context("joining the world")?;
    match words {
        ["device"] => device::tell(&mut world)?,
        ["kernels"] => kernels::check(&world)?,
        // One device is enough to try every call, if not to try it between two.
        ["laws"] if world.world_size().0 == 1 => laws::check(&mut laws::alone(&world)?)?,
        ["laws"] => laws::check(&mut world)?,
        ["allreduce"] => allreduce::time(&mut world)?,
        ["network"] => network::check(&world)?,
        ["update", preset, batch, hidden] => network::time(&mut world, preset, batch, hidden)?,
        ["replay"] => replay::check(&mut world)?,
        ["replayed", preset, batch, hidden] => replay::time(&mut world, preset, batch, hidden)?,
        ["step", dims, batch] => step::time(&mut world, dims, batch)?,
        ["parity", file] => parity::train(&mut world, file, None)?,
        ["parity", file, other] => parity::train(&mut world, file, Some(other))?,
        ["stuck", "driver"] => stuck::reduce(&mut world, stuck::Where::Driver)?,
        ["stuck", "call"] => stuck::reduce(&mut world, stuck::Where::Call)?,
        ["stuck", "kernel"] => stuck::kernel(&mut world)?,
        ["stuck", "memory"] => stuck::memory(&mut world)?,
        _ => bail!("{USAGE}"),
    }
    world.leave();
    Ok(())
}
