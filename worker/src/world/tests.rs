//! Joining with and without a launcher.

use super::*;

#[test]
fn without_a_launcher_it_is_alone() {
    let mut world = World::join().unwrap();
    assert_eq!((world.rank(), world.world_size()), (Rank(0), WorldSize(1)));
    world.progress(1, Phase::Step, None);
    world.collective().barrier().unwrap();
    assert_eq!(world.stop_requested(), None);
    world.leave();
}
