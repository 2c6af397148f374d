//! `foxlaunch data`: what files hold and what is wrong with them. A worker reads them.

use super::{Done, Refusal};
use crate::plan::worker_binary::WorkerBinary;
use crate::process::print;
use crate::screen::printable;
use clap::Args;
use foxlaunch_shared::answers::{DataReport, InstrumentReport};
use foxlaunch_shared::config::{ConfigError, Layer, Layers};
use foxlaunch_shared::exit;
use std::ffi::OsString;
use std::io::Write;

/// More instruments than this are counted, not listed.
const LISTED: usize = 12;

/// `foxlaunch data`'s arguments.
#[derive(Args, Debug)]
pub struct DataArgs {
    /// Files, folders or patterns
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<OsString>,
    /// One setting, as cleaning.duplicate=drop; may stand more than once
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// As JSON, an object for each file
    #[arg(long)]
    pub json: bool,
}

/// Does it. A file that is refused is named in one line; the exit code is that of the first.
pub fn data(args: &DataArgs) -> Done {
    let of_config = |error: ConfigError| Refusal::new(exit::CONFIG, error);
    let mut layers = Layers::new();
    let variables = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    layers.push(Layer::from_env(variables)).map_err(of_config)?;
    let pairs = Layer::from_pairs("--set", args.set.iter().map(String::as_str)).map_err(of_config)?;
    layers.push(pairs).map_err(of_config)?;
    let (config, _) = layers.resolve().map_err(of_config)?;
    let cannot = |error: std::io::Error| Refusal::new(exit::CANT_CREATE, format!("a temporary file: {error}"));
    let mut file = tempfile::NamedTempFile::new().map_err(cannot)?;
    file.write_all(config.to_toml().as_bytes()).map_err(cannot)?;
    let worker = WorkerBinary::find(false, false)?;
    let answers = worker.survey(file.path(), &args.files).map_err(|(code, words)| Refusal::new(code, words))?;
    let mut refused = None;
    for answer in answers {
        match answer {
            Ok(report) if args.json => print::out(serde_json::to_string(&without_charts(report)).unwrap_or_default()),
            Ok(report) => print::out(text(&report).trim_end()),
            Err((code, words)) => {
                print::err(format_args!("foxlaunch: {words}"));
                refused = refused.or(Some(code));
            }
        }
    }
    Ok(refused.unwrap_or(exit::OK))
}

fn without_charts(mut report: DataReport) -> DataReport {
    report.details.iter_mut().for_each(|one| one.chart.clear());
    report
}

/// The report for a person.
fn text(report: &DataReport) -> String {
    let mut lines = vec![report.file.clone()];
    let mut line = |name: &str, value: String| lines.push(format!("  {name:<11} {value}"));
    line("holds", format!("{} {}, {} records", report.format, report.schema, report.records));
    match report.bars {
        0 => line("bars", "none".to_owned()),
        bars => line("bars", format!("{bars} of {}", span(report.interval_ns))),
    }
    if let (Some(first), Some(last)) = (&report.first, &report.last) {
        line("from", format!("{first} to {last}"));
    }
    for one in report.details.iter().take(LISTED) {
        line(&printable(&one.symbol), instrument(one));
    }
    if report.details.len() > LISTED {
        line("", format!("and {} more instruments", report.details.len() - LISTED));
    }
    let problems: Vec<String> = report.problems.iter().map(|(kind, many)| format!("{kind} {many}")).collect();
    line("problems", if problems.is_empty() { "none".to_owned() } else { problems.join(", ") });
    for note in &report.notes {
        line("note", note.clone());
    }
    // names of instruments are a file's, and may hold what a terminal obeys
    let plain = |text: &String| text.lines().map(printable).collect::<Vec<_>>().join("\n");
    lines.iter().map(plain).collect::<Vec<_>>().join("\n") + "\n"
}

fn instrument(one: &InstrumentReport) -> String {
    let counts = format!("{} bars on {} days, {} gaps", one.bars, one.sessions, one.gaps);
    if one.chart.len() < 2 { counts } else { format!("{counts}\n  {:<12}{}", "", chart(&one.chart)) }
}

/// Closes as a line of blocks, from the lowest to the highest.
fn chart(closes: &[f64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (low, high) = closes.iter().fold((f64::MAX, f64::MIN), |(l, h), c| (l.min(*c), h.max(*c)));
    let block = |close: &f64| {
        let place = if high > low { (close - low) / (high - low) } else { 0.0 };
        BLOCKS[((place * 7.0).round() as usize).min(7)]
    };
    let line: String = closes.iter().map(block).collect();
    format!("{low} {line} {high}")
}

/// A length of bars, as `1 m`.
fn span(ns: i64) -> String {
    let units = [(86_400_000_000_000, "d"), (3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s")];
    match units.iter().find(|(unit, _)| ns > 0 && ns % unit == 0) {
        Some((unit, name)) => format!("{} {name}", ns / unit),
        None if ns == 0 => "unknown length".to_owned(),
        None => format!("{ns} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_like_this() {
        let one = InstrumentReport {
            symbol: "ES".to_owned(),
            bars: 3,
            gaps: 1,
            sessions: 2,
            chart: vec![1.0, 3.0, 2.0],
            ..Default::default()
        };
        let report = DataReport {
            file: "x.csv".to_owned(),
            format: "csv".to_owned(),
            schema: "ohlcv".to_owned(),
            records: 4,
            bars: 3,
            interval_ns: 60_000_000_000,
            first: Some("a".to_owned()),
            last: Some("b".to_owned()),
            problems: [("duplicate".to_owned(), 1)].into(),
            details: vec![one, InstrumentReport { symbol: "a-long-name\u{1b}[2J".to_owned(), ..Default::default() }],
            ..Default::default()
        };
        let expected = "x.csv
  holds       csv ohlcv, 4 records
  bars        3 of 1 m
  from        a to b
  ES          3 bars on 2 days, 1 gaps
              1 ▁█▅ 3
  a-long-name\u{fffd}[2J 0 bars on 0 days, 0 gaps
  problems    duplicate 1
";
        assert_eq!(text(&report), expected);
        assert_eq!(span(86_400_000_000_000), "1 d");
        assert_eq!(chart(&[2.0, 2.0]), "2 ▁▁ 2");
    }
}
