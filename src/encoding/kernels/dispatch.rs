//! Plain loops compiled twice: for every processor of the kind, and for registers of 32 bytes where
//! it has them, which is found out as the program runs.

/// Runs `body` compiled for the widest registers of this processor. It and what it calls take part
/// as far as they are `inline(always)`: a closure is written `simd(#[inline(always)] || …)`.
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
