//! Waits of tests, in real time. None of them decides a result: a test that waits this long has failed.

use std::time::Duration;

use tidewatch::clock::{patience, real_pause};

/// A wait that takes longer fails the test. Long, because the machine may be busy with other work.
pub const LONGEST: Duration = Duration::from_secs(300);

/// Waits for the future; after [`LONGEST`] the test fails.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    patience(LONGEST, future).await.unwrap_or_else(|_| panic!("timed out: {what}"))
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let seen = async {
        while !holds() {
            real_pause(Duration::from_millis(5)).await;
        }
    };
    soon(what, seen).await;
}

/// Waits until something that takes time to find out holds.
pub async fn until_found(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let seen = async {
        while !holds().await {
            real_pause(Duration::from_millis(5)).await;
        }
    };
    soon(what, seen).await;
}
