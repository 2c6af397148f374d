//! What files hold and what is wrong with them, without training on them.

use super::join::{Gathered, holes};
use super::{file, paths, when};
use crate::data::{Bars, DataError};
use foxlaunch_shared::answers::{DataReport, InstrumentReport};
use foxlaunch_shared::config::Config;
use foxlaunch_shared::zone::Zone;
use std::collections::BTreeSet;
use std::path::Path;

/// Points of a chart of closes.
const CHART: usize = 60;

/// A report on each file that `text` means, in order, up to and with the first that is refused.
pub fn survey(text: &str, config: &Config) -> Vec<Result<DataReport, DataError>> {
    let files = match paths::expand(text) {
        Ok(files) => files,
        Err(error) => return vec![Err(error)],
    };
    files.iter().map(|path| report(path, config)).collect()
}

fn report(path: &Path, config: &Config) -> Result<DataReport, DataError> {
    let mut taken = file::open(path, config, true)?;
    let mut problems = taken.problems.clone();
    if let Some(refusal) = taken.refusal.take() {
        // all that was counted, since one who mends a file wants to mend it once
        let counts: Vec<String> = problems.by_name().iter().map(|(kind, many)| format!("{kind} {many}")).collect();
        return Err(refusal.with_counts(&counts.join(", ")));
    }
    let mut report = DataReport {
        file: path.display().to_string(),
        format: taken.what.format.to_owned(),
        schema: taken.what.schema.clone(),
        records: taken.records,
        notes: std::mem::take(&mut taken.what.notes),
        instruments: taken.seen.clone(),
        ..DataReport::default()
    };
    report.instruments.sort();
    if let Some((first, last)) = taken.what.span {
        (report.first, report.last) = (Some(when::format(first)), Some(when::format(last)));
    }
    // of DBN a file without records is a whole one: an interval without trades has none
    if report.format != "dbn" && taken.records == 0 {
        let reason = "it holds no bars: there is a header, and nothing below it";
        return Err(DataError::Refused {
            path: path.to_owned(),
            place: crate::data::Place::File,
            reason: reason.to_owned(),
        });
    }
    if !taken.chunks.is_empty() {
        let mut gathered = Gathered::new(config);
        gathered.add(path, taken);
        let (joined, all) = gathered.join(&path.display().to_string())?;
        problems = all;
        let zone = config.data.zone();
        report.bars = joined.iter().map(|one| one.bars.len() as u64).sum();
        report.details = joined.iter().map(|one| detail(&one.bars, &zone)).collect();
        let bars = || joined.iter().map(|one| &one.bars);
        report.first = bars().filter_map(|b| b.start_ns.first()).min().map(|ns| when::format(*ns));
        report.last = bars().filter_map(|b| b.start_ns.last()).max().map(|ns| when::format(*ns));
        report.interval_ns = bars().map(|b| b.interval_ns).filter(|ns| *ns > 0).min().unwrap_or(0);
    }
    report.problems = problems.by_name();
    Ok(report)
}

fn detail(bars: &Bars, zone: &Zone) -> InstrumentReport {
    let n = bars.len();
    let days: BTreeSet<i64> = bars.start_ns.iter().map(|ns| zone.day(*ns)).collect();
    let points = n.min(CHART);
    InstrumentReport {
        symbol: bars.symbol.clone(),
        bars: n as u64,
        first: bars.start_ns.first().map(|ns| when::format(*ns)),
        last: bars.start_ns.last().map(|ns| when::format(*ns)),
        gaps: holes(bars, zone).len() as u64,
        sessions: days.len() as u64,
        chart: (0..points).map(|k| bars.close[(k + 1) * n / points - 1]).collect(),
    }
}
