//! Revisions of ClickHouse's protocol, on which the bytes of `Native` depend.

/// From this revision on, each column says how it is serialized.
pub(super) const WITH_SERIALIZATION: u32 = 54_454;
