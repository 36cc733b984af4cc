//! Drawing SVG that reads on light and dark ground.

use std::fmt::Write as _;

/// Colours of filled shapes: light enough for dark text on them on any ground.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// No colour of its own: a little off the ground.
    Neutral,
    /// One of [`PALETTE`], counted round.
    Color(usize),
    /// Nothing but an outline.
    Outline,
}

/// The colours that [`Fill::Color`] counts.
pub const PALETTE: [&str; 8] = ["#6fc2b8", "#eda566", "#9db4ec", "#d99bd2", "#c9c262", "#8ecb7c", "#e88f8f", "#9fb3c2"];

/// Where a text lies from the point that it is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// To the right of it.
    Right,
    /// Around it.
    Middle,
    /// To the left of it.
    Left,
}

/// A drawing. Coordinates are pixels from the upper left corner.
pub struct Drawing {
    width: f64,
    height: f64,
    body: String,
}

const STYLE: &str = "\
.paper { fill: #fff; } text { fill: #222; } .on { fill: #111; } .dim { fill: #666; }
.neutral { fill: #eceef1; stroke: #8a8f98; } .outline { fill: none; stroke: #555; }
.line { fill: none; stroke: #555; stroke-width: 1.5; } .head { fill: #555; }
@media (prefers-color-scheme: dark) {
.paper { fill: #1b1e24; } text { fill: #ddd; } .on { fill: #111; } .dim { fill: #a0a4ab; } .neutral { fill: #2b2f37; stroke: #70757e; }
.outline { stroke: #bbb; } .line { stroke: #bbb; } .head { fill: #bbb; }
}";

impl Drawing {
    /// An empty drawing.
    pub fn new(width: u32, height: u32) -> Drawing {
        Drawing { width: width.into(), height: height.into(), body: String::new() }
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// A rectangle with its upper left corner at (`x`, `y`).
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: Fill) {
        let look = match fill {
            Fill::Neutral => String::from("class=\"neutral\""),
            Fill::Outline => String::from("class=\"outline\""),
            Fill::Color(i) => format!("fill=\"{}\"", PALETTE[i % PALETTE.len()]),
        };
        self.put(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"2\" {look}/>"));
    }

    /// A text on the ground, its middle at the height `y`.
    pub fn text(&mut self, at: (f64, f64), side: At, size: f64, text: &str) {
        self.words(at, side, size, "", text);
    }

    /// A text of lesser importance.
    pub fn note(&mut self, at: (f64, f64), side: At, size: f64, text: &str) {
        self.words(at, side, size, "dim", text);
    }

    /// A text on a coloured shape, in the middle of it.
    pub fn on(&mut self, at: (f64, f64), size: f64, text: &str) {
        self.words(at, At::Middle, size, "on", text);
    }

    fn words(&mut self, (x, y): (f64, f64), side: At, size: f64, class: &str, text: &str) {
        let anchor = match side {
            At::Right => "start",
            At::Middle => "middle",
            At::Left => "end",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let y = y + 0.35 * size;
        self.put(format_args!(
            "<text x=\"{x}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\"{class}>{text}</text>"
        ));
    }

    /// A rectangle with a text in its middle.
    pub fn cell(&mut self, at: (f64, f64), size: (f64, f64), fill: Fill, font: f64, text: &str) {
        self.rect(at, size, fill);
        let middle = (at.0 + size.0 / 2.0, at.1 + size.1 / 2.0);
        match fill {
            Fill::Color(_) => self.on(middle, font, text),
            _ => self.text(middle, At::Middle, font, text),
        }
    }

    /// A line through `points`.
    pub fn line(&mut self, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        self.put(format_args!("<polyline class=\"line\" points=\"{}\"/>", points.join(" ")));
    }

    /// A line through `points` with a head at its end.
    pub fn arrow(&mut self, points: &[(f64, f64)]) {
        self.line(points);
        if let [.., from, to] = points {
            let (dx, dy) = (to.0 - from.0, to.1 - from.1);
            let length = dx.hypot(dy).max(1.0);
            let (ux, uy) = (dx / length, dy / length);
            let back = (to.0 - 8.0 * ux, to.1 - 8.0 * uy);
            let wing = |side: f64| (back.0 - side * 4.0 * uy, back.1 + side * 4.0 * ux);
            let (left, right) = (wing(1.0), wing(-1.0));
            self.put(format_args!(
                "<polygon class=\"head\" points=\"{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\"/>",
                to.0, to.1, left.0, left.1, right.0, right.1
            ));
        }
    }

    /// The whole as a document, on a ground of its own.
    pub fn finish(self) -> String {
        let Drawing { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\">\n<style>{STYLE}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n\
             {body}</svg>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawings_hold_what_is_drawn() {
        let mut drawing = Drawing::new(100, 50);
        drawing.cell((1.0, 2.0), (30.0, 10.0), Fill::Color(9), 12.0, "a < b");
        drawing.arrow(&[(0.0, 0.0), (10.0, 0.0)]);
        let svg = drawing.finish();
        assert!(svg.contains(&format!("fill=\"{}\"", PALETTE[1])) && svg.contains("a &lt; b"));
        assert!(svg.contains("points=\"10.0,0.0 2.0,4.0 2.0,-4.0\""), "{svg}");
    }
}
