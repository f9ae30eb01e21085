//! Seeded random streams, one per (seed, label).
//!
//! Makes jitter reproducible: with the same seed, the daemon and the simulator draw the same numbers for the
//! same label, in any order of events. May not know the use of the numbers. May not read the system's
//! randomness.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A stream of random numbers for one label.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream for this seed and label.
    ///
    /// ```
    /// # use tidewatch_core::rng::Stream;
    /// let draw = |label| Stream::new(1, label).unit();
    /// assert_eq!(draw("a"), draw("a"));
    /// assert_ne!(draw("a"), draw("b"));
    /// ```
    pub fn new(seed: u64, label: impl AsRef<[u8]>) -> Self {
        let digest = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(label).finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Self(Pcg64Mcg::from_seed(bytes))
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }
}
