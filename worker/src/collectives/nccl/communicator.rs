//! The owner of one NCCL communicator. Nothing here can wait for ever: what NCCL may not come back from runs on a
//! thread of its own, and is left behind when its time is up.

use super::wait::Wait;
use crate::collectives::{AbortFlag, CollectiveError};
use cudarc::driver::CudaContext;
use cudarc::nccl::sys;
use foxlaunch_shared::ids::{Rank, WorldSize};
use foxlaunch_shared::protocol::CommId;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a normal end may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// How long an abort may take. It can hang, for instance while a captured graph that holds a collective lives.
const ABORT_WITHIN: Duration = Duration::from_secs(1);
/// `NCCL_VERSION(2, 28, 9)`: the header whose `ncclConfig_t` this file fills. A newer library reads it by this number.
const HEADER_VERSION: u32 = 2 * 10_000 + 28 * 100 + 9;
/// `NCCL_CONFIG_UNDEF_INT`: leave the choice to the library.
const UNDEFINED: i32 = i32::MIN;

/// Makes the id from which one communicator is formed. Its maker must stay alive until all ranks have formed theirs.
pub(super) fn make_id() -> Result<CommId, CollectiveError> {
    let mut id = sys::ncclUniqueId { internal: [0; 128] };
    // SAFETY: `id` is a valid place for the 128 bytes that the call writes.
    let code = unsafe { sys::ncclGetUniqueId(&mut id) };
    check("ncclGetUniqueId", code, std::ptr::null_mut())?;
    Ok(CommId(id.internal.iter().map(|c| *c as u8).collect()))
}

/// A handle that may be moved to another thread.
#[derive(Clone, Copy)]
struct Raw(sys::ncclComm_t);

// SAFETY: NCCL allows calls on a communicator from any thread, one at a time; `Communicator` owns the handle, and a
// handle that was given to another thread is not used again by this one.
unsafe impl Send for Raw {}

/// One communicator: `None` once it was closed, aborted or left behind.
pub(super) struct Communicator {
    raw: Option<Raw>,
}

impl Communicator {
    /// Forms the communicator of `world` ranks, waiting at most `deadline` for them.
    ///
    /// The communicator is a blocking one, formed on a thread of its own: with `blocking = 0` NCCL starts a thread for
    /// *every* call (`src/group.cc`, `ncclGroupEndInternal`), which costs more than a small all-reduce takes.
    pub(super) fn form(
        context: &Arc<CudaContext>,
        rank: Rank,
        world: WorldSize,
        id: &CommId,
        deadline: Duration,
        abort: &AbortFlag,
    ) -> Result<Communicator, CollectiveError> {
        let internal: [u8; 128] = id.0.as_slice().try_into().map_err(|_| {
            CollectiveError::Failed(format!("the launcher's NCCL id has {} bytes instead of 128", id.0.len()))
        })?;
        let unique = sys::ncclUniqueId { internal: internal.map(|byte| byte as std::ffi::c_char) };
        let (done, result) = mpsc::channel();
        let context = Arc::clone(context);
        spawn("nccl-init", move || {
            let formed = context
                .bind_to_thread()
                .map_err(|e| CollectiveError::Failed(format!("the CUDA context: {e}")))
                .and_then(|()| init(unique, rank, world));
            // Nobody listens any more if the time was up: the handle is then left behind, and the process ends.
            let _ = done.send(formed);
        })?;
        let mut wait = Wait::new(deadline);
        loop {
            match result.recv_timeout(Duration::from_millis(10)) {
                Ok(formed) => return formed.map(|raw| Communicator { raw: Some(raw) }),
                Err(mpsc::RecvTimeoutError::Timeout) => wait.check("forming the NCCL communicator", abort)?,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(CollectiveError::Failed("NCCL's start ended without a result".into()));
                }
            }
        }
    }

    /// The handle, for a call on this thread.
    fn raw(&self) -> Result<Raw, CollectiveError> {
        self.raw.ok_or_else(|| CollectiveError::Aborted("the communicator was given up after an error".into()))
    }

    /// Makes `call` and returns when NCCL has enqueued it.
    pub(super) fn enqueue(
        &self,
        what: &str,
        wait: &mut Wait,
        abort: &AbortFlag,
        call: impl FnOnce(sys::ncclComm_t) -> sys::ncclResult_t,
    ) -> Result<(), CollectiveError> {
        let raw = self.raw()?;
        match call(raw.0) {
            // Only where the user made communicators non-blocking, by NCCL_COMM_BLOCKING=0.
            sys::ncclResult_t::ncclInProgress => {
                while self.in_progress(what)? {
                    wait.check(what, abort)?;
                    thread::yield_now();
                }
                Ok(())
            }
            code => check(what, code, raw.0),
        }
    }

    /// Gives NCCL's asynchronous error, if it has one; else whether it is still busy with the last call.
    pub(super) fn in_progress(&self, what: &str) -> Result<bool, CollectiveError> {
        let raw = self.raw()?;
        let mut state = sys::ncclResult_t::ncclSuccess;
        // SAFETY: the handle is open, and `state` is a valid place for the answer.
        let code = unsafe { sys::ncclCommGetAsyncError(raw.0, &mut state) };
        check(what, code, raw.0)?;
        if state == sys::ncclResult_t::ncclInProgress {
            return Ok(true);
        }
        check(what, state, raw.0)?;
        Ok(false)
    }

    /// Ends the communicator in order, after all its work is done. Says whether it ended within its time.
    pub(super) fn close(&mut self, context: &Arc<CudaContext>) -> bool {
        let Some(raw) = self.raw.take() else { return true };
        on_own_thread("nccl-close", context, CLOSE_WITHIN, move || {
            let raw = raw;
            // SAFETY: the handle was taken out of its owner, so nothing else uses it; finalize goes before destroy.
            unsafe {
                let mut state = sys::ncclCommFinalize(raw.0);
                while state == sys::ncclResult_t::ncclInProgress {
                    thread::yield_now();
                    if sys::ncclCommGetAsyncError(raw.0, &mut state) != sys::ncclResult_t::ncclSuccess {
                        return;
                    }
                }
                if state == sys::ncclResult_t::ncclSuccess {
                    sys::ncclCommDestroy(raw.0);
                }
            }
        })
    }

    /// Makes kernels that wait for lost peers give up. Says whether NCCL came back within its time; if not, the handle
    /// is left behind, and the process has to end.
    pub(super) fn abort(&mut self, context: &Arc<CudaContext>) -> bool {
        let Some(raw) = self.raw.take() else { return true };
        on_own_thread("nccl-abort", context, ABORT_WITHIN, move || {
            let raw = raw;
            // SAFETY: the handle was taken out of its owner, so nothing else uses it.
            unsafe { sys::ncclCommAbort(raw.0) };
        })
    }
}

/// `ncclCommInitRankConfig` with everything left to the library but `blocking`.
fn init(id: sys::ncclUniqueId, rank: Rank, world: WorldSize) -> Result<Raw, CollectiveError> {
    let mut config = sys::ncclConfig_t {
        size: size_of::<sys::ncclConfig_t>(),
        magic: 0xcafe_beef,
        version: HEADER_VERSION,
        blocking: 1,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: UNDEFINED,
        netName: std::ptr::null(),
        splitShare: UNDEFINED,
        trafficClass: UNDEFINED,
        commName: std::ptr::null(),
        collnetEnable: UNDEFINED,
        CTAPolicy: UNDEFINED,
        shrinkShare: UNDEFINED,
        nvlsCTAs: UNDEFINED,
        nChannelsPerNetPeer: UNDEFINED,
        nvlinkCentricSched: UNDEFINED,
    };
    let mut raw: sys::ncclComm_t = std::ptr::null_mut();
    // SAFETY: `raw` and `config` are valid places for the length of the call, and the device's context is current.
    let mut code = unsafe { sys::ncclCommInitRankConfig(&mut raw, world.0 as i32, id, rank.0 as i32, &mut config) };
    while code == sys::ncclResult_t::ncclInProgress {
        thread::sleep(Duration::from_millis(1));
        // SAFETY: a call in progress has set `raw`; `code` is a valid place for the answer.
        let asked = unsafe { sys::ncclCommGetAsyncError(raw, &mut code) };
        check("forming the NCCL communicator", asked, raw)?;
    }
    check("forming the NCCL communicator", code, raw)?;
    Ok(Raw(raw))
}

/// Runs `work` with the context current, for at most `within`; says whether it ended.
fn on_own_thread(
    name: &str,
    context: &Arc<CudaContext>,
    within: Duration,
    work: impl FnOnce() + Send + 'static,
) -> bool {
    let (done, ended) = mpsc::channel();
    let context = Arc::clone(context);
    let started = spawn(name, move || {
        if context.bind_to_thread().is_ok() {
            work();
        }
        let _ = done.send(());
    });
    started.is_ok() && ended.recv_timeout(within).is_ok()
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), CollectiveError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|e| CollectiveError::Failed(format!("the thread {name} could not be started: {e}")))
}

/// The error of `code`, in NCCL's words.
fn check(what: &str, code: sys::ncclResult_t, comm: sys::ncclComm_t) -> Result<(), CollectiveError> {
    if code == sys::ncclResult_t::ncclSuccess {
        return Ok(());
    }
    // SAFETY: NCCL answers with a static string, and with its last error message, also for no communicator.
    let (short, long) = unsafe { (text(sys::ncclGetErrorString(code)), text(sys::ncclGetLastError(comm))) };
    let long = if long.is_empty() { String::new() } else { format!(": {long}") };
    Err(CollectiveError::Failed(format!("{what}: NCCL says {code:?}, {short}{long}")))
}

/// Copies a C string; empty for none.
///
/// # Safety
/// `from` is null or points to a string that ends with a zero.
unsafe fn text(from: *const std::ffi::c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().trim().to_owned()
}
