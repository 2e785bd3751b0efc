//! Which columns of a table are shown, and how wide. If there is room, all are shown at their
//! natural width. Otherwise long texts are cut, and if that is not enough, columns in the middle
//! are left out.

/// A text is not cut to fewer characters.
const MIN_CUT_WIDTH: usize = 8;

/// The natural layout of a column, from the rows seen so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct NaturalColumn {
    /// The width of its widest cell.
    pub(super) width: usize,
    /// Whether it is aligned to the right, as numbers are.
    pub(super) align_right: bool,
    /// Whether its cells must not be cut, since a number or date would mean something else.
    pub(super) rigid: bool,
}

/// A column of the table as it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShownColumn {
    /// Its index in the result, or `None` for the gap in place of the columns left out.
    pub(super) column: Option<usize>,
    /// The width between the bars, without the blanks beside them.
    pub(super) width: usize,
}

/// Fits the columns into a line of `max_width` characters, if there is a limit.
pub(super) fn fit(columns: &[NaturalColumn], max_width: Option<usize>) -> Vec<ShownColumn> {
    let natural = |(column, natural): (usize, &NaturalColumn)| ShownColumn {
        column: Some(column),
        width: natural.width,
    };
    let all: Vec<ShownColumn> = columns.iter().enumerate().map(natural).collect();
    let Some(max_width) = max_width.filter(|max_width| line_width(&all) > *max_width) else {
        return all;
    };
    // The widest cut that fits. The total width only grows with the cut, so the search starts at
    // the widest cell.
    let widest = columns.iter().map(|natural| natural.width).max().unwrap_or(0).min(max_width);
    let fitting = (MIN_CUT_WIDTH..=widest)
        .rev()
        .map(|cut| cut_to(columns, cut))
        .find(|shown| line_width(shown) <= max_width);
    fitting.unwrap_or_else(|| {
        leave_out(&cut_to(columns, MIN_CUT_WIDTH.max(widest.min(24))), columns, max_width)
    })
}

fn cut_to(columns: &[NaturalColumn], cut: usize) -> Vec<ShownColumn> {
    let shown = |(column, natural): (usize, &NaturalColumn)| {
        let width = if natural.rigid { natural.width } else { natural.width.min(cut) };
        ShownColumn { column: Some(column), width }
    };
    columns.iter().enumerate().map(shown).collect()
}

/// Keeps columns from both ends as long as they fit beside the gap. The first one is always kept.
fn leave_out(all: &[ShownColumn], columns: &[NaturalColumn], max_width: usize) -> Vec<ShownColumn> {
    // Its head says how many there are.
    let width = gap_name(columns.len()).len();
    let gap = ShownColumn { column: None, width };
    let mut used = line_width(&[gap]);
    let (mut left, mut right) = (0, columns.len());
    while left < right {
        let from_left = left <= columns.len() - right;
        let next = if from_left { all.get(left) } else { all.get(right - 1) };
        let Some(next) = next else { break };
        used += next.width + 3;
        if used > max_width && left > 0 {
            break;
        }
        if from_left { left += 1 } else { right -= 1 }
    }
    let (front, back) = (all.iter().take(left), all.iter().skip(right));
    front.chain((left < right).then_some(&gap)).chain(back).copied().collect()
}

/// What the head of the gap says.
pub(super) fn gap_name(left_out: usize) -> String {
    format!("+{left_out}")
}

/// The width of a line: a bar before each column and one at the end, and blanks on both sides of
/// each cell.
fn line_width(shown: &[ShownColumn]) -> usize {
    shown.iter().map(|shown| shown.width + 3).sum::<usize>() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(width: usize) -> NaturalColumn {
        NaturalColumn { width, align_right: false, rigid: false }
    }

    fn widths(columns: &[NaturalColumn], max_width: usize) -> Vec<(Option<usize>, usize)> {
        fit(columns, Some(max_width)).iter().map(|shown| (shown.column, shown.width)).collect()
    }

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(widths(&[text(5), text(100)], 200), [(Some(0), 5), (Some(1), 100)]);
        assert_eq!(fit(&[text(500)], None)[0].width, 500);
    }

    #[test]
    fn long_texts_are_cut_and_numbers_are_not() {
        let number = NaturalColumn { width: 20, align_right: true, rigid: true };
        assert_eq!(
            widths(&[text(100), number, text(10)], 70),
            [(Some(0), 30), (Some(1), 20), (Some(2), 10)]
        );
    }

    #[test]
    fn the_middle_is_left_out_when_cutting_is_not_enough() {
        let columns = vec![NaturalColumn { width: 10, align_right: true, rigid: true }; 51];
        let shown = fit(&columns, Some(80));
        assert!(line_width(&shown) <= 80);
        assert_eq!(shown.first().unwrap().column, Some(0));
        assert_eq!(shown.last().unwrap().column, Some(50));
        assert_eq!(shown.iter().filter(|shown| shown.column.is_none()).count(), 1);
    }

    #[test]
    fn no_terminal_is_too_narrow() {
        for max_width in 0..40 {
            let shown = fit(
                &[text(100), NaturalColumn { width: 30, align_right: true, rigid: true }, text(3)],
                Some(max_width),
            );
            assert_eq!(shown[0].column, Some(0));
        }
        assert!(fit(&[], Some(10)).is_empty());
    }
}
