//! What a user writes to train an own candle model on several devices: run it under `foxlaunch run`.
//!
//! The loop is the one in the worker's README. Each rank draws rows of its own; all ranks end with the same weights.

use candle_core::{DType, Tensor};
use candle_nn::{Module, VarBuilder, VarMap};
use foxlaunch_shared::protocol::Phase;
use foxlaunch_worker::{optimizer::AdamWSettings, parallel::CapturedStep, world::World};

fn main() -> anyhow::Result<()> {
    let mut world = World::join()?;
    let device = world.device().clone();
    let vars = VarMap::new();
    let model = candle_nn::linear(4, 1, VarBuilder::from_varmap(&vars, DType::F32, &device))?;
    let settings = AdamWSettings { learning_rate: 0.05, ..Default::default() };
    let mut trainer = CapturedStep::new(&mut world, &vars, settings)?;
    for step in 1..=200 {
        let x = Tensor::randn(0f32, 1., (32, 4), &device)?;
        trainer.step(&mut world, &[x], 32, |of| {
            let target = (of[0].sum_keepdim(1)? * 2.)?;
            (model.forward(&of[0])? - target)?.sqr()?.sum_all()
        })?;
        world.progress(step, Phase::Step, None);
    }
    let weights = model.weight().flatten_all()?.to_vec1::<f32>()?;
    println!("weights {weights:?}");
    world.leave();
    Ok(())
}
