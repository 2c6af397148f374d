//! How data moves: calls on the device's stream, and host memory in parts by way of the device.

use super::Nccl;
use super::staging::{PART, driver};
use super::wait::Wait;
use crate::collectives::{CollectiveError, ReduceOp};
use cudarc::nccl::sys;
use foxlaunch_shared::ids::Rank;
use std::ffi::c_void;

/// The type of a call's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    U8,
    F32,
    F64,
}

impl Element {
    /// Bytes of one element.
    fn bytes(self) -> usize {
        match self {
            Element::U8 => 1,
            Element::F32 => 4,
            Element::F64 => 8,
        }
    }
}

impl Nccl {
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
    pub(super) fn wait(&mut self, what: &str) -> Result<(), CollectiveError> {
        self.done.record(&self.stream).map_err(driver)?;
        let mut wait = Wait::new(self.call_within);
        while !self.done.try_is_complete().map_err(driver)? {
            self.communicator.in_progress(what)?;
            wait.check(what, &self.abort)?;
            wait.pause();
        }
        Ok(())
    }

    pub(super) fn reduce_at(
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
    pub(super) fn reduce_host(
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
    pub(super) fn gather(&mut self, what: &str, mine: &[u8], all: &mut [u8]) -> Result<(), CollectiveError> {
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

    pub(super) fn broadcast_host(&mut self, what: &str, data: &mut [u8], root: Rank) -> Result<(), CollectiveError> {
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
