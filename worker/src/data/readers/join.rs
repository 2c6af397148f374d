//! The bars of each instrument in one piece, over files; holes in them counted, or filled where that is asked for.

use super::intake::{Chunk, Taken};
use super::{contracts, when};
use crate::data::{Bars, DataError, Place, Problems};
use foxlaunch_shared::config::{Config, Policy, Problem};
use foxlaunch_shared::zone::Zone;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const DAY: i64 = 86_400_000_000_000;
/// Longer holes are not filled: what stood still for so long is no market.
const LONGEST_FILLED: usize = 10;

/// One instrument: its bars, and own columns as long as they are.
pub(in crate::data) struct Joined {
    pub(in crate::data) bars: Bars,
    pub(in crate::data) own: Vec<Vec<f64>>,
}

/// What was read so far, by instrument.
pub(super) struct Gathered<'a> {
    config: &'a Config,
    seen: BTreeSet<String>,
    chunks: BTreeMap<String, Vec<(PathBuf, Chunk)>>,
    files: Vec<PathBuf>,
    pub(super) problems: Problems,
}

impl<'a> Gathered<'a> {
    pub(super) fn new(config: &'a Config) -> Gathered<'a> {
        let (seen, chunks) = (BTreeSet::new(), BTreeMap::new());
        Gathered { config, seen, chunks, files: Vec::new(), problems: Problems::default() }
    }

    /// Takes what was read from the file at `path`.
    pub(super) fn add(&mut self, path: &Path, taken: Taken) {
        self.seen.extend(taken.seen);
        self.problems.absorb(&taken.problems);
        self.files.push(path.to_owned());
        for chunk in taken.chunks {
            self.chunks.entry(chunk.bars.symbol.clone()).or_default().push((path.to_owned(), chunk));
        }
    }

    /// The bars of each instrument, in the order of their names. Those from `source` must hold what is asked for.
    pub(super) fn join(mut self, source: &str) -> Result<(Vec<Joined>, Problems), DataError> {
        let origin = || source.to_owned();
        let data = &self.config.data;
        let named = |name: &String| self.seen.contains(name) || data.continuous.contains(name);
        let missing: Vec<String> = data.instruments.iter().filter(|w| !named(w)).cloned().collect();
        if !missing.is_empty() && !self.seen.is_empty() {
            return Err(DataError::UnknownInstruments { origin: origin(), missing, there: first_names(&self.seen) });
        }
        if self.chunks.is_empty() {
            let path = match &self.files[..] {
                [one] => one.clone(),
                _ => PathBuf::from(source),
            };
            return Err(DataError::Refused { path, place: Place::File, reason: "it holds no bars".to_owned() });
        }
        let mut joined = Vec::with_capacity(self.chunks.len());
        for chunks in std::mem::take(&mut self.chunks).into_values() {
            joined.push(join_chunks(chunks)?);
        }
        let mut joined = contracts::continue_through(joined, &data.continuous);
        let (there, limit) = (joined.len(), data.max_instruments);
        if there > limit {
            return Err(DataError::TooManyInstruments { origin: origin(), there, limit });
        }
        for one in &mut joined {
            self.fill(one, source)?;
        }
        Ok((joined, self.problems))
    }

    /// Counts the holes in `one`, and fills or refuses them where the settings say so.
    fn fill(&mut self, one: &mut Joined, source: &str) -> Result<(), DataError> {
        let holes = holes(&one.bars, &self.config.data.zone());
        self.problems.add(Problem::Gap, holes.len() as u64);
        match self.config.cleaning.policy(Problem::Gap) {
            Policy::Drop => Ok(()),
            Policy::Error => match holes.first() {
                None => Ok(()),
                Some((t, many)) => {
                    let (symbol, at) = (&one.bars.symbol, when::format(one.bars.start_ns[*t]));
                    let reason = format!(
                        "{symbol}: {many} intervals before the bar of {at} have no bar, the first of {} holes; fetch \
                         them, or set cleaning.gap",
                        holes.len()
                    );
                    let path = if let [only] = &self.files[..] { only.clone() } else { PathBuf::from(source) };
                    Err(DataError::Refused { path, place: Place::File, reason })
                }
            },
            Policy::Repair => {
                let mut full =
                    Bars { symbol: one.bars.symbol.clone(), interval_ns: one.bars.interval_ns, ..Bars::default() };
                let mut order = Vec::with_capacity(one.bars.len());
                let mut holes = holes.into_iter().filter(|(_, many)| *many <= LONGEST_FILLED).peekable();
                let bars = &one.bars;
                for t in 0..bars.len() {
                    if let Some((_, many)) = holes.next_if(|(at, _)| *at == t) {
                        let (close, before) = (bars.close[t - 1], bars.start_ns[t - 1]);
                        for k in 1..=many as i64 {
                            full.push(before + k * bars.interval_ns, [close; 4], 0.0);
                            order.push(t - 1);
                        }
                    }
                    full.push(
                        bars.start_ns[t],
                        [bars.open[t], bars.high[t], bars.low[t], bars.close[t]],
                        bars.volume[t],
                    );
                    order.push(t);
                }
                for column in &mut one.own {
                    *column = order.iter().map(|&t| column[t]).collect();
                }
                one.bars = full;
                Ok(())
            }
        }
    }
}

/// Bars before which intervals have none, and how many. Of daily bars without any on a weekend, weekends are no holes;
/// of shorter ones, nights are. Days are those of `zone`.
pub(super) fn holes(bars: &Bars, zone: &Zone) -> Vec<(usize, usize)> {
    let interval = bars.interval_ns;
    if interval <= 0 {
        return Vec::new();
    }
    // day 0 was a Thursday
    let is_weekend = |day: i64| matches!((day + 3).rem_euclid(7), 5 | 6);
    let weekdays_only = interval == DAY && !bars.start_ns.iter().any(|ns| is_weekend(zone.day(*ns)));
    let missing = |a: i64, b: i64| -> usize {
        if interval != DAY {
            return usize::try_from(b.saturating_sub(a) / interval - 1).unwrap_or(0);
        }
        // a day has 23 to 25 hours, where clocks are put forward and back
        let (a, b) = (zone.day(a), zone.day(b));
        if !weekdays_only || b - a > 366 {
            return usize::try_from(b - a - 1).unwrap_or(0);
        }
        (a + 1..b).filter(|day| !is_weekend(*day)).count()
    };
    let found = bars.start_ns.windows(2).enumerate().map(|(t, pair)| (t + 1, missing(pair[0], pair[1])));
    found.filter(|(_, many)| *many > 0).collect()
}

/// The first names of `seen`, and how many more there are.
fn first_names(seen: &BTreeSet<String>) -> Vec<String> {
    let mut names: Vec<String> = seen.iter().take(20).cloned().collect();
    if seen.len() > names.len() {
        names.push(format!("and {} more", seen.len() - names.len()));
    }
    names
}

fn join_chunks(mut chunks: Vec<(PathBuf, Chunk)>) -> Result<Joined, DataError> {
    chunks.sort_by_key(|(_, chunk)| chunk.bars.start_ns.first().copied());
    let mut chunks = chunks.into_iter();
    let (mut last_path, Chunk { mut bars, mut own, mut interval_ns }) =
        chunks.next().expect("an instrument is kept because it has bars");
    for (path, chunk) in chunks {
        let refused = |reason: String| DataError::Refused { path: path.clone(), place: Place::File, reason };
        let (before, from) = (bars.start_ns[bars.len() - 1], chunk.bars.start_ns[0]);
        if from <= before {
            return Err(refused(format!(
                "its bars of {} begin at {}, but {} has bars of it up to {}; remove one of the two",
                bars.symbol,
                when::format(from),
                last_path.display(),
                when::format(before)
            )));
        }
        if let (Some(a), Some(b)) = (interval_ns, chunk.interval_ns)
            && a != b
        {
            let (a, b) = (a / 1_000_000_000, b / 1_000_000_000);
            return Err(refused(format!(
                "its bars of {} last {b} s, but those in {} last {a} s; use bars of one length",
                bars.symbol,
                last_path.display()
            )));
        }
        interval_ns = interval_ns.or(chunk.interval_ns);
        bars.append(chunk.bars);
        for (column, later) in own.iter_mut().zip(chunk.own) {
            column.extend(later);
        }
        last_path = path;
    }
    bars.interval_ns = interval_ns.unwrap_or_else(|| step_between(&bars.start_ns));
    Ok(Joined { bars, own })
}

/// The length of bars whose file does not tell: the shortest time from one to the next where nearly all times are
/// multiples of it, as in a table with holes, else the median; 0 for less than two bars.
pub(in crate::data) fn step_between(start_ns: &[i64]) -> i64 {
    let mut steps: Vec<i64> = start_ns.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    let Some(&shortest) = steps.iter().min() else { return 0 };
    let multiples = steps.iter().filter(|step| *step % shortest == 0).count();
    if multiples * 100 >= steps.len() * 95 {
        return shortest;
    }
    let middle = (steps.len() - 1) / 2;
    *steps.select_nth_unstable(middle).1
}
