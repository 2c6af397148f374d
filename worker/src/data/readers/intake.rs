//! What one file holds, sorted out by instrument and cleaned while it is read.

use super::{bar_fault, when};
use crate::data::{Bars, DataError, Place, Problems};
use foxlaunch_shared::config::{Config, Policy, Problem};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// The bars of one instrument in one file.
pub(super) struct Chunk {
    pub(super) bars: Bars,
    /// Own columns of the data, each as long as the bars.
    pub(super) own: Vec<Vec<f64>>,
    /// Length of a bar, where the file tells.
    pub(super) interval_ns: Option<i64>,
}

/// What a file is, for a report.
#[derive(Clone, Debug, Default)]
pub(super) struct What {
    pub(super) format: &'static str,
    /// Of DBN: `ohlcv-1m`, `trades`…; of tables: `ohlcv`, `quotes`, `trades`, `book-10`, `series`.
    pub(super) schema: String,
    /// What a person should know of how it was read.
    pub(super) notes: Vec<String>,
    /// The earliest and the latest moment of records of which no bars are made.
    pub(super) span: Option<(i64, i64)>,
}

/// A whole file, read.
pub(super) struct Taken {
    pub(super) what: What,
    pub(super) records: u64,
    pub(super) problems: Problems,
    /// All instruments that were seen, wanted or not.
    pub(super) seen: Vec<String>,
    pub(super) chunks: Vec<Chunk>,
    /// In a survey, the first problem for which the file is refused.
    pub(super) refusal: Option<DataError>,
}

/// Takes bars, trades and quotes in the order of the file, and does what the settings say about those that cannot be.
pub(super) struct Collector {
    path: PathBuf,
    pub(super) config: Config,
    /// Goes on behind the first problem, to count them all.
    survey: bool,
    wanted: BTreeSet<String>,
    interval_ns: Option<i64>,
    pub(super) what: What,
    pub(super) records: u64,
    problems: Problems,
    refusal: Option<DataError>,
    numbers: HashMap<String, usize>,
    instruments: Vec<Growing>,
    latest: usize,
    /// The member of an archive that is being read.
    pub(super) member: Option<String>,
}

struct Growing {
    bars: Bars,
    own: Vec<Vec<f64>>,
    wanted: bool,
    last_ns: Option<i64>,
    /// Whether time rises or falls; known from the second bar on.
    order: Option<Ordering>,
    unsorted: bool,
    /// The bar that trades or quotes are making.
    forming: Option<Forming>,
}

struct Forming {
    start_ns: i64,
    prices: [f64; 4],
    volume: f64,
}

impl Collector {
    /// Takes the instruments that `config` names, or all. A `survey` counts every problem before it refuses.
    pub(super) fn new(path: &Path, config: &Config, survey: bool) -> Collector {
        Collector {
            path: path.to_owned(),
            config: config.clone(),
            survey,
            wanted: config.data.instruments.iter().cloned().collect(),
            interval_ns: None,
            what: What::default(),
            records: 0,
            problems: Problems::default(),
            refusal: None,
            numbers: HashMap::new(),
            instruments: Vec::new(),
            latest: 0,
            member: None,
        }
    }

    /// Adds to the notes what does not stand there yet.
    pub(super) fn note(&mut self, note: &str) {
        if !self.what.notes.iter().any(|known| known == note) {
            self.what.notes.push(note.to_owned());
        }
    }

    /// Says that a record of which no bar is made is of `ns`.
    pub(super) fn pass(&mut self, ns: i64) {
        let (first, last) = self.what.span.unwrap_or((ns, ns));
        self.what.span = Some((first.min(ns), last.max(ns)));
    }

    /// Says how long each bar is.
    pub(super) fn set_interval(&mut self, ns: i64) {
        self.interval_ns = Some(ns);
    }

    /// Says that bars are made here, from trades or quotes, and how long they are.
    pub(super) fn makes_bars(&mut self) {
        self.interval_ns = Some(self.bar_ns());
    }

    fn bar_ns(&self) -> i64 {
        self.config.data.bar_seconds as i64 * 1_000_000_000
    }

    /// The file's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A refusal at `place` of this file.
    pub(super) fn refused(&self, place: Place, reason: impl Into<String>) -> DataError {
        let reason = match &self.member {
            Some(member) => format!("{member}: {}", reason.into()),
            None => reason.into(),
        };
        DataError::Refused { path: self.path.clone(), place, reason }
    }

    /// Counts `problem` at `place`, and says what is to be done about it; where that is nothing, it refuses.
    pub(super) fn judge(
        &mut self,
        problem: Problem,
        place: Place,
        reason: impl FnOnce() -> String,
    ) -> Result<Policy, DataError> {
        self.problems.add(problem, 1);
        match self.config.cleaning.policy(problem) {
            Policy::Error if self.survey => {
                if self.refusal.is_none() {
                    self.refusal = Some(self.refused(place, advice(problem, reason())));
                }
                Ok(Policy::Drop)
            }
            Policy::Error => Err(self.refused(place, advice(problem, reason()))),
            policy => Ok(policy),
        }
    }

    /// The number of the instrument called `symbol`.
    pub(super) fn instrument(&mut self, symbol: &str) -> usize {
        // most files hold one instrument, or long runs of one
        if self.instruments.get(self.latest).is_none_or(|i| i.bars.symbol != symbol) {
            self.latest = match self.numbers.get(symbol) {
                Some(&number) => number,
                None => {
                    let wanted = self.wanted.is_empty() || self.wanted.contains(symbol);
                    let bars = Bars { symbol: symbol.to_owned(), ..Bars::default() };
                    self.instruments.push(Growing {
                        bars,
                        own: Vec::new(),
                        wanted,
                        last_ns: None,
                        order: None,
                        unsorted: false,
                        forming: None,
                    });
                    self.numbers.insert(symbol.to_owned(), self.instruments.len() - 1);
                    self.instruments.len() - 1
                }
            };
        }
        self.latest
    }

    /// Takes the bar at `place`: its prices are `[open, high, low, close]`, `own` are the own columns.
    pub(super) fn bar(
        &mut self,
        number: usize,
        start_ns: i64,
        mut prices: [f64; 4],
        mut volume: f64,
        own: &[f64],
        place: Place,
    ) -> Result<(), DataError> {
        if !self.instruments[number].wanted {
            return Ok(());
        }
        while let Some((problem, reason)) = bar_fault(prices, volume) {
            let symbol = &self.instruments[number].bars.symbol;
            let reason = format!("{symbol}: {reason}");
            match self.judge(problem, place, || reason)? {
                Policy::Repair => match problem {
                    Problem::HighBelowLow => {
                        let [open, high, low, close] = prices;
                        let (a, b) = (open.max(close), open.min(close));
                        prices = [open, high.max(low).max(a), low.min(high).min(b), close];
                    }
                    Problem::BadVolume => volume = 0.0,
                    _ => return self.flat(number, start_ns, own, place),
                },
                _ => return Ok(()),
            }
        }
        self.put(number, start_ns, prices, volume, own, place)
    }

    /// Takes a flat bar at the last close in place of one without prices; none where there is no close before it.
    pub(super) fn flat(&mut self, number: usize, start_ns: i64, own: &[f64], place: Place) -> Result<(), DataError> {
        let growing = &self.instruments[number];
        // what came before in time: in a file that runs backwards that is not known yet
        let rising = growing.order != Some(Ordering::Less);
        match growing.bars.close.last().filter(|_| rising && growing.wanted) {
            Some(&close) => self.put(number, start_ns, [close; 4], 0.0, own, place),
            None => Ok(()),
        }
    }

    /// Takes a bar that can be, and looks at its place in time.
    fn put(
        &mut self,
        number: usize,
        start_ns: i64,
        prices: [f64; 4],
        volume: f64,
        own: &[f64],
        place: Place,
    ) -> Result<(), DataError> {
        let growing = &self.instruments[number];
        if let Some(last) = growing.last_ns {
            let order = start_ns.cmp(&last);
            let symbol = &growing.bars.symbol;
            if order == Ordering::Equal {
                let one_of = match place {
                    Place::Record(_) => "keep one of the two, or one publisher's bars (data.publisher)",
                    _ => "keep one of the two",
                };
                let at = when::format(start_ns);
                let reason = format!("{symbol}: a second bar starts at {at}; {one_of}");
                if self.judge(Problem::Duplicate, place, || reason)? == Policy::Repair {
                    let growing = &mut self.instruments[number];
                    growing.bars.replace_last(prices, volume);
                    for (column, value) in growing.own.iter_mut().zip(own) {
                        column.pop();
                        column.push(*value);
                    }
                }
                return Ok(());
            }
            if growing.order.is_some_and(|expected| expected != order) {
                let (at, last) = (when::format(start_ns), when::format(last));
                let reason = format!("{symbol}: the bar of {at} stands after that of {last}; sort the file by time");
                if self.judge(Problem::Disorder, place, || reason)? != Policy::Repair {
                    return Ok(());
                }
                self.instruments[number].unsorted = true;
            }
            self.instruments[number].order.get_or_insert(order);
        }
        let growing = &mut self.instruments[number];
        growing.last_ns = Some(start_ns);
        growing.bars.push(start_ns, prices, volume);
        growing.own.resize_with(own.len(), Vec::new);
        growing.own.iter_mut().zip(own).for_each(|(column, value)| column.push(*value));
        Ok(())
    }

    /// Takes a trade of `size` units, into the bar that its moment falls in.
    pub(super) fn trade(
        &mut self,
        number: usize,
        ns: i64,
        price: f64,
        size: f64,
        place: Place,
    ) -> Result<(), DataError> {
        if !self.instruments[number].wanted {
            return Ok(());
        }
        let mut size = size;
        while let Some((problem, reason)) = bar_fault([price; 4], size) {
            let reason = reason.replacen("open", "the price", 1).replacen("volume", "size", 1).replace("bar", "record");
            let reason = format!("{}: {reason}", self.instruments[number].bars.symbol);
            match self.judge(problem, place, || reason)? {
                Policy::Repair if problem == Problem::BadVolume => size = 0.0,
                _ => return Ok(()),
            }
        }
        let growing = &self.instruments[number];
        let mut ns = ns;
        if let Some(last) = growing.last_ns.filter(|last| ns < *last) {
            let (at, before) = (when::format(ns), when::format(last));
            let reason = format!(
                "{}: the record of {at} stands after that of {before}; sort the file by time",
                growing.bars.symbol
            );
            match self.judge(Problem::Disorder, place, || reason)? {
                // known only now, so it counts from now on
                Policy::Repair => ns = last,
                _ => return Ok(()),
            }
        }
        let start_ns = ns.div_euclid(self.bar_ns()).saturating_mul(self.bar_ns());
        let growing = &mut self.instruments[number];
        growing.last_ns = Some(ns);
        match &mut growing.forming {
            Some(bar) if bar.start_ns == start_ns => {
                bar.prices = [bar.prices[0], bar.prices[1].max(price), bar.prices[2].min(price), price];
                bar.volume += size;
            }
            forming => {
                let fresh = Forming { start_ns, prices: [price; 4], volume: size };
                if let Some(done) = forming.replace(fresh) {
                    growing.bars.push(done.start_ns, done.prices, done.volume);
                }
            }
        }
        Ok(())
    }

    /// Takes a quote, whose middle is a price without volume; a side that is not there is NaN.
    pub(super) fn quote(&mut self, number: usize, ns: i64, bid: f64, ask: f64, place: Place) -> Result<(), DataError> {
        if !self.instruments[number].wanted {
            return Ok(());
        }
        if !bid.is_finite() || !ask.is_finite() {
            let reason =
                format!("{}: bid {bid} and ask {ask}: a side is missing", self.instruments[number].bars.symbol);
            self.judge(Problem::OneSided, place, || reason)?;
            return Ok(());
        }
        if ask < bid {
            let symbol = &self.instruments[number].bars.symbol;
            let reason = format!("{symbol}: ask {ask} is below bid {bid}; correct or remove the record");
            if self.judge(Problem::Crossed, place, || reason)? != Policy::Repair {
                return Ok(());
            }
        }
        self.trade(number, ns, 0.5 * (bid + ask), 0.0, place)
    }

    /// All that was taken, bars in rising time.
    pub(super) fn finish(mut self) -> Result<Taken, DataError> {
        let seen = self.instruments.iter().map(|i| i.bars.symbol.clone()).collect();
        let mut chunks = Vec::new();
        for mut growing in std::mem::take(&mut self.instruments).into_iter().filter(|i| i.wanted) {
            if let Some(Forming { start_ns, prices, volume }) = growing.forming.take() {
                growing.bars.push(start_ns, prices, volume);
            }
            if growing.unsorted {
                self.sort(&mut growing)?;
            } else if growing.order == Some(Ordering::Less) {
                let order: Vec<usize> = (0..growing.bars.len()).rev().collect();
                growing.pick(&order);
            }
            if !growing.bars.is_empty() {
                chunks.push(Chunk { bars: growing.bars, own: growing.own, interval_ns: self.interval_ns });
            }
        }
        let Collector { what, records, problems, refusal, .. } = self;
        Ok(Taken { what, records, problems, seen, chunks, refusal })
    }

    /// Sorts bars that stood in disorder. What shares a start then stands together.
    fn sort(&mut self, growing: &mut Growing) -> Result<(), DataError> {
        let start = &growing.bars.start_ns;
        let mut order: Vec<usize> = (0..start.len()).collect();
        order.sort_by_key(|&i| start[i]);
        let mut kept: Vec<usize> = Vec::with_capacity(order.len());
        for i in order {
            match kept.last_mut() {
                Some(last) if start[*last] == start[i] => {
                    let at = when::format(start[i]);
                    let reason = format!("{}: several bars start at {at}; keep one of them", growing.bars.symbol);
                    if self.judge(Problem::Duplicate, Place::File, || reason)? == Policy::Repair {
                        *last = i;
                    }
                }
                _ => kept.push(i),
            }
        }
        growing.pick(&kept);
        Ok(())
    }
}

impl Growing {
    fn pick(&mut self, order: &[usize]) {
        self.bars.pick(order);
        for column in &mut self.own {
            *column = order.iter().map(|&i| column[i]).collect();
        }
    }
}

/// `reason`, and which setting would have it otherwise.
fn advice(problem: Problem, reason: String) -> String {
    format!("{reason}, or set cleaning.{}", problem.name())
}
