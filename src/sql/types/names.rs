//! The meaning of type names in SQL that DataFusion does not know, or understands differently from
//! PostgreSQL and DuckDB.
//!
//! Where this stands on the road of a query: while a statement is planned. In DataFusion (55.2),
//! `TIMESTAMP` has nanoseconds, which end in 2262; here it has microseconds unless a precision is
//! given, and so has `TIME`, as in files. In DataFusion, `TIMESTAMPTZ` has a zone only if the
//! session has one, and then the timestamps of `generate_series` have it, too; here the zone is
//! always UTC. The unsigned integers have their names in DuckDB.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, TimezoneInfo};

use crate::sql::types::zones::UTC;

/// Plans the types of a statement.
#[derive(Debug)]
pub(in crate::sql) struct SqlTypes;

impl TypePlanner for SqlTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> DataFusionResult<Option<FieldRef>> {
        Ok(arrow_type(sql_type).map(|data_type| Arc::new(Field::new("", data_type, true))))
    }
}

/// `None` if DataFusion plans the type.
fn arrow_type(sql_type: &SqlType) -> Option<DataType> {
    match sql_type {
        SqlType::Timestamp(digits, zone) => {
            let unit = match digits {
                Some(0) => TimeUnit::Second,
                Some(3) => TimeUnit::Millisecond,
                None | Some(6) => TimeUnit::Microsecond,
                Some(9) => TimeUnit::Nanosecond,
                _ => return None,
            };
            let has_zone = matches!(zone, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone);
            Some(DataType::Timestamp(unit, has_zone.then(|| UTC.into())))
        }
        SqlType::Blob(None) => Some(DataType::Binary),
        SqlType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => match digits {
            None | Some(6) => Some(DataType::Time64(TimeUnit::Microsecond)),
            Some(9) => Some(DataType::Time64(TimeUnit::Nanosecond)),
            _ => None,
        },
        SqlType::UTinyInt => Some(DataType::UInt8),
        SqlType::USmallInt => Some(DataType::UInt16),
        SqlType::UBigInt => Some(DataType::UInt64),
        _ => None,
    }
}
