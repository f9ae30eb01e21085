//! The front as a text plot: work from left to right, tardiness upwards.
//!
//! Must not know how the alternatives were computed.

use crate::words::number;

use super::answer::GardenAnswer;

const WIDTH: usize = 64;
const HEIGHT: usize = 12;

/// The plot, line by line.
pub fn lines(answer: &GardenAnswer) -> Vec<String> {
    let omega = answer.question.instance.omega();
    let works = answer.outcomes.iter().map(|outcome| outcome.mean_work).chain([omega]);
    let (from, to) = works.fold((f64::INFINITY, 0.0_f64), |(from, to), x| (from.min(x), to.max(x)));
    let most = answer.outcomes.iter().map(|outcome| outcome.mean_tardiness).fold(0.0, f64::max);
    let share = |part: f64, whole: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let column = |work: f64| (share(work - from, to - from) * (WIDTH - 1) as f64).round() as usize;
    let line = |late: f64| HEIGHT - 1 - (share(late, most) * (HEIGHT - 1) as f64).round() as usize;
    let mut signs = [[' '; WIDTH]; HEIGHT];
    signs.iter_mut().for_each(|row| row[column(omega)] = '┊');
    let all = 0..answer.outcomes.len();
    let front = answer.front.iter().copied();
    let marks = all.map(|index| (index, '·')).chain(front.map(|index| (index, '●')));
    for (index, sign) in marks.chain([(answer.knee, '◆')]) {
        let outcome = &answer.outcomes[index];
        signs[line(outcome.mean_tardiness)][column(outcome.mean_work)] = sign;
    }
    let label = |index: usize| match index {
        0 => number(most),
        _ if index + 1 == HEIGHT => "0".to_owned(),
        _ => String::new(),
    };
    let mut lines: Vec<String> = signs
        .iter()
        .enumerate()
        .map(|(index, row)| format!("{:>8} │{}", label(index), row.iter().collect::<String>().trim_end()))
        .collect();
    let (left, right) = (number(from), number(to));
    lines.push(format!("{:>8} └{}", "", "─".repeat(WIDTH)));
    lines.push(format!("{:>10}{left}{right:>width$}", "", width = WIDTH - left.len()));
    lines.push(format!("{:>10}mean workload; upwards mean tardiness; ● front  ◆ knee  · others  ┊ Ω", ""));
    lines
}
