//! Costs of a batch's rows on the device (`losses.cu`): plain and categorical values.

use super::device::{KernelError, function};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, LaunchConfig, PushKernelArg};

/// What the kernel is set to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QLoss {
    /// Rows of the batch.
    pub rows: usize,
    /// Actions.
    pub actions: usize,
    /// Atoms of each action; 1 for plain values.
    pub atoms: usize,
    /// The lowest and the highest atom.
    pub support: (f32, f32),
    /// Weight of the conservative penalty.
    pub conservative: f32,
}

/// Outputs of the networks, `[rows][actions][atoms]` each.
#[derive(Debug)]
pub struct Outputs<'a> {
    /// Of the online network, for S.
    pub now: &'a CudaView<'a, f32>,
    /// For S', those that a* is chosen by.
    pub choice: &'a CudaView<'a, f32>,
    /// Of the target network, for S'.
    pub next: &'a CudaView<'a, f32>,
}

impl QLoss {
    /// The slopes of the cost by `outputs.now`, into `gradient`, and into `costs`, `[4][rows]`, each row's loss, Q, delta
    /// and priority. `meta` has rewards, discounts, weights and actions, `[4][rows]`.
    pub fn launch(
        &self,
        stream: &CudaStream,
        outputs: &Outputs<'_>,
        meta: &CudaView<'_, f32>,
        gradient: &mut CudaSlice<f32>,
        costs: &mut CudaSlice<f32>,
    ) -> Result<(), KernelError> {
        let len = self.rows * self.actions * self.atoms;
        let enough = [outputs.now.len(), outputs.choice.len(), outputs.next.len(), gradient.len()];
        assert!(
            enough.iter().all(|there| *there >= len) && meta.len() >= 4 * self.rows && costs.len() >= 4 * self.rows
        );
        if self.rows == 0 {
            return Ok(());
        }
        let kernel = function(stream, "q_loss")?;
        let (actions, atoms) = (self.actions as u32, self.atoms as u32);
        let words = 3 * actions * atoms + 4 * atoms + 3 * actions;
        let config = LaunchConfig {
            grid_dim: (self.rows as u32, 1, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: words * size_of::<f32>() as u32,
        };
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(outputs.now).arg(outputs.choice).arg(outputs.next).arg(meta).arg(gradient).arg(costs);
        launch.arg(&actions).arg(&atoms).arg(&self.support.0).arg(&self.support.1).arg(&self.conservative);
        // SAFETY: the arguments are those of `q_loss` in losses.cu, in its order, and the buffers have what it reads and
        // writes: checked above.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}

/// Sums the costs of a shard's rows into what rides behind the gradients: see `q_extras` in losses.cu. `first` is the
/// shard's first row in the batch, of which `extras` has a place for each row.
pub fn extras(
    stream: &CudaStream,
    costs: &CudaSlice<f32>,
    extras: &mut CudaViewMut<'_, f32>,
    rows: usize,
    (shard, shards): (usize, usize),
    first: usize,
) -> Result<(), KernelError> {
    let places = extras.len().saturating_sub(3 + 2 * shards);
    assert!(costs.len() >= 4 * rows && places >= first + rows && shard < shards);
    let kernel = function(stream, "q_extras")?;
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
    let (rows, shard, shards) = (rows as u32, shard as u32, shards as u32);
    let (first, batch) = (first as u32, places as u32);
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(costs).arg(extras).arg(&rows).arg(&shard).arg(&shards).arg(&first).arg(&batch);
    // SAFETY: the arguments are those of `q_extras` in losses.cu; the buffers have what it reads and writes: checked above.
    unsafe { launch.launch(config) }?;
    Ok(())
}
