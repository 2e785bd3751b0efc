//! `SHOW COLUMNS` as `DESCRIBE`, and `SHOW TABLES` as a query over one schema.
//!
//! Where this stands on the road of a query: after parsing, or before planning, where the schema
//! that is in use is known. DataFusion (55.2) lists all that the information schema has.

use datafusion::sql::sqlparser::ast::{
    DescribeAlias, Expr, ShowStatementFilter, ShowStatementFilterPosition, ShowStatementOptions,
    Statement, Value,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::syntax::dialect::StylobateDialect;
use crate::sql::syntax::folded;

/// Rewords a statement that shows something.
pub(in crate::sql) fn reword(statement: &mut Statement) {
    let reworded = match statement {
        Statement::ShowColumns { extended: false, full: false, show_options } => {
            columns(show_options)
        }
        _ => None,
    };
    if let Some(reworded) = reworded {
        *statement = reworded;
    }
}

/// The schema of a SHOW TABLES FROM.
pub(in crate::sql) fn schema(options: &ShowStatementOptions) -> Option<String> {
    let name = options.show_in.as_ref()?.parent_name.as_ref()?.0.last()?.as_ident()?;
    Some(folded(name).to_lowercase())
}

/// The query that lists the tables of a schema, and the views of another.
pub(in crate::sql) fn tables(
    options: &ShowStatementOptions,
    schema: &str,
    views_of: Option<&str>,
) -> Option<Statement> {
    let ShowStatementOptions {
        show_in: _,
        starts_with: None,
        limit: None,
        limit_from: None,
        filter_position,
    } = options
    else {
        return None;
    };
    let alike = match filter_position {
        None => String::new(),
        Some(
            ShowStatementFilterPosition::Infix(filter)
            | ShowStatementFilterPosition::Suffix(filter),
        ) => {
            let (operator, pattern) = match filter {
                ShowStatementFilter::Like(pattern) => ("LIKE", pattern),
                ShowStatementFilter::ILike(pattern) => ("ILIKE", pattern),
                _ => return None,
            };
            format!(" AND table_name {operator} {}", Value::SingleQuotedString(pattern.clone()))
        }
    };
    let is_of =
        |schema: &str| format!("table_schema = {}", Value::SingleQuotedString(schema.to_owned()));
    let views = views_of.map_or_else(String::new, |schema| {
        format!(" OR table_type = 'VIEW' AND {}", is_of(schema))
    });
    let sql = format!(
        "SELECT table_name, table_type FROM information_schema.tables \
         WHERE ({}{views}){alike} ORDER BY table_name",
        is_of(schema)
    );
    parsed(&sql)
}

/// The only statement of a text.
pub(in crate::sql) fn parsed(sql: &str) -> Option<Statement> {
    let dialect = StylobateDialect::new(sql.len());
    Parser::new(&dialect).try_with_sql(sql).ok()?.parse_statement().ok()
}

/// An expression of ours.
pub(in crate::sql) fn parsed_expr(text: &str) -> Option<Expr> {
    let dialect = StylobateDialect::new(text.len());
    Parser::new(&dialect).try_with_sql(text).ok()?.parse_expr().ok()
}

fn columns(options: &ShowStatementOptions) -> Option<Statement> {
    let ShowStatementOptions {
        show_in: Some(table),
        starts_with: None,
        limit: None,
        limit_from: None,
        filter_position: None,
    } = options
    else {
        return None;
    };
    Some(Statement::ExplainTable {
        describe_alias: DescribeAlias::Describe,
        hive_format: None,
        has_table_keyword: false,
        table_name: table.parent_name.clone()?,
    })
}
