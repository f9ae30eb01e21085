//! What is new: a document against what was seen before.
