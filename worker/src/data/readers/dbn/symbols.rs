//! What instruments are called, from when until when, as the metadata say.

use ::dbn::{Metadata, SType};
use std::collections::HashMap;
use std::ops::Range;

const DAY_NS: i64 = 86_400_000_000_000;
/// The Julian day number of the first of January 1970.
const JULIAN_1970: i32 = 2_440_588;

/// The names of a file's instruments.
pub(super) struct Symbols {
    names: HashMap<u32, Vec<(Range<u64>, String)>>,
}

impl Symbols {
    /// The names in `metadata`. Mappings from names to numbers and from numbers to names are both known.
    pub(super) fn new(metadata: &Metadata) -> Symbols {
        let mut names: HashMap<u32, Vec<(Range<u64>, String)>> = HashMap::new();
        let to_number = metadata.stype_out == SType::InstrumentId;
        for mapping in &metadata.mappings {
            for interval in &mapping.intervals {
                let (number, name) = match to_number {
                    true => (&interval.symbol, &mapping.raw_symbol),
                    false => (&mapping.raw_symbol, &interval.symbol),
                };
                let Ok(number) = number.parse() else { continue };
                let ns = |julian: i32| (i64::from(julian - JULIAN_1970).max(0) as u64).saturating_mul(DAY_NS as u64);
                let valid = ns(interval.start_date.to_julian_day())..ns(interval.end_date.to_julian_day());
                names.entry(number).or_default().push((valid, name.clone()));
            }
        }
        Symbols { names }
    }

    /// The name of `instrument` at `ns`, and while no other holds; without a mapping it goes by its number.
    pub(super) fn find(&self, instrument: u32, ns: u64) -> (Range<u64>, String) {
        let known = self.names.get(&instrument);
        let found = known.and_then(|names| names.iter().find(|(valid, _)| valid.contains(&ns)));
        match found {
            Some((valid, name)) => (valid.clone(), name.clone()),
            None if known.is_none() => (0..u64::MAX, instrument.to_string()),
            // outside all mappings nothing is known for how long this holds
            None => (ns..ns.saturating_add(1), instrument.to_string()),
        }
    }

    /// The name alone.
    pub(super) fn name(&self, instrument: u32, ns: u64) -> String {
        self.find(instrument, ns).1
    }
}
