//! What an agent can do: one of some actions, or numbers within bounds.

use std::fmt::Debug;

/// An action of an environment. Discrete ones are `usize`, continuous ones `[f32; N]`; there are no others.
pub trait Action: Copy + Debug + PartialEq + Send + Sync + 'static {
    /// All actions: for `usize` their number, for `[f32; N]` their [`Bounds`].
    type Space: Clone + Debug + PartialEq + Send + Sync;

    /// How many f32 an action is stored in.
    const WIDTH: usize;
    /// Whether it is numbers rather than a choice.
    const CONTINUOUS: bool;

    /// Numbers that a policy gives for an action of `space`: a logit for each choice, or a mean for each number.
    fn outputs(space: &Self::Space) -> usize;

    /// The nearest action that is in `space`.
    fn within(self, space: &Self::Space) -> Self;

    /// Writes the action into `to`, which has [`Action::WIDTH`] numbers. An index below 2^24 is kept exactly.
    fn store(self, to: &mut [f32]);

    /// The action that `from` holds.
    fn load(from: &[f32]) -> Self;
}

impl Action for usize {
    type Space = usize;
    const WIDTH: usize = 1;
    const CONTINUOUS: bool = false;

    fn outputs(space: &usize) -> usize {
        *space
    }

    fn within(self, space: &usize) -> usize {
        self.min(space.saturating_sub(1))
    }

    fn store(self, to: &mut [f32]) {
        to[0] = self as f32;
    }

    fn load(from: &[f32]) -> usize {
        from[0] as usize
    }
}

/// From where to where each of N numbers goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds<const N: usize> {
    /// The smallest of each.
    pub low: [f32; N],
    /// The largest of each.
    pub high: [f32; N],
}

impl<const N: usize> Action for [f32; N] {
    type Space = Bounds<N>;
    const WIDTH: usize = N;
    const CONTINUOUS: bool = true;

    fn outputs(_: &Bounds<N>) -> usize {
        N
    }

    fn within(self, space: &Bounds<N>) -> [f32; N] {
        std::array::from_fn(|i| self[i].clamp(space.low[i], space.high[i]))
    }

    fn store(self, to: &mut [f32]) {
        to.copy_from_slice(&self);
    }

    fn load(from: &[f32]) -> [f32; N] {
        std::array::from_fn(|i| from[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_survives_being_stored() {
        let mut place = [0.0; 2];
        [0.25f32, -3.0].store(&mut place);
        assert_eq!(<[f32; 2]>::load(&place), [0.25, -3.0]);
        for index in [0usize, 7, (1 << 24) - 1] {
            index.store(&mut place[..1]);
            assert_eq!(usize::load(&place[..1]), index);
        }
    }

    #[test]
    fn bounds_hold_each_number_by_itself() {
        let bounds = Bounds { low: [-1.0, 0.0], high: [1.0, 2.0] };
        assert_eq!([-3.0, 0.5].within(&bounds), [-1.0, 0.5]);
        assert_eq!([0.0, 9.0].within(&bounds), [0.0, 2.0]);
        assert_eq!((3.within(&4), 7.within(&4)), (3, 3));
    }
}
