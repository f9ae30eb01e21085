//! How well fitted rates foretell what was not seen.
#![allow(missing_docs, clippy::disallowed_methods)]
use jiff::tz::TimeZone;
use std::path::Path;
use tidewatch::rate::{
    cyclic::Rate,
    fit::{Cycle, fit},
    history::{Evidence, History},
};
use tidewatch::time::{Span, Timestamp};

struct Trace {
    name: String,
    events: Vec<Timestamp>,
}

fn load(dir: &Path) -> Vec<Trace> {
    let mut traces: Vec<Trace> = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|e| {
            let p = e.unwrap().path();
            if p.extension()? != "csv" || p.file_stem()? == "index" {
                return None;
            }
            let text = std::fs::read_to_string(&p).unwrap();
            let events = text
                .lines()
                .skip(1)
                .filter_map(|l| l.trim().parse().ok())
                .map(Timestamp::from_secs)
                .collect();
            Some(Trace { name: p.file_stem()?.to_string_lossy().into_owned(), events })
        })
        .collect();
    traces.sort_by(|a, b| a.name.cmp(&b.name));
    traces
}

fn ll(rate: &Rate, events: &[Timestamp], from: Timestamp, to: Timestamp) -> f64 {
    events.iter().map(|&t| rate.at(t).max(1e-12).ln()).sum::<f64>() - rate.expected(from, to)
}

fn main() {
    if std::env::var("BLEND").is_ok() { blend_eval(Path::new(&std::env::args().nth(1).unwrap())); return }
    let dir = std::env::args().nth(1).unwrap();
    let half: f64 = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(8.0);
    let traces = load(Path::new(&dir));
    let (mut worse, mut tot) = (0, [0.0; 4]);
    let mut cyc = [0; 4];
    let mut bad = vec![];
    for t in &traces {
        let (a, b) = (t.events[0], *t.events.last().unwrap());
        let cut = a + (b - a).scaled(0.7);
        let n = t.events.partition_point(|&e| e < cut);
        let mut h = History::new(TimeZone::UTC, Span::from_days(7).scaled(half), cut);
        let s = Timestamp::MIN;
        let _ = s;
        h.exposed(a, cut);
        for &e in &t.events[1..n] {
            h.update(e, 1.0);
        }
        let ev = h.evidence(cut);
        let test = &t.events[n..];
        let faded = (ev.total_updates() + 0.5) / (ev.total_hours() + 1.0);
        let plain = (n as f64 - 1.0) / ((cut - a).as_secs_f64() / 3600.0);
        let level = faded;
        let f = fit(&ev, level, &TimeZone::UTC);
        let hom = ll(&Rate::constant(level), test, cut, b);
        let homp = ll(&Rate::constant(plain), test, cut, b);
        let hist = Rate::new(
            TimeZone::UTC,
            (0..168).map(|c| ((c as u32 + 1) * 3600, (ev.updates[c] + 0.1) / (ev.hours[c] + 0.1 / level))),
        )
        .unwrap();
        let own = ll(&f.rate, test, cut, b);
        let hi = ll(&hist, test, cut, b);
        tot[0] += homp;
        tot[1] += hom;
        tot[2] += hi;
        tot[3] += own;
        cyc[Cycle::ALL.iter().position(|&c| c == f.cycle).unwrap()] += 1;
        if own < hom - 1e-9 {
            worse += 1;
            bad.push((own - hom, t.name.clone(), f.cycle, f.segments, ev.clumping, n, test.len(), f.gain));
        }
    }
    println!(
        "sources {} plain-hom {:.0} hom {:.0} hist {:.0} own {:.0} | worse {} cycles {:?}",
        traces.len(),
        tot[0],
        tot[1],
        tot[2],
        tot[3],
        worse,
        cyc
    );
    bad.sort_by(|a, b| a.0.total_cmp(&b.0));
    for b in bad.iter().take(25) {
        println!("{b:?}");
    }
}

pub fn blend_eval(dir: &Path) {
    let traces = load(dir);
    let kinds: std::collections::HashMap<String, String> = std::fs::read_to_string(dir.join("index.csv")).unwrap().lines().skip(1)
        .map(|l| { let mut f = l.split(','); (f.next().unwrap().to_owned(), f.next().unwrap().to_owned()) }).collect();
    let mut full = vec![]; let mut two = vec![];
    for t in &traces {
        let (a, b) = (t.events[0], *t.events.last().unwrap());
        let cut = a + (b - a).scaled(0.7);
        let mk = |from: Timestamp| {
            let mut h = History::new(TimeZone::UTC, Span::from_days(56), cut);
            h.exposed(from, cut);
            for &e in t.events.iter().filter(|&&e| e > from && e < cut) { h.update(e, 1.0); }
            h.evidence(cut)
        };
        full.push(mk(a)); two.push(mk(cut - Span::from_days(14)));
    }
    let share = |ev: &Evidence| -> Vec<f64> { let lv = ev.total_updates().max(1e-9)/ev.total_hours().max(1e-9); (0..168).map(|k| ev.updates[k]/ev.hours[k].max(1e-9)/lv).collect() };
    let kappas = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
    let mut tot = vec![0.0; kappas.len()]; let mut totfit = vec![0.0; kappas.len()];
    let (mut hom, mut ind, mut agg) = (0.0, 0.0, 0.0);
    for (i, t) in traces.iter().enumerate() {
        let (a, b) = (t.events[0], *t.events.last().unwrap());
        let cut = a + (b - a).scaled(0.7);
        let test: Vec<Timestamp> = t.events.iter().copied().filter(|&e| e >= cut).collect();
        let mut p = vec![0.0; 168]; let mut n = 0.0;
        for j in 0..traces.len() { if j != i && kinds[&traces[j].name] == kinds[&t.name] && full[j].total_updates() > 3.0 {
            let w = (full[j].total_updates()/full[j].clumping).min(50.0); n += w;
            for (k, s) in share(&full[j]).into_iter().enumerate() { p[k] += w*s; } } }
        let s: f64 = p.iter().sum::<f64>(); for x in &mut p { *x = (*x/s*0.95) + 0.05/168.0; }
        let _ = n;
        let ev = &two[i];
        let level = (ev.total_updates() + 0.5)/(ev.total_hours() + 168.0*0.1);
        let z = TimeZone::UTC;
        let rate = |f: &dyn Fn(usize)->f64| { let m: f64 = (0..168).map(f).sum::<f64>()/168.0; Rate::new(z.clone(), (0..168).map(|c| ((c as u32+1)*3600, f(c)/m*level))).unwrap() };
        hom += ll(&Rate::constant(level), &test, cut, b);
        ind += ll(&fit(ev, level, &z).rate, &test, cut, b);
        agg += ll(&rate(&|k| p[k]), &test, cut, b);
        for (x, &kap) in kappas.iter().enumerate() {
            let phi = ev.clumping;
            let g = |k: usize| (kap*p[k] + ev.updates[k]/phi)/(kap/168.0/level + ev.hours[k]/phi);
            let sm = |k: usize| 0.95*(0.8*g(k) + 0.2*(0.35*(g((k+1)%168)+g((k+167)%168)) + 0.15*(g((k+2)%168)+g((k+166)%168)))) + 0.05*level;
            tot[x] += ll(&rate(&sm), &test, cut, b);
            let pe = Evidence { updates: (0..168).map(|k| kap*p[k]*phi + ev.updates[k]).collect(), hours: (0..168).map(|k| kap*phi/168.0/level + ev.hours[k]).collect(), clumping: phi };
            totfit[x] += ll(&fit(&pe, level, &z).rate, &test, cut, b);
        }
    }
    println!("2 weeks: hom {hom:.0} ind {ind:.0} agg {agg:.0}\n kappas {kappas:?}\n cell blend {tot:.0?}\n fit blend {totfit:.0?}");
}
