//! Reads a run folder into a [`Report`]. What is missing or damaged is named and left out.

use super::chain::Comparison;
use super::control::Pooled;
use super::ledger::{self, Deflated, Trial};
use super::verdict::Verdict;
use anyhow::Context;
use foxlaunch_shared::config::Config;
use foxlaunch_shared::evaluation::{ControlResult, FoldResult, Span, Track, test_digest};
use foxlaunch_shared::metric::Metric;
use foxlaunch_shared::run_dir::RunDir;
use foxlaunch_shared::statistics::{Moments, daily_returns};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::PathBuf;

/// No file of settings or of a plan is larger; a larger one is something else.
const TEXT_LIMIT: u64 = 1 << 20;
/// No file with a fold's result is larger: three curves over ten million bars.
const FOLD_LIMIT: u64 = 1 << 30;

/// The metric that the loss plot shows.
pub const LOSS: &str = "loss";
/// How the names of metrics begin that were measured on the validation part.
pub const VALIDATION: &str = "validation";

/// Everything that the report shows of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The form of `report.json`: 1.
    pub version: u32,
    /// The run's name: its folder's.
    pub run: String,
    /// The run's folder, absolute where that can be found out.
    pub folder: PathBuf,
    /// Each fold that has a test result, in order.
    pub folds: Vec<FoldReport>,
    /// All test parts one after another; none where there is no fold.
    pub chained: Option<Comparison>,
    /// What the trials on the same bars take off the Sharpe ratio; none where there is no fold.
    pub deflated: Option<Deflated>,
    /// The digest of the bars of all test parts; none where there is no fold.
    pub test_digest: Option<String>,
    /// Problems of the data by kind, and how often each was met when they were read.
    pub problems: BTreeMap<String, u64>,
    /// The results of control tasks: the run's own, or each seed's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub control: Vec<ControlResult>,
    /// Several seeds as one figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooled: Option<Pooled>,
    /// What the folder lacks, a sentence each.
    pub missing: Vec<String>,
    /// The settings, as far as they could be read.
    #[serde(skip)]
    pub config: Option<Config>,
    /// The text of `config.toml`.
    #[serde(skip)]
    pub config_text: Option<String>,
    /// The text of `plan.json`.
    #[serde(skip)]
    pub plan_text: Option<String>,
    /// What training measured, in the order of the file.
    #[serde(skip)]
    pub metrics: Vec<Metric>,
}

/// One fold's test result.
#[derive(Clone, Debug, Serialize)]
pub struct FoldReport {
    /// Which fold, from 0, as in the files. A person is shown one more.
    pub fold: usize,
    /// The instruments traded.
    pub instruments: Vec<String>,
    /// Where it learned.
    pub train: Span,
    /// Where its best checkpoint was chosen.
    pub validation: Span,
    /// Bars in a year.
    pub periods_per_year: f64,
    /// Cost of trading one unit of equity, as a share.
    pub cost_rate: f64,
    /// What came of it.
    #[serde(flatten)]
    pub result: Comparison,
}

impl Serialize for Comparison {
    /// The numbers of the tables. Equity curves stay in the folds' own files.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Comparison", 10)?;
        fields.serialize_field("test", &self.test)?;
        fields.serialize_field("verdict", &Verdict::of(self))?;
        fields.serialize_field("policy", &Figures(&self.policy))?;
        fields.serialize_field("buy_and_hold", &Figures(&self.buy_and_hold))?;
        fields.serialize_field("random", &Band(self))?;
        fields.serialize_field("policy_figures", &self.figures)?;
        fields.serialize_field("buy_and_hold_figures", &self.hold_figures)?;
        let costs: Vec<_> =
            self.costs.iter().map(|(factor, total)| CostLevel { factor: *factor, total_return: *total }).collect();
        fields.serialize_field("costs", &costs)?;
        fields.serialize_field("break_even_cost", &self.break_even)?;
        fields.end()
    }
}

/// What the policy's decisions return at a multiple of the costs.
#[derive(Serialize)]
struct CostLevel {
    factor: f64,
    total_return: f64,
}

struct Figures<'a>(&'a Track);

impl Serialize for Figures<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Figures", 8)?;
        fields.serialize_field("total_return", &self.0.total_return)?;
        fields.serialize_field("sharpe", &self.0.sharpe)?;
        fields.serialize_field("max_drawdown", &self.0.max_drawdown)?;
        fields.serialize_field("turnover", &self.0.turnover)?;
        fields.serialize_field("time_in_market", &self.0.time_in_market)?;
        fields.serialize_field("trades", &self.0.trades)?;
        fields.serialize_field("hit_rate", &self.0.hit_rate)?;
        fields.serialize_field("exposure", &self.0.exposure)?;
        fields.end()
    }
}

struct Band<'a>(&'a Comparison);

impl Serialize for Band<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let band = &self.0.random;
        let mut fields = to.serialize_struct("Band", 5)?;
        fields.serialize_field("runs", &band.runs)?;
        fields.serialize_field("estimated", &self.0.estimated)?;
        fields.serialize_field("total_return_5_50_95", &band.total_return)?;
        fields.serialize_field("sharpe_5_50_95", &band.sharpe)?;
        fields.serialize_field("median", &Figures(&band.median))?;
        fields.end()
    }
}

impl Report {
    /// The name of the metric that was measured on the validation part, if one was.
    pub fn validation_metric(&self) -> Option<&str> {
        let names = self.metrics.iter().flat_map(|metric| metric.values.keys());
        let mut found: Vec<&String> = names.filter(|name| name.starts_with(VALIDATION)).collect();
        found.sort_by_key(|name| (!name.contains("return"), name.as_str()));
        found.first().map(|name| name.as_str())
    }

    /// The folds, counted from 0, whose records end without a single update.
    pub fn unlearned(&self) -> Vec<usize> {
        let mut last = BTreeMap::<u32, u64>::new();
        for metric in &self.metrics {
            let update = last.entry(metric.fold).or_default();
            *update = metric.update.max(*update);
        }
        let of = |fold: usize| u32::try_from(fold).ok().and_then(|fold| last.get(&fold));
        self.folds.iter().map(|fold| fold.fold).filter(|fold| of(*fold) == Some(&0)).collect()
    }

    /// The points (update, value) of metric `name`, a list for each fold, folds in order.
    pub fn series(&self, name: &str) -> Vec<(u32, Vec<(f64, f64)>)> {
        let mut series = BTreeMap::<u32, Vec<(f64, f64)>>::new();
        for metric in &self.metrics {
            if let Some(value) = metric.values.get(name).copied().flatten() {
                series.entry(metric.fold).or_default().push((metric.update as f64, value));
            }
        }
        series.into_iter().collect()
    }
}

/// Reads the run folder `run`, behind whose result at least `trials` trials stand. An error only where the folder itself
/// cannot be read.
pub fn collect(run: &RunDir, trials: usize) -> anyhow::Result<Report> {
    let named = || format!("run folder {}", run.path().display());
    std::fs::read_dir(run.path()).with_context(named)?;
    let folder = std::fs::canonicalize(run.path()).with_context(named)?;
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();

    let mut missing = Vec::new();
    let config_text = text(run.config(), TEXT_LIMIT, &mut missing);
    let config = config_text.as_deref().and_then(|text| match Config::from_toml(text, "config.toml") {
        Ok(config) => Some(config),
        Err(error) => {
            missing.push(error.to_string());
            None
        }
    });
    let plan_text = text(run.plan(), TEXT_LIMIT, &mut missing);
    let seeds = run.seeds();
    if !seeds.is_empty() {
        let (control, pooled) = of_seeds(run, &seeds, &mut missing);
        let report = Report {
            version: 1,
            run: name,
            folder,
            folds: Vec::new(),
            chained: None,
            control,
            pooled,
            deflated: None,
            test_digest: None,
            problems: plan_text.as_deref().map(problems).unwrap_or_default(),
            missing,
            config,
            config_text,
            plan_text,
            metrics: Vec::new(),
        };
        return Ok(report);
    }
    let metrics = metrics(run, &mut missing);
    let folds = folds(run, &mut missing);
    let control: Vec<ControlResult> = control(run, &mut missing).into_iter().collect();
    if let Some(config) = config.as_ref().filter(|config| config.environment.name == "market" && control.is_empty()) {
        for fold in (0..config.folds.count).filter(|fold| folds.iter().all(|found| found.fold != *fold)) {
            missing.push(format!("fold {} of {} has no test result", fold + 1, config.folds.count));
        }
    }

    let chained = Comparison::chain(&folds);
    let test_digest = chained.is_some().then(|| test_digest(&folds));
    let trial =
        chained.as_ref().zip(test_digest.clone()).map(|(chained, test)| own_trial(&name, chained, test, &config));
    let deflated = trial.map(|(trial, daily)| ledger::deflated(&ledger::read(run), &trial, &daily, trials));
    let folds = folds.into_iter().map(FoldReport::from).collect();
    let problems = plan_text.as_deref().map(problems).unwrap_or_default();
    let pooled = None;
    Ok(Report {
        version: 1,
        run: name,
        folder,
        folds,
        chained,
        deflated,
        test_digest,
        problems,
        control,
        pooled,
        missing,
        config,
        config_text,
        plan_text,
        metrics,
    })
}

/// This run as a trial, and the moments of its daily returns.
fn own_trial(name: &str, chained: &Comparison, test: String, config: &Option<Config>) -> (Trial, Moments) {
    let daily = Moments::of(&daily_returns(&chained.times_ns, &chained.policy.equity, &chained.zone));
    let config = config.as_ref().map_or_else(|| name.to_owned(), Config::digest);
    (Trial { test, config, sharpe: daily.sharpe(), run: name.to_owned() }, daily)
}

impl Report {
    /// This run as a line of the ledger; none where it is not whole.
    pub fn trial(&self) -> Option<Trial> {
        let whole = self.missing.is_empty() && self.config.as_ref().is_some_and(|c| c.folds.count == self.folds.len());
        let (chained, test) = (self.chained.as_ref()?, self.test_digest.clone()?);
        whole.then(|| own_trial(&self.run, chained, test, &self.config).0)
    }
}

/// Problems of the data, out of the text of `plan.json`.
fn problems(plan: &str) -> BTreeMap<String, u64> {
    let plan: serde_json::Value = serde_json::from_str(plan).unwrap_or_default();
    serde_json::from_value(plan["data"]["problems"].clone()).unwrap_or_default()
}

/// The results of `seeds` below `run`, and all of them as one figure. A market's seeds are there as figures alone.
fn of_seeds(run: &RunDir, seeds: &[u64], missing: &mut Vec<String>) -> (Vec<ControlResult>, Option<Pooled>) {
    let (mut control, mut figures) = (Vec::new(), Vec::new());
    let mut what = "mean return of the last weights";
    for seed in seeds {
        let report = match collect(&run.seed(*seed), 0) {
            Ok(report) => report,
            Err(error) => {
                missing.push(format!("seed {seed}: {error:#}"));
                continue;
            }
        };
        if let Some(result) = report.control.first() {
            figures.push((*seed, result.last.as_ref().unwrap_or(&result.best).mean));
        } else if let Some(chained) = &report.chained {
            what = "return over all test parts";
            figures.push((*seed, chained.policy.total_return));
        } else {
            missing.push(format!("seed {seed} has no result"));
        }
        control.extend(report.control);
    }
    (control, Pooled::of(what, figures))
}

/// The result of a control task, if there is one.
fn control(run: &RunDir, missing: &mut Vec<String>) -> Option<ControlResult> {
    let path = run.control();
    if !path.is_file() {
        return None;
    }
    let text = text(path, FOLD_LIMIT, missing)?;
    match serde_json::from_str::<ControlResult>(&text) {
        Ok(result) if !result.best.returns.is_empty() => Some(result),
        Ok(_) => {
            missing.push("control.json: it holds no episode".to_owned());
            None
        }
        Err(error) => {
            missing.push(format!("control.json: {error}"));
            None
        }
    }
}

impl From<FoldResult> for FoldReport {
    fn from(fold: FoldResult) -> FoldReport {
        let result = Comparison::of(&fold);
        let FoldResult { fold, instruments, train, validation, periods_per_year, cost_rate, .. } = fold;
        FoldReport { fold, instruments, train, validation, periods_per_year, cost_rate, result }
    }
}

/// A file's text, if it is there, readable, UTF-8 and no longer than `limit` bytes.
fn text(path: PathBuf, limit: u64, missing: &mut Vec<String>) -> Option<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        File::open(&path)?.take(limit + 1).read_to_string(&mut text)?;
        if text.len() as u64 > limit {
            return Err(std::io::Error::new(ErrorKind::FileTooLarge, format!("more than {limit} bytes")));
        }
        Ok(text)
    };
    match read() {
        Ok(text) => Some(text),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            missing.push(format!("{name} is not there"));
            None
        }
        Err(error) => {
            missing.push(format!("{name}: {error}"));
            None
        }
    }
}

fn metrics(run: &RunDir, missing: &mut Vec<String>) -> Vec<Metric> {
    let file = match File::open(run.metrics()) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            missing.push("metrics.jsonl is not there".to_owned());
            return Vec::new();
        }
        Err(error) => {
            missing.push(format!("metrics.jsonl: {error}"));
            return Vec::new();
        }
    };
    let (mut metrics, mut bad) = (Vec::new(), Vec::new());
    for (row, line) in BufReader::new(file).split(b'\n').enumerate() {
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                missing.push(format!("metrics.jsonl, line {}: {error}", row + 1));
                break;
            }
        };
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Metric>(&line) {
            Ok(metric) => metrics.push(metric),
            Err(error) => bad.push(format!("line {}: {error}", row + 1)),
        }
    }
    if let Some(first) = bad.first() {
        missing.push(format!("metrics.jsonl has {} unreadable lines; {first}", bad.len()));
    }
    metrics
}

fn folds(run: &RunDir, missing: &mut Vec<String>) -> Vec<FoldResult> {
    let mut numbers: Vec<usize> = std::fs::read_dir(run.evaluation())
        .into_iter()
        .flatten()
        .filter_map(|entry| fold_number(&entry.ok()?.file_name().to_string_lossy()))
        .filter(|number| run.fold(*number).is_file())
        .collect();
    numbers.sort_unstable();
    let mut folds = Vec::new();
    for number in numbers {
        let Some(text) = text(run.fold(number), FOLD_LIMIT, missing) else { continue };
        match serde_json::from_str::<FoldResult>(&text).map_err(|e| e.to_string()).and_then(|f| check(f, number)) {
            Ok(fold) => folds.push(fold),
            Err(reason) => missing.push(format!("fold-{number}.json: {reason}")),
        }
    }
    folds
}

/// The number in `fold-N.json`.
fn fold_number(name: &str) -> Option<usize> {
    name.strip_prefix("fold-")?.strip_suffix(".json")?.parse().ok()
}

/// Refuses a result whose parts do not fit together, since its numbers could not be trusted.
fn check(fold: FoldResult, number: usize) -> Result<FoldResult, String> {
    if fold.fold != number {
        return Err(format!("it holds fold {}", fold.fold));
    }
    let tracks =
        [("policy", &fold.policy), ("buy_and_hold", &fold.buy_and_hold), ("random.median", &fold.random.median)];
    for (name, track) in tracks {
        if track.equity.len() != fold.times_ns.len() + 1 {
            return Err(format!("{name} has {} values for {} bars", track.equity.len(), fold.times_ns.len()));
        }
    }
    if !fold.times_ns.is_sorted() {
        return Err("its bars are not in the order of time".to_owned());
    }
    if fold.periods_per_year.is_sign_negative() {
        return Err(format!("a year of {} bars", fold.periods_per_year));
    }
    Ok(fold)
}
