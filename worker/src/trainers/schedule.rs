//! What changes as training goes on.

/// A value that goes in a straight line from `start` to `end` while `progress` goes from 0 to `fraction`, and stays
/// there.
pub fn linear(start: f64, end: f64, fraction: f64, progress: f64) -> f64 {
    if progress >= fraction { end } else { start + (end - start) * (progress / fraction) }
}

/// Whether a multiple of `every` lies in `(before, now]`; never if `every` is 0.
pub fn due(every: u64, before: u64, now: u64) -> bool {
    every > 0 && now / every > before / every
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epsilon_falls_in_a_line_and_stays() {
        let epsilon = |progress| linear(1.0, 0.1, 0.5, progress);
        assert_eq!(epsilon(0.0), 1.0);
        assert!((epsilon(0.25) - 0.55).abs() < 1e-12);
        assert_eq!((epsilon(0.5), epsilon(1.0)), (0.1, 0.1));
        assert_eq!(linear(1.0, 0.1, 0.0, 0.0), 0.1);
    }

    #[test]
    fn something_is_due_once_for_each_multiple_passed() {
        assert!(due(4, 3, 4) && !due(4, 4, 5) && due(4, 6, 9) && !due(0, 3, 400));
        assert_eq!((1..=12).filter(|now| due(4, now - 1, *now)).count(), 3);
    }
}
