//! A small world: fewer probes than rivals without prediction, and the gain of feedback.

use tidewatch_core::time::Span;
use tidewatch_lab::profiles::policies::{Feedback, sup_spending, with_feedback};
use tidewatch_lab::profiles::rivals::Rival;
use tidewatch_lab::profiles::sources::{ProfileRhythm, sources};
use tidewatch_lab::profiles::{ProfileScore, Setting, score};

fn setting(every: u32, mins: i64) -> Setting {
    Setting { every, window: Span::from_mins(mins), confidence: 0.9 }
}

#[test]
fn fewer_probes_than_every_rival_at_the_same_share() {
    let sources = sources(ProfileRhythm::Weekly, 12, 3, 7);
    for (every, mins, less) in [(1, 30, 1.0), (5, 30, 0.7), (10, 30, 0.5), (5, 120, 0.8)] {
        let setting = setting(every, mins);
        let ours =
            score(&setting, &sources, |source| with_feedback(&setting, source, 1.0, Feedback::Counts));
        assert!(ours.of_all > 0.88, "X = {every}, Y = {mins}: {ours:?}");
        for rival in Rival::ALL {
            // Of all updates together, TTL may find as many single ones, because it neglects quiet sources.
            let of_all = rival.seeing(ours.of_all, |score| score.of_all, &setting, &sources);
            let share = rival.seeing(ours.share, |score| score.share, &setting, &sources);
            for theirs in of_all.filter(|_| every > 1).into_iter().chain(share) {
                let most = less * theirs.probes as f64;
                assert!(
                    (ours.probes as f64) < most,
                    "{} at X = {every}: {theirs:?} {ours:?}",
                    rival.name()
                );
            }
        }
    }
}

#[test]
fn without_a_rhythm_single_updates_are_not_predicted() {
    let sources = sources(ProfileRhythm::Even, 12, 3, 7);
    let setting = setting(1, 30);
    let ours = score(&setting, &sources, |source| with_feedback(&setting, source, 1.0, Feedback::Counts));
    let fixed = Rival::Fixed.seeing(ours.of_all, |score| score.of_all, &setting, &sources).unwrap();
    let ratio = ours.probes as f64 / fixed.probes as f64;
    assert!((ratio - 1.0).abs() < 0.02, "{ours:?} {fixed:?}");
}

#[test]
fn feedback_corrects_a_wrong_rate() {
    let sources = sources(ProfileRhythm::Weekly, 12, 3, 7);
    let setting = setting(5, 30);
    for rate_factor in [0.5, 2.0] {
        let with = |feedback| {
            score(&setting, &sources, |source| with_feedback(&setting, source, rate_factor, feedback))
        };
        let (counting, learning) = (with(Feedback::Counts), with(Feedback::CountsAndRate));
        let once = sup_spending(counting.probes, &setting, &sources, rate_factor);
        assert!(counting.of_all > once.of_all + 0.1, "{rate_factor} × the rate: {once:?} {counting:?}");
        let off = |score: &ProfileScore| (score.of_all - 0.9).abs();
        assert!(
            off(&learning) < 0.03 && off(&learning) < off(&counting),
            "{rate_factor} × the rate: {learning:?} {counting:?}"
        );
    }
}
