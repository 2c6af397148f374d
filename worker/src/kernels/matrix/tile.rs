//! The product itself: tiles of C whose sums stay in registers while k goes by.

use super::lanes::Lanes;
use super::{Element, Left, Panels, Product, Start};

/// Vectors of a tile's row.
const WIDE: usize = 2;
/// Terms that are added before the next tile's turn: as much of a panel as stays in the nearest caches.
const DEEP: usize = 512;

/// Computes `product` with vectors `V`.
///
/// The processor must have the instructions of `V`.
#[inline(always)]
pub(super) fn product<V>(product: Product<'_, V::Number>)
where
    V: Lanes,
    V::Number: Element,
{
    let Product { left, right, start, out } = product;
    let (k, n) = (right.rows(), right.columns());
    if n == 0 || out.is_empty() {
        return;
    }
    let m = out.len() / n;
    assert_eq!(out.len(), m * n, "rows of {n} columns");
    let (Left::Rows(a) | Left::Columns(a)) = left;
    assert_eq!(a.len(), m * k, "a left side of {m} by {k}");
    if let Start::Row(row) = start {
        assert_eq!(row.len(), n, "a start for {n} columns");
    }
    let mut from = 0;
    loop {
        let depth = (k - from).min(DEEP);
        // what was added so far is what the next terms are added to: the order stays
        let start = if from == 0 { start } else { Start::There };
        match left {
            Left::Rows(a) => block::<V, false>(a, k, right, from, depth, start, out),
            Left::Columns(a) => block::<V, true>(a, m, right, from, depth, start, out),
        }
        from += depth;
        if from >= k {
            return;
        }
    }
}

/// The terms `from..from + depth` of all elements. `stride`: between the rows of `a` as it lies in memory.
#[inline(always)]
fn block<V, const COLUMNS: bool>(
    a: &[V::Number],
    stride: usize,
    right: &Panels<V::Number>,
    from: usize,
    depth: usize,
    start: Start<'_, V::Number>,
    out: &mut [V::Number],
) where
    V: Lanes,
    V::Number: Element,
{
    let (panel_width, width) = (V::Number::PANEL, WIDE * V::LEN);
    let n = right.columns();
    let m = out.len() / n;
    for first in (0..n).step_by(width) {
        let panel = right.panel(first / panel_width);
        let b = &panel[from * panel_width..(from + depth) * panel_width];
        let columns = width.min(n - first);
        let mut row = 0;
        while row < m {
            let place = if COLUMNS { from * stride + row } else { row * stride + from };
            let at = Tile {
                a: a.as_ptr().wrapping_add(place),
                stride,
                b: b.as_ptr().wrapping_add(first % panel_width),
                depth,
                start,
                first,
                columns,
                c: out[row * n + first..].as_mut_ptr(),
                n,
            };
            let rows = (m - row).min(V::ROWS);
            // SAFETY: the tile's rows are in `a` and `out`, its columns in `out`, `start` and the panel, which is filled
            // up to a multiple of `width`, and `depth` is within `k`: slices were cut to these sizes above, and `m`,
            // `n` and `k` are those of all operands.
            row += unsafe {
                match rows {
                    8.. => at.compute::<V, 8, COLUMNS>(),
                    6.. => at.compute::<V, 6, COLUMNS>(),
                    4.. => at.compute::<V, 4, COLUMNS>(),
                    2.. => at.compute::<V, 2, COLUMNS>(),
                    _ => at.compute::<V, 1, COLUMNS>(),
                }
            };
        }
    }
}

/// A tile of C and what it is made of.
struct Tile<'a, T> {
    a: *const T,
    stride: usize,
    /// The tile's columns in the panel's first row.
    b: *const T,
    depth: usize,
    start: Start<'a, T>,
    first: usize,
    /// How many of the tile's columns C has.
    columns: usize,
    c: *mut T,
    n: usize,
}

impl<T: Element> Tile<'_, T> {
    /// Computes `ROWS` rows, and gives their number.
    ///
    /// # Safety
    ///
    /// `ROWS` rows from `a` and `c` on exist, with `depth` terms and `columns` columns.
    #[inline(always)]
    unsafe fn compute<V: Lanes<Number = T>, const ROWS: usize, const COLUMNS: bool>(&self) -> usize {
        let whole = self.columns == WIDE * V::LEN;
        let mut sums = [[V::splat(T::default()); WIDE]; ROWS];
        // SAFETY: see this function: only existing rows and columns are read.
        unsafe {
            match self.start {
                Start::Zero => {}
                Start::Row(row) => {
                    let row = self.read::<V>(row.as_ptr().add(self.first), whole);
                    sums = [row; ROWS];
                }
                Start::There => {
                    for (i, sums) in sums.iter_mut().enumerate() {
                        *sums = self.read::<V>(self.c.add(i * self.n), whole);
                    }
                }
            }
            // wrapping, since each checked addition would cost as much as what it leads to
            let (mut a, mut b) = (self.a, self.b);
            for _ in 0..self.depth {
                let right: [V; WIDE] = std::array::from_fn(|j| V::load(b.wrapping_add(j * V::LEN)));
                for (i, sums) in sums.iter_mut().enumerate() {
                    let place = if COLUMNS { i } else { i.wrapping_mul(self.stride) };
                    let left = V::splat(a.wrapping_add(place).read_unaligned());
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = left.mul_add(right, *sum);
                    }
                }
                b = b.wrapping_add(T::PANEL);
                a = a.wrapping_add(if COLUMNS { self.stride } else { 1 });
            }
            for (i, sums) in sums.iter().enumerate() {
                let c = self.c.add(i * self.n);
                if whole {
                    sums.iter().enumerate().for_each(|(j, sum)| sum.store(c.add(j * V::LEN)));
                } else {
                    let mut row = [[T::default(); 16]; WIDE];
                    let flat = row.as_mut_ptr().cast::<T>();
                    sums.iter().enumerate().for_each(|(j, sum)| sum.store(flat.add(j * V::LEN)));
                    std::ptr::copy_nonoverlapping(flat, c, self.columns);
                }
            }
        }
        ROWS
    }

    /// A row of the tile's columns from `from` on; zeros where C has none.
    ///
    /// # Safety
    ///
    /// `columns` numbers can be read there.
    #[inline(always)]
    unsafe fn read<V: Lanes<Number = T>>(&self, from: *const T, whole: bool) -> [V; WIDE] {
        // SAFETY: as the caller says; the copy has room for two of the widest vectors.
        unsafe {
            if whole {
                return std::array::from_fn(|j| V::load(from.add(j * V::LEN)));
            }
            let mut row = [[T::default(); 16]; WIDE];
            let flat = row.as_mut_ptr().cast::<T>();
            std::ptr::copy_nonoverlapping(from, flat, self.columns);
            std::array::from_fn(|j| V::load(flat.add(j * V::LEN)))
        }
    }
}
