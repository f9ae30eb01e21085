//! The budget spread evenly, jittered.
