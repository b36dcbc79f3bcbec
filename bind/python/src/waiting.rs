//! How long a wait takes at most, and how often it looks up for signals.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Between two looks for signals.
pub const SLICE: Duration = Duration::from_millis(500);

/// When so many seconds are over; `None` is never, as is what no clock reaches.
pub fn deadline(timeout: Option<f64>) -> PyResult<Option<Instant>> {
    let Some(seconds) = timeout else { return Ok(None) };
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!("no time is {seconds} seconds long")));
    }
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    Ok(Instant::now().checked_add(limit))
}

/// How long the next slice of a wait is.
pub fn slice(deadline: Option<Instant>) -> Duration {
    left(deadline).map_or(SLICE, |left| left.min(SLICE))
}

/// What is left until a deadline; `None` where there is none.
pub fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|it| it.saturating_duration_since(Instant::now()))
}

/// Whether it has come.
pub fn is_over(deadline: Option<Instant>) -> bool {
    left(deadline) == Some(Duration::ZERO)
}
