//! How launches become a graph: recorded between two calls of the driver, and replayed only if every rank could.

use super::ParallelError;
use crate::collectives::{Buffer, Collective, ReduceOp};
use cudarc::driver::{CudaGraph, CudaStream, DriverError, sys};
use std::fmt::Display;
use std::sync::Arc;

/// Records what `enqueue` puts on `stream`, ready to be replayed. Nothing is computed; the reason if it failed.
pub(crate) fn record<E: Display>(
    stream: &Arc<CudaStream>,
    enqueue: impl FnOnce() -> Result<(), E>,
) -> Result<CudaGraph, String> {
    let text = |error: DriverError| error.to_string();
    stream.synchronize().map_err(text)?;
    // Other threads of this process, as NCCL's, may call the driver meanwhile.
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).map_err(text)?;
    let ran = enqueue();
    // also after an error, since only the end of the capture gives the stream back
    let ended = stream.end_capture(sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    ran.map_err(|error| error.to_string())?;
    let graph = ended.map_err(text)?.ok_or("the driver recorded nothing")?;
    graph.upload().map_err(text)?;
    Ok(graph)
}

/// Whether every rank has what it needs to replay: none does if one cannot. The reason if not, this rank's own if it has
/// one.
pub(crate) fn agree(
    collective: &mut dyn Collective,
    mine: Result<(), String>,
) -> Result<Result<(), String>, ParallelError> {
    let mut failures = [f64::from(u8::from(mine.is_err()))];
    if collective.world_size().0 > 1 {
        collective.all_reduce(Buffer::F64(&mut failures), ReduceOp::Sum)?;
    }
    Ok(match mine {
        Ok(()) if failures[0] > 0.0 => Err("another rank could not capture it".into()),
        mine => mine,
    })
}
