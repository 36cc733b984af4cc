//! From the sources of the kernels to the program.

use crate::svg::{At, Drawing, Fill};

/// The build's steps, and what lies between them.
pub fn draw() -> String {
    let mut drawing = Drawing::new(780, 212);
    let (wide, high) = (124.0, 56.0);
    let (first, second) = (30.0, 140.0);
    let mut place = |x: f64, y: f64, fill: Fill, lines: [&str; 2]| {
        drawing.rect((x, y), (wide, high), fill);
        for (line, text) in (0..).zip(lines) {
            let at = (x + wide / 2.0, y + 20.0 + 18.0 * f64::from(line));
            let size = if line == 0 { 13.0 } else { 11.0 };
            match fill {
                Fill::Color(_) => drawing.on(at, size, text),
                _ => drawing.text(at, At::Middle, size, text),
            }
        }
    };
    let (things, steps) = (Fill::Neutral, Fill::Color(0));
    let x = |column: usize| 14.0 + 157.0 * column as f64;
    place(x(0), first, things, ["kernels/", "Rust, inline PTX"]);
    place(x(1), first, steps, ["rustc", "nvptx64, fat LTO"]);
    place(x(2), first, things, ["one module", "PTX of all kernels"]);
    place(x(3), first, steps, ["finishing pass", "crate ptx"]);
    place(x(4), first, things, ["modules", "PTX, one a kernel"]);
    place(x(4), second, steps, ["ptxas", "where it is found"]);
    place(x(3), second, things, ["machine code", "SASS for sm_90a"]);
    place(x(2), second, steps, ["the gate", "refuses spills"]);
    place(x(1), second, things, ["the program", "embeds both"]);
    place(x(0), second, Fill::Color(2), ["the simulator", "runs the PTX"]);
    for column in 0..4 {
        let y = first + high / 2.0;
        drawing.arrow(&[(x(column) + wide, y), (x(column + 1), y)]);
    }
    drawing.arrow(&[(x(4) + wide / 2.0, first + high), (x(4) + wide / 2.0, second)]);
    for column in [4, 3, 2] {
        let y = second + high / 2.0;
        drawing.arrow(&[(x(column), y), (x(column - 1) + wide, y)]);
    }
    // The PTX goes into the program too.
    let lane = first + high + 26.0;
    drawing.arrow(&[
        (x(4) + 20.0, first + high),
        (x(4) + 20.0, lane),
        (x(1) + wide / 2.0, lane),
        (x(1) + wide / 2.0, second),
    ]);
    let y = second + high / 2.0;
    drawing.arrow(&[(x(1), y), (x(0) + wide, y)]);
    drawing.note((x(0), 14.0), At::Right, 11.0, "coloured: what is run; grey: what it makes");
    drawing.finish()
}
