//! The order of a model's variables in one flat buffer.
//!
//! `VarMap` iterates a hash map, in another order in every process. Here variables are sorted by name, and ranks
//! compare a digest before the first step, so that no rank adds a bias to another's kernel.

use super::ParallelError;
use crate::collectives::Collective;
use candle_core::{DType, Var};
use candle_nn::VarMap;
use foxlaunch_shared::ids::Rank;
use sha2::{Digest, Sha256};

/// One variable's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the `VarMap`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its number type.
    pub dtype: DType,
    /// Where it begins, in elements.
    pub offset: usize,
    /// How many elements it has.
    pub len: usize,
}

/// All variables of a model, sorted by name, laid end to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    entries: Vec<Entry>,
    total: usize,
}

impl Layout {
    /// The layout of all variables in `vars`.
    pub fn of(vars: &VarMap) -> Layout {
        let data = vars.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Layout::from_named(data.iter().map(|(name, var)| (name.clone(), var.dims().to_vec(), var.dtype())))
    }

    /// The layout of variables given as (name, shape, number type), in any order.
    pub fn from_named(variables: impl IntoIterator<Item = (String, Vec<usize>, DType)>) -> Layout {
        let mut variables: Vec<_> = variables.into_iter().collect();
        variables.sort_by(|a, b| a.0.cmp(&b.0));
        let mut total = 0;
        let place = |(name, shape, dtype): (String, Vec<usize>, DType)| {
            let (offset, len) = (total, shape.iter().product());
            total += len;
            Entry { name, shape, dtype, offset, len }
        };
        let entries = variables.into_iter().map(place).collect();
        Layout { entries, total }
    }

    /// The variables, sorted by name.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The variable called `name`.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok().map(|at| &self.entries[at])
    }

    /// How many elements all variables have together.
    pub fn total(&self) -> usize {
        self.total
    }

    /// SHA-256 over every variable's name, shape and number type, in order.
    pub fn digest(&self) -> [u8; 32] {
        let mut sum = Sha256::new();
        for entry in &self.entries {
            // every part has its length before it, so that no two layouts run into the same bytes
            sum.update((entry.name.len() as u64).to_le_bytes());
            sum.update(entry.name.as_bytes());
            sum.update((entry.shape.len() as u64).to_le_bytes());
            entry.shape.iter().for_each(|dim| sum.update((*dim as u64).to_le_bytes()));
            sum.update([entry.dtype.as_str().len() as u8]);
            sum.update(entry.dtype.as_str().as_bytes());
        }
        sum.finalize().into()
    }

    /// Makes sure that all ranks have this layout. Every rank gets the same answer.
    pub fn agree(&self, collective: &mut dyn Collective) -> Result<(), ParallelError> {
        const PART: usize = 32 + 8 + 8;
        let mut mine = [0; PART];
        mine[..32].copy_from_slice(&self.digest());
        mine[32..40].copy_from_slice(&(self.entries.len() as u64).to_le_bytes());
        mine[40..].copy_from_slice(&(self.total as u64).to_le_bytes());
        let mut all = vec![0; PART * collective.world_size().0 as usize];
        collective.all_gather(&mine, &mut all)?;
        let (first, rest) = all.split_at(PART);
        let Some(at) = rest.chunks_exact(PART).position(|part| part != first) else { return Ok(()) };
        let other = &rest[at * PART..][..PART];
        let how = if other[32..] == first[32..] {
            "as many variables and values, but other names, shapes or number types".to_owned()
        } else {
            format!("{}, where rank 0 has {}", counts(other), counts(first))
        };
        Err(ParallelError::OtherModel { rank: Rank(at as u32 + 1), how })
    }

    /// The variables themselves, in this order.
    pub(crate) fn variables(&self, vars: &VarMap) -> Result<Vec<Var>, ParallelError> {
        let data = vars.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.entries
            .iter()
            .map(|entry| {
                let wrong = |why: String| ParallelError::Variable { name: entry.name.clone(), why };
                let var = data.get(&entry.name).ok_or_else(|| wrong("it is no longer in the map".into()))?;
                if var.dims() != entry.shape {
                    return Err(wrong(format!("its shape was {:?} and is now {:?}", entry.shape, var.dims())));
                }
                Ok(var.clone())
            })
            .collect()
    }
}

fn counts(part: &[u8]) -> String {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    format!("{} variables with {} values", number(&part[32..40]), number(&part[40..48]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::Solo;
    use candle_core::Device;
    use candle_nn::Init;
    use proptest::prelude::*;

    fn map(names: &[&str]) -> VarMap {
        let vars = VarMap::new();
        for (at, name) in names.iter().enumerate() {
            vars.get((at + 1, 2), name, Init::Const(0.), DType::F32, &Device::Cpu).unwrap();
        }
        vars
    }

    #[test]
    fn variables_are_sorted_and_laid_end_to_end() {
        let layout = Layout::of(&map(&["w2", "b", "w1"]));
        let places: Vec<_> = layout.entries().iter().map(|e| (e.name.as_str(), e.offset, e.len)).collect();
        assert_eq!(places, [("b", 0, 4), ("w1", 4, 6), ("w2", 10, 2)]);
        assert_eq!(layout.total(), 12);
        assert_eq!(layout.entry("w1").map(|e| e.offset), Some(4));
        assert_eq!(layout.entry("w3"), None);
        layout.agree(&mut Solo::new()).unwrap();
    }

    proptest! {
        #[test]
        fn the_digest_sees_names_shapes_and_types_but_not_the_order(
            names in proptest::collection::hash_set("[a-z.]{1,6}", 1..8), swap in any::<prop::sample::Index>(),
        ) {
            let named: Vec<_> = names.iter().map(|n| (n.clone(), vec![n.len(), 3], DType::F32)).collect();
            let digest = Layout::from_named(named.clone()).digest();
            let reversed: Vec<_> = named.iter().rev().cloned().collect();
            prop_assert_eq!(Layout::from_named(reversed).digest(), digest);
            let at = swap.index(named.len());
            for change in [
                |v: &mut (String, Vec<usize>, DType)| v.0.push('x'),
                |v: &mut (String, Vec<usize>, DType)| v.1.reverse(),
                |v: &mut (String, Vec<usize>, DType)| v.2 = DType::F64,
            ] {
                let mut other = named.clone();
                change(&mut other[at]);
                prop_assert!(other == named || Layout::from_named(other).digest() != digest);
            }
        }
    }
}
