//! Independent jobs on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `jobs` jobs on as many threads as there are cores, and returns their results in order.
pub fn on_all_cores<T: Send>(jobs: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(jobs.max(1));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= jobs {
                return results;
            }
            results.push((index, job(index)));
        }
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for thread in threads {
            match thread.join() {
                Ok(results) => all.extend(results),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}
