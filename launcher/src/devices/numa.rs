//! Which cores are near which device: the kernel's NUMA nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The cores of each NUMA node, read below `sys` (`/sys`).
pub fn nodes(sys: &Path) -> BTreeMap<u32, BTreeSet<usize>> {
    let entries = std::fs::read_dir(sys.join("devices/system/node")).into_iter().flatten().flatten();
    let node = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        let list = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
        Some((number, parse_cores(&list)?))
    };
    entries.filter_map(node).collect()
}

/// The node of the device at `pci_bus_id`, as the driver's library writes it (`00000000:3B:00.0`), if the kernel
/// knows it.
pub fn node_of(sys: &Path, pci_bus_id: &str) -> Option<u32> {
    // The kernel writes four digits for the domain, and small letters.
    let (domain, rest) = pci_bus_id.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    let folder = sys.join("bus/pci/devices").join(format!("{domain:04x}:{}", rest.to_lowercase()));
    // -1 where there is only one node, or the firmware does not tell.
    std::fs::read_to_string(folder.join("numa_node")).ok()?.trim().parse().ok()
}

/// Reads a list of cores as the kernel writes it: `0-3,8,10-11`; a blank one is empty.
pub fn parse_cores(text: &str) -> Option<BTreeSet<usize>> {
    // More than any kernel is built for; it keeps a broken list from filling the memory.
    const MOST: usize = 1 << 16;
    let mut cores = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST || first > last {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

/// Writes cores as the kernel does.
pub fn show_cores(cores: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for core in cores {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => ranges.push((*core, *core)),
        }
    }
    let range =
        |(first, last): (usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.into_iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nodes_and_devices_are_read_as_the_kernel_writes_them() {
        let sys = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = sys.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("devices/system/node/node0/cpulist", "0-1,4\n");
        write("devices/system/node/node1/cpulist", "2-3\n");
        write("devices/system/node/node2/cpulist", "\n");
        write("devices/system/node/possible", "0-2\n");
        write("bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
        write("bus/pci/devices/0000:5e:00.0/numa_node", "-1\n");
        let nodes = nodes(sys.path());
        assert_eq!(nodes.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((show_cores(&nodes[&0]), nodes[&2].len()), ("0-1,4".to_owned(), 0));
        assert_eq!(node_of(sys.path(), "00000000:3B:00.0"), Some(1));
        assert_eq!(node_of(sys.path(), "00000000:5E:00.0"), None);
        assert_eq!(node_of(sys.path(), "00000000:99:00.0"), None);
        assert_eq!(node_of(sys.path(), "nonsense"), None);
    }

    #[test]
    fn broken_lists_are_refused() {
        for text in ["a", "3-1", "1-", "-1", "0-4000000000", "1 2"] {
            assert_eq!(parse_cores(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn cores_are_read_as_they_are_written(cores in proptest::collection::btree_set(0..300usize, 0..40)) {
            prop_assert_eq!(parse_cores(&show_cores(&cores)), Some(cores));
        }
    }
}
