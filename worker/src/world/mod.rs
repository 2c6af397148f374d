//! Which process of the world this is, its device, its collective, and its line to the launcher.

/// A process's place in the world.
pub struct World {}
