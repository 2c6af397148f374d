//! Which cores each worker runs on, and with how many threads. The choice is pure; the machine is read beside it.

use crate::devices::{Gpu, numa};
use crate::process::{affinity, allowed_cores};
use clap::ValueEnum;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Where workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Bind {
    /// On the cores of their GPU's NUMA node; on the processor, wherever the kernel puts them
    Auto,
    /// Wherever the kernel puts them
    None,
    /// On the cores of a NUMA node: their GPU's; on the processor, the nodes in turn
    Numa,
    /// On cores of their own
    Cores,
}

/// What is known of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores that we may run on.
    pub allowed: BTreeSet<usize>,
    /// Cores whose time we may use: fewer than are allowed where a cgroup has a quota.
    pub share: usize,
    /// The cores of each NUMA node.
    pub nodes: BTreeMap<u32, BTreeSet<usize>>,
}

impl Machine {
    /// This one.
    pub fn read() -> Machine {
        let allowed = affinity::allowed(numa::parse_cores);
        Machine { allowed, share: allowed_cores(), nodes: numa::nodes(Path::new("/sys")) }
    }
}

/// The workers' places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// For each worker, the cores that it may run on; `None` for all.
    pub cores: Vec<Option<BTreeSet<usize>>>,
    /// Threads for each worker.
    pub threads: usize,
}

impl Placement {
    /// For workers on `gpus`, one each (`None` for the processor, or an unknown device), on this machine. Who has told
    /// OpenMP where to run has chosen already.
    pub fn choose(bind: Bind, gpus: &[Option<Gpu>]) -> Placement {
        let own = ["OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"];
        let has_chosen = bind == Bind::Auto && own.iter().any(|name| std::env::var_os(name).is_some());
        let bind = if has_chosen { Bind::None } else { bind };
        let node_of = |gpu: &Gpu| numa::node_of(Path::new("/sys"), &gpu.pci_bus_id);
        let nodes: Vec<Option<u32>> = gpus.iter().map(|gpu| gpu.as_ref().and_then(node_of)).collect();
        place(bind, &Machine::read(), gpus.iter().any(Option::is_some), &nodes)
    }

    /// The choice in words, where there is one.
    pub fn words(&self) -> Option<String> {
        let mut groups: Vec<(&BTreeSet<usize>, Vec<usize>)> = Vec::new();
        for (rank, cores) in self.cores.iter().enumerate() {
            let Some(cores) = cores else { continue };
            match groups.iter_mut().find(|(known, _)| *known == cores) {
                Some((_, ranks)) => ranks.push(rank),
                None => groups.push((cores, vec![rank])),
            }
        }
        let group = |(cores, ranks): (&BTreeSet<usize>, Vec<usize>)| {
            let plural = if ranks.len() == 1 { "" } else { "s" };
            let ranks = numa::show_cores(&ranks.into_iter().collect());
            format!("rank{plural} {ranks} on cores {}", numa::show_cores(cores))
        };
        let list: Vec<String> = groups.into_iter().map(group).collect();
        let threads = self.threads;
        (!list.is_empty()).then(|| format!("{} ({threads} threads each; --bind none leaves it)", list.join(", ")))
    }
}

/// Chooses for one worker per entry of `nodes`, the node of its GPU where that is known. `on_gpus` says whether the
/// workers compute on GPUs.
pub fn place(bind: Bind, machine: &Machine, on_gpus: bool, nodes: &[Option<u32>]) -> Placement {
    let workers = nodes.len();
    let near = |node: &u32| -> BTreeSet<usize> {
        machine.nodes.get(node).into_iter().flatten().filter(|core| machine.allowed.contains(core)).copied().collect()
    };
    let usable: Vec<u32> = machine.nodes.keys().copied().filter(|node| !near(node).is_empty()).collect();
    let cores: Vec<Option<BTreeSet<usize>>> = match bind {
        // On the processor two jobs that know nothing of each other would choose the same cores, and others stay idle.
        Bind::Auto if !on_gpus => vec![None; workers],
        Bind::None => vec![None; workers],
        // With one node there is nothing to choose.
        Bind::Auto | Bind::Numa if usable.len() < 2 => vec![None; workers],
        Bind::Auto | Bind::Numa => (0..workers)
            .map(|rank| if on_gpus { nodes[rank] } else { Some(usable[rank * usable.len() / workers]) })
            .map(|node| node.map(|node| near(&node)).filter(|cores| !cores.is_empty()))
            .collect(),
        Bind::Cores => own_cores(machine, &usable, on_gpus, nodes, near),
    };
    let share = |own: &BTreeSet<usize>| {
        let sharing = cores.iter().flatten().filter(|other| *other == own).count();
        own.len() / sharing.max(1)
    };
    let least = cores.iter().flatten().map(share).min().unwrap_or(usize::MAX);
    let threads = (machine.share / workers.max(1)).min(least).max(1);
    Placement { cores, threads }
}

/// Disjoint parts of equal size: of the GPU's node among the workers there, or on the processor of all cores.
fn own_cores(
    machine: &Machine,
    usable: &[u32],
    on_gpus: bool,
    nodes: &[Option<u32>],
    near: impl Fn(&u32) -> BTreeSet<usize>,
) -> Vec<Option<BTreeSet<usize>>> {
    let mut given = vec![None; nodes.len()];
    let mut split = |cores: Vec<usize>, ranks: Vec<usize>| {
        // Fewer cores than workers cannot be own ones.
        if !ranks.is_empty() && cores.len() >= ranks.len() {
            for (n, rank) in ranks.iter().enumerate() {
                let part = |n: usize| n * cores.len() / ranks.len();
                given[*rank] = Some(cores[part(n)..part(n + 1)].iter().copied().collect());
            }
        }
    };
    if on_gpus {
        for node in usable {
            let ranks = (0..nodes.len()).filter(|rank| nodes[*rank] == Some(*node)).collect();
            split(near(node).into_iter().collect(), ranks);
        }
    } else {
        // Neighbours first, so that a worker's cores are of one node where that is possible.
        let mut cores: Vec<usize> = usable.iter().flat_map(&near).collect();
        cores.extend(machine.allowed.iter().filter(|core| !cores.contains(core)).copied().collect::<Vec<_>>());
        split(cores, (0..nodes.len()).collect());
    }
    given
}

#[cfg(test)]
mod tests;
