//! Contracts that follow each other as one instrument: which one is held when, and prices without the jumps between.
//!
//! At the start of a day (UTC) a later contract takes over if it traded more than the held one on the last day on
//! which either traded: only what is known by then decides. Prices of the new contract are multiplied by what makes its
//! last close before the change that of the old one. So what came before a change is never altered by it, as it would
//! be where the past is adjusted to the present.

use super::join::Joined;
use crate::data::Bars;
use std::collections::BTreeMap;

const DAY: i64 = 86_400_000_000_000;
/// Letters of delivery months, from January on.
const MONTHS: &str = "FGHJKMNQUVXZ";

/// `all` with the contracts of each of `roots` put together as one instrument that is called as the root.
pub(super) fn continue_through(mut all: Vec<Joined>, roots: &[String]) -> Vec<Joined> {
    for root in roots {
        let first = |one: &Joined| one.bars.start_ns.first().copied().unwrap_or(0);
        let is_contract = |one: &Joined| delivery(&one.bars.symbol, root, first(one)).is_some();
        let (mut contracts, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_contract);
        all = others;
        contracts.sort_by_key(|one| delivery(&one.bars.symbol, root, first(one)));
        let contracts: Vec<Bars> = contracts.into_iter().map(|one| one.bars).collect();
        if let Some(bars) = one_after_another(root, &contracts) {
            all.push(Joined { bars, own: Vec::new() });
        }
    }
    all.sort_by(|a, b| a.bars.symbol.cmp(&b.bars.symbol));
    all
}

/// Months since the year 0 of the delivery of the contract `symbol` of `root`, as ESH4, ESH24, ES_202403 or ES 202403; a
/// year of one digit is the next such year from the contract's first bar on.
fn delivery(symbol: &str, root: &str, first_ns: i64) -> Option<i64> {
    let rest = symbol.strip_prefix(root)?;
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty();
    if let Some(date) = rest.strip_prefix(['_', ' ', '-']).filter(|date| date.len() == 6 && digits(date)) {
        let (year, month) = (date[..4].parse::<i64>().ok()?, date[4..].parse::<i64>().ok()?);
        return (1..=12).contains(&month).then_some(year * 12 + month - 1);
    }
    let letter = rest.chars().next()?;
    let month = MONTHS.find(letter)? as i64;
    let year = &rest[letter.len_utf8()..];
    if !digits(year) || year.len() > 2 {
        return None;
    }
    // good enough for a year: the first bar of a contract stands less than ten years before its delivery
    let began = 1970 + first_ns.div_euclid(DAY) * 400 / 146_097;
    let (modulus, year) = (if year.len() == 1 { 10 } else { 100 }, year.parse::<i64>().ok()?);
    let mut year = began - began.rem_euclid(modulus) + year;
    if year < began {
        year += modulus;
    }
    Some(year * 12 + month)
}

/// The bars of `contracts`, in the order of delivery, as one instrument called `root`; none where there are none.
fn one_after_another(root: &str, contracts: &[Bars]) -> Option<Bars> {
    let mut volumes: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (k, bars) in contracts.iter().enumerate() {
        for (ns, volume) in bars.start_ns.iter().zip(&bars.volume) {
            volumes.entry(ns.div_euclid(DAY)).or_insert_with(|| vec![0.0; contracts.len()])[k] += volume;
        }
    }
    let first = contracts.iter().filter_map(|bars| bars.start_ns.first()).min()?;
    let mut held = contracts.iter().position(|bars| bars.start_ns.first() == Some(first))?;
    let interval_ns = contracts.iter().map(|bars| bars.interval_ns).filter(|ns| *ns > 0).min().unwrap_or(0);
    let mut joined = Bars { symbol: root.to_owned(), interval_ns, ..Bars::default() };
    let mut factor = 1.0;
    let mut yesterday: Option<&Vec<f64>> = None;
    for (day, today) in &volumes {
        let from = day * DAY;
        if let Some(traded) = yesterday {
            let most = (held + 1..contracts.len()).max_by(|a, b| traded[*a].total_cmp(&traded[*b]));
            if let Some(next) = most.filter(|next| traded[*next] > traded[held]) {
                factor *= ratio(&contracts[held], &contracts[next], from);
                held = next;
            }
        }
        let bars = &contracts[held];
        let at = |ns: i64| bars.start_ns.partition_point(|start| *start < ns);
        for t in at(from)..at(from.saturating_add(DAY)) {
            let prices = [bars.open[t], bars.high[t], bars.low[t], bars.close[t]].map(|price| price * factor);
            joined.push(bars.start_ns[t], prices, bars.volume[t]);
        }
        yesterday = Some(today);
    }
    Some(joined)
}

/// The last close of `old` before `ns` over that of `new`; 1 where one has none.
fn ratio(old: &Bars, new: &Bars, ns: i64) -> f64 {
    let last = |bars: &Bars| {
        let before = bars.start_ns.partition_point(|start| *start < ns);
        before.checked_sub(1).map(|t| bars.close[t])
    };
    match (last(old), last(new)) {
        (Some(old), Some(new)) => old / new,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bars of two a day from day `from` on; `days` gives close and volume of each day.
    fn contract(symbol: &str, from: i64, days: &[(f64, f64)]) -> Joined {
        let mut bars = Bars { symbol: symbol.to_owned(), interval_ns: DAY / 2, ..Bars::default() };
        for (d, &(close, volume)) in days.iter().enumerate() {
            for half in 0..2 {
                bars.push((from + d as i64) * DAY + half * DAY / 2, [close; 4], volume / 2.0);
            }
        }
        Joined { bars, own: Vec::new() }
    }

    fn joined(contracts: Vec<Joined>) -> Vec<Joined> {
        continue_through(contracts, &["ES".to_owned()])
    }

    #[test]
    fn the_busier_contract_takes_over_the_day_after_and_prices_do_not_jump() {
        let h = contract("ESH4", 19_700, &[(100.0, 9.0), (101.0, 3.0), (102.0, 1.0)]);
        let m = contract("ESM4", 19_700, &[(200.0, 1.0), (202.0, 4.0), (204.0, 8.0), (206.0, 9.0)]);
        let other = contract("NQH4", 19_700, &[(5.0, 1.0)]);
        let all = joined(vec![m, h, other]);
        assert_eq!(all.iter().map(|one| one.bars.symbol.as_str()).collect::<Vec<_>>(), ["ES", "NQH4"]);
        let bars = &all[0].bars;
        // on the second day the later one trades more, so it is held from the third on
        assert_eq!(bars.close, [100.0, 100.0, 101.0, 101.0, 102.0, 102.0, 103.0, 103.0]);
        assert_eq!(bars.volume, [4.5, 4.5, 1.5, 1.5, 4.0, 4.0, 4.5, 4.5]);
    }

    #[test]
    fn names_are_contracts_of_their_root_in_the_order_of_delivery() {
        let ns = 19_700 * DAY; // in 2023
        let of = |symbol: &str| delivery(symbol, "ES", ns);
        assert_eq!(of("ESH4"), Some(2024 * 12 + 2));
        assert_eq!(of("ESZ3"), Some(2023 * 12 + 11));
        assert_eq!(of("ESH24"), of("ESH4"));
        assert_eq!(of("ES_202403"), of("ESH4"));
        for other in ["ES", "ESA4", "ESH", "ESH456", "NQH4", "ES_202413", "ESé4"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_comes_later_changes_nothing_before(
            volumes in prop::collection::vec((1.0..9.0f64, 1.0..9.0f64), 8),
            other in prop::collection::vec((1.0..9.0f64, 1.0..9.0f64), 8),
            known in 1..8usize,
        ) {
            let build = |later: &[(f64, f64)]| {
                let days: Vec<_> = volumes[..known].iter().chain(&later[known..]).collect();
                let price = |d: usize| if d < known { 100.0 + d as f64 } else { 100.0 + later[d].0 };
                let one: Vec<_> = days.iter().enumerate().map(|(d, v)| (price(d), v.0)).collect();
                let two: Vec<_> = days.iter().enumerate().map(|(d, v)| (2.0 * price(d), v.1)).collect();
                joined(vec![contract("ESH4", 19_700, &one), contract("ESM4", 19_700, &two)]).remove(0).bars
            };
            let (a, b) = (build(&volumes), build(&other));
            prop_assert_eq!(&a.close[..2 * known], &b.close[..2 * known]);
            prop_assert_eq!(&a.volume[..2 * known], &b.volume[..2 * known]);
        }
    }
}
