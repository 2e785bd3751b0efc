//! Which plans become fragments, with what content, and why others do not.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array};
use arrow_schema::{DataType as ArrowType, SchemaRef};
use datafusion::arrow::compute as arrow;

use crate::expr::{DatePart, Function, Part};
use crate::sql::Parameters;
use crate::sql::Session;
use crate::sql::store_tests::Both;
use crate::sql::tests::rows;

/// The line of the physical plan that shows a fragment.
fn fragment(both: &Both, sql: &str) -> String {
    let plan = both.explain(&format!("EXPLAIN {sql}"));
    let physical = plan.split("physical_plan").nth(1).unwrap_or_default();
    let line = physical.lines().map(str::trim).find_map(|line| line.split_once("StoreFragment: "));
    line.map(|(_, line)| line.to_owned()).unwrap_or_else(|| panic!("{sql}\n{plan}"))
}

#[test]
fn aggregates_become_fragments() {
    let both = Both::new();
    for (sql, expected) in [
        ("SELECT count(*) FROM t", "table=t, aggregates=[count(*)]"),
        ("SELECT word, count(*) FROM t GROUP BY 1", "table=t, group=[word], aggregates=[count(*)]"),
        ("SELECT DISTINCT word, flag FROM t", "table=t, group=[word, flag]"),
        (
            "SELECT count(small), min(word), max(at), sum(small), avg(small) FROM t",
            "table=t, aggregates=[count(small), min(word), max(at), sum(CAST(small AS Int64)), \
             avg(CAST(small AS Int64))]",
        ),
        (
            "SELECT count(*) FILTER (WHERE id > 5) FROM t WHERE flag AND word LIKE 'blue%'",
            "table=t, aggregates=[count(*) FILTER (WHERE id > 5)], filter=[flag, word LIKE \
             'blue%']",
        ),
        (
            "SELECT y, sum(z) FROM (SELECT date_part('year', at) AS y, id + 1 AS z FROM t) WHERE \
             z > 10 GROUP BY y",
            "table=t, group=[date_part('year', at)], aggregates=[sum(id + 1)], filter=[id + 1 > \
             10]",
        ),
        (
            "SELECT word, count(DISTINCT id), count(DISTINCT small) FILTER (WHERE flag), \
             stddev(id), count(*) FROM t GROUP BY 1",
            "table=t, group=[word], aggregates=[count(DISTINCT id), count(DISTINCT small) FILTER \
             (WHERE flag), stddev(CAST(id AS Float64)), count(*)]",
        ),
        (
            "SELECT var_pop(small), var_samp(small), stddev_pop(float), approx_distinct(word) \
             FROM t",
            "table=t, aggregates=[var_pop(CAST(small AS Float64)), var(CAST(small AS Float64)), \
             stddev_pop(float), approx_distinct(word)]",
        ),
        (
            "SELECT upper(w), n FROM (SELECT word AS w, count(*) AS n, sum(id) AS s FROM t GROUP \
             BY word) ORDER BY s DESC, n LIMIT 5 OFFSET 2",
            "table=t, group=[word], aggregates=[count(*), sum(id)], order=[sum(id) DESC NULLS \
             FIRST, count(*) ASC NULLS LAST], first=7",
        ),
        ("SELECT DISTINCT word FROM t LIMIT 4", "table=t, group=[word], first=4"),
        (
            "SELECT word, first_value(id ORDER BY at), last_value(small ORDER BY float DESC) \
             FILTER (WHERE flag) FROM t GROUP BY 1",
            "table=t, group=[word], aggregates=[first_value(id ORDER BY at ASC NULLS LAST), \
             last_value(small ORDER BY float DESC NULLS FIRST) FILTER (WHERE flag)]",
        ),
        // These need all groups.
        (
            "SELECT word, count(*) FROM t GROUP BY word ORDER BY upper(word) LIMIT 4",
            "table=t, group=[word], aggregates=[count(*)], dynamic=[DynamicFilter [ empty ]]",
        ),
        (
            "SELECT word FROM t GROUP BY word HAVING count(*) > 1 LIMIT 4",
            "table=t, group=[word], aggregates=[count(*)]",
        ),
        // The projection made for common subexpressions is inlined.
        (
            "SELECT sum(id * 2), max(id * 2) FROM t AS a GROUP BY upper(word), upper(word) || 'x'",
            "table=t, group=[upper(word), upper(word) || 'x'], aggregates=[sum(id * 2), max(id * \
             2)]",
        ),
        // Sums over one integer expression share one, unless it may wrap around.
        (
            "SELECT word, sum(id), sum(id + 1), max(id) FROM t GROUP BY word",
            "table=t, group=[word], aggregates=[sum(id), sum(id + 1), max(id)]",
        ),
        (
            "SELECT sum(small * 2), sum(small * 3), sum(id - 1), sum(float), sum(float + 1) FROM t",
            "table=t, aggregates=[sum(CAST(small AS Int64)), sum(id - 1), sum(float), sum(float + \
             1)]",
        ),
        (
            "WITH c AS (SELECT id AS i FROM t WHERE id < 10) SELECT max(i) FROM c",
            "table=t, aggregates=[max(id)], filter=[id < 10]",
        ),
    ] {
        assert_eq!(fragment(&both, sql), expected, "{sql}");
    }
}

#[test]
fn first_rows_become_fragments() {
    let both = Both::new();
    for (sql, expected) in [
        (
            "SELECT id, word FROM t ORDER BY at DESC LIMIT 5",
            "table=t, order=[at DESC NULLS FIRST], limit=5, columns=[id, word, at]",
        ),
        (
            "SELECT id + 1 AS n FROM t WHERE flag ORDER BY n LIMIT 5 OFFSET 3",
            "table=t, order=[id + 1 ASC NULLS LAST], limit=8, skip=3, columns=[id + 1], \
             filter=[flag]",
        ),
    ] {
        assert_eq!(fragment(&both, sql), expected, "{sql}");
        // The rows come in order, so nothing sorts them again.
        let plan = both.explain(&format!("EXPLAIN {sql}"));
        assert!(!plan.contains("SortExec"), "{plan}");
    }
}

#[test]
fn sides_become_fragments_of_their_own() {
    let both = Both::new();
    for (sql, fragments) in [
        ("SELECT max(id) FROM t UNION ALL SELECT min(id) FROM t", 2),
        (
            "SELECT * FROM (SELECT word, count(*) c FROM t GROUP BY 1) a JOIN (SELECT word, \
             sum(id) FROM t GROUP BY 1) b USING (word)",
            2,
        ),
        ("SELECT (SELECT max(id) FROM t), id FROM t WHERE id < 3", 1),
        ("SELECT id FROM t WHERE id IN (SELECT max(id) FROM t GROUP BY word)", 1),
        ("SELECT count(*) FROM (SELECT word FROM t GROUP BY word HAVING count(*) > 3)", 1),
        ("SELECT word, count(*) c FROM t GROUP BY 1 ORDER BY c DESC LIMIT 3", 1),
        // DataFusion splits it into two aggregates; the lower one becomes a fragment.
        ("SELECT word, sum(DISTINCT id), max(small) FROM t GROUP BY word", 1),
    ] {
        let plan = both.explain(&format!("EXPLAIN {sql}"));
        let physical = plan.split("physical_plan").nth(1).unwrap_or_default();
        assert_eq!(physical.matches("StoreFragment").count(), fragments, "{sql}\n{plan}");
    }
    assert!(both.explain("EXPLAIN ANALYZE SELECT max(id) FROM t").contains("StoreFragment"));
}

#[test]
fn a_filter_whose_conditions_have_parts_in_common_is_one_of_the_scan() {
    let both = Both::new();
    let sql = "SELECT a.id, b.small FROM t a JOIN t b ON a.id = b.id WHERE (b.word = 'alpha' AND \
               (b.small = 1 OR b.small = 2)) OR (b.word = 'alpha' AND b.flag) OR (b.word = 'beta' \
               AND (b.small = 1 OR b.small = 2))";
    let plan = both.explain(&format!("EXPLAIN {sql}"));
    let physical = plan.split("physical_plan").nth(1).unwrap_or_default();
    assert!(!physical.contains("FilterExec") && physical.contains(", filter=["), "{plan}");
}

#[test]
fn a_key_that_is_never_null_is_declared_so() {
    let both = Both::new();
    let half = "SELECT CASE WHEN word LIKE '%%' THEN word ELSE 'other' END AS w, max(id) AS m \
        FROM t GROUP BY 1";
    // The schema of a union is made before its halves are simplified.
    let rows =
        rows(&both.session, &format!("SELECT count(*) FROM ({half} UNION SELECT 'none', 3)"), &[])
            .unwrap();
    assert_eq!(rows.len(), 1);
}

#[test]
fn candidates_that_are_not_taken_say_why() {
    let both = Both::new();
    for (sql, why) in [
        (
            "SELECT word, flag, count(*) FROM t GROUP BY GROUPING SETS ((word), (flag))",
            "grouping sets",
        ),
        ("SELECT word, count(*) FROM t GROUP BY ROLLUP (word)", "grouping sets"),
        ("SELECT median(id) FROM t", "the aggregate median"),
        ("SELECT array_agg(id ORDER BY at) FROM t", "ORDER BY in array_agg"),
        (
            "SELECT first_value(id ORDER BY at, small) FROM t",
            "an ORDER BY of several keys in first_value",
        ),
        ("SELECT last_value(id ORDER BY word) FROM t", "last_value by a key of type Utf8View"),
        (
            "SELECT sum(DISTINCT id), sum(DISTINCT small) FROM t GROUP BY word",
            "sum of distinct values",
        ),
        ("SELECT stddev(DISTINCT id), count(*) FROM t", "stddev of distinct values"),
        (
            "SELECT approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM t",
            "ORDER BY in approx_percentile_cont",
        ),
        ("SELECT max(id + random()) FROM t", "random is volatile"),
        ("SELECT max([id]) FROM t WHERE id > 7", "max of type List"),
        ("SELECT avg(money::decimal(38,4)) FROM t WHERE id > 7", "unsupported: Average of"),
        ("SELECT count(*) FROM (SELECT * FROM t LIMIT 10)", "over a limit"),
        ("SELECT count(*) FROM t a JOIN t b ON a.id = b.small", "over a join"),
        (
            "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY at) AS r FROM t)",
            "over a window",
        ),
        ("SELECT count(*) FROM t WHERE id > (SELECT avg(small) FROM t)", "a subquery"),
        ("SELECT count(*) FROM t GROUP BY [word]", "a key of type"),
    ] {
        let plan = both.explain(&format!("EXPLAIN {sql}"));
        assert!(plan.contains(&format!("native=no: {why}")), "{sql}\n{plan}");
    }
    // A scan below no candidate gives no reason.
    assert!(!both.explain("EXPLAIN SELECT id FROM t WHERE id < 5").contains("native"));
}

#[test]
fn the_setting_turns_it_off_and_on() {
    let both = Both::new();
    let sql = "EXPLAIN SELECT word, count(DISTINCT id) FROM t GROUP BY 1";
    let set = |value: &str| rows(&both.session, &format!("SET sty.native = {value}"), &[]);
    set("off").unwrap();
    let plan = both.explain(sql);
    assert!(!plan.contains("StoreFragment") && !plan.contains("native="), "{plan}");
    assert_eq!(rows(&both.session, "SHOW sty.native", &[]).unwrap(), ["sty.native|off"]);
    set("on").unwrap();
    assert!(both.explain(sql).contains("StoreFragment"));
    assert!(set("perhaps").unwrap_err().to_string().contains("on or off"));
    assert!(rows(&both.session, "SET sty.nativ = on", &[]).is_err());
}

fn schema(session: &Session, sql: &str) -> Result<SchemaRef, String> {
    let statements = session.parse(sql).unwrap();
    let stream = session.execute(&statements[0], &Parameters::default());
    stream.map(|stream| stream.schema()).map_err(|error| error.to_string())
}

/// Compares answers with and without the executor, with rows sorted.
#[test]
fn names_types_and_answers_are_those_of_datafusion() {
    let both = Both::new();
    let session = &both.session;
    let mut wrong = Vec::new();
    for sql in [
        "SELECT count(*), count(1), count(NULL), count(small), sum(small), avg(small), min(word) \
         FROM t",
        "SELECT count(*), count(small), sum(small + 1), avg(small), avg(7 - 2 * id), min(3 - id), \
         max(small * 2), sum(money + 1), avg(money), min(money * 2), sum(id::bigint unsigned), \
         max(extra), count(extra + 1), count(word), sum(id * id), min(id::double) FROM t",
        "SELECT count(small), sum(small + 1), avg(7 - 2 * id), min(3 - id), max(money - 1), \
         avg(money) FROM t WHERE id < 17000",
        "SELECT id / 9000, count(small), sum(small - id), avg(id), min(id), max(extra), \
         sum(money) FROM t WHERE id >= 0 GROUP BY 1",
        "SELECT sum(float) FILTER (WHERE id < 20000), avg(single), max(single), min(float) FROM t",
        "SELECT sum(money), min(money), max(day), min(at), sum(1), max('x') FROM t WHERE id < 0",
        "SELECT avg(money), sum(money), sum(small::smallint) a, max(id::bigint unsigned) b FROM t \
         WHERE small BETWEEN 0 AND 9",
        "SELECT word, sum(money * (1 - money)), avg(money), min(money), max(money * small), \
         count(money), sum(money + id) FROM t WHERE money > 2 GROUP BY 1",
        "SELECT max(money - small), avg(money * 2), min(money) FROM t WHERE money BETWEEN 1 AND 7",
        "SELECT money, min(day), count(*) FROM t WHERE money <> 3 GROUP BY 1",
        "SELECT round(single), floor(single), count(*), avg(single), sum(single) FROM t WHERE \
         single > 1.5 GROUP BY 1, 2",
        "SELECT single, count(*) FROM t WHERE single < 100 GROUP BY 1",
        "SELECT word AS w, flag, count(*) AS \"N\", sum(id) % 7 FROM t GROUP BY word, flag",
        "SELECT date_part('year', at) AS y, round(float) r, count(*) FROM t WHERE id < 20000 \
         GROUP BY 1, 2",
        "SELECT date_trunc('month', at), day + 1, max(long), min(long) FROM t GROUP BY 1, 2",
        "SELECT extra, min(id), count(DISTINCT word), count(DISTINCT small) FROM t GROUP BY extra \
         HAVING count(*) > 2",
        "SELECT upper(word), CASE WHEN flag THEN 'a' WHEN small > 3 THEN 'b' END, count(*) FROM t \
         GROUP BY 1, 2",
        "SELECT 7, count(*) FROM t GROUP BY 1",
        "SELECT NULL, word, count(*) FROM t GROUP BY 1, 2",
        "SELECT coalesce(extra, -1), id / 5000, id + 3 FROM t WHERE id % 1000 = 7 GROUP BY ALL",
        "SELECT a.id / 10000, count(*) FROM t a WHERE word LIKE '%7' OR starts_with(word, 'blue') \
         GROUP BY 1",
        "SELECT DISTINCT money::bigint / 1000, money < 5 FROM t",
        "SELECT max(c), sum(c), count(*) FROM (SELECT word, count(*) AS c FROM t GROUP BY word)",
        "SELECT sum(DISTINCT small), count(DISTINCT small), max(small) FROM t",
        "SELECT sum(DISTINCT id / 100) FROM t",
        "SELECT count(DISTINCT id), count(DISTINCT word), count(DISTINCT extra), count(DISTINCT \
         small + 1), count(DISTINCT flag), count(*) FROM t",
        "SELECT word, count(DISTINCT id), count(DISTINCT day), count(DISTINCT abs(float)), \
         count(DISTINCT money), count(DISTINCT long) FROM t GROUP BY 1",
        "SELECT id / 3, count(DISTINCT long), count(DISTINCT small) FILTER (WHERE flag) FROM t \
         WHERE id % 3 < 2 GROUP BY 1",
        "SELECT long, day, count(DISTINCT at), count(DISTINCT word || 'x') FROM t GROUP BY 1, 2",
        "SELECT extra, round(stddev(small), 9), round(var_pop(id), 3) FROM t GROUP BY 1",
        "SELECT id, word, long FROM t ORDER BY id DESC LIMIT 10",
        "SELECT small, id FROM t ORDER BY small DESC, id LIMIT 10 OFFSET 5",
        "SELECT float, id FROM t WHERE flag ORDER BY float NULLS LAST, id DESC LIMIT 12",
        "SELECT id + 1 AS n, upper(word) FROM t ORDER BY word, n LIMIT 3",
        "SELECT (SELECT max(id) FROM t) - id, small FROM t WHERE id IN (SELECT max(id) FROM t \
         GROUP BY word) ORDER BY 1 LIMIT 9",
        "SELECT a.word, c, s FROM (SELECT word, count(*) c FROM t GROUP BY 1) a JOIN (SELECT \
         word, sum(id) s FROM t GROUP BY 1) b USING (word)",
        "SELECT max(id) FROM t UNION ALL SELECT min(id) FROM t UNION ALL SELECT id FROM t WHERE \
         id = 3",
        "WITH RECURSIVE r(n) AS (SELECT 1::bigint UNION ALL SELECT n + (SELECT count(*) FROM t \
         WHERE id < 2) FROM r WHERE n < 9) SELECT * FROM r",
        "SELECT count(*) FROM t WHERE id > (SELECT avg(small) FROM t)",
        "SELECT id FROM t o WHERE id < 50 AND small = (SELECT min(small) FROM t i WHERE i.id = \
         o.id)",
    ] {
        let sorted = |sql: &str| {
            let mut all = rows(session, sql, &[]).map_err(|error| error.to_string())?;
            all.sort();
            Ok::<_, String>(all)
        };
        rows(session, "SET sty.native = on", &[]).unwrap();
        let (ours, our_schema) = (sorted(sql), schema(session, sql));
        rows(session, "SET sty.native = off", &[]).unwrap();
        let (theirs, their_schema) = (sorted(sql), schema(session, sql));
        if our_schema != their_schema {
            wrong.push(format!("{sql}\nours   {our_schema:?}\ntheirs {their_schema:?}"));
        }
        if ours != theirs {
            let short = |answer: &Result<Vec<String>, String>| match answer {
                Ok(rows) => {
                    format!("{} rows: {:?}", rows.len(), rows.iter().take(5).collect::<Vec<_>>())
                }
                Err(error) => error.clone(),
            };
            wrong.push(format!("{sql}\nours   {}\ntheirs {}", short(&ours), short(&theirs)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn approximate_counts_are_close_to_datafusions() {
    let both = Both::new();
    let sql = "SELECT approx_distinct(id), approx_distinct(word), approx_distinct(small) FROM t";
    let counts = |native: &str| -> Vec<f64> {
        rows(&both.session, &format!("SET sty.native = {native}"), &[]).unwrap();
        let line = rows(&both.session, sql, &[]).unwrap().remove(0);
        line.split('|').map(|cell| cell.parse().unwrap()).collect()
    };
    for (ours, theirs) in counts("on").into_iter().zip(counts("off")) {
        assert!((ours - theirs).abs() <= 0.05 * ours, "{ours} {theirs}");
    }
}

#[test]
fn parts_of_dates_are_equal_to_arrows() {
    #[derive(Debug)]
    struct Arrows(arrow::DatePart);
    impl Function for Arrows {
        fn evaluate(&self, inputs: &[ArrayRef], _: usize) -> crate::Result<ArrayRef> {
            arrow::date_part(&inputs[0], self.0)
                .map_err(|e| crate::Error::corrupt(0, e.to_string()))
        }
    }
    let mut random = 7u64;
    let mut words = Vec::new();
    for bits in 1..64 {
        for _ in 0..300 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            words.push((random as i64) >> (64 - bits));
        }
    }
    // Starts and ends of days around turns of centuries.
    words.extend((-100_000..100_000).step_by(37).flat_map(|day| [day * 86_400, day * 86_400 - 1]));
    for (name, part) in [
        ("year", arrow::DatePart::Year),
        ("quarter", arrow::DatePart::Quarter),
        ("month", arrow::DatePart::Month),
        ("day", arrow::DatePart::Day),
        ("doy", arrow::DatePart::DayOfYear),
        ("dow", arrow::DatePart::DayOfWeekSunday0),
        ("hour", arrow::DatePart::Hour),
        ("minute", arrow::DatePart::Minute),
        ("second", arrow::DatePart::Second),
    ] {
        use datafusion::arrow::datatypes::TimeUnit::{
            Microsecond, Millisecond, Nanosecond, Second,
        };
        let mut types = vec![ArrowType::Date32];
        types.extend(
            [Second, Millisecond, Microsecond, Nanosecond]
                .map(|unit| ArrowType::Timestamp(unit, None)),
        );
        for data_type in types {
            let arrows: Arc<dyn Function> = Arc::new(Arrows(part));
            let Some(own) =
                DatePart::new(Part::from_name(name).unwrap(), &data_type, Arc::clone(&arrows))
            else {
                assert_eq!(data_type, ArrowType::Date32, "{name}");
                continue;
            };
            let array = |words: &[i64]| -> ArrayRef {
                let days = Int32Array::from_iter_values(words.iter().map(|w| *w as i32));
                let units: ArrayRef = match data_type {
                    ArrowType::Date32 => Arc::new(days),
                    _ => Arc::new(Int64Array::from(words.to_vec())),
                };
                arrow::cast(&units, &data_type).unwrap()
            };
            // One value out of range makes our function leave the whole array to arrow's.
            for words in words.chunks(5) {
                let array = array(words);
                let array = std::slice::from_ref(&array);
                let (ours, theirs) =
                    (own.evaluate(array, words.len()), arrows.evaluate(array, words.len()));
                assert_eq!(&ours.unwrap(), &theirs.unwrap(), "{name} of {data_type}: {words:?}");
            }
            for pair in words.windows(2) {
                let (least, greatest) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
                let (least, greatest) = match data_type {
                    ArrowType::Date32 => (i64::from(least as i32), i64::from(least as i32) + 3),
                    _ => (least, greatest.min(least.saturating_add(1 << 40))),
                };
                if let Some(steady) = own.constant_over(least, greatest) {
                    let ends = arrows
                        .evaluate(&[array(&[least, least.midpoint(greatest), greatest])], 3)
                        .unwrap();
                    let ends = ends.as_any().downcast_ref::<Int32Array>().unwrap().clone();
                    assert!(
                        ends.iter().all(|end| end.map(i64::from) == Some(steady)),
                        "{name} {data_type} {pair:?}"
                    );
                }
            }
        }
    }
}
