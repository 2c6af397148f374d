//! The replay memory of updates on a device: rows go up when they are new, and from then on nothing does. What updates
//! say comes down when it is asked for, once for many of them.

use super::TrainError;
use super::device_model::driver;
use super::learner::ReplayRow;
use crate::kernels::device_replay::{DeviceRows, Key, NoisePlan, words_of_row};
use crate::kernels::layers::Address;
use crate::kernels::replay::{Record, ReplaySettings};
use crate::replay::Priorities;
use crate::seed::Streams;
use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, CudaView, PinnedHostSlice};
use std::ops::Range;
use std::sync::Arc;

/// Rows that go up in one copy.
const CHUNK: usize = 32;
/// Buffers that rows wait in: so many copies may be on their way before one is waited for.
const BUFFERS: usize = 4;

/// Host memory that a copy is made from.
struct Buffer {
    words: PinnedHostSlice<u32>,
    /// Recorded behind its last copy: cudarc's own event is not where it does not track what streams do.
    copied: CudaEvent,
}

/// The memory, what waits to go into it, and how much of what it says was read.
pub struct DeviceReplay {
    stream: Arc<CudaStream>,
    rows: DeviceRows,
    /// By which batches are drawn.
    key: Key,
    /// Rows that have not gone up, as words.
    waiting: Vec<u32>,
    /// Their places.
    places: Vec<usize>,
    buffers: Vec<Buffer>,
    turn: usize,
    arrived: CudaSlice<u32>,
    /// The next update, the rows there, beta.
    header: (u64, usize, f64),
    /// The first update whose record was not read.
    unread: u64,
    /// Reads so far.
    reads: u64,
}

impl Drop for DeviceReplay {
    fn drop(&mut self) {
        // the host's memory must not go while a copy reads it
        for buffer in &self.buffers {
            if let Err(error) = buffer.copied.synchronize() {
                tracing::debug!(%error, "rows on their way to the device");
            }
        }
    }
}

impl DeviceReplay {
    /// An empty memory, whose batches the streams decide: `replay::Priorities` and `replay::Ring` draw the same.
    pub fn new(
        stream: &Arc<CudaStream>,
        settings: ReplaySettings,
        streams: &Streams,
    ) -> Result<DeviceReplay, TrainError> {
        let words = CHUNK * words_of_row(settings.width);
        let mut buffers = Vec::new();
        for _ in 0..BUFFERS {
            // SAFETY: filled right below, before anything reads it.
            let mut words = unsafe { stream.context().alloc_pinned::<u32>(words) }.map_err(driver)?;
            words.as_mut_slice().map_err(driver)?.fill(0);
            buffers.push(Buffer { words, copied: stream.context().new_event(None).map_err(driver)? });
        }
        Ok(DeviceReplay {
            stream: Arc::clone(stream),
            rows: DeviceRows::new(stream, settings).map_err(|error| {
                let (rows, mib) = (settings.capacity, settings.bytes() >> 20);
                let what = format!("a replay memory of {rows} rows, {mib} MiB, was refused by the device: {error}");
                TrainError::Unsupported(format!("{what}; lower dqn.buffer_size"))
            })?,
            key: Key::from(streams.purpose("sample").key()),
            waiting: Vec::new(),
            places: Vec::new(),
            buffers,
            turn: 0,
            arrived: stream.alloc_zeros(words).map_err(driver)?,
            header: (0, 0, 1.0),
            unread: 0,
            reads: 0,
        })
    }

    /// A new row stands at `place`, perhaps instead of an old one.
    pub fn push(&mut self, place: usize, row: &ReplayRow<'_>) -> Result<(), TrainError> {
        let settings = self.rows.settings();
        if place >= settings.capacity || row.now.len() != settings.width || row.next.len() != settings.width {
            let (rows, width) = (settings.capacity, settings.width);
            let reason = format!("row {place} of {} values for a memory of {rows} rows of {width}", row.now.len());
            return Err(TrainError::Unsupported(reason));
        }
        if self.places.len() == CHUNK || self.places.contains(&place) {
            self.send()?;
        }
        self.places.push(place);
        self.waiting.extend([place as u32, row.action, (row.reward as f32).to_bits(), (row.discount as f32).to_bits()]);
        self.waiting.extend(row.now.iter().chain(row.next).map(|x| x.to_bits()));
        Ok(())
    }

    /// Update `number` is next: `length` rows are there, and `beta` weighs them.
    pub(super) fn begin(&mut self, number: u64, length: usize, beta: f64) -> Result<(), TrainError> {
        self.header = (number, length, beta);
        self.send()
    }

    /// Enqueues the copy of the rows that wait.
    fn send(&mut self) -> Result<(), TrainError> {
        let count = self.places.len();
        if count > 0 {
            let buffer = &mut self.buffers[self.turn];
            self.turn = (self.turn + 1) % BUFFERS;
            // if its last copy is still on its way
            buffer.copied.synchronize().map_err(driver)?;
            buffer.words.as_mut_slice().map_err(driver)?[..self.waiting.len()].copy_from_slice(&self.waiting);
            self.stream.memcpy_htod(&buffer.words, &mut self.arrived).map_err(driver)?;
            buffer.copied.record(&self.stream).map_err(driver)?;
            self.waiting.clear();
            self.places.clear();
        }
        Ok(self.rows.insert(&self.stream, &self.arrived, count, self.header)?)
    }

    /// Enqueues the draw of the batch, and of the noise.
    pub(super) fn draw(&mut self, plan: &NoisePlan, noise: &mut CudaSlice<f32>) -> Result<(), TrainError> {
        Ok(self.rows.draw(&self.stream, &self.key, plan, noise)?)
    }

    /// Enqueues bringing `rows` of the batch to where an update reads them.
    ///
    /// # Safety
    ///
    /// As of [`DeviceRows::gather`].
    pub(super) unsafe fn gather(&self, rows: Range<usize>, to: [Address; 3]) -> Result<(), TrainError> {
        // SAFETY: the caller's.
        Ok(unsafe { self.rows.gather(&self.stream, rows, to) }?)
    }

    /// Enqueues what follows the step.
    pub(super) fn finish(&mut self, extras: &CudaView<'_, f32>, clip: &CudaSlice<f64>) -> Result<(), TrainError> {
        Ok(self.rows.finish(&self.stream, extras, clip)?)
    }

    /// Where the device says that an update was no finite one.
    pub(super) fn halted(&self) -> Address {
        self.rows.halted()
    }

    /// How many of the updates before `next` were not read; there are places for [`ReplaySettings::records`].
    pub fn unread(&self, next: u64) -> u64 {
        next - self.unread
    }

    /// What the updates before `next` said that were not read, each with its number. Waits for the device if there are any.
    pub fn read(&mut self, next: u64) -> Result<Vec<(u64, Record)>, TrainError> {
        let numbers = self.unread..next;
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let places = self.rows.settings().records as u64;
        if numbers.end - numbers.start > places {
            let reason = format!("updates {numbers:?} were not read, and {places} are kept");
            return Err(TrainError::Unsupported(reason));
        }
        let all = self.rows.records(&self.stream)?;
        self.reads += 1;
        self.unread = next;
        Ok(numbers.map(|number| (number, all[(number % places) as usize].clone())).collect())
    }

    /// How often the device was read and waited for, in training.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// The priorities of the first `rows` rows. Waits for the device.
    pub fn priorities(&mut self, rows: usize) -> Result<Option<Priorities>, TrainError> {
        let Some((alpha, eps)) = self.rows.settings().priorities else { return Ok(None) };
        self.send()?;
        let (masses, largest) = self.rows.masses(&self.stream, rows)?;
        Ok(Some(Priorities::restored(alpha, eps, largest, &masses)))
    }

    /// Fills the memory with `rows`, the first at place 0, and their priorities; update `next` is the next.
    pub fn fill<'a>(
        &mut self,
        rows: &mut dyn Iterator<Item = ReplayRow<'a>>,
        priorities: Option<&Priorities>,
        next: u64,
    ) -> Result<(), TrainError> {
        let (mut now, mut then, mut meta) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            now.extend_from_slice(row.now);
            then.extend_from_slice(row.next);
            meta.extend([row.reward as f32, row.discount as f32, row.action as f32]);
        }
        let tree = priorities.map(|p| (p.nodes(self.rows.leaves()), p.largest()));
        let tree = tree.as_ref().map(|(nodes, largest)| (nodes.as_slice(), *largest));
        self.rows.fill(&self.stream, (&now, &then, &meta), tree)?;
        self.waiting.clear();
        self.places.clear();
        self.unread = next;
        Ok(())
    }

    /// The places and weights of the batch last drawn: after an update that was no finite one, of its batch.
    pub fn drawn(&self) -> Result<(Vec<u32>, Vec<f64>), TrainError> {
        Ok(self.rows.drawn(&self.stream)?)
    }

    /// The row at `place`: S, S', and reward, discount and action.
    pub fn row(&self, place: usize) -> Result<[Vec<f32>; 3], TrainError> {
        Ok(self.rows.row(&self.stream, place)?)
    }
}
