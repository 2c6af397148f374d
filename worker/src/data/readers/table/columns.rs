//! Which column of a table is what.

use foxlaunch_shared::config::DataConfig;

/// What columns may be called, in lower case with `_` for everything that is neither letter nor digit; where several
/// are there, the first one in this list is taken.
const TIME: &[&str] = &[
    "ts_event",
    "timestamp",
    "datetime",
    "date_time",
    "timestamp_utc",
    "start_time",
    "start_date",
    "open_time",
    "ts",
    "ts_ns",
    "date",
    "time",
    "datum",
    "datetime_gmt",
];
const SYMBOL: &[&str] = &["symbol", "ticker", "instrument", "sym", "instrument_id"];
const OPEN: &[&str] = &["open", "open_price", "o", "eröffnung"];
const HIGH: &[&str] = &["high", "high_price", "h", "hoch"];
const LOW: &[&str] = &["low", "low_price", "l", "tief"];
const CLOSE: &[&str] = &["close", "close_price", "last", "c", "adj_close", "schluss", "price"];
const VOLUME: &[&str] = &["volume", "vol", "v", "tick_volume", "volumen"];
const BID: &[&str] = &["bid", "bid_price", "best_bid", "bid_px"];
const ASK: &[&str] = &["ask", "ask_price", "best_ask", "ask_px"];
const PRICE: &[&str] = &["price", "px", "last"];
const SIZE: &[&str] = &["size", "qty", "quantity", "amount", "volume"];

/// Names of columns that `data.columns` can set, and how these are called without it.
const NAMES: &[(&str, &[&str])] = &[
    ("time", TIME),
    ("clock", &["time"]),
    ("symbol", SYMBOL),
    ("open", OPEN),
    ("high", HIGH),
    ("low", LOW),
    ("close", CLOSE),
    ("volume", VOLUME),
    ("bid", BID),
    ("ask", ASK),
    ("price", PRICE),
    ("size", SIZE),
];

/// Where a row's moment stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Time {
    /// In one column.
    Column(usize),
    /// Its date and its time of day in two.
    DateAndClock(usize, usize),
    /// As milliseconds of a day.
    OfDay(usize, i64),
}

/// Prices and volume of one instrument in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Group {
    /// The instrument, where the columns' names begin with it.
    pub(in super::super) symbol: Option<String>,
    /// Open, high, low, close.
    pub(in super::super) prices: [usize; 4],
    pub(in super::super) volume: Option<usize>,
}

/// What the rows are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Shape {
    /// Bars, of several instruments side by side where there are several.
    Bars(Vec<Group>),
    /// Bars of bids and of asks.
    QuoteBars([usize; 4], [usize; 4]),
    /// Bid and ask.
    Quotes(usize, usize),
    /// Price and size.
    Trades(usize, Option<usize>),
    /// Levels: price and size of the ask, of the bid.
    Book(Vec<[usize; 4]>),
    /// Numbers over time, which are no prices.
    Series,
}

impl Shape {
    /// Its name in a report.
    pub(in super::super) fn name(&self) -> String {
        match self {
            Shape::Bars(_) | Shape::QuoteBars(..) => "ohlcv".to_owned(),
            Shape::Quotes(..) => "quotes".to_owned(),
            Shape::Trades(..) => "trades".to_owned(),
            Shape::Book(levels) => format!("book-{}", levels.len()),
            Shape::Series => "series".to_owned(),
        }
    }
}

/// Which field of a row is what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Layout {
    pub(in super::super) time: Time,
    pub(in super::super) symbol: Option<usize>,
    pub(in super::super) shape: Shape,
    /// The own columns of `features.columns`, in their order.
    pub(in super::super) own: Vec<usize>,
    pub(in super::super) fields: usize,
}

/// Why a line is no header: how many of time, open, high, low and close it names, and what is wrong.
pub(in super::super) type NoHeader = (usize, String);

/// The layout under `header`, whose names are as in the file, for the own columns `own`.
pub(in super::super) fn layout(header: &[String], data: &DataConfig, own: &[String]) -> Result<Layout, NoHeader> {
    let names: Vec<String> = header.iter().map(|name| normal(name)).collect();
    let mut finder = Finder { names: &names, data, double: None, lacking: None };
    let [open, high, low, close] = ["open", "high", "low", "close"].map(|name| finder.find(name));
    let (time, symbol, volume) = (finder.find("time"), finder.find("symbol"), finder.find("volume"));
    let clock = time.filter(|&i| names[i] == "date").and_then(|_| finder.find("clock"));
    let all = [("date or timestamp", time), ("open", open), ("high", high), ("low", low), ("close", close)];
    let known = all.iter().filter(|(_, at)| at.is_some()).count();
    if let Some(lacking) = finder.lacking.take() {
        return Err((known, lacking));
    }
    let double = finder.double.take();
    // an index column has no name, and is the time of a table of bars side by side
    let unnamed = || (names.first()?.is_empty() && !wide(header).is_empty()).then_some(0);
    let Some(time) = time.or_else(unnamed) else {
        return Err((known, format!("the header has no column {}; name it so", lacking(&all))));
    };
    let shape = match (open, high, low, close) {
        (Some(open), Some(high), Some(low), Some(close)) => {
            if let Some(name) = double {
                return Err((known, format!("the header has two columns {name}; remove or rename one")));
            }
            Shape::Bars(vec![Group { symbol: None, prices: [open, high, low, close], volume }])
        }
        _ if known > 2 => return Err((known, format!("the header has no column {}; name it so", lacking(&all)))),
        _ => other_shape(header, &names, &mut finder).map_err(|reason| (known, reason))?,
    };
    let own = own.iter().map(|name| {
        let at = names.iter().position(|n| *n == normal(name));
        at.ok_or_else(|| (known, format!("the header has no column {name}, which features.columns names")))
    });
    let own = own.collect::<Result<_, _>>()?;
    let time = clock.map_or(Time::Column(time), |clock| Time::DateAndClock(time, clock));
    Ok(Layout { time, symbol, shape, own, fields: header.len() })
}

fn lacking(all: &[(&str, Option<usize>)]) -> String {
    all.iter().filter(|(_, at)| at.is_none()).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// What a table is that has no columns of one instrument's bars.
fn other_shape(header: &[String], names: &[String], finder: &mut Finder<'_>) -> Result<Shape, String> {
    let groups = wide(header);
    if !groups.is_empty() {
        return Ok(Shape::Bars(groups));
    }
    let levels = levels(names);
    if !levels.is_empty() {
        return Ok(Shape::Book(levels));
    }
    if let (Some(bid), Some(ask)) = (finder.find("bid"), finder.find("ask")) {
        return Ok(Shape::Quotes(bid, ask));
    }
    let price = finder.find("price");
    if price.is_some() && names.iter().any(|name| name == "side") {
        let reason = "it holds single changes of an order book (side, price, amount), which are not put together here; \
                      give snapshots of the book, bars, quotes or trades";
        return Err(reason.to_owned());
    }
    Ok(price.map_or(Shape::Series, |price| Shape::Trades(price, finder.find("size"))))
}

struct Finder<'a> {
    names: &'a [String],
    data: &'a DataConfig,
    /// A name that stands there twice.
    double: Option<String>,
    /// What `data.columns` names and is not there.
    lacking: Option<String>,
}

impl Finder<'_> {
    /// The column that is `what`.
    fn find(&mut self, what: &str) -> Option<usize> {
        if let Some((_, column)) = self.data.named_columns().find(|(name, _)| *name == what) {
            let at = numbered(column)
                .filter(|at| *at < self.names.len())
                .or_else(|| self.names.iter().position(|name| *name == normal(column)));
            if at.is_none() {
                self.lacking = Some(format!("there is no column {column}, which data.columns says is the {what}"));
            }
            return at;
        }
        let aliases = NAMES.iter().find(|(name, _)| *name == what).map(|(_, aliases)| *aliases)?;
        let alias = aliases.iter().find(|alias| self.names.iter().any(|name| name == *alias))?;
        let mut at = (0..self.names.len()).filter(|&i| self.names[i] == *alias);
        let first = at.next();
        if at.next().is_some() {
            self.double = Some((*alias).to_owned());
        }
        first
    }
}

/// `#2` is the second column, 1.
fn numbered(column: &str) -> Option<usize> {
    column.strip_prefix('#')?.parse::<usize>().ok()?.checked_sub(1)
}

/// Columns called as `BTC:open`, by what stands before the last sign.
fn wide(header: &[String]) -> Vec<Group> {
    let split = |name: &str| {
        let at = name.rfind([':', '.', '_', '|', '/', ' '])?;
        let (symbol, field) = (name[..at].trim(), &name[at + 1..]);
        (!symbol.is_empty()).then(|| (symbol.to_owned(), normal(field)))
    };
    let parts: Vec<_> = header.iter().map(|name| split(name)).collect();
    let at = |symbol: &str, names: &[&str]| {
        parts.iter().position(|part| part.as_ref().is_some_and(|(s, f)| s == symbol && names.contains(&f.as_str())))
    };
    let mut groups: Vec<Group> = Vec::new();
    for (symbol, _) in parts.iter().flatten() {
        if groups.iter().any(|group| group.symbol.as_ref() == Some(symbol)) {
            continue;
        }
        let prices = [OPEN, HIGH, LOW, CLOSE].map(|names| at(symbol, names));
        if let [Some(open), Some(high), Some(low), Some(close)] = prices {
            let (prices, volume) = ([open, high, low, close], at(symbol, VOLUME));
            groups.push(Group { symbol: Some(symbol.clone()), prices, volume });
        }
    }
    groups
}

/// Columns of a book's levels, called `ask_px_1`… or `asks_0_price`…, from the best on.
fn levels(names: &[String]) -> Vec<[usize; 4]> {
    let at = |name: String| names.iter().position(|n| *n == name);
    let plain = |k: usize| {
        let column = |side: &str, what: &str| at(format!("{side}_{what}_{}", k + 1));
        Some([column("ask", "px")?, column("ask", "sz")?, column("bid", "px")?, column("bid", "sz")?])
    };
    let nested = |k: usize| {
        let column = |side: &str, what: &str| at(format!("{side}_{k}_{what}"));
        Some([column("asks", "price")?, column("asks", "amount")?, column("bids", "price")?, column("bids", "amount")?])
    };
    let plain: Vec<_> = (0..names.len()).map_while(plain).collect();
    if plain.is_empty() { (0..names.len()).map_while(nested).collect() } else { plain }
}

/// The layout of a table without a header, by its first row; `day` is the day in the file's name.
///
/// `is_time` and `is_number` say what a cell is. Read are: time, open, high, low, close and perhaps volume and more;
/// date, time of day, and these; time and such bars of bids and of asks, each with its size.
pub(super) fn bare_layout(
    row: &[String],
    day: Option<i64>,
    is_time: impl Fn(&str) -> bool,
    is_number: impl Fn(&str) -> bool,
) -> Option<Layout> {
    let numbers_from = |at: usize| row.iter().skip(at).take_while(|cell| is_number(cell)).count();
    let first = row.first()?;
    let clock = row.get(1).is_some_and(|cell| cell.contains(':'));
    let (time, from) = if clock && is_time(&format!("{first} {}", row[1])) {
        (Time::DateAndClock(0, 1), 2)
    } else if let Some(day) = day.filter(|_| first.parse::<u32>().is_ok_and(|ms| ms < 86_400_000)) {
        (Time::OfDay(0, day), 1)
    } else if is_time(first) && !(first.len() < 9 && first.parse::<f64>().is_ok() && first.len() != 8) {
        (Time::Column(0), 1)
    } else {
        return None;
    };
    let numbers = numbers_from(from);
    let four = |at: usize| [at, at + 1, at + 2, at + 3];
    let shape = match numbers {
        10 if row.len() == from + 10 => Shape::QuoteBars(four(from), four(from + 5)),
        4.. => {
            let volume = (numbers > 4).then_some(from + 4);
            Shape::Bars(vec![Group { symbol: None, prices: four(from), volume }])
        }
        _ => return None,
    };
    Some(Layout { time, symbol: None, shape, own: Vec::new(), fields: row.len() })
}

/// A column's name in lower case, with `_` between its words.
pub(super) fn normal(name: &str) -> String {
    let name = name.to_lowercase();
    name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}
