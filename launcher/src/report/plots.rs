//! The plots, each as an SVG element to stand inside a page.
//!
//! A plot is drawn twice, for wide and for narrow screens, since text that shrinks with the picture cannot be
//! read on a phone. Colours differ in brightness too, so that a print in grey keeps them apart.

use super::axis::Axis;
use super::calendar;
use super::chain::{Comparison, drawdowns};
use super::curves::{Point, range, round_marks, thin};
use anyhow::anyhow;
use foxlaunch_shared::evaluation::Track;
use plotters::coord::Shift;
use plotters::prelude::*;

/// A plot's size and how many marks fit on its axes.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// In pixels, as are all sizes here.
    pub width: u32,
    /// The height.
    pub height: u32,
    /// Marks on the horizontal axis, at most.
    pub marks: usize,
}

/// For screens wider than a phone, and for paper.
pub const WIDE: Shape = Shape { width: 760, height: 360, marks: 8 };
/// For phones.
pub const NARROW: Shape = Shape { width: 350, height: 320, marks: 4 };

/// The policy's colour; the page's legend uses the same.
pub const POLICY: RGBColor = RGBColor(0x0b, 0x4f, 0xb3);
/// Buy-and-hold's.
pub const HOLD: RGBColor = RGBColor(0x6f, 0x6f, 0x6f);
/// Chance's.
pub const CHANCE: RGBColor = RGBColor(0xd9, 0x8a, 0x1f);
/// The folds', in order and again from the start.
pub const FOLDS: [RGBColor; 6] = [
    POLICY,
    RGBColor(0xc2, 0x4a, 0x1d),
    RGBColor(0x2f, 0x8f, 0x4e),
    RGBColor(0x8a, 0x3f, 0xa8),
    RGBColor(0x9a, 0x7a, 0x10),
    RGBColor(0x1f, 0x8a, 0x99),
];

const INK: RGBColor = RGBColor(0x44, 0x44, 0x44);
const FAINT: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
const FONT: i32 = 13;
const LEFT: u32 = 52;

type Svg<'a> = SVGBackend<'a>;
type Failure = DrawingAreaErrorKind<std::io::Error>;

/// Equity over time with drawdown below: policy, buy-and-hold and the median random policy, and at the right
/// end the range in which 90 % of random policies ended. `starts` (ns) are marked by a line each.
pub fn equity(comparison: &Comparison, starts: &[i64], shape: Shape) -> anyhow::Result<String> {
    let label = "Equity of the policy, of buy and hold and of the median random policy, with drawdown below";
    let (first, last) = span(comparison);
    // The bar that shows where chance ended stands in a margin of its own, right of the last bar.
    let end = last + 0.02 * (last - first);
    let marks = calendar::marks(first as i64, last as i64, shape.marks);
    let time = Axis::new((first, end), marks.into_iter().map(|(at, text)| (at as f64, text)));
    picture(shape, label, |root| {
        let (above, below) = root.split_vertically(shape.height * 66 / 100);
        let curves = [
            (CHANCE, 1, line(comparison, &comparison.random.median, shape)),
            (HOLD, 1, line(comparison, &comparison.buy_and_hold, shape)),
            (POLICY, 2, line(comparison, &comparison.policy, shape)),
        ];
        let [low, _, high] = comparison.random.total_return.map(|share| 1.0 + share);
        let (bottom, top) = range(curves.iter().flat_map(|c| c.2.iter().map(|p| p.1)).chain([low, high, 1.0]));
        let mut chart = chart(&above, time.silent(), numbers((bottom, top), 5), 8, 4)?;
        for start in starts {
            let x = *start as f64 / 1e9;
            chart.draw_series([PathElement::new([(x, bottom), (x, top)], INK.mix(0.45))])?;
        }
        chart.draw_series([PathElement::new([(first, 1.0), (end, 1.0)], INK.mix(0.6))])?;
        for (colour, width, points) in &curves {
            chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(*width)))?;
        }
        let ended = [(last + 0.35 * (end - last), low), (end, high)];
        chart.draw_series([Rectangle::new(ended, CHANCE.mix(0.55).filled())])?;

        let fall = |track: &Track| -> Vec<Point> {
            let falls = drawdowns(&track.equity).map(|share| -100.0 * share);
            thin(&times_of(comparison).zip(falls).collect::<Vec<_>>(), shape.width as usize / 2)
        };
        let (policy, hold) = (fall(&comparison.policy), fall(&comparison.buy_and_hold));
        let chance = fall(&comparison.random.median);
        let deepest = policy.iter().chain(&hold).chain(&chance).map(|p| p.1).fold(-1.0, f64::min) * 1.08;
        let marks = round_marks(deepest, 0.0, 3).into_iter().map(|y| (y, format!("{y:.0}%").replace("-0%", "0%")));
        let mut chart = self::chart(&below, time, Axis::new((deepest, 0.0), marks), 0, 24)?;
        chart.draw_series(AreaSeries::new(policy.iter().copied(), 0.0, POLICY.mix(0.25)).border_style(POLICY))?;
        chart.draw_series(LineSeries::new(chance.iter().copied(), CHANCE.stroke_width(1)))?;
        chart.draw_series(LineSeries::new(hold.iter().copied(), HOLD.stroke_width(1)))?;
        Ok(())
    })
}

/// Lines over updates, one for each (fold, points), with a ring at the highest point where `best` is set.
pub fn over_updates(label: &str, series: &[(u32, Vec<Point>)], best: bool, shape: Shape) -> anyhow::Result<String> {
    let shape = Shape { height: shape.height * 3 / 4, ..shape };
    let points = || series.iter().flat_map(|line| line.1.iter());
    let (bottom, top) = range(points().map(|p| p.1));
    let end = 1.01 * points().map(|p| p.0).fold(1.0, f64::max);
    picture(shape, label, |root| {
        let marks = round_marks(0.0, end, shape.marks - 1).into_iter().map(|x| (x, thousands(x)));
        let mut chart = chart(root, Axis::new((0.0, end), marks), numbers((bottom, top), 5), 8, 24)?;
        if bottom < 0.0 && top > 0.0 {
            chart.draw_series([PathElement::new([(0.0, 0.0), (end, 0.0)], INK.mix(0.6))])?;
        }
        for (fold, points) in series {
            let colour = FOLDS[*fold as usize % FOLDS.len()];
            let drawn = thin(points, shape.width as usize / 2);
            chart.draw_series(LineSeries::new(drawn, colour.stroke_width(if best { 2 } else { 1 })))?;
            if let Some(top) = points.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| best) {
                chart.draw_series([Circle::new(*top, 5, colour.stroke_width(2))])?;
            }
        }
        Ok(())
    })
}

/// An empty chart with its mesh drawn; `above` and `below` are the room over and under it.
fn chart<'a, 'b>(
    area: &'a DrawingArea<Svg<'b>, Shift>,
    x: Axis,
    y: Axis,
    above: u32,
    below: u32,
) -> Result<ChartContext<'a, Svg<'b>, Cartesian2d<Axis, Axis>>, Failure> {
    let mut chart = ChartBuilder::on(area)
        .margin_top(above)
        .margin_right(12)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, below)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK.mix(0.5))
        .label_style(("sans-serif", FONT).into_font().color(&INK))
        .draw()?;
    Ok(chart)
}

/// An axis with about `most` round numbers, each with as many digits as tell it from its neighbour.
fn numbers(range: (f64, f64), most: usize) -> Axis {
    let marks = round_marks(range.0, range.1, most);
    let step = marks.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let tells = |digits: &usize| {
        let scaled = step * 10f64.powi(*digits as i32);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0) && scaled.round() >= 1.0
    };
    let digits = if step.is_finite() { (0..9).find(tells).unwrap_or(9) } else { 3 };
    Axis::new(range, marks.into_iter().map(|mark| (mark, format!("{mark:.digits$}"))))
}

/// `2500` as `2500`, `40000` as `40k`, `1500000` as `1.5M`.
fn thousands(x: f64) -> String {
    let (value, unit) = match x {
        x if x >= 1e6 => (x / 1e6, "M"),
        x if x >= 1e4 => (x / 1e3, "k"),
        x => (x, ""),
    };
    let text = format!("{value:.1}");
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// Seconds since 1970 of the point before the first bar (one bar earlier) and of every bar.
fn times_of(comparison: &Comparison) -> impl Iterator<Item = f64> {
    let times = &comparison.times_ns;
    let first = times.first().copied().unwrap_or(0);
    let before = first.saturating_sub(times.get(1).map_or(0, |second| second.saturating_sub(first)));
    std::iter::once(before).chain(times.iter().copied()).map(|ns| ns as f64 / 1e9)
}

/// The first and the last of [`times_of`], never the same.
fn span(comparison: &Comparison) -> (f64, f64) {
    let first = times_of(comparison).next().unwrap_or(0.0);
    let last = comparison.times_ns.last().map_or(first, |ns| *ns as f64 / 1e9);
    (first, last.max(first + 60.0))
}

fn line(comparison: &Comparison, track: &Track, shape: Shape) -> Vec<Point> {
    let points: Vec<Point> = times_of(comparison).zip(track.equity.iter().copied()).collect();
    thin(&points, shape.width as usize / 2)
}

/// Draws into an SVG element that scales with the page, has a text for who cannot see it, and names no address.
fn picture(
    shape: Shape,
    label: &str,
    draw: impl FnOnce(&DrawingArea<Svg<'_>, Shift>) -> Result<(), Failure>,
) -> anyhow::Result<String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (shape.width, shape.height)).into_drawing_area();
        draw(&root).and_then(|()| root.present()).map_err(|error| anyhow!("a plot cannot be drawn: {error}"))?;
    }
    let (_, body) = text.split_once('>').ok_or_else(|| anyhow!("a plot came out empty"))?;
    let label = super::render::escape(label);
    Ok(format!("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{label}\">{body}", shape.width, shape.height))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_plot_is_one_element_without_addresses() {
        let comparison = Comparison::of(&sample::fold(0, &sample::wave(300, 0.0, 0.0)));
        let svg = equity(&comparison, &[], WIDE).expect("a plot");
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("http"), "an address");
        assert!(svg.contains("\n2006-04\n"), "a time mark");
    }

    #[test]
    fn odd_results_are_drawn_too() {
        let one_bar = Comparison::of(&sample::fold(0, &[1.0, 1.0]));
        equity(&one_bar, &[one_bar.test.first_ns], NARROW).expect("a single bar");
        let mut ruined = Comparison::of(&sample::fold(0, &[1.0, 0.5, 0.0]));
        ruined.random.total_return = [-1.0, -1.0, -1.0];
        equity(&ruined, &[], WIDE).expect("nothing left");
        over_updates("loss", &[], false, WIDE).expect("no line");
        over_updates("loss", &[(7, vec![(1.0, 2.0)])], true, NARROW).expect("one point");
    }

    #[test]
    fn a_long_curve_is_thinned() {
        let comparison = Comparison::of(&sample::fold(0, &sample::wave(50_000, 0.0, 0.0)));
        let svg = equity(&comparison, &[], WIDE).expect("a plot");
        assert!(svg.len() < 100_000, "{} bytes", svg.len());
    }

    #[test]
    fn large_numbers_are_short() {
        assert_eq!(
            ["0", "500", "2500", "40k", "1.5M"],
            [0.0, 500.0, 2500.0, 40_000.0, 1.5e6].map(thousands).each_ref().map(String::as_str)
        );
    }
}
