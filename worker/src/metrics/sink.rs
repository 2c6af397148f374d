//! Records to `metrics.jsonl` and to TensorBoard. Only rank 0 has one.

use super::tensorboard::{EventWriter, Scalar};
use foxlaunch_shared::metric::Metric;
use foxlaunch_shared::run_dir::RunDir;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a record could not be written or an old file not be taken over.
#[derive(Debug, Error)]
pub enum MetricsError {
    /// The operating system refused.
    #[error("cannot write metrics to {}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A line of an old `metrics.jsonl` is no record.
    #[error("{}: line {line} is no metric record: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> MetricsError {
    let path = path.to_owned();
    move |source| MetricsError::Io { path, source }
}

/// Writes records. A record is in the file's buffer until [`Sink::sync`].
#[derive(Debug)]
pub struct Sink {
    path: PathBuf,
    lines: BufWriter<File>,
    tensorboard: PathBuf,
    events: Option<(u32, EventWriter)>,
}

impl Sink {
    /// A sink into `run` that keeps the records up to update `until.1` of fold `until.0` that are there, and none
    /// where `until` is `None`. What was written later belongs to a part of the run that will be done again.
    pub fn open(run: &RunDir, until: Option<(u32, u64)>) -> Result<Sink, MetricsError> {
        let path = run.metrics();
        std::fs::create_dir_all(run.path()).map_err(io(run.path()))?;
        let kept = match until {
            Some(until) => kept_lines(&path, until)?,
            None => Vec::new(),
        };
        // written beside and renamed: a kill leaves the old file or the cut one
        let beside = path.with_extension("jsonl.tmp");
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&beside)?;
            kept.iter()
                .try_for_each(|(line, _)| file.write_all(line.as_bytes()).and_then(|()| file.write_all(b"\n")))?;
            file.sync_all()?;
            std::fs::rename(&beside, &path)
        };
        write().map_err(io(&beside))?;
        let file = OpenOptions::new().append(true).open(&path).map_err(io(&path))?;
        let tensorboard = run.tensorboard();
        remove_events(&tensorboard)?;
        let mut sink = Sink { path, lines: BufWriter::new(file), tensorboard, events: None };
        for (_, metric) in &kept {
            sink.event(metric)?;
        }
        Ok(sink)
    }

    /// Writes `metric`.
    pub fn record(&mut self, metric: &Metric) -> Result<(), MetricsError> {
        let line = serde_json::to_string(metric).expect("a record is plain names and numbers");
        writeln!(self.lines, "{line}").map_err(io(&self.path))?;
        self.event(metric)
    }

    /// Brings everything to the disk.
    pub fn sync(&mut self) -> Result<(), MetricsError> {
        self.lines.flush().and_then(|()| self.lines.get_ref().sync_data()).map_err(io(&self.path))?;
        match &mut self.events {
            Some((_, events)) => events.flush().map_err(io(&self.tensorboard)),
            None => Ok(()),
        }
    }

    /// Writes `metric` for TensorBoard: a folder for each fold, since steps begin anew in each.
    fn event(&mut self, metric: &Metric) -> Result<(), MetricsError> {
        if self.events.as_ref().is_none_or(|(fold, _)| *fold != metric.fold) {
            let folder = self.tensorboard.join(format!("fold-{}", metric.fold));
            self.events = Some((metric.fold, EventWriter::create(&folder).map_err(io(&folder))?));
        }
        let Some((_, events)) = &mut self.events else { return Ok(()) };
        let scalars: Vec<Scalar<'_>> = metric
            .values
            .iter()
            .filter_map(|(name, value)| value.map(|value| Scalar { name, value: value as f32 }))
            .collect();
        let step = i64::try_from(metric.step).unwrap_or(i64::MAX);
        events.write(step, &scalars).map_err(io(&self.tensorboard))
    }
}

/// The whole lines of the file at `path` that belong to updates up to `until`.
fn kept_lines(path: &Path, until: (u32, u64)) -> Result<Vec<(String, Metric)>, MetricsError> {
    let text = match std::fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.map_err(io(path))?,
    };
    let mut kept = Vec::new();
    for (i, line) in text.split_inclusive('\n').enumerate() {
        // a kill may have cut the last line anywhere; it was later than any checkpoint
        let Some(line) = line.strip_suffix('\n') else { break };
        let damaged =
            |e: serde_json::Error| MetricsError::Damaged { path: path.to_owned(), line: i + 1, reason: e.to_string() };
        let metric: Metric = serde_json::from_str(line).map_err(damaged)?;
        if (metric.fold, metric.update) <= until {
            kept.push((line.to_owned(), metric));
        }
    }
    Ok(kept)
}

/// Removes our own event files below `folder`: they are made again from the records.
fn remove_events(folder: &Path) -> Result<(), MetricsError> {
    let Ok(folds) = std::fs::read_dir(folder) else { return Ok(()) };
    for fold in folds.flatten() {
        for file in std::fs::read_dir(fold.path()).into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().contains(super::tensorboard::MARK) {
                std::fs::remove_file(file.path()).map_err(io(&file.path()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(fold: u32, update: u64) -> Metric {
        Metric::new(fold, update, update * 16, [("loss", 1.0 / (update + 1) as f64), ("return", f64::NAN)])
    }

    #[test]
    fn a_resumed_file_equals_an_uninterrupted_one() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, cut) = (RunDir::new(folder.path().join("a")), RunDir::new(folder.path().join("b")));
        let write = |run: &RunDir, until, points: &[(u32, u64)]| {
            let mut sink = Sink::open(run, until).unwrap();
            points.iter().for_each(|(f, u)| sink.record(&metric(*f, *u)).unwrap());
            sink.sync().unwrap();
        };
        write(&whole, None, &[(0, 1), (0, 2), (1, 1), (1, 2)]);
        write(&cut, None, &[(0, 1), (0, 2), (1, 1)]);
        // the half line of a kill
        let mut file = OpenOptions::new().append(true).open(cut.metrics()).unwrap();
        file.write_all(br#"{"fold":1,"upda"#).unwrap();
        write(&cut, Some((0, 2)), &[(1, 1), (1, 2)]);
        assert_eq!(std::fs::read(whole.metrics()).unwrap(), std::fs::read(cut.metrics()).unwrap());
        assert!(std::fs::read_to_string(whole.metrics()).unwrap().contains("\"return\":null"));
    }

    #[test]
    fn a_damaged_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::new(folder.path());
        std::fs::write(run.metrics(), "{\"fold\":0,\"update\":1,\"step\":1,\"values\":{}}\nnot json\n").unwrap();
        let error = Sink::open(&run, Some((0, 9))).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
