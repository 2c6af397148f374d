//! Loops over the widest registers that the processor has.

use super::matrix::Instructions;

/// Does `work` where the compiler may use the processor's widest registers, though the rest of the program must run on any.
/// The numbers are the same: nothing is added in another order, and nothing is fused.
#[inline(always)]
pub fn widest<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn avx512<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        #[target_feature(enable = "avx2")]
        fn avx2<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        match Instructions::widest() {
            // SAFETY: `widest` asked the processor, which has these instructions.
            Instructions::Avx512 => return unsafe { avx512(work) },
            // SAFETY: as above.
            Instructions::Avx2 => return unsafe { avx2(work) },
            Instructions::Portable => {}
        }
    }
    work()
}
