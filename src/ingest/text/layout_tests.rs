use arrow_array::temporal_conversions::timestamp_us_to_datetime;

use super::*;

/// `2020-12-13T10:30:00.5Z` of a text in the first layout that it fits, with the others.
fn shown(text: &str) -> String {
    let Some((set, value)) = possible(text.as_bytes()) else { return String::new() };
    let names: Vec<String> = layouts(set).map(|layout| format!("{layout:?}")).collect();
    let value = match value {
        Value::Bool(value) => value.to_string(),
        Value::Moment(Moment { instant, has_time }) => {
            let micros = instant.seconds * 1_000_000 + i64::from(instant.nanos / 1000);
            let time = timestamp_us_to_datetime(micros).unwrap();
            match has_time {
                true => format!("{time:?}{}", if instant.zoned { "Z" } else { "" }),
                false => format!("{:?}", time.date()),
            }
        }
    };
    format!("{value} {}", names.join(" "))
}

#[test]
fn texts_in_their_layouts() {
    for (text, expected) in [
        ("2020/01/02", "2020-01-02 YearFirst(47)"),
        ("2020-1-2", "2020-01-02 YearFirst(45)"),
        ("2020/1/2 10:30", "2020-01-02T10:30:00 YearFirst(47)"),
        ("2020-01-02 10:30 PM", "2020-01-02T22:30:00 YearFirst(45)"),
        ("13.12.2020", "2020-12-13 DayFirst(46)"),
        ("01.02.2020", "2020-02-01 DayFirst(46) MonthFirst(46)"),
        ("01/02/2020", "2020-02-01 DayFirst(47) MonthFirst(47)"),
        ("1/13/2020", "2020-01-13 MonthFirst(47)"),
        ("13-1-2020 8:05", "2020-01-13T08:05:00 DayFirst(45)"),
        ("12/31/2020, 12:05:06 AM", "2020-12-31T00:05:06 MonthFirst(47)"),
        ("12/31/2020 12:05pm", "2020-12-31T12:05:00 MonthFirst(47)"),
        ("31/12/2020T10:30:15.25+02:00", "2020-12-31T08:30:15.250Z DayFirst(47)"),
        ("01-Jan-2020", "2020-01-01 MonthName"),
        ("1 january 2020 10:30", "2020-01-01T10:30:00 MonthName"),
        ("7/Sept/2020", "2020-09-07 MonthName"),
        ("Tue, 01 Jul 2003 10:52:37 +0200", "2003-07-01T08:52:37Z Mail"),
        ("Tue, 1 Jul 2003 10:52 GMT", "2003-07-01T10:52:00Z Mail"),
        ("Tue, 1 Jul 2003 10:52:37 EST (winter)", "2003-07-01T15:52:37Z Mail"),
        ("Y", "true Booleans([\"n\", \"y\"])"),
        ("no", "false Booleans([\"no\", \"yes\"])"),
        ("T", "true Booleans([\"f\", \"t\"])"),
        ("", ""),
        ("30/02/2020", ""),
        ("13/13/2020", ""),
        ("1/2/20", ""),
        ("1/2-2020", ""),
        ("2020/01-02", ""),
        ("20200102", ""),
        ("01/02/2020 24:00", ""),
        ("01/02/2020 13:00 PM", ""),
        ("01/02/2020 0:30 AM", ""),
        ("01/02/2020 10:30.5", ""),
        ("01/02/2020x", ""),
        ("01-Foo-2020", ""),
        ("01-Jan/2020", ""),
        ("Tue, 01 Jul 2003", ""),
        ("Tue, 01 Jul 2003 10:52:37", ""),
        ("maybe", ""),
        ("on", ""),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn an_order_leaves_out_the_other() {
    let (set, _) = possible(b"01/02/2020").unwrap();
    for (order, layout) in [
        (DateOrder::DayFirst, Layout::DayFirst(b'/')),
        (DateOrder::MonthFirst, Layout::MonthFirst(b'/')),
    ] {
        assert_eq!(layouts(in_order(set, order)).collect::<Vec<_>>(), [layout]);
    }
    let (set, _) = possible(b"01-Jan-2020").unwrap();
    assert_eq!(in_order(set, DateOrder::DayFirst), set);
}

#[test]
fn dates_of_eight_digits() {
    assert_eq!(compact_date("19700102".into()), Some(1));
    for bad in ["1970010", "197001022", "19701301", "1970010x"] {
        assert_eq!(compact_date(bad.into()), None, "{bad}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
        let _ = (possible(&bytes), compact_date(Text::from(bytes.as_slice())));
        for layout in INFERRED {
            let _ = layout.value(&bytes);
        }
    }
}
