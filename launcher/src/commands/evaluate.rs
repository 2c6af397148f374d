//! `foxlaunch evaluate`: what a finished run's policy is worth on other data. A worker walks it.

use super::{Done, Refusal};
use crate::plan::worker_binary::WorkerBinary;
use crate::process::print;
use crate::report::collect::FoldReport;
use crate::screen::summary::evaluated;
use clap::Args;
use foxlaunch_shared::config::{Config, ConfigError, Layer, Layers};
use foxlaunch_shared::evaluation::{FoldResult, Span};
use foxlaunch_shared::exit;
use foxlaunch_shared::run_dir::RunDir;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempDir};

/// `foxlaunch evaluate`'s arguments.
#[derive(Args, Debug)]
pub struct EvaluateArgs {
    /// The run's folder
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Bars to evaluate on: a file, a folder or a pattern; may stand more than once [default: those of the run]
    #[arg(long, value_name = "PATH")]
    pub data: Vec<PathBuf>,
    /// One setting, as environment.fee_bps=2; may stand more than once
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Which fold's policy, from 1 [default: the last]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub fold: Option<u32>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Does it.
pub fn evaluate(args: &EvaluateArgs) -> Done {
    let run = RunDir::new(&args.run);
    let config = settings(&run, &args.data, &args.set)?;
    let file = written(&config)?;
    let fold = args.fold.map(|fold| fold as usize - 1);
    let worker = WorkerBinary::find(false, false)?;
    let result = worker.evaluate(file.path(), run.path(), fold).map_err(|(code, words)| Refusal::new(code, words))?;
    let seen = seen_by(&run, &result);
    let report = FoldReport::from(result);
    if args.json {
        let mut object = serde_json::to_value(&report).unwrap_or_default();
        object["in_sample"] = seen.is_some().into();
        print::out(object);
    } else {
        print::out(evaluated(&report, seen.as_ref()).trim_end());
    }
    Ok(exit::OK)
}

/// The span from which the policy learned or by which it was chosen, if the data reach into it: then the result is no
/// test.
fn seen_by(run: &RunDir, result: &FoldResult) -> Option<Span> {
    let trained: FoldResult = serde_json::from_slice(&std::fs::read(run.fold(result.fold)).ok()?).ok()?;
    let spans = [&trained.train, &trained.validation];
    let seen = Span {
        first_ns: spans.iter().map(|span| span.first_ns).min()?,
        last_ns: spans.iter().map(|span| span.last_ns).max()?,
        bars: spans.iter().map(|span| span.bars).sum(),
    };
    (result.test.first_ns <= seen.last_ns && result.test.last_ns >= seen.first_ns).then_some(seen)
}

/// The settings of the run in `run`, with other data and `pairs` over them.
pub(super) fn settings(run: &RunDir, data: &[PathBuf], pairs: &[String]) -> Result<Config, Refusal> {
    let of_config = |error: ConfigError| Refusal::new(exit::CONFIG, error);
    let path = run.config();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Refusal::new(exit::NO_INPUT, format!("{}: {error}", path.display())))?;
    let mut layers = Layers::new();
    layers.push(Layer::from_toml(&path.display().to_string(), &text).map_err(of_config)?).map_err(of_config)?;
    if !data.is_empty() {
        let mut layer = Layer::new("the command line");
        layer.set("data.path", joined(data)?);
        // what the run was told of its own data need not be true of others
        layer.set("data.instruments", Vec::<String>::new());
        layers.push(layer).map_err(of_config)?;
    }
    layers.push(Layer::from_pairs("--set", pairs.iter().map(String::as_str)).map_err(of_config)?).map_err(of_config)?;
    Ok(layers.resolve().map_err(of_config)?.0)
}

fn joined(data: &[PathBuf]) -> Result<String, Refusal> {
    let text = |path: &PathBuf| {
        let words = || format!("{}: its name is not UTF-8, so no settings file can hold it", path.display());
        path.to_str().map(str::to_owned).ok_or_else(|| Refusal::new(exit::NO_INPUT, words()))
    };
    Ok(data.iter().map(text).collect::<Result<Vec<_>, _>>()?.join(","))
}

/// A temporary file with `config` in it, for a worker to read.
pub(super) fn written(config: &Config) -> Result<NamedTempFile, Refusal> {
    let cannot = |error: std::io::Error| Refusal::new(exit::CANT_CREATE, format!("a temporary file: {error}"));
    let mut file = NamedTempFile::new().map_err(cannot)?;
    file.write_all(config.to_toml().as_bytes()).map_err(cannot)?;
    Ok(file)
}

/// A temporary folder with a file `stdin` in it that holds all that `source` gives; bars in it that name no instrument are
/// called so.
pub(super) fn copied(mut source: impl std::io::Read) -> Result<(TempDir, PathBuf), Refusal> {
    let cannot = |error: std::io::Error| Refusal::new(exit::CANT_CREATE, format!("a temporary file: {error}"));
    let folder = TempDir::with_prefix("foxlaunch-").map_err(cannot)?;
    let path = folder.path().join("stdin");
    let mut file = std::fs::File::create(&path).map_err(cannot)?;
    std::io::copy(&mut source, &mut file)
        .map_err(|error| Refusal::new(exit::NO_INPUT, format!("the standard input: {error}")))?;
    Ok((folder, path))
}

/// Whether `path` stands for the standard input.
pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}
