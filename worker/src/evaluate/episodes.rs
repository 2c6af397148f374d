//! Greedy episodes: what a policy is worth where there are no bars.

use super::Policy;
use crate::environments::Environment;
use crate::seed::Streams;
use anyhow::ensure;
use foxlaunch_shared::evaluation::Returns;

/// No episode of an evaluation is longer: an environment whose episodes never end would be walked for ever.
pub const MOST_STEPS: u64 = 1_000_000;

/// Returns and lengths of `episodes` episodes of `env` in which `policy` acts, from first states and draws that `draws` keys
/// by `purpose`. All run side by side, in batches of one size.
pub fn greedy_episodes<E: Environment>(
    env: &E,
    policy: &mut Policy<'_, E::Action>,
    episodes: usize,
    draws: &Streams,
    purpose: &str,
) -> anyhow::Result<Vec<(f64, u64)>> {
    let width = env.observation_len();
    let first = |i: usize| env.reset(&mut draws.part(u64::MAX).draw(purpose, i as u64, 0));
    let mut states: Vec<E::State> = (0..episodes).map(first).collect();
    let mut ended = vec![(0.0, 0u64); episodes];
    let mut running = vec![true; episodes];
    let mut observations = vec![0.0f32; episodes * width];
    for step in 1..=MOST_STEPS {
        for (state, row) in states.iter().zip(observations.chunks_exact_mut(width.max(1))) {
            env.observe(state, row);
        }
        let actions = policy(&observations, episodes)?;
        ensure!(actions.len() == episodes, "a policy gave {} actions for {episodes} rows", actions.len());
        for (i, action) in actions.into_iter().enumerate() {
            if !running[i] {
                continue;
            }
            let taken = env.step(&states[i], action, &mut draws.part(u64::MAX).draw(purpose, i as u64, step));
            ended[i].0 += taken.reward;
            ended[i].1 = step;
            running[i] = !taken.done();
            states[i] = taken.next;
        }
        if !running.iter().any(|r| *r) {
            return Ok(ended);
        }
    }
    anyhow::bail!("an episode was still running after {MOST_STEPS} steps: an environment must end its episodes")
}

/// What `episodes`, of which there is at least one, were worth.
pub fn returns_of(episodes: &[(f64, u64)]) -> Returns {
    let mut returns: Vec<f64> = episodes.iter().map(|e| e.0).collect();
    let count = returns.len() as f64;
    let mean = returns.iter().sum::<f64>() / count;
    let squares: f64 = returns.iter().map(|r| (r - mean) * (r - mean)).sum();
    let all = returns.clone();
    returns.sort_by(f64::total_cmp);
    let half = returns.len() / 2;
    let median = if returns.len() % 2 == 1 { returns[half] } else { (returns[half - 1] + returns[half]) / 2.0 };
    Returns {
        mean,
        median,
        deviation: (squares / count).sqrt(),
        least: returns[0],
        most: returns[returns.len() - 1],
        mean_length: episodes.iter().map(|e| e.1 as f64).sum::<f64>() / count,
        returns: all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environments::cart_pole::CartPole;

    #[test]
    fn a_controller_that_balances_is_worth_every_step_and_one_that_does_not_falls() {
        let env = CartPole::default();
        let draws = Streams::new(1);
        let mut balance = |observations: &[f32], _: usize| {
            let push = |x: &[f32]| usize::from(0.5 * x[0] + x[1] + 10.0 * x[2] + 2.0 * x[3] > 0.0);
            Ok(observations.chunks_exact(4).map(push).collect())
        };
        let episodes = greedy_episodes(&env, &mut balance, 5, &draws, "test").unwrap();
        assert_eq!(episodes, [(500.0, 500); 5]);
        let mut left = |_: &[f32], rows: usize| Ok(vec![0; rows]);
        let episodes = greedy_episodes(&env, &mut left, 6, &draws, "test").unwrap();
        assert!(episodes.iter().all(|(r, n)| *r < 12.0 && *r == *n as f64), "{episodes:?}");
        let again = greedy_episodes(&env, &mut left, 3, &draws, "test").unwrap();
        assert_eq!(again[..], episodes[..3], "an episode depends on its number alone");
        let returns = returns_of(&[(1.0, 4), (3.0, 2), (8.0, 3), (2.0, 3)]);
        assert_eq!((returns.mean, returns.median, returns.least, returns.most), (3.5, 2.5, 1.0, 8.0));
        assert_eq!((returns.mean_length, returns.returns.len()), (3.0, 4));
        assert!((returns.deviation - 7.25f64.sqrt()).abs() < 1e-12);
    }
}
