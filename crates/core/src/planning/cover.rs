//! The fewest cells of equal length that together hold a share of what is foretold.
//!
//! Time is a row of slots; a cell is four of them, beginning with any, and cells do not overlap. With a
//! price on cells, those that hold most beyond their price are found from the end to the beginning,
//!
//! V_i = max(V_{i+1}, h_i − z + V_{i+4}),
//!
//! where h_i is what the cell beginning with slot i holds. No choice of as many cells holds more than the one
//! at price z: else it would be worth more. So the dearest price whose cells hold the share has the fewest,
//! but where prices pass over a number of cells: of cells that are worth their price exactly, any share may be
//! had ([`Price::share`]). Tests try all choices on small rows.
//!
//! Knows what slots hold. Must not know what that is, nor how long they are.

/// Slots in a cell.
pub(super) const SLOTS: usize = 4;

/// What a cell must hold to be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Cells that hold less are not.
    least: f64,
    /// Cells that hold more all are.
    most: f64,
    /// Of those in between, this share is enough.
    share: f64,
}

impl Price {
    /// All that hold as much, and nothing else.
    pub(super) fn flat(price: f64) -> Self {
        Self { least: price, most: price, share: 1.0 }
    }

    /// z.
    pub(super) fn least(&self) -> f64 {
        self.least
    }

    /// The share that is enough of cells that hold so much.
    pub(super) fn share_of(&self, held: f64) -> f64 {
        if held <= self.most { self.share } else { 1.0 }
    }
}

/// What cells hold, by the slot that they begin with, of slots that hold this.
pub(super) fn cells(slots: &[f64]) -> Vec<f64> {
    slots.windows(SLOTS).map(|cell| cell.iter().sum()).collect()
}

/// Which cells are worth their price, if none before their slot is chosen.
#[derive(Debug)]
pub(super) struct Choice {
    takes: Vec<bool>,
}

impl Choice {
    /// Of cells that hold this.
    pub fn new(held: &[f64], price: f64) -> Self {
        // V of the slots to come; none are worth anything beyond the end.
        let mut worth = vec![0.0; held.len() + SLOTS];
        let mut takes = vec![false; held.len()];
        for (slot, &holds) in held.iter().enumerate().rev() {
            let (taken, left) = (holds - price + worth[slot + SLOTS], worth[slot + 1]);
            // What is as good later is taken now: put off again and again, it would never come.
            takes[slot] = holds > 0.0 && taken >= left - 1e-7 * price;
            worth[slot] = if takes[slot] { taken.max(left) } else { left };
        }
        Self { takes }
    }

    /// The slots that the cells begin with, from this slot on.
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

/// The price at which cells hold this share of all that slots hold.
pub(super) fn price_of(slots: &[f64], share: f64) -> Price {
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
    Price { least: low, most: high, share: ((share * all - without) / between).clamp(0.05, 1.0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The most that so many cells can hold, by trying all.
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
        fn as_many_cells_hold_no_more(
            slots in prop::collection::vec(0.0_f64..1.0, 4..20), share in 0.05_f64..1.0,
        ) {
            let held = cells(&slots);
            let price = price_of(&slots, share);
            let chosen = Choice::new(&held, price.least()).from(0);
            let holds: f64 = chosen.iter().map(|&slot| held[slot]).sum();
            prop_assert!(chosen.windows(2).all(|pair| pair[1] >= pair[0] + SLOTS));
            prop_assert!((holds - most(&held, 0, chosen.len())).abs() < 1e-6);
            // The next fewer that some price has do not hold the share.
            let fewer = Choice::new(&held, price.most).from(0);
            let all: f64 = slots.iter().sum();
            prop_assert!(fewer.iter().map(|&slot| held[slot]).sum::<f64>() < share * all + 1e-9);
            prop_assert!(!chosen.is_empty());
        }
    }

    #[test]
    fn of_equal_cells_a_share_is_enough() {
        let price = price_of(&[0.5; 400], 0.9);
        assert!((price.share_of(2.0) - 0.9).abs() < 1e-3, "{price:?}");
        // Dear ones all, of the others as many as it takes: 0.8 is with the dear, half of the rest is left.
        let slots: Vec<f64> = (0..800).map(|slot| if slot < 400 { 0.8 } else { 0.2 }).collect();
        let price = price_of(&slots, 0.9);
        assert_eq!(price.share_of(3.2), 1.0);
        assert!((price.share_of(0.8) - 0.5).abs() < 1e-2, "{price:?}");
    }

    #[test]
    fn a_peak_is_held_by_one_cell() {
        let mut slots = [0.01; 40];
        slots[17..20].fill(1.0);
        let chosen = Choice::new(&cells(&slots), price_of(&slots, 0.5).least()).from(0);
        assert_eq!(chosen.len(), 1);
        assert!((16..=17).contains(&chosen[0]));
    }
}
