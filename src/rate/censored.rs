//! Sources that tell only *whether* they changed.
