//! Market data on one core: bars read from `.dbn.zst` and the share of decompression in it, features, environment steps.
//! Medians of 5 blocks.
//!
//! ```text
//! RAYON_NUM_THREADS=1 cargo bench -p foxlaunch-benches --bench market_data
//! python benches/peers/pandas_features.py; python benches/peers/numpy_market.py
//! ```

use dbn::encode::EncodeRecord;
use dbn::encode::dbn::Encoder;
use dbn::{MetadataBuilder, OhlcvMsg, RecordHeader, SType, Schema, rtype};
use foxlaunch_shared::config::Config;
use foxlaunch_worker::data::features::{TABLE, compute};
use foxlaunch_worker::data::{Bars, Dataset, Part, Scaler, read_bytes};
use foxlaunch_worker::environments::Environment;
use foxlaunch_worker::environments::market::Market;
use foxlaunch_worker::seed::{Streams, uniform};
use std::io::Read;
use std::time::Instant;

const BARS: usize = 1_000_000;
const MINUTE: i64 = 60_000_000_000;
const BLOCKS: usize = 5;

fn main() {
    let bars = walk(BARS);
    reading(&bars);
    let seconds = median(|| {
        let rows = compute(&bars);
        assert_eq!(rows.len(), BARS * TABLE.len());
    });
    println!(
        "features: {:.3} s for {BARS} bars of {} features, {:.1} M bars/s",
        seconds,
        TABLE.len(),
        1e-6 * BARS as f64 / seconds
    );
    stepping(bars);
}

/// A walk of prices in ticks of a quarter, as a future's.
fn walk(len: usize) -> Bars {
    let mut draw = Streams::new(1).draw("bars", 0, 0);
    let mut bars = Bars { symbol: "ES".to_owned(), interval_ns: MINUTE, ..Bars::default() };
    let mut close = 4800.0f64;
    for t in 0..len {
        let mut step = || 0.25 * (8.0 * (uniform(&mut draw) - 0.5)).round();
        let open = close;
        close = (close + step()).max(1000.0);
        let (high, low) = (open.max(close) + step().abs(), open.min(close) - step().abs());
        bars.start_ns.push(1_600_000_000_000_000_000 + t as i64 * MINUTE);
        bars.open.push(open);
        bars.high.push(high);
        bars.low.push(low);
        bars.close.push(close);
        bars.volume.push((1000.0 * uniform(&mut draw)).floor());
    }
    bars
}

fn reading(bars: &Bars) {
    let metadata = MetadataBuilder::new()
        .dataset("BENCH")
        .schema(Some(Schema::Ohlcv1M))
        .start(bars.start_ns[0] as u64)
        .stype_in(Some(SType::RawSymbol))
        .stype_out(SType::InstrumentId)
        .build();
    let mut plain = Vec::new();
    let mut encoder = Encoder::new(&mut plain, &metadata).expect("an encoder");
    let units = |price: f64| (price * 1e9).round() as i64;
    for t in 0..bars.len() {
        let hd = RecordHeader::new::<OhlcvMsg>(rtype::OHLCV_1M, 1, 7, bars.start_ns[t] as u64);
        let [open, high, low, close] = [bars.open[t], bars.high[t], bars.low[t], bars.close[t]].map(units);
        let record = OhlcvMsg { hd, open, high, low, close, volume: bars.volume[t] as u64 };
        encoder.encode_record(&record).expect("encoded");
    }
    let packed = zstd::encode_all(&plain[..], 3).expect("compressed");
    let config = Config::default();
    let read = |bytes: &[u8]| median(|| assert_eq!(read_bytes("x.dbn", bytes, &config).expect("bars"), BARS));
    let (whole, uncompressed) = (read(&packed), read(&plain));
    let unpack = median(|| {
        let mut decoder = zstd::stream::read::Decoder::new(&packed[..]).expect("a decoder");
        let mut buffer = vec![0; 1 << 16];
        while decoder.read(&mut buffer).expect("decompressed") > 0 {}
    });
    println!(
        "reading: {:.3} s for {BARS} bars from {} bytes of .dbn.zst, {:.1} M bars/s; zstd alone {:.3} s ({:.0} %); plain .dbn {:.3} s, \
         {:.1} M bars/s",
        whole,
        packed.len(),
        1e-6 * BARS as f64 / whole,
        unpack,
        100.0 * unpack / whole,
        uncompressed,
        1e-6 * BARS as f64 / uncompressed
    );
}

/// 4096 streams stepped in turn, each step with its observation.
fn stepping(bars: Bars) {
    let dataset = Dataset::new("bench", vec![bars]).expect("a data set");
    let part = Part::whole(&dataset);
    let scaler = Scaler::fit(&dataset, &part);
    let market = Market::new(&dataset, &part, &scaler, &Config::default().environment).expect("a market");
    let streams = Streams::new(1);
    let mut states: Vec<_> = (0..4096).map(|i| market.reset(&mut streams.draw("reset", i, 0))).collect();
    let mut observation = vec![0.0; market.observation_len()];
    let mut draw = streams.draw("unused", 0, 0);
    let (rounds, mut seen, mut k) = (50, 0.0f32, 0u64);
    let seconds = median(|| {
        for round in 0..rounds {
            for (i, state) in states.iter_mut().enumerate() {
                let step = market.step(state, (i + round) % 3, &mut draw);
                k += 1;
                *state = if step.done() { market.reset(&mut streams.draw("reset", i as u64, k)) } else { step.next };
                market.observe(state, &mut observation);
                seen += observation[0];
            }
        }
    });
    assert!(seen.is_finite());
    let steps = (rounds * states.len()) as f64;
    println!(
        "environment: {:.1} M steps/s, each with its observation of {} values",
        1e-6 * steps / seconds,
        observation.len()
    );
}

fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..BLOCKS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[BLOCKS / 2]
}
