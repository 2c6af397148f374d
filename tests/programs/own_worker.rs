//! What a third party writes to train on an own environment: a worker of its own, which `FOXLAUNCH_WORKER` names.
//!
//! ```text
//! FOXLAUNCH_WORKER=target/release/my-worker foxlaunch train dqn --env corridor
//! ```

use foxlaunch_worker::environments::{Environment, Step};
use foxlaunch_worker::jobs::{Registry, main_with};
use foxlaunch_worker::seed::{Draw, below};
use serde::{Deserialize, Serialize};

/// A corridor with a door at its right end: the way there costs, the door pays.
struct Corridor {
    cells: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Walker {
    cell: u32,
    steps: u32,
}

impl Environment for Corridor {
    type State = Walker;
    type Action = usize;

    fn observation_len(&self) -> usize {
        1
    }

    /// Left, right.
    fn actions(&self) -> usize {
        2
    }

    fn reset(&self, draw: &mut Draw) -> Walker {
        Walker { cell: below(draw, self.cells as usize - 1) as u32, steps: 0 }
    }

    fn step(&self, state: &Walker, action: usize, _draw: &mut Draw) -> Step<Walker> {
        let cell = if action == 1 { state.cell + 1 } else { state.cell.saturating_sub(1) };
        let next = Walker { cell, steps: state.steps + 1 };
        let terminated = cell + 1 == self.cells;
        let reward = if terminated { 1.0 } else { -0.1 };
        Step { truncated: next.steps >= 40, next, reward, terminated }
    }

    fn observe(&self, state: &Walker, out: &mut [f32]) {
        out[0] = state.cell as f32 / self.cells as f32;
    }
}

fn main() -> std::process::ExitCode {
    let corridor = |_: &_| Ok(Corridor { cells: 8 });
    // a trader who shall not fall: losses count twice
    let timid = |_: &_, _: &_, _, step: &Step<_>| step.reward.min(2.0 * step.reward);
    main_with(Registry::built_in().environment("corridor", corridor).reward("timid", timid))
}
