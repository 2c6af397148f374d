//! `foxlaunch report RUN...`: the report of finished runs, written anew and shown; several also side by side.

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
    /// How many trials stand behind a result, if more than the ledger beside the run knows
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub trials: usize,
}

/// Does it.
pub fn report(args: &ReportArgs) -> Done {
    let mut reports = Vec::new();
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
            report::write(&run, args.trials).map_err(|error| Refusal::new(exit::DATA, format!("{error:#}")))?;
        print::out(screen::summary::summary(&written).trim_end());
        reports.push(written);
    }
    if reports.len() > 1 {
        print::out("");
        print::out(report::compare::table(&reports).trim_end());
    }
    Ok(exit::OK)
}
