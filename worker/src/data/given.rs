//! Bars and features that the caller has in memory, row by row.

use super::{Bars, DataError, Dataset, readers};

impl Dataset {
    /// One instrument of rows in the order of time: a bar's start in nanoseconds since 1970 (UTC), its features, called
    /// `names`, and its open, high, low and close: what is traded at, and what rewards are made of. Every row is usable.
    ///
    /// Features of a row may use that bar and earlier ones, never later ones: nothing here can check it.
    pub fn from_rows<R: AsRef<[f32]>>(
        symbol: &str,
        names: &[&str],
        rows: impl IntoIterator<Item = (i64, R, [f64; 4])>,
    ) -> Result<Dataset, DataError> {
        let mut bars = Bars { symbol: symbol.to_owned(), ..Bars::default() };
        let mut matrix = Vec::new();
        for (number, (start_ns, features, prices)) in rows.into_iter().enumerate() {
            let features = features.as_ref();
            if features.len() != names.len() {
                let reason = format!("{symbol}: row {number} has {} features, not {}", features.len(), names.len());
                return Err(DataError::Mismatch { origin: "given rows".to_owned(), reason });
            }
            matrix.extend_from_slice(features);
            bars.push(start_ns, prices, 0.0);
        }
        bars.interval_ns = readers::step_between(&bars.start_ns);
        Dataset::with_features(vec![bars], names.iter().map(|name| (*name).to_owned()).collect(), vec![matrix])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_bars_and_features_and_what_cannot_be_is_refused() {
        let rows = [(60, [1.0, 2.0], [10.0, 12.0, 9.0, 11.0]), (120, [3.0, 4.0], [11.0, 11.0, 10.0, 10.5])];
        let data = Dataset::from_rows("ES", &["a", "b"], rows).unwrap();
        let one = &data.instruments()[0];
        assert_eq!((one.bars.symbol.as_str(), one.bars.interval_ns, one.first_usable), ("ES", 60, 0));
        assert_eq!((&one.bars.open[..], &one.bars.close[..]), (&[10.0, 11.0][..], &[11.0, 10.5][..]));
        assert_eq!(
            (&one.features[..], data.feature_names()),
            (&[1.0, 2.0, 3.0, 4.0][..], &["a", "b"].map(str::to_owned)[..])
        );
        let refused =
            |rows: Vec<(i64, Vec<f32>, [f64; 4])>| Dataset::from_rows("ES", &["a"], rows).unwrap_err().to_string();
        let good = [1.0, 1.0, 1.0, 1.0];
        assert!(refused(vec![(1, vec![1.0, 2.0], good)]).contains("row 0 has 2 features, not 1"));
        assert!(refused(vec![(2, vec![1.0], good), (1, vec![1.0], good)]).contains("bar 1 does not start after bar 0"));
        assert!(refused(vec![(1, vec![f32::NAN], good)]).contains("bar 0 of 1970-01-01T00:00:00.000000001Z: a is NaN"));
        assert!(refused(vec![(1, vec![1.0], [1.0, 0.5, 0.7, 1.0])]).contains("bar 0: high"));
    }
}
