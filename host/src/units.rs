//! Quantities for people to read, each in a unit that suits it.

/// A duration in a unit that suits it.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s if s < 1.0 => format!("{:.3} ms", s * 1e3),
        s => format!("{s:.3} s"),
    }
}

/// Floating-point operations per second in a unit that suits them.
pub fn flops(flops: f64) -> String {
    match flops {
        f if f < 1e9 => format!("{:.2} MFLOPS", f * 1e-6),
        f if f < 1e12 => format!("{:.2} GFLOPS", f * 1e-9),
        f => format!("{:.2} TFLOPS", f * 1e-12),
    }
}

/// How often something happens in a second, with a decimal prefix that suits it.
pub fn per_second(rate: f64) -> String {
    match rate {
        r if r < 1e3 => format!("{r:.1} a second"),
        r if r < 1e6 => format!("{:.1} thousand a second", r * 1e-3),
        r => format!("{:.2} million a second", r * 1e-6),
    }
}

/// A number of bytes in a binary unit that suits it.
pub fn bytes(bytes: u128) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_the_unit_that_suits_them() {
        assert_eq!(seconds(12.3e-6), "12.30 µs");
        assert_eq!(seconds(0.25), "250.000 ms");
        assert_eq!(seconds(90.0), "90.000 s");
        assert_eq!(flops(2.5e6), "2.50 MFLOPS");
        assert_eq!(flops(90e9), "90.00 GFLOPS");
        assert_eq!(flops(650.25e12), "650.25 TFLOPS");
        assert_eq!(per_second(12.0), "12.0 a second");
        assert_eq!(per_second(650_000.0), "650.0 thousand a second");
        assert_eq!(per_second(1.25e6), "1.25 million a second");
        assert_eq!(bytes(1000), "1000 B");
        assert_eq!(bytes(65536 + 96), "64.1 KiB");
        assert_eq!(bytes(141 << 30), "141.0 GiB");
    }
}
