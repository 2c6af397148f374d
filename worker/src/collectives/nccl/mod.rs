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

mod agree;
mod communicator;
mod guard;
mod staging;
mod transfer;
mod wait;

use super::call::{Call, Kind};
use super::{AbortFlag, Buffer, Collective, CollectiveError, ReduceOp};
use agree::RECORD;
use candle_core::Device;
use communicator::Communicator;
use cudarc::driver::{CudaEvent, CudaStream, DevicePtrMut};
use foxlaunch_shared::env;
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::{CommId, Transport};
use guard::Guard;
use staging::{Staging, driver};
use std::sync::Arc;
use std::time::Duration;
use transfer::Element;

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

    /// Counts a call, and compares it with the other ranks' if that is on.
    fn enter(&mut self, kind: Kind, len: usize) -> Result<Call, CollectiveError> {
        self.calls += 1;
        let call = Call { number: self.calls, kind, len: len as u64 };
        let agreed = self.agree(&call);
        self.keep(agreed)?;
        Ok(call)
    }

    fn agree(&mut self, call: &Call) -> Result<(), CollectiveError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.abort.raised().is_some() {
            return self.abort.error(&call.to_string()).map_or(Ok(()), Err);
        }
        self.stream.context().bind_to_thread().map_err(driver)?;
        if self.checked {
            let mut all = vec![0; RECORD * self.world.0 as usize];
            self.gather(&call.to_string(), &agree::record(call), &mut all)?;
            agree::compare(&all, self.rank)?;
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
        let (size, count) = match &data {
            Buffer::F32(values) => (4, values.len()),
            Buffer::F64(values) => (8, values.len()),
            Buffer::CudaF32(values) => (4, values.len()),
        };
        if let Buffer::CudaF32(values) = &data
            && **values.stream() != *self.stream
        {
            let why = "the buffer belongs to another stream than the communicator: use World::device for both";
            return Err(CollectiveError::Unsupported(why.into()));
        }
        let call = self.enter(Kind::AllReduce { op, size }, count)?;
        if count == 0 {
            return Ok(());
        }
        let reduced = match data {
            Buffer::F32(values) => {
                self.reduce_host(&call.to_string(), bytemuck::cast_slice_mut(values), Element::F32, op)
            }
            Buffer::F64(values) => {
                self.reduce_host(&call.to_string(), bytemuck::cast_slice_mut(values), Element::F64, op)
            }
            Buffer::CudaF32(values) => {
                let (at, _ordered) = values.device_ptr_mut(&self.stream);
                // Asked first: an error of an earlier call would else show up far from its cause.
                let busy = self.communicator.in_progress("all_reduce on the device");
                busy.and_then(|_| self.reduce_at("all_reduce on the device", at, count, Element::F32, op))
            }
        };
        self.keep(reduced)
    }

    fn broadcast(&mut self, data: &mut [u8], root: Rank) -> Result<(), CollectiveError> {
        if root.0 >= self.world.0 {
            let why = format!("there is no rank {root} to broadcast from in a world of {}", self.world);
            return Err(CollectiveError::Unsupported(why));
        }
        let call = self.enter(Kind::Broadcast { root: root.0 }, data.len())?;
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
        let call = self.enter(Kind::AllGather, mine.len())?;
        let gathered = self.gather(&call.to_string(), mine, all);
        self.keep(gathered)
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.enter(Kind::Barrier, 0)?;
        let reduced = self.reduce_host("barrier", &mut [0], Element::U8, ReduceOp::Sum);
        self.keep(reduced)
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn replayed(&mut self, calls: u64) -> Result<(), CollectiveError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.calls += calls;
        let what = "a captured collective";
        if let Some(error) = self.abort.error(what) {
            return Err(error);
        }
        let busy = self.communicator.in_progress(what).map(drop);
        self.keep(busy)
    }

    fn check_calls(&mut self, on: bool) {
        self.checked = on;
    }

    fn checks_calls(&self) -> bool {
        self.checked
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        self.guard.notice();
        if self.failed.is_some() {
            return;
        }
        // The launcher may hang up while this one still closes.
        self.guard.dismiss();
        self.call_within = self.call_within.min(LEAVE_WITHIN);
        let drained = self.wait("leaving");
        if drained.is_err() || !self.communicator.close(self.stream.context()) {
            tracing::warn!(rank = self.rank.0, "the NCCL communicator did not end in time and is left behind");
            self.staging.abandon();
        }
    }
}
