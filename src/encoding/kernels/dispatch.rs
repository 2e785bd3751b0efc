//! Plain loops compiled twice: for the baseline processor, and for AVX2, chosen at run time.
//!
//! A closure runs in a function that is compiled for AVX2; what is called within it takes part only
//! if it is `inline(always)`.

/// Runs `body` compiled for the widest registers of this processor. Only code that is
/// `inline(always)` takes part, so closures are written `simd(#[inline(always)] || …)`.
#[inline(always)]
pub(crate) fn simd<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as just checked.
        return unsafe { avx2(body) };
    }
    body()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<R>(body: impl FnOnce() -> R) -> R {
    body()
}
