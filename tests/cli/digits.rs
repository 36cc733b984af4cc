//! The example that the README shows.

use half::f16;
use hopper_gemm::npy::Options;

use crate::support::Folder;

#[test]
fn the_digits_are_multiplied_and_checked() {
    let folder = Folder::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/digits");
    let run = folder
        .run(&format!("matmul --a {example}/digits.npy --b {example}/axes.npy --out c.npy --check --device cpu"))
        .succeeded();
    for part in ["1797×10 from A 1797×64 and B 10×64, f16", "passed", "c.npy, f16"] {
        assert!(run.stdout.contains(part), "{}", run.stdout);
    }
    let scores = folder.read::<f16>("c.npy", Options::default());
    assert_eq!((scores.rows(), scores.cols()), (1797, 10));
    // Principal axes, the largest variance first.
    let variance = |axis: usize| {
        let values: Vec<f64> = (0..1797).map(|i| f64::from(scores.view().row(i)[axis].to_f32())).collect();
        let mean = values.iter().sum::<f64>() / 1797.0;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1796.0
    };
    let variances: Vec<f64> = (0..10).map(variance).collect();
    assert!(variances.is_sorted_by(|first, second| first >= second), "{variances:?}");
    assert!((variances[0] - 179.0).abs() < 1.0, "{variances:?}");
}
