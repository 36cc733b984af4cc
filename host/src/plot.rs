//! Results as figures: SVG that reads on light and dark ground.
//!
//! A figure has a panel for each shape. Its bars are the arms, one for each regime; the lines are the baseline and
//! the dense peak of the device. Under the bars stand the numbers, so that nothing is read off an axis.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::bench::results::{ArmResults, Measurement, Results, ShapeResults, require_arms};
use crate::bench::table::{Regime, provenance};
use crate::error::{Error, Result};

/// What a figure shows; by default everything that was timed.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Names of arms, in the order of the bars; all arms when empty. The baseline is a line, and a bar only if
    /// it is named here.
    pub arms: Vec<String>,
    /// M, N and K of the shapes; all shapes when empty.
    pub shapes: Vec<(usize, usize, usize)>,
}

/// Dense f16 and bf16 peak of the devices whose datasheet says it, in TFLOPS.
///
/// NVIDIA's datasheets of the H100 SXM and the H200 SXM give 1,979 with sparsity, which is twice the dense figure:
/// 132 multiprocessors, 4096 operations each a clock, at the boost clock of 1830 MHz make 989.4. A chip whose
/// power allows it clocks higher, and most products do not get so far.
const DENSE_PEAK: [(&str, f64); 2] = [("NVIDIA H200", 989.4), ("NVIDIA H100 80GB HBM3", 989.4)];

// Sizes in pixels.
const LEFT: i32 = 92;
const RIGHT: i32 = 126;
const COLUMN: i32 = 98;
const BAR: i32 = 32;
const TITLE: i32 = 34;
const BARS: i32 = 260;
const LINE: i32 = 18;
const GAP: i32 = 22;
const NARROWEST: i32 = 560;

/// Everything neutral is drawn in these three, which [`themed`] exchanges on dark ground.
const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xd8, 0xd8, 0xd8);
const DARK: [(RGBColor, &str); 3] = [(PAPER, "#1b1e24"), (INK, "#dddddd"), (GRID, "#3c4048")];

const fn color(regime: Regime) -> RGBColor {
    match regime {
        Regime::Rested => RGBColor(0x2a, 0x9d, 0x8f),
        Regime::Sustained => RGBColor(0xd9, 0x7b, 0x3f),
    }
}

/// Draws `results` as an SVG document.
///
/// # Errors
/// When an arm or a shape of `choice` is in none of the results, or nothing was timed.
pub fn svg(results: &[Results], choice: &Choice) -> Result<String> {
    let has = |&(m, n, k): &(usize, usize, usize)| {
        results.iter().flat_map(|results| &results.shapes).any(|shape| (shape.m, shape.n, shape.k) == (m, n, k))
    };
    if let Some((m, n, k)) = choice.shapes.iter().find(|shape| !has(shape)) {
        let known = results.iter().flat_map(|results| &results.shapes).map(ShapeResults::size).collect();
        return Err(Error::NotInResults { what: format!("shape {m}×{n}×{k}"), known });
    }
    require_arms(results, &choice.arms)?;
    let figures: Vec<Figure> = results.iter().map(|results| Figure::new(results, choice)).collect();
    let panels: Vec<&Panel> = figures.iter().flat_map(|figure| &figure.panels).collect();
    if panels.is_empty() {
        return Err(Error::NotInResults { what: String::from("arm with a time"), known: Vec::new() });
    }
    let columns = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or_default();
    let width = (LEFT + RIGHT + COLUMN * columns as i32).max(NARROWEST);
    let height: i32 = figures.iter().map(Figure::height).sum();
    let mut out = String::new();
    draw(&figures, &mut out, (width, height)).map_err(|error| Error::Drawing { reason: error.to_string() })?;
    Ok(themed(&out))
}

/// What is drawn of one file.
struct Figure<'a> {
    panels: Vec<Panel<'a>>,
    source: String,
    peak: Option<f64>,
}

/// What is drawn of one shape.
struct Panel<'a> {
    shape: &'a ShapeResults,
    bars: Vec<&'a ArmResults>,
    baseline: Option<&'a ArmResults>,
    /// The regimes in which something was timed.
    regimes: Vec<Regime>,
}

impl<'a> Figure<'a> {
    fn new(results: &'a Results, choice: &Choice) -> Self {
        let wanted =
            |shape: &&ShapeResults| choice.shapes.is_empty() || choice.shapes.contains(&(shape.m, shape.n, shape.k));
        let panels = results.shapes.iter().filter(wanted).map(|shape| Panel::new(shape, &choice.arms));
        // A shape of which nothing was timed has no panel.
        let panels = panels.filter(|panel| !panel.regimes.is_empty()).collect();
        let peak = DENSE_PEAK.iter().find(|(device, _)| *device == results.machine.device).map(|(_, peak)| *peak);
        Figure { panels, source: provenance(results), peak }
    }

    fn height(&self) -> i32 {
        let notes = if self.panels.is_empty() { 0 } else { self.notes().len() as i32 * LINE + GAP / 2 };
        self.panels.iter().map(Panel::height).sum::<i32>() + notes
    }

    /// What stands below the panels.
    fn notes(&self) -> Vec<String> {
        let mut baselines: Vec<&str> =
            self.panels.iter().filter_map(|panel| Some(panel.baseline?.name.as_str())).collect();
        baselines.dedup();
        let numbers = (!baselines.is_empty())
            .then(|| format!("below the bars: TFLOPS, and the ratio to {} in the same run", baselines.join(", ")));
        let peak = self.peak.map(|peak| {
            format!("peak: {peak} TFLOPS, dense, at the boost clock: half of what the datasheet gives with sparsity")
        });
        numbers.into_iter().chain(peak).chain([self.source.clone()]).collect()
    }
}

impl<'a> Panel<'a> {
    fn new(shape: &'a ShapeResults, names: &[String]) -> Self {
        let baseline = shape.baseline.as_ref().and_then(|name| shape.arm(name));
        let timed = |arm: &&ArmResults| Regime::ALL.iter().any(|regime| regime.of(arm).is_some());
        let is_line = |arm: &&ArmResults| names.is_empty() && shape.baseline.as_ref() == Some(&arm.name);
        // An arm that is asked for keeps its place even where it has no time.
        let has_place = |arm: &&ArmResults| !names.is_empty() || timed(arm);
        let bars = shape.choose(names).into_iter().filter(|arm| !is_line(arm) && has_place(arm));
        let bars: Vec<&ArmResults> = bars.collect();
        let regimes: Vec<Regime> =
            Regime::ALL.into_iter().filter(|regime| bars.iter().any(|arm| regime.of(arm).is_some())).collect();
        Panel { shape, bars, baseline, regimes }
    }

    fn height(&self) -> i32 {
        TITLE + BARS + LINE * (3 + self.regimes.len() as i32) + GAP
    }

    /// The highest speed that is drawn.
    fn top(&self, peak: Option<f64>) -> f64 {
        let arms = self.bars.iter().copied().chain(self.baseline);
        let speeds = arms.flat_map(|arm| Regime::ALL.map(|regime| regime.of(arm).map(|measured| measured.tflops)));
        speeds.flatten().chain(peak).fold(0.0, f64::max)
    }
}

/// The three lines under a bar: what the arm is.
fn titles(arm: &ArmResults) -> [String; 3] {
    let entry = arm.facts.get("entry").and_then(|entry| entry.as_str()).unwrap_or(&arm.name);
    let Some(config) = kernels::catalogue::by_entry(entry) else {
        return [arm.name.clone(), String::new(), String::new()];
    };
    // An arm that is named by its entry would repeat what the other lines say; a band may follow.
    let name = match arm.name.strip_prefix(config.entry) {
        Some(band) => format!("{}{band}", config.kernel.name()),
        None => arm.name.clone(),
    };
    let tile = format!("{}×{}×{}", config.tile.m, config.tile.n, config.tile.k);
    let mut stages = format!("{} stage{}", config.stages, if config.stages == 1 { "" } else { "s" });
    if config.cluster.blocks() > 1 {
        stages += &format!(", {}×{}", config.cluster.m, config.cluster.n);
    }
    if config.splits > 1 {
        stages += &format!(", K in {}", config.splits);
    }
    [name, tile, stages]
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = std::result::Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw<'a>(figures: &[Figure], out: &'a mut String, (width, height): (i32, i32)) -> Drawn<'a> {
    let area = SVGBackend::with_string(out, (width as u32, height as u32)).into_drawing_area();
    area.fill(&PAPER)?;
    let mut y = 0;
    for figure in figures {
        for panel in &figure.panels {
            draw_panel(&area, panel, figure.peak, y)?;
            y += panel.height();
        }
        if !figure.panels.is_empty() {
            for note in figure.notes() {
                area.draw_text(&note, &font(11, INK, HPos::Left), (10, y + LINE / 2))?;
                y += LINE;
            }
            y += GAP / 2;
        }
    }
    area.present()
}

fn font(size: i32, color: RGBColor, at: HPos) -> TextStyle<'static> {
    // The SVG backend takes a size for the height of a line, and divides it by 1.24.
    let style = TextStyle::from(("sans-serif", 1.24 * f64::from(size)).into_font());
    TextStyle { color: color.to_backend_color(), ..style }.pos(Pos::new(at, VPos::Center))
}

fn draw_panel<'a>(area: &Area<'a>, panel: &Panel, peak: Option<f64>, y: i32) -> Drawn<'a> {
    let shape = panel.shape;
    let title = format!("{} {}, TFLOPS", shape.element, shape.size());
    area.draw_text(&title, &font(15, INK, HPos::Left), (10, y + TITLE / 2))?;
    let columns = panel.bars.len() as i32;
    let right = LEFT + COLUMN * columns;
    let base = y + TITLE + BARS;
    let step = 200;
    let top = (panel.top(peak) * 1.04).max(1.0);
    let at = |tflops: f64| base - (tflops / top * f64::from(BARS)) as i32;

    for tick in (0..=top as i32).step_by(step) {
        let y = at(f64::from(tick));
        let color = if tick == 0 { INK } else { GRID };
        line(area, LEFT..right, y, color, 1)?;
        area.draw_text(&tick.to_string(), &font(12, INK, HPos::Right), (LEFT - 8, y))?;
    }
    for (column, arm) in (0..).zip(&panel.bars) {
        let middle = LEFT + COLUMN * column + COLUMN / 2;
        let mut x = middle - BAR * panel.regimes.len() as i32 / 2;
        for regime in &panel.regimes {
            if let Some(measured) = regime.of(arm) {
                let corners = [(x + 1, at(measured.tflops)), (x + BAR - 1, base)];
                area.draw(&Rectangle::new(corners, color(*regime).filled()))?;
            }
            x += BAR;
        }
        for (row, text) in (0..).zip(titles(arm)) {
            let size = if row == 0 { 13 } else { 11 };
            area.draw_text(&text, &font(size, INK, HPos::Center), (middle, base + LINE / 2 + 3 + LINE * row))?;
        }
        for (row, regime) in (3..).zip(&panel.regimes) {
            let text = regime.of(arm).map_or_else(|| String::from("–"), numbers);
            area.draw_text(&text, &font(12, INK, HPos::Center), (middle, base + LINE / 2 + 3 + LINE * row))?;
        }
    }
    for (row, regime) in (3..).zip(&panel.regimes) {
        let y = base + LINE / 2 + 3 + LINE * row;
        area.draw(&Rectangle::new([(10, y - 5), (20, y + 5)], color(*regime).filled()))?;
        area.draw_text(regime.name(), &font(12, INK, HPos::Left), (26, y))?;
    }
    draw_lines(area, panel, peak, LEFT..right, at)
}

/// The lines across the bars: the peak, and the baseline in each regime, with their names on the right.
fn draw_lines<'a>(
    area: &Area<'a>,
    panel: &Panel,
    peak: Option<f64>,
    x: Range<i32>,
    at: impl Fn(f64) -> i32,
) -> Drawn<'a> {
    let mut lines: Vec<(f64, RGBColor, String)> = Vec::new();
    if let Some(peak) = peak {
        lines.push((peak, INK, format!("peak {peak:.0}")));
    }
    if let Some(baseline) = panel.baseline {
        for regime in &panel.regimes {
            if let Some(measured) = regime.of(baseline) {
                let text = format!("{} {:.0}", baseline.name, measured.tflops);
                lines.push((measured.tflops, color(*regime), text));
            }
        }
    }
    lines.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut free = i32::MIN;
    for (tflops, color, text) in lines {
        let y = at(tflops);
        line(area, x.start..x.end + 6, y, color, 2)?;
        // Names keep a line's distance from each other.
        let label = y.max(free);
        free = label + LINE - 3;
        area.draw_text(&text, &font(12, INK, HPos::Left), (x.end + 10, label))?;
    }
    Ok(())
}

fn line<'a>(area: &Area<'a>, x: Range<i32>, y: i32, color: RGBColor, width: u32) -> Drawn<'a> {
    area.draw(&PathElement::new([(x.start, y), (x.end, y)], color.stroke_width(width)))
}

/// `664, 0.869`: TFLOPS, and the ratio to the baseline where there is one.
fn numbers(measured: &Measurement) -> String {
    let ratio = measured.ratio.map(|ratio| format!(", {:.3}", ratio.median)).unwrap_or_default();
    format!("{:.0}{ratio}", measured.tflops)
}

/// The document with the neutral colours exchanged where the page around it is dark. It brings its own ground, so
/// it is legible even where a viewer's idea of dark is not the page's.
fn themed(svg: &str) -> String {
    let mut style = String::from("<style>@media (prefers-color-scheme: dark) {\n");
    for (RGBColor(r, g, b), dark) in DARK {
        let light = format!("#{r:02X}{g:02X}{b:02X}");
        style += &format!("[fill=\"{light}\"] {{ fill: {dark}; }} [stroke=\"{light}\"] {{ stroke: {dark}; }}\n");
    }
    style += "}</style>\n";
    match svg.split_once('\n') {
        Some((head, rest)) => format!("{head}\n{style}{}\n", rest.trim_end()),
        None => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::tests::example;

    fn named(arms: &[&str]) -> Choice {
        Choice { arms: arms.iter().map(|name| name.to_string()).collect(), ..Choice::default() }
    }

    /// Heights of the bars of a colour, in the order in which they are drawn.
    fn bars(svg: &str, RGBColor(r, g, b): RGBColor) -> Vec<i32> {
        let fill = format!("fill=\"#{r:02X}{g:02X}{b:02X}\"");
        let attribute = |line: &str, name: &str| -> i32 {
            line.split_once(&format!(" {name}=\"")).unwrap().1.split('"').next().unwrap().parse().unwrap()
        };
        let rects = svg.lines().filter(|line| line.starts_with("<rect") && line.contains(&fill));
        rects.filter(|line| attribute(line, "width") == BAR - 2).map(|line| attribute(line, "height")).collect()
    }

    #[test]
    fn bars_are_as_high_as_what_was_measured() {
        let results = example();
        let svg = svg(std::slice::from_ref(&results), &named(&["cublas", "v3_f16_128x128x64_s2"])).unwrap();
        let heights = bars(&svg, color(Regime::Rested));
        // In the first shape v3 takes 1.25 times as long; in the second it was wrong, and has no bar.
        assert_eq!(heights.len(), 3, "{svg}");
        assert!((f64::from(heights[0]) / f64::from(heights[1]) - 1.25).abs() < 0.01, "{heights:?}");
        let measured = results.shapes[0].arms[0].rested.as_ref().unwrap();
        let top = measured.tflops * 1.25 * 1.04;
        assert_eq!(top.max(989.4 * 1.04), top, "the example is faster than the peak");
        assert!((f64::from(heights[1]) - measured.tflops / top * f64::from(BARS)).abs() <= 1.0, "{heights:?}");
        assert_eq!(bars(&svg, color(Regime::Sustained)).len(), 2);
    }

    #[test]
    fn numbers_and_names_stand_below() {
        let svg = svg(&[example()], &Choice::default()).unwrap();
        for part in ["f16 8192×8192×8192", "peak 989", "\nv3\n", "128×128×64", "2 stages", ", 0.800"] {
            assert!(svg.contains(part), "{part:?} is missing in\n{svg}");
        }
    }

    #[test]
    fn bands_are_named() {
        let mut results = example();
        results.shapes[0].arms[0].facts.insert("entry".to_owned(), "v3_f16_128x128x64_s2".into());
        results.shapes[0].arms[0].name.push_str("@40");
        assert!(svg(&[results], &Choice::default()).unwrap().contains("\nv3@40\n"));
    }

    #[test]
    fn devices_of_unknown_peak_have_no_line() {
        let mut results = example();
        results.machine.device = String::from("NVIDIA H100 PCIe");
        assert!(!svg(&[results], &Choice::default()).unwrap().contains("peak"));
    }

    #[test]
    fn one_shape_can_be_chosen() {
        let choice = Choice { shapes: vec![(4096, 4096, 14336)], ..named(&["cublas"]) };
        let svg = svg(&[example()], &choice).unwrap();
        assert!(svg.contains("14336") && !svg.contains("8192×8192"), "{svg}");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let said = |choice: Choice| svg(&[example()], &choice).unwrap_err().to_string();
        let error = said(named(&["v9"]));
        assert!(error.contains("v9") && error.contains("v3_f16_128x128x64_s2"), "{error}");
        let error = said(Choice { shapes: vec![(1, 2, 3)], ..Choice::default() });
        assert!(error.contains("1×2×3") && error.contains("8192×8192×8192"), "{error}");
        let mut empty = example();
        empty.shapes.clear();
        assert!(svg(&[empty], &Choice::default()).is_err());
    }

    #[test]
    fn dark_ground_exchanges_every_neutral_colour() {
        let svg = svg(&[example()], &Choice::default()).unwrap();
        let style = svg.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        for (RGBColor(r, g, b), dark) in DARK {
            assert!(style.contains(&format!("fill=\"#{r:02X}{g:02X}{b:02X}\"")) && style.contains(dark), "{style}");
        }
        // Whatever is not neutral is a regime.
        let attribute =
            |line: &str| line.split_once("fill=\"").map(|(_, rest)| rest.split('"').next().unwrap().to_owned());
        let neutral = DARK.map(|(RGBColor(r, g, b), _)| format!("#{r:02X}{g:02X}{b:02X}"));
        let regimes = Regime::ALL.map(|regime| {
            let RGBColor(r, g, b) = color(regime);
            format!("#{r:02X}{g:02X}{b:02X}")
        });
        for fill in svg.lines().filter(|line| !line.starts_with('[')).filter_map(attribute) {
            assert!(fill == "none" || neutral.contains(&fill) || regimes.contains(&fill), "{fill}");
        }
    }
}
