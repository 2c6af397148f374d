//! Vectors of a processor's registers, behind one trait.
//!
//! All of them multiply and add with one rounding, so a product has the same bits whichever is used.

/// Some numbers side by side.
///
/// # Safety
///
/// `load` and `store` touch `LEN` numbers from the pointer on, and nothing else. A type may be used only where the
/// processor has its instructions.
pub(super) unsafe trait Lanes: Copy {
    /// The number type.
    type Number: Copy;
    /// How many numbers.
    const LEN: usize;
    /// Rows of a tile: with two vectors for each, their sums and what is multiplied fit into the registers.
    const ROWS: usize;

    /// Reads from `from`, which need not be aligned.
    ///
    /// # Safety
    ///
    /// `LEN` numbers can be read there.
    unsafe fn load(from: *const Self::Number) -> Self;

    /// Writes to `to`, which need not be aligned.
    ///
    /// # Safety
    ///
    /// `LEN` numbers can be written there.
    unsafe fn store(self, to: *mut Self::Number);

    /// `x` in every place.
    fn splat(x: Self::Number) -> Self;

    /// `self * by + to`, rounded once.
    fn mul_add(self, by: Self, to: Self) -> Self;
}

macro_rules! portable {
    ($t:ident, $len:literal) => {
        // SAFETY: `load` and `store` read and write one array of `LEN` numbers.
        unsafe impl Lanes for [$t; $len] {
            type Number = $t;
            const LEN: usize = $len;
            const ROWS: usize = 4;

            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                // SAFETY: the caller vouches for `LEN` numbers; an unaligned read is allowed.
                unsafe { from.cast::<Self>().read_unaligned() }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                // SAFETY: the caller vouches for `LEN` numbers; an unaligned write is allowed.
                unsafe { to.cast::<Self>().write_unaligned(self) }
            }

            #[inline(always)]
            fn splat(x: $t) -> Self {
                [x; $len]
            }

            #[inline(always)]
            fn mul_add(self, by: Self, to: Self) -> Self {
                std::array::from_fn(|i| $t::mul_add(self[i], by[i], to[i]))
            }
        }
    };
}

portable!(f32, 4);
portable!(f64, 2);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    macro_rules! registers {
        ($v:ident, $t:ident, $len:literal, $rows:literal, $load:ident, $store:ident, $splat:ident, $fma:ident) => {
            // SAFETY: the intrinsics read and write one register of `LEN` numbers.
            unsafe impl Lanes for $v {
                type Number = $t;
                const LEN: usize = $len;
                const ROWS: usize = $rows;

                #[inline(always)]
                unsafe fn load(from: *const $t) -> Self {
                    // SAFETY: the caller vouches for `LEN` numbers, and the type for the instruction.
                    unsafe { $load(from) }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut $t) {
                    // SAFETY: the caller vouches for `LEN` numbers, and the type for the instruction.
                    unsafe { $store(to, self) }
                }

                #[inline(always)]
                fn splat(x: $t) -> Self {
                    // SAFETY: the type is used only where its instructions are.
                    unsafe { $splat(x) }
                }

                #[inline(always)]
                fn mul_add(self, by: Self, to: Self) -> Self {
                    // SAFETY: the type is used only where its instructions are.
                    unsafe { $fma(self, by, to) }
                }
            }
        };
    }

    registers!(__m512, f32, 16, 8, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps);
    registers!(__m512d, f64, 8, 8, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_fmadd_pd);
    registers!(__m256, f32, 8, 6, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps);
    registers!(__m256d, f64, 4, 6, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_fmadd_pd);
}
