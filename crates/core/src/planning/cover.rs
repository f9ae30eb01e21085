//! The fewest cells of equal length that together contain a share of the predicted updates.
//!
//! Time is a row of slots. A cell is four consecutive slots; cells do not overlap. At a price z per cell,
//! the choice with the largest sum beyond its price follows from the end to the start,
//!
//! V_i = max(V_{i+1}, h_i − z + V_{i+4}),
//!
//! where h_i is the content of the cell that begins with slot i. No other choice of as many cells contains
//! more than the one at price z. So the highest price whose cells contain the share has the fewest cells,
//! except where prices skip a number of cells: of cells worth exactly their price, any share can be taken
//! ([`CellPrice::share_of`]). The tests try all choices on small rows.
//!
//! Takes the content of slots. May not know its meaning or the length of slots.

/// Slots in a cell.
pub(super) const SLOTS: usize = 4;

/// The minimum content of a chosen cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellPrice {
    /// Cells with less are not chosen.
    least: f64,
    /// Cells with more are all chosen.
    most: f64,
    /// Of those in between, this share is sufficient.
    share: f64,
}

impl CellPrice {
    /// Chooses exactly the cells with at least this content.
    pub(super) fn flat(price: f64) -> Self {
        Self { least: price, most: price, share: 1.0 }
    }

    /// The price of cells whose content is this share of what it was.
    pub(super) fn scaled(self, share: f64) -> Self {
        Self { least: self.least * share, most: self.most * share, ..self }
    }

    /// z.
    pub(super) fn least(&self) -> f64 {
        self.least
    }

    /// The sufficient share of cells with this content.
    pub(super) fn share_of(&self, held: f64) -> f64 {
        if held <= self.most { self.share } else { 1.0 }
    }
}

/// The content of each cell, by its first slot, from the content of the slots.
pub(super) fn cells(slots: &[f64]) -> Vec<f64> {
    slots.windows(SLOTS).map(|cell| cell.iter().sum()).collect()
}

/// The cells that are worth their price, given that no cell overlaps from before.
#[derive(Debug)]
pub(super) struct Choice {
    takes: Vec<bool>,
}

impl Choice {
    /// From the content of each cell.
    pub fn new(held: &[f64], price: f64) -> Self {
        // V of the later slots; zero beyond the end.
        let mut worth = vec![0.0; held.len() + SLOTS];
        let mut takes = vec![false; held.len()];
        for (slot, &holds) in held.iter().enumerate().rev() {
            let (taken, left) = (holds - price + worth[slot + SLOTS], worth[slot + 1]);
            // On a tie the earlier cell is taken: otherwise recomputation could defer it forever.
            takes[slot] = holds > 0.0 && taken >= left - 1e-7 * price;
            worth[slot] = if takes[slot] { taken.max(left) } else { left };
        }
        Self { takes }
    }

    /// The first slots of the chosen cells, from this slot on.
    pub fn from(&self, slot: usize) -> Vec<usize> {
        let (mut slot, mut begin) = (slot, Vec::new());
        while slot < self.takes.len() {
            match self.takes[slot] {
                true => {
                    begin.push(slot);
                    slot += SLOTS;
                }
                false => slot += 1,
            }
        }
        begin
    }
}

/// The price at which cells contain this share of all slots.
pub(super) fn price_of(slots: &[f64], share: f64) -> CellPrice {
    let held = cells(slots);
    let all: f64 = slots.iter().sum();
    let chosen =
        |price: f64| -> f64 { Choice::new(&held, price).from(0).into_iter().map(|slot| held[slot]).sum() };
    let (mut low, mut high) = (0.0, held.iter().copied().fold(0.0, f64::max) * (1.0 + 1e-6));
    let (mut with, mut without) = (all, 0.0);
    while high - low > 1e-6 * high {
        let middle = (low + high) / 2.0;
        let holds = chosen(middle);
        match holds >= share * all {
            true => (low, with) = (middle, holds),
            false => (high, without) = (middle, holds),
        }
    }
    let between = (with - without).max(f64::MIN_POSITIVE);
    CellPrice { least: low, most: high, share: ((share * all - without) / between).clamp(0.05, 1.0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The largest content of `count` cells, by trying all.
    fn most(held: &[f64], from: usize, count: usize) -> f64 {
        let with = |slot: usize| held[slot] + most(held, slot + SLOTS, count - 1);
        match count {
            0 => 0.0,
            _ => (from..held.len()).map(with).fold(0.0, f64::max),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn no_other_choice_of_as_many_cells_contains_more(
            slots in prop::collection::vec(0.0_f64..1.0, 4..20), share in 0.05_f64..1.0,
        ) {
            let held = cells(&slots);
            let price = price_of(&slots, share);
            let chosen = Choice::new(&held, price.least()).from(0);
            let holds: f64 = chosen.iter().map(|&slot| held[slot]).sum();
            prop_assert!(chosen.windows(2).all(|pair| pair[1] >= pair[0] + SLOTS));
            prop_assert!((holds - most(&held, 0, chosen.len())).abs() < 1e-6);
            // The next smaller choice of any price does not contain the share.
            let fewer = Choice::new(&held, price.most).from(0);
            let all: f64 = slots.iter().sum();
            prop_assert!(fewer.iter().map(|&slot| held[slot]).sum::<f64>() < share * all + 1e-9);
            prop_assert!(!chosen.is_empty());
        }
    }

    #[test]
    fn a_share_of_equal_cells_is_sufficient() {
        let price = price_of(&[0.5; 400], 0.9);
        assert!((price.share_of(2.0) - 0.9).abs() < 1e-3, "{price:?}");
        // All cells of high content, and half of the others: the former contain 0.8, and the share is 0.9.
        let slots: Vec<f64> = (0..800).map(|slot| if slot < 400 { 0.8 } else { 0.2 }).collect();
        let price = price_of(&slots, 0.9);
        assert_eq!(price.share_of(3.2), 1.0);
        assert!((price.share_of(0.8) - 0.5).abs() < 1e-2, "{price:?}");
    }

    #[test]
    fn one_cell_covers_a_peak() {
        let mut slots = [0.01; 40];
        slots[17..20].fill(1.0);
        let chosen = Choice::new(&cells(&slots), price_of(&slots, 0.5).least()).from(0);
        assert_eq!(chosen.len(), 1);
        assert!((16..=17).contains(&chosen[0]));
    }
}
