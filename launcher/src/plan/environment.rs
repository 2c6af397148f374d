//! The environment that each worker is started with, as changes to ours.

use super::LaunchPlan;
use foxlaunch_shared::env::*;
use foxlaunch_shared::ids::{Attempt, DeviceId, Rank};
use foxlaunch_shared::protocol::Transport;
use foxlaunch_shared::run_dir::RunDir;
use std::ffi::OsString;
use std::path::PathBuf;

/// What is known only when a worker is about to be started.
#[derive(Clone, Debug)]
pub struct AtStart {
    /// The name of its channel to us.
    pub channel: String,
    /// The port held for rank 0's program, under `run`.
    pub master_port: Option<u16>,
    /// The pipe for its progress, under `run`.
    pub progress: Option<PathBuf>,
}

/// The variables that `rank` is started with. A user's own choice stays where it is not part of the contract.
pub fn of_worker(plan: &LaunchPlan, rank: Rank, attempt: Attempt, start: Option<&AtStart>) -> Vec<(String, OsString)> {
    let world = plan.world().to_string();
    let (device, ordinal, visible) = device_of(plan, rank);
    let local_rank = if plan.sees_own_only && visible.is_some() { "0".to_owned() } else { rank.to_string() };
    let mut set: Vec<(&str, OsString)> = vec![
        (RANK, rank.to_string().into()),
        (LOCAL_RANK, local_rank.into()),
        (WORLD_SIZE, world.clone().into()),
        (LOCAL_WORLD_SIZE, world.clone().into()),
        (GROUP_RANK, "0".into()),
        (GROUP_WORLD_SIZE, "1".into()),
        (ROLE_NAME, "default".into()),
        (ROLE_RANK, rank.to_string().into()),
        (ROLE_WORLD_SIZE, world.into()),
        (MASTER_ADDR, "127.0.0.1".into()),
        (TORCHELASTIC_RESTART_COUNT, (attempt.0 - plan.attempt.0).to_string().into()),
        (TORCHELASTIC_MAX_RESTARTS, plan.max_restarts.to_string().into()),
        (TORCHELASTIC_RUN_ID, plan.run_id.to_string().into()),
        (TORCHELASTIC_ERROR_FILE, RunDir::error_file(&plan.logs, attempt, rank).into()),
        (FOXLAUNCH_RUN_ID, plan.run_id.to_string().into()),
        (FOXLAUNCH_RUN_DIR, plan.run.path().into()),
        (FOXLAUNCH_ATTEMPT, attempt.to_string().into()),
        (FOXLAUNCH_DEVICE, device.into()),
        (FOXLAUNCH_DEVICE_ORDINAL, ordinal.to_string().into()),
    ];
    if let Some(visible) = visible {
        set.push((CUDA_VISIBLE_DEVICES, visible.into()));
        set.push((CUDA_DEVICE_ORDER, "PCI_BUS_ID".into()));
    }
    if let Some(start) = start {
        set.push((FOXLAUNCH_CHANNEL, start.channel.clone().into()));
        set.extend(start.master_port.map(|port| (MASTER_PORT, port.to_string().into())));
        set.extend(start.progress.as_ref().map(|pipe| (FOXLAUNCH_PROGRESS, pipe.into())));
    }
    // Threads: the user's own number stays.
    for name in [OMP_NUM_THREADS, RAYON_NUM_THREADS, CANDLE_NUM_THREADS] {
        if std::env::var_os(name).is_none() {
            set.push((name, plan.placement.threads.to_string().into()));
        }
    }
    // NCCL listens on the host's address otherwise, and opens a port for its own monitor.
    if plan.own_worker && plan.transport == Transport::Nccl {
        for (name, value) in [("NCCL_SOCKET_IFNAME", "lo"), ("NCCL_RAS_ENABLE", "0")] {
            if std::env::var_os(name).is_none() {
                set.push((name, value.into()));
            }
        }
    }
    set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// `cpu` or `cuda`, the ordinal among the visible devices, and `CUDA_VISIBLE_DEVICES` where it is to be set.
fn device_of(plan: &LaunchPlan, rank: Rank) -> (&'static str, usize, Option<String>) {
    let token = |device: &DeviceId| match device {
        DeviceId::Cpu => None,
        DeviceId::Cuda(token) => Some(token.clone()),
    };
    match token(&plan.devices[rank.index()]) {
        None => ("cpu", 0, None),
        Some(own) if plan.sees_own_only => ("cuda", 0, Some(own)),
        Some(_) => {
            let all: Vec<String> = plan.devices.iter().filter_map(token).collect();
            ("cuda", rank.index(), Some(all.join(",")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::Gpu;
    use crate::plan::placement::{Bind, Placement};
    use foxlaunch_shared::ids::RunId;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn plan(devices: &[&str], sees_own_only: bool) -> LaunchPlan {
        let devices: Vec<DeviceId> = devices.iter().map(|token| DeviceId::Cuda((*token).to_owned())).collect();
        LaunchPlan {
            verb: "run".into(),
            run_id: RunId("r".into()),
            run: RunDir::new("/r"),
            logs: "/r/logs".into(),
            attempt: Attempt(3),
            program: "true".into(),
            args: vec![],
            own_worker: sees_own_only,
            transport: super::super::transport(&devices),
            gpus: vec![None; devices.len()],
            bind: Bind::Auto,
            placement: Placement { cores: vec![None; devices.len()], threads: 4 },
            devices,
            sees_own_only,
            grace: Duration::ZERO,
            peer_grace: Duration::ZERO,
            init_timeout: Duration::ZERO,
            hang_timeout: None,
            checkpoint_timeout: None,
            evaluation_timeout: None,
            hang_on: None,
            max_restarts: 2,
            restart_window: None,
            min_procs: None,
            checkpoint_signal: None,
            time_limit: None,
            stdin_rank: None,
            show_ranks: None,
            outputs: Default::default(),
            secrets: Default::default(),
            notes: vec![],
            settings: None,
            preview: None,
        }
    }

    fn of(plan: &LaunchPlan, rank: u32) -> BTreeMap<String, String> {
        let all = of_worker(plan, Rank(rank), Attempt(4), None);
        all.into_iter().map(|(name, value)| (name, value.into_string().unwrap())).collect()
    }

    #[test]
    fn a_program_sees_all_devices_and_local_rank_indexes_them() {
        let env = of(&plan(&["4", "GPU-a"], false), 1);
        assert_eq!((env[CUDA_VISIBLE_DEVICES].as_str(), env[LOCAL_RANK].as_str()), ("4,GPU-a", "1"));
        assert_eq!(env[FOXLAUNCH_DEVICE_ORDINAL], "1");
        assert_eq!(env[TORCHELASTIC_RESTART_COUNT], "1");
        assert!(!env.contains_key("NCCL_SOCKET_IFNAME"));
    }

    #[test]
    fn a_world_of_fewer_workers_calls_devices_by_their_own_names() {
        let mut plan = plan(&["0", "1", "MIG-x"], true);
        let (name, pci_bus_id) = (String::new(), String::new());
        let gpu = Gpu { index: 1, uuid: "GPU-b".into(), name, memory_bytes: 0, memory_free_bytes: 0, pci_bus_id };
        plan.gpus[1] = Some(gpu);
        let fewer = plan.for_places(&[Rank(1), Rank(2)]);
        let (one, two) = (of(&fewer, 0), of(&fewer, 1));
        assert_eq!(
            (one[WORLD_SIZE].as_str(), one[RANK].as_str(), one[CUDA_VISIBLE_DEVICES].as_str()),
            ("2", "0", "GPU-b")
        );
        assert_eq!((two[RANK].as_str(), two[CUDA_VISIBLE_DEVICES].as_str()), ("1", "MIG-x"));
        assert_eq!(plan.for_places(&[Rank(2)]).transport, Transport::Solo);
    }

    #[test]
    fn our_own_worker_sees_its_device_only() {
        let env = of(&plan(&["4", "GPU-a"], true), 1);
        assert_eq!((env[CUDA_VISIBLE_DEVICES].as_str(), env[LOCAL_RANK].as_str()), ("GPU-a", "0"));
        assert_eq!((env[RANK].as_str(), env[FOXLAUNCH_DEVICE_ORDINAL].as_str()), ("1", "0"));
        assert_eq!(env["NCCL_SOCKET_IFNAME"], "lo");
    }

    #[test]
    fn every_variable_that_is_set_is_documented() {
        let start = AtStart { channel: "c".into(), master_port: Some(1), progress: Some("p".into()) };
        for (name, _) in of_worker(&plan(&["0", "1"], true), Rank(0), Attempt(3), Some(&start)) {
            assert!(TABLE.iter().any(|(known, _)| *known == name) || name.starts_with("NCCL_"), "{name}");
        }
    }
}
