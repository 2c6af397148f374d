//! The replay memory on the device (`replay.cu`): rows put in, a batch drawn by priority with its weights, new priorities,
//! and what each update said, kept until the host asks. The draws, weights and priorities are the bits of the host's
//! `replay` module.

use super::device::{KernelError, function};
use super::layers::{Address, address};
use super::replay::{Record, ReplaySettings};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DeviceRepr, LaunchConfig, PushKernelArg};
use std::ops::Range;
use std::sync::Arc;

/// Threads of `replay_insert`, the most rows that one launch puts in.
pub const MOST_ROWS: usize = 256;
/// As in replay.cu.
const DRAW_THREADS: usize = 512;
const FINISH_THREADS: u32 = 256;
/// Numbers of a record besides two for each shard.
const FIELDS: usize = 7;
/// Numbers of the state: update, rows, beta, largest priority, and 1 + the update that was no finite one.
const STATE: usize = 5;

/// Fields as in replay.cu.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Table {
    capacity: u64,
    width: u64,
    batch: u64,
    shards: u64,
    leaves: u64,
    records: u64,
    alpha: f64,
    eps: f64,
    tree: Address,
    now: Address,
    next: Address,
    meta: Address,
    state: Address,
    indices: Address,
    weights: Address,
    record: Address,
}

// SAFETY: 64-bit words without padding, the layout of `struct Replay` in replay.cu.
unsafe impl DeviceRepr for Table {}

/// A purpose of random streams, `seed::Purpose::key`.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Key([u32; 8]);

// SAFETY: eight words, the layout of `struct Key` in exact.cu.
unsafe impl DeviceRepr for Key {}

impl From<[u8; 32]> for Key {
    fn from(bytes: [u8; 32]) -> Key {
        let (words, _) = bytes.as_chunks::<4>();
        Key(std::array::from_fn(|i| u32::from_le_bytes(words[i])))
    }
}

/// Numbers that an update draws, and where in its input they stand.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Drawn {
    key: Key,
    levels: u64,
    number: u64,
    start: u64,
    length: u64,
    first_block: u64,
}

// SAFETY: words without padding, the layout of `struct Drawn` in replay.cu.
unsafe impl DeviceRepr for Drawn {}

impl Drawn {
    /// The noise of operation `op`, as `networks::Noise` draws it for the purpose of `key`, at `place`.
    pub fn noise(key: Key, op: usize, place: Range<usize>) -> Drawn {
        Drawn { levels: 0, ..Drawn::levels(key, op, place) }
    }

    /// Levels, from the `first` of the draw on, at `place`.
    pub fn levels(key: Key, first: usize, place: Range<usize>) -> Drawn {
        let (start, length) = (place.start as u64, place.len() as u64);
        Drawn { key, levels: 1, number: first as u64, start, length, first_block: 0 }
    }

    fn blocks(&self) -> u64 {
        // a block of the generator gives four normal numbers, or eight levels of which the first may be others'
        let parts = if self.levels == 0 { self.length.div_ceil(4) } else { self.length.div_ceil(8) + 1 };
        parts.div_ceil(DRAW_THREADS as u64)
    }
}

/// All that an update draws, besides its rows.
#[derive(Debug)]
pub struct NoisePlan {
    table: CudaSlice<Drawn>,
    count: u32,
    blocks: u32,
}

impl NoisePlan {
    /// Plans the launch.
    pub fn new(stream: &Arc<CudaStream>, parts: &[Drawn]) -> Result<NoisePlan, KernelError> {
        let mut table = parts.to_vec();
        let mut blocks = 0;
        for part in &mut table {
            part.first_block = 1 + blocks;
            blocks += part.blocks();
        }
        let count = table.len() as u32;
        if table.is_empty() {
            table.push(Drawn::noise(Key([0; 8]), 0, 0..0));
        }
        Ok(NoisePlan { table: stream.clone_htod(&table)?, count, blocks: blocks as u32 })
    }
}

/// The memory.
#[derive(Debug)]
pub struct DeviceRows {
    settings: ReplaySettings,
    table: Table,
    tree: CudaSlice<f64>,
    now: CudaSlice<f32>,
    next: CudaSlice<f32>,
    meta: CudaSlice<f32>,
    state: CudaSlice<f64>,
    indices: CudaSlice<u32>,
    weights: CudaSlice<f64>,
    record: CudaSlice<f64>,
}

/// A row of the memory as it travels: place, action, reward, discount, S and S', as words of 32 bits.
pub fn words_of_row(width: usize) -> usize {
    4 + 2 * width
}

impl DeviceRows {
    /// An empty memory: a largest priority of 1.
    pub fn new(stream: &Arc<CudaStream>, settings: ReplaySettings) -> Result<DeviceRows, KernelError> {
        let ReplaySettings { capacity, width, batch, shards, priorities, records } = settings;
        let leaves = priorities.map_or(0, |_| capacity.max(1).next_power_of_two());
        let rows = |each: usize| stream.alloc_zeros::<f32>((capacity * each).max(1));
        let tree = stream.alloc_zeros((2 * leaves).max(2))?;
        let (now, next, meta) = (rows(width)?, rows(width)?, rows(3)?);
        let state = stream.clone_htod(&[0.0, 0.0, 0.0, 1.0, 0.0])?;
        let (indices, weights) = (stream.alloc_zeros(batch.max(1))?, stream.alloc_zeros(batch.max(1))?);
        let record = stream.alloc_zeros(records.max(1) * (FIELDS + 2 * shards))?;
        let (alpha, eps) = priorities.unwrap_or((0.0, 0.0));
        let table = Table {
            capacity: capacity as u64,
            width: width as u64,
            batch: batch as u64,
            shards: shards as u64,
            leaves: leaves as u64,
            records: records.max(1) as u64,
            alpha,
            eps,
            tree: address(&tree, 0, stream),
            now: address(&now, 0, stream),
            next: address(&next, 0, stream),
            meta: address(&meta, 0, stream),
            state: address(&state, 0, stream),
            indices: address(&indices, 0, stream),
            weights: address(&weights, 0, stream),
            record: address(&record, 0, stream),
        };
        Ok(DeviceRows { settings, table, tree, now, next, meta, state, indices, weights, record })
    }

    /// What it is set to.
    pub fn settings(&self) -> &ReplaySettings {
        &self.settings
    }

    /// Leaves of the tree; 0 without priorities.
    pub fn leaves(&self) -> usize {
        self.table.leaves as usize
    }

    /// Puts in the first `count` of the `rows`, none of which share a place, and says that update `number` is next,
    /// that `length` rows are there then, and which `beta` weighs them.
    pub fn insert(
        &mut self,
        stream: &CudaStream,
        rows: &CudaSlice<u32>,
        count: usize,
        (number, length, beta): (u64, usize, f64),
    ) -> Result<(), KernelError> {
        assert!(count <= MOST_ROWS && count * words_of_row(self.settings.width) <= rows.len());
        assert!(length <= self.settings.capacity, "more rows than the memory holds");
        let kernel = function(stream, "replay_insert")?;
        let (count, length) = (count as u32, length as u64);
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&self.table).arg(rows).arg(&count).arg(&number).arg(&length).arg(&beta);
        // SAFETY: the arguments are those of `replay_insert` in replay.cu; the table's buffers are this memory's, places
        // below its capacity are the caller's promise to `stage`, and one stream orders all that touches them.
        unsafe { launch.launch(one_block(MOST_ROWS as u32)) }?;
        Ok(())
    }

    /// Draws the next batch, by `key`, and the noise of the update into `noise`.
    pub fn draw(
        &mut self,
        stream: &CudaStream,
        key: &Key,
        plan: &NoisePlan,
        noise: &mut CudaSlice<f32>,
    ) -> Result<(), KernelError> {
        let kernel = function(stream, "replay_draw")?;
        let config = LaunchConfig { grid_dim: (1 + plan.blocks, 1, 1), ..one_block(DRAW_THREADS as u32) };
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&self.table).arg(key).arg(&plan.table).arg(&plan.count).arg(noise);
        // SAFETY: the arguments are those of `replay_draw` in replay.cu; the plan's places lie within `noise`, for which
        // it was made.
        unsafe { launch.launch(config) }?;
        Ok(())
    }

    /// Brings `rows` of the batch drawn to three addresses: S and S', `[rows][width]`, and rewards, discounts, weights
    /// and actions, `[4][rows]`.
    ///
    /// # Safety
    ///
    /// The addresses must be those of buffers of so many values on the device of `stream`, alive until the launch has ended.
    pub unsafe fn gather(&self, stream: &CudaStream, rows: Range<usize>, to: [Address; 3]) -> Result<(), KernelError> {
        assert!(rows.end <= self.settings.batch, "rows of the batch");
        if rows.is_empty() {
            return Ok(());
        }
        let kernel = function(stream, "replay_gather")?;
        let config = LaunchConfig { grid_dim: (rows.len() as u32, 1, 1), ..one_block(64) };
        let first = rows.start as u32;
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&self.table).arg(&first).arg(&to[0]).arg(&to[1]).arg(&to[2]);
        // SAFETY: the arguments are those of `replay_gather` in replay.cu; the caller answers for the addresses.
        unsafe { launch.launch(config) }?;
        Ok(())
    }

    /// Keeps what the update said: `extras` rode behind its gradients, `clip` is its norm and factor; and gives the rows
    /// of the batch their priorities.
    pub fn finish(
        &mut self,
        stream: &CudaStream,
        extras: &CudaView<'_, f32>,
        clip: &CudaSlice<f64>,
    ) -> Result<(), KernelError> {
        assert!(extras.len() >= 3 + 2 * self.settings.shards + self.settings.batch && clip.len() >= 2);
        let kernel = function(stream, "replay_finish")?;
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&self.table).arg(extras).arg(clip);
        // SAFETY: the arguments are those of `replay_finish` in replay.cu; `extras` has what it reads: checked above.
        unsafe { launch.launch(one_block(FINISH_THREADS)) }?;
        Ok(())
    }

    /// Where 1 + the update that was no finite one stands, 0 while all were: a word whose bits are 0 then.
    pub fn halted(&self) -> Address {
        self.table.state + 4 * size_of::<f64>() as u64
    }

    /// Fills the memory with `[rows][width]` observations, `[rows][3]` rewards, discounts and actions, and, with
    /// priorities, the nodes of the tree and the largest of them.
    pub fn fill(
        &mut self,
        stream: &Arc<CudaStream>,
        (now, next, meta): (&[f32], &[f32], &[f32]),
        tree: Option<(&[f64], f64)>,
    ) -> Result<(), KernelError> {
        for (from, to) in [(now, &mut self.now), (next, &mut self.next), (meta, &mut self.meta)] {
            if !from.is_empty() {
                stream.memcpy_htod(from, &mut to.slice_mut(..from.len()))?;
            }
        }
        let mut state = [0.0; STATE];
        state[3] = tree.map_or(1.0, |(_, largest)| largest);
        stream.memcpy_htod(&state, &mut self.state)?;
        if let Some((nodes, _)) = tree {
            assert_eq!(nodes.len(), 2 * self.leaves(), "the nodes of a tree of these leaves");
            stream.memcpy_htod(nodes, &mut self.tree)?;
        }
        Ok(())
    }

    /// The masses of the first `rows` rows, and the largest priority. Waits for the device.
    pub fn masses(&self, stream: &Arc<CudaStream>, rows: usize) -> Result<(Vec<f64>, f64), KernelError> {
        let largest = stream.clone_dtoh(&self.state)?[3];
        if rows == 0 {
            return Ok((Vec::new(), largest));
        }
        Ok((stream.clone_dtoh(&self.tree.slice(self.leaves()..self.leaves() + rows))?, largest))
    }

    /// What the updates of the last `records` said, by number modulo that. Waits for the device.
    pub fn records(&self, stream: &Arc<CudaStream>) -> Result<Vec<Record>, KernelError> {
        let shards = self.settings.shards;
        let all = stream.clone_dtoh(&self.record)?;
        Ok(all.chunks_exact(FIELDS + 2 * shards).map(|fields| record(fields, shards)).collect())
    }

    /// The places and weights of the batch last drawn. Waits for the device.
    pub fn drawn(&self, stream: &Arc<CudaStream>) -> Result<(Vec<u32>, Vec<f64>), KernelError> {
        Ok((stream.clone_dtoh(&self.indices)?, stream.clone_dtoh(&self.weights)?))
    }

    /// The row at `place`: S, S', and reward, discount and action. Waits for the device.
    pub fn row(&self, stream: &Arc<CudaStream>, place: usize) -> Result<[Vec<f32>; 3], KernelError> {
        let of =
            |from: &CudaSlice<f32>, width: usize| stream.clone_dtoh(&from.slice(place * width..(place + 1) * width));
        Ok([of(&self.now, self.settings.width)?, of(&self.next, self.settings.width)?, of(&self.meta, 3)?])
    }
}

fn record(fields: &[f64], shards: usize) -> Record {
    let last = 6 + 2 * shards;
    let (norm, sum, weights) = (fields[0], fields[1], fields[2]);
    Record { norm, errors: (sum, fields[last]), weights, extras: fields[3..last].to_vec() }
}

fn one_block(threads: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (1, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
}
