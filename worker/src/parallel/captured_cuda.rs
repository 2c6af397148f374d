//! The device's side of [`captured`](super::captured): the same launches one by one, or recorded once and replayed.

use super::captured::{How, StepError, checked};
use super::recorder::{agree, record};
use super::{FlatGradients, Layout, ParallelError, Values};
use crate::collectives::{Buffer, ReduceOp};
use crate::kernels::device as kernels;
use crate::optimizer::{AdamWSettings, DeviceAdamW};
use crate::world::World;
use candle_core::{CudaDevice, Storage, Tensor};
use candle_nn::VarMap;
use cudarc::driver::{CudaGraph, CudaStream, DriverError};
use std::sync::{Arc, Mutex, PoisonError};

/// Eager steps before the capture: the first compiles kernels and forms what cuBLAS and NCCL form at their first call,
/// the second fills candle's cache of small uploads, the third finds everything there.
const WARM_UP: u64 = 3;

/// What of a [`CapturedStep`](super::CapturedStep) is the same on every device.
pub(super) struct Model<'a> {
    pub(super) layout: &'a Layout,
    pub(super) vars: &'a VarMap,
    pub(super) max_norm: f64,
}

/// A graph, which the world drops before it closes NCCL: a graph that holds collectives would keep it from closing.
struct Graph(CudaGraph);

// SAFETY: the driver takes a graph from any thread, one at a time; it is behind a mutex.
unsafe impl Send for Graph {}

/// State of one model's training on the device.
pub(super) struct DeviceStep {
    pub(super) gradients: FlatGradients,
    pub(super) optimizer: DeviceAdamW,
    stream: Arc<CudaStream>,
    device: CudaDevice,
    graph: Arc<Mutex<Option<Graph>>>,
    /// Where the graph reads its inputs.
    inputs: Vec<Tensor>,
    /// Rows that the graph was captured with.
    rows: usize,
}

fn driver(error: DriverError) -> StepError {
    candle_core::Error::wrap(error).into()
}

fn kernel(error: kernels::KernelError) -> StepError {
    candle_core::Error::from(error).into()
}

impl DeviceStep {
    pub(super) fn new(
        world: &mut World,
        gradients: FlatGradients,
        settings: AdamWSettings,
    ) -> Result<DeviceStep, StepError> {
        let device = world.device().as_cuda_device()?.clone();
        let optimizer = DeviceAdamW::new(gradients.len(), settings, world.device())?;
        let graph: Arc<Mutex<Option<Graph>>> = Arc::default();
        let held = Arc::clone(&graph);
        world.before_leaving(move || drop(held.lock().unwrap_or_else(PoisonError::into_inner).take()));
        let stream = device.cuda_stream();
        Ok(DeviceStep { gradients, optimizer, stream, device, graph, inputs: Vec::new(), rows: 0 })
    }

    /// One step, by the graph if it is there and fits.
    pub(super) fn take(
        &mut self,
        world: &mut World,
        model: &Model<'_>,
        inputs: &[Tensor],
        rows: usize,
        loss: &dyn Fn(&[Tensor]) -> candle_core::Result<Tensor>,
        how: &mut How,
    ) -> Result<(), StepError> {
        let on_device = inputs.iter().map(|input| input.to_device(world.device())).collect::<Result<Vec<_>, _>>()?;
        let inputs = on_device.as_slice();
        if matches!(how, How::Eager(_)) || (*how == How::Captured && !self.fits(inputs, rows)) {
            return self.run(world, model, inputs, rows, loss);
        }
        if self.inputs.is_empty() {
            // copies: what the caller passed may be freed, and the graph remembers addresses
            self.inputs = inputs.iter().map(Tensor::copy).collect::<Result<_, _>>()?;
            self.rows = rows;
        }
        let fits = self.fits(inputs, rows);
        if fits {
            for (fixed, input) in self.inputs.iter().zip(inputs).filter(|(fixed, _)| fixed.elem_count() > 0) {
                fixed.flatten_all()?.slice_set(&input.flatten_all()?.contiguous()?, 0, 0)?;
            }
        }
        let fixed = if fits { self.inputs.clone() } else { on_device };
        if *how == How::WarmingUp {
            if self.optimizer.steps() < WARM_UP {
                return self.run(world, model, &fixed, rows, loss);
            }
            // all ranks count steps, so all come here at once, whatever their rows
            let captured = match fits {
                true => self.capture(world, model, &fixed, rows, loss),
                false => Err("the inputs of the fourth step have not the shapes and rows of the first".to_owned()),
            };
            *how = self.agreed(world, captured)?;
            if *how != How::Captured {
                return self.run(world, model, &fixed, rows, loss);
            }
        }
        self.optimizer.prepare(&model.layout.variables(model.vars)?)?;
        let graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Graph(graph)) = graph.as_ref() else {
            return Err(ParallelError::Unlike("the world was left: its graphs are gone".into()).into());
        };
        if world.world_size().0 > 1 {
            world.collective().replayed(1)?;
        }
        graph.launch().map_err(driver)?;
        self.optimizer.replayed();
        Ok(())
    }

    /// Whether these inputs can be put where the graph reads.
    fn fits(&self, inputs: &[Tensor], rows: usize) -> bool {
        let alike = |(a, b): (&Tensor, &Tensor)| a.dims() == b.dims() && a.dtype() == b.dtype();
        self.rows == rows && self.inputs.len() == inputs.len() && self.inputs.iter().zip(inputs).all(alike)
    }

    /// The step, launch by launch: enqueued, or recorded if a capture has begun.
    fn run(
        &mut self,
        world: &mut World,
        model: &Model<'_>,
        inputs: &[Tensor],
        rows: usize,
        loss: &dyn Fn(&[Tensor]) -> candle_core::Result<Tensor>,
    ) -> Result<(), StepError> {
        // Shapes and other small constants are uploaded once and kept; batches are uploaded outside of it, since each
        // would be kept too.
        let _cache = self.device.enable_cuda_graph_htod_cache();
        let loss = checked(loss(inputs)?)?;
        self.gradients.clear()?;
        self.gradients.add(model.layout, model.vars, &loss.backward()?)?;
        let len = self.gradients.len();
        let Values::CudaF32(values) = self.gradients.values_mut() else {
            return Err(ParallelError::Unlike("gradients are not on the device".into()).into());
        };
        {
            let (storage, layout) = loss.storage_and_layout();
            let Storage::Cuda(storage) = &*storage else {
                return Err(ParallelError::Unlike("the loss is not on the device".into()).into());
            };
            let at = layout.start_offset();
            let loss = storage.as_cuda_slice::<f32>()?.slice(at..at + 1);
            kernels::set_extras(&self.stream, &mut values.slice_mut(len..), rows as f32, &loss).map_err(kernel)?;
        }
        world.collective().all_reduce(Buffer::CudaF32(values), ReduceOp::Sum)?;
        let (mut gradient, extras) = values.split_at_mut(len);
        kernels::mean(&self.stream, &mut gradient, &extras.slice(..1)).map_err(kernel)?;
        self.optimizer.measure(&gradient.as_view(), model.max_norm)?;
        Ok(self.optimizer.step(&model.layout.variables(model.vars)?, values)?)
    }

    /// Records the step. Nothing is computed; on failure everything is as before, and the reason is given.
    fn capture(
        &mut self,
        world: &mut World,
        model: &Model<'_>,
        inputs: &[Tensor],
        rows: usize,
        loss: &dyn Fn(&[Tensor]) -> candle_core::Result<Tensor>,
    ) -> Result<(), String> {
        if world.collective().checks_calls() {
            return Err(
                "ranks compare their collective calls (FOXLAUNCH_CHECK_COLLECTIVES), which a graph cannot".into()
            );
        }
        let before = self.optimizer.steps();
        let stream = Arc::clone(&self.stream);
        let graph = record(&stream, || self.run(world, model, inputs, rows, loss));
        if self.optimizer.steps() > before {
            self.optimizer.recorded();
        }
        let graph = graph?;
        *self.graph.lock().unwrap_or_else(PoisonError::into_inner) = Some(Graph(graph));
        Ok(())
    }

    /// What all ranks do from now on: captured if every one of them can.
    fn agreed(&self, world: &mut World, mine: Result<(), String>) -> Result<How, StepError> {
        match agree(world.collective(), mine)? {
            Ok(()) => Ok(How::Captured),
            Err(why) => {
                drop(self.graph.lock().unwrap_or_else(PoisonError::into_inner).take());
                Ok(How::Eager(why))
            }
        }
    }
}
