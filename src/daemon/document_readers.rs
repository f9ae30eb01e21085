//! Where documents are parsed: small ones where they arrive, large ones on a few threads of their own.
//!
//! Handing a small document to another thread costs more than parsing it. Large ones would delay other tasks.
//! A panic while parsing fails only its own probe.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

/// Largest document in bytes that is parsed where it arrives: it takes about a millisecond.
pub const SMALL_BODY: usize = 64 << 10;

/// The same for a compressed one, which may be several times larger when decoded.
pub const SMALL_ENCODED: usize = 8 << 10;

/// Longest processor time to read a document. The largest ordinary ones take a tenth of it.
pub const LONGEST_READING: Duration = Duration::from_secs(2);

/// Parses documents, as many large ones at a time as there are cores.
#[derive(Debug, Clone)]
pub struct DocumentReaders {
    large: Arc<Semaphore>,
}

impl Default for DocumentReaders {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self { large: Arc::new(Semaphore::new(cores)) }
    }
}

impl DocumentReaders {
    /// Runs `read`; `None` if it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        large: bool,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if !large {
            // What `read` owns is dropped after a panic; nothing else can be left half-changed.
            return catch_unwind(AssertUnwindSafe(read)).ok();
        }
        let _permit = self.large.acquire().await.ok()?;
        tokio::task::spawn_blocking(read).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_fails_only_its_own_document() {
        let readers = DocumentReaders::default();
        for large in [false, true] {
            for _ in 0..100 {
                assert_eq!(readers.run(large, || -> u8 { panic!("a broken document") }).await, None);
            }
            assert_eq!(readers.run(large, || 7).await, Some(7));
        }
    }
}
