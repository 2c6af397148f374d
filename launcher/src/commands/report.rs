//! `foxlaunch report RUN...`: the report of finished runs, written anew and shown.

use super::{Done, Refusal};
use crate::process::print;
use crate::{report, screen};
use clap::Args;
use foxlaunch_shared::exit;
use foxlaunch_shared::run_dir::RunDir;
use std::path::PathBuf;

/// Write the report of finished runs anew and show it.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Run folders
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
}

/// Does it.
pub fn report(args: &ReportArgs) -> Done {
    for path in &args.runs {
        if !path.is_dir() {
            return Err(Refusal::new(exit::NO_INPUT, format!("{}: no such run folder", path.display())));
        }
        let run = RunDir::new(path);
        if !run.config().exists() && !run.metrics().exists() {
            let words =
                format!("{}: no run of a training: it has neither config.toml nor metrics.jsonl", path.display());
            return Err(Refusal::new(exit::NO_INPUT, words));
        }
        let written =
            report::write(&RunDir::new(path)).map_err(|error| Refusal::new(exit::DATA, format!("{error:#}")))?;
        print::out(screen::summary::summary(&written).trim_end());
    }
    Ok(exit::OK)
}
