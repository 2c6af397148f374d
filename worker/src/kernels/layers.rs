//! The operations of networks in their CUDA form (`layers.cu`): products of several layers in one launch, and what is done
//! between them. Linear layers give the bits of [`linear`](super::linear) on the host.
//!
//! A launch is planned once, with the addresses of its buffers, and made again and again: [`Group`].

use super::device::{KernelError, function};
use super::linear::Activation;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg};
use std::sync::Arc;

/// Threads of a block in kernels that take an element each.
const BLOCK: u32 = 256;
/// Rows and columns of the part of a result that one block computes.
const TILE: u64 = 32;

/// What a product computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// y = f(x W^T + b).
    Forward = 0,
    /// dx = dz W.
    ByInput = 1,
    /// dW = dz^T x.
    ByWeight = 2,
    /// db = sum over rows of dz.
    ByBias = 3,
}

/// The address of a buffer on the device; 0 for none.
pub type Address = u64;

/// One product, as the kernel reads it. `left` is x, or the gradient by the layer's output, from which dz follows by
/// `output`, the layer's output; `right` is W, W and x.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)] // the names are the kernel's
pub struct Product {
    pub kind: u64,
    pub rows: u64,
    pub columns: u64,
    pub depth: u64,
    pub activation: u64,
    pub add: u64,
    first_block: u64,
    pub left: Address,
    pub output: Address,
    pub right: Address,
    pub sigma: Address,
    pub noise_out: Address,
    pub noise_in: Address,
    pub bias: Address,
    pub bias_sigma: Address,
    pub result: Address,
    pub by_sigma: Address,
    unused: u64,
}

// SAFETY: 64-bit words without padding, the layout of `struct Product` in layers.cu.
unsafe impl DeviceRepr for Product {}

impl Product {
    /// A product of this kind and size, with all addresses to be filled in.
    pub fn new(kind: Kind, (rows, columns): (usize, usize), depth: usize, activation: Activation) -> Product {
        let activation = match activation {
            Activation::None => 0,
            Activation::Relu => 1,
            Activation::Tanh => 2,
        };
        Product {
            kind: kind as u64,
            rows: rows as u64,
            columns: columns as u64,
            depth: depth as u64,
            activation,
            add: 0,
            first_block: 0,
            left: 0,
            output: 0,
            right: 0,
            sigma: 0,
            noise_out: 0,
            noise_in: 0,
            bias: 0,
            bias_sigma: 0,
            result: 0,
            by_sigma: 0,
            unused: 0,
        }
    }

    /// Blocks that work on it.
    fn blocks(&self) -> u64 {
        if self.kind == Kind::ByBias as u64 {
            self.columns.div_ceil(TILE)
        } else {
            self.rows.div_ceil(TILE) * self.columns.div_ceil(TILE)
        }
    }
}

/// Products that do not depend on each other, in one launch.
#[derive(Debug)]
pub struct Group {
    table: CudaSlice<Product>,
    count: u32,
    blocks: u32,
}

impl Group {
    /// Plans the launch; none if there is nothing to compute.
    pub fn new(stream: &Arc<CudaStream>, products: &[Product]) -> Result<Option<Group>, KernelError> {
        let mut table: Vec<Product> = products.iter().filter(|p| p.blocks() > 0).copied().collect();
        let mut blocks = 0;
        for product in &mut table {
            product.first_block = blocks;
            blocks += product.blocks();
        }
        if table.is_empty() {
            return Ok(None);
        }
        let (count, blocks) = (table.len() as u32, blocks as u32);
        Ok(Some(Group { table: stream.clone_htod(&table)?, count, blocks }))
    }

    /// Enqueues it.
    ///
    /// # Safety
    ///
    /// Every address in the products must be that of a buffer of `stream`'s device as large as the product says, alive
    /// until the launch has ended; results must not overlap each other or anything that is read.
    pub unsafe fn launch(&self, stream: &CudaStream) -> Result<(), KernelError> {
        let kernel = function(stream, "products")?;
        let config =
            LaunchConfig { grid_dim: (self.blocks, 1, 1), block_dim: (TILE as u32, 8, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments are those of `products` in layers.cu; the caller answers for the addresses in the table.
        unsafe { stream.launch_builder(&kernel).arg(&self.table).arg(&self.count).launch(config) }?;
        Ok(())
    }
}

/// V and A, and Q or what becomes of its gradient.
#[derive(Clone, Copy, Debug)]
pub struct Dueling {
    /// `[rows][atoms]`.
    pub value: Address,
    /// `[rows][actions][atoms]`.
    pub advantage: Address,
    /// `[rows][actions][atoms]`.
    pub q: Address,
    /// Rows.
    pub rows: usize,
    /// Actions.
    pub actions: usize,
    /// Atoms.
    pub atoms: usize,
}

impl Dueling {
    /// Q from V and A; with `backward`, the gradients by V and A from that by Q.
    ///
    /// # Safety
    ///
    /// The addresses must be those of buffers of `stream`'s device with so many values, alive until the launch has ended.
    pub unsafe fn launch(&self, stream: &CudaStream, backward: bool) -> Result<(), KernelError> {
        let (rows, actions, atoms) = (self.rows as u64, self.actions as u64, self.atoms as u64);
        let config = LaunchConfig {
            grid_dim: (((self.rows * self.atoms) as u32).div_ceil(BLOCK).max(1), 1, 1),
            block_dim: (BLOCK, 1, 1),
            shared_mem_bytes: 0,
        };
        let kernel = function(stream, if backward { "dueling_backward" } else { "dueling" })?;
        let order = if backward { [self.q, self.value, self.advantage] } else { [self.value, self.advantage, self.q] };
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&order[0]).arg(&order[1]).arg(&order[2]).arg(&rows).arg(&actions).arg(&atoms);
        // SAFETY: the arguments are those of `dueling` and `dueling_backward` in layers.cu; the caller answers for the
        // addresses.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}

/// The address of a buffer's element `at`.
pub fn address<T>(buffer: &CudaSlice<T>, at: usize, stream: &CudaStream) -> Address {
    let (start, _ordered) = buffer.device_ptr(stream);
    start + (at * size_of::<T>()) as u64
}
