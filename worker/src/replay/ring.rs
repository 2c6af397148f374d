//! The newest transitions, drawn from uniformly.

use crate::seed::{Draw, below};
use serde::{Deserialize, Serialize};

/// A ring of at most `capacity` items: a new one takes the place of the oldest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ring<T> {
    items: Vec<T>,
    capacity: usize,
    /// Where the next item goes once the ring is full.
    head: usize,
}

impl<T> Ring<T> {
    /// An empty ring for `capacity` items, at least 1.
    pub fn new(capacity: usize) -> Ring<T> {
        Ring { items: Vec::new(), capacity: capacity.max(1), head: 0 }
    }

    /// Adds an item, and gives its index.
    pub fn push(&mut self, item: T) -> usize {
        if self.items.len() < self.capacity {
            self.items.push(item);
            return self.items.len() - 1;
        }
        let at = self.head;
        self.items[at] = item;
        self.head = (at + 1) % self.capacity;
        at
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item at `index`, which is below [`Ring::len`].
    pub fn get(&self, index: usize) -> &T {
        &self.items[index]
    }

    /// Draws `count` indices, each uniform over what is there, with replacement.
    ///
    /// # Panics
    ///
    /// If the ring is empty.
    pub fn sample(&self, count: usize, draw: &mut Draw) -> Vec<usize> {
        (0..count).map(|_| below(draw, self.items.len())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Streams;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_holds_the_newest(capacity in 1usize..20, count in 0usize..100) {
            let mut ring = Ring::new(capacity);
            let mut model = VecDeque::new();
            for i in 0..count {
                let at = ring.push(i);
                prop_assert_eq!(*ring.get(at), i);
                model.push_back(i);
                if model.len() > capacity {
                    model.pop_front();
                }
                let mut held: Vec<usize> = (0..ring.len()).map(|i| *ring.get(i)).collect();
                held.sort_unstable();
                prop_assert_eq!(&held, &Vec::from(model.clone()));
            }
        }

        #[test]
        fn a_saved_ring_goes_on_as_it_would_have(capacity in 1usize..9, before in 0usize..30, after in 0usize..30) {
            let mut ring = Ring::new(capacity);
            (0..before).for_each(|i| { ring.push(i); });
            let saved = serde_json::to_string(&ring).unwrap();
            let mut read: Ring<usize> = serde_json::from_str(&saved).unwrap();
            for i in 0..after {
                ring.push(i);
                read.push(i);
            }
            prop_assert_eq!(ring, read);
        }
    }

    #[test]
    fn every_item_is_drawn_equally_often() {
        let mut ring = Ring::new(10);
        (0..25).for_each(|i| {
            ring.push(i);
        });
        let mut counts = [0u32; 10];
        let indices = ring.sample(50_000, &mut Streams::new(1).draw("sample", 0, 0));
        indices.iter().for_each(|i| counts[*i] += 1);
        assert!(counts.iter().all(|c| c.abs_diff(5_000) < 350), "{counts:?}");
    }
}
