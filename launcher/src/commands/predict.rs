//! `foxlaunch predict`: which positions the policies of finished runs hold after each bar. A worker computes them.

use super::evaluate::{copied, is_stdin, settings, written};
use super::{Done, Refusal};
use crate::plan::worker_binary::WorkerBinary;
use clap::Args;
use foxlaunch_shared::exit;
use foxlaunch_shared::run_dir::RunDir;
use std::io::Write;
use std::path::PathBuf;

/// `foxlaunch predict`'s arguments.
#[derive(Args, Debug)]
pub struct PredictArgs {
    /// Run folders; of several the mean position is given
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Bars to predict on: a file, a folder or a pattern, or - for the standard input
    #[arg(long, required = true, value_name = "PATH")]
    pub data: Vec<PathBuf>,
    /// One setting, as data.zone=-05:00; may stand more than once
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Does it: a table with the start of each bar, the instrument, and the position from the next bar's open on.
pub fn predict(args: &PredictArgs) -> Done {
    let mut data = args.data.clone();
    let mut kept = Vec::new();
    for path in data.iter_mut().filter(|path| is_stdin(path)) {
        let (folder, file) = copied(std::io::stdin().lock())?;
        *path = file;
        kept.push(folder);
    }
    let mut runs = Vec::new();
    let mut files = Vec::new();
    for run in &args.runs {
        let file = written(&settings(&RunDir::new(run), &data, &args.set)?)?;
        runs.push((run.clone(), file.path().to_owned()));
        files.push(file);
    }
    let worker = WorkerBinary::find(false, false)?;
    let table = worker.predict(&runs).map_err(|(code, words)| Refusal::new(code, words))?;
    // whoever reads may stop reading
    let _ = std::io::stdout().write_all(&table);
    Ok(exit::OK)
}
