//! Random columns, in shapes that encodings, zone maps and groupings treat differently.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, NullArray, StringViewArray, make_array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use stylobate::{DataType, TimeUnit};

use super::random::{Random, mix};

/// How successive values of a column relate.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Constant,
    Few(u64),
    Random,
    Rising(u64),
    Falling(u64),
    Sequence(u64),
    Runs(u64),
    Skewed,
    Extremes,
}

/// Which rows are null.
#[derive(Clone, Copy, Debug)]
enum Nulls {
    None,
    Some(u64),
    Runs(u64),
    All,
}

/// A column of any type.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    shape: Shape,
    nulls: Nulls,
    low: i128,
    span: u128,
    /// The unit of the numbers: whole hours in microseconds, whole hundreds.
    step: i128,
    /// The variant of a type: kinds of text and of floats.
    style: u64,
    salt: u64,
}

impl Values {
    pub(crate) fn random(r: &mut Random) -> Self {
        let shape = match r.below(14) {
            0 => Shape::Constant,
            1..=3 => Shape::Few(1 + r.below(12) as u64),
            4 | 5 => Shape::Random,
            6 => Shape::Rising(r.below(5) as u64),
            7 => Shape::Falling(r.below(5) as u64),
            8 => Shape::Sequence(r.below(9) as u64),
            9 | 10 => Shape::Runs(1 + r.below(300) as u64),
            11 | 12 => Shape::Skewed,
            _ => Shape::Extremes,
        };
        let nulls = match r.below(10) {
            0..=3 => Nulls::None,
            4..=6 => Nulls::Some(r.choose(&[1, 5, 30, 95])),
            7 | 8 => Nulls::Runs(1 + r.below(2000) as u64),
            _ if r.chance(30) => Nulls::All,
            _ => Nulls::Some(50),
        };
        let (low, span) = r.choose(&[
            (0, 10),
            (-5, 20),
            (0, 250),
            (-200, 1_000),
            (10_000, 20_000),
            (0, 1_000_000),
            (-1_000_000_000, 2_000_000_000),
            (i128::from(i64::MIN), u128::from(u64::MAX)),
            (0, u128::from(u64::MAX)),
        ]);
        let step = r.choose(&[1, 1, 1, 10, 100, 3_600]);
        Values { shape, nulls, low, span, step, style: r.next() % 1000, salt: r.next() }
    }

    /// Values of a column that several tables share: few and small, or at the limits.
    pub(crate) fn few(r: &mut Random) -> Self {
        let shape = match r.below(8) {
            0 => Shape::Random,
            1 => Shape::Extremes,
            2 => Shape::Sequence(1),
            _ => Shape::Few(1 + r.below(9) as u64),
        };
        let (low, span) = r.choose(&[(0, 3), (-2, 5), (0, 9), (1, 40), (-1_000, 2_000)]);
        Values {
            shape,
            low,
            span,
            nulls: Nulls::None,
            step: 1,
            style: r.next() % 1000,
            salt: r.next(),
        }
    }

    /// The same values for the column of another table, which has its own nulls, and its own scale
    /// if it is a decimal.
    pub(crate) fn again(&self, r: &mut Random, data_type: &DataType) -> Self {
        let nulls = match r.below(8) {
            0..=2 => Nulls::None,
            3..=6 => Nulls::Some(r.choose(&[5, 15, 40])),
            _ => r.choose(&[Nulls::All, Nulls::Some(90), Nulls::Runs(3)]),
        };
        let step = match data_type {
            DataType::Decimal { scale: scale @ 1..=30, .. } if r.chance(60) => {
                10i128.pow(scale.unsigned_abs().into())
            }
            _ => 1,
        };
        Values { nulls, step, ..self.clone() }
    }

    fn noise(&self, i: u64) -> u64 {
        mix(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.salt)
    }

    /// The number behind row `i`.
    fn number(&self, i: u64) -> i128 {
        let noise = self.noise(i);
        let within = |x: u64| self.low + (u128::from(x) % (self.span + 1)) as i128;
        let steps =
            |step: u64| (i * step) as i128 + if step > 1 { (noise % step) as i128 } else { 0 };
        let number = match self.shape {
            Shape::Constant => within(self.salt),
            Shape::Few(most) => within(self.noise(noise % most + 1_000_000)),
            Shape::Random => within(noise),
            Shape::Rising(step) => {
                self.low + steps(step) + if step == 0 { (i / 100) as i128 } else { 0 }
            }
            Shape::Falling(step) => self.low + 100_000 - steps(step),
            Shape::Sequence(step) => self.low + (i * step) as i128,
            Shape::Runs(length) => within(self.noise(i / length + 2_000_000)),
            Shape::Skewed if !noise.is_multiple_of(20) => within(self.salt),
            Shape::Skewed => within(self.noise(noise)),
            Shape::Extremes => {
                const LEAST: i128 = i64::MIN as i128;
                [
                    0,
                    1,
                    -1,
                    LEAST,
                    i64::MAX.into(),
                    u64::MAX.into(),
                    i32::MAX.into(),
                    i32::MIN.into(),
                    127,
                    255,
                ][noise as usize % 10]
            }
        };
        number.wrapping_mul(self.step)
    }

    fn is_null(&self, i: u64) -> bool {
        let noise = mix(self.noise(i) ^ 0x55);
        match self.nulls {
            Nulls::None => false,
            Nulls::All => true,
            Nulls::Some(percent) => noise % 100 < percent,
            Nulls::Runs(length) => self.noise(i / length + 3_000_000).is_multiple_of(2),
        }
    }

    /// The rows from `start` on, in this type.
    pub(crate) fn array(
        &self,
        r: &mut Random,
        data_type: &DataType,
        start: usize,
        rows: usize,
    ) -> ArrayRef {
        // Some segments have no nulls, or only nulls.
        let other = r.below(20);
        let cell = |i: usize| {
            let i = (start + i) as u64;
            let null = if other < 2 { false } else { other == 2 || self.is_null(i) };
            (!null).then(|| self.number(i))
        };
        let cells: Vec<Option<i128>> = (0..rows).map(cell).collect();
        match data_type {
            DataType::Utf8 => {
                Arc::new(texts(&cells, |n| self.text(n)).collect::<StringViewArray>())
            }
            DataType::Binary => {
                Arc::new(texts(&cells, |n| self.text(n)).collect::<BinaryViewArray>())
            }
            DataType::Uuid => unbounded(data_type, &cells),
            DataType::Float32 => words(data_type, &cells, |n| self.float(n) as f32),
            DataType::Float64 => words(data_type, &cells, |n| self.float(n)),
            DataType::Date | DataType::Timestamp { .. } => {
                let moments: Vec<_> =
                    cells.iter().map(|cell| cell.map(|n| self.moment(n, data_type))).collect();
                array(data_type, &moments)
            }
            _ => array(data_type, &cells),
        }
    }

    fn float(&self, n: i128) -> f64 {
        let special = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            0.0,
            f64::MAX,
            f64::MIN_POSITIVE,
            1e-310,
            f64::EPSILON,
            0.5,
        ];
        match self.style % 10 {
            0 => n as f64,
            1..=4 => n as f64 / 10f64.powi((self.style / 10 % 4) as i32),
            5 | 6 => n as f64 * 0.123_456_789_012_345 / 7.0,
            7 => f64::from_bits(0x4059_0000_0000_0000 | (mix(n as u64) >> 16)),
            8 => special[n.rem_euclid(10) as usize],
            _ if n.rem_euclid(7) == 0 => special[(n / 7).rem_euclid(10) as usize],
            _ => n as f64 / 100.0,
        }
    }

    /// A moment between 1880 and 2120, as days or ticks.
    fn moment(&self, n: i128, data_type: &DataType) -> i128 {
        const DAYS: i128 = 88_000;
        let per_day = match data_type {
            DataType::Timestamp { unit, .. } => i128::from(unit.per_second()) * 86_400,
            _ => return n.rem_euclid(DAYS) - DAYS / 3,
        };
        // Some moments are whole days, hours or seconds.
        let grain = match (self.style % 4, data_type) {
            (0, _) => per_day,
            (1, _) => per_day / 24,
            (2, _) | (_, DataType::Timestamp { unit: TimeUnit::Second, .. }) => per_day / 86_400,
            _ => 1,
        };
        (n * grain).rem_euclid(DAYS * per_day) - DAYS / 3 * per_day
    }

    fn text(&self, n: i128) -> String {
        const WORDS: [&str; 12] = [
            "", "a", "A", "ab", "Abc", "it's", "50% off_", "straße", "ÉCOLE", "zebra", " padded ",
            "nul",
        ];
        let noise = mix(n as u64);
        match self.style % 8 {
            0 | 1 => WORDS[noise as usize % 12].to_owned(),
            2 => n.to_string(),
            3 => format!("user-{n}@example.org"),
            4 => format!("{noise:016x}"),
            5 => WORDS[noise as usize % 12].repeat(n.rem_euclid(60) as usize),
            6 => format!(
                "{}/{}/{}",
                WORDS[noise as usize % 12],
                n.rem_euclid(7),
                WORDS[noise as usize / 12 % 12]
            ),
            _ => format!(
                "The same beginning of every text, then {} — {n}",
                WORDS[noise as usize % 12]
            ),
        }
    }
}

fn texts(
    cells: &[Option<i128>],
    text: impl Fn(i128) -> String,
) -> impl Iterator<Item = Option<String>> {
    cells.iter().map(move |cell| cell.map(&text))
}

fn words<T: arrow_buffer::ArrowNativeType>(
    data_type: &DataType,
    cells: &[Option<i128>],
    value: impl Fn(i128) -> T,
) -> ArrayRef {
    let values: Vec<T> = cells.iter().map(|cell| cell.map_or_else(T::default, &value)).collect();
    let nulls = Some(cells.iter().map(Option::is_some).collect::<NullBuffer>())
        .filter(|n| n.null_count() > 0);
    let data = ArrayData::builder(data_type.to_arrow()).len(cells.len()).nulls(nulls);
    make_array(data.add_buffer(Buffer::from_vec(values)).build().unwrap())
}

/// The numbers in a type, wrapped into its range.
pub(crate) fn array(data_type: &DataType, cells: &[Option<i128>]) -> ArrayRef {
    if let Some((least, most)) = data_type.bounds() {
        let fold = |n: i128| if least < 0 { n % (most + 1) } else { n.rem_euclid(most + 1) };
        let folded: Vec<_> = cells.iter().map(|cell| cell.map(fold)).collect();
        return unbounded(data_type, &folded);
    }
    unbounded(data_type, cells)
}

/// The text of a UUID with the digits of a number.
fn uuid(n: i128) -> String {
    let digits = format!("{n:032x}");
    let part = |range: std::ops::Range<usize>| &digits[range];
    let [a, b, c, d, e] = [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)];
    format!("{a}-{b}-{c}-{d}-{e}")
}

fn unbounded(data_type: &DataType, cells: &[Option<i128>]) -> ArrayRef {
    match data_type {
        DataType::Null => Arc::new(NullArray::new(cells.len())),
        DataType::Bool => {
            Arc::new(cells.iter().map(|cell| cell.map(|n| n % 2 != 0)).collect::<BooleanArray>())
        }
        DataType::Decimal { .. } => words(data_type, cells, |n| n),
        DataType::Float32 => words(data_type, cells, |n| n as f32),
        DataType::Float64 => words(data_type, cells, |n| n as f64),
        DataType::Utf8 => Arc::new(texts(cells, |n| n.to_string()).collect::<StringViewArray>()),
        DataType::Binary => Arc::new(texts(cells, |n| n.to_string()).collect::<BinaryViewArray>()),
        DataType::Uuid => Arc::new(texts(cells, uuid).collect::<StringViewArray>()),
        _ => match data_type.to_arrow().primitive_width() {
            Some(1) => words(data_type, cells, |n| n as i8),
            Some(2) => words(data_type, cells, |n| n as i16),
            Some(4) => words(data_type, cells, |n| n as i32),
            _ => words(data_type, cells, |n| n as i64),
        },
    }
}
