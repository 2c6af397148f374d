//! Walks a policy through a part of a fold.
//!
//! The first decision falls at the part's first bar, the last one before its last bar, where what is held is closed
//! at a cost: no return reaches out of the part. Each instrument holds an equal share of equity, brought back to it
//! after every bar; that trade between instruments is not charged. An instrument without a bar at some moment stands
//! still there. One that is ruined stays flat.
//!
//! The random policies that a policy is compared with lean as it does: they hold each position in the same share of
//! bars, and trade as much ([`Chance`]). So on bars that drift, being long is no skill.

use super::chance::Chance;
use super::returns::{max_drawdown, sharpe, total_return};
use crate::data::Fold;
use crate::environments::Environment;
use crate::environments::market::{Market, MarketState, RUIN};
use crate::seed::Streams;
use anyhow::{Context, ensure};
use foxlaunch_shared::evaluation::{CostLevel, FoldResult, RandomBand, Track};
use rand::RngExt;

/// Rows of every batch that a policy is asked about: always as many, so that no shape and no rounding varies.
pub const BATCH_ROWS: usize = 512;

/// Random policies in the band that a policy is compared with.
pub const RANDOM_RUNS: usize = 100;

/// Chooses actions: from row-major observations and their number to one action for each row.
pub type Policy<'a, A = usize> = dyn FnMut(&[f32], usize) -> anyhow::Result<Vec<A>> + 'a;

/// What a policy does at each bar of a part in each position: all it can ever be asked, since an observation depends
/// on nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionTable {
    positions: usize,
    /// For each instrument `[bars - 1][positions]`.
    actions: Vec<Vec<u8>>,
}

impl ActionTable {
    /// Asks `policy` in batches of [`BATCH_ROWS`]; the last one is filled up with zeros, and what the policy says to
    /// those is dropped.
    pub fn compute(market: &Market, policy: &mut Policy<'_>) -> anyhow::Result<ActionTable> {
        let (width, positions) = (market.observation_len(), market.actions());
        let mut table = ActionTable { positions, actions: Vec::with_capacity(market.part().ranges.len()) };
        let mut batch = vec![0.0f32; BATCH_ROWS * width];
        let mut answers: Vec<u8> = Vec::new();
        let mut rows = 0;
        let mut ask = |batch: &mut Vec<f32>, rows: &mut usize| -> anyhow::Result<()> {
            batch[*rows * width..].fill(0.0);
            let actions = policy(batch, BATCH_ROWS)?;
            ensure!(actions.len() == BATCH_ROWS, "a policy gave {} actions for {BATCH_ROWS} rows", actions.len());
            for action in &actions[..*rows] {
                ensure!(*action < positions, "a policy chose action {action} of {positions}");
                answers.push(*action as u8);
            }
            *rows = 0;
            Ok(())
        };
        for (instrument, range) in market.part().ranges.iter().enumerate() {
            for bar in range.start..range.end.saturating_sub(1).max(range.start) {
                for position in 0..positions {
                    let state = MarketState {
                        instrument: instrument as u16,
                        bar: bar as u32,
                        position: position as u8,
                        left: 1,
                    };
                    market.observe(&state, &mut batch[rows * width..(rows + 1) * width]);
                    rows += 1;
                    if rows == BATCH_ROWS {
                        ask(&mut batch, &mut rows)?;
                    }
                }
            }
        }
        if rows > 0 {
            ask(&mut batch, &mut rows)?;
        }
        let mut answers = answers.as_slice();
        for range in &market.part().ranges {
            let (own, rest) = answers.split_at(range.len().saturating_sub(1) * positions);
            table.actions.push(own.to_vec());
            answers = rest;
        }
        Ok(table)
    }

    /// The action at the `offset`-th bar of `instrument` in the part, when `position` is held.
    pub fn action(&self, instrument: usize, offset: usize, position: u8) -> u8 {
        self.actions[instrument][offset * self.positions + usize::from(position)]
    }
}

/// One instrument's way through a part, bar by bar.
struct Walk {
    /// What equity was multiplied by at each bar: never 0, and exact also where next to nothing was left.
    growth: Vec<f64>,
    traded: f64,
    held: usize,
    /// Bars with a position that gained.
    gained: usize,
    /// Sum of the sizes of the positions.
    size: f64,
    trades: usize,
}

/// Walks `instrument`, whose position after its `offset`-th bar `choose` gives as a share of equity.
fn walk(market: &Market, instrument: usize, mut choose: impl FnMut(usize) -> f64) -> Walk {
    let range = market.part().ranges[instrument].clone();
    let mut walk =
        Walk { growth: Vec::with_capacity(range.len()), traded: 0.0, held: 0, gained: 0, size: 0.0, trades: 0 };
    let (mut position, mut ruined) = (0.0f64, false);
    if !range.is_empty() {
        walk.growth.push(1.0);
    }
    for bar in range.start..range.end.saturating_sub(1).max(range.start) {
        if ruined {
            walk.growth.push(1.0);
            continue;
        }
        let new = choose(bar - range.start);
        let growth = market.growth(instrument, bar, position, new);
        walk.growth.push(if growth > 0.0 { growth } else { RUIN });
        walk.traded += (new - position).abs();
        walk.trades += usize::from(new != position);
        walk.held += usize::from(new != 0.0);
        walk.gained += usize::from(new != 0.0 && growth > 1.0);
        walk.size += new.abs();
        position = new;
        if growth <= 0.0 {
            (position, ruined) = (0.0, true);
        }
    }
    if let (true, Some(last)) = (position != 0.0, walk.growth.last_mut()) {
        let left = 1.0 - market.cost_rate() * position.abs();
        *last = if left > 0.0 { *last * left } else { RUIN };
        walk.traded += position.abs();
        walk.trades += 1;
    }
    walk
}

/// When the bars of a part start, over all instruments, and which of those moments each instrument's bars are.
struct Calendar {
    times: Vec<i64>,
    slots: Vec<Vec<usize>>,
    traded: Vec<usize>,
}

impl Calendar {
    fn new(market: &Market) -> Calendar {
        let parts = || market.dataset().instruments().iter().zip(&market.part().ranges);
        let traded: Vec<usize> = parts().enumerate().filter(|(_, (_, r))| r.len() >= 2).map(|(i, _)| i).collect();
        let own = |i: usize| {
            let range = market.part().ranges[i].clone();
            &market.dataset().instruments()[i].bars.start_ns[range]
        };
        let mut times: Vec<i64> = traded.iter().flat_map(|&i| own(i).iter().copied()).collect();
        times.sort_unstable();
        times.dedup();
        let slot = |t: &i64| times.partition_point(|x| x < t);
        let slots = traded.iter().map(|&i| own(i).iter().map(slot).collect()).collect();
        Calendar { times, slots, traded }
    }

    /// Bars of all instruments that can be traded.
    fn bars(&self) -> usize {
        self.slots.iter().map(Vec::len).sum()
    }

    /// The walks of the traded instruments as one, each with an equal share.
    fn track(&self, walks: &[Walk], periods_per_year: f64) -> Track {
        let share = 1.0 / walks.len() as f64;
        // growths are added, not growths less 1: what is left after a fall to nearly nothing keeps its digits
        let (mut growth, mut moved) = (vec![0.0; self.times.len()], vec![0usize; self.times.len()]);
        for (walk, slots) in walks.iter().zip(&self.slots) {
            for (own, slot) in walk.growth.iter().zip(slots) {
                growth[*slot] += share * own;
                moved[*slot] += 1;
            }
        }
        let mut equity = vec![1.0];
        let mut returns = Vec::with_capacity(growth.len());
        for (growth, moved) in growth.into_iter().zip(moved) {
            let growth = growth + share * (walks.len() - moved) as f64;
            equity.push(equity[equity.len() - 1] * growth);
            returns.push(growth - 1.0);
        }
        let traded: f64 = walks.iter().map(|w| w.traded).sum();
        let held = walks.iter().map(|w| w.held).sum::<usize>() as f64;
        let gained = walks.iter().map(|w| w.gained).sum::<usize>() as f64;
        Track {
            total_return: total_return(&equity),
            sharpe: sharpe(&returns, periods_per_year),
            max_drawdown: max_drawdown(&equity),
            turnover: traded * share / self.times.len() as f64,
            time_in_market: held / self.bars() as f64,
            hit_rate: if held > 0.0 { gained / held } else { 0.0 },
            exposure: walks.iter().map(|w| w.size).sum::<f64>() / self.bars() as f64,
            trades: walks.iter().map(|w| w.trades).sum(),
            equity,
        }
    }
}

/// The walk through each traded instrument, and the position after each of its decisions, as an index.
fn walk_table(market: &Market, table: &ActionTable, calendar: &Calendar) -> Vec<(Walk, Vec<usize>)> {
    let one = |&instrument: &usize| {
        let (mut position, mut path) = (market.flat(), Vec::new());
        let walk = walk(market, instrument, |offset| {
            position = table.action(instrument, offset, position);
            path.push(usize::from(position));
            market.positions()[usize::from(position)]
        });
        (walk, path)
    };
    calendar.traded.iter().map(one).collect()
}

/// The log of what `policy` makes of an equity of 1 in `market`'s part, net of costs: what the best checkpoint is
/// chosen by.
pub fn validation_score(market: &Market, policy: &mut Policy<'_>) -> anyhow::Result<f64> {
    let table = ActionTable::compute(market, policy)?;
    let calendar = Calendar::new(market);
    let walks: Vec<Walk> = walk_table(market, &table, &calendar).into_iter().map(|(walk, _)| walk).collect();
    let track = calendar.track(&walks, 1.0);
    // of the equity itself: near ruin the total return has lost its digits
    Ok(track.equity.last().copied().unwrap_or(1.0).max(f64::MIN_POSITIVE).ln())
}

/// What `policy` is worth in `market`, which is that of `fold`'s test part, beside holding and random positions
/// drawn from `streams`.
pub fn fold_result(
    market: &Market,
    fold: &Fold,
    streams: &Streams,
    policy: &mut Policy<'_>,
) -> anyhow::Result<FoldResult> {
    ensure!(*market.part() == fold.test, "fold {}: the market is not that of the test part", fold.index + 1);
    let dataset = market.dataset();
    let periods_per_year = dataset.periods_per_year();
    let table = ActionTable::compute(market, policy).with_context(|| format!("fold {}", fold.index + 1))?;
    let calendar = Calendar::new(market);
    let (walks, paths): (Vec<Walk>, Vec<Vec<usize>>) = walk_table(market, &table, &calendar).into_iter().unzip();
    let chance = Chance::like(market.positions(), &paths);
    let holding: Vec<Walk> = calendar.traded.iter().map(|&i| walk(market, i, |_| 1.0)).collect();
    Ok(FoldResult {
        fold: fold.index,
        instruments: calendar.traded.iter().map(|&i| dataset.instruments()[i].bars.symbol.clone()).collect(),
        train: fold.train.span(dataset),
        validation: fold.validation.span(dataset),
        test: fold.test.span(dataset),
        periods_per_year,
        cost_rate: market.cost_rate(),
        zone: dataset.zone().to_owned(),
        policy: calendar.track(&walks, periods_per_year),
        buy_and_hold: calendar.track(&holding, periods_per_year),
        random: random_band(market, &calendar, &chance, periods_per_year, streams),
        costs: at_costs(market, &calendar, &paths, periods_per_year),
        break_even: break_even(market, &calendar, &paths),
        times_ns: calendar.times,
    })
}

/// The walks along `paths`, positions as indices after each decision, in `market`.
fn walk_paths(market: &Market, calendar: &Calendar, paths: &[Vec<usize>]) -> Vec<Walk> {
    let one = |(&instrument, path): (&usize, &Vec<usize>)| {
        let mut steps = path.iter();
        // a path ends where its walk was ruined
        walk(market, instrument, |_| steps.next().map_or(0.0, |at| market.positions()[*at]))
    };
    calendar.traded.iter().zip(paths).map(one).collect()
}

/// The decisions `paths` without costs, with those of `market`, and with twice as much.
fn at_costs(market: &Market, calendar: &Calendar, paths: &[Vec<usize>], periods_per_year: f64) -> Vec<CostLevel> {
    let level = |factor: f64| {
        let track = calendar.track(&walk_paths(&market.with_costs(factor), calendar, paths), periods_per_year);
        CostLevel { factor, total_return: track.total_return, sharpe: track.sharpe }
    };
    [0.0, 1.0, 2.0].map(level).to_vec()
}

/// The cost rate at which the decisions `paths` earn nothing, to a millionth of itself; none where they lose in any case,
/// never trade, or earn even at 100 %.
fn break_even(market: &Market, calendar: &Calendar, paths: &[Vec<usize>]) -> Option<f64> {
    let gains = |rate: f64| {
        let track = calendar.track(&walk_paths(&market.with_cost_rate(rate), calendar, paths), 1.0);
        track.total_return > 0.0
    };
    if !gains(0.0) || gains(1.0) {
        return None;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 1e-6 * high && high > 1e-9 {
        let middle = 0.5 * (low + high);
        if gains(middle) { low = middle } else { high = middle }
    }
    Some(0.5 * (low + high))
}

/// [`RANDOM_RUNS`] policies that take positions as `chance` says.
fn random_band(
    market: &Market,
    calendar: &Calendar,
    chance: &Chance,
    periods_per_year: f64,
    streams: &Streams,
) -> RandomBand {
    let run = |run: usize| {
        let one = |&instrument: &usize| {
            let mut draw = streams.draw("random positions", run as u64, instrument as u64);
            let mut position = None;
            walk(market, instrument, |_| {
                let at = draw.random();
                let next = position.map_or_else(|| chance.first(at), |before| chance.next(before, at));
                position = Some(next);
                market.positions()[next]
            })
        };
        let walks: Vec<Walk> = calendar.traded.iter().map(one).collect();
        calendar.track(&walks, periods_per_year)
    };
    let mut tracks: Vec<Track> = (0..RANDOM_RUNS).map(run).collect();
    let quantiles = |values: Vec<f64>| [0.05, 0.5, 0.95].map(|q| quantile(&values, q));
    tracks.sort_by(|a, b| a.sharpe.total_cmp(&b.sharpe));
    let sharpe = quantiles(tracks.iter().map(|t| t.sharpe).collect());
    tracks.sort_by(|a, b| a.total_return.total_cmp(&b.total_return));
    let total_return = quantiles(tracks.iter().map(|t| t.total_return).collect());
    RandomBand { runs: RANDOM_RUNS, total_return, sharpe, median: tracks.swap_remove(RANDOM_RUNS / 2) }
}

/// The `q`-quantile of sorted values, linear between neighbours.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

#[cfg(test)]
mod tests;
