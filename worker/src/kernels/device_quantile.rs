//! What a network of quantiles adds on the device (`quantile.cu`): cosines of levels, features times embeddings, and the
//! loss of IQN. The host's forms are in [`quantile`](super::quantile) and [`product`](super::product).

use super::device::{KernelError, function};
use super::layers::Address;
use super::losses::Outputs;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, LaunchConfig, PushKernelArg};

const BLOCK: u32 = 256;

fn over(n: usize) -> LaunchConfig {
    LaunchConfig { grid_dim: ((n as u32).div_ceil(BLOCK).max(1), 1, 1), block_dim: (BLOCK, 1, 1), shared_mem_bytes: 0 }
}

/// cos(pi i tau) for `width` numbers i from `first` on, for each of `count` levels.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the names are the kernel's
pub struct Cosines {
    pub levels: Address,
    pub out: Address,
    pub count: usize,
    pub width: usize,
    pub first: usize,
}

impl Cosines {
    /// Enqueues it.
    ///
    /// # Safety
    ///
    /// The addresses must be those of buffers of `stream`'s device with so many values, alive until the launch has ended.
    pub unsafe fn launch(&self, stream: &CudaStream) -> Result<(), KernelError> {
        let kernel = function(stream, "cosines")?;
        let (count, width, first) = (self.count as u64, self.width as u64, self.first as u64);
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&self.levels).arg(&self.out).arg(&count).arg(&width).arg(&first);
        // few levels a block: each writes a row of its own, and one multiprocessor would write them one by one
        let config = LaunchConfig {
            grid_dim: ((self.count as u32).div_ceil(32).max(1), 1, 1),
            block_dim: (32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are those of `cosines` in quantile.cu; the caller answers for the addresses.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}

/// Features, `[rows][width]`, times embeddings, `[rows][samples][width]`, or `[samples][width]` if they are shared.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the names are the kernel's
pub struct Times {
    pub features: Address,
    pub embeddings: Address,
    /// The product, or the gradient by it.
    pub out: Address,
    /// The gradients by both; 0 on the way there.
    pub by_features: Address,
    pub by_embeddings: Address,
    pub rows: usize,
    pub samples: usize,
    pub width: usize,
    pub shared: bool,
    /// Whether the gradient by features is added to what is there.
    pub add: bool,
}

impl Times {
    /// Enqueues the product; with `backward`, the gradients by both.
    ///
    /// # Safety
    ///
    /// As of [`Cosines::launch`]; on the way back embeddings must not be shared.
    pub unsafe fn launch(&self, stream: &CudaStream, backward: bool) -> Result<(), KernelError> {
        let (rows, samples, width) = (self.rows as u64, self.samples as u64, self.width as u64);
        let kernel = function(stream, if backward { "times_backward" } else { "times" })?;
        let mut launch = stream.launch_builder(&kernel);
        if backward {
            let add = u64::from(self.add);
            launch.arg(&self.out).arg(&self.features).arg(&self.embeddings).arg(&self.by_features);
            launch.arg(&self.by_embeddings).arg(&rows).arg(&samples).arg(&width).arg(&add);
            // SAFETY: the arguments are those of `times_backward` in quantile.cu; the caller answers for the addresses.
            unsafe { launch.launch(over(self.rows * self.width)) }?;
        } else {
            let shared = u64::from(self.shared);
            launch.arg(&self.features).arg(&self.embeddings).arg(&self.out);
            launch.arg(&rows).arg(&samples).arg(&width).arg(&shared);
            // SAFETY: the arguments are those of `times` in quantile.cu; the caller answers for the addresses.
            unsafe { launch.launch(over(self.rows * self.samples * self.width)) }?;
        }
        Ok(())
    }
}

/// What the loss of quantiles is set to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileLoss {
    /// Rows of the batch.
    pub rows: usize,
    /// Actions.
    pub actions: usize,
    /// Levels of each row: of the loss, of the target, and those that actions are chosen by.
    pub levels: (usize, usize, usize),
    /// Where the loss of a quantile turns from squared to straight.
    pub kappa: f32,
    /// Weight of the conservative penalty.
    pub conservative: f32,
}

impl QuantileLoss {
    /// As [`QLoss::launch`](super::losses::QLoss::launch), for outputs of `[rows][levels][actions]`; `levels` are those of
    /// the loss, `[rows][levels]`.
    pub fn launch(
        &self,
        stream: &CudaStream,
        outputs: &Outputs<'_>,
        (levels, meta): (&CudaView<'_, f32>, &CudaView<'_, f32>),
        gradient: &mut CudaSlice<f32>,
        costs: &mut CudaSlice<f32>,
    ) -> Result<(), KernelError> {
        let (samples, targets, choices) = self.levels;
        let len = |levels: usize| self.rows * self.actions * levels;
        assert!(outputs.now.len() >= len(samples) && gradient.len() >= len(samples), "outputs now");
        assert!(outputs.next.len() >= len(targets) && outputs.choice.len() >= len(choices), "outputs next");
        assert!(levels.len() >= self.rows * samples && meta.len() >= 4 * self.rows && costs.len() >= 4 * self.rows);
        if self.rows == 0 {
            return Ok(());
        }
        let kernel = function(stream, "quantile_loss")?;
        let words = targets + 3 * samples + 2 * self.actions;
        let config = LaunchConfig {
            grid_dim: (self.rows as u32, 1, 1),
            block_dim: (64, 1, 1),
            shared_mem_bytes: (words * size_of::<f32>()) as u32,
        };
        let (actions, samples, targets, choices) =
            (self.actions as u32, samples as u32, targets as u32, choices as u32);
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(outputs.now).arg(outputs.choice).arg(outputs.next).arg(levels).arg(meta).arg(gradient).arg(costs);
        launch.arg(&actions).arg(&samples).arg(&targets).arg(&choices).arg(&self.kappa).arg(&self.conservative);
        // SAFETY: the arguments are those of `quantile_loss` in quantile.cu, in its order, and the buffers have what it
        // reads and writes: checked above.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}
