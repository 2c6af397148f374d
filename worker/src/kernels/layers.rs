//! The operations of networks in their CUDA form (`layers.cu`): products of several layers in one launch, and what is done
//! between them. Linear layers give the bits of [`linear`](super::linear) on the host.
//!
//! A launch is planned once, with the addresses of its buffers, and made again and again: [`Group`].

use super::device::{KernelError, function};
use super::linear::Activation;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg};

/// Threads of a block in kernels that take an element each.
const BLOCK: u32 = 256;
/// Products of one launch: more take several.
const MOST: usize = 12;
/// Rows of the part of a result that one block computes.
const TALL: u64 = 16;
/// Columns of it.
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
            self.rows.div_ceil(TALL) * self.columns.div_ceil(TILE)
        }
    }
}

/// Products of one launch, which travel with it. Fields as in layers.cu.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Products {
    of: [Product; MOST],
}

// SAFETY: products without padding between them, the layout of `struct Products` in layers.cu.
unsafe impl DeviceRepr for Products {}

/// Products that do not depend on each other, in as few launches as hold them.
#[derive(Debug)]
pub struct Group {
    launches: Vec<(Box<Products>, u32, u32)>,
}

impl Group {
    /// Plans the launches; none if there is nothing to compute.
    ///
    /// # Panics
    ///
    /// If a matrix has 2^32 elements or more.
    pub fn new(products: &[Product]) -> Option<Group> {
        let some: Vec<Product> = products.iter().filter(|p| p.blocks() > 0).copied().collect();
        let fits = |a: u64, b: u64| a.saturating_mul(b) <= u64::from(u32::MAX);
        let all_fit = |p: &Product| fits(p.rows, p.columns) && fits(p.rows, p.depth) && fits(p.columns, p.depth);
        assert!(some.iter().all(all_fit), "matrices of fewer than 2^32 elements");
        let launch = |products: &[Product]| {
            let mut table = Box::new(Products { of: [products[0]; MOST] });
            let mut blocks = 0;
            for (to, product) in table.of.iter_mut().zip(products) {
                *to = Product { first_block: blocks, ..*product };
                blocks += product.blocks();
            }
            (table, products.len() as u32, blocks as u32)
        };
        let launches: Vec<_> = some.chunks(MOST).map(launch).collect();
        (!launches.is_empty()).then_some(Group { launches })
    }

    /// How many launches they are.
    pub fn count(&self) -> usize {
        self.launches.len()
    }

    /// Enqueues them.
    ///
    /// # Safety
    ///
    /// Every address in the products must be that of a buffer of `stream`'s device as large as the product says, alive
    /// until the launch has ended; results must not overlap each other or anything that is read.
    pub unsafe fn launch(&self, stream: &CudaStream) -> Result<(), KernelError> {
        let kernel = function(stream, "products")?;
        for (table, count, blocks) in &self.launches {
            let config =
                LaunchConfig { grid_dim: (*blocks, 1, 1), block_dim: (TILE as u32, 4, 1), shared_mem_bytes: 0 };
            // SAFETY: the arguments are those of `products` in layers.cu; the caller answers for the addresses.
            unsafe { stream.launch_builder(&kernel).arg(&**table).arg(count).launch(config) }?;
        }
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
