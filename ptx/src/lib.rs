//! Reads, checks and finishes PTX text.
