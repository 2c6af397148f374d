use super::*;
use proptest::prelude::*;

fn cores(list: &str) -> BTreeSet<usize> {
    numa::parse_cores(list).unwrap()
}

/// Two nodes of eight cores.
fn machine(allowed: &str, share: usize) -> Machine {
    Machine { allowed: cores(allowed), share, nodes: BTreeMap::from([(0, cores("0-7")), (1, cores("8-15"))]) }
}

fn lists(placement: &Placement) -> Vec<String> {
    placement.cores.iter().map(|cores| cores.as_ref().map_or("all".to_owned(), numa::show_cores)).collect()
}

const FOUR: [Option<u32>; 4] = [Some(0), Some(0), Some(1), Some(1)];

#[test]
fn workers_run_near_their_gpu_within_what_is_allowed() {
    let placement = place(Bind::Auto, &machine("0-15", 16), true, &FOUR);
    assert_eq!(
        (lists(&placement), placement.threads),
        (vec!["0-7".into(), "0-7".into(), "8-15".into(), "8-15".into()], 4)
    );
    assert_eq!(
        placement.words().unwrap(),
        "ranks 0-1 on cores 0-7, ranks 2-3 on cores 8-15 (4 threads each; --bind none leaves it)"
    );
    let placement = place(Bind::Auto, &machine("4-9", 6), true, &FOUR);
    assert_eq!((lists(&placement)[0].as_str(), lists(&placement)[3].as_str(), placement.threads), ("4-7", "8-9", 1));
    let placement = place(Bind::Numa, &machine("0-15", 16), true, &[Some(1), None, Some(9)]);
    assert_eq!(lists(&placement), ["8-15", "all", "all"], "an unknown node is no reason to guess");
}

#[test]
fn where_there_is_nothing_to_choose_nothing_is_bound() {
    for placement in [
        place(Bind::Auto, &machine("0-3", 4), true, &FOUR),
        place(Bind::None, &machine("0-15", 16), true, &FOUR),
        place(Bind::Auto, &machine("0-15", 16), false, &[None; 4]),
    ] {
        assert_eq!(placement.cores, vec![None; 4]);
        assert_eq!(placement.words(), None);
    }
}

#[test]
fn own_cores_are_shared_out_evenly() {
    let placement = place(Bind::Cores, &machine("0-15", 16), true, &FOUR);
    assert_eq!(lists(&placement), ["0-3", "4-7", "8-11", "12-15"]);
    let placement = place(Bind::Cores, &machine("0-9", 10), false, &[None; 3]);
    assert_eq!((lists(&placement), placement.threads), (vec!["0-2".into(), "3-5".into(), "6-9".into()], 3));
    let placement = place(Bind::Cores, &machine("0-1", 2), false, &[None; 3]);
    assert_eq!((placement.cores, placement.threads), (vec![None; 3], 1));
    let placement = place(Bind::Numa, &machine("0-15", 16), false, &[None; 4]);
    assert_eq!(lists(&placement), ["0-7", "0-7", "8-15", "8-15"]);
}

#[test]
fn a_quota_counts_as_cores() {
    assert_eq!(place(Bind::Cores, &machine("0-15", 3), false, &[None; 2]).threads, 1);
    assert_eq!(place(Bind::None, &machine("0-15", 8), false, &[None; 2]).threads, 4);
}

fn any_machine() -> impl Strategy<Value = Machine> {
    let nodes = proptest::collection::btree_map(0..4u32, proptest::collection::btree_set(0..32usize, 0..12), 0..4);
    (proptest::collection::btree_set(0..32usize, 1..32), 1..32usize, nodes).prop_map(|(allowed, share, mut nodes)| {
        // A core is of one node.
        let mut taken = BTreeSet::new();
        nodes.values_mut().for_each(|cores| cores.retain(|core| taken.insert(*core)));
        Machine { share: share.min(allowed.len()), allowed, nodes }
    })
}

proptest! {
    /// Whatever the machine: no worker is put where it may not run, or nowhere; own cores are no one else's, and
    /// all threads together are no more than the cores that there are, unless there are more workers.
    #[test]
    fn no_machine_is_misused(
        machine in any_machine(),
        on_gpus: bool,
        nodes in proptest::collection::vec(proptest::option::of(0..5u32), 1..9),
        bind in prop_oneof![Just(Bind::Auto), Just(Bind::None), Just(Bind::Numa), Just(Bind::Cores)],
    ) {
        let placement = place(bind, &machine, on_gpus, &nodes);
        prop_assert_eq!(placement.cores.len(), nodes.len());
        prop_assert!(placement.threads >= 1 && (placement.threads == 1 || placement.threads * nodes.len() <= machine.share));
        let mut seen = BTreeSet::new();
        for (rank, cores) in placement.cores.iter().enumerate() {
            let Some(cores) = cores else { continue };
            prop_assert!(bind != Bind::None && (on_gpus || bind != Bind::Auto));
            prop_assert!(!cores.is_empty() && cores.is_subset(&machine.allowed));
            if on_gpus {
                prop_assert!(cores.is_subset(&machine.nodes[&nodes[rank].unwrap()]));
            }
            prop_assert!(bind != Bind::Cores || cores.iter().all(|core| seen.insert(*core)), "shared");
        }
        prop_assert_eq!(place(bind, &machine, on_gpus, &nodes), placement);
    }
}
