//! `SHOW TABLES` without the views of the information schema and the tables of attached stores, and
//! `SHOW COLUMNS` as `DESCRIBE`.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) takes the first for
//! all that the information schema lists.

use datafusion::sql::sqlparser::ast::{
    DescribeAlias, ShowStatementFilter, ShowStatementFilterPosition, ShowStatementOptions,
    Statement, Value,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::syntax::dialect::StylobateDialect;
use crate::sql::syntax::folded;

/// Rewords a statement that shows something.
pub(in crate::sql) fn reword(statement: &mut Statement) {
    let reworded = match statement {
        Statement::ShowTables {
            extended: false,
            full: false,
            terse: false,
            history: false,
            external: false,
            show_options: options @ ShowStatementOptions { show_in: None, .. },
        } => tables(options, "public"),
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

/// The query that lists the tables of a schema.
pub(in crate::sql) fn tables(options: &ShowStatementOptions, schema: &str) -> Option<Statement> {
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
    let sql = format!(
        "SELECT table_name, table_type FROM information_schema.tables \
         WHERE table_schema = {}{alike} ORDER BY table_name",
        Value::SingleQuotedString(schema.to_owned())
    );
    parsed(&sql)
}

/// The only statement of a text.
pub(in crate::sql) fn parsed(sql: &str) -> Option<Statement> {
    let dialect = StylobateDialect::new(sql.len());
    Parser::new(&dialect).try_with_sql(sql).ok()?.parse_statement().ok()
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
