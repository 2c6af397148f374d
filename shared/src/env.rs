//! Every environment variable that a worker is started with: torchrun's contract, so that unmodified
//! PyTorch scripts run, and foxlaunch's own, which `World::join` of `foxlaunch-worker` reads.

macro_rules! variables {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: &str = $text;)+

        /// Every variable with its meaning, in order; the README's table is made from it.
        pub const TABLE: &[(&str, &str)] = &[$(($text, concat!($($doc),+))),+];
    };
}

variables! {
    /// The worker's number in the world, from 0.
    RANK = "RANK";
    /// The worker's number on this host, from 0. Under `run` it indexes the visible devices.
    LOCAL_RANK = "LOCAL_RANK";
    /// How many workers there are.
    WORLD_SIZE = "WORLD_SIZE";
    /// How many workers there are on this host.
    LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE";
    /// The host's number: 0.
    GROUP_RANK = "GROUP_RANK";
    /// The number of hosts: 1.
    GROUP_WORLD_SIZE = "GROUP_WORLD_SIZE";
    /// torchrun's role: `default`.
    ROLE_NAME = "ROLE_NAME";
    /// The worker's number within its role: RANK.
    ROLE_RANK = "ROLE_RANK";
    /// How many workers share the role: WORLD_SIZE.
    ROLE_WORLD_SIZE = "ROLE_WORLD_SIZE";
    /// Where rank 0 listens if the program wants TCP: 127.0.0.1.
    MASTER_ADDR = "MASTER_ADDR";
    /// A port that stays reserved for rank 0 until the program binds it.
    MASTER_PORT = "MASTER_PORT";
    /// How often the job was restarted: FOXLAUNCH_ATTEMPT - 1.
    TORCHELASTIC_RESTART_COUNT = "TORCHELASTIC_RESTART_COUNT";
    /// How often the job may be restarted.
    TORCHELASTIC_MAX_RESTARTS = "TORCHELASTIC_MAX_RESTARTS";
    /// The run's name.
    TORCHELASTIC_RUN_ID = "TORCHELASTIC_RUN_ID";
    /// A file into which the program may write its error as JSON.
    TORCHELASTIC_ERROR_FILE = "TORCHELASTIC_ERROR_FILE";
    /// Threads for each worker: allowed cores divided by local workers, unless it was set.
    OMP_NUM_THREADS = "OMP_NUM_THREADS";
    /// As OMP_NUM_THREADS, for rayon.
    RAYON_NUM_THREADS = "RAYON_NUM_THREADS";
    /// As OMP_NUM_THREADS, for candle.
    CANDLE_NUM_THREADS = "CANDLE_NUM_THREADS";
    /// The devices that the worker may see.
    CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES";
    /// PCI_BUS_ID, so that ordinals mean the same to the driver's library and to CUDA.
    CUDA_DEVICE_ORDER = "CUDA_DEVICE_ORDER";
    /// The run's name.
    FOXLAUNCH_RUN_ID = "FOXLAUNCH_RUN_ID";
    /// The run's folder.
    FOXLAUNCH_RUN_DIR = "FOXLAUNCH_RUN_DIR";
    /// Which start of the world this is, from 1.
    FOXLAUNCH_ATTEMPT = "FOXLAUNCH_ATTEMPT";
    /// The name of the channel to the launcher; its presence is what makes `World::join` join.
    FOXLAUNCH_CHANNEL = "FOXLAUNCH_CHANNEL";
    /// Under `run`: a named pipe for lines as `step 12/500 loss=0.3`, `checkpoint` or `evaluate`, by which progress is shown and hangs are seen.
    FOXLAUNCH_PROGRESS = "FOXLAUNCH_PROGRESS";
    /// `cpu` or `cuda`: what this worker computes on.
    FOXLAUNCH_DEVICE = "FOXLAUNCH_DEVICE";
    /// Which of the visible devices is this worker's own.
    FOXLAUNCH_DEVICE_ORDINAL = "FOXLAUNCH_DEVICE_ORDINAL";
}

/// The worker binary to use instead of the one beside the launcher. Read by the launcher.
pub const FOXLAUNCH_WORKER: &str = "FOXLAUNCH_WORKER";
/// Set to anything but 0, ranks compare their collective calls before they make them, also where that costs time (NCCL).
/// Read by the worker.
pub const FOXLAUNCH_CHECK_COLLECTIVES: &str = "FOXLAUNCH_CHECK_COLLECTIVES";
/// Settings from the environment: `FOXLAUNCH_SET_DQN__GAMMA=0.9` is `--set dqn.gamma=0.9`.
pub const FOXLAUNCH_SET_PREFIX: &str = "FOXLAUNCH_SET_";
/// The end of the pipe that tells supervisor and guardian of each other's death. Between those two only.
pub const FOXLAUNCH_LIFELINE: &str = "FOXLAUNCH_LIFELINE";
/// A folder for sockets that the guardian makes and removes. Between guardian and supervisor only.
pub const FOXLAUNCH_SCRATCH: &str = "FOXLAUNCH_SCRATCH";
/// An inherited torchrun setting that would send a worker to another job's store.
pub const TORCHELASTIC_USE_AGENT_STORE: &str = "TORCHELASTIC_USE_AGENT_STORE";

/// What a launch inside a worker must not pass on: the contract that it was itself started under.
pub fn inherited_contract() -> impl Iterator<Item = &'static str> {
    let kept = [OMP_NUM_THREADS, RAYON_NUM_THREADS, CANDLE_NUM_THREADS, CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER];
    TABLE.iter().map(|(name, _)| *name).filter(move |name| !kept.contains(name)).chain([
        TORCHELASTIC_USE_AGENT_STORE,
        FOXLAUNCH_LIFELINE,
        FOXLAUNCH_SCRATCH,
    ])
}
