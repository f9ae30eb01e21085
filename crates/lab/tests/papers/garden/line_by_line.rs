//! MEDD line by line, as it is printed (Gao et al., Algorithm 1, with its errata). All plants are sorted
//! twice a day.

use std::cmp::Reverse;

use tidewatch_core::engine::garden::Task;
use tidewatch_lab::garden::Gardener;

pub struct LineByLine {
    plants: Vec<Task>,
    capacity: u64,
    due: Vec<i64>,
    today: i64,
}

impl LineByLine {
    pub fn new(plants: &[Task], capacity: u64) -> Self {
        let due = plants.iter().map(|plant| i64::from(plant.window)).collect();
        Self { plants: plants.to_vec(), capacity, due, today: 0 }
    }
}

impl Gardener for LineByLine {
    fn day(&mut self) -> Vec<usize> {
        self.today += 1;
        let (today, plants) = (self.today, &self.plants);
        // 1, 2
        let mut order: Vec<usize> = (0..plants.len()).collect();
        order.sort_by_key(|&i| (self.due[i], plants[i].cost, Reverse(plants[i].window), i));
        // 3
        let (mut residue, mut chosen) = (self.capacity, Vec::new());
        for &i in order.iter().take_while(|&&i| self.due[i] <= today) {
            if plants[i].cost > residue {
                break;
            }
            residue -= plants[i].cost;
            chosen.push(i);
        }
        // 4, 5, 6
        let longest = plants.iter().map(|plant| i64::from(plant.window)).max().unwrap();
        let mut cost = 0_u64;
        for (i, plant) in plants.iter().enumerate() {
            let mut day = self.due[i].max(today);
            while day < today + longest {
                cost += plant.cost;
                day += i64::from(plant.window);
            }
        }
        let overload = cost.saturating_sub(self.capacity * longest.unsigned_abs());
        // 7, 8: of those that are due later
        let mut later: Vec<usize> = (0..plants.len()).filter(|&i| self.due[i] > today).collect();
        later.sort_by(|&i, &j| {
            let wasteness = |i: usize| {
                let Task { cost, window } = plants[i];
                (i128::from(self.due[i] - today) * i128::from(cost), i128::from(window))
            };
            let ((a, w), (b, v)) = (wasteness(i), wasteness(j));
            (a * v).cmp(&(b * w)).then(self.due[i].cmp(&self.due[j])).then(i.cmp(&j))
        });
        let mut spare = overload.min(residue);
        for i in later {
            if plants[i].cost > spare {
                break;
            }
            spare -= plants[i].cost;
            chosen.push(i);
        }
        // 9, 10
        for &i in &chosen {
            self.due[i] = today + i64::from(self.plants[i].window);
        }
        chosen
    }
}
