use super::*;

#[test]
fn integers_lose_nothing() {
    for value in [
        0,
        1,
        -1,
        9,
        10,
        99_999_999,
        100_000_000,
        9_999_999_999_999_999,
        i64::MAX,
        i64::MIN,
        -12_345_678,
    ] {
        assert_eq!(int64(value.to_string().as_str().into()), Some(value));
        let behind = format!("{value}7,3");
        assert_eq!(int64(Text::new(behind.as_bytes(), behind.len() - 3)), Some(value));
    }
    for bad in [
        "",
        "-",
        "007",
        "-007",
        "+1",
        " 1",
        "1 ",
        "-0",
        "9223372036854775808",
        "1.0",
        "1e3",
        "12345678x",
        "0x1",
    ] {
        assert_eq!(int64(bad.into()), None, "{bad}");
    }
    assert_eq!(uint64("18446744073709551615".into()), Some(u64::MAX));
    assert_eq!(uint64("18446744073709551616".into()), None);
    assert_eq!(uint64("-1".into()), None);
    assert_eq!(int128_lenient(" +007 ".into()), Some(7));
}

#[test]
fn floats_are_correctly_rounded() {
    for text in [
        "0.65",
        "-73.9876022338867",
        "40.7",
        "-0",
        "-0.0",
        "1e300",
        "2.5e-8",
        "123456789.123456789",
        "0.1",
        ".5",
        "5.",
        "9007199254740992",
        "-1234567.1234567",
        "1234567.12345678",
        "9.007199254740993",
        "100000000",
        "12345678.9",
    ] {
        let expected: f64 = text.parse().unwrap();
        assert_eq!(float64(text.into()).map(f64::to_bits), Some(expected.to_bits()), "{text}");
        let behind = format!("{text}9.9,1");
        assert_eq!(float64(Text::new(behind.as_bytes(), text.len())), Some(expected), "{text}");
    }
    for bad in [
        "",
        "-",
        ".",
        "-.",
        "00.5",
        "-00.5",
        "+1.5",
        "1.2.3",
        "1e999",
        "9007199254740993",
        "0x10",
        " 1",
        "1,5",
        "e5",
        "1 .",
    ] {
        assert_eq!(float64(bad.into()), None, "{bad}");
    }
    assert_eq!(float64("-inf".into()), Some(f64::NEG_INFINITY));
    assert!(float64("NaN".into()).is_some_and(f64::is_nan));
    assert_eq!(float64_lenient(" +9007199254740993".into()), Some(9_007_199_254_740_992.0));
}

#[test]
fn integers_are_exact_in_single_floats() {
    for (text, expected) in [
        ("16777216", Some(16_777_216.0)),
        ("-16777218", Some(-16_777_218.0)),
        ("16777217", None),
        (" +16777217", None),
        ("16777217.5", Some(16_777_218.0)),
        ("0.1", Some(0.1)),
        ("inf", Some(f32::INFINITY)),
        ("1e39", None),
    ] {
        assert_eq!(float32(text.into()), expected, "{text}");
    }
    assert_eq!(float32_lenient("16777217".into()), Some(16_777_216.0));
}

#[test]
fn decimals_and_booleans() {
    assert_eq!(decimal("12.5".into(), 10, 2), Some(1250));
    assert_eq!(decimal("-.05".into(), 10, 2), Some(-5));
    assert_eq!(decimal("1.500".into(), 10, 1), Some(15));
    assert_eq!(decimal("1.55".into(), 10, 1), None);
    assert_eq!(decimal("100".into(), 3, 1), None);
    assert_eq!(decimal("99.9".into(), 3, 1), Some(999));
    assert_eq!(decimal(".".into(), 3, 1), None);
    assert_eq!(boolean("TRUE".into()), Some(true));
    assert_eq!(boolean("t".into()), None);
    assert_eq!(boolean_lenient("t".into()), Some(true));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]
    #[test]
    fn floats_agree_with_the_standard_library(
        text in "-?(0|[1-9][0-9]{0,9})\\.[0-9]{0,18}(e-?[0-9]{1,2})?",
    ) {
        let expected: f64 = text.parse().unwrap();
        let found = float64(text.as_str().into());
        proptest::prop_assert_eq!(found.map(f64::to_bits), Some(expected.to_bits()));
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..24)) {
        let text = Text::from(bytes.as_slice());
        let _ = (int64(text), uint64(text), float64(text), int128_lenient(text));
        let _ = (decimal(text, 38, 10), boolean_lenient(text));
    }
}
