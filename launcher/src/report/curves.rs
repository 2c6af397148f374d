//! Curves small enough to draw: fewer points with the same look, and axes that hold them.

/// A point of a plot: x and y in the axes' units.
pub(super) type Point = (f64, f64);

/// At most about `2 * buckets` of `points` (which are in the order of x): the lowest and the highest of each
/// bucket, the first and the last. No peak and no trough is lost.
pub(super) fn thin(points: &[Point], buckets: usize) -> Vec<Point> {
    if points.len() <= 2 * buckets + 2 {
        return points.to_vec();
    }
    let size = points.len().div_ceil(buckets.max(1));
    let mut thinned = vec![points[0]];
    for bucket in points.chunks(size) {
        let by_value = |a: &&Point, b: &&Point| a.1.total_cmp(&b.1);
        let (Some(low), Some(high)) = (bucket.iter().min_by(by_value), bucket.iter().max_by(by_value)) else {
            continue;
        };
        let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        thinned.extend([*first, *second]);
    }
    thinned.push(points[points.len() - 1]);
    thinned.dedup();
    thinned
}

/// The range of the finite among `values`, widened by a twentieth so that no line lies on the frame; 0 to 1
/// where there is none.
pub(super) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return (0.0, 1.0);
    }
    let room = 0.05 * (high - low).max(0.02 * high.abs()).max(1e-9);
    (low - room, high + room)
}

/// About `most` round numbers from `low` to `high`: multiples of 1, 2, 2.5 or 5 times a power of ten.
pub(super) fn round_marks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let rough = (high - low) / most.max(1) as f64;
    if !(rough > 0.0 && rough.is_finite()) {
        return vec![low];
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|k| k * power).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    (first..).map(|k| k as f64 * step).take_while(|mark| *mark <= high).take(2 * most + 2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn thinning_keeps_the_ends_and_the_extremes(values in prop::collection::vec(-1e6f64..1e6, 1..3000), buckets in 1usize..200) {
            let points: Vec<Point> = values.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
            let thinned = thin(&points, buckets);
            prop_assert!(thinned.len() <= 2 * buckets + 2);
            prop_assert_eq!(thinned.first(), points.first());
            prop_assert_eq!(thinned.last(), points.last());
            prop_assert!(thinned.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            let highest = |points: &[Point]| points.iter().map(|p| p.1).fold(f64::MIN, f64::max);
            let lowest = |points: &[Point]| points.iter().map(|p| p.1).fold(f64::MAX, f64::min);
            prop_assert_eq!(highest(&thinned), highest(&points));
            prop_assert_eq!(lowest(&thinned), lowest(&points));
        }

        #[test]
        fn marks_lie_inside(low in -1e6f64..1e6, width in 1e-3f64..1e6, most in 2usize..10) {
            let marks = round_marks(low, low + width, most);
            prop_assert!(marks.len() <= most + 1, "{} marks", marks.len());
            prop_assert!(marks.iter().all(|mark| (low..=low + width).contains(mark)));
        }
    }

    #[test]
    fn a_range_has_room_and_survives_nothing_at_all() {
        assert_eq!(range([].into_iter()), (0.0, 1.0));
        assert_eq!(range([f64::NAN].into_iter()), (0.0, 1.0));
        let (low, high) = range([3.0, 3.0].into_iter());
        assert!(low < 3.0 && 3.0 < high);
    }

    #[test]
    fn marks_are_round() {
        let marks =
            |low, high, most| round_marks(low, high, most).iter().map(|m| format!("{m:.2}")).collect::<Vec<_>>();
        assert_eq!(marks(0.0, 1.0, 5), ["0.00", "0.20", "0.40", "0.60", "0.80", "1.00"]);
        assert_eq!(marks(0.93, 1.41, 4), ["1.00", "1.20", "1.40"]);
    }
}
