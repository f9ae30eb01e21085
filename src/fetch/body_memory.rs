//! Memory for all bodies that are held at once, so that many large or slow ones cannot take all of it.
//!
//! A body takes room as its bytes arrive, and for what decoding may add before it is decoded. Small bodies take none.
//! Of those that find no room, one at a time goes on outside the bound: else bodies that hold a part and wait for more
//! would wait for each other. Must not know what is in a body.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies up to this size in bytes take no room: ordinary ones never wait.
const UNCOUNTED: usize = 64 << 10;

/// Bytes per unit of room.
const UNIT: usize = 1 << 10;

/// A bounded amount of memory. Clones share it.
#[derive(Debug, Clone)]
pub struct BodyMemory {
    room: Arc<Semaphore>,
    /// For the one body that may go on without room.
    exempt: Arc<Semaphore>,
}

impl BodyMemory {
    /// Room for a body of the largest size per core, which is how many are read at once, and for two that wait.
    pub fn new(max_body: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self::with_bytes(max_body.saturating_mul(cores + 2))
    }

    fn with_bytes(bytes: usize) -> Self {
        let units = (bytes / UNIT).min(Semaphore::MAX_PERMITS);
        Self { room: Arc::new(Semaphore::new(units)), exempt: Arc::new(Semaphore::new(1)) }
    }

    /// The room of one body, none yet.
    pub fn for_body(&self) -> BodyRoom {
        BodyRoom { memory: Some(self.clone()), ..BodyRoom::default() }
    }
}

/// The room that one body takes. Given back when dropped. By default it has no memory to take it from.
#[derive(Debug, Default)]
pub struct BodyRoom {
    memory: Option<BodyMemory>,
    taken: Option<OwnedSemaphorePermit>,
    exempt: Option<OwnedSemaphorePermit>,
}

impl BodyRoom {
    /// Waits until the body may have this many bytes.
    pub async fn grow(&mut self, bytes: usize) {
        let Some(memory) = &self.memory else { return };
        let units = bytes.div_ceil(UNIT).saturating_sub(self.units());
        if bytes <= UNCOUNTED || units == 0 || self.exempt.is_some() {
            return;
        }
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let more = match Arc::clone(&memory.room).try_acquire_many_owned(units) {
            Ok(more) => more,
            Err(_) => tokio::select! {
                biased;
                Ok(more) = Arc::clone(&memory.room).acquire_many_owned(units) => more,
                Ok(exempt) = Arc::clone(&memory.exempt).acquire_owned() => {
                    self.exempt = Some(exempt);
                    return;
                }
                // The semaphores are never closed.
                else => return,
            },
        };
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
    }

    /// Gives back the room beyond this many bytes. What is held outside the bound stays so.
    pub fn shrink(&mut self, bytes: usize) {
        let units = if bytes <= UNCOUNTED { 0 } else { bytes.div_ceil(UNIT) };
        let excess = self.units().saturating_sub(units);
        if let Some(taken) = &mut self.taken {
            drop(taken.split(excess));
        }
    }

    fn units(&self) -> usize {
        self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use std::time::Duration;

    use super::*;
    use crate::clock::patience;

    const LONGEST: Duration = Duration::from_secs(300);

    /// Polls a future once.
    async fn ready<F: Future>(future: F) -> bool {
        tokio::select! {
            biased;
            _ = future => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn small_bodies_never_wait_and_large_ones_wait_for_room() {
        let memory = BodyMemory::with_bytes(1 << 20);
        let bodies: Vec<BodyRoom> = (0..3).map(|_| memory.for_body()).collect();
        let [mut a, mut b, mut c] = <[BodyRoom; 3]>::try_from(bodies).unwrap();
        assert!(ready(a.grow(1 << 20)).await);
        assert!(ready(b.grow(100_000)).await, "one goes on without room");
        assert!(!ready(c.grow(100_000)).await);
        assert!(ready(c.grow(UNCOUNTED)).await);
        assert!(ready(b.grow(10 << 20)).await, "to its end");
        a.shrink(900_000);
        assert!(ready(c.grow(100_000)).await);
        assert!(!ready(a.grow(1 << 20)).await);
        drop(b);
        assert!(ready(a.grow(1 << 20)).await);
        drop((a, c));
        assert_eq!(memory.room.available_permits(), 1 << 10, "all of it is given back");
    }

    #[tokio::test]
    async fn bodies_that_hold_a_part_and_wait_for_more_all_end() {
        let memory = BodyMemory::with_bytes(1 << 20);
        let mut bodies = JoinSet::new();
        for _ in 0..200 {
            let mut room = memory.for_body();
            bodies.spawn(async move {
                for step in 1..=20 {
                    room.grow(step * 100_000).await;
                    tokio::task::yield_now().await;
                }
            });
        }
        patience(LONGEST, bodies.join_all()).await.expect("none waits for another one for ever");
        assert_eq!(memory.room.available_permits(), 1 << 10);
    }
}
