//! Collectives between NVIDIA devices, by NCCL.
//!
//! * Device buffers are reduced in place, on the stream that candle computes on: a call returns when it is enqueued, and
//!   what is enqueued after it sees the result. Host buffers pass through the device, and their calls block.
//! * NCCL cannot see that two ranks make different calls. With checking on, ranks compare their calls first, and a
//!   mismatch gives an error on every rank. It is on in debug builds, where `FOXLAUNCH_CHECK_COLLECTIVES=1` is set, and
//!   after [`Collective::check_calls`]; it must be the same on all ranks. It costs one small all-gather and a wait for
//!   the device before each call, so it is off otherwise, and cannot be used while a graph is captured.
//! * A call that fails ends the communicator: every later one fails with the same error. A raised [`AbortFlag`] ends
//!   waits within milliseconds; a process whose training thread is inside the driver then, or does not end, is ended by
//!   a guard thread with [`exit::COLLATERAL`](foxlaunch_shared::exit::COLLATERAL) after 1 s and 3 s.
//!
//! Sums of f32 are added in an order that NCCL chooses by size and topology: the same bits on all ranks, but not the
//! bits of another transport.

mod call;
mod communicator;
mod guard;
mod staging;
mod wait;

use super::{AbortFlag, Buffer, Collective, CollectiveError, ReduceOp};
use call::{Call, Element, Kind, RECORD};
use candle_core::Device;
use communicator::Communicator;
use cudarc::driver::{CudaEvent, CudaStream, DevicePtrMut};
use cudarc::nccl::sys;
use foxlaunch_shared::env;
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::{CommId, Transport};
use guard::Guard;
use staging::{PART, Staging, driver};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;
use wait::Wait;

/// How long one blocking call may wait for the others, unless [`Nccl::set_call_limit`] says otherwise.
const CALL_WITHIN: Duration = Duration::from_secs(30 * 60);
/// How long the launcher may take to say who died, after NCCL has seen that somebody did.
const CAUSE_WITHIN: Duration = Duration::from_millis(500);

/// How long the work that is still enqueued may take when the communicator is dropped.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Makes the 128 bytes from which all ranks form one communicator. Rank 0 makes them, and must stay alive until every
/// rank has returned from [`Nccl::form`].
pub fn make_id() -> Result<CommId, CollectiveError> {
    communicator::make_id()
}

/// One rank's end of an NCCL communicator.
pub struct Nccl {
    communicator: Communicator,
    stream: Arc<CudaStream>,
    staging: Staging,
    done: CudaEvent,
    rank: Rank,
    world: WorldSize,
    abort: Arc<AbortFlag>,
    guard: Guard,
    call_within: Duration,
    checked: bool,
    calls: u64,
    /// The first error; every later call gives it again.
    failed: Option<CollectiveError>,
}

impl Nccl {
    /// Forms the communicator of `world` ranks from rank 0's `id`, on the stream of `device`. Returns when all ranks
    /// are there, with an error after `deadline` or when `abort` is raised.
    pub fn form(
        device: &Device,
        rank: Rank,
        world: WorldSize,
        id: &CommId,
        deadline: Duration,
        abort: Arc<AbortFlag>,
    ) -> Result<Nccl, CollectiveError> {
        let cuda = device.as_cuda_device().map_err(|e| CollectiveError::Unsupported(format!("NCCL: {e}")))?;
        let stream = cuda.cuda_stream();
        let context = stream.context();
        let done = context.new_event(None).map_err(driver)?;
        let communicator = Communicator::form(context, rank, world, id, deadline, &abort)?;
        let guard = Guard::start(Arc::clone(&abort), rank)
            .map_err(|e| CollectiveError::Failed(format!("the thread nccl-guard could not be started: {e}")))?;
        let checked = match std::env::var(env::FOXLAUNCH_CHECK_COLLECTIVES) {
            Ok(value) => value != "0",
            Err(_) => cfg!(debug_assertions),
        };
        Ok(Nccl {
            staging: Staging::new(&stream),
            communicator,
            stream,
            done,
            rank,
            world,
            abort,
            guard,
            call_within: CALL_WITHIN,
            checked,
            calls: 0,
            failed: None,
        })
    }

    /// Limits how long one blocking call may wait for the others. Default: half an hour.
    pub fn set_call_limit(&mut self, within: Duration) {
        self.call_within = within;
    }

    /// Waits until the device has done all that was enqueued, with an eye on errors and on the abort flag. Use it
    /// before reading a value back from the device: the driver's own wait would not end if a peer died.
    pub fn synchronize(&mut self) -> Result<(), CollectiveError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let waited = self.wait("waiting for the device");
        self.keep(waited)
    }

    /// Counts the call, and compares it with the other ranks' if that is on.
    fn enter(&mut self, call: &Call) -> Result<(), CollectiveError> {
        self.calls += 1;
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if let Some(error) = self.abort.error(&call.to_string()) {
            return Err(error);
        }
        self.stream.context().bind_to_thread().map_err(driver)?;
        if self.checked {
            let mut all = vec![0; RECORD * self.world.0 as usize];
            self.gather(&call.to_string(), &call.encode(self.calls), &mut all)?;
            call::compare(&all, self.rank)?;
        }
        Ok(())
    }

    /// Hands `result` on; an error that leaves the communicator in an unknown state ends it.
    fn keep<T>(&mut self, result: Result<T, CollectiveError>) -> Result<T, CollectiveError> {
        result.map_err(|error| match error {
            CollectiveError::Mismatch { .. } | CollectiveError::Unsupported(_) => error,
            error if self.failed.is_some() => error,
            error => {
                let error = self.cause(error);
                self.guard.notice();
                self.staging.abandon();
                self.communicator.abort(self.stream.context());
                self.failed = Some(error.clone());
                error
            }
        })
    }

    /// NCCL says only that a peer cannot be reached. The launcher knows which one and why, a moment later.
    fn cause(&self, error: CollectiveError) -> CollectiveError {
        if let CollectiveError::Failed(what) = &error {
            let started = std::time::Instant::now();
            while started.elapsed() < CAUSE_WITHIN {
                if let Some(cause) = self.abort.error(what) {
                    return cause;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        error
    }

    /// Makes one NCCL call on our stream.
    fn enqueue(
        &self,
        what: &str,
        call: impl FnOnce(sys::ncclComm_t, sys::cudaStream_t) -> sys::ncclResult_t,
    ) -> Result<(), CollectiveError> {
        let stream = self.stream.cu_stream().cast();
        let mut wait = Wait::new(self.call_within);
        self.communicator.enqueue(what, &mut wait, &self.abort, |comm| call(comm, stream))
    }

    /// Returns when the device has done everything enqueued so far.
    fn wait(&mut self, what: &str) -> Result<(), CollectiveError> {
        self.done.record(&self.stream).map_err(driver)?;
        let mut wait = Wait::new(self.call_within);
        while !self.done.try_is_complete().map_err(driver)? {
            self.communicator.in_progress(what)?;
            wait.check(what, &self.abort)?;
            wait.pause();
        }
        Ok(())
    }

    fn reduce_at(
        &self,
        what: &str,
        at: u64,
        count: usize,
        element: Element,
        op: ReduceOp,
    ) -> Result<(), CollectiveError> {
        let element = match element {
            Element::U8 => sys::ncclDataType_t::ncclUint8,
            Element::F32 => sys::ncclDataType_t::ncclFloat32,
            Element::F64 => sys::ncclDataType_t::ncclFloat64,
        };
        let op = match op {
            ReduceOp::Sum => sys::ncclRedOp_t::ncclSum,
            ReduceOp::Avg => sys::ncclRedOp_t::ncclAvg,
            ReduceOp::Max => sys::ncclRedOp_t::ncclMax,
        };
        // SAFETY: `at` is the start of `count` elements on this device, which live until the stream has passed the call:
        // freeing them is enqueued on the same stream.
        self.enqueue(what, |comm, stream| unsafe {
            sys::ncclAllReduce(at as *const c_void, at as *mut c_void, count, element, op, comm, stream)
        })
    }

    /// All-reduce of host memory, in parts.
    fn reduce_host(
        &mut self,
        what: &str,
        data: &mut [u8],
        element: Element,
        op: ReduceOp,
    ) -> Result<(), CollectiveError> {
        for part in data.chunks_mut(PART) {
            self.staging.reserve(part.len())?;
            let at = self.staging.send(part)?;
            self.reduce_at(what, at, part.len() / element.bytes(), element, op)?;
            self.staging.fetch(0, part.len())?;
            self.wait(what)?;
            part.copy_from_slice(self.staging.fetched(part.len())?);
        }
        Ok(())
    }

    /// All-gather of host memory, in parts: each rank's stand side by side on the device.
    fn gather(&mut self, what: &str, mine: &[u8], all: &mut [u8]) -> Result<(), CollectiveError> {
        let world = self.world.0 as usize;
        let part = (PART / (world + 1)).max(1);
        for start in (0..mine.len()).step_by(part) {
            let mine_part = &mine[start..mine.len().min(start + part)];
            let bytes = mine_part.len();
            self.staging.reserve(bytes * (world + 1))?;
            let from = self.staging.send(mine_part)?;
            let to = from + bytes as u64;
            // SAFETY: `from` has `bytes` bytes and, behind them, `to` has `world` times as many: reserved above.
            self.enqueue(what, |comm, stream| unsafe {
                let element = sys::ncclDataType_t::ncclUint8;
                sys::ncclAllGather(from as *const c_void, to as *mut c_void, bytes, element, comm, stream)
            })?;
            self.staging.fetch(bytes, bytes * world)?;
            self.wait(what)?;
            let gathered = self.staging.fetched(bytes * world)?;
            for (rank, from) in gathered.chunks_exact(bytes).enumerate() {
                all[rank * mine.len() + start..][..bytes].copy_from_slice(from);
            }
        }
        Ok(())
    }

    fn broadcast_host(&mut self, what: &str, data: &mut [u8], root: Rank) -> Result<(), CollectiveError> {
        for part in data.chunks_mut(PART) {
            self.staging.reserve(part.len())?;
            let at = self.staging.send(part)?;
            // SAFETY: `at` is the start of `part.len()` bytes on this device, reserved above.
            self.enqueue(what, |comm, stream| unsafe {
                let element = sys::ncclDataType_t::ncclUint8;
                let (bytes, root) = (part.len(), root.0 as i32);
                sys::ncclBroadcast(at as *const c_void, at as *mut c_void, bytes, element, root, comm, stream)
            })?;
            self.staging.fetch(0, part.len())?;
            self.wait(what)?;
            part.copy_from_slice(self.staging.fetched(part.len())?);
        }
        Ok(())
    }
}

impl Collective for Nccl {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn world_size(&self) -> WorldSize {
        self.world
    }

    fn transport(&self) -> Transport {
        Transport::Nccl
    }

    fn all_reduce(&mut self, data: Buffer<'_>, op: ReduceOp) -> Result<(), CollectiveError> {
        let (element, count) = match &data {
            Buffer::F32(values) => (Element::F32, values.len()),
            Buffer::F64(values) => (Element::F64, values.len()),
            Buffer::CudaF32(values) => (Element::F32, values.len()),
        };
        if let Buffer::CudaF32(values) = &data
            && **values.stream() != *self.stream
        {
            let why = "the buffer belongs to another stream than the communicator: use World::device for both";
            return Err(CollectiveError::Unsupported(why.into()));
        }
        let call = Call { kind: Kind::AllReduce(op), element, count };
        let entered = self.enter(&call);
        self.keep(entered)?;
        if count == 0 {
            return Ok(());
        }
        let reduced = match data {
            Buffer::F32(values) => self.reduce_host(&call.to_string(), bytemuck::cast_slice_mut(values), element, op),
            Buffer::F64(values) => self.reduce_host(&call.to_string(), bytemuck::cast_slice_mut(values), element, op),
            Buffer::CudaF32(values) => {
                let (at, _ordered) = values.device_ptr_mut(&self.stream);
                // Asked first: an error of an earlier call would else show up far from its cause.
                let busy = self.communicator.in_progress("all_reduce on the device");
                busy.and_then(|_| self.reduce_at("all_reduce on the device", at, count, element, op))
            }
        };
        self.keep(reduced)
    }

    fn broadcast(&mut self, data: &mut [u8], root: Rank) -> Result<(), CollectiveError> {
        if root.0 >= self.world.0 {
            let why = format!("there is no rank {root} to broadcast from in a world of {}", self.world);
            return Err(CollectiveError::Unsupported(why));
        }
        let call = Call { kind: Kind::Broadcast(root), element: Element::U8, count: data.len() };
        let entered = self.enter(&call);
        self.keep(entered)?;
        let sent = self.broadcast_host(&call.to_string(), data, root);
        self.keep(sent)
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), CollectiveError> {
        let wanted = mine.len() * self.world.0 as usize;
        if all.len() != wanted {
            let why =
                format!("all_gather of {} bytes needs {wanted} bytes for the result, not {}", mine.len(), all.len());
            return Err(CollectiveError::Unsupported(why));
        }
        let call = Call { kind: Kind::AllGather, element: Element::U8, count: mine.len() };
        let entered = self.enter(&call);
        self.keep(entered)?;
        let gathered = self.gather(&call.to_string(), mine, all);
        self.keep(gathered)
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        let entered = self.enter(&Call::BARRIER);
        self.keep(entered)?;
        let reduced = self.reduce_host("barrier", &mut [0], Element::U8, ReduceOp::Sum);
        self.keep(reduced)
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn check_calls(&mut self, on: bool) {
        self.checked = on;
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        self.guard.notice();
        if self.failed.is_some() {
            return;
        }
        self.call_within = self.call_within.min(LEAVE_WITHIN);
        let drained = self.wait("leaving");
        if drained.is_err() || !self.communicator.close(self.stream.context()) {
            tracing::warn!(rank = self.rank.0, "the NCCL communicator did not end in time and is left behind");
            self.staging.abandon();
        }
    }
}
