//! Which columns of a table are shown, and how wide: all of them at their natural width where there
//! is room, else long texts are cut, and if that is not enough, columns in the middle are left out.

/// Below this many characters a text is not cut.
const SHORTEST_CUT: usize = 8;

/// A column as the rows seen so far ask for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Characters of its widest cell.
    pub(super) width: usize,
    /// Numbers stand to the right.
    pub(super) number: bool,
    /// A number or date means something else when it is cut.
    pub(super) rigid: bool,
}

/// A column of the table as it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Its place in the result; none for the gap that stands for the columns left out.
    pub(super) column: Option<usize>,
    /// Characters between the bars, without the blanks beside them.
    pub(super) width: usize,
}

/// Fits the columns into `room` characters, if there is a bound.
pub(super) fn fit(wishes: &[Wish], room: Option<usize>) -> Vec<Shown> {
    let natural =
        |(column, wish): (usize, &Wish)| Shown { column: Some(column), width: wish.width };
    let all: Vec<Shown> = wishes.iter().enumerate().map(natural).collect();
    let Some(room) = room.filter(|room| drawn(&all) > *room) else {
        return all;
    };
    // The longest cut that fits: the total only grows with it, so look from the widest cell
    // downwards.
    let widest = wishes.iter().map(|wish| wish.width).max().unwrap_or(0).min(room);
    let fitting = (SHORTEST_CUT..=widest)
        .rev()
        .map(|cut| cut_to(wishes, cut))
        .find(|shown| drawn(shown) <= room);
    fitting.unwrap_or_else(|| {
        leave_out(&cut_to(wishes, SHORTEST_CUT.max(widest.min(24))), wishes, room)
    })
}

fn cut_to(wishes: &[Wish], cut: usize) -> Vec<Shown> {
    let shown = |(column, wish): (usize, &Wish)| {
        let width = if wish.rigid { wish.width } else { wish.width.min(cut) };
        Shown { column: Some(column), width }
    };
    wishes.iter().enumerate().map(shown).collect()
}

/// Keeps columns from both ends as long as they fit beside the gap; the first one always.
fn leave_out(all: &[Shown], wishes: &[Wish], room: usize) -> Vec<Shown> {
    let gap = Shown { column: None, width: 1 };
    let mut used = drawn(&[gap]);
    let (mut left, mut right) = (0, wishes.len());
    while left < right {
        let from_left = left <= wishes.len() - right;
        let next = if from_left { all.get(left) } else { all.get(right - 1) };
        let Some(next) = next else { break };
        used += next.width + 3;
        if used > room && left > 0 {
            break;
        }
        if from_left { left += 1 } else { right -= 1 }
    }
    let (front, back) = (all.iter().take(left), all.iter().skip(right));
    front.chain((left < right).then_some(&gap)).chain(back).copied().collect()
}

/// Characters of a line: a bar before each column and one at the end, blanks on both sides of a
/// cell.
fn drawn(shown: &[Shown]) -> usize {
    shown.iter().map(|shown| shown.width + 3).sum::<usize>() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(width: usize) -> Wish {
        Wish { width, number: false, rigid: false }
    }

    fn widths(wishes: &[Wish], room: usize) -> Vec<(Option<usize>, usize)> {
        fit(wishes, Some(room)).iter().map(|shown| (shown.column, shown.width)).collect()
    }

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(widths(&[text(5), text(100)], 200), [(Some(0), 5), (Some(1), 100)]);
        assert_eq!(fit(&[text(500)], None)[0].width, 500);
    }

    #[test]
    fn long_texts_are_cut_and_numbers_are_not() {
        let number = Wish { width: 20, number: true, rigid: true };
        assert_eq!(
            widths(&[text(100), number, text(10)], 70),
            [(Some(0), 30), (Some(1), 20), (Some(2), 10)]
        );
    }

    #[test]
    fn the_middle_is_left_out_when_cutting_is_not_enough() {
        let wishes = vec![Wish { width: 10, number: true, rigid: true }; 51];
        let shown = fit(&wishes, Some(80));
        assert!(drawn(&shown) <= 80);
        assert_eq!(shown.first().unwrap().column, Some(0));
        assert_eq!(shown.last().unwrap().column, Some(50));
        assert_eq!(shown.iter().filter(|shown| shown.column.is_none()).count(), 1);
    }

    #[test]
    fn no_terminal_is_too_narrow() {
        for room in 0..40 {
            let shown = fit(
                &[text(100), Wish { width: 30, number: true, rigid: true }, text(3)],
                Some(room),
            );
            assert_eq!(shown[0].column, Some(0));
        }
        assert!(fit(&[], Some(10)).is_empty());
    }
}
