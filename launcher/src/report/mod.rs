//! What a run came to, for a person and for a program: [`write`] makes `report.html` and `report.json`.
//!
//! [`collect`] reads the run folder, [`chain`] joins the folds' test parts, [`control`] has what is no market, [`ledger`]
//! counts the trials behind a result, [`verdict`] and [`figures`] say what the numbers allow to say, [`plots`] draws,
//! [`render`] lays out the page, [`compare`] puts runs side by side. Only test parts are shown as results.

mod axis;
pub mod calendar;
pub mod chain;
pub mod collect;
pub mod compare;
pub mod control;
mod curves;
pub mod figures;
pub mod ledger;
pub mod plots;
pub mod render;
mod style;
pub mod verdict;

pub use chain::Comparison;
pub use collect::Report;
pub use verdict::Verdict;

use anyhow::Context;
use foxlaunch_shared::run_dir::RunDir;
use std::io::Write;
use std::path::Path;

/// Reads `run`, writes its `report.html` and `report.json`, and returns what they show.
///
/// At least `trials` trials are taken to stand behind the result; without more they are those in the ledger. Pieces that
/// the folder lacks are named in the report and are no error; a folder that cannot be read or written is. Each file
/// appears whole or not at all.
pub fn write(run: &RunDir, trials: usize) -> anyhow::Result<Report> {
    let report = collect::collect(run, trials)?;
    let json = serde_json::to_string_pretty(&report).context("the report's numbers as JSON")?;
    put(&run.report_json(), &(json + "\n"))?;
    put(&run.report_html(), &render::page(&report)?)?;
    Ok(report)
}

/// Writes `text` beside `path` and renames it there, so that a reader never meets half a file.
fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".report-").tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("{} cannot be written", path.display()))
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
