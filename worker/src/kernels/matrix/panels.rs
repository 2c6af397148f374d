//! The right side of a product, laid out in the order in which it is read.

use super::Element;

/// A matrix [k, n] in panels of [`Element::PANEL`] columns: `[panels][k][PANEL]`, the last panel filled up with zeros.
/// Packing it once serves every product with it.
#[derive(Clone, Debug, Default)]
pub struct Panels<T> {
    rows: usize,
    columns: usize,
    values: Vec<T>,
    /// Where `values` reaches a cache line: a register read across two lines costs two reads.
    start: usize,
}

/// Bytes of a cache line.
const LINE: usize = 64;

impl<T: Element> Panels<T> {
    /// No matrix yet.
    pub fn new() -> Panels<T> {
        Panels { rows: 0, columns: 0, values: Vec::new(), start: 0 }
    }

    /// Rows, k.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns, n.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Takes the row-major matrix `values`, `[rows][columns]`.
    ///
    /// # Panics
    ///
    /// If there are not so many values.
    pub fn pack(&mut self, values: &[T], rows: usize, columns: usize) {
        assert_eq!(values.len(), rows * columns, "a matrix of {rows} by {columns}");
        let panels = self.fit(rows, columns);
        for (at, panel) in panels.chunks_exact_mut((rows * T::PANEL).max(1)).enumerate() {
            let first = at * T::PANEL;
            let width = T::PANEL.min(columns - first);
            for (to, from) in panel.chunks_exact_mut(T::PANEL).zip(values.chunks_exact(columns)) {
                if width == T::PANEL {
                    to.copy_from_slice(&from[first..first + T::PANEL]);
                } else {
                    to[..width].copy_from_slice(&from[first..first + width]);
                    to[width..].fill(T::default());
                }
            }
        }
    }

    /// Takes the transposed of the row-major matrix `values`, `[columns][rows]`.
    ///
    /// # Panics
    ///
    /// If there are not so many values.
    pub fn pack_transposed(&mut self, values: &[T], rows: usize, columns: usize) {
        assert_eq!(values.len(), rows * columns, "a matrix of {columns} by {rows}, to be transposed");
        /// Rows at a time: their lines stay in the nearest cache while all columns are read.
        const BLOCK: usize = 16;
        let panels = self.fit(rows, columns);
        for (at, panel) in panels.chunks_exact_mut((rows * T::PANEL).max(1)).enumerate() {
            let first = at * T::PANEL;
            let width = T::PANEL.min(columns - first);
            for (block, to) in panel.chunks_mut(BLOCK * T::PANEL).enumerate() {
                let height = to.len() / T::PANEL;
                for column in 0..width {
                    let from = &values[(first + column) * rows + block * BLOCK..][..height];
                    from.iter().zip(to[column..].iter_mut().step_by(T::PANEL)).for_each(|(from, to)| *to = *from);
                }
                to.chunks_exact_mut(T::PANEL).for_each(|row| row[width..].fill(T::default()));
            }
        }
    }

    /// The panel of columns from `at * PANEL` on: `[k][PANEL]`.
    pub(super) fn panel(&self, at: usize) -> &[T] {
        let len = self.rows * T::PANEL;
        &self.values[self.start + at * len..][..len]
    }

    /// Makes room for a matrix and gives it, with whatever it holds.
    fn fit(&mut self, rows: usize, columns: usize) -> &mut [T] {
        (self.rows, self.columns) = (rows, columns);
        let len = columns.div_ceil(T::PANEL) * rows * T::PANEL;
        let spare = LINE / size_of::<T>();
        if self.values.len() < len + spare {
            self.values = vec![T::default(); len + spare];
            self.start = self.values.as_ptr().align_offset(LINE).min(spare);
        }
        &mut self.values[self.start..self.start + len]
    }
}
