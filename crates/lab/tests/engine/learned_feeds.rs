//! Feeds that are probed for a long time: the fitted rates, and the detected bursts, permanent changes and
//! silences. Only the test knows the true rate.

use jiff::tz::TimeZone;
use tidewatch_core::model::burst::BurstChange;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::rhythm_change::RhythmChangeKind;
use tidewatch_core::model::source_model::ModelUpdate;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::contest::{ContestTerms, EntrantPolicy, hold};
use tidewatch_lab::learned_feed::{LearnedFeed, Watching};
use tidewatch_lab::trace::Trace;

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-01-05T00:00:00Z").unwrap()
}

fn week(n: i64) -> Timestamp {
    start() + Span::from_days(7 * n)
}

/// `by_day` updates an hour in office hours, `otherwise` at other times.
fn rhythm(by_day: f64, otherwise: f64) -> Steps {
    rhythm_from(8, by_day, otherwise)
}

/// The same with offices that open at this hour.
fn rhythm_from(opens: u16, by_day: f64, otherwise: f64) -> Steps {
    let office = WeekWindow { days: 0b1_1111, from_minute: opens * 60, until_minute: (opens + 10) * 60 };
    Steps::windows(TimeZone::UTC, otherwise, &[(office, by_day)]).unwrap()
}

/// Items drawn from a rate, piece by piece.
fn items(rate: &Steps, from: Timestamp, until: Timestamp, label: &str) -> Vec<Timestamp> {
    let mut chance = Stream::new(4, label);
    let (mut list, mut begins) = (Vec::new(), from);
    for (end, per_hour) in rate.over(from, until) {
        let ends = from + Span::from_millis(end);
        let mut at = begins;
        loop {
            at += Span::from_hours(1).scaled(-(1.0 - chance.unit()).ln() / per_hour);
            if at >= ends {
                break;
            }
            list.push(at);
        }
        begins = ends;
    }
    list
}

/// Probes from `from` until `until`, half an hour apart. Rates are fitted every six hours.
fn watch(feed: &mut LearnedFeed, from: Timestamp, until: Timestamp) -> Vec<(Timestamp, ModelUpdate)> {
    let mut probes = Vec::new();
    let mut now = from;
    while now < until {
        probes.push((now, feed.probe(now).model));
        now += Span::from_mins(30);
        if (now - start()).as_millis() % Span::from_hours(6).as_millis() == 0 {
            feed.refit(now, None);
        }
    }
    probes
}

fn feed(items: Vec<Timestamp>) -> LearnedFeed {
    LearnedFeed::new(items, Watching::default(), start())
}

fn begun(probes: &[(Timestamp, ModelUpdate)]) -> usize {
    let begins =
        |update: &ModelUpdate| matches!(update.burst, Some(BurstChange::Began(_) | BurstChange::Passed(_)));
    probes.iter().filter(|(_, update)| begins(update)).count()
}

/// The alarms are not calibrated for fitted rates. Still there is at most about one alarm in a thousand
/// updates, over a year.
#[test]
fn a_stationary_source_does_not_flap() {
    for (by_day, otherwise) in [(0.02, 0.02), (0.1, 0.1), (1.0, 1.0), (0.3, 0.03), (1.0, 0.1), (5.0, 0.1)] {
        let list = items(&rhythm(by_day, otherwise), start(), week(52), "stationary");
        let updates = list.len();
        let probes = watch(&mut feed(list), start(), week(52));
        let alarms = begun(&probes);
        assert!(alarms as f64 <= 2.0 + updates as f64 / 1000.0, "{by_day}: {alarms} in {updates}");
        assert!(probes.iter().all(|(_, update)| update.became_the_rhythm.is_none()), "{by_day}");
        let on = probes.iter().filter(|(_, update)| update.on.is_some()).count();
        assert!(on <= probes.len() / 200, "{by_day}: {on} of {} probes", probes.len());
    }
}

#[test]
fn a_burst_is_found_ends_and_leaves_the_rhythm_alone() {
    let mut list = items(&rhythm(1.0, 0.1), start(), week(9), "rhythm");
    let (begins, ends) = (week(8) + Span::from_hours(33), week(8) + Span::from_hours(37));
    list.extend(items(&Steps::constant(15.0).unwrap(), begins, ends, "burst"));
    list.sort_unstable();
    let mut feed = feed(list);
    watch(&mut feed, start(), week(8));
    feed.refit(week(8), None);
    let before = feed.rhythm().unwrap();
    let probes = watch(&mut feed, week(8), week(9));
    let changes: Vec<(Timestamp, BurstChange)> =
        probes.iter().filter_map(|(at, update)| Some((*at, update.burst?))).collect();
    let [(noticed, BurstChange::Began(first)), (over, BurstChange::Ended(all))] = changes[..] else {
        panic!("{changes:?}")
    };
    assert!(noticed - begins <= Span::from_hours(1), "{noticed}");
    assert!((first.since - begins).as_millis().abs() < Span::from_hours(1).as_millis(), "{first:?}");
    assert!(over > ends && over - ends < Span::from_hours(6), "{over}");
    assert!(all.observed > 50 && all.expected < 10.0, "{all:?}");
    feed.refit(week(9), None);
    let after = feed.rhythm().unwrap();
    let expected = |rate: &Steps, from: Timestamp, until: Timestamp| {
        let mut start = 0;
        let part = |&(end, value): &(i64, f64)| {
            let hours = (end - std::mem::replace(&mut start, end)) as f64 / 3.6e6;
            hours * value
        };
        rate.over(from, until).iter().map(part).sum::<f64>()
    };
    let per_week = |rate: &Steps| expected(rate, week(8), week(9));
    let grown = per_week(&after.rate) / per_week(&before.rate);
    assert!((1.05..1.3).contains(&grown), "sixty more in a week of sixty count for the mean: {grown}");
    let share = |rate: &Steps| expected(rate, begins, ends) / per_week(rate);
    let moved = share(&after.rate) / share(&before.rate);
    assert!((0.9..1.1).contains(&moved), "they don't count for the hours of the burst: {moved}");
}

#[test]
fn a_burst_longer_than_a_cycle_becomes_the_rhythm() {
    let mut list = items(&rhythm(0.5, 0.1), start(), week(6), "before");
    list.extend(items(&rhythm(5.0, 1.0), week(6), week(9), "after"));
    let mut feed = feed(list);
    watch(&mut feed, start(), week(6));
    let probes = watch(&mut feed, week(6), week(9));
    let changed: Vec<Timestamp> =
        probes.iter().filter(|(_, update)| update.became_the_rhythm.is_some()).map(|(at, _)| *at).collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert!(changed[0] >= week(7) && changed[0] < week(7) + Span::from_days(2), "{changed:?}");
    // The rate is learned from the new behaviour only.
    let monday = week(8) + Span::from_hours(12);
    let rate = feed.rhythm().unwrap().rate.over(monday, monday + Span::from_hours(1));
    assert!(rate.iter().all(|piece| (3.0..8.0).contains(&piece.1)), "{rate:?}");
    let late: Vec<_> = probes.into_iter().filter(|(at, _)| *at > changed[0]).collect();
    assert!(begun(&late) <= 4, "it is no burst any more: {}", begun(&late));
}

#[test]
fn silence_is_noticed_and_ends() {
    let mut list = items(&rhythm(1.0, 0.1), start(), week(6), "speaks");
    list.extend(items(&rhythm(1.0, 0.1), week(8), week(9), "speaks again"));
    let mut feed = feed(list);
    let calm = watch(&mut feed, start(), week(6));
    assert!(calm.iter().filter(|(_, update)| update.overdue.is_some()).count() < 10);
    let silent = watch(&mut feed, week(6), week(8));
    let first = silent.iter().find(|(_, update)| update.overdue.is_some()).unwrap();
    // About seven updates are due by then, as many as in a working day.
    assert!(first.0 - week(6) < Span::from_days(2), "{}", first.0);
    assert!(first.1.overdue.unwrap() > 6.9);
    let again = watch(&mut feed, week(8), week(9));
    assert!(again.last().unwrap().1.overdue.is_none());
    assert!(silent.iter().chain(&again).all(|(_, update)| update.became_the_rhythm.is_none()));
}

/// The changes of rhythm that were found.
fn changes(probes: &[(Timestamp, ModelUpdate)]) -> Vec<(Timestamp, RhythmChangeKind)> {
    probes.iter().filter_map(|(at, update)| Some((*at, update.rhythm?.kind))).collect()
}

/// Expected updates in the hours of one Tuesday.
fn expected(rate: &Steps, hours: std::ops::Range<i64>) -> f64 {
    let tuesday = week(20) + Span::from_days(1);
    let at = |hour| tuesday + Span::from_hours(hour);
    hours.map(|hour| rate.over(at(hour), at(hour + 1))[0].1).sum()
}

#[test]
fn a_lower_rate_is_noticed_and_learned_again() {
    let mut list = items(&rhythm(1.0, 0.1), start(), week(8), "before");
    list.extend(items(&rhythm(0.4, 0.04), week(8), week(12), "after"));
    let mut feed = feed(list);
    let calm = watch(&mut feed, start(), week(8));
    assert_eq!(changes(&calm), []);
    let before = expected(&feed.rhythm().unwrap().rate, 0..24);
    let after = watch(&mut feed, week(8), week(12));
    let [(noticed, RhythmChangeKind::Level)] = changes(&after)[..] else { panic!("{:?}", changes(&after)) };
    // Forty-eight updates were expected in a week.
    assert!(noticed - week(8) < Span::from_days(14), "{noticed}");
    let fall = expected(&feed.rhythm().unwrap().rate, 0..24) / before;
    assert!((0.3..0.55).contains(&fall), "{fall}");
}

#[test]
fn other_hours_are_noticed_and_learned_again() {
    let mut list = items(&rhythm_from(6, 1.0, 0.03), start(), week(8), "before");
    list.extend(items(&rhythm_from(12, 1.0, 0.03), week(8), week(11), "after"));
    let mut feed = feed(list);
    let calm = watch(&mut feed, start(), week(8));
    assert_eq!(changes(&calm), []);
    let after = watch(&mut feed, week(8), week(11));
    let found = changes(&after);
    let Some(&(noticed, RhythmChangeKind::Hours)) = found.first() else { panic!("{found:?}") };
    assert!(noticed - week(8) < Span::from_days(7) && found.len() == 1, "{found:?}");
    let rate = feed.rhythm().unwrap().rate;
    let (old, new) = (expected(&rate, 6..12), expected(&rate, 16..22));
    assert!(new > 4.0 * old, "{new} {old}");
    assert!((8.0..16.0).contains(&expected(&rate, 0..24)), "{}", expected(&rate, 0..24));
}

/// Updates that come in clusters of two on average, within half an hour.
fn clustered(of: Vec<Timestamp>, label: &str) -> Vec<Timestamp> {
    let mut chance = Stream::new(6, label);
    let mut list = Vec::new();
    for at in of {
        list.push(at);
        while chance.unit() < 0.5 {
            list.push(at + Span::from_mins(30).scaled(chance.unit()));
        }
    }
    list.sort_unstable();
    list
}

#[test]
fn a_silent_source_is_noticed_in_time_and_seldom_falsely() {
    let truth = rhythm(0.6, 0.06);
    let ideal = 1000_f64.ln();
    for clusters in [false, true] {
        let (mut updates, mut false_calls, mut waits) = (0, 0, Vec::new());
        for seed in 0..12 {
            let mut list = items(&truth, start(), week(12), &format!("until silent {seed}"));
            if clusters {
                list = clustered(list, &format!("clusters {seed}"));
                list.retain(|&at| at < week(12));
            }
            updates += list.len();
            let last = *list.last().unwrap();
            let mut feed = feed(list);
            let mut was_quiet = false;
            for (_, update) in watch(&mut feed, start(), week(12)) {
                false_calls += usize::from(update.overdue.is_some() && !was_quiet);
                was_quiet = update.overdue.is_some();
            }
            let silent = watch(&mut feed, week(12), week(14));
            let noticed = silent.iter().find(|(_, update)| update.overdue.is_some());
            let noticed = noticed.map_or(week(14), |(at, _)| *at);
            let mut before = 0;
            // In clusters, which are what an ideal test would count.
            let pieces = truth.over(last, noticed).into_iter().map(|(end, per_hour)| {
                (end - std::mem::replace(&mut before, end)) as f64 / 3.6e6 * per_hour
            });
            waits.push(pieces.sum::<f64>());
        }
        // Of a source that clusters much, few updates are independent, and it may take weeks: so the median.
        waits.sort_by(f64::total_cmp);
        assert!(waits[6] < 1.5 * ideal, "clusters {clusters}: {waits:?} of {ideal}");
        assert!(false_calls as f64 <= 0.002 * updates as f64, "{clusters}: {false_calls} of {updates}");
    }
}

#[test]
fn a_quiet_source_is_probed_less_at_a_price_and_at_least_daily() {
    let begin = Timestamp::from_secs(1_786_924_800);
    let hourly = |n: i64| begin + Span::from_mins(60 * n + 7 * (n % 5));
    // An update an hour for five weeks, then one after three weeks.
    let mut times: Vec<Timestamp> = (0..35 * 24).map(hourly).collect();
    times.push(hourly(56 * 24 - 1));
    let traces = [Trace::new("silent", "all", times)];
    let budget = Budget { probes: 48, per: Span::from_days(1), min_spacing: Span::from_mins(15) };
    let (train, test) = (Span::from_days(35), Span::from_days(20));
    let rules = ContestTerms { train, test, price: 0.1, ..ContestTerms::new(budget) };
    let contest = hold(&traces, &[EntrantPolicy::Ours(Policy::Auto)], &rules, &|| {});
    let probes = contest.entrants[0].runs.iter().flatten().map(|run| run.score.probes).sum::<usize>();
    // √(λ/2z) is 54 a day, more than the budget. With the rate divided by 1 + u, u being the hours of silence, it is
    // about 95 in 20 days, and some more before the silence is noticed.
    assert!((60..=150).contains(&probes), "{probes} in 20 days");
}

#[test]
fn at_one_price_busy_sources_are_probed_often_and_quiet_ones_seldom() {
    let every = |hours: i64, count: i64| -> Vec<Timestamp> {
        let mut chance = Stream::new(5, format!("every {hours}"));
        let at = |n: i64| Span::from_hours(1).scaled(hours as f64 * (n as f64 + chance.unit()));
        (0..count).map(at).map(|at| Timestamp::from_secs(1_786_924_800) + at).collect()
    };
    let traces =
        [Trace::new("busy", "all", every(1, 35 * 24)), Trace::new("quiet", "all", every(48, 35 / 2))];
    let budget = Budget { probes: 24, per: Span::from_days(1), min_spacing: Span::from_mins(15) };
    let spent = |price| {
        let (train, test) = (Span::from_days(21), Span::from_days(14));
        let rules = ContestTerms { train, test, price, ..ContestTerms::new(budget) };
        let contest = hold(&traces, &[EntrantPolicy::Ours(Policy::Auto)], &rules, &|| {});
        let runs = contest.entrants[0].runs.iter().flatten();
        runs.map(|run| run.score.probes as f64 / 14.0).collect::<Vec<_>>()
    };
    let (all, priced, dear) = (spent(0.0), spent(0.5), spent(4.0));
    assert!(all.iter().all(|&a_day| a_day > 20.0), "without a price budgets are spent: {all:?}");
    // √(λ/2z): 24 a day for one an hour at half an hour, 3.5 for one in two days.
    assert!((16.0..=24.1).contains(&priced[0]) && (1.5..=5.0).contains(&priced[1]), "{priced:?}");
    assert!(dear[0] < 0.5 * priced[0] && (0.9..=2.0).contains(&dear[1]), "once a day: {dear:?}");
}
