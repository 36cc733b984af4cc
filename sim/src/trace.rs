//! What each warp, the copy engine and the tensor cores do when, as spans of time.

use crate::cluster::{Cluster, Stage, Transfer, What};
use crate::exec::Site;
use crate::launch::Options;
use crate::warp::Wait;

/// Who acts in a span.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Track {
    /// A warp of a block: rank in the cluster, warp.
    Warp(usize, usize),
    /// The copy engine of a block: rank.
    Copies(usize),
    /// The tensor cores of a block: rank.
    TensorCores(usize),
}

/// A span of time in which one thing goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Cluster of the grid.
    pub cluster: u64,
    /// Who.
    pub track: Track,
    /// What: `wait full[0]`, `load A[1]`, `wgmma`.
    pub name: String,
    /// First cycle.
    pub start: u64,
    /// The cycle after the last.
    pub end: u64,
    /// PTX line.
    pub line: u32,
}

impl Cluster<'_> {
    pub(crate) fn span_wait(&mut self, b: usize, w: usize, start: u64, end: u64, pc: u32, wait: Wait) {
        let name = match wait {
            Wait::None => return,
            Wait::Mbarrier { block, address, .. } => format!("wait {}", self.name(block, address)),
            Wait::Named { id, .. } => format!("wait bar {id}"),
            Wait::Cluster { .. } => "wait cluster".to_string(),
            Wait::Wgmma { .. } => "wait wgmma".to_string(),
            Wait::Bulk { .. } => "wait store".to_string(),
            Wait::Warp { .. } => "wait warp".to_string(),
            Wait::Registers { .. } => "wait registers".to_string(),
        };
        self.span(Track::Warp(b, w), name, start, end, pc);
    }

    /// Threads leave: the warp's life so far.
    pub(crate) fn span_end(&mut self, site: Site) {
        if self.spans.is_some() {
            let end = self.path(site).time;
            self.span(Track::Warp(site.b, site.w), "runs".to_string(), 0, end, site.pc);
        }
    }

    pub(crate) fn span_transfer(&mut self, transfer: &Transfer, end: u64) {
        if self.spans.is_some() {
            let verb = if transfer.stage == Stage::Load { "load" } else { "store" };
            let name = match transfer.issued.what {
                What::CopyIn { block, address, .. } => format!("{verb} {}", self.name(block, address)),
                _ => format!("{verb} {}", self.name(transfer.block, transfer.address)),
            };
            self.span(Track::Copies(transfer.block), name, transfer.start, end, transfer.issued.pc);
        }
    }

    pub(crate) fn span_wgmma(&mut self, b: usize, group: usize, start: u64, end: u64, pc: u32) {
        if self.spans.is_some() {
            let name =
                if self.blocks[b].groups.len() > 1 { format!("wgmma group {group}") } else { "wgmma".to_string() };
            self.span(Track::TensorCores(b), name, start, end, pc);
        }
    }

    fn span(&mut self, track: Track, name: String, start: u64, end: u64, pc: u32) {
        let (cluster, line) = (self.id, self.cx.program.line(pc));
        if let Some(spans) = &mut self.spans {
            spans.push(Span { cluster, track, name, start, end, line });
        }
    }
}

/// Tracks of a trace in the order in which they are shown: by block, warps first.
fn tracks(spans: &[Span]) -> Vec<(u64, Track)> {
    let block = |track: Track| match track {
        Track::Warp(rank, _) | Track::Copies(rank) | Track::TensorCores(rank) => rank,
    };
    let mut all: Vec<(u64, Track)> = spans.iter().map(|span| (span.cluster, span.track)).collect();
    all.sort_by_key(|&(cluster, track)| (cluster, block(track), track));
    all.dedup();
    all
}

impl Track {
    /// A name for people, with the roles that `options` give to warps.
    fn name(self, options: &Options) -> String {
        match self {
            Track::Warp(_, warp) => options.warp(warp),
            Track::Copies(_) => "TMA".to_string(),
            Track::TensorCores(_) => "tensor cores".to_string(),
        }
    }

    /// Rank of the block in its cluster.
    pub const fn rank(self) -> usize {
        match self {
            Track::Warp(rank, _) | Track::Copies(rank) | Track::TensorCores(rank) => rank,
        }
    }
}

/// A word for colouring: what kind of thing a span is.
fn class(span: &Span) -> &'static str {
    match (span.track, span.name.split(' ').next()) {
        _ if span.name == "wait wgmma" => "computes",
        (_, Some("wait")) => "wait",
        (Track::Copies(_), Some("store")) => "store",
        (Track::Copies(_), _) => "load",
        (Track::TensorCores(_), _) => "wgmma",
        _ => "runs",
    }
}

/// A name without the characters that JSON escapes; only those that users give have any.
fn in_json(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '"' | '\\') && !c.is_control()).collect()
}

/// The spans as a trace that Perfetto and Chrome open: JSON in the Trace Event Format, one cycle shown as
/// one microsecond. A cluster's block is a process, a track a thread.
pub fn to_json(spans: &[Span], options: &Options) -> String {
    let tracks = tracks(spans);
    let ranks = spans.iter().map(|span| span.track.rank()).max().unwrap_or(0) as u64 + 1;
    let mut events = Vec::new();
    for (thread, (cluster, track)) in tracks.iter().enumerate() {
        let process = cluster * ranks + track.rank() as u64;
        events.push(format!(
            r#"{{"ph":"M","name":"process_name","pid":{process},"args":{{"name":"cluster {cluster}, block {}"}}}}"#,
            track.rank()
        ));
        events.push(format!(
            r#"{{"ph":"M","name":"thread_name","pid":{process},"tid":{thread},"args":{{"name":"{}"}}}}"#,
            in_json(&track.name(options))
        ));
    }
    for span in spans {
        let at = (span.cluster, span.track);
        let Some(thread) = tracks.iter().position(|&track| track == at) else { continue };
        let process = span.cluster * ranks + span.track.rank() as u64;
        let name = in_json(&span.name);
        events.push(format!(
            r#"{{"ph":"X","name":"{name}","cat":"{}","pid":{process},"tid":{thread},"ts":{},"dur":{},"args":{{"ptx line":{}}}}}"#,
            class(span),
            span.start,
            span.end.saturating_sub(span.start),
            span.line
        ));
    }
    format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", events.join(",\n"))
}

/// Width of the part of a picture that shows time, in pixels.
const WIDTH: f64 = 720.0;
/// Height of a track.
const ROW: u64 = 22;
/// Width of the names on the left.
const MARGIN: u64 = 130;
/// What the classes of spans mean.
const LEGEND: [(&str, &str); 6] = [
    ("runs", "runs"),
    ("wait", "waits for data or a barrier"),
    ("computes", "waits for its wgmma"),
    ("load", "load in flight"),
    ("store", "store in flight"),
    ("wgmma", "wgmma"),
];

/// The spans as a picture: one row a track, time to the right. It brings its own ground, light or dark as the page
/// around it asks for.
pub fn to_svg(spans: &[Span], options: &Options, title: &str) -> String {
    let tracks = tracks(spans);
    let end = spans.iter().map(|span| span.end).max().unwrap_or(1).max(1);
    let scale = WIDTH / end as f64;
    let height = 40 + tracks.len() as u64 * ROW + 66;
    let width = MARGIN + WIDTH as u64 + 30;
    let escape =
        |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let mut out = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">
<style>
.paper {{ fill: #fff; }} text {{ fill: #222; }} .axis {{ stroke: #888; }} .back {{ fill: #8883; }}
.wait {{ fill: #ecdca8; }} .computes {{ fill: #e5a3ad; }} .runs {{ fill: #8899aa; }} .load {{ fill: #2a9d8f; }}
.store {{ fill: #9b5de5; }} .wgmma {{ fill: #d1495b; }}
@media (prefers-color-scheme: dark) {{ .paper {{ fill: #1b1e24; }} text {{ fill: #ddd; }} }}
</style>
<rect class="paper" width="{width}" height="{height}"/>
<text x="4" y="16" font-size="14">{}</text>
"##,
        escape(title)
    );
    for (row, (cluster, track)) in tracks.iter().enumerate() {
        let y = 30 + row as u64 * ROW;
        let several = tracks.iter().any(|other| (other.0, other.1.rank()) != (*cluster, track.rank()));
        let name = escape(&track.name(options));
        let name = if several { format!("{cluster}.{} {name}", track.rank()) } else { name };
        out.push_str(&format!(
            "<text x=\"4\" y=\"{}\">{name}</text><rect class=\"back\" x=\"{MARGIN}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{}\"/>\n",
            y + 14,
            ROW - 4
        ));
        let mut mine: Vec<&Span> =
            spans.iter().filter(|span| (span.cluster, span.track) == (*cluster, *track)).collect();
        // A warp's life lies behind its waits.
        mine.sort_by_key(|span| (class(span) != "runs", span.start));
        // Copies overlap: those that start while another runs share the row's height.
        let mut lanes: Vec<u64> = Vec::new();
        let placed: Vec<(usize, &Span)> = mine
            .into_iter()
            .map(|span| {
                if !matches!(span.track, Track::Copies(_)) {
                    return (0, span);
                }
                let lane = lanes.iter().position(|&busy| busy <= span.start).unwrap_or(lanes.len());
                if lane == lanes.len() {
                    lanes.push(0);
                }
                lanes[lane] = span.end;
                (lane, span)
            })
            .collect();
        let share = (ROW - 4) as f64 / lanes.len().max(1) as f64;
        for (lane, span) in placed {
            let x = MARGIN as f64 + span.start as f64 * scale;
            let wide = ((span.end.saturating_sub(span.start)) as f64 * scale).max(0.5);
            out.push_str(&format!(
                "<rect class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{share:.1}\"><title>{}: {}–{}</title></rect>\n",
                class(span),
                y as f64 + lane as f64 * share,
                escape(&span.name),
                span.start,
                span.end
            ));
        }
    }
    let base = 30 + tracks.len() as u64 * ROW + 6;
    for tick in 0..=10u64 {
        let x = MARGIN as f64 + WIDTH * tick as f64 / 10.0;
        out.push_str(&format!(
            "<line class=\"axis\" x1=\"{x:.1}\" y1=\"{base}\" x2=\"{x:.1}\" y2=\"{}\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            base + 4,
            base + 16,
            end * tick / 10
        ));
    }
    out.push_str(&format!("<text x=\"4\" y=\"{}\">cycles (a model)</text>\n", base + 16));
    for (i, (name, words)) in (0..).zip(LEGEND) {
        let (x, y) = (MARGIN + i % 3 * 240, base + 32 + i / 3 * 18);
        out.push_str(&format!(
            "<rect class=\"{name}\" x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\"/><text x=\"{}\" y=\"{y}\">{words}</text>\n",
            y - 9,
            x + 15,
        ));
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Role;

    #[test]
    fn pictures_hold_every_span() {
        let span =
            |track, name: &str, start, end| Span { cluster: 0, track, name: name.to_string(), start, end, line: 7 };
        let role = Role { name: "the \"producer\"".to_string(), warps: 4..5 };
        let options = Options { roles: vec![role], ..Options::default() };
        let spans = [
            span(Track::Warp(0, 4), "runs", 0, 100),
            span(Track::Warp(0, 4), "wait full[0]", 10, 60),
            span(Track::Copies(0), "load A[0]", 5, 60),
            span(Track::Copies(0), "load B<0>", 6, 61),
            span(Track::TensorCores(0), "wgmma", 60, 92),
        ];
        let svg = to_svg(&spans, &options, "a & b");
        assert_eq!(svg.matches("<title>").count(), spans.len());
        assert!(svg.contains("a &amp; b") && svg.contains("B&lt;0&gt;"));
        assert!(svg.contains("warp 4 (the &quot;producer&quot;)"));
        let json = to_json(&spans, &options);
        assert_eq!(json.matches("\"ph\":\"X\"").count(), spans.len());
        assert_eq!(json.matches("thread_name").count(), 3);
        assert!(json.contains("warp 4 (the producer)"));
    }
}
