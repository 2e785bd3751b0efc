//! Partial aggregates of floats that can be merged: sums, and moments up to the second.

use std::fmt::Debug;

/// A partial aggregate over some rows of floats, which can be merged with that over other rows.
pub(super) trait Partial: Copy + Debug + Default + Send + Sync + 'static {
    /// The aggregates that can be computed from it.
    type Function: Copy + Debug + Send + Sync + 'static;
    /// One row that counts.
    type Row: Copy + Debug + Send + Sync + 'static;

    /// `None` for a row that does not count because of nulls.
    fn row(x: Option<f64>, y: Option<f64>) -> Option<Self::Row>;

    fn with_row(self, row: Option<Self::Row>) -> Self;

    fn merged(self, other: Self) -> Self;

    fn finish(self, function: Self::Function) -> Option<f64>;
}

/// An aggregate that is computed from [`Sums`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) enum Total {
    Sum,
    Mean,
}

/// Count and sum: all that the most frequent aggregates need.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    count: u64,
    sum: f64,
}

impl Partial for Sums {
    type Function = Total;
    type Row = f64;

    fn row(x: Option<f64>, _: Option<f64>) -> Option<f64> {
        x
    }

    fn with_row(self, row: Option<f64>) -> Sums {
        row.map_or(self, |x| Sums { count: self.count + 1, sum: self.sum + x })
    }

    fn merged(self, other: Sums) -> Sums {
        Sums { count: self.count + other.count, sum: self.sum + other.sum }
    }

    fn finish(self, function: Total) -> Option<f64> {
        let result = match function {
            Total::Sum => self.sum,
            Total::Mean => self.sum / self.count as f64,
        };
        (self.count > 0).then_some(result)
    }
}

/// An aggregate that is computed from [`Moments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) enum Moment {
    Variance { sample: bool },
    Deviation { sample: bool },
    Covariance { sample: bool },
    Correlation,
    Slope,
    Intercept,
    R2,
    MeanX,
    MeanY,
    SquaresX,
    SquaresY,
    Products,
}

/// Count, means, and sums of the squares and products of the deviations from these means, over
/// pairs of floats. For an aggregate of one argument, x and y are the same.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    count: u64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Partial for Moments {
    type Function = Moment;
    type Row = (f64, f64);

    fn row(x: Option<f64>, y: Option<f64>) -> Option<(f64, f64)> {
        x.zip(y)
    }

    fn with_row(self, pair: Option<(f64, f64)>) -> Moments {
        let Some((x, y)) = pair else { return self };
        let count = self.count + 1;
        let (from_x, from_y) = (x - self.x, y - self.y);
        let (mean_x, mean_y) = (self.x + from_x / count as f64, self.y + from_y / count as f64);
        Moments {
            count,
            x: mean_x,
            y: mean_y,
            xx: self.xx + from_x * (x - mean_x),
            yy: self.yy + from_y * (y - mean_y),
            xy: self.xy + from_x * (y - mean_y),
        }
    }

    fn merged(self, other: Moments) -> Moments {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other } else { self };
        }
        let count = self.count + other.count;
        let share = other.count as f64 / count as f64;
        let (x, y) = (other.x - self.x, other.y - self.y);
        let weight = self.count as f64 * share;
        Moments {
            count,
            x: self.x + x * share,
            y: self.y + y * share,
            xx: self.xx + other.xx + x * x * weight,
            yy: self.yy + other.yy + y * y * weight,
            xy: self.xy + other.xy + x * y * weight,
        }
    }

    /// The same result as over all rows at once.
    fn finish(self, function: Moment) -> Option<f64> {
        let count = self.count as f64;
        let known = |least: u64, result: f64| (self.count >= least).then_some(result);
        let by = |sample: bool, sum: f64| {
            known(1 + u64::from(sample), sum / (count - f64::from(u8::from(sample))))
        };
        let (var_x, var_y, covar) = (self.xx / count, self.yy / count, self.xy / count);
        match function {
            Moment::Variance { sample: false } | Moment::Deviation { sample: false }
                if self.count == 1 =>
            {
                Some(0.0)
            }
            Moment::Variance { sample } => by(sample, self.xx),
            Moment::Deviation { sample } => by(sample, self.xx).map(f64::sqrt),
            Moment::Covariance { sample } => by(sample, self.xy),
            Moment::Correlation if self.x.is_nan() && self.y.is_nan() => Some(f64::NAN),
            Moment::Correlation
                if self.x.is_nan() || self.y.is_nan() || var_x == 0.0 || var_y == 0.0 =>
            {
                None
            }
            Moment::Correlation => known(2, covar / var_x.sqrt() / var_y.sqrt()),
            Moment::Slope | Moment::Intercept | Moment::R2 if var_x == 0.0 => None,
            Moment::Slope => known(2, covar / var_x),
            Moment::Intercept => known(2, self.y - covar / var_x * self.x),
            Moment::R2 if var_y == 0.0 => known(2, 1.0),
            Moment::R2 => known(2, covar * covar / (var_x * var_y)),
            Moment::MeanX => known(1, self.x),
            Moment::MeanY => known(1, self.y),
            Moment::SquaresX => known(1, self.xx),
            Moment::SquaresY => known(1, self.yy),
            Moment::Products => known(1, self.xy),
        }
    }
}
