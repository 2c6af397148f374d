//! From the rows of a table, be it text or Parquet, to bars, quotes, trades.

use super::super::intake::Collector;
use super::super::when;
use super::columns::{Group, Layout, Shape, Time};
use crate::data::{DataError, Place};
use foxlaunch_shared::config::{Policy, Problem};
use foxlaunch_shared::zone::{Repeated, Zone};
use std::borrow::Cow;
use std::path::Path;

/// What a cell holds in place of a price that is not there, in DBN's units.
const UNDEFINED: f64 = 9.2e9;

/// One row.
pub(in super::super) trait Row {
    /// How many cells it has.
    fn len(&self) -> usize;
    /// A cell as text.
    fn text(&self, i: usize) -> Cow<'_, str>;
    /// A cell as a finite number, if it is one.
    fn number(&self, i: usize) -> Option<f64>;
    /// The same for a volume.
    fn volume(&self, i: usize) -> Option<f64>;
    /// A cell as a moment; one without a zone is of `zone`.
    fn moment(&self, i: usize, zone: &Zone) -> Result<i64, String>;
}

/// Tells by the rows before which of two moments a time of day means that clocks show twice.
struct Twice {
    /// The zone in which it means the second one.
    second: Zone,
    last: Option<i64>,
    /// Whether the rows run backwards in time.
    falls: bool,
}

impl Twice {
    fn new(second: Zone) -> Twice {
        Twice { second, last: None, falls: false }
    }

    /// Of rising rows the first moment, unless it lies before the last row; of falling ones the other way round.
    fn choose(&mut self, first: i64, second: i64) -> i64 {
        let chosen = match self.last {
            Some(last) if self.falls => {
                if second > last {
                    first
                } else {
                    second
                }
            }
            Some(last) => {
                if first < last {
                    second
                } else {
                    first
                }
            }
            None => first,
        };
        if let Some(last) = self.last.filter(|last| first == second && *last != chosen) {
            self.falls = chosen < last;
        }
        self.last = Some(chosen);
        chosen
    }
}

/// Takes the rows of one table.
pub(in super::super) struct Taker {
    layout: Layout,
    zone: Zone,
    /// Which of two is meant where clocks show a time twice, if the rows' order says it.
    twice: Option<Twice>,
    /// The instrument where no column names it, as a number of the collector's.
    alone: usize,
    /// The instruments of a table with several side by side.
    groups: Vec<usize>,
    /// Where columns of own features are cut, the row is left out.
    own: Vec<f64>,
}

impl Taker {
    /// For a table of `layout` in the file `name`.
    pub(in super::super) fn new(layout: Layout, name: &Path, collector: &mut Collector) -> Taker {
        collector.what.schema = layout.shape.name();
        if matches!(layout.shape, Shape::Quotes(..) | Shape::Trades(..) | Shape::Book(_)) {
            collector.makes_bars();
        }
        if layout.shape == Shape::Series {
            collector.note("no bars: its columns are no prices");
        }
        let stem = symbol_in_name(name);
        let mut groups = Vec::new();
        let mut alone = usize::MAX;
        match &layout.shape {
            Shape::Series => {}
            Shape::Bars(all) if all.iter().all(|group| group.symbol.is_some()) => {
                groups = all.iter().filter_map(|g| g.symbol.as_ref()).map(|s| collector.instrument(s)).collect();
            }
            _ if layout.symbol.is_none() => alone = collector.instrument(&stem),
            _ => {}
        }
        let zone = collector.config.data.zone();
        let by_order = collector.config.data.repeated_hour == "order";
        let twice = by_order.then(|| Twice::new(zone.clone().with_repeated(Repeated::Second)));
        Taker { own: vec![0.0; layout.own.len()], layout, zone, twice, alone, groups }
    }

    /// Takes the row at `place`.
    pub(in super::super) fn take(
        &mut self,
        row: &impl Row,
        place: Place,
        collector: &mut Collector,
    ) -> Result<(), DataError> {
        collector.records += 1;
        if row.len() != self.layout.fields {
            let reason = || format!("{} fields, but the header has {}", row.len(), self.layout.fields);
            collector.judge(Problem::Unreadable, place, reason)?;
            return Ok(());
        }
        let read = self.moment(row, &self.zone).and_then(|first| match &self.twice {
            Some(twice) => Ok((first, self.moment(row, &twice.second)?)),
            None => Ok((first, first)),
        });
        let read = read.map(|(first, second)| match &mut self.twice {
            Some(twice) => twice.choose(first, second),
            None => first,
        });
        let start_ns = match read {
            Ok(ns) => ns,
            Err(reason) => {
                collector.judge(Problem::Unreadable, place, || reason)?;
                return Ok(());
            }
        };
        let number = match self.layout.symbol {
            Some(symbol) if !matches!(self.layout.shape, Shape::Series) => match row.text(symbol) {
                name if name.is_empty() => {
                    collector.judge(Problem::Unreadable, place, || "the instrument's name is empty".to_owned())?;
                    return Ok(());
                }
                name => collector.instrument(&name),
            },
            _ => self.alone,
        };
        match &self.layout.shape {
            Shape::Series => {
                collector.pass(start_ns);
                Ok(())
            }
            Shape::Bars(_) => self.bars(row, start_ns, number, place, collector),
            Shape::QuoteBars(bid, ask) => {
                let side = |at: &[usize; 4]| at.map(|i| row.number(i).unwrap_or(f64::NAN));
                let (bid, ask) = (side(bid), side(ask));
                if (0..4).any(|k| ask[k] < bid[k]) && !self.may_cross(collector, bid, ask, place)? {
                    return Ok(());
                }
                let middle = std::array::from_fn(|k| 0.5 * (bid[k] + ask[k]));
                collector.bar(number, start_ns, middle, 0.0, &[], place)
            }
            Shape::Quotes(bid, ask) => {
                let side = |i: usize| row.number(i).filter(|x| *x > 0.0).unwrap_or(f64::NAN);
                collector.quote(number, start_ns, side(*bid), side(*ask), place)
            }
            Shape::Trades(price, size) => {
                let price = row.number(*price).unwrap_or(f64::NAN);
                let size = size.map_or(0.0, |i| row.volume(i).unwrap_or(f64::NAN));
                collector.trade(number, start_ns, price, size, place)
            }
            Shape::Book(levels) => {
                let (bid, ask) = best(row, levels, place, collector)?;
                collector.quote(number, start_ns, bid, ask, place)
            }
        }
    }

    fn moment(&self, row: &impl Row, zone: &Zone) -> Result<i64, String> {
        match self.layout.time {
            Time::Column(i) => row.moment(i, zone),
            Time::DateAndClock(date, clock) => when::parse_in(&format!("{} {}", row.text(date), row.text(clock)), zone),
            Time::OfDay(i, day_ns) => {
                let text = row.text(i);
                let ms = text.parse::<u32>().ok().filter(|ms| *ms < 86_400_000);
                let ms = ms.ok_or_else(|| format!("{text:?} are no milliseconds of a day"))?;
                zone.utc_ns(day_ns + i64::from(ms) * 1_000_000)
            }
        }
    }

    fn bars(
        &mut self,
        row: &impl Row,
        start_ns: i64,
        number: usize,
        place: Place,
        collector: &mut Collector,
    ) -> Result<(), DataError> {
        let Shape::Bars(groups) = &self.layout.shape else { return Ok(()) };
        for (k, group) in groups.iter().enumerate() {
            let number = self.groups.get(k).copied().unwrap_or(number);
            let Group { prices, volume, .. } = group;
            // of instruments side by side some are not there yet
            if group.symbol.is_some() && prices.iter().all(|i| row.text(*i).is_empty()) {
                continue;
            }
            let mut values = [0.0; 4];
            let mut bad = None;
            for ((value, i), name) in values.iter_mut().zip(prices).zip(["open", "high", "low", "close"]) {
                *value = row.number(*i).unwrap_or(f64::NAN);
                if value.is_nan() && bad.is_none() {
                    bad = Some((name, *i));
                }
            }
            // the cell's own words say more than NaN does
            if let Some((name, i)) = bad {
                let reason = || {
                    let text = row.text(i);
                    format!("{name} is {text:?}, not a finite number (written as 1234.5); correct or remove the row")
                };
                if collector.judge(Problem::UndefinedPrice, place, reason)? != Policy::Repair {
                    continue;
                }
                collector.flat(number, start_ns, &self.own, place)?;
                continue;
            }
            let volume = match volume {
                None => 0.0,
                Some(i) => match row.volume(*i) {
                    Some(volume) => volume,
                    None => {
                        let text = row.text(*i).into_owned();
                        let reason = || format!("volume is {text:?}, not a number; correct or remove the row");
                        match collector.judge(Problem::BadVolume, place, reason)? {
                            Policy::Repair => 0.0,
                            _ => continue,
                        }
                    }
                },
            };
            let mut lacking = None;
            for (value, i) in self.own.iter_mut().zip(&self.layout.own) {
                match row.number(*i) {
                    Some(number) => *value = number,
                    None => lacking = lacking.or(Some(*i)),
                }
            }
            if let Some(i) = lacking {
                let text = row.text(i).into_owned();
                let reason = || format!("an own feature is {text:?}, not a finite number; correct or remove the row");
                // repaired, it keeps the value of the row before
                if collector.judge(Problem::UndefinedPrice, place, reason)? != Policy::Repair {
                    continue;
                }
            }
            collector.bar(number, start_ns, values, volume, &self.own, place)?;
        }
        Ok(())
    }

    /// Counts a bar whose asks are below its bids, and says whether it is taken all the same.
    fn may_cross(
        &self,
        collector: &mut Collector,
        bid: [f64; 4],
        ask: [f64; 4],
        place: Place,
    ) -> Result<bool, DataError> {
        let reason = || format!("asks {ask:?} are below bids {bid:?}; correct or remove the row");
        Ok(collector.judge(Problem::Crossed, place, reason)? == Policy::Repair)
    }
}

/// The best bid and ask of a book, with faults of its other levels counted.
fn best(
    row: &impl Row,
    levels: &[[usize; 4]],
    place: Place,
    collector: &mut Collector,
) -> Result<(f64, f64), DataError> {
    let price = |i: usize| row.number(i).filter(|x| *x > 0.0 && *x < UNDEFINED).unwrap_or(f64::NAN);
    let (mut best, mut fault): ((f64, f64), Option<String>) = ((f64::NAN, f64::NAN), None);
    let mut last = (f64::NAN, f64::NAN);
    for (k, [ask, ask_size, bid, bid_size]) in levels.iter().enumerate() {
        let (mut a, mut b) = (price(*ask), price(*bid));
        for (side, level, size) in [("ask", &mut a, *ask_size), ("bid", &mut b, *bid_size)] {
            let size = row.number(size).unwrap_or(f64::NAN);
            if level.is_nan() {
                fault = fault.or_else(|| Some(format!("{side} level {} has no price", k + 1)));
            } else if size.is_nan() || size <= 0.0 {
                fault = fault.or_else(|| Some(format!("{side} level {} has the size {size}", k + 1)));
                *level = f64::NAN;
            }
        }
        if a <= last.0 || b >= last.1 {
            fault = fault.or_else(|| Some(format!("level {} is not further away than the one before it", k + 1)));
        }
        last = (if a.is_nan() { last.0 } else { a }, if b.is_nan() { last.1 } else { b });
        if k == 0 {
            best = (b, a);
        }
    }
    if let Some(fault) = fault {
        collector.judge(Problem::BadLevel, place, || format!("{fault}; correct or remove the row"))?;
    }
    Ok(best)
}

/// The instrument in a file's name, which is the name without its ending; of names as `20131007_es_minute_trade_201312`
/// it is `es_201312`, so that the days of a contract follow each other.
fn symbol_in_name(path: &Path) -> String {
    let stem = stem(path);
    if day_in_name(path).is_none() {
        return stem;
    }
    let parts: Vec<&str> = stem.split('_').collect();
    match parts[..] {
        [_, symbol, _, _] => symbol.to_owned(),
        [_, symbol, _, _, contract] => format!("{symbol}_{contract}"),
        _ => stem,
    }
}

/// The first moment of the day with which a file's name begins, as in `20131007_spy_minute_trade.csv`.
pub(super) fn day_in_name(path: &Path) -> Option<i64> {
    let stem = stem(path);
    let (day, _) = stem.split_once('_')?;
    (day.len() == 8 && day.bytes().all(|b| b.is_ascii_digit())).then(|| when::parse_in(day, &Zone::default()).ok())?
}

/// The file's name without its ending.
pub(in super::super) fn stem(path: &Path) -> String {
    let name = path.file_name().map_or(Cow::Borrowed("bars"), |n| n.to_string_lossy());
    let endings = super::super::ENDINGS.iter();
    let ending = endings.filter(|e| name.to_lowercase().ends_with(*e)).map(|e| e.len()).max();
    name.get(..name.len() - ending.unwrap_or(0)).unwrap_or(&name).to_owned()
}
