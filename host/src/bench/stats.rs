//! Medians, their confidence intervals, and geometric means.

use serde::{Deserialize, Serialize};

/// Confidence that an interval aims for.
const LEVEL: f64 = 0.95;

/// A median and an interval that holds the true median with probability `confidence`, whatever the
/// distribution of the samples.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// Median of the samples.
    pub median: f64,
    /// Lower end of the interval: one of the samples.
    pub low: f64,
    /// Upper end of the interval: one of the samples.
    pub high: f64,
    /// Confidence of the interval: at least 0.95 from six samples on.
    pub confidence: f64,
    /// How many samples there are.
    pub count: usize,
}

impl Estimate {
    /// Of samples that are all finite; `None` when there are none, or when one is not finite.
    ///
    /// The interval is between two order statistics. The number of samples below the true median follows
    /// the binomial distribution of `count` fair coins, so the samples of rank r and `count`+1−r hold it
    /// with probability 1 − 2·P(fewer than r heads).
    pub fn of(samples: &[f64]) -> Option<Estimate> {
        if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        // `below` is P(at most `rank` heads) while it grows; the coefficient is that of `rank` heads.
        let mut coefficient = 0.5f64.powi(count.min(1000) as i32);
        let (mut below, mut rank) = (coefficient, 0);
        let mut confidence = 1.0 - 2.0 * below;
        while rank + 1 < count / 2 {
            coefficient *= (count - rank) as f64 / (rank + 1) as f64;
            let next = below + coefficient;
            if 1.0 - 2.0 * next < LEVEL {
                break;
            }
            (below, rank) = (next, rank + 1);
            confidence = 1.0 - 2.0 * below;
        }
        Some(Estimate {
            median,
            low: sorted[rank],
            high: sorted[count - 1 - rank],
            confidence: confidence.max(0.0),
            count,
        })
    }
}

/// The geometric mean; `None` when there are no values or one is not above zero.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0f64, 0usize);
    for value in values {
        if value.is_nan() || value <= 0.0 {
            return None;
        }
        sum += value.ln();
        count += 1;
    }
    (count > 0).then(|| (sum / count as f64).exp())
}

/// The median of what is there; `None` when nothing is.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    Estimate::of(&values).map(|estimate| estimate.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(Estimate::of(&[3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Estimate::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert!(Estimate::of(&[]).is_none());
        assert!(Estimate::of(&[1.0, f64::NAN]).is_none());
        assert_eq!(median([]), None);
    }

    #[test]
    fn intervals_are_the_tabulated_ranks() {
        // Ranks of the 95 % interval for a median, from the binomial distribution: 1–6 of 6, 2–9 of 10,
        // 6–15 of 20, 10–21 of 30.
        for (count, rank) in [(6usize, 1usize), (10, 2), (20, 6), (30, 10)] {
            let samples: Vec<f64> = (1..=count).map(|i| i as f64).collect();
            let estimate = Estimate::of(&samples).unwrap();
            assert_eq!((estimate.low, estimate.high), (rank as f64, (count + 1 - rank) as f64), "{count}");
            assert!(estimate.confidence >= LEVEL);
        }
        // Fewer than six samples cannot reach it, and say so.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((estimate.low, estimate.high, estimate.confidence), (1.0, 3.0, 0.75));
        let estimate = Estimate::of(&[5.0]).unwrap();
        assert_eq!((estimate.low, estimate.high, estimate.confidence), (5.0, 5.0, 0.0));
    }

    #[test]
    fn intervals_hold_the_median_as_often_as_they_say() {
        // A congruential generator is enough to draw medians from.
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let trials = 4000;
        let held = (0..trials)
            .filter(|_| {
                let samples: Vec<f64> = (0..15).map(|_| uniform().powi(3)).collect();
                let estimate = Estimate::of(&samples).unwrap();
                (estimate.low..=estimate.high).contains(&0.125)
            })
            .count() as f64
            / f64::from(trials);
        assert!((0.955..0.975).contains(&held), "{held}");
    }

    #[test]
    fn geometric_means() {
        assert!((geometric_mean([1.0, 4.0]).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
        assert_eq!(geometric_mean([1.0, 0.0]), None);
    }
}
