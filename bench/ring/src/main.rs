//! Measures the ring beside what it is compared with.
fn main() {}
