//! `sty serve`: many clients of one store. `clickhouse` turns answers into bytes and bytes into
//! rows, as ClickHouse's clients want and send them.

#[expect(dead_code, reason = "the server calls it")]
mod clickhouse;
