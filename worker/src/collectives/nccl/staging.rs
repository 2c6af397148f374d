//! Host data on its way through the device: page-locked memory here, a device buffer there.
//!
//! A copy from ordinary memory would block inside the driver, behind whatever the stream waits for; from page-locked
//! memory it is only enqueued, so that our own wait can look at the abort flag.

use crate::collectives::CollectiveError;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, result};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

/// The most that is staged at once; longer data goes in parts.
pub(super) const PART: usize = 16 << 20;
/// The least that is allocated.
const SMALLEST: usize = 64 << 10;

/// Page-locked host memory.
struct Pinned {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for Pinned {}

impl Pinned {
    fn new(bytes: usize) -> Result<Pinned, CollectiveError> {
        // SAFETY: a plain allocation, of more than no bytes; flags 0 make it cached memory, quick to read on the host.
        let start = unsafe { result::malloc_host(bytes, 0) }.map_err(driver)?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| CollectiveError::Failed(format!("the driver gave no memory for {bytes} bytes")))?;
        // SAFETY: the whole block is ours and large enough; from here on every byte has a value.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Pinned { start, bytes })
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block is ours, initialised, and `self` is borrowed for as long as the slice lives. The device
        // writes to it only between an enqueued copy and the wait for it, when no such slice exists.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: `start` came from `malloc_host` and is freed once. An error leaves it allocated until the end.
        let _ = unsafe { result::free_host(self.start.as_ptr().cast::<c_void>()) };
    }
}

/// The two buffers, grown as needed.
pub(super) struct Staging {
    stream: Arc<CudaStream>,
    /// What is sent, then what is received.
    buffers: Option<(Pinned, CudaSlice<u8>)>,
}

impl Staging {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Staging {
        Staging { stream: Arc::clone(stream), buffers: None }
    }

    /// Makes sure that both buffers hold `bytes`.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), CollectiveError> {
        if self.buffers.as_ref().is_some_and(|(host, _)| host.bytes >= bytes) {
            return Ok(());
        }
        let bytes = bytes.next_power_of_two().max(SMALLEST);
        self.buffers = None;
        self.stream.context().bind_to_thread().map_err(driver)?;
        let device = self.stream.alloc_zeros::<u8>(bytes).map_err(driver)?;
        self.buffers = Some((Pinned::new(bytes)?, device));
        Ok(())
    }

    fn buffers(&mut self) -> Result<&mut (Pinned, CudaSlice<u8>), CollectiveError> {
        self.buffers.as_mut().ok_or_else(|| CollectiveError::Failed("nothing was reserved".into()))
    }

    /// Enqueues the copy of `data` to the start of the device buffer, and gives that buffer's address.
    pub(super) fn send(&mut self, data: &[u8]) -> Result<u64, CollectiveError> {
        let stream = Arc::clone(&self.stream);
        let (host, device) = self.buffers()?;
        let mut to = device.slice_mut(..data.len());
        let from = &mut host.bytes_mut()[..data.len()];
        from.copy_from_slice(data);
        let (address, _ordered) = to.device_ptr_mut(&stream);
        // SAFETY: both sides have `data.len()` bytes; the host block stays until a wait has seen the copy done.
        unsafe { result::memcpy_htod_async(address, from, stream.cu_stream()) }.map_err(driver)?;
        Ok(address)
    }

    /// Enqueues the copy of the first `bytes` of the device buffer at offset `at` back to the host.
    pub(super) fn fetch(&mut self, at: usize, bytes: usize) -> Result<(), CollectiveError> {
        let stream = Arc::clone(&self.stream);
        let (host, device) = self.buffers()?;
        let mut from = device.slice_mut(at..at + bytes);
        let (address, _ordered) = from.device_ptr_mut(&stream);
        // SAFETY: both sides have `bytes` bytes; nobody looks at the host block before a wait has seen the copy done.
        unsafe { result::memcpy_dtoh_async(&mut host.bytes_mut()[..bytes], address, stream.cu_stream()) }
            .map_err(driver)
    }

    /// What the last [`fetch`](Staging::fetch) brought, once a wait has seen it done.
    pub(super) fn fetched(&mut self, bytes: usize) -> Result<&[u8], CollectiveError> {
        Ok(&self.buffers()?.0.bytes_mut()[..bytes])
    }

    /// Leaves the buffers behind, since the device may still write to them.
    pub(super) fn abandon(&mut self) {
        std::mem::forget(self.buffers.take());
    }
}

/// The driver's error in its own words.
pub(super) fn driver(error: result::DriverError) -> CollectiveError {
    CollectiveError::Failed(format!("the CUDA driver says {error}"))
}
