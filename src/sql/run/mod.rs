//! Fragments and scans of ours as leaves of DataFusion's physical plans; the answer; what was
//! counted.

pub(in crate::sql) mod table;
pub(in crate::sql) mod stream;
pub(in crate::sql) mod settings;
pub(in crate::sql) mod cancel;
pub(in crate::sql) mod dynamic;
pub(in crate::sql) mod provider;
pub(in crate::sql) mod report;
pub(in crate::sql) mod exec;
pub(in crate::sql) mod generate;
pub(in crate::sql) mod coalesce;
pub(in crate::sql) mod leaf;
pub(in crate::sql) mod node;
pub(in crate::sql) mod runs;
pub(in crate::sql) mod scan;
pub(in crate::sql) mod statistics;
