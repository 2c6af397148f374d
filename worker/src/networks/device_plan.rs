//! Which launches a pass takes: operations sorted into levels, each of which needs only what those before it gave.

use crate::kernels::device::KernelError;
use crate::kernels::device_quantile::{Cosines, Times};
use crate::kernels::layers::{Dueling, Group, Product};
use cudarc::driver::CudaStream;

/// Operations by level.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    levels: Vec<Level>,
}

/// Operations that do not depend on each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub(super) products: Vec<Product>,
    pub(super) others: Vec<Other>,
}

/// What is no matrix product; with whether it is the way back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Other {
    Dueling(Dueling, bool),
    Cosines(Cosines),
    Times(Times, bool),
}

impl Other {
    /// # Safety
    ///
    /// As of [`Launches::enqueue`].
    unsafe fn launch(&self, stream: &CudaStream) -> Result<(), KernelError> {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Other::Dueling(dueling, backward) => dueling.launch(stream, *backward),
                Other::Cosines(cosines) => cosines.launch(stream),
                Other::Times(times, backward) => times.launch(stream, *backward),
            }
        }
    }
}

impl Plan {
    /// Level `level`, made if it is not there.
    pub(super) fn at(&mut self, level: usize) -> &mut Level {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Level::default);
        }
        &mut self.levels[level]
    }

    /// Both plans in the same launches, level by level. They must not depend on each other.
    pub fn beside(mut self, other: Plan) -> Plan {
        for (level, theirs) in other.levels.into_iter().enumerate() {
            let mine = self.at(level);
            mine.products.extend(theirs.products);
            mine.others.extend(theirs.others);
        }
        self
    }

    /// The launches, ready to be enqueued again and again.
    pub fn ready(self) -> Launches {
        let ready = |level: Level| (Group::new(&level.products), level.others);
        Launches { levels: self.levels.into_iter().map(ready).collect() }
    }
}

/// What is launched for one level: its products, and what else there is.
type Launch = (Option<Group>, Vec<Other>);

/// Launches with all their addresses.
#[derive(Debug)]
pub struct Launches {
    levels: Vec<Launch>,
}

impl Launches {
    /// How many launches they are.
    pub fn count(&self) -> usize {
        self.levels.iter().map(|(group, others)| group.as_ref().map_or(0, Group::count) + others.len()).sum()
    }

    /// Enqueues all.
    ///
    /// # Safety
    ///
    /// The networks, passes and gradients that the plan was made of must be alive, on the device of `stream`, until the
    /// launches have ended, and nothing else may write to them meanwhile.
    pub unsafe fn enqueue(&self, stream: &CudaStream) -> Result<(), KernelError> {
        for (group, others) in &self.levels {
            if let Some(group) = group {
                // SAFETY: the addresses are those of the buffers that the caller answers for; a level's results do not
                // overlap, since a slot is written by one operation, or by several on different levels.
                unsafe { group.launch(stream) }?;
            }
            for other in others {
                // SAFETY: as above.
                unsafe { other.launch(stream) }?;
            }
        }
        Ok(())
    }
}
